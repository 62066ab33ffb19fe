"""A browser, and a dashboard in its own process."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from processes import PATIENCE

# If this is set, as in CI, the tests do not skip if the browser is missing.
GIVEN = os.environ.get("FARTHING_TEST_BROWSER")
BROWSER = GIVEN or shutil.which("chromium")
FARTHING = (sys.executable, "-c", "from farthing.cli import main; main()")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="module")
def browser():
    """One browser for all tests of a file; asyncio.run cannot be called while it is open."""
    if BROWSER is None:
        pytest.skip("there is no chromium on the PATH, nor in FARTHING_TEST_BROWSER")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=BROWSER, args=list(FLAGS), timeout=1000 * PATIENCE
        )
        yield opened
        opened.close()


class Page:
    """A page and all its errors."""

    def __init__(self, page):
        self.page, self.errors = page, []
        page.set_default_timeout(1000 * PATIENCE)
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: (self.errors.append(dialog.message), dialog.dismiss()))


@pytest.fixture
def tab(browser):
    """`tab(width=..., dark=...)`: a new page in a new profile."""
    contexts = []

    def make(width=1300, *, dark=False, **more):
        scheme = "dark" if dark else "light"
        viewport = {"width": width, "height": 900}
        context = browser.new_context(viewport=viewport, color_scheme=scheme, **more)
        contexts.append(context)
        return Page(context.new_page())

    yield make
    for context in contexts:
        context.close()


@contextmanager
def served(url, *options):
    """Run `farthing dashboard URL`; yields the address to open."""
    command = [*FARTHING, "dashboard", str(url), *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        found = re.fullmatch(r"Open (http://127\.0\.0\.1:\d+/\?token=[\w-]+)\n", line)
        assert found, line + server.stderr.read()
        yield found[1]
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=PATIENCE)


@pytest.fixture(scope="session")
def dashboard():
    return served

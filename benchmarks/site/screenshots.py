"""The pictures of docs/seeing.md, and the loading times of the pages.

    python -m benchmarks.site.screenshots

A temporary folder gets two studies: a simulated training (four workers, failures, kills, learning
curves) and one with 20,000 trials. `farthing dashboard` and `farthing report` show them, and
Chromium takes the pictures.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import numpy as np

from farthing import Categorical, Float, Int, Study
from farthing.core.events import Added
from farthing.core.outcomes import external_trial
from farthing.stopping import NotWorthIt

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "seeing"
FARTHING = (sys.executable, "-c", "from farthing.cli import main; main()")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
SPACE = {
    "rate": Float(1e-4, 1e-1, log=True),
    "width": Int(16, 512, log=True),
    "solver": Categorical(["sgd", "adam"]),
    "momentum": Float(0, 0.99, when={"solver": "sgd"}),
}
MANY = 20_000


def error_of(params: dict[str, Any], epochs: int) -> float:
    """A validation error that decreases with training, and a little with width."""
    off = (math.log10(params["rate"]) + 2.3) ** 2 / 4
    best = 0.02 + 0.12 * off + 0.25 / math.sqrt(params["width"])
    best += 0.015 if params["solver"] == "sgd" else 0.0
    best -= 0.02 * params.get("momentum", 0.0)
    return best + 0.4 * math.exp(-epochs / 4)


def make_training(url: str) -> None:
    """A study of four workers, in which some trials fail and some are killed."""
    study = Study.create(
        url,
        name="digits",
        space=SPACE,
        budget={"usd": 60, "kWh": 24},
        worth=0.0005,
        stop=NotWorthIt(),
    )
    rng = np.random.default_rng(1)
    running: list[Any] = []
    for k in range(44):
        while len(running) < 4:  # one per worker
            place = next(w for w in range(4) if w not in [where for where, _ in running])
            running.append((place, study.ask(anyway=True, worker=f"node-{place}:1", lease=600)))
        _, trial = running.pop(int(rng.integers(2)))
        price = 0.05 + 0.002 * trial.params["width"] * float(np.exp(0.2 * rng.standard_normal()))
        progress = [
            {"step": e, "value": error_of(trial.params, e), "cost": {"usd": price * e / 20}}
            for e in range(1, 21)
        ]
        paid = {"usd": price, "kWh": 0.4 * price}
        study.renew(trial, lease=600, cost={}, ahead={}, reports=progress)
        if k in (4, 17, 30):
            study.tell(trial, failed="CUDA out of memory", cost={"usd": 0.1, "kWh": 0.04})
        elif k == 23:
            study.tell(trial, killed=True, cost=paid)
        else:
            study.tell(trial, error_of(trial.params, 20), cost=paid)
    study.close()


def make_many(url: str, name: str = "many", count: int = MANY) -> None:
    """A study with many trials."""
    study = Study.create(url, name=name, space=SPACE, budget="$1e6")
    settings, rng = study.facts[0], np.random.default_rng(0)
    trials = []
    for x in study.space.sample(count, rng):
        params = study.space.decode(x)
        value = error_of(params, 20) + 0.01 * float(rng.standard_normal())
        made = external_trial(settings, params, "done", value, cost=0.05 + 0.002 * params["width"])
        trials.append(replace(made, because="most improvement per cost", origin="suggested"))
    study.commit(Added(tuple(trials)))
    study.close()


@contextmanager
def served(url: str, *options: str) -> Iterator[str]:
    """Start the dashboard in its own process and return its address."""
    server = subprocess.Popen(
        [*FARTHING, "dashboard", url, *options], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[1]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def photograph(browser: Any, folder: Path) -> dict[str, float]:
    url = str(folder / "studies.db")
    make_training(url)
    make_many(url)
    make_many(url, "thousand", 1000)
    empty = Study.create(url, name="empty", space=SPACE, budget="2h")
    empty.close()
    found: dict[str, float] = {}
    report = folder / "report.html"
    for name in ("thousand", "digits"):
        study = Study.open(url, name)
        found[f"bytes_of_the_report_of_{name}"] = len(study.report(report).encode())
        study.close()
    page = browser.new_page(viewport={"width": 1300, "height": 1750})
    page.goto(f"file://{report}")
    page.screenshot(path=PICTURES / "report.png")
    with served(url, "--allow-changes") as address:
        for name, study_name, width, scheme in (
            ("dashboard", "digits", 1300, "light"),
            ("dashboard-dark", "digits", 1300, "dark"),
            ("dashboard-phone", "digits", 390, "light"),
            ("dashboard-empty", "empty", 900, "light"),
            ("dashboard-many", "many", 1300, "light"),
        ):
            height = 700 if study_name == "empty" else 1100
            viewport = {"width": width, "height": height}
            page = browser.new_page(viewport=viewport, color_scheme=scheme)
            page.goto(address)
            page.goto(urljoin(page.url, f"study?name={study_name}"))
            page.wait_for_selector("[data-part=quick] figure")
            if study_name == "many":
                paints = page.evaluate("performance.getEntriesByType('paint')[0].startTime")
                found["first_paint_ms_of_20000_trials"] = paints
                figures = page.evaluate("performance.now()")
                found["figures_ms_of_20000_trials"] = figures
            page.screenshot(path=PICTURES / f"{name}.png")
            page.close()
        page = browser.new_page(viewport={"width": 1300, "height": 1100})
        page.goto(address)
        page.goto(urljoin(page.url, "trial?name=digits&number=12"))
        page.wait_for_selector("[data-part=explanation] figure", timeout=60_000)
        page.screenshot(path=PICTURES / "trial.png")
        page.goto(urljoin(page.url, "study?name=digits"))
        page.wait_for_selector("[data-part=trials] tbody a")
        found["new_trial_seen_s"] = _until_seen(page, url)
    return {name: round(value, 2) for name, value in found.items()}


def _until_seen(page: Any, url: str) -> float:
    """Seconds from the tell of a trial to its line on the page."""
    study = Study.open(url, "digits")
    trial = study.ask(anyway=True)
    begun = time.monotonic()
    study.tell(trial, 0.5, cost={"usd": 0.1, "kWh": 0.04})
    page.wait_for_selector(f"[data-part=trials] tr:has(a:text-is('{trial.number}')) .state.done")
    study.close()
    return time.monotonic() - begun


def main() -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("There is no chromium on the PATH: apt-get install chromium.")
    PICTURES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        found = photograph(browser, Path(folder))
        browser.close()
    print(json.dumps(found, indent=2))
    text = (PICTURES.parent / "seeing.md").read_text("utf-8")
    shown = set(re.findall(r"\(seeing/([\w-]+\.png)\)", text))
    unused = {path.name for path in PICTURES.glob("*.png")} - shown
    assert not unused, f"docs/seeing.md does not show {unused}"


if __name__ == "__main__":
    main()

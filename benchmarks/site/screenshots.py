"""The pictures of docs/seeing.md, and the loading times of the pages.

    python -m benchmarks.site.screenshots

A temporary folder gets a simulated training (four workers, failures, kills, learning curves) and a
study with 50,000 trials. `farthing dashboard` and `farthing report` show them, and Chromium takes
the pictures.
"""

from __future__ import annotations

import io
import json
import math
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin

import numpy as np
from PIL import Image, ImageColor

from farthing import Categorical, Float, Int, Study
from farthing.core.events import Added
from farthing.core.outcomes import external_trial
from farthing.policies import Random
from farthing.stopping import NotWorthIt
from farthing.view.primitives import STYLES
from farthing.view.progress import notebook_view

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
MANY = 50_000
VIEWS = ((1300, "light"), (1300, "dark"), (390, "light"), (390, "dark"))
TABS = {  # and what is drawn last
    "trials": ".trials tbody tr[data-row]",
    "parameters": "[data-figure=slice] canvas",
    "costs": "[data-figure=predictions] canvas",
    "running": "[data-figure=learning] canvas",
    "stopping": "[data-figure=prospect] canvas",
    "settings": "#tab table",
}
MOST_PIXELS = 900
COLOURS = 128  # of a picture, besides those that are kept
KEPT = {"#ffffff", "#f7f8fa", *(hue for style in STYLES.values() for hue in style[:2])}


def error_of(params: dict[str, Any], epochs: int) -> float:
    """A validation error that decreases with training, and a little with width."""
    off = (math.log10(params["rate"]) + 2.3) ** 2 / 4
    best = 0.02 + 0.12 * off + 0.25 / math.sqrt(params["width"])
    best += 0.015 if params["solver"] == "sgd" else 0.0
    best -= 0.02 * params.get("momentum", 0.0)
    return best + 0.4 * math.exp(-epochs / 4)


def make_training(url: str, name: str = "digits", **settings: Any) -> None:
    """A study of four workers, in which some trials fail and some are killed."""
    study = Study.create(
        url,
        name=name,
        space=SPACE,
        **settings,
        budget={"usd": 60, "kWh": 24},
        worth=0.0005,
        max_cost={"usd": 3, "kWh": 1.2},  # so that four trials fit from the start
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
    for part, (_, trial) in zip((0.8, 0.5, 0.3), running, strict=True):
        _keep_running(study, trial, part)
    study.close()


def _keep_running(study: Study, trial: Any, part: float) -> None:
    """A trial that has run a part of its epochs, with what it has printed."""
    epochs = [
        {"step": e, "value": error_of(trial.params, e), "cost": {"usd": part * e / 20}}
        for e in range(1, round(20 * part) + 1)
    ]
    paid = {name: part * amount for name, amount in trial.predicted.items()}
    study.renew(trial, lease=3600, cost=paid, ahead={}, reports=epochs)
    lines = (f"epoch {each['step']:2} of 20  error {each['value']:.4f}" for each in epochs)
    study.logs.mkdir(parents=True, exist_ok=True)
    (study.logs / f"{trial.number}.log").write_text("\n".join(lines) + "\n")


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
def served(url: str, *options: str) -> Iterator[tuple[str, int]]:
    """Start the dashboard in its own process; yields its address and the number of the process."""
    file = Path(url)  # the page shows the name as it was given
    command = [*FARTHING, "dashboard", file.name, *options]
    server = subprocess.Popen(command, cwd=file.parent, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[1], server.pid
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def photograph(browser: Any, folder: Path) -> dict[str, float]:
    url = str(folder / "studies.db")
    make_training(url)
    make_training(url, "digits, random search", policy=Random())
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
    notebook = folder / "notebook.html"
    notebook.write_text(notebook_page(url), "utf-8")
    for name in ("thousand", "digits"):
        study = Study.open(url, name)
        found[f"bytes_of_the_notebook_output_of_{name}"] = len(study._repr_html_().encode())
        study.close()
    with served(url) as (address, _):
        for width, scheme in VIEWS:
            page = opened(browser, width, scheme)
            page.goto(f"file://{report}")
            page.wait_for_selector("#curve canvas")
            keep(page, f"report-{width}-{scheme}")
            page.goto(f"file://{notebook}")
            for frame in page.frames[1:]:
                frame.wait_for_selector("#curve canvas")
            keep(page, f"notebook-{width}-{scheme}")
            page.goto(address)
            page.wait_for_selector(".spark")
            if (width, scheme) == VIEWS[0]:
                page.check("input[aria-label='compare digits']")
                page.check("input[aria-label='compare digits, random search']")
                page.wait_for_selector("[data-figure=comparison] canvas")
                keep(page, "studies")
            for tab, ready in TABS.items():
                page.goto(study_at(page, "digits", tab=tab))
                page.wait_for_selector("#curve canvas")
                page.wait_for_selector(ready, timeout=120_000)
                page.wait_for_selector("#key-figures:not(:has-text('being fitted'))")
                page.wait_for_selector("#tab:not(:has-text('being fitted'))", timeout=120_000)
                page.mouse.move(0, 0)
                if tab == "trials":
                    keep(page, f"trials-{width}-{scheme}")
                else:
                    below = page.locator("main > .sheet").last
                    keep(below, f"{tab}-{width}-{scheme}", most=MOST_PIXELS)
            page.close()
        page = opened(browser, *VIEWS[0])
        page.goto(address)
        page.goto(study_at(page, "digits", trial=12, compare="12,20"))
        page.wait_for_selector("[data-part=why] canvas", timeout=60_000)
        keep(page, "trial")
        page.goto(study_at(page, "empty"))
        page.wait_for_selector("text=No trial has ended yet.")
        page.wait_for_selector("#key-figures:not(:has-text('being fitted'))")
        keep(page, "empty")
        page.goto(study_at(page, "many"))
        page.wait_for_selector(".trials tbody tr[data-row]")
        keep(page, "many")
    return {name: round(value, 2) for name, value in found.items()}


def notebook_page(url: str) -> str:
    """Two cells of a notebook with their outputs: progress, and a study."""
    study = Study.open(url, "digits")
    look = (
        "body{color-scheme:light dark;margin:16px;font:14px system-ui,sans-serif;background:Canvas;"
        "color:CanvasText}.in{font:13px ui-monospace,monospace;background:#8882;padding:8px 12px;"
        "white-space:pre-wrap;margin:12px 0;border-radius:4px}img{max-width:100%}"
    )
    cells = {
        'study = Study.open("tune.db", "digits")\nstudy': study._repr_html_(),
        "minimize(train, space, budget, progress=True)  # while it runs": notebook_view(study),
    }
    study.close()
    body = "".join(f"<div class='in'>{escape(code)}</div>{out}" for code, out in cells.items())
    return (
        "<!doctype html><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<style>{look}</style>{body}"
    )


def opened(browser: Any, width: int, scheme: str) -> Any:
    return browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)


def study_at(page: Any, name: str, **query: object) -> str:
    """The address of a study in the folder of the page that is open."""
    return urljoin(page.url, f"study?{urlencode({'name': name, **query})}")


def keep(shown: Any, name: str, most: int | None = None) -> None:
    """Write a picture with few colours, which makes it small; cut it below `most` pixels.

    The colours of layers stay as they are, also if only a few marks have one.
    """
    picture = Image.open(io.BytesIO(shown.screenshot()))
    if most is not None:
        picture = picture.crop((0, 0, picture.width, min(picture.height, most)))
    whole = picture.convert("RGB")
    colours = whole.quantize(COLOURS).getpalette()[: 3 * COLOURS]
    for hue in KEPT:
        colours += ImageColor.getrgb(hue)
    palette = Image.new("P", (1, 1))
    palette.putpalette(colours)
    few = whole.quantize(palette=palette, dither=Image.Dither.NONE)
    few.save(PICTURES / f"{name}.png", optimize=True)


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("There is no chromium on the PATH: apt-get install chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        found = photograph(browser, Path(folder))
    print(json.dumps(found, indent=2))
    text = (PICTURES.parent / "seeing.md").read_text("utf-8")
    shown = set(re.findall(r"\(seeing/([\w-]+\.png)\)", text))
    unused = {path.name for path in PICTURES.glob("*.png")} - shown
    assert not unused, f"docs/seeing.md does not show {unused}"


if __name__ == "__main__":
    main()

"""How quickly the dashboard shows a study with 50,000 trials, and what that takes.

    python -m benchmarks.site.page_times

It measures the first paint (the page, before it has the trials), the table (with them: the first
time the server also reads the study), sorting, the memory of the browser, the time from the commit
of a new trial until its row is in the table, and the CPU time of the server while nothing changes.
The times are only meaningful on an idle machine.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.site.screenshots import MANY, VIEWS, chromium, make_many, opened, served, study_at
from farthing import Study

NEW = 7  # trials that are committed while the page is open
IDLE = 30.0  # seconds for which the server is watched
ROW = ".trials tbody tr[data-row]"


def first_paint(page: Any) -> dict[str, float]:
    page.goto(study_at(page, "many"))
    page.wait_for_selector(ROW)
    paint = page.evaluate("performance.getEntriesByType('paint')[0].startTime")
    found = {"first_paint_ms": paint, "table_ms": page.evaluate("performance.now()")}
    page.reload()  # the server has read the study
    page.wait_for_selector(ROW)
    return {**found, "table_again_ms": page.evaluate("performance.now()")}


def sorting(page: Any, session: Any) -> dict[str, float]:
    """CPU time of the page for sorting all rows by a number and by a text."""
    found = {}
    for column in ("value", "solver"):
        before = busy(session)
        page.click(f"button.sort[title={column}]")
        page.wait_for_selector(f"th[aria-sort=ascending] button[title={column}]")
        found[f"sort_by_{column}_ms_of_the_main_thread"] = 1e3 * (busy(session) - before)
    return found


def busy(session: Any) -> float:
    """CPU seconds of the main thread of a page."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


def new_trials(page: Any, session: Any, url: str) -> dict[str, float]:
    """Seconds from the commit of a trial until the page shows it, and CPU time of the page."""
    study, seconds, cpu = Study.open(url, "many"), list[float](), list[float]()
    for _ in range(NEW):
        trial = study.ask(anyway=True)
        page.wait_for_selector(f".trials tr[data-row='{trial.number}'] .state.running")
        before = busy(session)
        study.tell(trial, 0.5, cost=0.1)
        begun = time.monotonic()
        page.wait_for_selector(f".trials tr[data-row='{trial.number}'] .state.done")
        seconds.append(time.monotonic() - begun)
        cpu.append(busy(session) - before)
    study.close()
    return {
        "new_trial_seen_s_median": statistics.median(seconds),
        "new_trial_seen_s_most": max(seconds),
        "new_trial_ms_of_the_main_thread_median": 1e3 * statistics.median(cpu),
    }


def memory(session: Any) -> dict[str, float]:
    """The heap of the page after a garbage collection, and all memory that is its own."""
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"]
    renderers = [
        process.memory_full_info().uss
        for process in psutil.Process().children(recursive=True)
        if process.status() != psutil.STATUS_ZOMBIE and "--type=renderer" in process.cmdline()
    ]
    return {"heap_mb": heap / 1e6, "largest_renderer_mb": max(renderers) / 1e6}


def idle(page: Any, server: int) -> dict[str, float]:
    """The share of a core that the server uses while a page is open and nothing changes."""
    process = psutil.Process(server)

    def used() -> float:
        return sum(process.cpu_times()[:2])

    page.goto(study_at(page, "many", tab="stopping"))
    page.wait_for_selector("[data-figure=prospect] canvas")  # the last figure from the models
    page.wait_for_selector("#tab:not(:has-text('being '))")
    before, begun = used(), time.monotonic()
    time.sleep(IDLE)
    return {"idle_server_percent_of_a_core": 100 * (used() - before) / (time.monotonic() - begun)}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        url = str(Path(folder) / "studies.db")
        make_many(url)
        with served(url) as (address, server):
            page = opened(browser, *VIEWS[0])
            page.set_default_timeout(300_000)
            page.goto(address)
            found = first_paint(page)
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            found |= sorting(page, session)
            page.goto(study_at(page, "many"))
            page.wait_for_selector(ROW)
            found |= new_trials(page, session, url)
            found |= memory(session)
        with served(url) as (address, server):  # a new one, which computes its figures at once
            page.goto(address)
            found |= idle(page, server)
    rounded = {name: round(value, 2) for name, value in found.items()}
    print(json.dumps({"trials": MANY, **rounded}, indent=2))


if __name__ == "__main__":
    main()

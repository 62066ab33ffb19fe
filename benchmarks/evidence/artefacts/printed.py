"""The runs of an artefact of a paper: of one source, as printed, and Farthing's version of them.

of one source   runs of the present source; if there are none and no more are made, those of the
                older source that has most. Runs of two sources are never compared.
as printed      methods by names such as `paper:EI` (benchmarks/paper.py)
Farthing's      the same methods as the library has them, where such runs exist
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from benchmarks import peers
from benchmarks.evidence.artefacts.artefact import Json, Settings
from benchmarks.evidence.replay import Job, Run, carry_out, missing_of, same_decisions, source
from benchmarks.paper import PREFIX
from benchmarks.problems.tables import NoData


class NoRuns(NoData):
    """No run of an artefact is kept, and none is made."""

    def __str__(self) -> str:
        return "No run is kept. Call this without --kept."


class Origin(NamedTuple):
    """The source of the runs that were read, and the number of runs of other sources."""

    source: str
    left_out: int


def of_one_source(runs: Mapping[Job, Run]) -> tuple[dict[Job, Run], Origin]:
    """The runs of the present source, or else of the source with most runs; and of the peers."""

    def mark(run: Run) -> str:
        made_by = run.versions["source"]
        return source() if made_by in same_decisions(run.job.method) else made_by

    ours = {job: mark(run) for job, run in runs.items() if job.method not in peers.NAMES}
    counts = Counter(ours.values())
    chosen = source() if source() in counts else max(counts, key=lambda m: counts[m], default="")
    kept = {job: run for job, run in runs.items() if ours.get(job, chosen) == chosen}
    return kept, Origin(chosen, len(runs) - len(kept))


def carried_out(jobs: Iterable[Job], suite: str, settings: Settings) -> dict[Job, Run]:
    """The runs of these jobs, of one source, in the mode of the settings.

    Farthing's version is made only with `settings.own`; else its kept runs are used.
    """
    prefix = PREFIX if settings.printed else ""
    more = settings.more and (settings.printed or settings.own)
    jobs = [replace(job, method=prefix + job.method) for job in jobs]
    runs = carry_out(
        jobs,
        suite,
        processes=settings.jobs,
        folder=settings.data,
        make_more=more,
        same_source=more and not settings.any_source,
    )
    if settings.printed or settings.own:
        settings.missing.append(missing_of(jobs, runs, suite))
    found, origin = (runs, Origin("", 0)) if settings.any_source else of_one_source(runs)
    if found:
        settings.origins.append(origin)
    return {replace(job, method=job.method.removeprefix(PREFIX)): r for job, r in found.items()}


def in_both_modes(compute: Callable[[Settings], Json], differs: str) -> Callable[[Settings], Json]:
    """`compute` with the methods as printed, and with Farthing's under the key `farthing`.

    Without a run as printed, the numbers are those of Farthing's methods, without `as_printed`.
    `older` is true if the runs are not of the present source; `differs` says what still differs
    from the paper.
    """

    def one(settings: Settings) -> Json:
        settings = replace(settings, origins=[])
        numbers = compute(settings)
        sources = sorted({origin.source for origin in settings.origins})
        return numbers | {
            "sources": sources,
            "older": not set(sources) <= {source()},
            "left_out": sum(origin.left_out for origin in settings.origins),
        }

    def both(settings: Settings) -> Json:
        found: Json = {}
        try:
            found = one(replace(settings, printed=True)) | {"as_printed": True}
        except NoRuns:
            return one(replace(settings, printed=False)) | {"differs": FARTHINGS}
        with suppress(NoRuns):
            found["farthing"] = one(replace(settings, printed=False))
        return found | {"differs": differs}

    return both


FARTHINGS = (
    "The methods are Farthing's (not yet run as printed): its start and its attention to what is "
    "affordable are added to the paper's, and one trial in four explored if EI was negligible."
)

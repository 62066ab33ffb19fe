"""The runs of an artefact: of one source, and in both modes."""

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.evidence import replay
from benchmarks.evidence.artefacts import printed
from benchmarks.evidence.artefacts.artefact import Settings
from benchmarks.evidence.replay import Job, Run

EI = Job("synthetic/branin-rising", "EI", 0, 3.0, most=7)


def run(job: Job, source: str) -> Run:
    return Run(
        job, 1.0, (1.0,), (0.5,), (0.0,), "budget", None, {"farthing": "0", "source": source}
    )


def jobs(method: str, count: int) -> list[Job]:
    return [replace(EI, method=method, seed=seed) for seed in range(count)]


def test_runs_of_the_present_source_come_first_although_older_ones_are_more() -> None:
    old, new = jobs("EI", 5), jobs("EIpu", 2)
    runs = {j: run(j, "old") for j in old} | {j: run(j, replay.source()) for j in new}
    found, origin = printed.of_one_source(runs)
    assert set(found) == set(new)
    assert origin == (replay.source(), 5)


def test_without_a_run_of_the_present_source_the_most_of_one_older_source_count() -> None:
    runs = {j: run(j, "old") for j in jobs("EI", 3)} | {j: run(j, "older") for j in jobs("PBGI", 2)}
    found, origin = printed.of_one_source(runs)
    assert set(found) == set(jobs("EI", 3))
    assert origin == ("old", 2)


def test_peers_have_no_source() -> None:
    peer = replace(EI, method="optuna-tpe")
    runs = {peer: run(peer, "whatever"), EI: run(EI, "old")}
    assert set(printed.of_one_source(runs)[0]) == {peer, EI}


@pytest.fixture
def kept(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "FOLDER", tmp_path)
    with replay.appending("suite") as file:
        file.write(replay.line_of(run(replace(EI, method="paper:EI"), replay.source())) + "\n")
        file.write(replay.line_of(run(EI, "old")) + "\n")


def compute(settings: Settings) -> dict[str, Any]:
    runs = printed.carried_out([EI], "suite", settings)
    if not runs:
        raise printed.NoRuns
    [(job, found)] = runs.items()
    return {"method": job.method, "made by": found.versions["source"]}


def test_the_numbers_are_those_as_printed_and_farthings_are_beside_them(kept: None) -> None:
    numbers = printed.in_both_modes(compute, "the data differ")(Settings(more=False))
    assert numbers["as_printed"]
    assert numbers["method"] == "EI"
    assert not numbers["older"]
    assert numbers["made by"] == replay.source()
    assert numbers["differs"] == "the data differ"
    assert numbers["farthing"]["made by"] == "old"
    assert numbers["farthing"]["older"]


def test_without_a_run_as_printed_the_numbers_are_farthings_and_say_so(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "FOLDER", tmp_path)
    with replay.appending("suite") as file:
        file.write(replay.line_of(run(EI, "old")) + "\n")
    numbers = printed.in_both_modes(compute, "the data differ")(Settings(more=False))
    assert "as_printed" not in numbers
    assert numbers["older"]
    assert "not yet run as printed" in numbers["differs"]


@pytest.mark.usefixtures("kept")
def test_a_missing_run_is_made_as_printed_and_only_with_own_also_farthings() -> None:
    one = replace(EI, seed=1)
    made = printed.carried_out([one], "suite", Settings(printed=True, jobs=1))
    assert set(made) == {one}
    assert not printed.carried_out([one], "suite", Settings())
    assert set(printed.carried_out([one], "suite", Settings(own=True, jobs=1))) == {one}
    methods = sorted(job.method for job in replay.kept("suite") if job.seed == 1)
    assert methods == ["EI", "paper:EI"]

import gzip
import json

import numpy as np
import pytest
from beliefs import done, known, line

from benchmarks.evidence.artefacts import stopping
from benchmarks.evidence.artefacts.artefact import Settings
from benchmarks.evidence.artefacts.stopping import (
    ACQUISITIONS,
    RULES,
    Job,
    Watch,
    carry_out,
    hindsight,
    kept,
    rate_for,
    summary,
    targets,
)
from benchmarks.evidence.replay import source
from farthing import History
from farthing.acquisition.protocols import Proposal
from farthing.stopping import MaxTrials, NoImprovement

COSTS = [0.0, 1.0, 1.0, 10.0, 10.0, 10.0]
SCORES = [0.9, 0.5, 0.4, 0.3, 0.3, 0.25]


def run(acquisition="LogEIPC", rate=-1, fired=None, costs=COSTS, scores=SCORES):
    return {
        "acquisition": acquisition,
        "rate": rate,
        "costs": costs,
        "scores": scores,
        "fired": fired or {},
    }


class TestHindsight:
    def test_it_is_the_least_of_regret_and_cost(self):
        regrets = np.array(SCORES) - 0.2
        for rate, at in ((0.0, 5), (0.001, 5), (0.005, 3), (0.05, 2), (0.2, 1), (1.0, 0)):
            assert hindsight(COSTS, regrets, rate) == at

    @pytest.mark.parametrize("at", [1, 2, 3, 5])
    def test_a_rate_stops_at_its_target(self, at):
        regrets = np.array(SCORES) - 0.2
        rate = rate_for((COSTS, regrets), at)
        assert hindsight(COSTS, regrets, rate) == at

    def test_where_it_jumps_it_is_the_nearer_side(self):
        regrets = np.array(SCORES) - 0.2  # at 4 no rate stops
        assert hindsight(COSTS, regrets, rate_for((COSTS, regrets), 4)) == 5

    def test_targets_are_shares_of_what_is_needed(self):
        costs, flat = np.ones(201), np.zeros(201)
        falling = np.linspace(1, 0, 201)
        assert targets((costs, falling), 200) == (20.0, 60.0, 150.0)
        early = np.where(np.arange(201) < 75, 1.0, flat)
        assert targets((costs, early), 200) == pytest.approx((10.0, 30.0, 75.0))


class TestSummary:
    def test_each_rule_ends_the_run_it_watched(self):
        runs = [
            run(fired={"PBGI/LogEIPC 1": 2, "PRB": 3, "PBGI/LogEIPC 0": 1}),
            run("PBGI", 1, fired={"PBGI/LogEIPC 1": 3}),
            run("PBGI", 0, fired={"PBGI/LogEIPC 0": 1}),
        ]
        found = summary(runs, 0.2, 1, 0.012)["pairs"]
        assert found["LogEIPC + PBGI/LogEIPC"]["mean"] == pytest.approx(0.2 + 0.012 * 2)
        assert found["LogEIPC + PRB"]["mean"] == pytest.approx(0.1 + 0.012 * 12)
        assert found["LogEIPC + GSS"]["choices"] == 5.0  # it never stopped
        assert found["LogEIPC + GSS"]["stopped"] == 0.0
        assert found["LogEIPC + 200 choices"]["mean"] == pytest.approx(0.05 + 0.012 * 32)
        assert found["PBGI + PBGI/LogEIPC"]["choices"] == 3.0  # of the run at its own rate
        assert found["LogEIPC + hindsight"]["choices"] == 2.0
        assert "LCB + PRB" not in found

    def test_two_standard_errors(self):
        runs = [run(), run(scores=[s + 0.2 for s in SCORES])]
        found = summary(runs, 0.2, 0, 0.0)["pairs"]["LogEIPC + 200 choices"]
        assert found["mean"] == pytest.approx(0.15)
        assert found["two_se"] == pytest.approx(2 * 0.1 / np.sqrt(2), rel=1e-2)

    def test_hindsight_is_the_best_of_all_ends(self):
        found = summary([run(fired={"PRB": 4, "GSS": 1})], 0.2, 0, 0.01)["pairs"]
        least = found["LogEIPC + hindsight"]["mean"]
        assert all(part["mean"] >= least for part in found.values())


class TestWatch:
    def asked(self, choices, fired=None, listen=2):
        rules = (("early", MaxTrials(1)), ("late", MaxTrials(4)), ("stalled", NoImprovement(2)))
        notes = {} if fired is None else {"fired": fired}
        trials = [done(i, [0.0], 5.0 - i, notes=notes) for i in range(choices)]
        belief = known(line(2), history=History(tuple(trials)))
        return Watch(rules, listen)(belief, Proposal(None, ""), np.random.default_rng(0))

    def test_it_notes_where_each_rule_stops_and_never_stops(self):
        assert self.asked(1).notes["fired"] == {}  # not evaluated yet
        assert self.asked(3).notes["fired"] == {"early": 3}
        assert self.asked(4).notes["fired"] == {"early": 4, "late": 4}
        assert not self.asked(9).stop

    def test_a_rule_that_has_stopped_is_not_evaluated_again(self):
        assert self.asked(4, fired={"early": 2}).notes["fired"] == {"early": 2, "late": 4}


class TestKeeping:
    def test_runs_are_kept_one_by_one_and_not_made_again(self, tmp_path, monkeypatch):
        made = []

        def attempt(job, folder):
            made.append(job)
            return {**job._asdict(), **run(job.acquisition), "source": source()}

        path = tmp_path / "runs.jsonl.gz"
        jobs = [Job("lcbench/adult/known", "TS", -1, seed, 5, (0.1, 0.01)) for seed in (0, 1)]
        for job in jobs[:1]:  # as the pool would have left them
            line = json.dumps(attempt(job, None)) + "\n"
            path.write_bytes(gzip.compress(line.encode()))
        monkeypatch.setattr(stopping, "attempt", attempt)
        assert list(kept(path)) == jobs[:1]
        found = carry_out(jobs, path, Settings(more=False, quick=True, printed=True))
        assert list(found) == jobs[:1]
        assert found[jobs[0]]["scores"] == SCORES

    def test_runs_before_source_marks_are_farthings_version(self, tmp_path):
        job = Job("lcbench/adult/known", "TS", -1, 0, 5, (0.1, 0.01))
        path = tmp_path / "runs.jsonl.gz"
        record = {**job._asdict(), **run("TS", fired={"PRB": 3, "GSS": 4})}
        path.write_bytes(gzip.compress((json.dumps(record) + "\n").encode()))
        assert kept(path) == {}
        [before] = kept(path, printed=False).values()
        assert before["fired"] == {"PRB, certified": 3, "GSS": 4}
        pairs = summary([before], 0.2, 0, 0.1)["pairs"]
        assert pairs["TS + PRB, certified"]["choices"] == 3.0
        assert "TS + PRB" not in pairs


def test_a_seed_counts_when_all_of_its_runs_are_there():
    jobs = [
        Job("lcbench/adult/known", name, -1, seed, 5, (0.1, 0.01))
        for seed in (0, 1)
        for name in ("LogEIPC", "TS")
    ]
    made = {job: run() for job in jobs[:3]}
    assert list(stopping.whole(made, jobs)) == jobs[:2]
    runs, few = stopping.with_spread(made)  # one run has no spread: its table is left out
    assert (list(runs), few) == (jobs[:3], [])
    alone = {Job("lcbench/adult/learnt", "TS", -1, 0, 5, ()): run()}
    assert stopping.with_spread(made | alone) == (made, ["lcbench/adult/learnt"])
    (artefact,) = stopping.ARTEFACTS
    nothing = {"cases": {}, "planned": 4, "made": 0, "choices": 5}
    assert artefact.table(nothing) == artefact.verdict(nothing) == stopping.NONE_YET


def test_table_verdict_and_figure_of_some_runs():
    pytest.importorskip("matplotlib").use("Agg")
    runs = [
        run(a, rate, fired=dict.fromkeys(RULES, 2) | {"PBGI/LogEIPC 0": 1})
        for a in ACQUISITIONS
        for rate in ((0, 1, 2) if a == "PBGI" else (-1,))
    ]
    parts = [summary(runs, 0.2, i, rate) for i, rate in enumerate((0.1, 0.01, 0.001))]
    numbers = {"cases": {"lcbench/adult/known": parts}, "planned": 60, "made": 6, "choices": 5}
    (artefact,) = stopping.ARTEFACTS
    assert artefact.table(numbers).count("\n") >= len(ACQUISITIONS) * len(RULES)
    assert "6 of 60 runs" in artefact.verdict(numbers)
    (axis,) = artefact.draw(numbers).axes  # a row per rule that was run, four squares in each
    shown = [rule for rule, by in stopping.relative(numbers).items() if by]
    assert [tick.get_text() for tick in axis.get_yticklabels()] == shown
    assert len(axis.lines) == 2 * len(shown) * len(ACQUISITIONS)
    assert len(artefact.appendix(numbers).axes) == 3

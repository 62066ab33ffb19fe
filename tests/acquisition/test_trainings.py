"""The model of learning curves in a belief, and the coming rungs with their costs."""

from dataclasses import replace

import numpy as np
import pytest
from trainings import SPACE, STEPS, belief_of, curve_of, falling, some_trainings, training

from farthing import Float, History, Space, Steps
from farthing.acquisition.exchange_rate import with_rate_of_budget
from farthing.acquisition.initial_design import propose
from farthing.acquisition.protocols import Proposal, judge
from farthing.acquisition.rungs import (
    Chains,
    first_part,
    indices,
    new_chains,
    paused_chains,
    paused_part,
    paused_trainings,
)
from farthing.acquisition.staged_search import FINALISTS, StagedSearch, _finalists
from farthing.acquisition.trainings import curve_rows, is_staged
from farthing.models.constraints import constraint_of
from farthing.policies import StagedGittins
from farthing.stopping import NotWorthIt

NOTHING = Proposal(None, "nothing was proposed")


def test_a_training_that_cannot_be_the_best_by_its_bounds_is_no_finalist():
    def chains(mean):
        one = np.ones(1)
        return Chains(
            one[None], -one.astype(int), 0, mean * one, 1e-3 * one, one[None], one > 0, {}
        )

    taken, others = _finalists([chains(0.0), chains(5.0)], rate=1e-3)
    assert [float(each.mean[0]) for each in taken] == [0.0]
    assert others == pytest.approx(5.0, abs=0.01)


def test_rows_are_the_values_at_rungs():
    values = [3.0, 5.0, 2.0, 4.0, 1.0]
    trial = training(0, [0.5, 0.5], values)
    history = History((trial,))
    best, numbers = curve_rows(history, SPACE, STEPS, 1.0)
    assert numbers == (0,)
    assert best.steps.tolist() == [1, 2, 4, 8, 16]
    assert best.rung.tolist() == [0, 1, 2]
    assert best.y.tolist() == [3.0, 3.0, 2.0]  # the best value up to each rung
    last, _ = curve_rows(history, SPACE, replace(STEPS, value="last"), 1.0)
    assert last.y.tolist() == [3.0, 5.0, 4.0]
    highest, _ = curve_rows(history, SPACE, STEPS, -1.0)
    assert highest.y.tolist() == [-3.0, -5.0, -5.0]


def test_sparse_reports_count_at_the_next_rung():
    curve = tuple(p for p in curve_of([9.0, 8.0, 7.0, 6.0, 5.0, 4.0]) if p.step % 3 == 0)
    rows, _ = curve_rows(
        History((replace(training(0, [0, 0], [1.0]), curve=curve),)), SPACE, STEPS, 1.0
    )
    assert rows.rung.tolist() == [2]  # step 3 is what is known at step 4
    assert rows.y.tolist() == [7.0]


@pytest.mark.parametrize("step", [5, 7])
def test_a_first_report_between_two_rungs_counts_at_the_rung_before(step):
    curve = curve_of([9.0] * (step - 1) + [5.0])[-1:]
    trial = replace(training(0, [0, 0], [1.0]), curve=curve)
    rows, _ = curve_rows(History((trial,)), SPACE, STEPS, 1.0)
    assert rows.rung.tolist() == [2]  # step 4
    assert rows.y.tolist() == [5.0]


def test_a_training_that_ended_by_itself_counts_at_the_last_rung():
    trial = replace(training(0, [0.5, 0.5], [3.0, 2.0, 2.5], state="done"), value=2.0)
    rows, _ = curve_rows(History((trial,)), SPACE, STEPS, 1.0)
    assert rows.rung.tolist() == [0, 1, 4]
    assert rows.y.tolist() == [3.0, 2.0, 2.0]


@pytest.mark.parametrize("state", ["done", "running", "paused"])
def test_reports_before_the_first_rung(state):
    steps = Steps(16, first=8)
    trials = [training(i, [0.1 * i, 0.5], falling(0.1 * i, 3), state=state) for i in range(6)]
    belief = belief_of(*trials, steps=steps)
    assert (belief.trainings is not None) == (state == "done")
    assert propose(StagedGittins(), belief, np.random.default_rng(0)).x is not None


def test_one_rung_is_no_training():
    assert not is_staged(None)
    assert not is_staged(Steps(1))
    assert not is_staged(Steps(50, rungs=(50,)))
    assert is_staged(STEPS)
    assert belief_of(*some_trainings(), steps=Steps(16, rungs=(16,))).trainings is None


def test_the_incumbent():
    trials = some_trainings()
    best = belief_of(*trials).trainings
    assert best.value == min(p.value for t in trials for p in t.curve)
    ahead = replace(trials[3], curve=curve_of([0.5, -1.0]))
    for state in ("paused", "running", "failed"):
        others = [*trials[:3], replace(ahead, state=state), *trials[4:]]
        assert belief_of(*others).trainings.value == -1.0
    done = belief_of(*trials, steps=replace(STEPS, value="last")).trainings
    assert done.value == min(t.value for t in trials if t.state == "done")
    paused = [replace(t, number=i) for i, t in enumerate(trials[2:])]
    none = belief_of(*paused, steps=replace(STEPS, value="last")).trainings
    assert none.value == max(t.curve[0].value for t in paused)  # nothing is done: all improve


def test_an_infeasible_training_is_not_the_incumbent():
    trials = [
        replace(t, run=replace(t.run, metrics={"m": float(t.x[0])})) for t in some_trainings(16)
    ]
    bound = constraint_of("m", "<= 0.2")
    belief = belief_of(*trials, constraints=(bound,))
    inside = [t for t in trials if t.x[0] <= 0.2]
    assert belief.trainings.value == min(p.value for t in inside for p in t.curve)
    assert belief.trainings.value > belief_of(*trials).trainings.value
    chance = np.exp(belief.log_success(np.array([[0.05, 0.5], [0.6, 0.5]])))
    assert chance[0] > 0.5 > chance[1]
    for chains in paused_chains(belief):  # a paused one counts with its probability, too
        for number, cost in zip(chains.trials, chains.cost[:, 0], strict=True):
            plain = float(np.exp(chains.next["cost"].mean[chains.trials == number][0]))
            if trials[number].x[0] > 0.4:
                assert cost > 2.0 * plain


def test_the_design_comes_first():
    trials = some_trainings()
    assert belief_of(*trials[:3]).trainings is None
    assert belief_of(*trials[:4]).trainings is not None
    assert belief_of(*trials[:3], budget=150.0).trainings is not None  # its share is spent


def test_running_trainings_are_fantasised():
    trials = some_trainings()
    plain = belief_of(*trials).trainings
    running = training(8, [0.3, 0.5], [0.9], state="running", until=4)
    known = belief_of(*trials, training(8, [0.3, 0.5], [0.9])).trainings
    trainings = belief_of(*trials, running).trainings
    assert plain.best.shape == (1,)
    assert trainings.best.shape == trainings.curves.targets.shape[1:] == (10,)
    place = trainings.place[8]
    assert trainings.curves.final().std[place] < known.curves.final().std[known.place[8]]
    # A new running trial has no value yet.
    new = training(9, [0.9, 0.9], [], state="running", until=1)
    assert len(belief_of(*trials, running, new).trainings.numbers) == 10


def test_a_failed_training_counts_as_bad():
    trials = some_trainings()
    failed = training(8, [0.31, 0.5], [], state="failed")
    belief = belief_of(*trials, failed)
    before = belief_of(*trials).trainings.curves.new.at(np.array([[0.31, 0.5]]))
    after = belief.trainings.curves.new.at(np.array([[0.31, 0.5]]))
    assert after.mean[0, 0] > before.mean[0, 0]
    chance = np.exp(belief.log_success(np.array([[0.31, 0.5], [0.9, 0.05]])))
    assert chance[0] < 0.5 < chance[1]


def test_costs_are_those_of_a_whole_training():
    trials = some_trainings(16, rate=2.0, startup=5.0)
    belief = belief_of(*trials)
    X = np.array([[0.5, 0.25], [0.5, 0.75]])
    whole = np.exp(belief.costs(X)[0].mean)
    assert whole == pytest.approx([5 + 16 * 2 * 1.25, 5 + 16 * 2 * 1.75], rel=0.05)
    first = np.exp(first_part(belief).costs(X)[0].mean)
    assert first == pytest.approx([5 + 2 * 1.25, 5 + 2 * 1.75], rel=0.05)


# ---------------------------------------------------------------- coming rungs
def test_the_rungs_of_a_new_training():
    belief = belief_of(*some_trainings(16, rate=2.0, startup=5.0)).in_one_unit()
    chains = new_chains(belief, np.array([[0.5, 0.25]]))
    steps = np.diff([0, 1, 2, 4, 8, 16])
    expected = 2 * 1.25 * steps + 5.0 * (np.arange(5) == 0)
    assert chains.cost[0] == pytest.approx(expected, rel=0.05)
    assert chains.affordable.all()
    assert chains.trials.tolist() == [-1]


@pytest.mark.parametrize(("resume", "extra"), [("checkpoint", 0.0), (7.0, 7.0)])
def test_the_rungs_of_a_paused_training(resume, extra):
    steps = replace(STEPS, resume=resume)
    trials = some_trainings(8, rate=2.0)
    groups = paused_chains(belief_of(*trials, steps=steps).in_one_unit())
    assert [chains.rung for chains in groups] == [1, 2, 3, 4]
    at_four = next(chains for chains in groups if chains.rung == 3)  # it has reached step 4
    number = int(at_four.trials[0])
    rate = 2.0 * (1 + trials[number].x[1])
    assert at_four.cost[0] == pytest.approx([4 * rate + extra, 8 * rate])


def test_without_checkpoints_only_a_waiting_training_goes_on():
    steps = replace(STEPS, resume="never")
    trials = some_trainings()
    assert paused_trainings(belief_of(*trials, steps=steps)) == []
    waiting = training(8, [0.3, 0.5], [0.9, 0.8], waits=True)
    belief = belief_of(*trials, waiting, steps=steps)
    assert [t.number for t in paused_trainings(belief)] == [8]
    # A waiting training does not restore a checkpoint.
    costly = belief_of(*trials, waiting, steps=replace(STEPS, resume=50.0)).in_one_unit()
    [chains] = [c for c in paused_chains(costly) if 8 in c.trials]
    cost = dict(zip(chains.trials.tolist(), chains.cost[:, 0], strict=True))
    assert cost.pop(8) == pytest.approx(2.0)
    assert all(c > 50.0 for c in cost.values())


def test_only_the_next_rung_must_be_affordable():
    trials = some_trainings()
    paid = sum(t.cost["cost"] for t in trials)
    belief = belief_of(*trials, budget=paid + 5.0).in_one_unit()
    at_eight = next(c for c in paused_chains(belief) if c.rung == 4)
    at_one = next(c for c in paused_chains(belief) if c.rung == 1)
    assert not at_eight.affordable.any()
    assert at_one.affordable.all()
    trial = next(t for t in trials if t.step == 8)
    assert paused_part(belief, trial, 16, "too expensive") is None
    found = paused_part(belief, trial, 9, "one step")
    assert found.resume == trial.number
    assert float(np.exp(found.predicted["cost"].mean[0])) == pytest.approx(1 + trial.x[1])


def test_a_training_that_is_left_out_of_the_model_does_not_go_on(monkeypatch):
    trials = some_trainings(40)
    waiting = replace(trials[-1], run=replace(trials[-1].run, waits=True))
    monkeypatch.setattr("farthing.models.curves.MODEL_AT_MOST", 30)
    monkeypatch.setattr("farthing.models.curves.ONE_EACH_AT_MOST", 30)
    belief = belief_of(*trials[:-1], waiting)
    found = belief.trainings
    left_out = {found.numbers[i] for i in np.flatnonzero(found.left_out)}
    assert 5 < len(left_out) < 40
    assert waiting.number not in left_out
    shown = {int(number) for chains in paused_chains(belief) for number in chains.trials}
    assert shown
    assert not shown & left_out
    monkeypatch.undo()
    assert not belief_of(*trials).trainings.left_out.any()


def test_a_quick_suggestion_climbs_from_nowhere(monkeypatch):
    belief = replace(belief_of(*some_trainings(12)), light=True)
    search = StagedSearch(belief, belief.trainings)
    search.refines = True
    monkeypatch.setattr("farthing.acquisition.staged_search.maximise_score", None)
    found = search.smallest(1e-3)
    assert found is not None
    assert found.index <= min(float(c.bounds(1e-3)[1].min()) for c in search.paused)


def test_several_resources():
    trials = []
    for t in some_trainings():
        curve = tuple(
            p._replace(cost={"usd": p.cost["cost"], "kWh": 3 * p.cost["cost"]}) for p in t.curve
        )
        trials.append(replace(t, curve=curve, cost=dict(curve[-1].cost)))
    from farthing import Budget, Ledger
    from farthing.acquisition.belief import believe
    from farthing.cost import LogGP

    ledger = Ledger.of(Budget({"usd": 1000.0, "kWh": 1000.0}))
    belief = believe(
        SPACE,
        History(tuple(trials)),
        ledger,
        learners={"usd": LogGP(), "kWh": LogGP()},
        steps=STEPS,
        curves=True,
        model=False,
    )
    chains = paused_chains(belief)[0]  # the scarcest: a share of what is left
    assert chains.cost[0, 0] == pytest.approx(np.exp(chains.next["kWh"].mean[0]) / 1000.0)
    found = propose(StagedGittins(), belief, np.random.default_rng(0))
    assert set(found.predicted) == {"usd", "kWh"}


def test_without_costs_steps_are_counted():
    belief = belief_of(*some_trainings(), learners={})
    assert paused_chains(belief)[0].cost[0].tolist() == [1, 2, 4, 8]
    assert new_chains(belief, np.array([[0.5, 0.5]])).cost[0] == pytest.approx([1, 1, 2, 4, 8])
    found = propose(StagedGittins(), belief, np.random.default_rng(0))
    assert found.x is not None
    assert found.predicted == {}


# ---------------------------------------------------------------- the search
def test_the_search_finds_the_smallest_index():
    belief = belief_of(*some_trainings(16)).in_one_unit()
    search = StagedSearch(belief, belief.trainings)
    rate = 1e-3
    found = search.smallest(rate)
    every = np.concatenate(indices(belief, paused_chains(belief), rate))
    assert found.index <= every.min() + 1e-9
    new = new_chains(belief, np.random.default_rng(1).random((200, 2)))
    low, _ = new.bounds(rate)
    assert (indices(belief, [new], rate)[0] >= low - 1e-9).all()
    assert found.index <= indices(belief, [new], rate)[0].min() + 0.02
    assert FINALISTS >= 8


def test_the_index_of_a_group_is_that_of_its_members():
    belief = belief_of(*some_trainings(16)).in_one_unit()
    groups = paused_chains(belief)
    together = indices(belief, groups, 1e-3)
    for chains, expected in zip(groups, together, strict=True):
        alone = indices(belief, [chains], 1e-3)[0]
        assert alone == pytest.approx(expected, abs=1e-7)
        low, high = chains.bounds(1e-3)
        assert (low - 1e-9 <= expected).all()
        assert (expected <= high + 1e-9).all()


# ---------------------------------------------------------------- stopping
@pytest.mark.parametrize("maximise", [False, True])
def test_not_worth_it_judges_trainings(maximise):
    trials = some_trainings(16)
    sign = -1.0 if maximise else 1.0
    if maximise:
        trials = [
            replace(
                t,
                curve=tuple(p._replace(value=-p.value) for p in t.curve),
                value=None if t.value is None else -t.value,
            )
            for t in trials
        ]
    belief = belief_of(*trials, sign=sign)
    rng = np.random.default_rng(0)
    proposal = propose(StagedGittins(), belief, rng)
    cheap = judge(NotWorthIt(worth=1e-9), belief, proposal, rng)
    dear = judge(NotWorthIt(worth=1e3), belief, proposal, rng)
    assert not cheap.stop
    assert dear.stop
    assert "which it has" in dear.because
    assert dear.notes == {"not_worth_it": 1}
    patient = judge(NotWorthIt(worth=1e3, patience=2), belief, proposal, rng)
    assert not patient.stop
    assert "1 of 2" in patient.because


def test_not_worth_it_waits_for_a_complete_training():
    trials = [replace(t, number=i) for i, t in enumerate(some_trainings(16)[2:8])]
    belief = belief_of(*trials)
    verdict = judge(NotWorthIt(worth=1e3), belief, NOTHING, np.random.default_rng(0))
    assert not verdict.stop
    assert "complete" in verdict.because


def test_the_exchange_rate_of_a_budget():
    """It is in units of the objective: ten times the values are worth ten times as much."""
    trials = some_trainings(16)
    larger = [
        replace(
            t,
            value=None if t.value is None else 10.0 * t.value,
            curve=tuple(p._replace(value=10.0 * p.value) for p in t.curve),
        )
        for t in trials
    ]
    plain, scaled = (with_rate_of_budget(belief_of(*each)) for each in (trials, larger))
    assert plain.worth > 0
    assert scaled.worth == pytest.approx(10.0 * plain.worth, rel=1e-3)
    assert plain.objective is None
    assert plain.memories["worth"]["rate"] == plain.worth
    less = with_rate_of_budget(belief_of(*trials, budget=200.0))
    assert less.worth > plain.worth  # with less left, cost counts more


def test_the_policy_and_the_rule_agree():
    belief = belief_of(*some_trainings(16))
    for worth in 10.0 ** np.arange(-6.0, 3.0):
        found = StagedGittins(worth).propose(belief, np.random.default_rng(0))
        verdict = judge(NotWorthIt(worth=worth), belief, found, np.random.default_rng(1))
        if abs(found.score) > 0.02:
            assert verdict.stop == (found.score <= 0)


def test_falling_curves_fall():
    assert falling(1.0, 4)[-1] == pytest.approx(1.25)


def test_the_rule_names_the_most_promising_training():
    def because(*trials, **given):
        found = [replace(t, value=min(p.value for p in t.curve)) for t in trials]
        belief = belief_of(*found, worth=1e-3, **given)
        return NotWorthIt()(belief, Proposal(None, ""), np.random.default_rng(0)).because

    good = training(8, (0.3, 0.1), falling(-0.5, 4))
    rows = [{"a": t.x[0], "b": t.x[1]} for t in (*some_trainings(), good)]
    table = Space.from_rows(rows, {"a": Float(0, 1), "b": Float(0, 1)})  # nothing new is left
    text = because(*some_trainings(), good, space=table)
    assert "the most promising training, trial 8, paused at step 4, is worth its cost" in text
    assert "best paused" not in text


def test_the_rule_names_the_best_paused_training_if_a_new_one_is_more_promising():
    done = [training(i, (0.2 * i, 0.1 * i), falling((0.2 * i - 0.3) ** 2, 16)) for i in range(5)]
    bad = [training(5 + i, (0.9 + 0.02 * i, 0.1 * i), falling(3.0 + i, 4)) for i in range(3)]
    trials = [replace(t, value=min(p.value for p in t.curve)) for t in (*done, *bad)]
    belief = belief_of(*trials, worth=1e-3)
    text = NotWorthIt()(belief, Proposal(None, ""), np.random.default_rng(0)).because
    assert text.startswith("the most promising training, a new one, is worth its cost")
    assert "; the best paused training is trial 5, 3.25 at step 4" in text
    assert text.endswith("; to go on with it takes 12 steps, about 12")

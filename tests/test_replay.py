import csv
import json
import math

import numpy as np
import pytest
from runs import overlapping

from farthing import Categorical, Float, History, Int, InvalidInput, Optimizer, Space, Study
from farthing.data.tabular import to_frame
from farthing.policies import EI, EIPerCost, Gittins
from farthing.replay import replay
from farthing.stopping import (
    EIRatio,
    MaxTrials,
    NoImprovement,
    NotWorthIt,
    OutOfBudget,
    RegretGap,
    RegretGapRatio,
    Target,
    any_of,
    in_a_row,
)

SPACE = Space({"x": Float(2, 3), "s": Categorical(["u", "v"])})


def value_at(params):
    return float(np.sin(7 * params["x"]) + (params["s"] == "v") + 3)


def cost_at(params):
    return 1.0 + params["x"]


def run(stop, *, budget=200.0, policy=None, direction="minimize", **settings):
    optimizer = Optimizer(
        SPACE,
        budget,
        policy=policy or EIPerCost(),
        stop=stop,
        direction=direction,
        seed=3,
        **settings,
    )
    sign = 1 if direction == "minimize" else -1
    while not optimizer.verdict.stop and len(optimizer.history) < 40:
        trial = optimizer.ask()
        optimizer.tell(trial, sign * value_at(trial.params), cost=cost_at(trial.params))
    return optimizer


LONG = run(MaxTrials(22))
ROWS = [
    {**trial.params, "value": trial.value, "cost": trial.cost["cost"]} for trial in LONG.history
]


# ---------------------------------------------------------------- a run of an Optimizer
@pytest.mark.slow
@pytest.mark.parametrize(
    "rule",
    [
        NotWorthIt(worth=1e-3),
        RegretGap(within=0.05),
        EIRatio(ratio=0.2, first=4),
        RegretGapRatio(ratio=0.3, first=4),
        in_a_row(2, NotWorthIt(worth=1e-3)),
        NoImprovement(4),
        Target(2.1),
        any_of(NoImprovement(9), RegretGap(within=0.05)),
    ],
    ids=repr,
)
def test_it_stops_where_a_run_with_the_rule_does(rule):
    """Up to there the two runs are equal: a rule does not change suggestions."""
    with_rule = run(any_of(rule, MaxTrials(22)))
    found = replay(LONG, rule)
    assert found.trials == len(with_rule.history) < 22
    assert found.because == with_rule.verdict.because.split("; going on")[0]
    assert found.spent == pytest.approx(with_rule.ledger.spent)
    assert found.best == with_rule.best.value


def test_what_is_saved_and_lost():
    found = replay(LONG, MaxTrials(9), worth=0.01)
    paid = [trial.cost["cost"] for trial in LONG.history]
    values = [trial.value for trial in LONG.history]
    assert (found.trials, found.trials_in_all) == (9, 22)
    assert found.spent == pytest.approx(sum(paid[:9]))
    assert found.saved == pytest.approx(sum(paid[9:]))
    assert f"({sum(paid[9:]) / sum(paid):.0%})" in found.words()["saved"]
    assert (found.best, found.best_in_all) == (min(values[:9]), min(values))
    assert found.lost == pytest.approx(min(values[:9]) - min(values))
    assert found.gain == pytest.approx(0.01 * sum(paid[9:]) - found.lost)
    assert [step.trials for step in found.steps] == list(range(10))
    assert [step.stop for step in found.steps] == [False] * 9 + [True]
    assert [step.best for step in found.steps[1:]] == np.minimum.accumulate(values[:9]).tolist()


def test_a_rule_that_would_not_have_stopped_saves_and_loses_nothing():
    found = replay(LONG, Target(-99.0))
    assert found.trials is None
    assert (found.saved, found.lost, found.gain) == (0.0, 0.0, None)
    assert "has not reached the target -99" in found.because
    assert str(found).startswith("stops:  nowhere in 22 trials: ")


@pytest.mark.slow
def test_when_maximising_a_lower_value_is_lost():
    up = run(MaxTrials(22), direction="maximize")
    here, there = (
        replay(LONG, RegretGap(within=0.05)),
        replay(up, RegretGap(within=0.05)),
    )
    assert there.trials == here.trials
    assert there.best == -here.best
    assert there.lost == pytest.approx(here.lost)
    assert there.lost >= 0


def test_the_result_as_text():
    text = str(replay(LONG, MaxTrials(9), worth=0.01))
    lines = [line.split(":")[0] for line in text.splitlines()]
    assert lines == ["stops", "best", "lost", "spent", "saved", "gain"]
    assert "after 9 of 22 trials: 9 of at most 9 trials made" in text
    plain = replay(LONG, MaxTrials(9)).facts()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["saved"] > 0
    assert plain["gain"] is None


def test_external_costs_cannot_be_saved():
    optimizer = Optimizer(SPACE, 100.0, policy=EIPerCost(), seed=1)
    for row in ROWS[:6]:
        optimizer.add({"x": row["x"], "s": row["s"]}, row["value"], cost=row["cost"])
    for _ in range(3):
        trial = optimizer.ask()
        optimizer.tell(trial, value_at(trial.params), cost=cost_at(trial.params))
    found = replay(optimizer, MaxTrials(7))
    paid = [trial.cost["cost"] for trial in optimizer.history]
    assert found.spent == pytest.approx(paid[6])
    assert found.saved == pytest.approx(paid[7] + paid[8])


def test_external_costs_do_not_enlarge_the_budget():
    optimizer = Optimizer(SPACE, 10.0, policy=EIPerCost(), seed=1)
    for i in range(5):
        optimizer.add({"x": 2 + i / 8, "s": "u"}, float(i), cost=3.0)
    optimizer.tell(optimizer.ask(), 0.5, cost=4.0)
    found = replay(optimizer, OutOfBudget())
    assert [step.number for step in found.steps] == [10.0] * 6 + [6.0]  # what is left


@pytest.mark.slow
def test_the_default_worth_is_that_of_the_run():
    optimizer = run(NotWorthIt(), policy=Gittins(), worth="0.01 = 10 cost")
    found = replay(optimizer, NotWorthIt())
    assert found.trials == len(optimizer.history)
    assert found.worth == pytest.approx(1e-3)
    assert replay(optimizer, NotWorthIt(), worth=1.0).trials < found.trials


def test_running_and_lost_trials_are_left_out():
    optimizer = run(MaxTrials(8))
    optimizer.ask(anyway=True)
    assert replay(optimizer, Target(-99.0)).trials_in_all == 8


def test_on_a_study(tmp_path):
    study = Study.create(tmp_path / "a.db", name="a", space=SPACE, budget=200.0, policy=EI())
    for _ in range(9):
        trial = study.ask()
        study.tell(trial, value_at(trial.params), cost=cost_at(trial.params))
    found = replay(study, NoImprovement(3))
    assert found.trials_in_all == 9
    assert found.resource == "cost"
    study.close()


def test_overlapping_trials_may_cost_more_than_the_budget():
    """Four workers share the wall clock, so the sum of their seconds exceeds the limit."""
    optimizer = Optimizer(SPACE, "10s", policy=EI(), seed=1)
    for i in range(8):
        optimizer.add({"x": 2 + i / 8, "s": "u"}, float(i % 3), cost=4.0)
    history = tuple(
        trial.__class__(**{**vars(trial), "origin": "suggested"}) for trial in optimizer.history
    )
    optimizer._store.commit(
        lambda state, now: state.__class__(ledger=state.ledger, history=History(history))
    )
    found = replay(optimizer, RegretGap(within=1e-9))
    assert found.spent_in_all == 32.0
    assert np.isfinite([step.number for step in found.steps[6:]]).all()


def test_two_workers_spend_the_wall_clock_once():
    """The costs add up to twice the wall clock; the replay spends what the study spent."""
    optimizer = overlapping()
    spent = optimizer._store.look().ledger["s"].spent
    costs = [trial.cost["s"] for trial in optimizer.history]
    assert sum(costs) == pytest.approx(2 * spent)
    found = replay(optimizer, MaxTrials(3))
    assert found.spent_in_all == pytest.approx(spent)
    assert found.spent == pytest.approx(sum(costs[:3]) / 2)
    assert found.saved == pytest.approx(sum(costs[3:]) / 2)
    left = [step.number for step in replay(optimizer, OutOfBudget()).steps]
    assert left == pytest.approx([200 - sum(costs[:k]) / 2 for k in range(9)])


# ---------------------------------------------------------------- a log of another tuner
def same(found, other):
    assert found.trials == other.trials
    assert (found.spent, found.best, found.lost) == pytest.approx(
        (other.spent, other.best, other.lost)
    )


@pytest.mark.slow
def test_rows_frames_files_and_histories_give_the_same(tmp_path):
    rule = RegretGap(within=0.05)
    found = replay(ROWS, rule, space=SPACE)
    assert found.trials is not None
    pd = pytest.importorskip("pandas")
    same(found, replay(pd.DataFrame(ROWS), rule, space=SPACE))
    same(found, replay(LONG.history, rule, space=SPACE))
    same(found, replay(to_frame(LONG.history), rule, space=SPACE))
    with (tmp_path / "log.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ROWS[0])
        writer.writeheader()
        writer.writerows(ROWS)
    same(found, replay(tmp_path / "log.csv", rule, space=SPACE))
    (tmp_path / "log.json").write_text(json.dumps(ROWS))
    same(found, replay(str(tmp_path / "log.json"), rule, space=SPACE))


@pytest.mark.slow
def test_a_log_with_the_same_space_gives_the_same_as_the_run():
    """Without a budget everything is affordable, so that the log contains all information."""
    optimizer = run(MaxTrials(22), budget=None)
    rows = [{**t.params, "value": t.value, "cost": t.cost["cost"]} for t in optimizer.history]
    for rule in (NotWorthIt(worth=1e-3), NoImprovement(4)):
        same(replay(rows, rule, space=SPACE, seed=3), replay(optimizer, rule))


def test_without_a_space_the_ranges_are_inferred(tmp_path):
    found = replay(ROWS, NotWorthIt(worth=1e-3))
    assert found.trials is not None
    assert 6 <= found.trials < 22


def mixed_rows():
    rng = np.random.default_rng(0)
    return [
        {
            "lr": float(10 ** rng.uniform(-5, -1)),
            "depth": int(rng.integers(1, 40)),
            "kind": ["a", "b"][i % 2],
            "constant": 7,
            "few": [1.5, 2.5][i % 2],
            "value": float(rng.random()),
            "cost": 1.0,
        }
        for i in range(25)
    ]


def test_ranges_scales_and_options_are_inferred():
    from farthing.replay import _inferred_space

    as_text = [{name: str(cell) for name, cell in row.items()} for row in mixed_rows()]
    for rows in (mixed_rows(), as_text):
        found = _inferred_space(rows).parameters
        assert list(found) == ["lr", "depth", "kind", "few"]
        assert isinstance(found["lr"], Float)
        assert found["lr"].log
        assert isinstance(found["depth"], Int)
        assert found["kind"] == Categorical(["a", "b"])
        assert found["few"].values == (1.5, 2.5)


def test_a_named_resource_is_paid_in_its_unit():
    rows = [{**row, "cost_usd": row["cost"]} for row in ROWS]
    for row in rows:
        del row["cost"]
    found = replay(rows, NotWorthIt(), space=SPACE, worth="0.01 = $10")
    assert found.resource == "usd"
    assert found.worth == pytest.approx(1e-3)
    assert "$" in str(found)
    plain = replay(ROWS, NotWorthIt(), space=SPACE, worth=1e-3)
    same(found, plain)


def test_failed_and_killed_trials_are_trials():
    rows = [dict(row) for row in ROWS[:10]]
    rows[3] = {"x": 2.5, "s": "u", "state": "failed", "error": "boom", "cost": 1.0}
    rows[5] = {"x": 2.6, "s": "u", "state": "killed", "cost": 9.0}
    found = replay(rows, MaxTrials(8), space=SPACE)
    assert found.trials == 8
    assert found.spent == pytest.approx(sum(row["cost"] for row in rows[:8]))


def test_before_the_first_value_everything_is_lost():
    rows = [{"x": 2.5, "s": "u", "state": "failed", "error": "boom", "cost": 1.0}, *ROWS[:3]]
    found = replay(rows, MaxTrials(1), space=SPACE)
    assert found.best is None
    assert math.isinf(found.lost)
    assert "best" not in str(found)


# ---------------------------------------------------------------- bad input
def test_a_rule_that_needs_costs_refuses_a_log_without():
    rows = [{key: cell for key, cell in row.items() if key != "cost"} for row in ROWS]
    with pytest.raises(InvalidInput, match="the log has none"):
        replay(rows, NotWorthIt(worth=1e-3))
    found = replay(rows, NotWorthIt(worth=1e-3), space=SPACE, cost=cost_at)
    assert found.trials is not None
    assert replay(rows, NoImprovement(3)).spent_in_all == 0.0


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "no rows"),
        ([{"value": 1.0, "cost": 2.0}] * 3, "no parameter that varies"),
        ([{"x": 1.0, "value": 1.0}] * 3, "no parameter that varies"),
        ([{"x": 1.0, "value": 1.0}, {"x": 2.0, "value": "good"}], "expected a number"),
        ("no_such_file.csv", "cannot be read"),
        (42, "contains no evaluations"),
    ],
)
def test_an_invalid_log_is_refused(rows, says):
    with pytest.raises(InvalidInput, match=says):
        replay(rows, NoImprovement(3))


def test_a_missing_or_wrong_worth_is_refused():
    with pytest.raises(InvalidInput, match="needs the exchange rate"):
        replay(ROWS, NotWorthIt(), space=SPACE)
    with pytest.raises(InvalidInput, match="price is in usd, but the cost is measured in cost"):
        replay(ROWS, NotWorthIt(), space=SPACE, worth="0.01 = $20")
    with pytest.raises(InvalidInput, match="worth=0"):
        replay(ROWS, NoImprovement(3), space=SPACE, worth=0)


@pytest.mark.parametrize("rule", [NoImprovement, NotWorthIt, 3, None, "stalled"])
@pytest.mark.parametrize("source", [ROWS, LONG], ids=["rows", "run"])
def test_an_invalid_rule_is_refused(source, rule):
    with pytest.raises(InvalidInput, match="expected an instance"):
        replay(source, rule)


@pytest.mark.slow
@pytest.mark.parametrize("nothing", [None, "", math.nan])
def test_a_row_with_a_cost_and_no_value_is_a_failed_trial(nothing):
    rows = [dict(each) for each in ROWS]
    paid = replay(rows, MaxTrials(99), space=SPACE)
    rows[2]["value"] = nothing
    found = replay(rows, MaxTrials(99), space=SPACE)
    assert found.trials_in_all == paid.trials_in_all == len(rows)
    assert found.spent_in_all == paid.spent_in_all

"""Changed settings: a study continues under them as if it had never been interrupted."""

import math

import numpy as np
import pytest
from contract_problem import cost_of, value_of
from processes import wait_until
from small_studies import SPACE, same

from farthing import (
    Bool,
    Budget,
    Categorical,
    Float,
    Int,
    InvalidInput,
    Ledger,
    Optimizer,
    Ordinal,
    Space,
    Stopped,
    Study,
    at_least,
)
from farthing.budget.ledger import Account
from farthing.core.edits import difference
from farthing.core.events import Asked
from farthing.core.settings import Settings
from farthing.cost import Linear
from farthing.errors import Outdated
from farthing.policies import EI, EIPerCost, Gittins, Random, Sobol
from farthing.stopping import MaxTrials, NotWorthIt

WIDER = Space(
    {
        "a": Float(-4, 5),
        "b": Float(1e-4, 2, log=True),
        "k": Int(0, 6),
        "s": Categorical(["new", "u", "v", ("w", 1)]),
        "m": Float(2, 3, when={"s": "u"}),
    }
)


def make(url, name="study", **settings):
    settings = {"space": SPACE, "budget": 500.0, "policy": Random(), **settings}
    return Study.create(url, name=name, **settings)


def play(study, count):
    for _ in range(count):
        trial = study.ask()
        study.tell(trial, value_of(trial.params), cost=cost_of(trial.params))


# ── the budget ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("budget", "told", "after"),
    [
        ("10m", "+10m", {"s": 1200}),
        ("10m", "20m", {"s": 1200}),
        ("10m", "-5m", {"s": 300}),
        ("10m, $4", "+$1.5", {"s": 600, "usd": 5.5}),
        ("10m, $4", "+1m, -$1", {"s": 660, "usd": 3}),
        ("10m", "$4", {"usd": 4}),
        ("10m", {"s": 60, "trials": 3}, {"s": 60, "trials": 3}),
        ("3 trials", "+ 2 trials", {"trials": 5}),
        (40, "+2", {"cost": 42}),
        ("1h", None, None),
    ],
)
def test_a_budget_is_a_total_or_an_increment(budget, told, after):
    optimizer = Optimizer(SPACE, budget, policy=Random())
    said = optimizer.change(budget=told)
    now = None if optimizer.budget is None else dict(optimizer.budget.limits)
    assert now == after
    assert said == {
        "budget": (str(Budget(budget)), "none" if after is None else str(Budget(after)))
    }
    limits = {r: a.limit for r in optimizer.ledger for a in [optimizer.ledger[r]]}
    assert {r: limit for r, limit in limits.items() if math.isfinite(limit)} == (after or {})


@pytest.mark.parametrize(
    ("budget", "told", "because"),
    [
        ("10m", "+$3", "no limit of usd to change, because the study has a budget of 10m"),
        (None, "+10m", "the study has no budget"),
        ("10m", "-10m", "limit of 10m would not stay above 0"),
        ("10m, $4", "+10m, $4", "expected a sign before every amount"),
        ("10m", "+", "is not a budget"),
        ("10m", "+soon", "is not a budget"),
        ("10m", "0m", "positive"),
    ],
)
def test_an_invalid_budget_is_refused(budget, told, because):
    optimizer = Optimizer(SPACE, budget, policy=Random())
    with pytest.raises(InvalidInput, match=because):
        optimizer.change(budget=told)
    assert optimizer.budget == (None if budget is None else Budget(budget))


def test_a_ledger_keeps_its_accounts_under_other_limits():
    ledger = Ledger.of(Budget({"s": 10, "usd": 3})).reserve(0, {"usd": 1.0}).charge(9, {"usd": 0.5})
    ledger = ledger.charge_overhead(2.0)
    more = ledger.limited(Budget({"usd": 5, "trials": 4}), {"trials": Account(math.inf, 1.0)})
    assert more.resources == ("usd", "trials", "s")
    assert more["usd"] == Account(5, 0.5, 1.0)
    assert more["s"] == Account(math.inf, 2.0, overhead=2.0)
    assert more["trials"] == Account(4, 1.0, 1.0)  # one is reserved for the running trial
    assert more.charge(0, {"usd": 1.0})["trials"] == Account(4, 2.0)
    back = more.limited(Budget({"s": 10, "usd": 3}), {})
    assert [back[r] for r in ("s", "usd")] == [ledger[r] for r in ("s", "usd")]
    unused = Ledger.of(Budget({"s": 10, "usd": 3})).limited(Budget("$1"), {})
    assert unused.resources == ("usd",)


def test_a_study_whose_budget_was_spent_continues_with_a_larger_one(url):
    study = make(url, budget={"trials": 2})
    play(study, 2)
    with pytest.raises(Stopped):
        study.ask()
    other = Study.open(url, "study")
    assert Study.open(url, "study").change(budget="+1 trials") == {
        "budget": ("2 trials", "3 trials")
    }
    assert not study.verdict.stop  # also without a new run
    play(study, 1)
    with pytest.raises(Stopped):
        other.ask()


def test_a_budget_below_the_spent_amount_starts_nothing_and_is_no_error(url):
    study = make(url, budget=500.0)
    play(study, 3)
    spent = study.ledger.spent
    study.change(budget=spent / 2)
    assert study.ledger["cost"].overspent == pytest.approx(spent / 2)
    assert study.verdict.stop
    with pytest.raises(Stopped, match="is spent"):
        study.ask()
    study.change(budget=f"+{spent}")
    play(study, 1)


def test_a_resource_that_is_limited_later_counts_earlier_costs(tmp_path):
    study = make(tmp_path / "s.db", budget=500.0)
    play(study, 3)
    running = study.ask()
    study.add(SPACE.decode(SPACE.sample(1, np.random.default_rng(0))[0]), 1.0)  # an external one
    study.change(budget={"cost": 500.0, "trials": 10})
    assert (study.ledger["trials"].spent, study.ledger["trials"].reserved) == (3, 1)
    study.tell(running, 1.0, cost=1.0)
    assert study.ledger["trials"].left == 6
    assert study.ledger["cost"].spent == pytest.approx(
        sum(trial.cost["cost"] for trial in study.history if not trial.is_external)
    )


# ── other settings ───────────────────────────────────────────────────────────────────────────────

CHANGES = [
    {"budget": "+100"},
    {"policy": EIPerCost(alpha=0.5)},
    {"stop": MaxTrials(90)},
    {"worth": 1e-6, "policy": Gittins(), "stop": NotWorthIt()},
    {"seed": 5, "noisy": True},
    {"cost": Linear()},
    {"space": WIDER},
    {"space": WIDER, "budget": 300.0, "start": {"s": "new"}},
]


@pytest.mark.slow
@pytest.mark.parametrize("given", CHANGES, ids=lambda given: "-".join(given))
def test_a_changed_study_resumes_as_exactly_as_an_unchanged_one(url, given):
    """It suggests what an Optimizer suggests that was never closed."""
    study = make(url, policy=EI())
    optimizer = Optimizer(SPACE, 500.0, policy=EI())
    for k in range(11):
        if k == 7:
            assert study.change(**given) == optimizer.change(**given)
        if k in (3, 7, 9):
            study = Study.open(url, "study")
        asked = [each.ask() for each in (study, optimizer)]
        same(*asked)
        for each, trial in zip((study, optimizer), asked, strict=True):
            if k == 4:
                each.tell(trial, failed="out of memory", cost=2.0)
            elif k != 5:  # trial 5 is still running at the change
                value = value_of({**trial.params, "s": "u" if k < 7 else "v"})
                each.tell(trial, value, cost=cost_of({**trial.params, "s": "u"}))
    assert study.ledger == optimizer.ledger
    for each in (study, optimizer):
        each.tell(5, 1.0, cost=1.0)
    same(study.ask(), optimizer.ask())
    assert [change["trials"] for change in study.changes] == [7]


def test_every_open_handle_applies_a_change(url):
    one, other = make(url), Study.open(url, "study")
    play(one, 1)
    assert other.change(policy=Sobol(), timeout="5m", stop=MaxTrials(3)) == {
        "policy": ("Random()", "Sobol()"),
        "timeout": ("none", "5 m 00 s"),
        "stop": ("none", "MaxTrials(count=3)"),
    }
    assert "Sobol" in one.ask().because
    assert (one.current_settings.timeout, one.policy) == (300.0, Sobol())
    one.tell(1, 1.0, cost=1.0)
    play(one, 1)
    with pytest.raises(Stopped, match="3 of at most 3"):
        one.ask()


def test_two_changes_at_once_are_both_made(url):
    one, other = make(url), Study.open(url, "study")
    assert len(one.history) == len(other.history) == 0  # both have loaded the state
    one.change(budget="+10")
    other.change(budget="+10")
    other.change(timeout=3)
    one.change(retries=2)
    now = Study.open(url, "study").current_settings
    assert (now.budget, now.timeout, now.retries) == (Budget(520), 3.0, 2)
    changes = one.changes
    assert [change["said"] for change in changes] == [
        {"budget": ("500", "510")},
        {"budget": ("510", "520")},
        {"timeout": ("none", "3.0 s")},
        {"retries": ("0", "2")},
    ]
    assert changes[0]["at"] <= changes[-1]["at"]
    assert Study.open(url, "study").changes == changes


def test_a_suggestion_under_other_settings_is_made_again(url):
    """A point of the old unit cube means other parameters in the new one."""
    study, other = make(url, policy=Sobol()), Study.open(url, "study")
    suggestion = study._asker.suggest(study._look()).suggestion
    other.change(space=WIDER)
    trial, hold = suggestion.trial()
    with pytest.raises(Outdated, match="the settings have changed"):
        study._session.commit(Asked(trial, hold, changes=0))
    asked = study.ask()
    np.testing.assert_array_equal(asked.x, WIDER.encode(asked.params))


def test_no_settings_and_equal_settings_are_no_change(url):
    study = make(url)
    assert study.change() == study.change(budget=500, retries=0, space=SPACE) == {}
    assert study.changes == []


def test_run_options_can_change_only_where_workers_run_trials(tmp_path):
    with pytest.raises(InvalidInput, match=r"Unknown setting 'timeout': expected one of space"):
        Optimizer(SPACE, 500.0).change(timeout=3)
    with pytest.raises(InvalidInput, match="Unknown setting 'colour'"):
        make(tmp_path / "s.db").change(colour=3)


def test_giving_the_same_settings_again_does_not_undo_a_change(url):
    study = make(url, retries=1)
    play(study, 1)
    study.change(budget="+100", space=WIDER)
    again = make(url, retries=1)
    assert (again.changed, again.budget) == ({}, Budget(600))
    assert again.overridden["budget"] == ("500", "600")
    assert again.space == WIDER
    other = make(url, retries=2)
    assert (other.changed, other.budget) == ({"retries": ("1", "2")}, Budget(600))
    less = make(url, retries=2, budget=550.0)
    assert less.changed == {"budget": ("600", "550")}
    assert [list(change["said"]) for change in less.changes] == [
        ["a", "b", "k", "s", "budget"],
        ["retries"],
        ["budget"],
    ]


def test_settings_are_compared_with_those_given_last(url):
    """What was changed since then stays if the same settings are given once more."""
    make(url, retries=1)
    make(url, retries=2).change(retries=5)
    again = make(url, retries=2)
    assert again.changed == {}
    assert again.current_settings.retries == 5
    assert again.overridden == {"retries": ("2", "5")}


def test_a_function_that_cannot_be_stored_survives_a_change(tmp_path):
    url = tmp_path / "s.db"
    study = make(url, cost=lambda params: 2.0)
    play(study, 1)
    same_price = make(url, cost=lambda params: 2.0, retries=3)
    same_price.tell(same_price.ask(), 1.0)
    assert same_price.ledger.spent == study.ledger.spent
    study.tell(study.ask(), 1.0)  # with its own function, after the settings were loaded
    assert study.current_settings.retries == 3


# ── the space ────────────────────────────────────────────────────────────────────────────────────


def test_earlier_trials_keep_their_parameters_in_a_larger_space(url):
    study = make(url, policy=EI())
    study.import_trials(
        [{**trial, "cost": 3.0} for trial in map(SPACE.decode, SPACE.sample(3, rng()))],
        values=False,
    )
    play(study, 6)
    before = [dict(trial.params) for trial in study.history]
    prices = [SPACE.decode(price.x) for price in study._look().prices]
    study.change(space=WIDER)
    for each in (study, Study.open(url, "study")):
        assert [dict(trial.params) for trial in each.history] == before
        for trial in each.history:
            np.testing.assert_array_equal(trial.x, WIDER.encode(trial.params))
            assert "memories" not in trial.notes  # lengthscales of the old cube
        for price, params in zip(each._look().prices, prices, strict=True):
            np.testing.assert_allclose(price.x, WIDER.encode(params), rtol=0, atol=1e-12)
        assert each.best.value == min(value_of(params) for params in before)


def rng():
    return np.random.default_rng(2)


def test_a_running_trial_ends_in_the_larger_space(url):
    study = make(url)
    trial = study.ask()
    Study.open(url, "study").change(space=WIDER)
    study.tell(trial, 1.5, cost=1.0)
    assert study.history[0].value == 1.5


def test_new_options_are_suggested(tmp_path):
    study = make(tmp_path / "s.db", budget="50 trials")
    play(study, 2)
    study.change(space=WIDER)
    seen = {study.ask(anyway=True).params["s"] for _ in range(20)}
    assert "new" in seen


ROWS = [{"w": 1, "s": "a"}, {"w": 2, "s": "b"}, {"w": 4, "s": None}]


def test_a_table_can_get_more_rows(url):
    study = make(url, space=Space.from_rows(ROWS), budget="9 trials")
    seen = [study.ask() for _ in range(2)]
    study.change(space=Space.from_rows([{"w": 8, "s": "b"}, *ROWS]))
    for trial in seen:
        assert study.history[trial.number].params == trial.params
        study.tell(trial, 1.0)
    assert len({str(study.ask().params) for _ in range(2)}) == 2
    with pytest.raises(Stopped):
        study.ask()
    with pytest.raises(InvalidInput, match=r"lacks the row .*'w': 8.*: a table can only get more"):
        study.change(space=Space.from_rows([{"w": 1, "s": "b"}, *ROWS[1:], {"w": 8, "s": "a"}]))
    with pytest.raises(InvalidInput, match=r"cannot become"):
        study.change(space={"w": Ordinal([1, 2, 4, 8]), "s": Categorical(["a", "b"])})


@pytest.mark.parametrize(
    ("name", "parameter", "because"),
    [
        ("a", Float(-3, 4), "is -3 to 5 and cannot become -3 to 4"),
        ("a", Float(-2, 6), "is -3 to 5 and cannot become -2 to 6"),
        ("a", Int(-3, 5), "is -3 to 5 and cannot become a whole number from -3 to 5"),
        ("b", Float(1e-4, 1), "is 0.0001 to 1 on a log scale and cannot become 0.0001 to 1:"),
        ("s", Categorical(["u", ("w", 1)]), "is one of u, v, .* and cannot become one of u, "),
        ("m", Float(2, 3), "is 2 to 3 when s is u and cannot become 2 to 3:"),
    ],
)
def test_a_space_only_grows(tmp_path, name, parameter, because):
    study = make(tmp_path / "s.db")
    other = Space({**SPACE.parameters, name: parameter})
    study.change(space=other)  # allowed before the first trial
    study.change(space=SPACE)
    play(study, 1)
    with pytest.raises(InvalidInput, match=f"Parameter '{name}' {because}"):
        study.change(space=other)
    assert study.space == SPACE
    for fewer_or_more in (
        {k: v for k, v in SPACE.parameters.items() if k != "k"},
        {**SPACE.parameters, "more": Float(0, 1)},
    ):
        with pytest.raises(InvalidInput, match=r"lacks the parameter 'k'|have no value of it"):
            study.change(space=fewer_or_more)


@pytest.mark.parametrize("grown", [Ordinal([1, 2, 3, 4]), Ordinal([0.5, 1, 2, 4])])
def test_an_ordinal_gets_more_values(grown):
    optimizer = Optimizer({"o": Ordinal([1, 2, 4])}, "9 trials", policy=Random())
    optimizer.tell(optimizer.ask(), 1.0)
    optimizer.change(space={"o": grown})
    (trial,) = optimizer.history
    assert optimizer.space.decode(trial.x) == dict(trial.params)


# ── texts ────────────────────────────────────────────────────────────────────────────────────────


def test_settings_are_described_as_a_user_writes_them():
    def price(params):
        return 1.0

    before = Settings.of(SPACE, "2h, $3", stop=MaxTrials(3), command=["a", "b c"])
    after = Settings.of(
        {**SPACE.parameters, "k": Int(1, 9, cost="increases")},
        "2h, $3",
        policy=EIPerCost(alpha=0.5),
        cost={"usd": price, "s": Linear()},
        command=["a"],
        grace=0.5,
        failures_in_a_row=math.inf,
        start={"a": 1.0},
        max_overrun=4.0,
        rate="$3/h",
        noisy=True,
    )
    said = difference(before, after)
    assert said == {
        "k": (
            "a whole number from 1 to 6",
            "a whole number from 1 to 9; its cost increases with the value",
        ),
        "policy": ("Cooling(first=0.5)", "EIPerCost(alpha=0.5)"),
        "stop": ("MaxTrials(count=3)", "none"),
        "cost": ("none", "usd: price, s: Linear()"),
        "noisy": ("no", "yes"),
        "start": ("none", "a=1.0"),
        "max_overrun": ("none", "4"),
        "failures_in_a_row": ("5", "no limit"),
        "grace": ("5.0 s", "500 ms"),
        "rate": ("none", "$3/h"),
        "command": ("a 'b c'", "a"),
    }
    assert not any(sign in text for pair in said.values() for text in pair for sign in '{}"')


# ── while it runs ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_running_workers_apply_a_change(url, workers, tmp_path):
    """The first trials started under a budget that did not count seconds."""
    study, gate = make(url, budget="3 trials", space={"a": Float(0, 1)}), tmp_path / "gate"

    def objective(params):
        assert wait_until(gate.exists)
        return params["a"]

    def meanwhile(running):
        if len(running.history) and not gate.exists():
            other = Study.open(url, "study")
            other.change(budget="6 trials, 10m", space={"a": Float(0, 2)})
            other.close()
            gate.touch()

    result = study.run(objective, workers=workers, on_change=meanwhile)
    assert len(result.history.done) == 6
    assert all(trial.cost["s"] > 0 for trial in result.history)
    assert result.ledger["s"].limit == 600
    assert result.ledger["s"].spent == pytest.approx(result.elapsed_s)


STEPS = {"w": Int(16, 64, step=16), "f": Bool(), "r": Float(0, 1, when={"w": at_least(32)})}


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("w", Int(0, 96, step=16)),
        ("w", Int(8, 64, step=8)),
        ("w", Int(16, 64)),
        ("f", Categorical([False, True, "auto"])),
    ],
)
def test_a_step_gets_finer_and_a_bool_gets_more_options(name, parameter):
    optimizer = Optimizer(STEPS, "9 trials", policy=Random())
    for _ in range(4):
        optimizer.tell(optimizer.ask(), 1.0)
    optimizer.change(space={**STEPS, name: parameter})
    for trial in optimizer.history:
        assert optimizer.space.decode(trial.x) == dict(trial.params)


@pytest.mark.parametrize(
    ("name", "parameter", "because"),
    [
        ("w", Int(16, 64, step=24), "from 16 to 64 in steps of 16 and cannot become .* of 24"),
        ("w", Int(8, 72, step=16), "in steps of 16 and cannot become"),
        ("f", Categorical([False]), "is true or false and cannot become one of False"),
        (
            "r",
            Float(0, 1, when={"w": at_least(48)}),
            "when w is at least 32 and cannot become 0 to 1 when w is at least 48",
        ),
    ],
)
def test_steps_options_and_conditions_that_exclude_trials_are_refused(name, parameter, because):
    optimizer = Optimizer(STEPS, "9 trials", policy=Random())
    optimizer.tell(optimizer.ask(), 1.0)
    with pytest.raises(InvalidInput, match=because):
        optimizer.change(space={**STEPS, name: parameter})


def test_allowed_combinations_only_grow():
    parameters = {"a": Int(1, 3), "b": Categorical(["x", "y"]), "c": Float(0, 1)}
    pairs = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3}]
    optimizer = Optimizer(Space(parameters, allowed=pairs[:2]), "20 trials", policy=Random())
    optimizer.tell(optimizer.ask(), 1.0)
    changes = optimizer.change(space=Space(parameters, allowed=pairs))
    assert changes == {"allowed": ("2", "3")}
    (trial,) = optimizer.history
    assert optimizer.space.decode(trial.x) == dict(trial.params)
    with pytest.raises(InvalidInput, match=r"lacks the allowed combination \{'a': 1"):
        optimizer.change(space=Space(parameters, allowed=pairs[1:]))
    for other in (Space(parameters), Space(parameters, allowed=[{"a": 1}, {"a": 2}])):
        with pytest.raises(InvalidInput, match="combinations of the same parameters"):
            optimizer.change(space=other)

"""A study made otherwise after it was begun: it goes on as if it had never been interrupted."""

import math

import numpy as np
import pytest
from contract_problem import cost_of, value_of
from processes import wait_until
from small_studies import SPACE, same

from farthing import (
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


# ── the budget ─────────────────────────────────────────────────────────────────────────────────


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
def test_a_budget_is_what_may_be_spent_in_all_or_so_much_more(budget, told, after):
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
        ("10m", "+$3", "no budget of usd to add to; the study limits 10m"),
        (None, "+10m", "the study has no limit"),
        ("10m", "-10m", "nothing would be left of 10m"),
        ("10m, $4", "+10m, $4", "either all of it is more or less than before"),
        ("10m", "+", "no amount"),
        ("10m", "+soon", "no amount"),
        ("10m", "0m", "positive"),
    ],
)
def test_a_budget_that_makes_no_sense(budget, told, because):
    optimizer = Optimizer(SPACE, budget, policy=Random())
    with pytest.raises(InvalidInput, match=because):
        optimizer.change(budget=told)
    assert optimizer.budget == (None if budget is None else Budget(budget))


def test_a_ledger_under_other_limits_forgets_nothing():
    ledger = Ledger.of(Budget({"s": 10, "usd": 3})).reserve(0, {"usd": 1.0}).charge(9, {"usd": 0.5})
    ledger = ledger.charge_overhead(2.0)
    more = ledger.limited(Budget({"usd": 5, "trials": 4}), {"trials": Account(math.inf, 1.0)})
    assert more.resources == ("usd", "trials", "s")
    assert more["usd"] == Account(5, 0.5, 1.0)
    assert more["s"] == Account(math.inf, 2.0, overhead=2.0)
    assert more["trials"] == Account(4, 1.0, 1.0)  # the one that is running is held
    assert more.charge(0, {"usd": 1.0})["trials"] == Account(4, 2.0)
    back = more.limited(Budget({"s": 10, "usd": 3}), {})
    assert [back[r] for r in ("s", "usd")] == [ledger[r] for r in ("s", "usd")]
    unused = Ledger.of(Budget({"s": 10, "usd": 3})).limited(Budget("$1"), {})
    assert unused.resources == ("usd",)


def test_a_study_that_ended_for_lack_of_budget_goes_on_when_it_is_given_more(url):
    study = make(url, budget={"trials": 2})
    play(study, 2)
    with pytest.raises(Stopped):
        study.ask()
    other = Study.open(url, "study")
    assert Study.open(url, "study").change(budget="+1 trials") == {
        "budget": ("2 trials", "3 trials")
    }
    assert not study.verdict.stop  # whoever looks sees it
    play(study, 1)
    with pytest.raises(Stopped):
        other.ask()


def test_less_than_was_spent_starts_nothing_and_is_no_error(url):
    study = make(url, budget=500.0)
    play(study, 3)
    spent = study.ledger.spent
    study.change(budget=spent / 2)
    assert study.ledger.left == pytest.approx(-spent / 2)
    assert study.verdict.stop
    with pytest.raises(Stopped, match="is spent"):
        study.ask()
    study.change(budget=f"+{spent}")
    play(study, 1)


def test_a_resource_that_is_limited_later_counts_what_is_known_of_it(tmp_path):
    study = make(tmp_path / "s.db", budget=500.0)
    play(study, 3)
    running = study.ask()
    study.add(SPACE.decode(SPACE.sample(1, np.random.default_rng(0))[0]), 1.0)  # elsewhere
    study.change(budget={"cost": 500.0, "trials": 10})
    assert (study.ledger["trials"].spent, study.ledger["trials"].reserved) == (3, 1)
    study.tell(running, 1.0, cost=1.0)
    assert study.ledger["trials"].left == 6
    assert study.ledger["cost"].spent == pytest.approx(
        sum(trial.cost["cost"] for trial in study.history if not trial.is_external)
    )


# ── everything else ────────────────────────────────────────────────────────────────────────────

OTHERWISE = [
    {"budget": "+100"},
    {"policy": EIPerCost(alpha=0.5)},
    {"stop": MaxTrials(90)},
    {"worth": 1e-6, "policy": Gittins(), "stop": NotWorthIt()},
    {"seed": 5, "noisy": True},
    {"cost": Linear()},
    {"space": WIDER},
    {"space": WIDER, "budget": 300.0, "start": {"s": "new"}},
]


@pytest.mark.parametrize("given", OTHERWISE, ids=lambda given: "-".join(given))
def test_a_changed_study_resumes_as_exactly_as_an_unchanged_one(url, given):
    """It proposes what an Optimizer does that was never closed, and keeps doing so."""
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
            elif k != 5:  # which is still running when it is changed
                value = value_of({**trial.params, "s": "u" if k < 7 else "v"})
                each.tell(trial, value, cost=cost_of({**trial.params, "s": "u"}))
    assert study.ledger == optimizer.ledger
    for each in (study, optimizer):
        each.tell(5, 1.0, cost=1.0)
    same(study.ask(), optimizer.ask())
    assert [change["trials"] for change in study.changes] == [7]


def test_a_change_is_taken_up_by_whoever_has_it_open(url):
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
    assert len(one.history) == len(other.history) == 0  # both have looked
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


def test_a_thought_under_other_settings_is_thought_again(url):
    """What was proposed in the old cube is no point of the new one."""
    study, other = make(url, policy=Sobol()), Study.open(url, "study")
    suggestion = study._suggest(study._look()).suggestion
    other.change(space=WIDER)
    trial, hold = suggestion.trial()
    with pytest.raises(Outdated, match="changed meanwhile"):
        study._commit(Asked(trial, hold, changes=0))
    asked = study.ask()
    np.testing.assert_array_equal(asked.x, WIDER.encode(asked.params))


def test_nothing_given_and_nothing_new_is_no_change(url):
    study = make(url)
    assert study.change() == study.change(budget=500, retries=0, space=SPACE) == {}
    assert study.changes == []


def test_what_only_workers_read_is_changed_where_there_are_some(tmp_path):
    with pytest.raises(InvalidInput, match=r"no setting 'timeout' to change\. There are space"):
        Optimizer(SPACE, 500.0).change(timeout=3)
    with pytest.raises(InvalidInput, match="no setting 'colour'"):
        make(tmp_path / "s.db").change(colour=3)


def test_giving_the_same_settings_again_does_not_take_a_change_back(url):
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


def test_what_was_given_otherwise_is_what_was_given_last(url):
    """And what was changed since then stays, when the same is given once more."""
    make(url, retries=1)
    make(url, retries=2).change(retries=5)
    again = make(url, retries=2)
    assert again.changed == {}
    assert again.current_settings.retries == 5
    assert again.overridden == {"retries": ("2", "5")}


def test_a_function_that_cannot_be_kept_survives_a_change(tmp_path):
    url = tmp_path / "s.db"
    study = make(url, cost=lambda params: 2.0)
    play(study, 1)
    same_price = make(url, cost=lambda params: 2.0, retries=3)
    same_price.tell(same_price.ask(), 1.0)
    assert same_price.ledger.spent == study.ledger.spent
    study.tell(study.ask(), 1.0)  # its own function, under settings that came from the database
    assert study.current_settings.retries == 3


# ── the space ──────────────────────────────────────────────────────────────────────────────────


def test_what_was_evaluated_is_where_it_was_in_a_larger_space(url):
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


def test_a_trial_that_was_running_is_told_in_the_larger_space(url):
    study = make(url)
    trial = study.ask()
    Study.open(url, "study").change(space=WIDER)
    study.tell(trial, 1.5, cost=1.0)
    assert study.history[0].value == 1.5


def test_what_is_new_is_proposed(tmp_path):
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
    with pytest.raises(InvalidInput, match=r"row .*'w': 8.* is missing: a table can only get more"):
        study.change(space=Space.from_rows([{"w": 1, "s": "b"}, *ROWS[1:], {"w": 8, "s": "a"}]))
    with pytest.raises(InvalidInput, match=r"cannot become a space|would be"):
        study.change(space={"w": Ordinal([1, 2, 4, 8]), "s": Categorical(["a", "b"])})


@pytest.mark.parametrize(
    ("name", "parameter", "because"),
    [
        ("a", Float(-3, 4), "is -3 to 5, and would be -3 to 4"),
        ("a", Float(-2, 6), "is -3 to 5, and would be -2 to 6"),
        ("a", Int(-3, 5), "is -3 to 5, and would be a whole number from -3 to 5"),
        ("b", Float(1e-4, 1), "is 0.0001 to 1 on a log scale, and would be 0.0001 to 1:"),
        ("s", Categorical(["u", ("w", 1)]), "is one of u, v, .*, and would be one of u, "),
        ("m", Float(2, 3), "is 2 to 3 when s is u, and would be 2 to 3:"),
    ],
)
def test_a_space_only_grows(tmp_path, name, parameter, because):
    study = make(tmp_path / "s.db")
    other = Space({**SPACE.parameters, name: parameter})
    study.change(space=other)  # while there is nothing to lose
    study.change(space=SPACE)
    play(study, 1)
    with pytest.raises(InvalidInput, match=f"Parameter '{name}' of the study {because}"):
        study.change(space=other)
    assert study.space == SPACE
    for fewer_or_more in (
        {k: v for k, v in SPACE.parameters.items() if k != "k"},
        {**SPACE.parameters, "more": Float(0, 1)},
    ):
        with pytest.raises(InvalidInput, match=r"which is missing here|no value of it"):
            study.change(space=fewer_or_more)


@pytest.mark.parametrize("grown", [Ordinal([1, 2, 3, 4]), Ordinal([0.5, 1, 2, 4])])
def test_an_ordinal_gets_more_values(grown):
    optimizer = Optimizer({"o": Ordinal([1, 2, 4])}, "9 trials", policy=Random())
    optimizer.tell(optimizer.ask(), 1.0)
    optimizer.change(space={"o": grown})
    (trial,) = optimizer.history
    assert optimizer.space.decode(trial.x) == dict(trial.params)


# ── words ──────────────────────────────────────────────────────────────────────────────────────


def test_settings_are_said_as_a_person_writes_them():
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
        "k": ("a whole number from 1 to 6", "a whole number from 1 to 9, whose cost increases"),
        "policy": ("Gittins()", "EIPerCost(alpha=0.5)"),
        "stop": ("MaxTrials(count=3)", "none"),
        "cost": ("none", "usd: price, s: Linear()"),
        "noisy": ("no", "yes"),
        "start": ("none", "a=1.0"),
        "max_overrun": ("none", "4"),
        "failures_in_a_row": ("5", "however many"),
        "grace": ("5.0 s", "500 ms"),
        "rate": ("none", "$3/h"),
        "command": ("a 'b c'", "a"),
    }
    assert not any(sign in text for pair in said.values() for text in pair for sign in '{}"')


# ── while it runs ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_take_up_what_is_changed_while_they_run(url, workers, tmp_path):
    """The first trials began under a budget that did not count seconds."""
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

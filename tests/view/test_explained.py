"""The sentences that explain why a trial was suggested."""

import pytest
from runs import SPACE, played, seen, value

from farthing import Optimizer
from farthing.policies import EI, EIPerCost, Random, StartWith
from farthing.view.chosen import WITHOUT_COMPARISON, chosen_by
from farthing.view.facts import explanation
from farthing.view.figures import front_figure
from farthing.view.report import explained
from farthing.view.report.explained import _expected

BLAME = ("below", "does not", "worse", "another point", "better", "not the best", "wrong")


@pytest.fixture(scope="module")
def optimizer():
    """Trial 0 is of the design, 9 of the policy, 10 enqueued, 11 imported."""
    optimizer = played(10, broken=())
    optimizer.enqueue({"rate": 0.01, "depth": 3})
    trial = optimizer.ask()
    optimizer.tell(trial, value(trial.params), cost=2.0)
    optimizer.add({"rate": 0.02, "depth": 5, "solver": "adam"}, 1.0, cost=3.0)
    return optimizer


def facts_of(optimizer, number):
    return explanation(*seen(optimizer), number)


def no_blame(text):
    return not any(word in text.lower() for word in BLAME)


def test_a_trial_on_the_front(optimizer):
    facts = facts_of(optimizer, 9)
    assert (facts["chosen_by"], facts["on_the_front"]) == ("model", True)
    words = explained(facts)
    assert words["because"] == optimizer.history[9].because  # what was optimised
    assert words["expected"].startswith("a cost of $")
    assert "of the highest of all compared points" in words["expected"]
    text = explained({**facts, "cheaper_on_the_front": 3, "alpha": [0.5, None]})["trade-off"]
    assert text == (
        "No compared point promised more improvement for the same cost or less. 3 points with this "
        "property were cheaper, but promised less. It has the highest improvement / cost^a for "
        "a >= 0.50 (a = 0 ignores the cost; a = 1 is improvement per cost)."
    )
    alone = explained({**facts, "cheaper_on_the_front": 0, "alpha": None})["trade-off"]
    assert alone == "No compared point promised more improvement for the same cost or less."
    assert (
        "1 point with this property was cheaper"
        in (explained({**facts, "cheaper_on_the_front": 1})["trade-off"])
    )


def test_a_trial_below_the_front(optimizer):
    below = {**facts_of(optimizer, 9), "on_the_front": False, "alpha": None}
    text = explained({**below, "front": 14, "cheaper_on_the_front": 3})["trade-off"]
    assert text == (
        "The policy may also count what can still be learnt, what is running and what is left of "
        "the budget. Its choice can therefore differ from the 14 best compromises between expected "
        "improvement and expected cost alone (3 of them cheaper)."
    )
    one = explained({**below, "front": 1, "cheaper_on_the_front": 1})["trade-off"]
    assert one.endswith("from the best compromise between expected improvement and expected cost "
                        "alone.")  # fmt: skip
    assert no_blame(text)


def test_a_trial_that_no_model_chose(optimizer):
    expected = {0: "design", 10: "user", 11: "import"}
    for number, kind in expected.items():
        facts = facts_of(optimizer, number)
        assert facts["chosen_by"] == kind
        words = explained(facts)
        assert words["trade-off"] == WITHOUT_COMPARISON[kind]
        assert "compared points" not in words["expected"]
        caption = front_figure(*seen(optimizer), number)
        assert WITHOUT_COMPARISON[kind] in caption.caption or caption.empty
    assert WITHOUT_COMPARISON["user"] in front_figure(*seen(optimizer), 10).caption


def test_a_random_trial():
    optimizer = played(8, broken=(), policy=Random())
    facts = facts_of(optimizer, 7)
    assert facts["chosen_by"] == "no model"
    assert "front" in facts  # the explanation fits models that the policy did not use
    words = explained(facts)
    assert words["because"] == "drawn uniformly among the affordable points"
    assert words["trade-off"] == (
        "The policy uses no model: it compares neither improvement nor cost."
    )
    assert "compared points" not in words["expected"]


def test_without_costs_only_the_improvement_counts():
    optimizer = Optimizer(SPACE, "20 trials", policy=EI())
    for _ in range(6):
        trial = optimizer.ask()
        optimizer.tell(trial, value(trial.params))
    text = explained(facts_of(optimizer, 5))["trade-off"]
    assert text == "Costs are not predicted, so only the improvement counted."


@pytest.mark.parametrize("number", [0, 4, 9, 10, 11])
def test_no_explanation_blames_the_choice(optimizer, number):
    words = explained(facts_of(optimizer, number))
    assert no_blame(words["trade-off"])
    assert words["trade-off"].count(". ") <= 2  # at most three sentences
    assert "front" not in words
    figure = front_figure(*seen(optimizer), number)
    assert figure.empty or no_blame(figure.caption)


def test_every_way_of_choosing_has_a_sentence():
    optimizer = played(9, broken=(), policy=StartWith([{"rate": 0.01}], then=EIPerCost()))
    settings, state = seen(optimizer)
    assert {chosen_by(settings, trial) for trial in state.history} == {"design", "model"}
    assert all(no_blame(sentence) for sentence in WITHOUT_COMPARISON.values())


@pytest.mark.parametrize(
    ("gain", "words"), [(0.25, "an improvement of 0.25"), (None, "any feasible value")]
)
def test_the_expected_improvement_is_named_if_there_is_one(gain, words):
    facts = {"predicted": {}, "front": [], "chosen_by": "model", "share_of_the_most": 0.5}
    text = _expected({**facts, "expected_improvement": gain})
    assert text == f"no cost was predicted; {words}, 50% of the highest of all compared points"

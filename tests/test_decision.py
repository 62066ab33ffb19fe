from dataclasses import dataclass, field

import numpy as np
import pytest
from beliefs import NOTHING, known, line, toy

from farthing import InvalidInput
from farthing.decision import Proposal, Verdict, all_of, any_of, judge
from farthing.stopping import MaxTrials, NotWorthIt, OutOfBudget, Target

BELIEF = known(line(2))


@dataclass(frozen=True)
class Says:
    """A rule that says what it is told to."""

    stop: bool
    number: float = 1.0
    notes: dict = field(default_factory=dict)
    needs: frozenset = frozenset()
    reads: frozenset = frozenset()
    models: bool = False

    def __call__(self, belief, proposal, rng):
        word = "stop" if self.stop else "go on"
        because = f"{word} {self.number:g}"
        return Verdict(self.stop, because, self.number, 10 * self.number, self.notes)


def verdict_of(rule, belief=BELIEF):
    return judge(rule, belief, NOTHING, np.random.default_rng(0))


YES, NO = True, False


@pytest.mark.parametrize("said", [(YES,), (NO,), (YES, YES), (YES, NO), (NO, YES), (NO, NO, NO)])
def test_any_is_any_and_all_is_all(said):
    rules = [Says(stop, number=i + 1) for i, stop in enumerate(said)]
    assert verdict_of(any_of(*rules)).stop == any(said)
    assert verdict_of(all_of(*rules)).stop == all(said)


def test_the_reason_is_that_of_those_who_decided():
    rules = Says(NO, 1), Says(YES, 2), Says(YES, 3)
    verdict = verdict_of(any_of(*rules))
    assert verdict.because == "stop 2; stop 3"
    assert (verdict.number, verdict.threshold) == (2, 20)
    verdict = verdict_of(all_of(*rules))
    assert verdict.because == "go on 1"
    assert (verdict.number, verdict.threshold) == (1, 10)
    verdict = verdict_of(all_of(*rules[1:]))
    assert verdict.because == "stop 2; stop 3"
    verdict = verdict_of(any_of(rules[0], Says(NO, 4)))
    assert verdict.because == "go on 1; go on 4"


def test_everybody_is_heard_and_remembered():
    """A rule that counts must count on even where another one decides."""
    rules = Says(YES, notes={"a": 1}), Says(NO, notes={"b": 2})
    assert verdict_of(any_of(*rules)).notes == {"a": 1, "b": 2}
    assert verdict_of(all_of(*rules)).notes == {"a": 1, "b": 2}


NEEDING = frozenset({"model", "cost"})


def test_a_rule_that_needs_a_model_is_not_asked_before_there_is_one():
    verdict = verdict_of(Says(YES, needs=NEEDING))
    assert (verdict.stop, verdict.because) == (False, "too few values to judge yet")
    assert np.isnan([verdict.number, verdict.threshold]).all()
    assert verdict_of(Says(YES, needs=NEEDING), toy()).because == "stop 1"
    assert verdict_of(Says(YES, needs=frozenset({"cost"}))).because == "stop 1"


def test_the_parts_that_need_no_model_are_judged_without_one():
    rules = Says(YES, 1, needs=NEEDING, notes={"a": 1}), Says(YES, 2, notes={"b": 2})
    verdict = verdict_of(any_of(*rules))
    assert (verdict.stop, verdict.because, verdict.notes) == (True, "stop 2", {"b": 2})
    assert verdict_of(any_of(*rules), toy()).because == "stop 1; stop 2"
    verdict = verdict_of(all_of(*rules))
    assert (verdict.stop, verdict.because) == (False, "too few values to judge yet")
    assert verdict_of(all_of(*rules), toy()).stop
    assert verdict_of(any_of(all_of(rules[0]), rules[1])).because == "stop 2"


def test_they_can_be_nested():
    rule = any_of(all_of(Says(YES, 1), Says(NO, 2)), all_of(Says(YES, 3), Says(YES, 4)))
    verdict = verdict_of(rule)
    assert verdict.stop
    assert verdict.because == "stop 3; stop 4"
    assert not verdict_of(all_of(any_of(Says(NO), Says(NO)), Says(YES))).stop


def test_together_they_need_what_each_needs():
    rules = (
        Says(YES, needs=frozenset({"cost", "model"}), reads=frozenset({"worth"})),
        Says(YES, needs=frozenset({"budget"}), models=True),
    )
    for together in (any_of(*rules), all_of(*rules)):
        assert together.needs == {"cost", "budget"}  # each part waits for its model by itself
        assert together.reads == {"worth"}
        assert together.models
    assert not any_of(rules[0]).models
    assert any_of(NotWorthIt(), MaxTrials(3)).needs == {"cost", "worth"}
    assert any_of(NotWorthIt(), MaxTrials(3)).models
    assert not all_of(MaxTrials(3), Target(1.0), OutOfBudget()).models


@pytest.mark.parametrize("join", [any_of, all_of])
def test_of_nothing_is_refused(join):
    with pytest.raises(InvalidInput, match="give at least one"):
        join()


def test_real_rules_together():
    belief = known(line(2), y=np.array([2.0, 5.0]))
    assert verdict_of(any_of(MaxTrials(3), Target(2.5)), belief).because == (
        "the best value 2 has reached the target 2.5"
    )
    assert (
        verdict_of(all_of(MaxTrials(3), Target(2.5)), belief).because
        == "0 of at most 3 trials made"
    )


def test_proposals_and_verdicts_do_not_change():
    for made in (Proposal(None, "why"), Verdict(True, "why")):
        with pytest.raises(AttributeError):
            made.because = "why not"

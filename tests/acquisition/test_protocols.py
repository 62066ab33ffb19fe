from dataclasses import dataclass, field

import numpy as np
import pytest
from beliefs import NOTHING, done, known, line, toy

from farthing import History, InvalidInput
from farthing.acquisition.protocols import Proposal, Verdict, judge
from farthing.stopping import MaxTrials, NotWorthIt, OutOfBudget, Target
from farthing.stopping.combine import after, all_of, any_of, in_a_row

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


# ---------------------------------------------------------------- rules that have to wait
def with_trials(count, notes=None):
    trials = [done(i, [0.0], 1.0) for i in range(count)]
    if notes is not None:
        trials[-1] = done(count - 1, [0.0], 1.0, notes=notes)
    return known(line(2), history=History(tuple(trials)))


@pytest.mark.parametrize(("made", "stop"), [(0, NO), (2, NO), (3, YES), (4, YES)])
def test_after_so_many_trials(made, stop):
    verdict = verdict_of(after(3, Says(YES, 2, notes={"a": 1})), with_trials(made))
    assert verdict.stop == stop
    assert (verdict.number, verdict.threshold) == (2, 20)
    assert verdict.notes == {"a": 1}  # it is asked from the first, to remember
    early = "" if stop else f" ({made} of at least 3 trials made)"
    assert verdict.because == f"stop 2{early}"


def test_after_changes_no_rule_that_goes_on():
    assert not verdict_of(after(3, Says(NO)), with_trials(9)).stop


def test_in_a_row_counts_and_begins_again():
    belief, streaks, stops = with_trials(1), [], []
    for says in (YES, YES, NO, YES, YES, YES, YES):
        verdict = verdict_of(in_a_row(3, Same(says)), belief)
        (streak,) = verdict.notes.values()
        streaks.append(streak)
        stops.append(verdict.stop)
        belief = with_trials(len(streaks) + 1, dict(verdict.notes))
    assert streaks == [1, 2, 0, 1, 2, 3, 4]
    assert stops == [NO, NO, NO, NO, NO, YES, YES]


class Same(Says):
    """Another answer of one and the same rule."""

    def __repr__(self):
        return "Same()"


def test_two_rules_in_a_row_are_counted_apart():
    rule = any_of(in_a_row(2, Says(YES, 1)), in_a_row(3, Says(NO, 2)))
    notes = verdict_of(rule, with_trials(1)).notes
    assert sorted(notes.values()) == [0, 1]
    assert len(notes) == 2
    assert verdict_of(rule, with_trials(1, dict(notes))).stop


def test_in_a_row_says_how_many_times():
    because = verdict_of(in_a_row(3, Says(YES, 7)), with_trials(1)).because
    assert because == "stop 7 (1 of 3 times in a row)"


def test_they_need_what_their_rule_needs():
    rule = Says(YES, needs=NEEDING, reads=frozenset({"worth"}), models=True)
    for held in (after(2, rule), in_a_row(2, rule), after(2, in_a_row(2, rule))):
        assert (held.needs, held.reads, held.models) == (NEEDING, {"worth"}, True)
        assert verdict_of(held).because == "too few values to judge yet"
    both = after(2, any_of(rule, Says(NO)))
    assert both.needs == {"cost"}


@pytest.mark.parametrize("count", [0, -1, 2.5, "3", True, None])
@pytest.mark.parametrize("hold", [after, in_a_row])
def test_a_senseless_count_is_refused(hold, count):
    with pytest.raises(InvalidInput, match="whole number of at least 1"):
        hold(count, Says(YES))


@pytest.mark.parametrize("strange", [MaxTrials, 3, None])
@pytest.mark.parametrize("hold", [after, in_a_row])
def test_what_is_no_rule_is_refused(hold, strange):
    with pytest.raises(InvalidInput, match="takes stopping rules such as"):
        hold(2, strange)


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


def test_combined_rules_are_shown_as_they_were_written():
    rule = any_of(MaxTrials(9), after(5, in_a_row(3, all_of(Target(0.5), OutOfBudget()))))
    assert repr(rule) == (
        "any_of(MaxTrials(count=9), after(5, in_a_row(3, "
        "all_of(Target(value=0.5), OutOfBudget()))))"
    )

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
class Fixed:
    """A rule with a given verdict."""

    stop: bool
    number: float = 1.0
    notes: dict = field(default_factory=dict)
    needs: frozenset = frozenset()
    reads: frozenset = frozenset()

    def __call__(self, belief, proposal, rng):
        word = "stop" if self.stop else "go on"
        because = f"{word} {self.number:g}"
        return Verdict(self.stop, because, self.number, 10 * self.number, self.notes)


def verdict_of(rule, belief=BELIEF):
    return judge(rule, belief, NOTHING, np.random.default_rng(0))


YES, NO = True, False


@pytest.mark.parametrize("stops", [(YES,), (NO,), (YES, YES), (YES, NO), (NO, YES), (NO, NO, NO)])
def test_any_of_and_all_of_combine_verdicts(stops):
    rules = [Fixed(stop, number=i + 1) for i, stop in enumerate(stops)]
    assert verdict_of(any_of(*rules)).stop == any(stops)
    assert verdict_of(all_of(*rules)).stop == all(stops)


def test_the_reason_is_that_of_the_deciding_rules():
    rules = Fixed(NO, 1), Fixed(YES, 2), Fixed(YES, 3)
    verdict = verdict_of(any_of(*rules))
    assert verdict.because == "stop 2; stop 3"
    assert (verdict.number, verdict.threshold) == (2, 20)
    verdict = verdict_of(all_of(*rules))
    assert verdict.because == "go on 1"
    assert (verdict.number, verdict.threshold) == (1, 10)
    verdict = verdict_of(all_of(*rules[1:]))
    assert verdict.because == "stop 2; stop 3"
    verdict = verdict_of(any_of(rules[0], Fixed(NO, 4)))
    assert verdict.because == "go on 1; go on 4"


def test_all_rules_are_called_and_their_notes_kept():
    """A rule that counts must keep counting even if another rule decides."""
    rules = Fixed(YES, notes={"a": 1}), Fixed(NO, notes={"b": 2})
    assert verdict_of(any_of(*rules)).notes == {"a": 1, "b": 2}
    assert verdict_of(all_of(*rules)).notes == {"a": 1, "b": 2}


NEEDING = frozenset({"model", "cost"})


def test_a_rule_that_needs_a_model_is_not_called_before_there_is_one():
    verdict = verdict_of(Fixed(YES, needs=NEEDING))
    assert (verdict.stop, verdict.because) == (False, "too few values to judge yet")
    assert np.isnan([verdict.number, verdict.threshold]).all()
    assert verdict_of(Fixed(YES, needs=NEEDING), toy()).because == "stop 1"
    assert verdict_of(Fixed(YES, needs=frozenset({"cost"}))).because == "stop 1"


def test_the_parts_that_need_no_model_are_judged_without_one():
    rules = Fixed(YES, 1, needs=NEEDING, notes={"a": 1}), Fixed(YES, 2, notes={"b": 2})
    verdict = verdict_of(any_of(*rules))
    assert (verdict.stop, verdict.because, verdict.notes) == (True, "stop 2", {"b": 2})
    assert verdict_of(any_of(*rules), toy()).because == "stop 1; stop 2"
    verdict = verdict_of(all_of(*rules))
    assert (verdict.stop, verdict.because) == (False, "too few values to judge yet")
    assert verdict_of(all_of(*rules), toy()).stop
    assert verdict_of(any_of(all_of(rules[0]), rules[1])).because == "stop 2"


def test_combinations_can_be_nested():
    rule = any_of(all_of(Fixed(YES, 1), Fixed(NO, 2)), all_of(Fixed(YES, 3), Fixed(YES, 4)))
    verdict = verdict_of(rule)
    assert verdict.stop
    assert verdict.because == "stop 3; stop 4"
    assert not verdict_of(all_of(any_of(Fixed(NO), Fixed(NO)), Fixed(YES))).stop


def test_a_combination_needs_what_its_rules_need():
    rules = (
        Fixed(YES, needs=frozenset({"cost", "model"}), reads=frozenset({"worth"})),
        Fixed(YES, needs=frozenset({"budget"})),
    )
    for together in (any_of(*rules), all_of(*rules)):
        assert together.needs == {"cost", "budget"}  # each part waits for its model by itself
        assert together.reads == {"worth", "model"}
    assert any_of(rules[1]).reads == frozenset()
    assert any_of(Fixed(YES, reads=frozenset({"model"}))).reads == {"model"}
    assert any_of(NotWorthIt(), MaxTrials(3)).needs == {"cost", "worth"}
    assert any_of(NotWorthIt(), MaxTrials(3)).reads == {"worth", "model", "steps"}
    assert all_of(MaxTrials(3), Target(1.0), OutOfBudget()).reads == frozenset()


@pytest.mark.parametrize("join", [any_of, all_of])
def test_a_combination_of_no_rules_is_refused(join):
    with pytest.raises(InvalidInput, match="give at least one"):
        join()


# ---------------------------------------------------------------- after and in_a_row
def with_trials(count, notes=None):
    trials = [done(i, [0.0], 1.0) for i in range(count)]
    if notes is not None:
        trials[-1] = done(count - 1, [0.0], 1.0, notes=notes)
    return known(line(2), history=History(tuple(trials)))


@pytest.mark.parametrize(("made", "stop"), [(0, NO), (2, NO), (3, YES), (4, YES)])
def test_after_waits_for_a_number_of_trials(made, stop):
    verdict = verdict_of(after(3, Fixed(YES, 2, notes={"a": 1})), with_trials(made))
    assert verdict.stop == stop
    assert (verdict.number, verdict.threshold) == (2, 20)
    assert verdict.notes == {"a": 1}  # the rule is called at every trial, to keep its notes
    early = "" if stop else f" ({made} of at least 3 trials made)"
    assert verdict.because == f"stop 2{early}"


def test_after_does_not_stop_if_its_rule_does_not():
    assert not verdict_of(after(3, Fixed(NO)), with_trials(9)).stop


def test_in_a_row_counts_and_resets():
    belief, streaks, stops = with_trials(1), [], []
    for stop in (YES, YES, NO, YES, YES, YES, YES):
        verdict = verdict_of(in_a_row(3, Same(stop)), belief)
        (streak,) = verdict.notes.values()
        streaks.append(streak)
        stops.append(verdict.stop)
        belief = with_trials(len(streaks) + 1, dict(verdict.notes))
    assert streaks == [1, 2, 0, 1, 2, 3, 4]
    assert stops == [NO, NO, NO, NO, NO, YES, YES]


class Same(Fixed):
    """A rule with the same repr for different verdicts."""

    def __repr__(self):
        return "Same()"


def test_two_rules_in_a_row_are_counted_separately():
    rule = any_of(in_a_row(2, Fixed(YES, 1)), in_a_row(3, Fixed(NO, 2)))
    notes = verdict_of(rule, with_trials(1)).notes
    assert sorted(notes.values()) == [0, 1]
    assert len(notes) == 2
    assert verdict_of(rule, with_trials(1, dict(notes))).stop


def test_in_a_row_reports_the_count():
    because = verdict_of(in_a_row(3, Fixed(YES, 7)), with_trials(1)).because
    assert because == "stop 7 (1 of 3 times in a row)"


def test_after_and_in_a_row_need_what_their_rule_needs():
    rule = Fixed(YES, needs=NEEDING, reads=frozenset({"worth"}))
    for wrapped in (after(2, rule), in_a_row(2, rule), after(2, in_a_row(2, rule))):
        assert (wrapped.needs, wrapped.reads) == (NEEDING, {"worth"})
        assert verdict_of(wrapped).because == "too few values to judge yet"
    both = after(2, any_of(rule, Fixed(NO)))
    assert both.needs == {"cost"}


@pytest.mark.parametrize("count", [0, -1, 2.5, "3", True, None])
@pytest.mark.parametrize("wrap", [after, in_a_row])
def test_an_invalid_count_is_refused(wrap, count):
    with pytest.raises(InvalidInput, match="whole number of at least 1"):
        wrap(count, Fixed(YES))


@pytest.mark.parametrize("value", [MaxTrials, 3, None])
@pytest.mark.parametrize("wrap", [after, in_a_row])
def test_a_value_that_is_no_rule_is_refused(wrap, value):
    with pytest.raises(InvalidInput, match="stopping rules such as"):
        wrap(2, value)


def test_real_rules_together():
    belief = known(line(2), y=np.array([2.0, 5.0]))
    assert verdict_of(any_of(MaxTrials(3), Target(2.5)), belief).because == (
        "the best value 2 has reached the target 2.5"
    )
    assert (
        verdict_of(all_of(MaxTrials(3), Target(2.5)), belief).because
        == "0 of at most 3 trials made"
    )


def test_proposals_and_verdicts_are_immutable():
    for made in (Proposal(None, "why"), Verdict(True, "why")):
        with pytest.raises(AttributeError):
            made.because = "why not"


def test_combined_rules_are_shown_as_they_were_written():
    rule = any_of(MaxTrials(9), after(5, in_a_row(3, all_of(Target(0.5), OutOfBudget()))))
    assert repr(rule) == (
        "any_of(MaxTrials(count=9), after(5, in_a_row(3, "
        "all_of(Target(value=0.5), OutOfBudget()))))"
    )

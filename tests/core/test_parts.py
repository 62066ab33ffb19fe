"""Trainings in parts: asked, told, paused, resumed, continued and lost; the ledger is conserved."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parts import FirstRung, Greedy, RoundRobin

from farthing import Float, Optimizer, Space, Steps
from farthing.budget.ledger import Ledger
from farthing.core.events import (
    Asked,
    AskedPart,
    Changed,
    Continued,
    Dropped,
    LeasesExpired,
    Moment,
    Renewed,
    Returned,
    StopRequested,
    Told,
)
from farthing.core.parts import counted_value, with_counted_value
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.transition import apply
from farthing.errors import InvalidInput, Outdated, Stopped
from farthing.history import CurvePoint, StopReason, Trial
from farthing.policies import EI, Random
from farthing.stopping import MaxTrials

SPACE = Space({"a": Float(2, 3)})
LEASE = 10.0


def optimizer(budget="$100", policy=None, **given):
    steps = given.pop("steps", Steps(8))
    return Optimizer(SPACE, budget, policy=policy or RoundRobin(), steps=steps, **given)


# ── ask and tell ─────────────────────────────────────────────────────────────────────────────────


def test_a_training_is_paused_at_its_rungs_and_done_at_the_last_step():
    tuner = optimizer(policy=Greedy())
    seen = []
    for value in (4.0, 3.0, 1.0, 2.0):
        trial = tuner.ask()
        seen.append((trial.number, trial.step, trial.until))
        tuner.tell(trial, value, cost=1.5)
    assert seen == [(0, 0, 1), (0, 1, 2), (0, 2, 4), (0, 4, 8)]
    (trial,) = tuner.history
    assert (trial.state, trial.value, trial.cost) == ("done", 1.0, {"usd": 6.0})
    assert [(p.step, p.value, p.cost["usd"]) for p in trial.curve] == [
        *[(1, 4.0, 1.5), (2, 3.0, 3.0)],
        *[(4, 1.0, 4.5), (8, 2.0, 6.0)],
    ]
    assert (trial.step, trial.until) == (8, None)
    assert (tuner.ledger.spent, tuner.ledger.reserved) == (6.0, 0.0)


@pytest.mark.parametrize(
    ("value", "direction", "expected"),
    [
        *[("best", "minimize", 1.0), ("best", "maximize", 3.0)],
        *[("last", "minimize", 2.0), ("last", "maximize", 2.0)],
    ],
)
def test_the_value_of_a_training_is_its_best_or_its_last_one(value, direction, expected):
    steps = Steps(4, value=value)
    tuner = optimizer(policy=Greedy(), steps=steps, direction=direction)
    for number in (3.0, 1.0, 2.0):
        tuner.tell(tuner.ask(), number, cost=1.0)
    assert tuner.history[0].value == expected
    assert tuner.best.value == expected


def test_a_paused_trial_has_the_value_so_far():
    tuner = optimizer()
    tuner.tell(tuner.ask(), 3.0, cost=1.0)
    (trial,) = tuner.history
    assert (trial.state, trial.value, trial.step) == ("paused", 3.0, 1)
    assert tuner.best.number == 0
    only_whole = optimizer(steps=Steps(8, value="last"))
    only_whole.tell(only_whole.ask(), 3.0, cost=1.0)
    assert only_whole.history[0].value == 3.0
    assert only_whole.best is None  # its training is not complete


def test_the_best_checkpoint_counts_whatever_became_of_its_trial():
    tuner = optimizer(policy=Greedy())
    first = tuner.ask()
    tuner.tell(first, 0.5, cost=1.0)
    tuner.tell(tuner.ask(), failed="diverged", cost=1.0)
    assert tuner.history[0].state == "failed"
    assert tuner.history[0].value is None
    assert [point.value for point in tuner.history[0].curve] == [0.5]
    assert (tuner.best.number, tuner.best.value) == (0, 0.5)
    tuner.tell(tuner.ask(), 0.75, cost=1.0)
    assert tuner.best.value == 0.5


@pytest.mark.parametrize("outcome", [{"failed": "out of memory"}, {"killed": True}])
def test_a_training_that_ends_without_a_value_keeps_its_curve(outcome):
    tuner = optimizer(policy=Greedy())
    tuner.tell(tuner.ask(), 0.5, cost=1.0)
    tuner.tell(tuner.ask(), cost=2.0, **outcome)
    (trial,) = tuner.history
    assert (trial.state, trial.value, trial.cost) == (next(iter(outcome)), None, {"usd": 3.0})
    assert [point.step for point in trial.curve] == [1]


def test_a_training_that_ends_before_its_rung_is_done():
    tuner = optimizer(policy=Greedy(), steps=Steps(8, first=4))
    tuner.tell(tuner.ask(), 0.5, cost=1.0, step=3)
    (trial,) = tuner.history
    assert (trial.state, trial.value, trial.step) == ("done", 0.5, 3)


def test_a_training_may_run_beyond_its_rung():
    tuner = optimizer(policy=Greedy())
    tuner.tell(tuner.ask(), 0.5, cost=1.0, step=5)
    assert (tuner.history[0].state, tuner.history[0].step) == ("paused", 5)
    trial = tuner.ask()
    assert (trial.number, trial.until) == (0, 8)


@pytest.mark.parametrize(
    ("step", "match"),
    [(0, "above 0"), (9, "at most 8"), (2.5, "whole number"), (True, "whole number")],
)
def test_an_impossible_step_is_refused_and_changes_nothing(step, match):
    tuner = optimizer()
    trial = tuner.ask()
    before = tuner.ledger
    with pytest.raises(InvalidInput, match=match):
        tuner.tell(trial, 0.5, cost=1.0, step=step)
    assert (tuner.history[0].state, tuner.ledger) == ("running", before)
    tuner.tell(trial, 0.5, cost=1.0)
    with pytest.raises(InvalidInput, match="above 1"):
        tuner.tell(trial, 0.5, cost=1.0)  # it is paused
    with pytest.raises(InvalidInput, match="paused at step 1"):
        tuner.tell(0, 0.5, cost=1.0)


def test_a_step_without_steps_is_refused():
    tuner = Optimizer(SPACE, "$9", policy=Random())
    trial = tuner.ask()
    assert (trial.step, trial.until, trial.curve) == (0, None, ())
    with pytest.raises(InvalidInput, match="no effect without steps"):
        tuner.tell(trial, 0.5, cost=1.0, step=1)


def test_a_policy_that_knows_nothing_of_steps_proposes_whole_trainings():
    tuner, whole = optimizer(policy=EI()), Optimizer(SPACE, "$100", policy=EI())
    for k in range(6):
        trial, other = tuner.ask(), whole.ask()
        assert (trial.step, trial.until) == (0, 8)
        assert trial.params == other.params
        assert trial.predicted == other.predicted
        for each, told in ((tuner, trial), (whole, other)):
            each.tell(told, (trial.params["a"] - 2.3) ** 2, cost=1.0 + k)
    assert {trial.state for trial in tuner.history} == {"done"}
    assert [point.step for point in tuner.history[0].curve] == [8]


def test_a_policy_that_needs_steps_is_refused_without_them():
    with pytest.raises(InvalidInput, match="RoundRobin needs steps"):
        Optimizer(SPACE, "$9", policy=RoundRobin())


# ── budgets ──────────────────────────────────────────────────────────────────────────────────────


def test_a_budget_of_trials_counts_a_trial_once():
    tuner = optimizer("3 trials", policy=RoundRobin(3))
    told = 0
    while not tuner.verdict.stop:
        tuner.tell(tuner.ask(), 1.0)
        told += 1
        counted = len(tuner.history)
        assert (tuner.ledger["trials"].spent, tuner.ledger["trials"].reserved) == (counted, 0)
    assert told == 3 * 4  # each training in four parts, though all trials had begun before
    assert [trial.state for trial in tuner.history] == ["done"] * 3
    with pytest.raises(Stopped):
        tuner.ask(anyway=True)


def test_a_budget_of_trials_can_be_set_while_a_resumed_training_runs():
    tuner = optimizer(policy=Greedy())
    tuner.tell(tuner.ask(), 1.0, cost=1.0)
    tuner.ask()
    tuner.change(budget="$100, 5 trials")
    assert (tuner.ledger["trials"].spent, tuner.ledger["trials"].reserved) == (0, 1)
    tuner.tell(0, 1.0, cost=1.0)
    assert tuner.ledger["trials"].spent == 1
    tuner.ask()
    tuner.change(budget="$100, 7 trials")
    tuner.tell(0, 1.0, cost=1.0)
    assert (tuner.ledger["trials"].spent, tuner.ledger["trials"].reserved) == (1, 0)


def test_the_value_and_the_last_step_cannot_change_any_more():
    tuner = optimizer()
    tuner.change(steps=Steps(16, value="last"))  # before the first trial
    tuner.tell(tuner.ask(), 1.0, cost=1.0)
    for steps in (None, 8, Steps(16)):
        with pytest.raises(InvalidInput, match="cannot change any more"):
            tuner.change(steps=steps, policy=Random())
    changed = tuner.change(steps=Steps(16, value="last", resume="never", rungs=(1, 4)))
    assert changed == {
        "steps": (
            "Steps(last=16, value='last')",
            "Steps(last=16, value='last', resume='never', rungs=1, 4)",
        )
    }


def test_the_reservation_of_a_part_is_its_share_of_the_steps():
    tuner = optimizer(policy=Greedy(), cost=lambda params: 8.0)
    assert tuner.ask().predicted == pytest.approx({"usd": 1.0})
    assert tuner.ledger.reserved == pytest.approx(1.0)
    tuner.tell(0, 1.0, cost=2.0)
    assert tuner.ask().predicted == pytest.approx({"usd": 3.0})  # of both parts
    assert tuner.ledger.reserved == pytest.approx(1.0)
    tuner.tell(0, 1.0, cost=2.0)
    tuner.ask()
    assert tuner.ledger.reserved == pytest.approx(2.0)


def test_a_known_cost_is_paid_in_proportion_to_the_steps():
    tuner = optimizer(policy=Greedy(), cost=lambda params: 8.0)
    for expected in (1.0, 2.0, 4.0, 8.0):  # after 1, 2, 4 and 8 steps
        tuner.tell(tuner.ask(), 1.0)
        assert tuner.history[0].cost == {"usd": expected}
        assert tuner.ledger.spent == expected
    tuner.tell(tuner.ask(), 1.0)
    tuner.tell(tuner.ask(), failed="diverged")
    assert tuner.ledger.spent == 10.0
    whole = optimizer(policy=Random(), cost=lambda params: 8.0)
    whole.tell(whole.ask(), 1.0)
    assert whole.ledger.spent == 8.0


def test_several_parts_are_asked_for_together():
    tuner = optimizer(policy=RoundRobin(3))
    for trial in tuner.ask(3):
        tuner.tell(trial, 1.0, cost=1.0)
    batch = tuner.ask(3)
    assert [(trial.number, trial.step, trial.until) for trial in batch] == [
        *[(0, 1, 2), (1, 1, 2), (2, 1, 2)]
    ]
    tuner.tell(batch[0], 1.0, cost=1.0)
    assert [trial.number for trial in tuner.ask(2)] == [0]  # nothing else is paused


def test_what_was_noted_last_is_found_whatever_the_number_of_its_trial():
    tuner = optimizer(policy=RoundRobin(2))
    first, second = tuner.ask(2)
    tuner.tell(first, 1.0, cost=1.0)
    tuner.tell(second, 1.0, cost=1.0)
    resumed = tuner.ask()
    assert resumed.number == 0
    history = tuner.history
    noted = [replace(trial, notes={"from": trial.number}) for trial in history]
    assert replace(history, trials=tuple(noted)).last_note("from") == 0
    assert history.turns == 3


# ── parts in the state machine ───────────────────────────────────────────────────────────────────


def make(**given):
    budget = given.pop("budget", {"usd": 1000.0, "trials": 100})
    return Settings.of(
        SPACE, budget, **{"policy": FirstRung(), "steps": 8, "lease": LEASE, **given}
    )


def asked(number, until=1, reserved=2.0, **given):
    x = SPACE.encode({"a": 2.5})
    trial = Trial(number, {"a": 2.5}, x, until=until, predicted={"usd": reserved})
    return Asked(trial, {"usd": reserved}, worker="here:1", lease=LEASE, **given)


def resumed(state, number, until, reserved=2.0):
    trial = replace(state.history[number], until=until, predicted={"usd": reserved})
    return AskedPart(trial, {"usd": reserved}, worker="here:2", lease=LEASE)


def points(*steps, cost=1.0):
    return tuple(CurvePoint(step, float(step), {"usd": cost}) for step in steps)


def told(state, number, ending, cost, curve=()):
    trial = state.history[number]
    value = 1.0 if ending == "done" else None
    return Told(trial, ending, value, {"usd": cost}, by_user=False, curve=curve)


def after(made, *events, state=None, now=1000.0):
    state = State(Ledger.of(made.budget)) if state is None else state
    for event in events:
        event = event(state) if callable(event) else event
        state = apply(made, state, event, Moment(now))
    return state


def paused(made, **given):
    """A state with one training that is paused at step 1, after a cost of 3."""
    return after(made, asked(0), lambda s: told(s, 0, "paused", 3.0, points(1)), **given)


@pytest.mark.parametrize("begun", ["at the start", "from a checkpoint"])
@pytest.mark.parametrize("found", ["by its lease", "by its worker"])
def test_a_training_that_was_lost_after_its_last_step_is_done(begun, found):
    """Its values are known: it is not trained again, nor paused for ever."""
    made = make()
    if begun == "at the start":
        state = after(made, asked(0, until=made.steps.last))
    else:
        state = after(made, lambda s: resumed(s, 0, made.steps.last), state=paused(made))
    since = state.history[0].step
    curve = points(*range(since + 1, made.steps.last + 1))
    if found == "by its lease":
        state = after(made, Renewed(0, LEASE, {"usd": 2.0}, {}, curve=curve), state=state)
        state = after(made, LeasesExpired(), state=state, now=1000.0 + 2 * LEASE)
    else:
        state = after(made, lambda s: told(s, 0, "lost", 2.0, curve), state=state)
    (trial,) = state.history
    assert (trial.state, trial.value, trial.error) == ("done", 1.0, None)
    assert (trial.step, trial.until, trial.run.retry) == (made.steps.last, None, False)
    paid = 2.0 if begun == "at the start" else 5.0
    assert (state.ledger["usd"].spent, state.ledger["usd"].reserved) == (paid, 0.0)


def test_with_constraints_a_training_without_its_result_is_not_done():
    made = make(constraints={"mb": "<= 3"})
    state = after(made, lambda s: resumed(s, 0, made.steps.last), state=paused(made))
    curve = points(*range(2, made.steps.last + 1))
    state = after(made, Renewed(0, LEASE, {"usd": 2.0}, {}, curve=curve), state=state)
    state = after(made, LeasesExpired(), state=state, now=1000.0 + 2 * LEASE)
    assert state.history[0].state == "paused"


def test_a_lost_part_is_paused_where_its_checkpoint_is_and_keeps_its_curve():
    made = make()
    state = after(made, lambda s: resumed(s, 0, 4), state=paused(made))
    state = after(made, Renewed(0, LEASE, {"usd": 2.0}, {}, curve=points(2, 3)), state=state)
    state = after(made, LeasesExpired(), state=state, now=1000.0 + 2 * LEASE)
    (trial,) = state.history
    assert (trial.state, trial.step, trial.cost) == ("paused", 3, {"usd": 5.0})
    assert (trial.run.retry, trial.error) == (False, "its worker (here:2) disappeared")
    assert (state.ledger["usd"].spent, state.ledger["usd"].reserved) == (5.0, 0.0)
    again = after(made, lambda s: resumed(s, 0, 4), state=state).history[0]
    assert (again.run.since, again.error) == (1, None)  # the training repeats steps 2 and 3
    assert again.run.earlier == {"usd": 5.0}


@pytest.mark.parametrize("ending", ["lease", "told"])
def test_without_a_checkpoint_a_lost_part_is_lost_and_keeps_its_curve(ending):
    made = make(steps=Steps(8, resume="never"))
    state = after(made, lambda s: resumed(s, 0, 4), state=paused(made))
    assert state.history[0].run.since == 0  # it starts again
    state = after(made, Renewed(0, LEASE, {"usd": 2.0}, {}, curve=points(1, 2)), state=state)
    if ending == "lease":
        state = after(made, LeasesExpired(), state=state, now=1000.0 + 2 * LEASE)
    else:
        state = after(made, told(state, 0, "lost", 2.0), state=state)
    (trial,) = state.history
    assert (trial.state, trial.cost) == ("lost", {"usd": 5.0})
    assert [(point.step, point.cost["usd"]) for point in trial.curve] == [(1, 1.0), (2, 4.0)]


def test_a_first_part_that_is_lost_is_repeated_to_the_same_step():
    made = make(retries=1)
    state = after(made, asked(0, until=4), LeasesExpired(), now=1000.0)
    state = after(made, LeasesExpired(), state=state, now=1000.0 + 2 * LEASE)
    assert (state.history[0].state, state.history[0].run.retry) == ("lost", True)
    tuner = Optimizer.of(made)
    tuner._store.commit(lambda *_: state)
    trial = tuner.ask()
    assert (trial.number, trial.origin, trial.until) == (1, "retry", 4)


def test_a_part_that_never_began_is_paused_again_and_costs_nothing():
    made = make()
    before = paused(made)
    state = after(made, lambda s: resumed(s, 0, 4), Returned(0, "not now"), state=before)
    assert (state.history[0].state, state.ledger) == ("paused", before.ledger)
    assert after(made, lambda s: resumed(s, 0, 4), state=state).history[0].run.since == 1


def test_a_part_is_resumed_only_if_it_is_paused_and_affordable():
    made = make(budget={"usd": 6.0, "trials": 1})
    state = paused(made)
    with pytest.raises(Outdated, match="less of the budget is left"):
        after(made, lambda s: resumed(s, 0, 4, reserved=3.5), state=state)
    running = after(made, lambda s: resumed(s, 0, 4), state=state)
    with pytest.raises(Outdated, match="another process has resumed trial 0"):
        after(made, resumed(state, 0, 4), state=running)
    stopped = after(made, StopRequested(StopReason("requested", "enough")), state=state)
    with pytest.raises(Stopped, match="enough"):
        after(made, resumed(state, 0, 4), state=stopped)
    with pytest.raises(InvalidInput, match="expected a later one"):
        after(made, resumed(state, 0, 1), state=state)


def test_a_training_continues_at_its_rung_with_more_reserved():
    made = make()
    state = after(made, asked(0, reserved=2.0))
    trial = replace(state.history[0], until=2, predicted={"usd": 2.5}, notes={"limit": {"usd": 9}})
    event = Continued(trial, {"usd": 2.5}, {"usd": 1.5}, points(1, cost=1.5))
    state = after(made, event, state=state)
    (trial,) = state.history
    assert (trial.state, trial.until, trial.step) == ("running", 2, 1)
    assert (trial.cost, trial.predicted) == ({"usd": 1.5}, {"usd": 4.0})
    assert trial.limit == {"usd": 10.5}  # of the whole part
    assert state.ledger.reserved_for(0)["usd"] == 4.0
    with pytest.raises(Outdated, match="less of the budget"):
        after(
            made,
            event._replace(reservation={"usd": 2000.0}, trial=replace(trial, until=4)),
            state=state,
        )
    state = after(made, told(state, 0, "paused", 3.5), state=state)
    assert (state.ledger["usd"].spent, state.ledger["usd"].reserved) == (3.5, 0.0)
    with pytest.raises(Outdated, match="does not run any more"):
        after(made, event, state=state)


def test_a_training_goes_on_only_under_the_settings_that_the_suggestion_knew():
    made = make()
    change = Changed(made, {"timeout": ("none", "3.0 s")}, known=0)
    running = after(made, asked(0), change)
    trial = replace(running.history[0], until=2)
    event = Continued(trial, {"usd": 2.5}, {"usd": 1.5}, points(1), changes=0)
    with pytest.raises(Outdated, match="the settings have changed"):
        after(made, event, state=running)
    assert after(made, event._replace(changes=1), state=running).history[0].until == 2
    waiting = after(made, lambda s: told(s, 0, "paused", 3.0, points(1)), state=running)
    with pytest.raises(Outdated, match="the settings have changed"):
        after(made, resumed(waiting, 0, 2)._replace(changes=0), state=waiting)


def test_a_late_report_of_a_part_that_was_lost_counts_and_only_the_rest_is_charged():
    made = make()
    running = after(made, lambda s: resumed(s, 0, 4), state=paused(made))
    renewed = after(made, Renewed(0, LEASE, {"usd": 2.0}, {}), state=running)
    lost = after(made, LeasesExpired(), state=renewed, now=1000.0 + 2 * LEASE)
    assert lost.ledger["usd"].spent == 5.0
    late = after(made, told(running, 0, "done", 2.5, points(4)), state=lost)
    assert (late.history[0].state, late.history[0].cost) == ("done", {"usd": 5.5})
    assert late.ledger["usd"].spent == 5.5
    # It was resumed elsewhere: the report of the first worker does not end the part of the second.
    elsewhere = after(made, lambda s: resumed(s, 0, 4), state=lost, now=2000.0)
    assert after(made, told(running, 0, "done", 2.5), state=elsewhere) == elsewhere


def test_a_pause_that_is_reported_twice_counts_once():
    made = make()
    state = after(made, asked(0))
    event = told(state, 0, "paused", 3.0, points(1))
    once = after(made, event, state=state)
    assert after(made, event, state=once) == once


def test_a_training_that_was_told_to_end_but_was_faster_is_done():
    made = make()
    state = after(made, asked(0), lambda s: told(s, 0, "paused", 3.0, points(1, 8)))
    assert (state.history[0].state, state.history[0].value) == ("done", 1.0)


def test_a_dropped_training_is_forgotten():
    made = make()
    state = after(made, Dropped(0), state=paused(made))
    assert (state.history[0].state, state.ledger["usd"].spent) == ("lost", 3.0)
    with pytest.raises(Outdated):
        after(made, resumed(state, 0, 4), state=state)


# ── every sequence of events, against a slow model ───────────────────────────────────────────────

OPERATIONS = ("ask", "resume", "renew", "continue", "return", "expire", "drop")
ENDINGS = ("paused", "done", "failed", "killed", "lost")
amounts = st.integers(0, 40).map(lambda n: n / 8)  # exact in binary, so sums are exact
events = st.lists(
    st.tuples(st.sampled_from((*OPERATIONS, *ENDINGS)), st.integers(0, 7), amounts, amounts),
    max_size=40,
)


class Slow:
    """The books of one trial, kept from the rules of the documentation."""

    def __init__(self):
        self.state, self.bills, self.used, self.reserved = "running", [], 0.0, 0.0
        self.step = self.kept = 0
        self.counted = False

    def start(self, reserved, kept):
        self.state, self.used, self.reserved, self.kept = "running", 0.0, reserved, kept

    def end(self, state, cost):
        self.bills.append(cost)
        self.state, self.used, self.reserved, self.counted = state, 0.0, 0.0, True

    @property
    def cost(self):
        return sum(self.bills) + self.used


@settings(max_examples=400, deadline=None)
@given(events, st.booleans())
def test_the_ledger_is_conserved_over_every_sequence_of_events(sequence, can_resume):
    made = make(steps=Steps(1000, resume="checkpoint" if can_resume else "never"))
    state, books, now = State(Ledger.of(made.budget)), [], 1000.0
    versions, turn = [state.version()], 0
    for what, which, cost, more in sequence:
        now += 1.0
        number = which % len(books) if books else 0
        book = books[number] if books else None
        state_of = book.state if book else None
        if what == "ask":
            books.append(Slow())
            books[-1].start(more, 0)
            event = asked(len(books) - 1, until=1, reserved=more)
        elif what == "resume" and state_of == "paused":
            event = resumed(state, number, book.step + 1, more)
            book.start(more, (book.kept if book.lost else book.step) if can_resume else 0)
            book.lost = False
        elif what == "renew" and state_of == "running":
            book.used, book.step = book.used + cost, book.step + 1
            book.reserved = max(book.reserved, book.used + more)
            curve = points(book.step, cost=book.used)
            event = Renewed(
                number, LEASE, {"usd": book.used}, {"usd": book.used + more}, curve=curve
            )
        elif what == "continue" and state_of == "running":
            book.used, book.step = book.used + cost, book.step + 1
            book.reserved = max(book.reserved, book.used + more)
            trial = replace(
                state.history[number], until=book.step + 1, predicted={"usd": more}, notes={}
            )
            curve = points(book.step, cost=book.used)
            event = Continued(trial, {"usd": more}, {"usd": book.used}, curve)
        elif what == "return" and state_of == "running":
            event = Returned(number, "not now")
            # What it has used is not charged: it never began.
            continue_with = "paused" if can_resume and book.kept else "lost"
            if book.used:
                continue
            book.state, book.reserved, book.lost = continue_with, 0.0, True
        elif what == "expire" and state_of:
            now += 2 * LEASE
            event = LeasesExpired()
            for each in books:
                if each.state == "running":
                    each.end("paused" if can_resume and each.kept else "lost", each.used)
                    each.lost = True
        elif what == "drop" and state_of and not state.history[number].is_dropped:
            event = Dropped(number)
            if state_of == "running":
                book.end("lost", book.used)
            book.state = "lost"
        elif what in ENDINGS and state_of == "running":
            if what == "paused":
                book.step += 1
            used = book.used + cost
            event = told(
                state, number, what, used, points(book.step, cost=used) if book.step else ()
            )
            returns = what == "lost" and can_resume and book.kept
            if what == "done" and not book.step:
                book.step = 1000  # a training that reports nothing has run to the end
            book.end("paused" if returns else what, used)
            book.lost = what == "lost"
        else:
            continue
        if what == "ask":
            books[-1].lost = False
        state = apply(made, state, event, Moment(now))
        turn += what in ("ask", "resume", "continue")
        _compare(state, books)
        assert state.history.turns == turn
        if what not in ("renew", "expire"):
            assert state.version() not in versions
        versions.append(state.version())


def _compare(state, books):
    account = state.ledger["usd"]
    assert [trial.state for trial in state.history] == [book.state for book in books]
    assert account.spent == sum(sum(book.bills) for book in books)
    assert account.reserved == sum(book.reserved for book in books)
    assert math.isclose(account.spent + account.reserved + account.left, account.limit)
    trials = state.ledger["trials"]
    fresh = [book for book in books if book.state == "running" and not book.counted]
    assert trials.spent == sum(book.counted for book in books)
    assert trials.reserved == len(fresh)
    for trial, book in zip(state.history, books, strict=True):
        assert trial.cost.get("usd", 0.0) == book.cost
        assert trial.step == book.step
        steps = [point.step for point in trial.curve]
        assert steps == sorted(set(steps))
        if book.state == "running":
            assert trial.run.since == book.kept


def test_a_rule_that_counts_trials_lets_paused_trainings_go_on():
    tuner = optimizer(None, policy=Greedy(), stop=MaxTrials(2))
    while not tuner.verdict.stop:
        tuner.tell(tuner.ask(), 1.0)
    assert [trial.state for trial in tuner.history] == ["done"] * 2


def test_constraints_are_measured_at_the_end_of_a_training():
    tuner = optimizer(policy=Greedy(), steps=Steps(2), constraints={"ms": "<= 10"})
    tuner.tell(tuner.ask(), 1.0, cost=1.0)
    assert (tuner.history[0].state, tuner.best) == ("paused", None)
    with pytest.raises(InvalidInput, match="ms"):
        tuner.tell(tuner.ask(), 0.5, cost=1.0)
    tuner.tell(0, 0.5, cost=1.0, constraints={"ms": 8.0})
    assert tuner.best.value == 0.5


def test_the_most_that_a_trial_can_cost_holds_for_all_its_parts():
    tuner = optimizer(policy=Greedy(), max_cost="$5")
    assert tuner.ask().limit == {"usd": 5.0}
    tuner.tell(0, 1.0, cost=3.0)
    assert tuner.ask().limit == {"usd": 2.0}


def test_the_expected_cost_of_a_training_is_a_prediction_or_nothing():
    """What it has cost is no prediction of its next part."""
    made = make()
    state = after(made, asked(0))
    trial = replace(state.history[0], until=2, predicted={})
    event = Continued(trial, {"usd": 2.5}, {"usd": 1.5}, points(1, cost=1.5))
    assert after(made, event, state=state).history[0].predicted == {}
    trial = replace(trial, predicted={"usd": 2.0})
    event = event._replace(trial=trial)
    assert after(made, event, state=state).history[0].predicted == {"usd": 3.5}
    tuner = optimizer(policy=RoundRobin(1))
    tuner.tell(tuner.ask(), 0.5, cost=1.0)
    assert tuner.ask().step == 1
    assert tuner.history[0].predicted == {}


@pytest.mark.parametrize(("value", "counted"), [("best", 0.5), ("last", None)])
def test_a_failed_training_is_shown_with_the_value_that_counts(value, counted):
    tuner = optimizer(policy=Greedy(), steps=Steps(8, value=value))
    tuner.tell(tuner.ask(), 0.5, cost=1.0)
    tuner.tell(tuner.ask(), failed="diverged", cost=1.0)
    settings, trial = tuner._settings, tuner.history[0]
    assert trial.value is None
    assert counted_value(settings, trial) == counted
    assert with_counted_value(settings, trial).value == counted
    dropped = replace(trial, state="lost", notes={**trial.notes, "dropped": True})
    assert counted_value(settings, dropped) is None

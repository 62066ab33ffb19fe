"""The next rung of a training by the model that chose it: against conditioning the whole model."""

from dataclasses import replace

import numpy as np
import pytest

from farthing import Float, Optimizer, Space, Steps, Trial
from farthing.acquisition.next_rung import next_rung
from farthing.acquisition.protocols import Rivals
from farthing.acquisition.rungs import indices, paused_chains
from farthing.core import asking
from farthing.core.events import Told
from farthing.core.suggest import Suggestion
from farthing.history import CurvePoint

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1)})
NOBODY = Rivals(1e-3)


def value_at(trial: Trial, step: int) -> float:
    return float((trial.x[0] - 0.3) ** 2 + 0.1 * trial.x[1] + 1.0 / step)


def cost_of(trial: Trial, steps: int) -> float:
    return (1.0 + trial.x[1]) * steps


def tell(optimizer: Optimizer, trial: Trial) -> None:
    assert trial.until is not None
    value = value_at(trial, trial.until)
    cost = cost_of(trial, trial.until - trial.step)
    optimizer.tell(trial, value, cost=cost, step=trial.until)


def begun(parts: int = 16, **options: object) -> Optimizer:
    """An optimizer after so many parts."""
    steps = Steps(16, **options)  # type: ignore[arg-type]
    optimizer = Optimizer(SPACE, budget={"usd": 10_000.0}, steps=steps, seed=3)
    for _ in range(parts):
        tell(optimizer, optimizer.ask())
    return optimizer


def suggestion_of(optimizer: Optimizer) -> Suggestion:
    return optimizer._asker.suggest(optimizer._session.look()).suggestion


def longer(trial: Trial, step: int, **values: object) -> Trial:
    """The training, paused at a later step."""
    value = value_at(trial, step)
    point = CurvePoint(step, value, {"usd": cost_of(trial, step)})
    return replace(trial, state="paused", curve=(*trial.curve, point), value=value, **values)


@pytest.mark.parametrize("seed", range(4))
def test_the_index_is_that_of_the_whole_model_conditioned_on_the_value(seed: int) -> None:
    optimizer = begun(14 + seed)
    belief = suggestion_of(optimizer).belief
    trainings = belief.trainings
    assert trainings is not None
    paused = [t for t in belief.history.having("paused") if t.step == 1]
    promising = sorted(paused, key=lambda t: t.curve[-1].value)  # others are not worth their cost
    trial = longer(promising[seed % 2], 2)
    history = belief.history.replacing(trial)
    curves, place = trainings.curves, trainings.place[trial.number]
    z = curves.scaling.apply(np.array([[trial.curve[-1].value]]))
    told = curves.condition(np.array([place]), np.array([1]), z)
    oracle = replace(
        belief.in_one_unit(), history=history, trainings=replace(trainings, curves=told)
    )
    groups = paused_chains(oracle)
    [expected] = [
        index[k]
        for chains, index in zip(groups, indices(oracle, groups, NOBODY.rate), strict=True)
        for k, number in enumerate(chains.trials)
        if number == trial.number
    ]
    found = next_rung(replace(belief, history=history), trial, NOBODY)
    assert found is not None
    proposal, index = found
    assert proposal is not None
    assert index == pytest.approx(float(curves.scaling.undo(expected)), rel=1e-6)
    assert (proposal.resume, proposal.until) == (trial.number, 4)


def test_a_training_that_is_not_ahead_gets_no_next_rung() -> None:
    belief = suggestion_of(begun()).belief
    trial = longer(belief.history.having("paused")[0], 2)
    belief = replace(belief, history=belief.history.replacing(trial))
    ahead, behind = (next_rung(belief, trial, Rivals(1e-3, s, s)) for s in (np.inf, -10.0))
    assert next_rung(belief, trial, Rivals(1e-3, np.inf, -10.0)) is None  # between the two
    assert ahead is not None
    assert ahead.proposal is not None
    assert behind is not None
    assert behind.proposal is None
    assert next_rung(belief, trial, Rivals(1e6)) is None  # not worth its cost
    assert belief.trainings is not None
    complete = replace(trial, curve=(*trial.curve, CurvePoint(16, 0.0, {"usd": 16.0})))
    assert next_rung(belief, complete, NOBODY) is None


def at_rung(trial: Trial, better: float = 0.0) -> Told:
    """What would be told if a training were paused at its rung."""
    assert trial.until is not None
    cost = {"usd": cost_of(trial, trial.until - trial.step)}
    curve = (CurvePoint(trial.until, value_at(trial, trial.until) - better, cost),)
    return Told(trial, "paused", None, cost, by_user=False, curve=curve)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> tuple[Optimizer, Trial, Trial, list[int]]:
    """Two running trainings, and the number of suggestions since they were asked for."""
    optimizer = begun()
    first, second = optimizer.ask(), optimizer.ask()
    made: list[int] = []

    def counted(settings: object, state: object) -> Suggestion:
        made.append(1)
        return suggest(settings, state)  # type: ignore[arg-type]

    suggest = asking.suggest
    monkeypatch.setattr(asking, "suggest", counted)
    monkeypatch.setattr(asking, "MOST_SUGGESTING", 0.0)  # every suggestion takes too long
    return optimizer, first, second, made


def test_beside_others_a_training_that_is_ahead_goes_on_without_a_suggestion(
    running: tuple[Optimizer, Trial, Trial, list[int]],
) -> None:
    optimizer, first, _, made = running
    before = optimizer._session.look().suggest_s
    goes_on = optimizer.continue_trial(at_rung(first, better=0.5))
    assert isinstance(goes_on, Trial)
    assert not made
    assert first.until is not None
    assert goes_on.until is not None
    assert goes_on.until > first.until
    assert "by the last model" in goes_on.because
    assert optimizer._session.look().suggest_s == before  # so the lock of suggestions still works


def test_a_training_that_is_not_ahead_any_more_pauses_without_a_suggestion(
    running: tuple[Optimizer, Trial, Trial, list[int]],
) -> None:
    optimizer, first, _, made = running
    last = optimizer._asker._chose[first.number]
    behind = replace(last.proposal, ahead_of=Rivals(1e-3, -10.0, -10.0))
    optimizer._asker._chose[first.number] = last._replace(proposal=behind)
    assert "by the last model" in str(optimizer.continue_trial(at_rung(first, better=0.5)))
    assert not made


def test_a_training_that_is_worth_nothing_any_more_needs_a_suggestion(
    running: tuple[Optimizer, Trial, Trial, list[int]],
) -> None:
    optimizer, first, _, made = running
    optimizer.continue_trial(at_rung(first, better=-5.0))
    assert made


def test_a_better_value_of_another_trial_refuses_it_in_the_commit(
    running: tuple[Optimizer, Trial, Trial, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    optimizer, first, second, made = running
    old = optimizer._session.look()
    cost = {"usd": 1.0}
    optimizer.tell(second, -50.0, cost=cost, step=second.until)
    monkeypatch.setattr(optimizer._session, "look_recent", lambda: old)
    optimizer.continue_trial(at_rung(first, better=0.5))
    assert made


def test_if_suggestions_are_fast_every_rung_has_its_own(
    running: tuple[Optimizer, Trial, Trial, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    optimizer, first, _, made = running
    monkeypatch.setattr(asking, "MOST_SUGGESTING", 1e9)
    optimizer.continue_trial(at_rung(first, better=0.5))
    assert made


def test_alone_every_rung_has_its_suggestion(
    running: tuple[Optimizer, Trial, Trial, list[int]],
) -> None:
    optimizer, first, second, made = running
    tell(optimizer, second)
    optimizer.continue_trial(at_rung(first, better=0.5))
    assert made

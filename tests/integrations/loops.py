"""A study that pauses every training at every rung, and a training that nothing interrupts."""

from parts import RoundRobin

from farthing import Float, Steps, minimize
from farthing.running import Job, Part, Training

STEPS = Steps(8, rungs=(2, 4), value="last")


def paused_and_resumed(train):
    """Two trainings of eight steps, which take turns; their trials."""
    space = {"x": Float(0.1, 1)}
    result = minimize(train, space, budget="2 trials", steps=STEPS, policy=RoundRobin(2))
    assert [trial.state for trial in result.history] == ["done"] * 2, result.history[0].error
    assert [trial.run.since for trial in result.history] == [4, 4]  # from its last checkpoint
    for trial in result.history:
        assert [point.step for point in trial.curve] == list(range(1, 9))
    return list(result.history)


def told(answers, folder=None):
    """A training of eight steps that is answered at every step."""
    given = iter(answers)
    part = Part(0, 1, 8, folder)
    return Training(Job({}, number=0, seed=0, part=part), lambda: next(given))


def values_of(trial):
    return [point.value for point in trial.curve]

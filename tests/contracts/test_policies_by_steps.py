"""Contract tests of the policies that decide while a training runs (see `methods.py`)."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from methods import Circumstances, by_steps, examples_in

from farthing import Budget, Categorical, Float, History, Int, Ledger, Space, Steps, Trial, policies
from farthing.acquisition.belief import believe
from farthing.acquisition.initial_design import propose
from farthing.cost import LogGP
from farthing.history import CurvePoint, Run

POLICIES = by_steps(examples_in(policies))
POLICY = pytest.mark.parametrize("name", POLICIES)
STEPS = Steps(16)
SPACES = {
    "continuous": Space({"a": Float(-3, 5), "b": Float(1e-4, 1, log=True)}),
    "mixed": Space({"a": Float(-3, 5), "k": Int(1, 6), "s": Categorical(["u", "v", "w"])}),
}
SPACES["table"] = Space.from_rows(
    [SPACES["mixed"].decode(x) for x in SPACES["mixed"].sample(60, np.random.default_rng(5))]
)


def value_at(x, step):
    """A curve that falls with the step, to a level that depends on the configuration."""
    level = float(((x - 0.37) ** 2).sum())
    return level + (1.0 + x[0]) * step**-0.7


@dataclass(frozen=True)
class World:
    """The same problem in other units."""

    kind: str = "continuous"
    steps: Steps = STEPS
    shift: float = 0.0
    scale: float = 1.0
    cost_unit: float = 1.0
    maximise: bool = False
    budget: float = 400.0
    noisy: bool = False

    @property
    def sign(self):
        return -1.0 if self.maximise else 1.0

    def value(self, x, step):
        return self.sign * (self.shift + self.scale * value_at(x, step))

    def rate(self, x):
        return self.cost_unit * float(np.exp(x[-1]))

    def policy(self, name):
        circumstances = Circumstances(unit=self.scale / self.cost_unit)
        return POLICIES[name](circumstances)

    def believe(self, policy, history, ledger):
        return believe(
            SPACES[self.kind],
            history,
            ledger,
            learners={"cost": LogGP()},
            sign=self.sign,
            noisy=self.noisy,
            seed=3,
            steps=self.steps,
            curves="model" in policy.needs,
            model="model" in policy.needs and len(self.steps.decision_steps) == 1,
        )

    def run(self, name, turns, *, workers=1, fails=lambda x: False):
        """Proposals of a policy, which are evaluated when `workers` run. Returns all of them."""
        policy, history = self.policy(name), History()
        ledger = Ledger.of(Budget(self.budget * self.cost_unit))
        found, running = [], []
        for turn in range(turns):
            belief = self.believe(policy, history, ledger)
            proposal = propose(policy, belief, np.random.default_rng([3, turn]))
            if proposal.x is None:
                break
            found.append(proposal)
            history, number = self.start(belief, history, proposal, turn)
            running.append(number)
            if len(running) == workers:
                history, ledger = self.finish(history, ledger, running.pop(0), fails)
        return found, history

    def start(self, belief, history, proposal, turn):
        notes = {**belief.notes(), **proposal.notes}
        if proposal.resume is None:
            until = proposal.until or self.steps.last
            trial = Trial(len(history), {}, proposal.x, until=until, notes=notes)
            return history.adding(replace(trial, run=Run(turn=turn))), trial.number
        trial = history[proposal.resume]
        assert trial.state == "paused"
        assert (proposal.x == trial.x).all()
        assert proposal.until > trial.step
        run = replace(trial.run, turn=turn)
        trial = replace(trial, state="running", until=proposal.until, notes=notes, run=run)
        return history.replacing(trial), trial.number

    def finish(self, history, ledger, number, fails):
        trial, curve = history[number], []
        paid = trial.cost.get("cost", 0.0)
        for step in range(trial.step + 1, trial.until + 1):
            paid += self.rate(trial.x)
            curve.append(CurvePoint(step, self.value(trial.x, step), {"cost": paid}))
        curve = (*trial.curve, *curve)
        state = "done" if trial.until == self.steps.last else "paused"
        value = self.steps.value_of(curve, self.sign) if state == "done" else None
        if fails(trial.x):
            state, value, curve = "failed", None, trial.curve
        ledger = ledger.charge(None, {"cost": paid - trial.cost.get("cost", 0.0)})
        trial = replace(
            trial, state=state, value=value, cost={"cost": paid}, curve=curve, until=None
        )
        return history.replacing(trial), ledger


@cache
def run_of(name, world, turns=14, workers=1):
    return world.run(name, turns, workers=workers)


def same(one, other, exact=True):
    first, second = (
        [(None if p.x is None else p.x.tolist(), p.resume, p.until) for p in proposals]
        for proposals in (one, other)
    )
    if exact:
        return first == second
    return len(first) == len(second) and all(
        a[1:] == b[1:] and np.allclose(a[0], b[0], atol=1e-3)
        for a, b in zip(first, second, strict=True)
    )


def test_there_are_such_policies():
    assert {"StagedGittins", "ASHA", "Hyperband", "OneEpoch", "EIPerRemainingCost"} <= set(POLICIES)


@POLICY
@pytest.mark.parametrize("kind", SPACES)
def test_it_proposes_parts_of_trainings(name, kind):
    found, history = run_of(name, World(kind))
    assert len(found) == 14
    for proposal in found:
        assert proposal.because
        assert proposal.until in STEPS.decision_steps
        assert set(proposal.predicted) <= {"cost"}
        assert proposal.x.tolist() == SPACES[kind].snap(proposal.x[None])[0].tolist()
    assert any(p.resume is None for p in found)
    new = [p.x.tobytes() for p in found if p.resume is None]
    assert len(set(new)) == len(new)  # no configuration twice
    assert sum(t.step for t in history) > 0


@POLICY
def test_it_resumes_trainings(name):
    budget = 60.0 if name == "OneEpoch" else 400.0
    found, _ = run_of(name, World("table", budget=budget), turns=40)
    resumed = [p for p in found if p.resume is not None]
    assert resumed
    for proposal in resumed:  # what the part costs is known from the training itself
        cost = float(np.exp(proposal.predicted["cost"].mean[0]))
        rate = World().rate(proposal.x)
        assert cost <= 16 * rate * 1.01


@POLICY
def test_the_same_seed_gives_the_same_proposals(name):
    again, _ = World().run(name, 14)
    assert same(run_of(name, World())[0], again)


@POLICY
def test_maximising_the_negated_objective_is_the_same(name):
    assert same(run_of(name, World())[0], run_of(name, World(maximise=True))[0])


@POLICY
def test_the_unit_of_cost_does_not_matter(name):
    assert same(run_of(name, World())[0], run_of(name, World(cost_unit=64.0))[0], exact=False)


@POLICY
@pytest.mark.parametrize("changed", [{"shift": 50.0}, {"scale": 1024.0}])
def test_shift_and_scale_of_the_objective_do_not_matter(name, changed):
    plain = World("table", shift=10.0)
    other = replace(plain, shift=10.0 * changed.get("scale", 1.0))
    other = replace(other, **changed)
    assert same(run_of(name, plain)[0], run_of(name, other)[0], exact=False)


@POLICY
@pytest.mark.parametrize("value", ["best", "last"])
@pytest.mark.parametrize("resume", ["checkpoint", "never", 2.0])
def test_all_kinds_of_steps(name, value, resume):
    world = World("table", replace(STEPS, value=value, resume=resume))
    found, _ = run_of(name, world)
    resumed = [p for p in found if p.resume is not None]
    if resume == "never":
        assert not resumed
    else:
        assert len(found) == 14


@POLICY
def test_several_workers(name):
    found, history = run_of(name, World("table"), workers=3)
    assert len(found) == 14
    assert {t.state for t in history} & {"running"}


@POLICY
def test_failures_and_noise(name):
    found, history = World("table", noisy=True).run(name, 14, fails=lambda x: x[0] < 0.45)
    assert len(found) == 14
    assert history.having("failed")


@POLICY
def test_it_spends_what_is_left_and_no_more(name):
    world = World("table", budget=30.0)
    found, history = world.run(name, 200)
    spent = sum(t.cost["cost"] for t in history if t.cost)
    assert len(found) < 200
    assert spent <= 30.0 * 1.1  # a cost that was learnt may be a little wrong


@POLICY
def test_one_rung_is_an_evaluation_as_a_whole(name):
    world = World("table", Steps(1))
    found, _ = world.run(name, 6)
    assert len(found) == 6
    assert all(p.resume is None for p in found)

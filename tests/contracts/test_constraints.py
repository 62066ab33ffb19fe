"""Every policy and every stopping rule with constraints, on the problems of the contract tests."""

import numpy as np
import pytest
from contract_problem import AS_IT_IS, KINDS, POINTS, POLICIES, RULES, value_of

from farthing import Optimizer
from farthing.acquisition.protocols import NOTHING_FEASIBLE, Proposal, judge
from farthing.core.suggest import believed
from farthing.policies import EIPerCost

WITHOUT_MODEL = {"Random", "Sobol", "LatinHypercube", "CostEffectiveDesign", "StartWith"}
COUNTING = ("MaxTrials", "OutOfBudget")  # rules that do not judge values


def size_of(p):
    """Large where the value is low: the best of the twelve points do not meet the constraint."""
    return 10.0 - value_of(p)


SIZES = {kind: sorted(size_of(p) for p in POINTS[kind]) for kind in KINDS}
LIMITS = {"some": lambda kind: SIZES[kind][6], "none": lambda kind: SIZES[kind][0] - 1.0}


def constrained(kind, policy, limit, *, flip=1.0, **settings):
    """The contract problem with a bound that `some` or `none` of the twelve points meet."""
    bound = LIMITS[limit](kind)
    condition = f"{'<=' if flip > 0 else '>='} {flip * bound!r}"
    made = AS_IT_IS.optimizer(kind, policy, points=[], constraints={"size": condition}, **settings)
    for p in POINTS[kind]:
        measured = {"size": flip * size_of(p)}
        made.add(p, AS_IT_IS.value(p), cost=AS_IT_IS.cost(p), constraints=measured)
    return made


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_proposes(name, kind, limit):
    if name.startswith("Rollout, horizon 4") and kind != "table":
        pytest.skip("slow, and no different")
    optimizer = constrained(kind, name, limit)
    trial = optimizer.ask()
    again = constrained(kind, name, limit, flip=-1.0).ask()
    assert trial.x.tobytes() == again.x.tobytes()  # "<= b" of z is ">= -b" of -z
    assert ((trial.x >= 0) & (trial.x <= 1)).all()
    uses_model = not name.startswith(tuple(WITHOUT_MODEL)) and "far from all" not in trial.because
    if uses_model and name != "CArBO":
        assert "feasible with probability" in trial.because
        assert ("no trial meets the constraints yet" in trial.because) == (limit == "none")
    second = optimizer.ask()  # with a running trial
    assert not np.array_equal(trial.x, second.x)


@pytest.mark.parametrize("name", [n for n in POLICIES if not n.startswith(tuple(WITHOUT_MODEL))])
def test_every_policy_with_a_model_uses_the_constraint(name):
    """A bound that excludes the point which it would choose moves the choice."""
    if name in ("CArBO",):
        pytest.skip("still in its initial design")
    optimizer = constrained("table", name, "some")
    chosen = optimizer.ask()
    unconstrained = constrained("table", name, "some")
    unconstrained.change(constraints=None)
    other = unconstrained.ask()
    belief = believed(optimizer._settings, optimizer._store.look(), model=True).without_running()
    kept, moved = belief.log_feasible(np.array([chosen.x, other.x]))
    assert kept > moved + 1.0


@pytest.mark.parametrize("name", RULES)
def test_no_rule_stops_before_a_trial_is_feasible(name):
    optimizer = constrained("mixed", EIPerCost(), "none", stop=AS_IT_IS.made(name, "mixed"))
    settings = optimizer._settings
    belief = believed(settings, optimizer._look(), model=True)
    proposal = Proposal(belief.history[0].x, "any")
    verdict = judge(settings.stop, belief, proposal, np.random.default_rng(0))
    if not name.startswith(COUNTING):
        assert verdict == NOTHING_FEASIBLE
    assert verdict.because


@pytest.mark.parametrize("name", RULES)
def test_every_rule_judges_feasible_values(name):
    """With some feasible trials it gives a verdict; a bound that all meet changes nothing."""
    rule = AS_IT_IS.made(name, "mixed")
    optimizer = constrained("mixed", EIPerCost(), "some", stop=rule)
    verdict = optimizer.verdict
    assert verdict.because
    assert verdict != NOTHING_FEASIBLE
    loose = constrained("mixed", EIPerCost(), "some", stop=rule)
    loose.change(constraints={"size": "<= 1e9"})
    without = constrained("mixed", EIPerCost(), "some", stop=rule)
    without.change(constraints=None)
    one, other = loose.verdict, without.verdict
    assert one.stop == other.stop
    if not name.startswith("ProbableRegret"):  # it draws functions of the constraint, too
        np.testing.assert_allclose(one.number, other.number, rtol=1e-6)
        if not name.startswith("RegretGapRatio"):
            assert one.because == other.because


@pytest.mark.parametrize("noisy", [False, True])
def test_a_whole_run_keeps_its_promises(noisy):
    """The incumbent is never infeasible, and what is stored makes the next suggestion."""
    space = AS_IT_IS.optimizer("mixed", EIPerCost(), points=[]).space
    limit = {"size": f"<= {SIZES['mixed'][6]!r}"}
    optimizer = Optimizer(space, 300.0, constraints=limit, noisy=noisy, seed=3)
    for _ in range(12):
        trial = optimizer.ask()
        p = trial.params
        measured = {"size": size_of(p)}
        optimizer.tell(trial, AS_IT_IS.value(p), cost=AS_IT_IS.cost(p), constraints=measured)
        best = optimizer.best
        assert best is None or size_of(best.params) <= SIZES["mixed"][6]
    assert optimizer.best is not None

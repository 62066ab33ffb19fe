"""Contract tests of every policy and every stopping rule; see `methods.py`."""

import re
import sys
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from contract_problem import (
    AS_IT_IS,
    FIRST,
    KINDS,
    POINTS,
    POLICIES,
    ROWS,
    RULES,
    World,
    cost_of,
    value_of,
)
from methods import Circumstances, classes_in, examples_in

from farthing import (
    Categorical,
    Float,
    InvalidInput,
    Optimizer,
    Space,
    Stopped,
    policies,
    stopping,
)
from farthing.acquisition.ascent import slide
from farthing.acquisition.protocols import Proposal, Verdict
from farthing.acquisition.scores import gittins_index, log_ei_per_cost, maximise_score
from farthing.acquisition.search import maximise
from farthing.core.suggest import believed
from farthing.policies import EI, CArBO, ContextualEI, Cooling, EIPerCost, Gittins, Random
from farthing.policies.rollout import best_first_point
from farthing.stopping import MaxTrials, NotWorthIt, Target, any_of

# ---------------------------------------------------------------- the methods
COMBINATORS = {"after", "all_of", "any_of", "in_a_row"}
DESIGNS = {"Random", "Sobol", "LatinHypercube"}
POLICY = pytest.mark.parametrize("name", POLICIES)
CLASS_OF_POLICY = pytest.mark.parametrize("name", FIRST)
RULE = pytest.mark.parametrize("name", RULES)


def test_the_folders_are_the_list():
    assert set(classes_in(policies)) == set(policies.__all__)
    assert set(classes_in(stopping)) == set(stopping.__all__) - COMBINATORS
    for method in (*classes_in(policies).values(), *classes_in(stopping).values()):
        assert method.__doc__


def test_a_new_file_in_a_folder_is_found(tmp_path, monkeypatch):
    """A class that cannot be instantiated fails with a clear message."""
    (tmp_path / "more_rules").mkdir()
    for name in ("__init__", "easy", "hard"):
        code = f"class {name.title()}:\n    def __init__(self, {'limit' * (name == 'hard')}): ..."
        text = f"__all__ = [{name.title()!r}]\n{code}\n" if name != "__init__" else ""
        (tmp_path / "more_rules" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import more_rules

    found = examples_in(more_rules)
    assert list(found) == ["Easy", "Hard"]
    assert type(found["Easy"](Circumstances())).__name__ == "Easy"
    with pytest.raises(
        pytest.fail.Exception, match=r"Hard cannot be instantiated .* EXAMPLES of tests/"
    ):
        found["Hard"](Circumstances())


@pytest.mark.parametrize("name", [*POLICIES, *RULES])
def test_a_method_declares_what_it_needs(name):
    method = {**POLICIES, **RULES}[name](Circumstances())
    assert method.needs <= {"budget", "cost", "worth", "model"}
    assert method.reads <= {"worth", "model", "steps"}
    with pytest.raises(AttributeError):  # methods are immutable
        method.needs = frozenset()


class Own:
    """A policy and a stopping rule of a user; it records whether there was a model."""

    def __init__(self, **declared):
        vars(self).update(declared, saw_model=[])

    def propose(self, belief, rng):
        self.saw_model.append(belief.objective is not None)
        return Proposal(np.array([0.5]), "the middle")

    def __call__(self, belief, proposal, rng):
        self.saw_model.append(belief.objective is not None)
        return Verdict(False, "never")


NONE, MODEL = frozenset(), frozenset({"model"})


@pytest.mark.parametrize("role", ["policy", "stop"])
@pytest.mark.parametrize("declared", [{}, {"needs": MODEL}, {"reads": NONE}])
def test_a_method_without_its_attributes_is_refused(role, declared):
    missing = " and ".join(f"no attribute {n}" for n in ("needs", "reads") if n not in declared)
    with pytest.raises(InvalidInput, match=f"{role}=.* has {missing}. Expected a "):
        Optimizer(Space({"x": Float(0, 1)}), **{role: Own(**declared)})


@pytest.mark.parametrize("role", ["policy", "stop"])
def test_a_method_whose_needs_are_no_set_is_refused(role):
    own = Own(needs=["model"], reads=NONE)
    with pytest.raises(InvalidInput, match=r"has needs = \['model'\]: expected a frozenset"):
        Optimizer(Space({"x": Float(0, 1)}), **{role: own})


class Answers(Own):
    """A policy and a rule that answer what they are told to."""

    def __init__(self, answer):
        Own.__init__(self, needs=NONE, reads=NONE)
        self.answer = answer

    def propose(self, belief, rng):
        return self.answer

    def __call__(self, belief, proposal, rng):
        return self.answer


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (None, "Answers.propose returned None: expected a Proposal"),
        (np.array([0.5]), "Answers.propose returned array([0.5]): expected a Proposal"),
        (Proposal(np.array([0.5, 0.5]), "why"), "expected a point of the unit cube"),
        (Proposal(0.5, "why"), "Answers.propose returned x=0.5: expected"),
        (Proposal("here", "why"), "Answers.propose returned x='here': expected"),
        (Proposal(np.array([np.nan]), "why"), "Answers.propose returned x=array([nan]): expected"),
        (Proposal(np.array([1.5]), "why"), "Answers.propose returned x=array([1.5]): expected"),
        (Proposal(np.array([0.5]), None), "Answers.propose returned because=None: expected a sent"),
    ],
)
def test_a_wrong_answer_of_a_policy_names_the_policy(answer, sentence):
    space = Space({"x": Float(0, 1)})
    own, nested = Answers(answer), policies.StartWith([{"x": 0.5}], then=Answers(answer))
    after = Optimizer(space, policy=nested)
    after.tell(after.ask(), 1.0)  # the point that it starts with
    for optimizer in (Optimizer(space, policy=own), after):
        with pytest.raises(InvalidInput, match=re.escape(sentence)):
            optimizer.ask()


def test_a_point_may_be_a_list():
    optimizer = Optimizer(Space({"x": Float(0, 1)}), policy=Answers(Proposal([0.25], "why")))
    assert optimizer.ask().params == {"x": 0.25}


@pytest.mark.parametrize("combined", [lambda r: r, lambda r: stopping.any_of(r, r),
                                      lambda r: stopping.after(1, r)])  # fmt: skip
def test_a_wrong_answer_of_a_rule_names_the_rule(combined):
    optimizer = Optimizer(Space({"x": Float(0, 1)}), stop=combined(Answers(True)))
    with pytest.raises(InvalidInput, match="rule Answers returned True: expected a Verdict"):
        optimizer.ask()


@pytest.mark.parametrize("role", ["policy", "stop"])
def test_a_method_with_the_former_attribute_is_refused(role):
    """Ignored without a word, it would never see a model."""
    former = Own(needs=NONE, reads=NONE, models=True)
    with pytest.raises(InvalidInput, match="Put 'model' into `needs`"):
        Optimizer(Space({"x": Float(0, 1)}), **{role: former})
    for needs, reads in ((MODEL, NONE), (NONE, MODEL)):
        Optimizer(Space({"x": Float(0, 1)}), **{role: Own(needs=needs, reads=reads, models=True)})


@pytest.mark.parametrize(
    ("needs", "reads", "saw_model"),
    [
        (NONE, NONE, [False, False]),
        (NONE, MODEL, [False, True]),
        (MODEL, NONE, [True]),  # it is not called before there is a model
    ],
)
@pytest.mark.parametrize("role", ["policy", "stop"])
def test_a_model_is_unused_optional_or_required(role, needs, reads, saw_model):
    own = Own(needs=needs, reads=reads)
    optimizer = Optimizer(Space({"x": Float(0, 1)}), **{"policy": Random(), role: own})
    assert not optimizer.verdict.stop
    for x in np.linspace(0.1, 0.9, 8):  # enough to end the initial design
        optimizer.add({"x": x}, x)
    assert not optimizer.verdict.stop
    assert own.saw_model == saw_model


# ---------------------------------------------------------------- the problems


WORLDS = {
    "negated": World(value=lambda p: -value_of(p), direction="maximize"),
    "cost x 1000": World(cost=lambda p: 1000 * cost_of(p), money=1000.0, unit=1e-3),
    "3 y + 7": World(value=lambda p: 3 * value_of(p) + 7, unit=3.0),
}
FAR_WORLDS = {
    "y + 1e5": World(value=lambda p: value_of(p) + 1e5),
    "1e-7 y": World(value=lambda p: 1e-7 * value_of(p), unit=1e-7),
}
PERMUTED = World(permuted=True)


def check(trial, space):
    """A proposal is finite, in the space, snapped, and has a reason."""
    assert np.isfinite(trial.x).all()
    assert trial.x.min() >= 0
    assert trial.x.max() <= 1
    np.testing.assert_array_equal(space.snap(trial.x[None])[0], trial.x)
    assert dict(trial.params) == space.decode(trial.x)
    np.testing.assert_array_equal(space.encode(trial.params), trial.x)
    assert trial.because
    assert "nan" not in trial.because
    predicted = trial.predicted_cost
    assert predicted is None or 0 < predicted < np.inf


# ---------------------------------------------------------------- proposals
@POLICY
@pytest.mark.parametrize("kind", KINDS)
def test_proposals_are_valid_and_distinct_and_depend_on_the_seed(name, kind):
    optimizer, again = (AS_IT_IS.optimizer(kind, name, seed=3) for _ in range(2))
    trials = optimizer.ask(2)
    for trial in trials:
        check(trial, optimizer.space)
    assert not np.array_equal(trials[0].x, trials[1].x)
    np.testing.assert_array_equal(again.ask().x, trials[0].x)
    if kind == "table":
        assert all(trial.params not in POINTS["table"] for trial in trials)


def hard_cases():
    """Small, unusual or extreme histories: points to add, and settings."""
    some = POINTS["mixed"]
    outlier = {id(p): 1e300 if i == 4 else value_of(p) for i, p in enumerate(some)}
    extremes = {id(p): 10.0 ** (i - 6) for i, p in enumerate(some)}
    return {
        "nothing yet": ([], {}, {}),
        "one value": (some[:1], {}, {}),
        "a constant": (some, {"value": lambda p: 7.3}, {}),
        "duplicates": ([*some[:5], *some[:5]], {}, {}),
        "a few and an outlier": (some[:6], {"value": lambda p: outlier[id(p)]}, {}),
        "an outlier": (some, {"value": lambda p: outlier[id(p)]}, {}),
        "minus the outlier": (some, {"value": lambda p: -outlier[id(p)]}, {}),
        "costs from 1e-6 to 1e6": (
            [*some, dict(some[0], k=6)],
            {"cost": lambda p: extremes.get(id(p), 1e6)},
            {"budget": 3e7},
        ),
        "tiny values": (some, {"value": lambda p: 1e-300 * value_of(p)}, {}),
        "noise": ([*some, *some[:3]], {}, {"noisy": True}),
    }


HARD = hard_cases()


@pytest.mark.slow
@CLASS_OF_POLICY
@pytest.mark.parametrize("case", HARD)
def test_hard_histories_get_valid_proposals(name, case):
    points, world, settings = HARD[case]
    optimizer = World(**world).optimizer("mixed", name, points=points, **settings)
    check(optimizer.ask(), optimizer.space)


@pytest.mark.slow
@CLASS_OF_POLICY
@pytest.mark.parametrize("kind", ["continuous", "table"])
def test_failures_and_running_trials_get_valid_proposals(name, kind):
    optimizer = AS_IT_IS.optimizer(kind, name, points=POINTS[kind][:7])
    batch = optimizer.ask(4)
    optimizer.tell(batch[0], failed="out of memory", cost=2.0)
    optimizer.tell(batch[1], killed=True, cost=60.0)
    optimizer.tell(batch[2], value_of(batch[2].params), cost=3.0)
    trial = optimizer.ask()  # while batch[3] is running
    check(trial, optimizer.space)
    assert not any(np.array_equal(trial.x, other.x) for other in batch)


@pytest.mark.slow
@CLASS_OF_POLICY
def test_everything_failed(name):
    optimizer = AS_IT_IS.optimizer("mixed", name, points=[])
    for _ in range(6):
        trial = optimizer.ask()
        check(trial, optimizer.space)
        optimizer.tell(trial, failed="again", cost=2.0)
    check(optimizer.ask(), optimizer.space)


@pytest.mark.slow
@CLASS_OF_POLICY
def test_every_row_of_a_table_is_tried_once(name):
    rows = [{"x": x, "s": s} for x in (2.0, 2.5, 3.0) for s in "ab"]
    optimizer = Optimizer(Space.from_rows(rows), budget=1e9, policy=_without_points(name))
    while not optimizer.verdict.stop:
        trial = optimizer.ask()
        optimizer.tell(trial, trial.params["x"] ** 2, cost=1 + trial.params["x"])
    assert len(optimizer.history) == 6
    assert len({tuple(t.params.values()) for t in optimizer.history}) == 6
    assert optimizer.verdict.because == "every row of the table was tried (6)"


def _without_points(name):
    return EI() if name == "StartWith" else POLICIES[name](Circumstances())


@pytest.mark.slow
@CLASS_OF_POLICY
@pytest.mark.parametrize("kind", ["continuous", "table"])
def test_nothing_starts_that_is_not_affordable(name, kind):
    """If the cost is known, nothing starts that costs more than what is left."""
    cheapest = min(map(cost_of, ROWS[12:] if kind == "table" else [{"a": -3.0}]))
    optimizer, nothing = (
        AS_IT_IS.optimizer(kind, name, budget=budget, cost=cost_of)
        for budget in (2 * cheapest, 0.99 * cheapest)
    )
    assert cost_of(optimizer.ask().params) <= 2 * cheapest * (1 + 1e-8)
    assert nothing.verdict.stop
    assert nothing.verdict.because.startswith("nothing affordable is left")


# ---------------------------------------------------------------- symmetries of the policies
@cache
def proposed(name, kind):
    """The proposal without a transformation, and the surface that was searched last, if any."""
    surfaces = []
    with pytest.MonkeyPatch.context() as patch:
        ours = [module for name, module in sys.modules.items() if name.startswith("farthing.")]
        for module in ours:
            if vars(module).get("maximise") is maximise:
                patch.setattr(module, "maximise", _spy(surfaces, maximise))
        patch.setattr(
            "farthing.policies.rollout.best_first_point", _spy(surfaces, best_first_point)
        )
        patch.setattr("farthing.policies.contextual.slide", _spy(surfaces, slide))
        optimizer = AS_IT_IS.optimizer(kind, name)
        trial = optimizer.ask()
    return SimpleNamespace(
        trial=trial,
        space=optimizer.space,
        surface=surfaces[-1] if surfaces else None,
    )


def _spy(surfaces, search):
    def spy(surface, *args, **settings):
        surfaces.append(surface)
        return search(surface, *args, **settings)

    return spy


@pytest.mark.slow
@POLICY
@pytest.mark.parametrize(
    ("kind", "world"),
    [(kind, world) for kind in ("continuous", "table") for world in WORLDS]
    + [("mixed", world) for world in ("cost x 1000", "3 y + 7")]
    + [("continuous", world) for world in FAR_WORLDS],
)
def test_the_choice_is_invariant(name, kind, world):
    """Negated, in other units, or shifted: within 1e-3 in the cube, or the same row of a table."""
    there = {**WORLDS, **FAR_WORLDS}[world]
    x = there.optimizer(kind, name).ask().x
    here = proposed(name, kind).trial.x
    if kind == "table":
        np.testing.assert_array_equal(x, here)
    else:
        np.testing.assert_allclose(x, here, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in POLICIES if name not in DESIGNS])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_choice_with_permuted_parameters(name, kind):
    """The same row of a table; else the same score within 0.01 nats, if something was maximised."""
    trial = PERMUTED.optimizer(kind, name).ask()
    here = proposed(name, kind)
    x = here.space.encode(trial.params)
    if kind == "table" or here.surface is None:
        np.testing.assert_allclose(x, here.trial.x, atol=1e-12)
        return
    there = here.surface.at(np.stack([x, here.trial.x]))
    assert abs(there.score[0] - there.score[1]) < 0.01
    assert there.shortfall[0] < 1e-3


# ---------------------------------------------------------------- special cases
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["continuous", "table"])
@pytest.mark.parametrize(
    "policy", [EIPerCost(), EIPerCost(0.3), Cooling(), CArBO(share=0), ContextualEI()], ids=repr
)
def test_a_constant_cost_is_ei(kind, policy):
    def choice(policy):
        made = AS_IT_IS.optimizer(kind, policy, points=[], cost=lambda p: 7.3)
        for p in POINTS[kind]:
            made.add(p, value_of(p))
        return made.ask().x

    np.testing.assert_allclose(choice(policy), choice(EI()), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", [EIPerCost(), Cooling(), CArBO(share=0)], ids=repr)
def test_a_constant_cost_that_has_to_be_learnt_is_ei(kind, policy):
    world = World(cost=lambda p: 7.3)
    there, here = (world.optimizer(kind, p).ask().x for p in (policy, EI()))
    np.testing.assert_allclose(there, here, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_equal_methods(kind):
    """If nothing is spent, cooling is EI per cost; without slack, contextual EI is EI."""
    for one, other in (
        (Cooling(), EIPerCost()),
        (CArBO(share=0), Cooling()),
        (ContextualEI(0.0), EI()),
        (EIPerCost(0.0), EI()),
    ):
        x = [AS_IT_IS.optimizer(kind, policy).ask().x for policy in (one, other)]
        np.testing.assert_allclose(*x, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_setting_worth_equals_the_worth_of_the_policy(kind):
    x = [
        AS_IT_IS.optimizer(kind, Gittins(0.02)).ask().x,
        AS_IT_IS.optimizer(kind, Gittins(), worth=0.02).ask().x,
    ]
    np.testing.assert_array_equal(*x)


# ---------------------------------------------------------------- verdicts
@RULE
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", [*WORLDS, "permuted"])
def test_the_verdict_is_invariant(name, kind, world):
    there = WORLDS.get(world, PERMUTED)
    here = verdict_as_it_is(name, kind)
    rule = there.made(name, kind)
    verdict = there.optimizer(kind, Random(), stop=rule).verdict
    assert verdict.stop == here.stop
    assert verdict.because
    if (
        isinstance(rule, NotWorthIt) and verdict.stop
    ):  # else the search may stop at any point worth it
        surplus = verdict.number - verdict.threshold
        assert surplus == pytest.approx(here.number - here.threshold, abs=0.01)
    if isinstance(rule, Target):
        assert verdict.number == pytest.approx(there.line(here.number), rel=1e-9)


@cache
def verdict_as_it_is(name, kind):
    return AS_IT_IS.optimizer(kind, Random(), stop=AS_IT_IS.made(name, kind)).verdict


@pytest.mark.parametrize("name", [name for name in RULES if ", " in name])
def test_the_examples_stop_or_continue_as_labelled(name):
    label = name.partition(", ")[2]
    assert label in ("stops", "continues")
    assert verdict_as_it_is(name, "mixed").stop == (label == "stops")


@pytest.mark.parametrize("kind", KINDS)
def test_the_stop_of_ei_per_cost_and_of_gittins_agree(kind):
    """NotWorthIt stops if and only if no index is below the incumbent (stopping paper, 4 and 5)."""
    optimizer = AS_IT_IS.optimizer(kind, EIPerCost())
    belief = believed(optimizer._settings, optimizer._look())
    rng = np.random.default_rng(0)
    most = maximise_score(belief, log_ei_per_cost(1.0), rng).score[0]
    for log_worth, stop in ((most - 0.05, False), (most + 0.05, True)):
        worth = float(np.exp(log_worth))
        index = gittins_index(worth, belief.scale, origin=float(belief.best[0]))
        assert (maximise_score(belief, index, rng).score[0] <= 0) == stop
        verdict = AS_IT_IS.optimizer(kind, EIPerCost(), stop=NotWorthIt(worth)).verdict
        assert verdict.stop == stop


@pytest.mark.slow
@RULE
@pytest.mark.parametrize("case", ["nothing yet", "one value", "a constant", "an outlier", "noise"])
def test_verdicts_on_hard_histories(name, case):
    points, world, settings = HARD[case]
    rule = AS_IT_IS.made(name, "mixed")
    optimizer = World(**world).optimizer("mixed", EI(), points=points, stop=rule, **settings)
    verdict = optimizer.verdict
    assert verdict.because
    assert verdict.stop in (True, False)
    if len(points) > 1:
        assert not np.isnan(verdict.number)
    waits = "model" in rule.needs and len(points) < 2
    assert (verdict.because == "too few values to judge yet") == waits
    assert np.isfinite(verdict.threshold) == (not waits)


@pytest.mark.slow
@CLASS_OF_POLICY
def test_every_policy_runs_until_a_rule_stops_it(name):
    """A few steps with a rule and a budget: the ledger is correct, the reason is given."""
    space = Space({"x": Float(2, 3), "s": Categorical(["u", "v"])})
    policy = _without_points(name)
    stop = any_of(MaxTrials(7), Target(-1.0))
    optimizer = Optimizer(space, budget=1000.0, policy=policy, stop=stop, seed=2)
    while not optimizer.verdict.stop:
        trial = optimizer.ask()
        optimizer.tell(trial, (trial.params["x"] - 2.4) ** 2, cost=trial.params["x"])
    assert optimizer.verdict.because == "7 of at most 7 trials made"
    assert optimizer.ledger.spent == pytest.approx(
        sum(trial.cost["cost"] for trial in optimizer.history)
    )
    with pytest.raises(Stopped, match="7 of at most 7"):
        optimizer.ask()

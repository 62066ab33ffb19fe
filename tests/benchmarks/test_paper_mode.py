"""Paper mode: no start of Farthing's own, no exploration, nothing about what is affordable."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.methods import PAPER, POLICIES, make
from benchmarks.paper import FIRST, PREFIX, Frozen, keeping_fantasies, unlimited
from benchmarks.problems.problem import Evaluation
from farthing import Float, Optimizer, Space
from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.scores import log_ei_per_cost
from farthing.cost import Transfer
from farthing.cost.model import Evidence
from farthing.policies import Rollout

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1)})


def evaluated(params: dict[str, float]) -> Evaluation:
    return Evaluation((params["a"] - 0.7) ** 2 + params["b"], 1.0 + 9.0 * params["a"])


def run(name: str, budget: float, seed: int, most: int) -> tuple[list[dict[str, float]], Optimizer]:
    method = make(name, SPACE, budget=budget, seed=seed)
    asked: list[dict[str, float]] = []
    while len(asked) < most and (params := method.ask()) is not None:
        asked.append(dict(params))
        method.tell(params, evaluated(asked[-1]))
    return asked, method.optimizer  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name", [n for n in PAPER if not n.startswith("rollout") and n != "random"]
)
def test_it_starts_with_five_uniform_points_and_then_uses_the_model(name: str) -> None:
    asked, optimizer = run(f"{PREFIX}{name}", 1000.0, 1, FIRST + 2)
    trials = list(optimizer.history)
    assert [t.because for t in trials[:FIRST]] == ["a uniform point"] * FIRST
    assert all("uniform" not in t.because for t in trials[FIRST:])
    assert asked[0] != {"a": 0.5, "b": 0.5}


def test_its_starting_points_are_uniform() -> None:
    first = np.array([list(run("paper:EI", 1000.0, seed, 1)[0][0].values()) for seed in range(200)])
    assert np.abs(first.mean(axis=0) - 0.5).max() < 4 * math.sqrt(1 / 12 / 200)
    assert np.abs(first.var(axis=0) - 1 / 12).max() < 0.03


def test_the_proposal_maximises_the_printed_score_whatever_is_left() -> None:
    """Brute force over a grid: EI per cost without P(c <= left), although little is left."""
    _, optimizer = run("paper:EIpu", 1000.0, 3, 9)
    asker = optimizer._asker
    state = optimizer._session.look()
    belief = asker.suggest(state).suggestion.belief
    poor = replace(belief.ledger, _accounts=(("cost", replace(belief.ledger["cost"], limit=60.0)),))
    policy = POLICIES["paper:EIpu"]()
    chosen = policy.propose(replace(belief, ledger=poor), np.random.default_rng(0))
    assert chosen.x is not None
    free = replace(belief, ledger=unlimited(belief.ledger))
    grid = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, 101)]), axis=-1).reshape(-1, 2)
    score: Callable[..., np.ndarray] = lambda X: log_ei_per_cost(1.0)(free.outlook(X)).score  # noqa: E731
    assert score(chosen.x[None])[0] >= score(grid).max() - 1e-3


def test_cooling_still_cools() -> None:
    _, optimizer = run("paper:cooling", 60.0, 0, 40)
    exponents = [t.because for t in optimizer.history if "per cost^" in t.because]
    assert exponents[0] != exponents[-1]


def test_rollout_truncates_its_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []

    def propose(self: Rollout, belief: Belief, rng: np.random.Generator) -> Proposal:
        used.append(self.unaffordable)
        return Proposal(np.array([0.2, 0.3]), "recorded")

    monkeypatch.setattr(Rollout, "propose", propose)
    run("paper:rollout_2", 60.0, 0, FIRST + 1)
    assert used == ["truncate"]


def test_random_search_is_uniform_to_the_end_and_fits_no_model() -> None:
    _, optimizer = run("paper:random", 30.0, 0, 40)
    trials = list(optimizer.history)
    assert {trial.because for trial in trials} == {"a uniform point"}
    assert "model" not in POLICIES["paper:random"]().reads


def test_a_part_of_carbo_covers_for_an_eighth_of_the_budget_and_then_is_its_policy() -> None:
    covered, _ = run("paper:cover+EI", 400.0, 2, 20)
    carbo, optimizer = run("paper:CArBO", 400.0, 2, 20)
    ei, _ = run("paper:EI", 400.0, 2, 20)
    assert covered[:FIRST] == ei[:FIRST]
    spent = np.cumsum([evaluated(params).cost for params in covered])
    changed = int(np.searchsorted(spent, 400.0 / 8)) + 1  # the first choice of EI itself
    assert FIRST < changed < 20
    assert covered[:changed] == carbo[:changed]
    assert covered[:changed] != ei[:changed]
    assert covered[changed] != carbo[changed]
    assert optimizer.history


def test_a_frozen_transfer_learns_nothing_here() -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"a": a, "b": b, "cost": 8.0 ** (i % 3) * math.exp(a), "task": str(i % 3)}
        for i, (a, b) in enumerate(rng.random((60, 2)))
    ]
    transfer, X = Transfer(rows, task="task"), rng.random((8, 2))
    evidence = Evidence(SPACE, X, 50.0 * np.exp(X[:, 0]), np.zeros(8, dtype=np.bool_))
    online, frozen = transfer.fit(evidence), Frozen(transfer).fit(evidence)
    assert online is not None
    assert frozen is not None
    assert np.abs(online.log_at(X).mean - evidence.log_cost()).max() < 0.5
    of_the_tasks = math.log(8.0) + X[:, 0]  # less by ln(50 / 8) = 1.8
    assert np.abs(frozen.log_at(X).mean - of_the_tasks).max() < 0.5


def test_the_members_of_a_batch_share_their_fantasies() -> None:
    """Lee et al. 2020, algorithm 3: a member adds one value to each Y^(i), and keeps the others."""
    optimizer = Optimizer(SPACE, budget={"cost": 1000.0}, policy=POLICIES["EI"](), seed=4)
    for _ in range(8):
        trial = optimizer.ask()
        value, cost = evaluated(dict(trial.params))
        optimizer.tell(trial, value, cost=cost)

    def member() -> Belief:
        state = optimizer._session.look()
        belief = optimizer._asker.suggest(state).suggestion.belief
        return keeping_fantasies(belief)

    alone = member()
    found = []
    for _ in range(3):
        optimizer.ask()
        found.append(member())
    second, third, fourth = (belief.objective for belief in found)
    assert alone.objective is not None
    assert second is not None
    assert third is not None
    assert fourth is not None
    n = len(alone.objective.X)
    assert second.targets.shape == (n + 1, 10)
    assert np.allclose(third.targets[: n + 1], second.targets, atol=1e-6)
    assert np.allclose(fourth.targets[: n + 2], third.targets, atol=1e-6)
    assert np.ptp(second.targets[n]) > 0  # ten different values
    # Each value is drawn given the earlier ones of its own fantasy.
    mean, std = second.at(found[1].history.points("running")[1][None])
    z = np.random.default_rng([4, found[0].history.running[0].number, 10]).standard_normal(20)[10:]
    drawn = third.shift + third.scale * third.targets[n + 1]
    assert np.allclose(drawn, mean[0] + std[0] * z, atol=1e-4 * third.scale)
    assert np.allclose(found[1].best, np.minimum(found[0].best, drawn), atol=1e-4 * third.scale)

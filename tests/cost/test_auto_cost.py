import json

import numpy as np
import pytest
from scipy.stats import norm

from farthing import InvalidInput, Optimizer
from farthing.cost import AutoCost, Evidence, Known, Linear, LogGP, ResidualGP
from farthing.cost.auto_cost import choice, log_scores
from farthing.models.gp import Normal
from farthing.policies import Random
from farthing.space.space import Categorical, Float, Int, Space

SPACE = Space(
    {
        "a": Float(1, 100, log=True),
        "b": Float(1, 3),
        "c": Int(1, 8),
        "kind": Categorical(["x", "y", "z"]),
    }
)
SHAPES = {
    "constant": lambda X: np.zeros(len(X)),
    "plane": lambda X: 5.0 * X[:, 0] + 1.0 * (X[:, 3] > 0.5),
    "bent": lambda X: 5.0 * X[:, 0] + np.sin(7 * X[:, 1]),
    "wavy": lambda X: 2.0 * np.sin(6 * X[:, 0]) + 2.0 * np.cos(5 * X[:, 1]),
}


def evidence(n, shape="bent", seed=0, noise=0.2, memory=None):
    rng = np.random.default_rng(seed)
    X = SPACE.sample(n, rng)
    cost = np.exp(3.0 + SHAPES[shape](X) + noise * rng.standard_normal(n))
    return Evidence(SPACE, X, cost, np.zeros(n, dtype=bool), memory)


def test_scores():
    normal = Normal(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.3, 0.0]))
    log_cost, at_least = np.array([1.2, 2.5, 3.0]), np.array([False, True, False])
    expected = [norm.logpdf(1.2, 1.0, 0.5), norm.logsf(2.5, 2.0, 0.3), norm.logpdf(3.0, 3.0, 0.02)]
    np.testing.assert_allclose(log_scores(normal, log_cost, at_least), expected, rtol=1e-12)


def test_the_simplest_within_a_standard_error_of_the_best():
    jitter = np.array([0.1, -0.1, 0.2, -0.2])  # standard error of the sum of four: 0.365
    far, errors = np.full(4, -9.0), np.array([[9.0] * 4, [1.0] * 4, [1.0] * 4, [1.0] * 4])
    base = np.zeros(4)
    assert choice(np.array([far, base, base + jitter + 0.08, far]), errors) == 1
    assert choice(np.array([far, base, base + jitter + 0.10, far]), errors) == 2
    assert choice(np.array([far, far, far, base]), errors) == 3
    # Better scores do not suffice: the squared error must also be lower than the simplest one's.
    errors[:, :] = 4.0 + jitter
    assert choice(np.array([far, far, far, base]), errors) == 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [5, 12, 40])
def test_it_is_never_much_worse_than_the_best_fixed_choice(shape, n):
    """RMSE of ln c of new costs: within 5 % plus twice the standard error of the mean."""
    learner, runs = AutoCost(), 16
    new = evidence(300, shape, 1234)
    errors = np.empty((runs, len(learner.of) + 1))
    for seed in range(runs):
        given = evidence(n, shape, seed)
        for k, each in enumerate([*learner.of, learner]):
            mean, _ = each.fit(given).log_at(new.X)
            errors[seed, k] = np.sqrt(np.mean((mean - np.log(new.cost)) ** 2))
    best = errors[:, :-1].mean(axis=0).argmin()
    excess = errors[:, -1] - errors[:, best]
    noise = 2 * excess.std(ddof=1) / np.sqrt(runs)
    assert excess.mean() <= 0.05 * errors[:, best].mean() + noise


def test_it_chooses_by_leave_one_out_scores():
    given = evidence(20)
    learner = AutoCost()
    model = learner.fit(given)
    left_out = [each.fit(given).left_out() for each in learner.of]
    log_cost = np.log(given.cost)
    scores = np.array([log_scores(each, log_cost, given.at_least) for each in left_out])
    errors = np.array([(log_cost - each.mean) ** 2 for each in left_out])
    assert model.memory["choice"] == choice(scores, errors)
    chosen = learner.of[model.memory["choice"]].fit(given)
    np.testing.assert_array_equal(model.log_at(given.X).mean, chosen.log_at(given.X).mean)
    name = type(learner.of[model.memory["choice"]]).__name__
    assert model.because == f"cost model {name}, the best of 4 on 20 costs"
    assert model.about == chosen.about


class Counted:
    """A learner that counts its fits."""

    def __init__(self, learner):
        self.learner, self.fits = learner, 0

    def fit(self, given):
        self.fits += 1
        return self.learner.fit(given)


def test_until_n_has_grown_by_a_tenth_only_the_chosen_model_is_fitted():
    linear, process = Counted(Linear()), Counted(LogGP())
    learner, memory = AutoCost([linear, process]), None
    for n in range(20, 26):
        model = learner.fit(evidence(n, "wavy", memory=memory))
        memory = json.loads(json.dumps(model.memory))
    assert memory["choice"] == 1
    assert process.fits == 6
    assert linear.fits == 3  # at 20, at 22 (a tenth more) and at 25
    assert memory["n"] == 25


def test_fits_are_counted():
    linear, process = Counted(Linear()), Counted(LogGP())
    learner, memory = AutoCost([linear, process]), None
    for n in range(40, 100):
        memory = learner.fit(evidence(n, "wavy", memory=memory)).memory
    assert linear.fits <= 10


def test_few_costs():
    learner = AutoCost()
    assert learner.fit(evidence(0)) is None
    for n in (1, 2, 3):
        model = learner.fit(evidence(n))
        assert model.memory["n"] == 0  # nothing was chosen
        assert model.because == ""
    assert learner.fit(evidence(4)).memory["n"] == 4


@pytest.mark.parametrize("order", [(Linear, LogGP), (LogGP, Linear)])
def test_with_few_costs_the_last_learner_that_has_a_model_counts(order):
    few = evidence(3)
    model = AutoCost([each() for each in order]).fit(few)
    assert model.memory["choice"] == 1
    X = SPACE.sample(5, np.random.default_rng(1))
    assert np.array_equal(model.log_at(X).mean, order[1]().fit(few).log_at(X).mean)


def test_about_and_because_of_the_chosen_model_are_passed_on():
    class Undescribed:
        """A model without `about` and `because`."""

        memory = None

    class Described(Undescribed):
        about, because = "a guess", "a reason"

    class Learner:
        def __init__(self, model):
            self.model = model

        def fit(self, evidence):
            return self.model

    assert AutoCost([Learner(Described())]).fit(evidence(2)).because == "a reason"
    assert AutoCost([Learner(Undescribed())]).fit(evidence(2)).because == ""


def test_the_memory_of_another_learner_is_ignored():
    memory = LogGP().fit(evidence(30)).memory
    one = AutoCost().fit(evidence(30, memory=memory))
    assert one.memory == AutoCost().fit(evidence(30)).memory


def test_predictions_above_a_bound_are_not_errors():
    """The bounds lie far below the true costs, so a model that predicts the truth exceeds them."""
    given = evidence(30, "wavy", noise=0.05)
    killed = np.arange(30) % 4 == 0
    cut = given._replace(cost=np.where(killed, given.cost / 50, given.cost), at_least=killed)
    assert AutoCost().fit(cut).memory["choice"] in (2, 3)


def test_user_defined_learners():
    assert AutoCost([ResidualGP(), LogGP()]).fit(evidence(12)) is not None
    with pytest.raises(InvalidInput, match="no method left_out"):
        AutoCost([Known(lambda params: 1.0)]).fit(evidence(12))
    for wrong in ([], ["linear"]):
        with pytest.raises(InvalidInput, match="expected cost learners"):
            AutoCost(wrong)


def test_the_choice_is_explained_and_stored():
    optimizer = Optimizer(SPACE, 1e6, policy=Random(), cost=AutoCost())
    for _ in range(8):
        trial = optimizer.ask()
        optimizer.tell(trial, 1.0, cost=float(3.0 + trial.params["a"]))
    assert "the best of 4 on" in optimizer.ask().because
    assert "choice" in optimizer.history.last_note("memories")["cost:cost"]

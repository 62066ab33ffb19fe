"""predict() and acquisition(): numbers of the models and of the policies at points of the user."""

import numpy as np
import pytest
from scipy.stats import lognorm

from farthing import Categorical, Float, Int, Optimizer, Study, policies
from farthing.core.suggest import believed, suggest
from farthing.errors import InvalidInput
from farthing.models.normal import log_ei

SPACE = {"x": Float(0, 1), "n": Int(1, 8), "kind": Categorical(["a", "b"])}
EXTRA = {"y": Float(0, 1, when={"kind": "b"})}


def value(params):
    bump = 0.3 if params["kind"] == "b" else 0.0
    return (params["x"] - 0.4) ** 2 + 0.05 * (params["n"] - 3) ** 2 + bump + 5


def filled(optimizer, count=9, sign=1.0, fails=()):
    for k in range(count):
        trial = optimizer.ask()
        cost = 0.1 * trial.params["n"]
        if k in fails:
            optimizer.tell(trial, failed="out of memory", cost=cost)
        else:
            optimizer.tell(trial, sign * value(trial.params), cost=cost)
    return optimizer


def points(optimizer, count, seed=0):
    X = optimizer.space.sample(count, np.random.default_rng(seed))
    return [optimizer.space.decode(x) for x in X]


@pytest.fixture(scope="module")
def learnt():
    return filled(Optimizer(SPACE, "$40"), 12, fails=(5,))


# ── predict ──────────────────────────────────────────────────────────────────────────────────────


def test_predictions_are_those_of_the_models(learnt):
    some = points(learnt, 6)
    frame = learnt.predict(some)
    belief = believed(*learnt.facts, model=True)
    X = np.array([learnt.space.encode(params) for params in some])
    mean, std = belief.objective.at(X)
    np.testing.assert_allclose(frame["mean"], mean[:, 0])
    np.testing.assert_allclose(frame["std"], std)
    np.testing.assert_allclose(frame["success"], np.exp(belief.log_success(X)))
    assert (frame["success"] < 1).all()  # one trial failed
    m, s = belief.cost["usd"].log_at(X)
    for percent in (10, 50, 90):
        expected = lognorm.ppf(percent / 100, s, scale=np.exp(m))
        np.testing.assert_allclose(frame[f"cost_usd_p{percent}"], expected, rtol=1e-9)


def test_predictions_are_near_the_truth(learnt):
    # The model clips values far above the others.
    tried = [trial for trial in learnt.trials if trial.state == "done" and trial.value < 5.6]
    frame = learnt.predict([trial.params for trial in tried])
    np.testing.assert_allclose(frame["mean"], [trial.value for trial in tried], atol=0.2)
    costs = [trial.cost["usd"] for trial in tried]
    np.testing.assert_allclose(frame["cost_usd_p50"], costs, rtol=0.1)


def test_a_maximised_objective_keeps_its_sign_and_units(learnt):
    other = Optimizer(SPACE, "$40", direction="maximize")
    for trial in learnt.trials:
        asked = other.ask()
        assert asked.params == dict(trial.params)
        if trial.value is None:
            other.tell(asked, failed=trial.error, cost=trial.cost)
        else:
            other.tell(asked, -trial.value, cost=trial.cost)
    some = points(learnt, 4)
    ours, theirs = learnt.predict(some), other.predict(some)
    np.testing.assert_allclose(theirs["mean"], -ours["mean"])
    np.testing.assert_allclose(theirs["std"], ours["std"])


def test_one_configuration_several_and_a_data_frame_agree(learnt):
    some = points(learnt, 3)
    frame = learnt.predict(some)
    one = learnt.predict(some[1])
    assert len(one) == 1
    np.testing.assert_allclose(one.iloc[0], frame.iloc[1])
    pd = pytest.importorskip("pandas")
    for table in (pd.DataFrame(some), pd.DataFrame(some).add_prefix("param_")):
        table.index = ["p", "q", "r"]
        found = learnt.predict(table)
        assert list(found.index) == ["p", "q", "r"]
        np.testing.assert_allclose(found, frame)
    np.testing.assert_allclose(
        learnt.predict(learnt.dataframe())["mean"],
        learnt.predict([trial.params for trial in learnt.trials])["mean"],
    )


def test_an_inactive_parameter_of_a_data_frame_is_missing():
    optimizer = filled(Optimizer(SPACE | EXTRA, "$40"))
    some = points(optimizer, 8)
    assert {"y" in params for params in some} == {True, False}
    pd = pytest.importorskip("pandas")
    frame = optimizer.predict(pd.DataFrame(some))
    np.testing.assert_allclose(frame, optimizer.predict(some))


def test_predictions_before_there_is_a_model():
    optimizer = Optimizer(SPACE, "$40")
    frame = optimizer.predict(points(optimizer, 2))
    assert frame[["mean", "std"]].isna().all(axis=None)
    assert list(frame.columns) == ["mean", "std", "success"]
    known = Optimizer(SPACE, "$40", cost=lambda params: 2.0 * params["n"])
    frame = known.predict({"x": 0.5, "n": 3, "kind": "a"})
    assert frame["cost_usd_p10"][0] == frame["cost_usd_p90"][0] == pytest.approx(6.0)


def test_predictions_after_the_budget_is_spent():
    optimizer = filled(Optimizer(SPACE, "9 trials, $40"), 9)
    assert optimizer.verdict.stop
    frame = optimizer.predict(points(optimizer, 3))
    assert not frame.isna().any(axis=None)
    assert optimizer.plot.values.slice("x").panels


def test_running_trials_are_not_fantasised():
    optimizer = filled(Optimizer(SPACE, "$40"))
    asked = Optimizer.of(optimizer.facts[0])
    some = filled(asked).ask().params  # what the optimizer will ask
    before = optimizer.predict(some)
    assert optimizer.ask().params == some
    after = optimizer.predict(some)  # a fantasy would make the std almost 0
    np.testing.assert_allclose(after, before, rtol=0.05)
    assert (after["std"] > 0.01).all()


def test_a_study_predicts_what_an_optimizer_does(tmp_path):
    study = Study.create(tmp_path / "a.db", name="a", space=SPACE, budget="$40")
    optimizer = Optimizer(SPACE, "$40")
    filled(study), filled(optimizer)
    some = points(optimizer, 3)
    np.testing.assert_allclose(study.predict(some), optimizer.predict(some))
    np.testing.assert_allclose(study.acquisition(some), optimizer.acquisition(some))


@pytest.mark.parametrize("call", ["predict", "acquisition"])
@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"x": 0.5, "n": 3}, "Parameter 'kind' is missing"),
        ({"x": 0.5, "n": 3, "kind": "a", "z": 1}, "Unknown parameter 'z'"),
        ([{"x": 0.5, "n": 3, "kind": "a"}, {"x": 5, "n": 3, "kind": "a"}], "Row 1: "),
        ([3, 4], "Row 0: 3 is not a dict"),
        (3, "3 is not a dict"),
        ("x=3", "'x=3' is not a dict"),
    ],
)
def test_wrong_parameters_are_refused(learnt, call, params, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        getattr(learnt, call)(params)


def test_without_pandas_the_error_says_what_to_install(learnt, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(InvalidInput, match=r"predict\(\) needs pandas.*pip install pandas"):
        learnt.predict(points(learnt, 1))
    assert np.isfinite(learnt.acquisition(points(learnt, 1))).all()


# ── acquisition ──────────────────────────────────────────────────────────────────────────────────

WITH_SCORE = [
    policies.EI(),
    policies.EIPerCost(0.5),
    policies.Cooling(),
    policies.ConfidenceBound(),
    policies.Gittins(),
    policies.Gittins(worth=0.3),
    policies.Gittins(worth=1e4),
    policies.Thompson(),
    policies.StartWith([{"x": 0.1, "n": 2, "kind": "a"}], then=policies.EIPerCost()),
    policies.CArBO(share=0.01),
]


@pytest.mark.parametrize("policy", WITH_SCORE, ids=repr)
@pytest.mark.parametrize("pending", [0, 2])
def test_the_score_is_what_the_policy_maximises(policy, pending):
    optimizer = filled(Optimizer(SPACE, "$40", policy=policy), 8)
    for _ in range(pending):
        optimizer.ask()
    proposal = suggest(*optimizer.facts).proposal
    chosen = optimizer.acquisition(optimizer.space.decode(proposal.x))
    assert isinstance(chosen, float)
    assert chosen == pytest.approx(proposal.score, rel=1e-6, abs=1e-9)
    # The space is small, and every point of it is affordable.
    assert (optimizer.acquisition(points(optimizer, 300)) <= chosen + 1e-6).all()


def test_the_score_of_ei_is_log_ei():
    optimizer = filled(Optimizer(SPACE, policy="ei"), 8)
    some = points(optimizer, 5)
    frame, best = optimizer.predict(some), optimizer.best_value
    expected = log_ei(frame["mean"].to_numpy(), frame["std"].to_numpy(), best)
    np.testing.assert_allclose(optimizer.acquisition(some), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("random", "Random chooses the next trial without a score"),
        ("sobol", "Sobol chooses the next trial without a score"),
        ("contextual", "ContextualEI chooses the next trial without a score"),
        ("carbo(share=0.9)", "CArBO chooses the next trial without a score"),
    ],
)
def test_a_policy_without_a_score_says_so(policy, sentence):
    optimizer = filled(Optimizer(SPACE, "$40", policy=policy), 6)
    with pytest.raises(InvalidInput, match=sentence):
        optimizer.acquisition(points(optimizer, 1))


def test_without_a_model_or_a_budget_there_is_no_score():
    optimizer = Optimizer(SPACE, "9 trials", policy="ei")
    with pytest.raises(InvalidInput, match="EI has no score yet"):
        optimizer.acquisition(points(optimizer, 1))
    filled(optimizer, 9)
    with pytest.raises(InvalidInput, match="The budget is spent"):
        optimizer.acquisition(points(optimizer, 1))


def test_looking_costs_nothing_and_changes_nothing():
    first, second = (filled(Optimizer(SPACE, "$40"), 6) for _ in range(2))
    spent = first.ledger
    first.predict(points(first, 3)), first.acquisition(points(first, 3))
    assert first.ledger == spent
    assert first.ask().params == second.ask().params


def test_a_predicted_cost_is_finite_even_near_the_largest_float():
    optimizer = Optimizer({"x": Float(0, 1)}, {"usd": 1e300}, policy=policies.Random(), seed=0)
    for cost in (1e-300, 1e290, 1e-290, 1e280, 1.0):
        optimizer.tell(optimizer.ask(), 1.0, cost=cost)
    predicted = optimizer.predict([{"x": x} for x in (0.0, 0.3, 0.9)])
    costs = predicted[[name for name in predicted if name.startswith("cost_usd")]].to_numpy()
    assert np.isfinite(costs).all()

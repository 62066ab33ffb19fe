"""Policies, rules and cost models by name: the same names in Python and in the shell."""

import sys

import pytest

from farthing import Float, Optimizer, Study, cost, minimize, policies, stopping
from farthing.cli.methods import make_method
from farthing.core.method_names import methods_in, named_method
from farthing.errors import InvalidInput

SPACE = {"x": Float(0, 1)}


@pytest.mark.parametrize("folder", ["policies", "stopping", "cost"])
def test_the_shell_and_python_have_the_same_names(folder):
    made = 0
    for name, method in methods_in(folder).items():
        for text in (name, method.__name__):
            try:
                found = named_method(text, folder, f"policy={text!r}")
            except InvalidInput as error:  # it needs arguments
                assert "Its signature is" in str(error)  # noqa: PT017
                continue
            assert isinstance(found, method)
            assert make_method(text, folder, "--policy") == found
            made += 1
    assert made >= 6


def test_settings_by_name():
    optimizer = Optimizer(
        SPACE,
        {"usd": 9, "kWh": 3},
        policy="contextual(slack=0.5)",
        stop="any_of(max_trials(7), target(0.1))",
        cost={"usd": "linear(at_most=1)", "kWh": lambda params: 1.0},
    )
    assert optimizer.policy == policies.ContextualEI(slack=0.5)
    assert optimizer.stop == stopping.any_of(stopping.MaxTrials(7), stopping.Target(0.1))
    assert optimizer._settings.learners["usd"] == cost.Linear(at_most=1)
    optimizer.change(policy="ei", stop="target(0.2)")
    assert optimizer.policy == policies.EI()
    assert optimizer.stop == stopping.Target(0.2)


def test_a_name_decides_as_its_object_does():
    def run(**settings):
        found = minimize(lambda p: (p["x"] - 0.3) ** 2, SPACE, "7 trials", **settings)
        return [trial.params for trial in found.history]

    assert run(policy="confidence_bound") == run(policy=policies.ConfidenceBound())
    assert run(policy="confidence_bound") != run(policy="thompson")


def test_a_study_stores_the_object(tmp_path):
    url = tmp_path / "a.db"
    Study.create(url, name="a", space=SPACE, budget="$9", policy="cooling", stop="max_trials(3)")
    study = Study.open(url, "a")
    assert (study.policy, study.stop) == (policies.Cooling(), stopping.MaxTrials(3))


@pytest.mark.parametrize(
    "text",
    [
        "own_policy_of_a_test:Evil",
        "own_policy_of_a_test:Evil()",
        "own_policy_of_a_test.Evil",
        "own_policy_of_a_test.Evil()",
        "__import__('own_policy_of_a_test')",
        "start_with([__import__('own_policy_of_a_test')], then=ei)",
        "contextual(slack=open('own_policy_of_a_test.py'))",
        "(lambda: 1)()",
        "ei if 1 else ei",
        "after(" * 500 + "1" + ")" * 500,
    ],
)
@pytest.mark.parametrize("setting", ["policy", "stop", "cost"])
def test_a_text_imports_and_runs_nothing(text, setting, tmp_path, monkeypatch):
    (tmp_path / "own_policy_of_a_test.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidInput, match=f"^{setting}="):
        Optimizer(SPACE, "$9", **{setting: text})
    assert "own_policy_of_a_test" not in sys.modules

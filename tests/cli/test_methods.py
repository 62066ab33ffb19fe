"""Policies, rules and cost models by name."""

import json
import re
import sys

import pytest

from farthing import cost, policies, stopping
from farthing.cli.methods import make_method
from farthing.core.method_names import methods_in
from farthing.errors import InvalidInput


def test_the_folder_lists_the_methods():
    assert set(methods_in("policies").values()) == {
        getattr(policies, name) for name in policies.__all__
    }
    assert methods_in("stopping")["not_worth_it"] is stopping.NotWorthIt
    assert "model" not in methods_in("cost")  # the interface, not a method


@pytest.mark.parametrize(
    ("text", "folder", "expected"),
    [
        ("cooling", "policies", policies.Cooling()),
        ("contextual(slack=0.5)", "policies", policies.ContextualEI(slack=0.5)),
        ("contextual(0.5)", "policies", policies.ContextualEI(slack=0.5)),
        ("gittins(worth=None)", "policies", policies.Gittins()),
        (
            "start_with([{'x': 1}], then=cooling)",
            "policies",
            policies.StartWith([{"x": 1}], then=policies.Cooling()),
        ),
        ("max_trials(7)", "stopping", stopping.MaxTrials(7)),
        (
            "after(20, in_a_row(2, any_of(no_improvement, regret_gap(0.1))))",
            "stopping",
            stopping.after(
                20,
                stopping.in_a_row(
                    2, stopping.any_of(stopping.NoImprovement(), stopping.RegretGap(0.1))
                ),
            ),
        ),
        ("point_estimate(log_gp)", "cost", cost.PointEstimate(cost.LogGP())),
        ("farthing.policies:Cooling", "policies", policies.Cooling()),
        ("farthing.policies:ContextualEI(0.5)", "policies", policies.ContextualEI(0.5)),
    ],
)
def test_a_name_makes_its_method(text, folder, expected):
    assert make_method(text, folder, "--policy") == expected


def test_a_function_is_returned_unchanged():
    assert make_method("math:sqrt", "cost", "--cost")(9) == 3


def test_a_module_of_this_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    (tmp_path / "own_cost_list.py").write_text("def price(params): return params['n'] * 2\n")
    assert make_method("own_cost_list:price", "cost", "--cost")({"n": 3}) == 6


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("coolin", "there is no policy 'coolin'. Did you mean cooling?"),
        ("", "expected a name such as cooling"),
        ("cooling(", "expected a name such as cooling"),
        ("1 + 1", "expected a name such as cooling"),
        ("contextual(slack=open('x'))", "there is no policy 'open'"),
        ("contextual(slack=[].append)", "expected a name such as cooling"),
        (
            "contextual(slac=0.5)",
            "unexpected keyword argument 'slac'. Its signature is ContextualEI(slack=",
        ),
        ("ei(3)", "ei(3): too many positional arguments. Its signature is EI()."),
        ("builtins:max(1)", "but max is not. It was not called."),
        ("contextual(slack=2)", "must be at least 0 and less than 1"),
        ("no_such_module:X", "X cannot be imported from no_such_module"),
        ("math:no_such", "no_such cannot be imported from math"),
    ],
)
def test_an_invalid_text_is_explained(text, sentence):
    with pytest.raises(InvalidInput, match=re.escape(sentence)):
        make_method(text, "policies", "--policy")


OWN = """
from dataclasses import dataclass
from typing import ClassVar
called = []
def make(*args): called.append(args)
class Other:
    def __init__(self, *args): called.append(args)
class Rule(Other):
    needs: ClassVar = ()
    reads: ClassVar = ()
    def __call__(self, view): ...
"""


@pytest.mark.parametrize("folder", ["policies", "stopping", "cost"])
@pytest.mark.parametrize("text", ["make()", "make('touch PWNED')", "Other", "Other(3)", "called()"])
def test_only_a_class_of_the_right_kind_is_called(tmp_path, monkeypatch, folder, text):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_kinds", raising=False)
    (tmp_path / "own_kinds.py").write_text(OWN)
    with pytest.raises(InvalidInput, match="It was not called"):
        make_method(f"own_kinds:{text}", folder, "--option")
    make_method("own_kinds:Rule('x')", "stopping", "--stop")
    assert sys.modules["own_kinds"].called == [("x",)]


def test_the_list_of_policies_says_which_is_the_default(farthing):
    listed = farthing("policies").out
    assert listed.splitlines()[-1].startswith("The default is cooling(first=0.5); with --worth")
    assert all(
        row["name"] != "default" for row in json.loads(farthing("policies", "--format", "json").out)
    )

"""Parameters as text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farthing import (
    Bool,
    Categorical,
    Float,
    Int,
    Ordinal,
    Space,
    at_least,
    at_most,
    between,
)
from farthing.cli.parameters import parameter_of, parameters_of, split_parameter
from farthing.errors import InvalidInput


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ("float:1e-5:1e-1:log", Float(1e-5, 1e-1, log=True)),
        ("float:-1:1", Float(-1, 1)),
        ("int:1:16", Int(1, 16)),
        ("int:1:1024:log", Int(1, 1024, log=True)),
        ("choice:hinge,log", Categorical(["hinge", "log"])),
        (
            "choice:1,02",
            Categorical(["1", "02"]),
        ),  # unchanged, because a program receives text anyway
        ('choice:"a b",--x,"say ""hi"", please"', Categorical(["a b", "--x", 'say "hi", please'])),
        ("choice:a\nb,http://x:1", Categorical(["a\nb", "http://x:1"])),
        ("ordinal:16,32,64:log", Ordinal([16, 32, 64], log=True)),
        ("ordinal:0.5,1", Ordinal([0.5, 1.0])),
        ("ordinal:low,high", Ordinal(["low", "high"])),
        ({"type": "float", "low": 0, "high": 1, "when": {"a": "b"}}, Float(0, 1, when={"a": "b"})),
        ({"type": "choice", "values": [1, 2.5, "x"]}, Categorical([1, 2.5, "x"])),
        ({"type": "ordinal", "values": [1, 2]}, Ordinal([1, 2])),
        ("bool", Bool()),
        ("bool:when=a=x", Bool(when={"a": "x"})),
        ("int:16:512:step=16", Int(16, 512, step=16)),
        ("float:0.1:0.9:step=0.1:increases", Float(0.1, 0.9, step=0.1, cost="increases")),
        ({"type": "float", "low": 0, "high": 1, "step": 0.5}, Float(0, 1, step=0.5)),
        ({"type": "bool", "when": {"n": {"at_least": 2}}}, Bool(when={"n": at_least(2)})),
        ({"type": "bool", "when": {"n": {"at_most": 2}}}, Bool(when={"n": at_most(2)})),
        ({"type": "bool", "when": {"n": {"between": [1, 2]}}}, Bool(when={"n": between(1, 2)})),
        (
            {"type": "bool", "when": {"n": {"at_least": 1, "at_most": 2}}},
            Bool(when={"n": between(1, 2)}),
        ),
        ("choice:a,b:when=c=x,y", Categorical(["a", "b"], when={"c": ["x", "y"]})),
        ('choice:a,":when=c=x"', Categorical(["a", ":when=c=x"])),
        ("ordinal:1,2:log:when=c=x", Ordinal([1, 2], log=True, when={"c": "x"})),
    ],
)
def test_a_description_makes_its_parameter(described, expected):
    assert parameter_of("p", described) == expected


@pytest.mark.slow
@given(st.lists(st.text(), min_size=2, max_size=5, unique=True))
def test_any_text_can_be_quoted(options):
    quoted = ",".join('"' + option.replace('"', '""') + '"' for option in options)
    assert parameter_of("p", f"choice:{quoted}") == Categorical(options)


@pytest.mark.parametrize(
    ("described", "sentence"),
    [
        ("float:1", "expected a number for low and for high"),
        ("float:a:b", "expected a number for low and for high"),
        ("float:0:1:lin", "after the range, expected nothing, log, increases or decreases"),
        ("float:0:1:log:log", "after the range, expected nothing, log, increases or decreases"),
        (
            "int:1:9:increases:decreases",
            "after the range, expected nothing, log, increases or decreases",
        ),
        ("float:0:1:log", "log"),
        ("float:0:1:step=x", "expected a number for low and for high and for step"),
        ("float:0:1:step=0.1:step=0.2", "after the range, expected nothing"),
        ("int:0:9:step=4", "Use 8 or 12 for high"),
        ("int:1:9:log:step=2", "step and log exclude each other"),
        ("bool:x", "is not a kind of parameter"),
        ("float:0:1:when=layers", "a shell reads > and <"),
        ("float:0:1:when=a>=1:when=a>=2", "two conditions on a"),
        ("float:0:1:when=a=1:when=a<=2", "two conditions on a"),
        ({"type": "bool", "when": {"n": {"above": 2}}}, "is not one of {at_least = 2}"),
        ("float:1:0", "low"),
        ("int:1.5:3", "expected an integer"),
        ("real:0:1", "'real' is not a kind of parameter"),
        ("choice:", "the list is empty"),
        ("ordinal:2,1", "increase"),
        (3, "expected a string or a table"),
        ({"low": 0}, "type is None, expected one of float"),
        ({"type": "float", "low": 0}, "missing 1 required positional argument: 'high'"),
    ],
)
def test_an_invalid_description_is_explained(described, sentence):
    with pytest.raises(InvalidInput, match=re.escape(sentence)):
        parameter_of("p", described)


def test_the_values_of_conditions_have_the_types_of_their_parents():
    found = parameters_of(
        {
            "drop": "float:0:1:when=layers>=2:when=layers<=4",
            "layers": "int:1:5:when=deep=true",
            "deep": "bool",
            "gamma": "float:0:1:when=kernel=rbf,poly:when=scale>=0.5",
            "kernel": "choice:rbf,poly,linear",
            "scale": "float:0:1",
            "table": {"type": "bool", "when": {"kernel": "rbf"}},
        },
        {"old": Int(1, 2)},
    )
    assert found["drop"].when == {"layers": between(2, 4)}
    assert found["layers"].when == {"deep": True}
    assert found["gamma"].when == {"kernel": ["rbf", "poly"], "scale": at_least(0.5)}
    Space(found)  # every condition can be true
    assert parameters_of({"b": "bool:when=old=2"}, {"old": Int(1, 2)})["b"].when == {"old": 2}
    with pytest.raises(InvalidInput, match="names 'gone', but the parameters are"):
        Space(parameters_of({"b": "bool:when=gone=2"}))
    with pytest.raises(InvalidInput, match="'x' is not a number"):
        parameters_of({"b": "bool:when=n=x", "n": "int:1:2"})


@pytest.mark.parametrize("text", ["lr", "lr=", "=float:0:1", "l r=float:0:1", "{lr}=float:0:1"])
def test_a_parameter_has_a_name_and_a_description(text):
    with pytest.raises(InvalidInput, match="expected a name and a range or a list"):
        split_parameter(text)
    assert split_parameter("a=choice:x=1,y") == ("a", "choice:x=1,y")

"""Parameters as text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farthing import Categorical, Float, Int, Ordinal
from farthing.cli.parameters import parameter_of, split_parameter
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


@pytest.mark.parametrize("text", ["lr", "lr=", "=float:0:1", "l r=float:0:1", "{lr}=float:0:1"])
def test_a_parameter_has_a_name_and_a_description(text):
    with pytest.raises(InvalidInput, match="expected a name and a range or a list"):
        split_parameter(text)
    assert split_parameter("a=choice:x=1,y") == ("a", "choice:x=1,y")

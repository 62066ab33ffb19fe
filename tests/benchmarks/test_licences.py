"""The licence check reads pyproject.toml and the metadata of the installed packages."""

import sys
import tomllib
from email.message import Message

import pytest

from benchmarks.reliability import licences
from benchmarks.reliability.licences import PROJECT, dependencies, installed, licence_of, table

PLANTED = """
name = "farthing"
dependencies = ["NumPy>=1.26", "old_one>=3,<5", "gone>=1; python_version < '3'"]
[optional-dependencies]
some = ["bin.ary[speed]>=2", "absent>=1"]
more = ["farthing[some]", "bin-ary[other]>=2", "numpy>=9"]
"""


def about(version="1.0", **metadata):
    message = Message()
    message["Version"] = version
    for name, texts in metadata.items():
        for text in [texts] if isinstance(texts, str) else texts:
            message[name.replace("_", "-")] = text
    return message


HERE = {
    "numpy": about("2.4.0", License_Expression="BSD-3-Clause"),
    "old-one": about("5.0", License="UNKNOWN"),
    "bin-ary": about("2.1rc1", Classifier="License :: OSI Approved :: MIT License"),
}


def test_each_dependency_has_its_range_and_its_extras():
    found = dependencies(tomllib.loads(PLANTED), HERE.get)
    assert [(one.name, one.extras, one.allowed, one.installed) for one in found] == [
        ("numpy", (), ">=1.26", "2.4.0"),
        ("old-one", (), "<5,>=3", "5.0"),
        ("bin-ary", ("some", "more"), ">=2", "2.1rc1"),
        ("absent", ("some",), ">=1", None),
        ("numpy", ("more",), ">=9", "2.4.0"),
    ]
    licensed = ["BSD-3-Clause", None, "MIT License", None, "BSD-3-Clause"]
    assert [one.licence for one in found] == licensed
    assert [one.fault for one in found] == [
        *("", "outside its range; no licence named", "", "", "outside its range")
    ]
    assert "| absent | some | >=1 | not installed |  |  |" in table(found)
    assert "| old-one | always | <5, >=3 | 5.0 |  | outside its range; no licence named |" in (
        table(found)
    )


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ({"License_Expression": "MIT", "License": "a text"}, "MIT"),
        ({"Classifier": ["Topic :: X", "License :: OSI Approved :: BSD License"]}, "BSD License"),
        ({"Classifier": "License :: OSI Approved", "License": "Apache 2.0"}, "Apache 2.0"),
        ({"License": "\n The MIT License \nPermission is hereby"}, "The MIT License"),
        ({"License": "x" * 100}, "x" * 60),
        ({"License": "UNKNOWN"}, None),
        ({}, None),
    ],
)
def test_the_name_of_a_licence(metadata, licence):
    assert licence_of(about(**metadata)) == licence


@pytest.mark.parametrize(("version", "code"), [("1.26", 0), ("1.25", 1)])
def test_the_command_exits_with_1_if_a_package_is_wrong(
    tmp_path, monkeypatch, capsys, version, code
):
    file = tmp_path / "pyproject.toml"
    file.write_text('[project]\nname = "farthing"\ndependencies = ["numpy>=1.26"]\n')
    monkeypatch.setattr(licences, "PROJECT", file)
    monkeypatch.setattr(licences, "installed", lambda name: about(version, License="BSD"))
    monkeypatch.setattr(sys, "argv", ["licences"])
    with pytest.raises(SystemExit) as ended:
        licences.main()
    assert ended.value.code == code
    assert f"| numpy | always | >=1.26 | {version} | BSD |" in capsys.readouterr().out


def test_our_required_packages_are_installed():
    """Extras are not checked: the test environment may lack them."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    ours = [one for one in dependencies(project, installed) if not one.extras]
    assert len(ours) == len(project["dependencies"])
    assert [(one.name, one.fault) for one in ours if one.fault or one.installed is None] == []

"""Every oracle that a test names has an entry in tests/ORACLES.md, and every entry is used."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS / "ORACLES.md"
NAME = re.compile(r"(?<!\w)\[([a-z][a-z0-9]+(?:-[a-z0-9]+)+)\]")  # [log-h], not ignore[no-any]
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def named_in(source):
    """The oracles that the comments and docstrings of a file name."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts = [token.string for token in tokens if token.type == tokenize.COMMENT]
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED))
    texts += [ast.get_docstring(node) or "" for node in nodes]
    return set(NAME.findall("\n".join(texts)))


def used():
    """{oracle: the test files that name it}."""
    found = {}
    for path in sorted(TESTS.rglob("*.py")):
        if path != Path(__file__).resolve():
            for name in named_in(path.read_text(encoding="utf-8")):
                found.setdefault(name, set()).add(path.relative_to(TESTS).as_posix())
    return found


def described():
    """{oracle: the test files in its entry}."""
    entries = re.split(r"^#+ ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {}
    for entry in entries:
        name, _, text = entry.partition("\n")
        if "\nTests: " in text:
            assert name not in found, f"{name} is described twice"
            found[name] = set(re.findall(r"`([\w/]+\.py)`", text.partition("\nTests: ")[2]))
    return found


def test_a_name_is_found_in_comments_and_docstrings_only():
    source = 'def f():  # [log-h]\n    """Of [two-point-gp]."""\n    return "[no-oracle]"\n'
    assert named_in(source) == {"log-h", "two-point-gp"}
    assert named_in("x = 1  # type: ignore[no-any-return], rows[0-9]\n") == set()


@pytest.mark.slow
def test_every_oracle_is_described_and_every_description_is_used():
    found = described()
    assert len(found) > 40
    assert found == used()


def test_every_heading_is_an_oracle():
    headings = re.findall(r"^### (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(headings) == sorted(described())

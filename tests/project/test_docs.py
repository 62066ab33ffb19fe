"""The pages are correct: code runs, links, paths and names exist, every method is listed."""

import ast
import importlib
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from processes import PATIENCE

from farthing import __version__
from farthing.cli import app

REPO = Path(__file__).resolve().parents[2]
PACKAGE = REPO / "src" / "farthing"
README = REPO / "README.md"
NOTATION = REPO / "docs" / "notation.md"
PAGES = sorted([*REPO.glob("*.md"), *(REPO / "docs").rglob("*.md")])
PAGES.append(REPO / "benchmarks" / "README.md")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FILE = re.compile(
    r"(?<![\w./-])(?:tests|src|benchmarks|examples|docs)/[\w./-]+\.(?:py|sh|md|jsonl?)\b"
)
BENCHMARK = re.compile(r"-m (benchmarks[.\w]*\w)")

# Built from parts so that this file does not contain what the test searches for.
MACHINE_PATHS = [f"/{folder}/" for folder in ("work", "root", "home", "Users")]
FOLDERS = (".ci", "benchmarks", "docs", "examples", "src", "tests")


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def prose(page: str) -> str:
    """The page without its code, fenced or inline."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page))


def python_blocks(page: str) -> list[str]:
    return [code for language, code in FENCE.findall(page) if language == "python"]


def without_deadline(code: str) -> str:
    """Replace a budget of seconds by four trials: a busy machine may fit no trial into seconds."""
    return re.sub(r"(budget[= ])(\"?)\d+s\b\"?", r"\1'9m, 4 trials'", code)


def broken_links(page: str, folder: Path) -> list[str]:
    targets = [link.split("#")[0] for link in LINK.findall(prose(page)) if "://" not in link]
    return [target for target in targets if target and not (folder / target).exists()]


def missing_files(page: str) -> list[str]:
    """The files and `python -m benchmarks...` modules that a page names and that do not exist.

    A name with `my_method` is one that the reader creates.
    """
    files = [name for name in FILE.findall(page) if "my_method" not in name]
    missing = [name for name in files if not (REPO / name).exists()]
    for module in BENCHMARK.findall(page):
        path = REPO / module.replace(".", "/")
        if not path.with_suffix(".py").exists() and not (path / "__main__.py").exists():
            missing.append(module)
    return missing


def methods() -> Iterator[str]:
    """The names that the modules of policies and stopping rules export."""
    for path in sorted([*PACKAGE.glob("policies/*.py"), *PACKAGE.glob("stopping/*.py")]):
        for node in ast.parse(text(path)).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                yield from ast.literal_eval(node.value)


def notation_rows(page: str) -> Iterator[tuple[list[str], list[str]]]:
    """The names (second column) and the files (last column) of every table row."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) > 2 and (files := re.findall(r"`([\w/]+\.py)`", cells[-1])):
            yield re.findall(r"`([^`]+)`", cells[1]), files


def identifiers(code: str) -> set[str]:
    """Every name in the code, without its strings and comments."""
    fields = ("id", "attr", "arg", "name")
    nodes = list(ast.walk(ast.parse(code)))
    return {n for node in nodes for f in fields if isinstance(n := getattr(node, f, None), str)}


@pytest.mark.slow
def test_readme_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(text(README))
    assert blocks
    names = {"__name__": "__main__"}
    for block in blocks:  # in one namespace: a block may use names of the blocks above it
        exec(compile(block, "README.md", "exec"), names)


# Two pages have their own test: names below, neighbours in tests/integrations/test_page.py.
TESTED_SEPARATELY = {"names", "neighbours"}
LESSONS = sorted(
    page.stem
    for page in (REPO / "docs").glob("*.md")
    if python_blocks(text(page)) and page.stem not in TESTED_SEPARATELY
)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_the_code_of_a_lesson_runs(lesson, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["train.py"])
    names = {"__name__": "__main__"}
    for block in python_blocks(text(REPO / "docs" / f"{lesson}.md")):
        exec(compile(without_deadline(block), lesson, "exec"), names)


def test_every_block_is_in_a_language_that_a_test_checks():
    languages = {page: {each for each, _ in FENCE.findall(text(page))} for page in PAGES}
    # `text` is output and trees, `toml` a configuration. Only one page has `py`.
    assert {
        page for page, each in languages.items() if each - {"python", "sh", "text", "toml"}
    } == {REPO / "docs" / "neighbours.md"}
    assert set(LESSONS) >= {"first_study", "money", "parallel", "seeing", "stopping", "study"}


def commands(block: str) -> list[list[str]]:
    """The words of each `farthing ...` of a block, without the command of a trial."""
    lines = re.sub(r"\\\n", " ", block).splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    words += [shlex.split(each) for line in words for each in line if " farthing " in each]
    found: list[list[str]] = []
    for line in words:
        for at in (i for i, word in enumerate(line) if word == "farthing"):
            rest = [word.rstrip(";") for word in line[at + 1 :]]
            ends = [i for i, word in enumerate(line[at + 1 :]) if word in ("--", "&", "|", ";")]
            ends += [i + 1 for i, word in enumerate(line[at + 1 :]) if word.endswith(";")]
            found.append([word for word in rest[: min(ends, default=len(rest))] if word != "..."])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(REPO).as_posix())
def test_the_commands_of_a_page_are_commands(page):
    found = [
        words
        for kind, block in FENCE.findall(text(page))
        if kind == "sh"
        for words in commands(block)
    ]
    for name, *options in found:
        command = app.get_command(click.Context(app), name)
        assert command is not None, f"{page.name}: farthing {name}"
        command.make_context(name, list(options))  # raises if an option does not exist


def test_without_deadline_replaces_only_budgets_of_seconds():
    assert (
        without_deadline('minimize(f, space, budget="2s")')
        == "minimize(f, space, budget='9m, 4 trials')"
    )
    assert without_deadline("run --budget 10s --param") == "run --budget '9m, 4 trials' --param"
    kept = 'budget="$5"; budget="2h"; --budget 10m; budget="9 trials"'
    assert without_deadline(kept) == kept


@pytest.mark.slow
def test_the_first_study_from_a_shell_runs(tmp_path):
    page = text(REPO / "docs" / "first_study.md")
    (tmp_path / "train.py").write_text(python_blocks(page)[0], encoding="utf-8")
    (block,) = [code for language, code in FENCE.findall(page) if language == "sh"]
    done = subprocess.run(
        [
            "sh",
            "-e",
            "-c",
            without_deadline(block).replace("explain 7", "explain 3"),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"spent: .*4 of 4 trials", done.stdout)
    assert "because:" in done.stdout


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"[- ](\w+\.md)$", text(REPO / "mkdocs.yml"), re.MULTILINE))
    assert listed == {page.name for page in (REPO / "docs").glob("*.md")}


def test_the_pictures_of_the_methods_are_of_every_policy():
    drawn = runpy.run_path(str(REPO / "docs" / "make_methods.py"))
    policies = {n for n in methods() if hasattr(importlib.import_module("farthing.policies"), n)}
    assert set(drawn["ORDER"]) == policies
    assert text(REPO / "docs" / "methods.md") == drawn["page"](), "run python docs/make_methods.py"
    assert {file.stem for file in (REPO / "docs" / "methods").glob("*.png")} == policies


@pytest.mark.slow
def test_every_public_name_is_on_its_page_with_an_example_that_runs(tmp_path, monkeypatch):
    names = runpy.run_path(str(REPO / "docs" / "make_names.py"))
    assert set(names["EXAMPLES"]) == set(names["public_names"]())
    assert text(REPO / "docs" / "names.md") == names["page"](), "run python docs/make_names.py"
    monkeypatch.chdir(tmp_path)
    for name, code in names["EXAMPLES"].items():
        exec(compile(code, name, "exec"), {"__name__": "__main__"})


def test_readme_names_the_commands_and_the_makefile_has_them():
    makefile = text(REPO / "Makefile")
    for command in ("make demo", "make test"):
        assert command in text(README)
    for target in re.findall(
        r"\bmake ([a-z-]+)\b", " ".join(re.findall(r"`([^`]+)`", text(README)))
    ):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"README: no `make {target}`"


def test_every_method_is_documented():
    pages = [README, NOTATION, *(REPO / "docs").glob("methods.md")]
    documented = " ".join(text(page) for page in pages)
    assert [name for name in methods() if not re.search(rf"\b{name}\b", documented)] == []


@pytest.mark.slow
def test_notation_names_exist():
    rows = list(notation_rows(text(NOTATION)))
    assert len(rows) > 20
    missing = []
    for names, files in rows:
        known = set()
        for file in files:
            if not (PACKAGE / file).exists():
                missing.append(file)
                continue
            known |= identifiers(text(PACKAGE / file))
        missing += [f"{n} in {files}" for n in names if not identifiers(n) <= known]
    assert missing == []


def test_changelog_has_this_version():
    heading = rf"^## \[{re.escape(__version__)}\].*\n+### \w+\n+- \S"
    assert re.search(heading, text(REPO / "CHANGELOG.md"), re.MULTILINE)


def test_the_citation_has_this_version():
    assert f"\nversion: {__version__}\n" in text(REPO / "CITATION.cff")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(REPO).as_posix())
def test_links_lead_somewhere(page):
    assert broken_links(text(page), page.parent) == []


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "CHANGELOG.md"],  # it names files of old versions
    ids=lambda path: path.relative_to(REPO).as_posix(),
)
def test_the_files_and_benchmarks_that_a_page_names_exist(page):
    assert missing_files(text(page)) == []


def test_no_file_contains_a_path_of_the_machine_it_was_written_on():
    # Not with `git ls-files`: the machine may have no git. `make demo` leaves its study here.
    files = [path for path in REPO.iterdir() if path.is_file()]
    files = [path for path in files if not path.name.startswith("farthing-demo.")]
    files += [path for folder in FOLDERS for path in (REPO / folder).rglob("*") if path.is_file()]
    found = {
        path.relative_to(REPO).as_posix(): mark
        for path in files
        if "__pycache__" not in path.parts
        for mark in MACHINE_PATHS
        if mark.encode() in path.read_bytes()
    }
    assert found == {}


def test_the_parsers_of_this_file_find_planted_errors(tmp_path):
    (tmp_path / "here.md").touch()
    page = "[a](here.md#top) [b](gone.md) [c](https://x.org/y.md) `[d](code.md)` ![e](gone.png)\n"
    assert broken_links(page, tmp_path) == ["gone.md", "gone.png"]
    assert python_blocks("```python\nx = 1\n```\n```sh\nls\n```\n") == ["x = 1\n"]
    assert list(notation_rows("| u | `a`, `b.c` | (m,) | `gp.py` |")) == [(["a", "b.c"], ["gp.py"])]
    assert commands(
        "farthing a; farthing b --c \\\n 1 -- x &\nsh 'exec farthing d'  # farthing e\n"
    ) == [
        ["a"],
        ["b", "--c", "1"],
        ["d"],
    ]
    assert identifiers("def f(x): return x.y + z") == {"f", "x", "y", "z"}
    page = "`tests/project/test_docs.py::test_x`, `src/farthing/gone.py`, tests/gone.py. tests/gone"
    assert missing_files(page) == ["src/farthing/gone.py", "tests/gone.py"]
    page = (
        "`python -m benchmarks.speed` `-m benchmarks.gone --x`, python3 -m benchmarks.speed.gone."
    )
    assert missing_files(page) == ["benchmarks.gone", "benchmarks.speed.gone"]

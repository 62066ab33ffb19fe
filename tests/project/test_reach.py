"""No pickle, eval, exec, shell or import is reached from what a database holds, but by `--trust`.

What is stored is read by the rooms that `farthing.storage` imports, and theirs: their imports and
calls are walked. The one way to import what a database names is `settings_text._import`, whose
callers are listed here; `tests/test_looking.py` shows what they let pass. In the rest of the house
the same words stand in a few known places, which are listed as well.
"""

import ast
from collections.abc import Iterator
from functools import cache

import pytest
from module_tree import MODULES, Module, file_of

RUNS_CODE = {
    *("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"),
    *("subprocess", "multiprocessing", "pty", "runpy", "code", "codeop", "ctypes", "cffi"),
    *("importlib", "pkgutil", "imp", "yaml", "xmlrpc", "concurrent"),
}
CALLS_CODE = {
    *("eval", "exec", "compile", "__import__", "import_module", "exec_module", "load_module"),
    *("system", "popen", "startfile", "load_extension", "enable_load_extension", "breakpoint"),
    *("execv", "execve", "execvp", "execvpe", "execl", "execle", "execlp", "posix_spawn"),
    *("posix_spawnp", "spawnv", "spawnve", "spawnl", "fork", "forkpty", "Popen", "check_output"),
}
IMPORTER = "farthing.storage.settings_text"
# Who calls whom on the way to an import of what a database names.
WAY = {
    "_import": {"_find"},
    "_find": {"_is_importable", "restore"},  # a name given here; below
    "restore": {"restore", "_part", "_restore_space"},  # behind `external_in`, or --trust
}
# Where else in the house code is run: never by a name that a database holds.
ELSEWHERE = {
    "farthing.running.function": {"pickle", "importlib", "cloudpickle", "import_module", "execve"},
    "farthing.running.command": {"execve"},  # the command that is tuned, without a shell
    "farthing.running.supervisor": {"ctypes", "fork"},  # prctl; the evaluation
    "farthing.running.pipes": {"fork"},  # the supervisor process
    "farthing.running.child": {"fork"},
    "farthing.dashboard.watcher": {"concurrent"},  # threads that look
    "farthing.running.pool": {"multiprocessing"},  # workers
    "farthing.running.process_pool": {"multiprocessing"},
    "farthing.running.thread_pool": {"multiprocessing"},  # connections only
    "farthing.running.signals": {"multiprocessing"},  # connections only
    "farthing.cli.methods": {"importlib", "pkgutil", "import_module"},  # what is typed there
    "farthing.view.report.page": {"importlib"},  # importlib.resources: our own style sheet
    "farthing.dashboard.app": {"importlib"},
}


@cache
def reached(start: str) -> frozenset[str]:
    """The modules of ours that are imported by one room, and by those."""
    found, new = set(), {name for name in MODULES if f"{name}.".startswith(f"{start}.")}
    while new:
        found |= new
        targets = {t for name in new for t in MODULES[name].imports()}
        ours = {file_of(t) for t in targets if t.split(".")[0] == "farthing"}
        packages = {name.rpartition(".")[0] for name in ours if "." in name}
        new = ((ours | packages) & MODULES.keys()) - found - {"farthing"}
    return frozenset(found)


def words_in(module: Module) -> Iterator[str]:
    """What it imports and calls that can run code."""
    for target in module.imports():
        if (name := target.split(".")[0]) in RUNS_CODE:
            yield name
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).split(".")[-1]
        on_a_thing = isinstance(node.func, ast.Attribute)
        if name == "compile" and on_a_thing:  # re.compile, a query's compile
            continue
        if name in CALLS_CODE:
            yield name
        if any(key.arg in ("shell", "allow_pickle") for key in node.keywords):
            yield ast.unparse(node)


def test_the_walk_goes_far():
    found = reached("farthing.storage")
    assert {"farthing.storage.rows", "farthing.core.state", "farthing.core.settings"} <= found
    assert {"farthing.policies.gittins", "farthing.cost.known", "farthing.space"} <= found
    assert not {MODULES[name].layer for name in found} & {"study", "cli", "running"}


def test_nothing_that_reads_a_database_runs_code():
    words = {name: set(words_in(MODULES[name])) for name in reached("farthing.storage")}
    assert {name: found for name, found in words.items() if found} == {
        IMPORTER: {"importlib", "import_module"}
    }


def test_the_one_import_is_behind_trust():
    module = MODULES[IMPORTER]
    callers: dict[str, set[str]] = {name: set() for name in WAY}
    for function in (n for n in ast.walk(module.tree) if isinstance(n, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in WAY:
                callers[node.id].add(function.name)
    assert callers == WAY
    assert not set(WAY) & set(module.exports())
    assert [ast.unparse(c) for c in module.calls("import_module")] == [
        "importlib.import_module(module)"
    ]
    private = {f"{IMPORTER}.{name}" for name in WAY}
    assert not [m.name for m in MODULES.values() if private & set(m.imports())]


def test_the_rest_of_the_house_runs_code_in_known_places_only():
    people = {
        name: set(words_in(module))
        for name, module in MODULES.items()
        if name not in reached("farthing.storage") and module.layer != "integrations"
    }
    assert {name: found for name, found in people.items() if found} == ELSEWHERE


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "def f():\n    import importlib",
        "x = eval(text)",
        "exec(text)",
        "import os\nos.system(text)",
        "subprocess.run(text, shell=True)",
        "np.load(file, allow_pickle=True)",
        "connection.enable_load_extension(True)",
        "compile(text, 'x', 'exec')",
    ],
)
def test_what_is_planted_is_seen(source):
    assert list(words_in(Module("farthing.storage.planted", source)))


@pytest.mark.parametrize("source", ["import json\njson.loads(text)", "re.compile(text)"])
def test_what_is_harmless_passes(source):
    assert not list(words_in(Module("farthing.storage.planted", source)))

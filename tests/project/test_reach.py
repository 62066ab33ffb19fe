"""Without `--trust`, the content of a database reaches no pickle, eval, exec, shell or import.

`farthing.storage` and the modules that it imports, directly or indirectly, read a database. The
tests check their imports and calls. Only `settings_text._import` can import what a database names.
Its callers are listed here, and `tests/storage/test_untrusted_databases.py` shows what they allow.
The rest of the package runs code in a few known places, which are listed as well.
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
# The callers of each function on the way to an import of what a database names.
CALLERS = {
    "_import": {"_find"},
    "_find": {"_is_importable", "restore"},  # a name that the user gave; restore: see below
    "restore": {"restore", "_part", "_restore_space"},  # only after `external_in` or with --trust
}
# The other modules that run code, but never by a name from a database.
KNOWN_PLACES = {
    "farthing.running.function": {"pickle", "importlib", "cloudpickle", "import_module", "execve"},
    "farthing.running.command": {"execve"},  # the command that is tuned, without a shell
    "farthing.running.supervisor": {"fork"},  # the evaluation
    "farthing.running.pipes": {"ctypes", "fork"},  # tee; the supervisor process
    "farthing.running.survivors": {"ctypes"},  # prctl
    "farthing.running.child": {"fork"},
    "farthing.dashboard.watcher": {"concurrent"},  # threads that read
    "farthing.running.pool": {"multiprocessing"},  # workers
    "farthing.running.process_pool": {"multiprocessing"},
    "farthing.running.thread_pool": {"multiprocessing"},  # connections only
    "farthing.running.signals": {"multiprocessing"},  # connections only
    "farthing.cli.methods": {"importlib", "import_module"},  # what the user typed
    "farthing.view.result": {"pickle"},  # dumps only: what may be pickled
    "farthing.view.report.page": {"importlib"},  # importlib.resources: our own style sheet
    "farthing.view.web.assets": {"importlib"},  # the same: our own scripts
}


@cache
def reached(start: str) -> frozenset[str]:
    """The modules of Farthing that a module or folder imports, directly or indirectly."""
    found, new = set(), {name for name in MODULES if f"{name}.".startswith(f"{start}.")}
    while new:
        found |= new
        targets = {t for name in new for t in MODULES[name].imports()}
        ours = {file_of(t) for t in targets if t.split(".")[0] == "farthing"}
        packages = {name.rpartition(".")[0] for name in ours if "." in name}
        new = ((ours | packages) & MODULES.keys()) - found - {"farthing"}
    return frozenset(found)


def words_in(module: Module) -> Iterator[str]:
    """The imports and calls of a module that can run code."""
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


def test_reached_follows_indirect_imports():
    found = reached("farthing.storage")
    assert {"farthing.storage.rows", "farthing.core.state", "farthing.core.settings"} <= found
    assert {"farthing.policies.gittins", "farthing.cost.known", "farthing.space"} <= found
    assert not {MODULES[name].layer for name in found} & {"study", "cli", "running"}


def test_nothing_that_reads_a_database_runs_code():
    words = {name: set(words_in(MODULES[name])) for name in reached("farthing.storage")}
    assert {name: found for name, found in words.items() if found} == {
        IMPORTER: {"importlib", "import_module"}
    }


@pytest.mark.slow
def test_the_one_import_is_behind_trust():
    module = MODULES[IMPORTER]
    callers: dict[str, set[str]] = {name: set() for name in CALLERS}
    for function in (n for n in ast.walk(module.tree) if isinstance(n, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in CALLERS:
                callers[node.id].add(function.name)
    assert callers == CALLERS
    assert not set(CALLERS) & set(module.exports())
    assert [ast.unparse(c) for c in module.calls("import_module")] == [
        "importlib.import_module(module)"
    ]
    private = {f"{IMPORTER}.{name}" for name in CALLERS}
    assert not [m.name for m in MODULES.values() if private & set(m.imports())]


def test_the_rest_of_the_package_runs_code_in_known_places_only():
    words = {
        name: set(words_in(module))
        for name, module in MODULES.items()
        if name not in reached("farthing.storage") and module.layer != "integrations"
    }
    assert {name: found for name, found in words.items() if found} == KNOWN_PLACES


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
def test_code_that_can_run_code_is_found(source):
    assert list(words_in(Module("farthing.storage.planted", source)))


@pytest.mark.parametrize("source", ["import json\njson.loads(text)", "re.compile(text)"])
def test_harmless_code_passes(source):
    assert not list(words_in(Module("farthing.storage.planted", source)))

"""The architecture: which layer may import which, what numerics may touch, what must not exist.

Each check takes one module of the package and returns the sentences of what is wrong with it. Every
check is also shown something planted that it must see.
"""

import ast
import builtins
import graphlib
import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import packages_distributions

import pytest
from module_tree import LAYERS, MODULES, PACKAGE, REPO, Module, file_of, last_name

# Down to `stopping` there is no clock, disk, process, screen or global randomness.
NUMERICS = LAYERS[: LAYERS.index("stopping") + 1]
MAX_ROOT_MODULES = 10

ONE_METHOD_A_FILE = ("policies", "stopping")
NO_METHODS = ("farthing.stopping.combine", "farthing.cost.calibration", "farthing.cost.part")
FOLDERS_THAT_ARE_LISTS = ("cost", *ONE_METHOD_A_FILE)

PURE_LIBRARIES = {"farthing", "numpy", "scipy"}
PURE_STANDARD_LIBRARY = {
    "__future__",
    "abc",
    "bisect",
    "collections",
    "contextlib",
    "copy",
    "html",
    "dataclasses",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "inspect",
    "itertools",
    "json",
    "math",
    "numbers",
    "operator",
    "re",
    "string",
    "textwrap",
    "types",
    "typing",
    "warnings",
    "zlib",
}
IMPURE_BUILTINS = {"breakpoint", "eval", "exec", "input", "open", "print"}
RANDOM_WITH_A_SEED = {"BitGenerator", "Generator", "PCG64", "SeedSequence", "default_rng"}
# numpy.f2py, which scipy loads, takes charset_normalizer where it finds it.
LOADED_BY_IMPORT = {"farthing", "numpy", "scipy", "threadpoolctl", "charset_normalizer"}  # by f2py
NAMES_THAT_SAY_NOTHING = ("utils.py", "helpers.py", "base.py")
MAX_LINES = 500  # a longer file usually holds more than one concept


def layer_of(target: str) -> str:
    """The layer of a dotted `farthing...` name; a public name comes from the package itself."""
    inside = target.split(".")[1:2]
    return inside[0] if inside and inside[0] in LAYERS else "__init__"


FOLDERS = [name for name in FOLDERS_THAT_ARE_LISTS if f"farthing.{name}" in MODULES]
METHODS = {"Policy", "StoppingRule"} | {
    name
    for module in MODULES.values()
    if module.layer in ONE_METHOD_A_FILE and not module.is_package
    for name in module.exports()
}


# -- checks on one module ---------------------------------------------------------------------


def is_in_a_known_layer(module: Module) -> list[str]:
    if module.layer in LAYERS:
        return []
    return [f"{module.layer!r} is new: give it a place in the tree of docs/architecture.md"]


def imports_only_layers_above(module: Module) -> list[str]:
    if module.layer not in LAYERS:
        return []
    above = LAYERS[: LAYERS.index(module.layer)]
    siblings = (
        (module.layer,) if f"farthing.{module.layer}" != module.name or module.is_package else ()
    )
    return [
        f"{module.name} imports {target}, but {layer_of(target)!r} is not above {module.layer!r}"
        for target in module.imports()
        if target.split(".")[0] == "farthing" and layer_of(target) not in (*above, *siblings)
    ]


def numerics_are_pure(module: Module) -> list[str]:
    if module.layer not in NUMERICS:
        return []
    strangers = {target.split(".")[0] for target in module.imports()}
    strangers -= PURE_LIBRARIES | PURE_STANDARD_LIBRARY
    globals_ = [node for node in ast.walk(module.tree) if isinstance(node, ast.Global)]
    return [
        *(f"numerics import {name}: pass what it gives as an argument" for name in strangers),
        *(f"numerics call {ast.unparse(call)}" for call in module.calls(*IMPURE_BUILTINS)),
        *(f"numerics change global state: {ast.unparse(node)}" for node in globals_),
    ]


def numerics_only_minimise(module: Module) -> list[str]:
    if module.layer not in NUMERICS:
        return []
    return [
        f"{node.arg!r} is an argument in line {node.lineno}: only the public API flips the sign"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.arg) and node.arg in ("maximize", "maximise")
    ]


def randomness_is_seeded(module: Module) -> list[str]:
    imported = set(module.imports())
    used = {ast.unparse(node) for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}
    drawn = {
        parts[2].split("(")[0]
        for parts in (name.split(".") for name in imported | used)
        if len(parts) > 2 and parts[0] in ("np", "numpy") and parts[1] == "random"
    }
    standard = {name for name in imported if name.split(".")[0] == "random"}
    unseeded = [call for call in module.calls("default_rng") if not call.args + call.keywords]
    return [
        *(f"numpy.random.{name} draws from global state" for name in drawn - RANDOM_WITH_A_SEED),
        *(f"{name} of the standard library draws from global state" for name in standard),
        *("default_rng() without a seed" for _ in unseeded),
    ]


def has_a_docstring(module: Module) -> list[str]:
    return [] if ast.get_docstring(module.tree) else [f"{module.name} has no module docstring"]


def is_short(module: Module) -> list[str]:
    lines = len(module.source.splitlines())
    if lines <= MAX_LINES:
        return []
    return [f"{module.name} has {lines} lines, at most {MAX_LINES}: it is more than one concept"]


def calls_no_super(module: Module) -> list[str]:
    return ["super(): wrap instead of inheriting" for _ in module.calls("super")]


def asks_no_policy_what_it_is(module: Module) -> list[str]:
    def asks(call: ast.Call) -> bool:
        thing, kinds = call.args
        names = {last_name(node) for node in ast.walk(kinds) if isinstance(node, ast.expr)}
        return last_name(thing) in ("policy", "rule") or bool(names & METHODS)

    calls = module.calls("isinstance", "issubclass")
    return [f"{ast.unparse(call)}: extend the protocol instead" for call in calls if asks(call)]


def exceptions_live_in_errors(module: Module) -> list[str]:
    if module.layer == "errors":
        return []
    ours = {node.name for node in MODULES["farthing.errors"].classes()}

    def is_exception(name: str) -> bool:
        kind = getattr(builtins, name, None)
        return name in ours or (isinstance(kind, type) and issubclass(kind, BaseException))

    return [
        f"{node.name} is an exception: define it in errors.py"
        for node in module.classes()
        if any(is_exception(last_name(parent)) for parent in node.bases)
    ]


def exports_one_class(module: Module) -> list[str]:
    if module.layer not in FOLDERS_THAT_ARE_LISTS or module.is_package or module.name in NO_METHODS:
        return []
    names = module.exports()
    if module.layer not in ONE_METHOD_A_FILE:
        return [] if names else [f"{module.name} has no __all__"]
    defined = [node.name for node in module.tree.body if isinstance(node, ast.ClassDef)]
    if len(names) == 1 and names[0] in defined:
        return []
    return [f"{module.name}: __all__ is {names}, expected the one class this file is about"]


CHECKS: list[Callable[[Module], list[str]]] = [
    is_in_a_known_layer,
    imports_only_layers_above,
    numerics_are_pure,
    numerics_only_minimise,
    randomness_is_seeded,
    has_a_docstring,
    is_short,
    calls_no_super,
    asks_no_policy_what_it_is,
    exceptions_live_in_errors,
    exports_one_class,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", MODULES)
def test_module(name, check):
    assert check(MODULES[name]) == []


@pytest.mark.parametrize(
    ("check", "name", "source"),
    [
        (is_in_a_known_layer, "farthing.attic", ""),
        (imports_only_layers_above, "farthing.space", "from farthing.models.gp import GP"),
        (imports_only_layers_above, "farthing.space", "import farthing.models.gp"),
        (imports_only_layers_above, "farthing.space", "from farthing import gp"),
        (imports_only_layers_above, "farthing.space", "from . import gp"),
        (imports_only_layers_above, "farthing.space", "from .gp import GP"),
        (
            imports_only_layers_above,
            "farthing.models.gp",
            "def fit():\n    import farthing.acquisition.belief",
        ),
        (imports_only_layers_above, "farthing.models.gp", "from farthing import Space"),
        (imports_only_layers_above, "farthing.models.gp", "import farthing"),
        (imports_only_layers_above, "farthing.policies.ei", "from farthing.stopping import Target"),
        (imports_only_layers_above, "farthing.policies.ei", "from ..optimizer import Optimizer"),
        (imports_only_layers_above, "farthing.storage.rows", "from farthing.optimizer import x"),
        (numerics_are_pure, "farthing.models.gp", "import time"),
        (numerics_are_pure, "farthing.models.gp", "from os import path"),
        (numerics_are_pure, "farthing.models.gp", "import threadpoolctl"),
        (numerics_are_pure, "farthing.policies.ei", "def propose():\n    print(1)"),
        (numerics_are_pure, "farthing.stopping.target", "def stop():\n    global seen"),
        (
            numerics_only_minimise,
            "farthing.acquisition.search",
            "def search(score, *, maximize=True): ...",
        ),
        (randomness_is_seeded, "farthing.study", "np.random.seed(0)"),
        (randomness_is_seeded, "farthing.study", "import numpy\nx = numpy.random.uniform()"),
        (randomness_is_seeded, "farthing.study", "from numpy.random import RandomState"),
        (randomness_is_seeded, "farthing.study", "rng = np.random.default_rng()"),
        (randomness_is_seeded, "farthing.study", "from random import choice"),
        (has_a_docstring, "farthing.models.gp", "x = 1"),
        (is_short, "farthing.models.gp", "\n" * (MAX_LINES + 1)),
        (calls_no_super, "farthing.models.gp", "class A:\n    def f(self):\n        super().f()"),
        (asks_no_policy_what_it_is, "farthing.optimizer", "isinstance(policy, object)"),
        (asks_no_policy_what_it_is, "farthing.optimizer", "isinstance(self.policy, EI)"),
        (asks_no_policy_what_it_is, "farthing.optimizer", "isinstance(x, (int, decision.Policy))"),
        (exceptions_live_in_errors, "farthing.models.gp", "class NotPositive(ValueError): ..."),
        (exceptions_live_in_errors, "farthing.models.gp", "class Bad(errors.InvalidInput): ..."),
        (exports_one_class, "farthing.policies.ei", "class EI: ..."),
        (exports_one_class, "farthing.policies.ei", "__all__ = ['ei']\ndef ei(): ..."),
        (
            exports_one_class,
            "farthing.policies.ei",
            "__all__ = ['A', 'B']\nclass A: ...\nclass B: ...",
        ),
        (exports_one_class, "farthing.cost.known", "class Known: ..."),
    ],
)
def test_check_sees_what_is_planted(check, name, source):
    assert check(Module(name, source))


@pytest.mark.parametrize(
    ("check", "name", "source"),
    [
        (imports_only_layers_above, "farthing.policies.carbo", "from .cooling import Cooling"),
        (
            imports_only_layers_above,
            "farthing.policies.carbo",
            "from ..acquisition.belief import Belief",
        ),
        (
            imports_only_layers_above,
            "farthing.optimizer",
            "from farthing import policies, stopping",
        ),
        (
            numerics_are_pure,
            "farthing.models.gp",
            "import math\nfrom scipy.linalg import cho_solve",
        ),
        (numerics_are_pure, "farthing.running.worker", "import time"),
        (randomness_is_seeded, "farthing.study", "rng = np.random.default_rng([seed, 3])"),
        (randomness_is_seeded, "farthing.study", "def draw(rng: np.random.Generator): ..."),
        (asks_no_policy_what_it_is, "farthing.optimizer", "isinstance(stop, (list, tuple))"),
        (exports_one_class, "farthing.policies.ei", "__all__ = ['EI']\nclass EI: ..."),
    ],
)
def test_check_lets_good_code_pass(check, name, source):
    assert check(Module(name, source)) == []


# -- checks on the whole package ---------------------------------------------------------------


def test_the_tree_of_the_page_is_the_tree_of_the_package():
    there = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert set(LAYERS) == there
    assert len(LAYERS) == len(set(LAYERS))


def test_the_package_shows_few_modules():
    assert len(list(PACKAGE.glob("*.py"))) <= MAX_ROOT_MODULES


def test_no_two_files_import_each_other():
    graph = {
        module.name: {file_of(t) for t in module.imports() if t.split(".")[0] == "farthing"}
        - {module.name}
        for module in MODULES.values()
    }
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which shows the cycle


def test_the_folders_are_the_lists():
    for folder in FOLDERS:
        package = MODULES[f"farthing.{folder}"]
        files = [m for m in MODULES.values() if m.layer == folder and not m.is_package]
        files = [m for m in files if m.name not in NO_METHODS]
        names = [f"{module.name}.{name}" for module in files for name in module.exports()]
        assert set(names) <= set(package.imports())
        assert {name.split(".")[-1] for name in names} <= set(package.exports())


@pytest.mark.slow
def test_class_trees_are_at_most_one_deep():
    parents = {
        node.name: [last_name(parent) for parent in node.bases]
        for module in MODULES.values()
        if module.layer != "errors"
        for node in module.classes()
    }
    ours = {name: [p for p in bases if p in parents] for name, bases in parents.items()}
    deep = [name for name, bases in ours.items() if len(bases) > 1 or any(ours[p] for p in bases)]
    assert deep == []


def test_no_file_is_named_after_nothing():
    folders = ("src", "tests", "benchmarks", "examples")
    found = [p for folder in folders for p in (REPO / folder).rglob("*.py")]
    assert [p.name for p in found if p.name in NAMES_THAT_SAY_NOTHING] == []


@pytest.mark.slow
def test_import_loads_only_what_it_needs():
    code = (
        "import json, sys; before = set(sys.modules); import farthing;"
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before})))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(out.stdout))
    assert "farthing" in loaded
    assert loaded & packages_distributions().keys() <= LOADED_BY_IMPORT
    assert not loaded & {"sklearn", "pandas", "matplotlib", "rich", "click", "sqlalchemy"}

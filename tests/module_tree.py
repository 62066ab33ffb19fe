"""The modules of the package as syntax trees, and the layers of docs/architecture.md."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
PACKAGE = REPO / "src" / "farthing"
TREE = re.compile(r"^  ([a-z]+)(/?) {2,}\S", re.M)  # an entry of the tree of docs/architecture.md


def layers() -> list[str]:
    """Modules and folders of the package in the order of the tree, `__init__` last."""
    page = (REPO / "docs" / "architecture.md").read_text("utf-8")
    tree = page.split("```text")[1].split("```")[0]
    return [*(name for name, _ in TREE.findall(tree)), "__init__"]


LAYERS = layers()


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name, its text, its syntax tree."""

    name: str
    source: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @property
    def layer(self) -> str:
        """The module or folder of the package that it is, or is in."""
        _, *inside = self.name.split(".")
        return inside[0] if inside else "__init__"

    def imports(self) -> Iterator[str]:
        """Dotted names of everything imported, wherever in the file, relative ones resolved."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                here = self.name.split(".")
                keep = len(here) - node.level + self.is_package
                parts = here[:keep] if node.level else []
                parts += node.module.split(".") if node.module else []
                yield from (".".join([*parts, alias.name]) for alias in node.names)

    def exports(self) -> list[str]:
        """The names in `__all__`."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                return list(ast.literal_eval(node.value))
        return []

    def classes(self) -> list[ast.ClassDef]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]

    def calls(self, *names: str) -> Iterator[ast.Call]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and last_name(node.func) in names:
                yield node


def last_name(node: ast.expr) -> str:
    """`policy` of `policy` and of `self.policy`; `Protocol` of `typing.Protocol[T]`."""
    return ast.unparse(node).split("[")[0].split(".")[-1]


def read(path: Path) -> Module:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    return Module(name, path.read_text(encoding="utf-8"), is_package)


MODULES = {module.name: module for module in map(read, sorted(PACKAGE.rglob("*.py")))}


def file_of(target: str) -> str:
    """The longest prefix of a dotted name that is a module of ours."""
    while target not in MODULES:
        target = target.rpartition(".")[0]
    return target

"""Our dependencies: the versions that pyproject.toml allows, the installed version, the licence.

`python -m benchmarks.reliability.licences` exits with 1 if a package is outside its range or names
no licence. A package that is not installed is listed, but not checked.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
COLUMNS = ("package", "for", "allowed", "installed", "licence", "")
LONGEST = 60  # characters; a longer field is the text of a licence, not its name
NO_NAME = ("", "UNKNOWN")

Find = Callable[[str], Message | None]


class Dependency(NamedTuple):
    """One of our requirements and the installed package.

    Attributes:
        name: of the package.
        extras: the extras that need it; none: it is always needed.
        allowed: the allowed versions.
        installed: the installed version; None: not installed.
        licence: its name; None: the package names none.
        inside: whether the installed version is allowed.
    """

    name: str
    extras: tuple[str, ...]
    allowed: str
    installed: str | None
    licence: str | None
    inside: bool

    @property
    def fault(self) -> str:
        """What is wrong; empty if it is not installed."""
        if self.installed is None:
            return ""
        return "; ".join(
            words
            for words, wrong in (
                ("outside its range", not self.inside),
                ("no licence named", self.licence is None),
            )
            if wrong
        )


def required(project: Mapping[str, Any]) -> Iterator[tuple[Requirement, str]]:
    """Every requirement that applies to this machine, and its extra.

    Extras that refer to other extras of ours are left out: those are listed themselves.
    """
    groups = {"": project["dependencies"], **project.get("optional-dependencies", {})}
    for extra, lines in groups.items():
        for line in lines:
            requirement = Requirement(line)
            ours = canonicalize_name(requirement.name) == canonicalize_name(project["name"])
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
            if applies and not ours:
                yield requirement, extra


def dependencies(project: Mapping[str, Any], find: Find) -> list[Dependency]:
    """One for each package and range."""
    found: dict[tuple[str, str], list[str]] = {}
    for requirement, extra in required(project):
        key = canonicalize_name(requirement.name), str(requirement.specifier)
        found.setdefault(key, []).append(extra)
    return [_looked_up(*key, tuple(filter(None, extras)), find) for key, extras in found.items()]


def _looked_up(name: str, allowed: str, extras: tuple[str, ...], find: Find) -> Dependency:
    found = find(name)
    if found is None:
        return Dependency(name, extras, allowed, None, None, inside=False)
    version = str(found["Version"])
    inside = Requirement(name + allowed).specifier.contains(version, prereleases=True)
    return Dependency(name, extras, allowed, version, licence_of(found), inside)


def licence_of(about: Message) -> str | None:
    """The name of a package's licence: the expression, the classifiers, or the field."""
    if expression := str(about.get("License-Expression", "")).strip():
        return expression
    classified = [
        text.rpartition(" :: ")[2]
        for text in map(str, about.get_all("Classifier", []))
        if text.startswith("License :: ") and text != "License :: OSI Approved"
    ]
    if classified:
        return ", ".join(classified)
    first = next(iter(str(about.get("License", "")).strip().splitlines()), "").strip()
    return None if first in NO_NAME else first[:LONGEST]


def installed(name: str) -> Message | None:
    """The metadata of an installed package."""
    try:
        return metadata(name)  # type: ignore[return-value]
    except PackageNotFoundError:
        return None


def table(all_of: list[Dependency]) -> list[str]:
    """Lines of Markdown."""
    rows = [
        (
            *(one.name, ", ".join(one.extras) or "always", one.allowed.replace(",", ", ")),
            *(one.installed or "not installed", one.licence or "", one.fault),
        )
        for one in all_of
    ]
    return [f"| {' | '.join(row)} |" for row in (COLUMNS, ["---"] * len(COLUMNS), *rows)]


def main() -> None:
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    found = dependencies(project, installed)
    print("\n".join(table(found)))
    sys.exit(1 if any(one.fault for one in found) else 0)


if __name__ == "__main__":
    main()

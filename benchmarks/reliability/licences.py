"""What we depend on: the range that pyproject.toml allows, what is installed, under which licence.

`python -m benchmarks.reliability.licences` ends with 1 if something is outside of its range, or names no
licence. What is not installed is said to be so, and is not judged.
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
LONGEST = 60  # characters: what is longer is the text of a licence, not its name
SAYS_NOTHING = ("", "UNKNOWN")

Find = Callable[[str], Message | None]


class Dependency(NamedTuple):
    """One requirement of ours, and what was found of it.

    Attributes:
        name: of the package.
        extras: those that ask for it; none: it is always needed.
        allowed: its versions.
        installed: the version that is here; None: it is not.
        licence: its name; None: it has none.
        inside: whether the version is one of those allowed.
    """

    name: str
    extras: tuple[str, ...]
    allowed: str
    installed: str | None
    licence: str | None
    inside: bool

    @property
    def fault(self) -> str:
        """What is wrong with it; nothing of what is not installed."""
        if self.installed is None:
            return ""
        return "; ".join(
            words
            for words, wrong in (
                ("outside of its range", not self.inside),
                ("no licence named", self.licence is None),
            )
            if wrong
        )


def required(project: Mapping[str, Any]) -> Iterator[tuple[Requirement, str]]:
    """Every requirement that counts on this machine, and the extra that has it.

    An extra that names others of our own has what those have, which are listed themselves.
    """
    groups = {"": project["dependencies"], **project.get("optional-dependencies", {})}
    for extra, lines in groups.items():
        for line in lines:
            requirement = Requirement(line)
            ours = canonicalize_name(requirement.name) == canonicalize_name(project["name"])
            counts = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
            if counts and not ours:
                yield requirement, extra


def dependencies(project: Mapping[str, Any], find: Find) -> list[Dependency]:
    """One for each package and range."""
    asked: dict[tuple[str, str], list[str]] = {}
    for requirement, extra in required(project):
        key = canonicalize_name(requirement.name), str(requirement.specifier)
        asked.setdefault(key, []).append(extra)
    return [_looked_up(*key, tuple(filter(None, extras)), find) for key, extras in asked.items()]


def _looked_up(name: str, allowed: str, extras: tuple[str, ...], find: Find) -> Dependency:
    found = find(name)
    if found is None:
        return Dependency(name, extras, allowed, None, None, inside=False)
    version = str(found["Version"])
    inside = Requirement(name + allowed).specifier.contains(version, prereleases=True)
    return Dependency(name, extras, allowed, version, licence_of(found), inside)


def licence_of(about: Message) -> str | None:
    """The name that a package gives its licence: the expression, the classifiers, or the field."""
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
    return None if first in SAYS_NOTHING else first[:LONGEST]


def installed(name: str) -> Message | None:
    """What a package of this environment says of itself."""
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

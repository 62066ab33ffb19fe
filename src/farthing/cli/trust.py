"""Which user code a study may import: the decisions of --trust, kept outside of any database."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farthing.errors import InvalidInput

if TYPE_CHECKING:
    from farthing.study import Study

__all__ = ["check_trust"]

FILE = "trusted.json"  # {key of the trusted code: the folder in which --trust was given}


def check_trust(study: Study, url: str, trust: bool) -> None:
    """Check that the user trusts the code that a study names and this process has not imported.

    Trust covers exactly these names, of this study in this database. If the database later names
    other code, the user must trust it again. The folder in which the user gave --trust is added to
    the import path.

    Args:
        trust: the user gives --trust now; this is remembered.

    Raises:
        InvalidInput: the user has never given --trust for this code.
    """
    code = study.own_code
    key, file = _key(study.name, url, code), _file()
    known = _read(file)
    if trust:
        _write(file, {**known, key: os.getcwd()})
    elif key not in known:
        names = "; ".join(f"{part}: {', '.join(names)}" for part, names in code.items())
        raise InvalidInput(
            f"Study {study.name!r} uses code that is not part of Farthing ({names}). If you trust "
            "everyone who can write to the database, give --trust once to run it. Commands that "
            "only read the study do not need it."
        )
    folder = os.getcwd() if trust else known[key]
    if folder not in sys.path:
        sys.path.append(folder)


def _key(name: str, url: str, code: Mapping[str, Any]) -> str:
    from farthing.storage import printable

    place = printable(url)
    if "://" not in url or url.startswith("sqlite:///"):
        place = str(Path(url.removeprefix("sqlite:///")).resolve())
    text = json.dumps([place, name, code], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "farthing" / FILE


def _read(file: Path) -> dict[str, str]:
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}. Repair or remove it.") from None
    is_valid = isinstance(known, dict) and all(isinstance(folder, str) for folder in known.values())
    if not is_valid:
        raise InvalidInput(f"{file} was not written by Farthing. Remove it.")
    return dict(known)


def _write(file: Path, known: Mapping[str, str]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = file.with_name(f"{file.name}.{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8") as out:
            json.dump(known, out, indent=1)
        new.replace(file)
    except OSError as error:
        raise InvalidInput(
            f"{file} cannot be written: {error}. Farthing stores --trust there."
        ) from None

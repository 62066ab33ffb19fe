"""Whose code may be run: what --trust was said of, kept outside of the databases it is about."""

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

__all__ = ["trusted"]

FILE = "trusted.json"  # {what is trusted: the folder in which that was said}


def trusted(study: Study, url: str, said: bool) -> bool:
    """Whether the code that a study names, and this process has not imported, may be imported.

    Trust is in these names of this study in this place, and in the folder where it was said: that
    folder is then on the import path. Whatever else the database comes to name is not meant.

    Args:
        said: it is said now, and remembered.

    Raises:
        InvalidInput: it was never said.
    """
    code = study.own_code
    key, file = _key(study.name, url, code), _file()
    known = _read(file)
    if said:
        _write(file, {**known, key: os.getcwd()})
    elif key not in known:
        names = "; ".join(f"{part}: {', '.join(names)}" for part, names in code.items())
        raise InvalidInput(
            f"Study {study.name!r} is made with code that is not Farthing's own ({names}). To look "
            "at it nothing is needed; to run it, say --trust once, if you trust whoever can write "
            "the database."
        )
    folder = os.getcwd() if said else known[key]
    if folder not in sys.path:
        sys.path.append(folder)
    return True


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
        raise InvalidInput(f"{file} cannot be read: {error}. Mend or remove it.") from None
    whole = isinstance(known, dict) and all(isinstance(folder, str) for folder in known.values())
    if not whole:
        raise InvalidInput(f"{file} is not what Farthing wrote. Remove it.")
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
        raise InvalidInput(f"{file} cannot be written: {error}. --trust is kept there.") from None

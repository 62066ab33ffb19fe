"""`farthing.toml`: what `farthing run` would otherwise be told by its options.

[run]
budget = "10m"
command = ["python", "train.py", "--lr", "{lr}"]

[env]
CUDA_VISIBLE_DEVICES = "{slot}"

[params]
lr = "float:1e-5:1e-1:log"
momentum = {type = "float", low = 0, high = 0.99, when = {solver = "sgd"}}
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farthing.errors import InvalidInput

__all__ = ["FILE", "SETTINGS", "Config", "read_config"]

FILE = "farthing.toml"
NUMBER_OR_TEXT, TEXTS = "a number or a text", "a text or a list of texts"
KINDS: dict[str, tuple[type, ...]] = {
    "a text": (str,),
    "a list of texts": (list,),
    TEXTS: (str, list),
    "true or false": (bool,),
    "a whole number": (int,),
    NUMBER_OR_TEXT: (int, float, str),
    "a number": (int, float),
    "a number, a text or a table": (int, float, str, dict),
    "a text, a table or a list of them": (str, dict, list),
    "a list of texts or numbers, or a text": (list, str),
    "a table of texts": (dict,),
}
SETTINGS = {
    "budget": "a number, a text or a table",
    "command": "a list of texts",
    **dict.fromkeys(("maximize", "noisy"), "true or false"),
    **dict.fromkeys(("metric", "storage", "name", "policy", "rate"), "a text"),
    **dict.fromkeys(("cwd", "logs"), "a text"),
    "env": "a table of texts",
    "slots": "a list of texts or numbers, or a text",
    **dict.fromkeys(("stop", "cost"), TEXTS),
    **dict.fromkeys(("worth", "timeout", "grace", "lease"), NUMBER_OR_TEXT),
    **dict.fromkeys(("max_overrun", "overhead"), "a number"),
    "start": "a text, a table or a list of them",
    **dict.fromkeys(("workers", "seed", "retries", "failures_in_a_row"), "a whole number"),
}


@dataclass(frozen=True)
class Config:
    """A file: its settings, and its parameters as they are described there."""

    run: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)


def read_config(path: str | None) -> Config:
    """The file, or `farthing.toml` of this folder, or nothing if there is none."""
    file = Path(path or FILE)
    if path is None and not file.exists():
        return Config()
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}.") from None
    run, params = found.pop("run", {}), found.pop("params", {})
    env = found.pop("env", {})
    if found or not all(isinstance(table, dict) for table in (run, params, env)):
        strange = f", not {', '.join(found)}" if found else ""
        raise InvalidInput(f"{file}: expected the tables [run], [params] and [env]{strange}.")
    if env:
        run["env"] = env
    for name in list(run):
        if "-" in name:
            run[name.replace("-", "_")] = run.pop(name)
    if unknown := [name for name in run if name not in SETTINGS]:
        raise InvalidInput(
            f"{file}: [run] has no setting {unknown[0]!r}. It has {', '.join(SETTINGS)}."
        )
    for name, value in run.items():
        kinds = KINDS[SETTINGS[name]]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise InvalidInput(f"{file}: {name} = {value!r}: expected {SETTINGS[name]}.")
    return Config(run, params)

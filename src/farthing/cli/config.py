"""`farthing.toml`: a file with the settings that `farthing run` also takes as options.

[run]
budget = "10m"
command = ["python", "train.py", "--lr", "{lr}"]

[env]
CUDA_VISIBLE_DEVICES = "{slot}"

[params]
lr = "float:1e-5:1e-1:log"
momentum = {type = "float", low = 0, high = 0.99, when = {solver = "sgd"}}

[[allowed]]  # only these combinations of these parameters
solver = "sgd"
batch = 32
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farthing.errors import InvalidInput

__all__ = ["FILE", "SETTINGS", "Config", "read_config"]

FILE = "farthing.toml"
BOUNDS = "a string, a list of strings or a table"
NUMBER_OR_STRING, STRINGS = "a number or a string", "a string or a list of strings"
KINDS: dict[str, tuple[type, ...]] = {
    "a string": (str,),
    "a list of strings": (list,),
    STRINGS: (str, list),
    "true or false": (bool,),
    "an integer": (int,),
    NUMBER_OR_STRING: (int, float, str),
    "a number": (int, float),
    "a number, a string or a table": (int, float, str, dict),
    "a string, a table or a list of them": (str, dict, list),
    "a list of strings or numbers, or a string": (list, str),
    "a table of strings": (dict,),
    BOUNDS: (str, list, dict),
}
SETTINGS = {
    **dict.fromkeys(("budget", "max_cost"), "a number, a string or a table"),
    "command": "a list of strings",
    **dict.fromkeys(("maximize", "noisy"), "true or false"),
    **dict.fromkeys(("metric", "storage", "name", "policy", "rate"), "a string"),
    **dict.fromkeys(("cwd", "logs"), "a string"),
    "env": "a table of strings",
    "constraints": BOUNDS,
    "slots": "a list of strings or numbers, or a string",
    **dict.fromkeys(("stop", "cost", "log", "learn_from"), STRINGS),
    **dict.fromkeys(("worth", "timeout", "grace", "lease"), NUMBER_OR_STRING),
    **dict.fromkeys(("max_overrun", "overhead"), "a number"),
    "start": "a string, a table or a list of them",
    **dict.fromkeys(("steps", "resume", "checkpoints"), NUMBER_OR_STRING),
    "step_value": "a string",
    **dict.fromkeys(
        ("workers", "seed", "retries", "failures_in_a_row", "first_step", "suspended"),
        "an integer",
    ),
}


@dataclass(frozen=True)
class Config:
    """The contents of a file.

    Attributes:
        run: the settings of [run] and [env].
        params: the parameters of [params].
        allowed: the combinations of [[allowed]].
    """

    run: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    allowed: Sequence[Mapping[str, Any]] = ()


def read_config(path: str | None) -> Config:
    """Read a file; without a path, `farthing.toml` of the current folder if it exists."""
    file = Path(path or FILE)
    if path is None and not file.exists():
        return Config()
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}.") from None
    run, params = tables.pop("run", {}), tables.pop("params", {})
    env, allowed = tables.pop("env", {}), tables.pop("allowed", [])
    if not isinstance(allowed, list) or not all(isinstance(each, dict) for each in allowed):
        raise InvalidInput(f"{file}: expected a table [[allowed]] for each allowed combination.")
    if tables or not all(isinstance(table, dict) for table in (run, params, env)):
        unexpected = f", not {', '.join(tables)}" if tables else ""
        raise InvalidInput(f"{file}: expected the tables [run], [params] and [env]{unexpected}.")
    if env:
        run["env"] = env
    for name in list(run):
        if "-" in name:
            run[name.replace("-", "_")] = run.pop(name)
    if unknown := [name for name in run if name not in SETTINGS]:
        close = difflib.get_close_matches(unknown[0], SETTINGS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InvalidInput(
            f"{file}: [run] has an unknown setting {unknown[0]!r}.{hint} The settings are "
            f"{', '.join(SETTINGS)}."
        )
    for name, value in run.items():
        kinds = KINDS[SETTINGS[name]]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise InvalidInput(f"{file}: {name} = {value!r}: expected {SETTINGS[name]}.")
    return Config(run, params, allowed)

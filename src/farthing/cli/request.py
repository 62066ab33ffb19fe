"""What `farthing run` is asked for: its options and its file, made into settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from farthing.cli.config import Config
from farthing.cli.methods import make_method
from farthing.cli.options import DATABASE, STUDY
from farthing.cli.parameters import configuration_of, parameter_of, split_parameter
from farthing.decision import any_of
from farthing.errors import InvalidInput
from farthing.settings import Settings
from farthing.space import Space

__all__ = ["Request", "read_request"]

METERS = ("wall", "cpu")
AS_THEY_ARE = ("leash", "thinking", "retries", "rate", "metric", "seed", "noisy")
NUMBERS_OR_TEXTS = ("timeout", "grace", "lease", "worth")
OPTION = re.compile(rf"\b({'|'.join(f.name for f in fields(Settings))})=")


class Request(NamedTuple):
    """A study as it is to be made, where it is kept, and how many workers it has."""

    storage: str
    name: str
    workers: int
    settings: Settings


def read_request(options: Mapping[str, Any], command: Sequence[str], config: Config) -> Request:
    """What the options say; where they say nothing, what the file says.

    Args:
        options: None or () where nothing was given.
        command: the program and its arguments; empty if it was not given.
    """
    given = {key: value for key, value in options.items() if value not in (None, ())}
    told = {**config.run, **given, **({"command": list(command)} if command else {})}
    params = {**config.params, **dict(map(split_parameter, options["param"]))}
    if not params:
        raise InvalidInput(
            "There is nothing to tune. Give parameters, such as --param lr=float:1e-5:1e-1:log."
        )
    if "command" not in told:
        raise InvalidInput(
            "There is no command. Write it last: farthing run ... -- python train.py --lr {lr}."
        )
    if "budget" not in told and not told.get("stop"):
        raise InvalidInput(
            "Without a budget it would never end. Give --budget 10m, or --stop 'max_trials(50)'."
        )
    space = Space({name: parameter_of(name, described) for name, described in params.items()})
    try:
        settings = Settings.of(space, _number_or_text(told.get("budget")), **_settings(told, space))
    except InvalidInput as error:
        raise InvalidInput(OPTION.sub(_as_option, str(error))) from None
    return Request(
        str(told.get("storage", DATABASE)),
        str(told.get("name", STUDY)),
        told.get("workers", 1),
        settings,
    )


def _settings(told: Mapping[str, Any], space: Space) -> Any:
    """The settings that were told, under the names of `Settings`."""
    rules = [make_method(text, "stopping", "--stop") for text in _several(told.get("stop", ()))]
    meters, models = _costs(_several(told.get("cost", ())))
    settings = {name: told[name] for name in AS_THEY_ARE if name in told}
    settings |= {name: _number_or_text(told[name]) for name in NUMBERS_OR_TEXTS if name in told}
    settings["command"] = told["command"]
    begin = told.get("start", ())
    settings["start"] = [
        configuration_of(each, space.parameters)
        for each in ([begin] if isinstance(begin, str | dict) else begin)
    ]
    if "policy" in told:
        settings["policy"] = make_method(told["policy"], "policies", "--policy")
    if rules:
        settings["stop"] = rules[0] if len(rules) == 1 else any_of(*rules)
    if models:
        settings["cost"] = models[0]
    if meters:
        settings["measure"] = meters[0]
    if told.get("maximize"):
        settings["direction"] = "maximize"
    if "failures_in_a_row" in told:  # 0: however many
        settings["failures_in_a_row"] = told["failures_in_a_row"] or float("inf")
    return settings


def _as_option(setting: re.Match[str]) -> str:
    return f"--{setting[1].replace('_', '-')} "


def _several(told: Any) -> list[str]:
    return [told] if isinstance(told, str) else list(told)


def _number_or_text(told: Any) -> Any:
    if not isinstance(told, str):
        return told
    try:
        return float(told)
    except ValueError:
        return told


def _costs(told: list[str]) -> tuple[list[str], list[Any]]:
    """What --cost says of how costs are measured, and of how they are learnt."""
    if "reported" in told:
        raise InvalidInput(
            "--cost reported: what a trial says it has cost always counts. Leave the option out."
        )
    meters = [text for text in told if text in METERS]
    models = [make_method(text, "cost", "--cost") for text in told if text not in METERS]
    if len(meters) > 1 or len(models) > 1:
        raise InvalidInput(f"--cost {' --cost '.join(told)}: one meter and one model at most.")
    return meters, models

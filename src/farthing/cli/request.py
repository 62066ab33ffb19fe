"""What `farthing run` is asked for: its options and its file, made into settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from farthing.cli.config import Config
from farthing.cli.methods import make_method
from farthing.cli.options import DATABASE, STUDY
from farthing.cli.parameters import configuration_of, parameter_of, split_parameter
from farthing.core.settings import Settings
from farthing.errors import InvalidInput
from farthing.space.space import Space
from farthing.stopping.combine import any_of

if TYPE_CHECKING:
    from farthing.study import Study

__all__ = ["NOTHING_TO_TUNE", "Request", "change", "read_request", "slots_of", "variables_of"]

NOTHING_TO_TUNE = (
    "There is nothing to tune. Give parameters, such as --param lr=float:1e-5:1e-1:log."
)

METERS = ("wall", "cpu")
AS_THEY_ARE = (
    "overhead",
    "retries",
    "failures_in_a_row",
    "rate",
    "metric",
    "seed",
    "noisy",
    "command",
)
NUMBERS_OR_TEXTS = ("timeout", "grace", "lease", "worth", "max_overrun")
HERE = "."
CAN_BE_NONE = (
    "timeout",
    "worth",
    "max_overrun",
    "rate",
    "stop",
    "cost",
    "start",
    "cwd",
    "logs",
    "env",
)
OPTION = re.compile(rf"\b({'|'.join(f.name for f in fields(Settings))})=")


class Request(NamedTuple):
    """A study as it is to be made, where it is kept, how many workers it has, and where."""

    storage: str
    name: str
    workers: int | None
    slots: list[str] | None
    settings: Settings


def read_request(
    options: Mapping[str, Any],
    command: Sequence[str],
    config: Config,
    *,
    needs_command: bool = True,
) -> Request:
    """What the options say; where they say nothing, what the file says.

    Args:
        options: None or () where nothing was given.
        command: the program and its arguments; empty if it was not given.
    """
    given = _given(options)
    told = {**config.run, **given, **({"command": list(command)} if command else {})}
    told.setdefault("cwd", HERE)
    if "env" in given and "env" in config.run:
        told["env"] = {**config.run["env"], **variables_of(given["env"])}
    params = {**config.params, **_parameters(options["param"])}
    if not params:
        raise InvalidInput(NOTHING_TO_TUNE)
    if needs_command and "command" not in told:
        raise InvalidInput(
            "There is no command. Write it last: farthing run ... -- python train.py --lr {lr}."
        )
    if "budget" not in told and not told.get("stop"):
        raise InvalidInput(
            "Without a budget it would never end. Give --budget 10m, or --stop 'max_trials(50)'."
        )
    workers, slots = told.get("workers"), slots_of(told.get("slots"))
    if None not in (workers, slots) and workers != len(slots or ()):
        raise InvalidInput(
            f"--workers {workers} and {len(slots or ())} slots: each worker has one. Leave "
            "--workers out; a slot that two workers share is named twice."
        )
    space = Space({name: parameter_of(name, described) for name, described in params.items()})
    with _in_options():
        budget = _number_or_text(told.get("budget"))
        settings = Settings.of(space, budget, **_settings(told, space))
    return Request(
        str(told.get("storage", DATABASE)),
        str(told.get("name", STUDY)),
        workers,
        slots,
        settings,
    )


def change(
    study: Study, options: Mapping[str, Any], command: Sequence[str] = ()
) -> Mapping[str, tuple[str, str]]:
    """Change what the options say, and nothing else; `none` takes a setting back."""
    told = {**_given(options), **({"command": list(command)} if command else {})}
    described = _parameters(options["param"])
    params = {name: parameter_of(name, each) for name, each in described.items()}
    with _in_options():
        space = Space({**study.space.parameters, **params}) if params else study.space
        given: dict[str, Any] = {"space": space} if params else {}
        if "budget" in told:
            given["budget"] = None if told["budget"] == "none" else told["budget"]
        return study.change(**given, **_settings(told, space))


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value not in (None, ())}


def _parameters(told: Sequence[str]) -> dict[str, str]:
    """The parameters by name."""
    described: dict[str, str] = {}
    for name, text in map(split_parameter, told):
        if name in described:
            raise InvalidInput(
                f"--param {name} is given twice: {described[name]} and {text}. Give it once."
            )
        described[name] = text
    return described


@contextmanager
def _in_options() -> Iterator[None]:
    """What is said of a setting is said of its option."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(OPTION.sub(_as_option, str(error))) from None


def _settings(told: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """The settings that were told, under the names of `Settings`; None where it is `none`."""
    gone = {name for name in CAN_BE_NONE if told.get(name) in ("none", ("none",), ["none"])}
    told = {name: value for name, value in told.items() if name not in gone}
    settings: dict[str, Any] = dict.fromkeys(gone)
    settings |= {name: told[name] for name in AS_THEY_ARE if name in told}
    settings |= {name: _number_or_text(told[name]) for name in NUMBERS_OR_TEXTS if name in told}
    for folder in ("cwd", "logs"):
        if folder in told:
            settings[folder] = str(Path(told[folder]).absolute())
    if "env" in told:
        settings["env"] = variables_of(told["env"])
    if "start" in told:
        begin = told["start"]
        settings["start"] = [
            configuration_of(each, space.parameters)
            for each in ([begin] if isinstance(begin, str | dict) else begin)
        ]
    if "policy" in told:
        settings["policy"] = make_method(told["policy"], "policies", "--policy")
    rules = [make_method(text, "stopping", "--stop") for text in _several(told.get("stop", ()))]
    if rules:
        settings["stop"] = rules[0] if len(rules) == 1 else any_of(*rules)
    meters, models = _costs(_several(told.get("cost", ())))
    if models:
        settings["cost"] = models[0]
    if meters:
        settings["measure"] = meters[0]
    if "maximize" in told:
        settings["direction"] = "maximize" if told["maximize"] else "minimize"
    return settings


def slots_of(told: Any) -> list[str] | None:
    """The slots of `0,1,2,3`, or of a list."""
    if told is None:
        return None
    slots = [str(each).strip() for each in (told.split(",") if isinstance(told, str) else told)]
    if not slots or not all(slots):
        raise InvalidInput(f"--slots {told}: expected numbers or names, such as 0,1,2,3.")
    return slots


def variables_of(told: Any) -> dict[str, str]:
    """Variables of `NAME=TEXT`, or of a table; a number in a table is its text."""
    if isinstance(told, Mapping):
        return {name: str(text) for name, text in told.items()}
    for each in told:
        if "=" not in each[1:]:
            raise InvalidInput(f"--env {each}: expected NAME=TEXT, such as OMP_NUM_THREADS=1.")
    return dict(each.split("=", 1) for each in told)


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

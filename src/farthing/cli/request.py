"""The settings of `farthing run`, from its options and its file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from farthing.budget.units import Budget
from farthing.cli.config import Config
from farthing.cli.methods import make_method
from farthing.cli.options import DATABASE, STUDY
from farthing.cli.parameters import configuration_of, parameters_of, split_parameter
from farthing.core.settings import DEFAULT, Settings
from farthing.data.sources import Place, settings_of
from farthing.errors import InvalidInput
from farthing.models.constraints import split_constraint
from farthing.space.space import Parameter, Space
from farthing.steps import Steps
from farthing.stopping.combine import any_of

if TYPE_CHECKING:
    from farthing.study import Study

__all__ = [
    "NOTHING_TO_TUNE",
    "Request",
    "bounds_of",
    "change",
    "naming_options",
    "read_request",
    "slots_of",
    "variables_of",
]

NOTHING_TO_TUNE = (
    "There are no parameters to tune. Give at least one, such as --param lr=float:1e-5:1e-1:log."
)

CLOCKS = ("wall", "cpu")
UNCHANGED = (
    "overhead",
    "retries",
    "failures_in_a_row",
    "rate",
    "metric",
    "seed",
    "noisy",
    "command",
)
NUMBERS_OR_STRINGS = ("timeout", "grace", "lease", "worth", "max_overrun", "max_cost")
OPTION_NAMES = {"constraints": "constraint"}  # where the option differs from the setting
CURRENT_FOLDER = "."
CAN_BE_NONE = (
    "timeout",
    "worth",
    "max_overrun",
    "max_cost",
    "rate",
    "stop",
    "cost",
    "start",
    "cwd",
    "logs",
    "env",
    "steps",
    "constraints",
    "learn_from",
)
STEPS = {  # {option: field of Steps}
    **{"first_step": "first", "resume": "resume", "step_value": "value"},
    **{"checkpoints": "checkpoints", "suspended": "suspended"},
}
SIGNED = re.compile(r"(^|,)\s*[+-]")  # a budget with a sign before one of its amounts
STEPS_OF = re.compile(r"Steps\((\w+)=.*?\)(?=:| has)")  # a setting of `Steps` in an error
# A setting with "=", and its value if that is one word in quotes.
OPTION = re.compile(
    rf'\b({"|".join([*(f.name for f in fields(Settings)), *STEPS])})=(?:"([\w-]+)")?'
)


class Request(NamedTuple):
    """The settings of a study, its database and name, and the workers of this run.

    Attributes:
        more: how to change the budget of an existing study, such as "+10m"; None: not relative to
            the present one.
    """

    storage: str
    name: str
    workers: int | None
    slots: list[str] | None
    settings: Settings
    more: str | None = None


def read_request(
    options: Mapping[str, Any],
    command: Sequence[str],
    config: Config,
    *,
    needs_command: bool = True,
    say: Callable[[str], None] = click.echo,
) -> Request:
    """The request of the options and the file; options take precedence.

    Args:
        options: None or () for an option that was not given.
        command: the program and its arguments; empty if it was not given.
        say: prints why an earlier study is not used.
    """
    given = _given(options)
    values = {**config.run, **given, **({"command": list(command)} if command else {})}
    values.setdefault("cwd", CURRENT_FOLDER)
    if "env" in given and "env" in config.run:
        values["env"] = {**config.run["env"], **variables_of(given["env"])}
    params = {**config.params, **_parameters(options["param"])}
    if not params:
        raise InvalidInput(NOTHING_TO_TUNE)
    if needs_command and "command" not in values:
        raise InvalidInput(
            "There is no command to run. Give it last: farthing run ... -- python train.py --lr "
            "{lr}."
        )
    if "budget" not in values and not values.get("stop"):
        raise InvalidInput(
            "Without a budget or a stopping rule, the run would never end. Give --budget 10m, or "
            "--stop 'max_trials(50)'."
        )
    workers, slots = values.get("workers"), slots_of(values.get("slots"))
    if None not in (workers, slots) and workers != len(slots or ()):
        raise InvalidInput(
            f"--workers {workers} does not match the {len(slots or ())} slots of --slots. Each "
            "worker needs one slot. Leave --workers out; name a slot twice if two workers share it."
        )
    parameters = parameters_of(params)
    allowed = _combinations(options["allowed"] or config.allowed, parameters)
    space = Space(parameters, allowed=allowed)
    storage, name = str(values.get("storage", DATABASE)), str(values.get("name", STUDY))
    place = Place(storage, name, keeps=True, say=say)
    budget, more = values.get("budget"), None
    if isinstance(budget, str) and SIGNED.search(budget):
        more = budget
        budget = _present_budget(storage, name, more)
    with naming_options():
        settings = settings_of(space, _number_or_text(budget), place, **_settings(values, space))
    return Request(storage, name, workers, slots, settings, more)


def _present_budget(storage: str, name: str, more: str) -> Budget | None:
    """The budget of the study to which an amount with a sign is added."""
    from farthing.storage import printable
    from farthing.study import Study

    if name not in Study.names(storage):
        raise InvalidInput(
            f"--budget {more}: a sign changes the budget of an existing study, but "
            f"{printable(storage)} has no study {name!r}. Give the whole budget without signs, or "
            "name an existing study with --name."
        )
    study = Study.open(storage, name, look=True)
    try:
        return study.current_settings.budget
    finally:
        study.close()


def change(
    study: Study, options: Mapping[str, Any], command: Sequence[str] = ()
) -> Mapping[str, tuple[str, str]]:
    """Change the settings that the options name; `none` removes a setting."""
    values = {**_given(options), **({"command": list(command)} if command else {})}
    described = _parameters(options["param"])
    parameters = {
        **study.space.parameters,
        **parameters_of(described, study.space.parameters),
    }
    allowed = _combinations(options["allowed"], parameters)
    with naming_options():
        space = study.space
        if described or allowed:
            space = Space(parameters, allowed=allowed or study.space.allowed)
        given: dict[str, Any] = {"space": space} if described or allowed else {}
        if "budget" in values:
            given["budget"] = None if values["budget"] == "none" else values["budget"]
        return study.change(**given, **_settings(values, space))


def _combinations(
    given: Sequence[Any], parameters: Mapping[str, Parameter]
) -> list[dict[str, Any]] | None:
    """The allowed combinations; None if all are."""
    return [configuration_of(each, parameters, "--allowed") for each in given] or None


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value not in (None, ())}


def _parameters(texts: Sequence[str]) -> dict[str, str]:
    """The descriptions of parameters, by name."""
    described: dict[str, str] = {}
    for name, text in map(split_parameter, texts):
        if name in described:
            raise InvalidInput(
                f"--param {name} is given twice: {described[name]} and {text}. Give it once."
            )
        described[name] = text
    return described


@contextmanager
def naming_options() -> Iterator[None]:
    """In error messages, write settings as options: --policy gittins for policy="gittins"."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(OPTION.sub(_as_option, str(error))) from None


def _settings(values: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """The values under the names of `Settings`; None for the text `none`."""
    removed = {name for name in CAN_BE_NONE if values.get(name) in ("none", ("none",), ["none"])}
    values = {name: value for name, value in values.items() if name not in removed}
    settings: dict[str, Any] = dict.fromkeys(removed)
    settings |= {name: values[name] for name in UNCHANGED if name in values}
    settings |= {
        name: _number_or_text(values[name]) for name in NUMBERS_OR_STRINGS if name in values
    }
    for folder in ("cwd", "logs"):
        if folder in values:
            settings[folder] = str(Path(values[folder]).absolute())
    if "env" in values:
        settings["env"] = variables_of(values["env"])
    if "start" in values:
        start = values["start"]
        settings["start"] = [
            configuration_of(each, space.parameters)
            for each in ([start] if isinstance(start, str | dict) else start)
        ]
    if "learn_from" in values:
        settings["learn_from"] = _as_list(values["learn_from"])
    settings |= _steps(values, settings)
    if "constraints" in values:
        settings["constraints"] = bounds_of(values["constraints"])
    if "policy" in values:
        name = values["policy"].strip()
        settings["policy"] = name if name == DEFAULT else make_method(name, "policies", "--policy")
    rules = [make_method(text, "stopping", "--stop") for text in _as_list(values.get("stop", ()))]
    if rules:
        settings["stop"] = rules[0] if len(rules) == 1 else any_of(*rules)
    clocks, models = _costs(_as_list(values.get("cost", ())))
    if models:
        settings["cost"] = models[0]
    if clocks:
        settings["measure"] = clocks[0]
    if "maximize" in values:
        settings["direction"] = "maximize" if values["maximize"] else "minimize"
    return settings


def _steps(values: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Steps]:
    """The steps of a training, if the options name them."""
    given = {field: values[name] for name, field in STEPS.items() if name in values}
    if "steps" not in values:
        if given and "steps" not in settings:
            name = next(option for option in STEPS if option in values)
            raise InvalidInput(
                f"{name}={values[name]} has no effect without steps. Give --steps, too."
            )
        return {}
    text = str(values["steps"])
    if not re.fullmatch(r"\d+(\s*,\s*\d+)*", text.strip()):
        raise InvalidInput(
            f"steps={text}: expected the last step of a training, such as 51, or the steps at "
            "which the tuner decides, such as 1,3,9,27,51."
        )
    rungs = tuple(int(each) for each in text.split(","))
    for name in ("resume", "checkpoints"):
        if name in given:
            given[name] = _number_or_text(given[name])
    if len(rungs) > 1:
        given["rungs"] = rungs
    try:
        return {"steps": Steps(rungs[-1], **given)}
    except InvalidInput as error:
        raise InvalidInput(STEPS_OF.sub(partial(_as_given, values), str(error))) from None


def _as_given(values: Mapping[str, Any], found: re.Match[str]) -> str:
    """A setting of `Steps` as the user gave it."""
    name = next((option for option, field in STEPS.items() if field == found[1]), "steps")
    return f"{name}={values[name]}"


def slots_of(given: Any) -> list[str] | None:
    """The slots of a text such as `0,1,2,3`, or of a list."""
    if given is None:
        return None
    slots = [str(each).strip() for each in (given.split(",") if isinstance(given, str) else given)]
    if not slots or not all(slots):
        raise InvalidInput(f"--slots {given}: expected numbers or names, such as 0,1,2,3.")
    return slots


def variables_of(given: Any) -> dict[str, str]:
    """Environment variables of texts such as `NAME=TEXT`, or of a table."""
    if isinstance(given, Mapping):
        return {name: str(text) for name, text in given.items()}
    for each in given:
        if "=" not in each[1:]:
            raise InvalidInput(f"--env {each}: expected NAME=TEXT, such as OMP_NUM_THREADS=1.")
    return dict(each.split("=", 1) for each in given)


def bounds_of(given: Any) -> dict[str, Any]:
    """The constraints of texts such as `latency_ms <= 10`, or of a table."""
    if isinstance(given, Mapping):
        return dict(given)
    found: dict[str, Any] = {}
    for name, condition in map(split_constraint, _as_list(given)):
        if name in found:
            raise InvalidInput(
                f"--constraint {name} is given twice: {found[name]} and {condition}. A quantity "
                "has one bound."
            )
        found[name] = condition
    return found


def _as_option(setting: re.Match[str]) -> str:
    name = OPTION_NAMES.get(setting[1], setting[1]).replace("_", "-")
    return f"--{name} {setting[2] or ''}"


def _as_list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _number_or_text(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value


def _costs(texts: list[str]) -> tuple[list[str], list[Any]]:
    """The clocks and the cost models among the values of --cost."""
    if "reported" in texts:
        raise InvalidInput(
            "--cost reported: a cost that a trial reports is always used. Leave the option out."
        )
    clocks = [text for text in texts if text in CLOCKS]
    models = [make_method(text, "cost", "--cost") for text in texts if text not in CLOCKS]
    if len(clocks) > 1 or len(models) > 1:
        raise InvalidInput(
            f"--cost {' --cost '.join(texts)}: expected at most one clock ({' or '.join(CLOCKS)}) "
            "and one cost model."
        )
    return clocks, models

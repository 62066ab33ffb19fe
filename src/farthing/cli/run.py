"""`farthing run`: evaluate a command until it is time to stop."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from farthing.cli.config import read_config
from farthing.cli.options import STORAGE, locate, open_study, places, where
from farthing.cli.output import say_changes
from farthing.errors import InvalidInput

if TYPE_CHECKING:
    from farthing.cli.request import Request
    from farthing.running import CommandTask
    from farthing.study import Study
    from farthing.view.result import Result

__all__ = ["finish", "run", "same_command"]

NO_SUCCESS, WRONG = 1, 2  # exit codes
BY_SIGNAL = {"interrupted": 130, "terminated": 143}  # exit codes by kind of stop
NEW_COMMAND = "command", "none"  # a study that `farthing import` has made gets its own


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--budget", help="What may be spent: 10m, '$40', 1.5kWh, '50 trials', '2h, $40'.")
@click.option(
    "--param",
    multiple=True,
    metavar="NAME=KIND",
    help="float:LOW:HIGH[:log], int:LOW:HIGH[:log], choice:A,B,... or ordinal:1,2,...[:log]; a "
    "range ends in :increases or :decreases where a larger value costs more or less.",
)
@where
@click.option("--metric", help="The key of the value in the result.  [default: value]")
@click.option("--maximize/--minimize", default=None, help="The value.  [default: minimize]")
@click.option(
    "--noisy", is_flag=True, default=None, help="The same parameters may return another value."
)
@places
@click.option(
    "--logs",
    metavar="FOLDER",
    help="Keep what trials print there.  [default: beside the database]",
)
@click.option("--policy", help="How to choose: a name from `farthing policies`, or module:Name.")
@click.option(
    "--stop", multiple=True, help="A reason to stop from `farthing rules`; any of several."
)
@click.option(
    "--worth", help="What cost is worth: '0.01 = $20', objective units per unit, or budget."
)
@click.option("--rate", help="What the machine costs: '$3.06/h'; or '$3.06/h per worker'.")
@click.option(
    "--cost",
    multiple=True,
    help="Measure `wall` or `cpu` seconds, and learn costs by log_gp, linear, median or module:f.",
)
@click.option(
    "--start",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Evaluate this first; what is missing is filled in.",
)
@click.option(
    "--max-overrun",
    help="Kill a trial that will cost, still, this many times what it was expected to in all.",
)
@click.option(
    "--overhead",
    type=float,
    help="Thinking, as a share of what trials take, in a budget of time.  [default: 0.05]",
)
@click.option("--timeout", help="Kill a trial after this time.")
@click.option("--grace", help="Time between SIGTERM and SIGKILL.  [default: 5s]")
@click.option("--lease", help="Time after which a silent worker's trial is lost.  [default: 15s]")
@click.option("--seed", type=click.IntRange(0), help="The same seed asks the same.  [default: 0]")
@click.option("--retries", type=click.IntRange(0), help="Try a lost trial again.  [default: 0]")
@click.option(
    "--failures-in-a-row", type=click.IntRange(0), help="So many end it, 0: none.  [default: 5]"
)
@click.option(
    "--try",
    "tries",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Evaluate this next, once, whatever a rule says; the policy completes it.",
)
@click.option(
    "--config", metavar="FILE", help="Settings.  [default: farthing.toml, if there is one]"
)
@click.option(
    "--trust",
    is_flag=True,
    help="Import code of others that the study names, also from this folder; remembered.",
)
@click.option("--quiet", is_flag=True, help="Print nothing but the result.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["table", "json"]),
    default="table",
    help="Of the result: table or json.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(
    command: tuple[str, ...],
    config: str | None,
    trust: bool,
    quiet: bool,
    kind: str,
    **options: Any,
) -> int:
    """Tune a command on a budget.

    \b
    farthing run --budget 10m --param lr=float:1e-5:1e-1:log \\
        --param depth=int:1:16 -- python train.py --lr {lr} --depth {depth}

    The command gets its parameters in place of {name}, and as JSON in FARTHING_PARAMS. Its result
    is the last line it prints that is JSON with a value, {"value": 0.31} or {"value": 0.31,
    "cost": 12.5}, or the contents of the file that FARTHING_RESULT names. There is no shell: every
    argument arrives as it is written.

    The same command again goes on where it ended; another budget or another setting is said and
    taken. Without parameters, or without them and a command, it goes on with those that the study
    has: farthing run --budget +10m. Settings may also stand in farthing.toml.

    It ends with 0 when the budget is used or a rule stopped it, with 1 when no trial succeeded or
    too many failed in a row, and with 130 after Ctrl-C: the first lets finish what is running, a
    second kills it and charges it, and nothing is lost.
    """
    from farthing.cli.parameters import configuration_of
    from farthing.cli.request import read_request, slots_of
    from farthing.running import CommandTask
    from farthing.running.process_pool import check_start
    from farthing.view.progress import watching

    told, quiet = read_config(config), quiet or kind != "table"
    if options["param"] or told.params or "command" in told.run:
        request = read_request(options, command, told)
        settings, storage = request.settings, request.storage
        workers, slots = request.workers, request.slots
    else:
        request, (storage, name) = None, locate(options["storage"], options["name"])
        study = _found(storage, name, options, command, trust)
        settings, slots = (
            study.current_settings,
            slots_of(options["slots"] or told.run.get("slots")),
        )
        workers = options["workers"] or told.run.get("workers")
    task = CommandTask(settings.command or (), metric=settings.metric)
    check_start(task, settings)
    if request is not None:
        study = _start(request, trust)
    for each in options["tries"]:
        study.enqueue(configuration_of(each, study.space.parameters, "--try"), once=True)
    if not quiet:
        _say(study, storage, task)
    try:
        with watching(study, quiet=quiet) as on_change:
            result = study.run(task, workers=workers, slots=slots, on_change=lambda _: on_change())
        return finish(result, kind, again=same_command())
    finally:
        study.close()


def _start(request: Request, trust: bool) -> Study:
    """Make the study, or go on with it."""
    from farthing.cli.trust import trusted
    from farthing.study import Study

    study = Study.from_settings(request.storage, request.name, request.settings)
    if study.own_code and trusted(study, request.storage, trust):  # of a change meanwhile
        changed, kept = study.changed, study.overridden
        study.close()
        study = Study.from_settings(request.storage, request.name, request.settings, trust=True)
        study.changed, study.overridden = changed, kept
    return study


def _found(
    storage: str, name: str, options: dict[str, Any], command: tuple[str, ...], trust: bool
) -> Study:
    """Go on with a study that is there, and has a command or is given one."""
    from farthing.cli.request import NOTHING_TO_TUNE, change

    study = open_study(storage, name, NOTHING_TO_TUNE, trust=trust)
    if not command and study.current_settings.command is None:
        raise InvalidInput(
            f"Study {study.name!r} was made without a command. Write it last: farthing run ... -- "
            "python train.py --lr {lr}."
        )
    study.changed = change(study, options, command)
    return study


def _say(study: Study, storage: str, task: CommandTask) -> None:
    """Whether it goes on, with what, and what is otherwise than it was."""
    from farthing.budget.units import format_amount
    from farthing.storage import printable
    from farthing.view.formatting import spent

    if study.history:
        count = format_amount("trials", len(study.history))
        so_far = f"{count}, {spent(study.ledger) or 'nothing'} spent"
        click.echo(f"Going on with study {study.name!r} in {printable(storage)}: {so_far}.")
    say_changes({n: said for n, said in study.changed.items() if (n, said[0]) != NEW_COMMAND})
    for setting, (given, kept) in study.overridden.items():
        name = setting.replace("_", "-")
        click.echo(f"Kept: {name} {kept}, to which it was changed; {given} is what it was before.")
    unused = [name for name in study.space.names if name not in task.placeholders]
    if unused:
        names = ", ".join(f"{{{name}}}" for name in unused)
        it = "it" if len(unused) == 1 else "them"
        told = f"No argument has {names}: the command finds {it} in FARTHING_PARAMS."
        click.echo(told, err=True)


def same_command() -> str:
    """The command as it was given, without the passwords in it."""
    from farthing.storage import printable

    words, ours = ["farthing"], True
    for given in sys.argv[1:]:
        ours = ours and given != "--"  # what follows belongs to the program that is tuned
        shown = printable(given) if "://" in given else given
        if shown == given or not ours:
            words.append(shlex.quote(shown))
        else:
            words.append(f'{"--storage=" * given.startswith("--storage=")}"${STORAGE}"')
    return " ".join(words)


def finish(result: Result, kind: str, *, again: str) -> int:
    """Print how it ended; the exit code.

    Args:
        again: the command that goes on with it.
    """
    from farthing.data.tabular import to_json
    from farthing.view.result import summary

    reason = result.stop_reason
    if kind == "json":
        facts = summary("", result)
        spent = {name: account["spent"] for name, account in facts["budget"].items()}
        why = {"stop_reason": reason.sentence, "stop_kind": reason.kind}
        ended = {"best": facts["best"], **why, "spent": spent}
        took = {"elapsed_s": result.elapsed_s, "overhead_s": result.overhead_s}
        click.echo(to_json({**ended, "trials": len(result.history), **took}))
    else:
        click.echo(str(result))
    if reason.kind in BY_SIGNAL:
        click.echo(f"Everything is kept. Go on with: {again}", err=True)
        return BY_SIGNAL[reason.kind]
    if result.found is None:
        error = next((trial.error for trial in result.history if trial.error), None)
        told = "" if error is None or reason.includes(error) else f" The first:\n{error}"
        click.echo(f"No trial succeeded.{told}", err=True)
    if reason.kind == "cost_missing":  # the budget does not go with what the program says
        return WRONG
    return NO_SUCCESS if result.failed or result.found is None else 0

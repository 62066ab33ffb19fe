"""`farthing run`: evaluate a command until the budget is spent or a rule stops it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from farthing.cli.config import read_config
from farthing.cli.loggers import LOGS, loggers_of
from farthing.cli.options import (
    STUDY,
    GroupedCommand,
    check_exists,
    locate,
    only_study,
    open_study,
    storage_option,
    worker_options,
)
from farthing.cli.output import print_changes, same_command
from farthing.errors import InvalidInput

if TYPE_CHECKING:
    from farthing.cli.request import Request
    from farthing.running import CommandTask
    from farthing.study import Study
    from farthing.view.result import Result

__all__ = ["exit_code", "finish", "print_missing_cost", "run"]

NO_SUCCESS, USAGE = 1, 2  # exit codes
BY_SIGNAL = {"interrupted": 130, "terminated": 143}  # exit codes by kind of stop
NEW_COMMAND = "command", "none"  # the first command of a study that `farthing import` created


@click.command(cls=GroupedCommand, context_settings={"allow_interspersed_args": False})
@click.option(
    "--budget",
    metavar="AMOUNT",
    help="What the study may spend: 10m, '$40', 1.5kWh, '50 trials', '2h, $40'.",
)
@click.option(
    "--param",
    multiple=True,
    metavar="NAME=KIND",
    help="A parameter: float:LOW:HIGH[:log], int:LOW:HIGH[:log], choice:A,B,..., "
    "ordinal:1,2,...[:log] or bool. Append :step=STEP to a range for a grid. If larger values of a "
    "range cost more, append :increases; if they cost less, :decreases. Last come conditions: "
    "':when=solver=sgd,adam', ':when=layers>=2'.",
)
@click.option(
    "--allowed",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="An allowed combination of some parameters. Without it, all combinations are.",
)
@storage_option
@click.option("--name", help=f"Name of the study.  [default: {STUDY}, or the only study]")
@click.option(
    "--metric",
    metavar="KEY",
    help="Key of the value in the JSON result of the command.  [default: value]",
)
@click.option(
    "--maximize/--minimize",
    default=None,
    help="Whether a higher or a lower value is better.  [default: minimize]",
)
@click.option(
    "--noisy", is_flag=True, default=None, help="The same parameters may return different values."
)
@click.option(
    "--constraint",
    "constraints",
    multiple=True,
    metavar="BOUND",
    help="A bound of another number in the JSON result, such as 'latency_ms <= 10' or "
    "'accuracy >= 0.9'.",
)
@worker_options
@click.option(
    "--logs",
    metavar="FOLDER",
    help="Folder for the output of trials.  [default: beside the database]",
)
@click.option(
    "--policy",
    metavar="NAME",
    help="How to choose the next trial: a name from `farthing policies`, module:Name or `default`. "
    "Without it, an existing study keeps its policy.",
)
@click.option(
    "--stop",
    multiple=True,
    metavar="RULE",
    help="Stop before the budget is spent: a rule from `farthing rules`, such as not_worth_it. If "
    "you give several, the first one that applies stops the study.",
)
@click.option(
    "--worth",
    metavar="RATE",
    help="Exchange rate: '0.01 = $20' (an improvement of 0.01 is worth $20), or the improvement "
    "that one unit of cost must bring, or `budget` to derive it from the budget.",
)
@click.option(
    "--rate",
    metavar="PRICE",
    help="Price of the machine: '$3.06/h', or '$3.06/h per worker'.",
)
@click.option(
    "--cost",
    multiple=True,
    metavar="NAME",
    help="Measure `wall` or `cpu` seconds, and select a cost model: log_gp, linear, "
    "point_estimate or module:function.",
)
@click.option(
    "--start",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Evaluate this point first. Farthing fills in missing parameters.",
)
@click.option(
    "--learn-from",
    multiple=True,
    metavar="STUDY",
    help="Learn from an earlier study: NAME in this database, other.db#NAME, a CSV file such as "
    "`farthing export` writes, or `all` studies of this database. Its trials are copied.",
)
@click.option(
    "--max-overrun",
    metavar="N",
    help="Kill a trial whose expected remaining cost exceeds N times its first estimate.",
)
@click.option(
    "--max-cost",
    metavar="AMOUNT",
    help="The most that one trial can cost, such as '$2'. A trial that exceeds it is killed. "
    "Workers start together only if the budget pays for all of them.",
)
@click.option(
    "--overhead",
    type=float,
    metavar="SHARE",
    help="If the budget is a time: how much of it suggesting may take, as a share of the time of "
    "trials. With --steps, quick suggestions may take four times as much.  [default: 0.05]",
)
@click.option(
    "--steps",
    metavar="N",
    help='Last step of a training that prints {"step": 3, "value": 0.4} after each step, or '
    "the steps at which the tuner decides: 1,3,9,27,51.",
)
@click.option(
    "--first-step",
    type=click.IntRange(1),
    metavar="N",
    help="First step at which the tuner decides; then at twice as many, and so on.  [default: 1]",
)
@click.option(
    "--resume",
    metavar="COST",
    help="What resuming a paused training costs: checkpoint (nothing), a number, suspend (its "
    "process is stopped and kept in memory), or never.  [default: checkpoint]",
)
@click.option(
    "--suspended",
    type=click.IntRange(1),
    metavar="N",
    help="With --resume suspend, the most trainings that each worker keeps in memory.  "
    "[default: 8]",
)
@click.option(
    "--checkpoints",
    metavar="SIZE",
    help="Most that all checkpoints may need on the disk, such as 20GB. Those that are least "
    "likely to be resumed are deleted.  [default: no limit]",
)
@click.option(
    "--step-value",
    type=click.Choice(["best", "last"]),
    help="The value of a training: the best of its steps, or that of the last one.  "
    "[default: best]",
)
@click.option("--timeout", metavar="TIME", help="Kill a trial after this time.")
@click.option(
    "--grace",
    metavar="TIME",
    help="Time between SIGTERM and SIGKILL when a trial is killed.  [default: 5s]",
)
@click.option(
    "--lease",
    metavar="TIME",
    help="A trial counts as lost if its worker has not reported for this time.  [default: 15s]",
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Random seed.  [default: 0]")
@click.option(
    "--retries",
    type=click.IntRange(0),
    metavar="N",
    help="Repeat a lost trial at most N times.  [default: 0]",
)
@click.option(
    "--failures-in-a-row",
    type=click.IntRange(0),
    metavar="N",
    help="Stop after N consecutive failures (0: never).  [default: 5]",
)
@click.option(
    "--try",
    "tries",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Evaluate this point next, once, even if a rule would stop. The policy fills in missing "
    "parameters.",
)
@click.option(
    "--log",
    type=click.Choice(LOGS),
    multiple=True,
    help="Log each trial as a run of MLflow or of Weights & Biases, as that library is set up.",
)
@click.option(
    "--config",
    metavar="FILE",
    help="File with settings.  [default: farthing.toml, if it exists]",
)
@click.option(
    "--trust",
    is_flag=True,
    help="Import code that is not part of Farthing if the study names it, also from this folder. "
    "Farthing remembers this.",
)
@click.option("--quiet", is_flag=True, help="Print only the result.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["table", "json"]),
    default="table",
    help="Format of the result: table or json.",
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
    """Tune a command within a budget.

    \b
    farthing run --budget 10m --param lr=float:1e-5:1e-1:log \\
        --param depth=int:1:16 -- python train.py --lr {lr} --depth {depth}

    Farthing replaces {name} in the command with the value of the parameter. It also sets the
    variable FARTHING_PARAMS to all parameters as JSON. It uses no shell, so every argument arrives
    unchanged.

    The result is the last printed line that is JSON with a value: {"value": 0.31} or
    {"value": 0.31, "cost": 12.5}. The command may instead write it to the file whose path is in
    FARTHING_RESULT. The quantity of a constraint is another key of it, or a key of the object
    "constraints" in it.

    With --steps 51, a training is paused and resumed. It finds the folder for its checkpoint in
    FARTHING_CHECKPOINT, the step to continue from in FARTHING_STEP, and the step at which it may
    save a checkpoint and exit in FARTHING_UNTIL.

    Run the same command again to resume the study. Changed settings are printed and applied.
    Without --param, the study keeps its parameters and its command: farthing run --budget +10m.
    A file farthing.toml can replace all options.

    Press Ctrl-C once to finish the running trials and end. Press it again to kill them; what they
    used is charged. No result is lost.

    The exit code is 0 if the budget is spent or a rule stopped the study, 1 if no trial succeeded
    or too many failed in a row, 2 after an error, 130 after Ctrl-C and 143 after SIGTERM.
    """
    from farthing.cli.mistakes import check_placeholders, check_quoted
    from farthing.cli.parameters import configuration_of
    from farthing.cli.request import read_request, slots_of
    from farthing.running import CommandTask
    from farthing.running.pool import check_start
    from farthing.view.progress import watching

    check_quoted(options, command[:1])
    file, quiet = read_config(config), quiet or kind != "table"
    if options["param"] or file.params or file.allowed or "command" in file.run:
        say = (lambda sentence: None) if quiet else click.echo
        request = read_request(options, command, file, say=say)
        settings, storage = request.settings, request.storage
        workers, slots = request.workers, request.slots
    else:
        request, (storage, _) = None, locate(options["storage"], "")
        study = _resume(storage, options, command, trust)
        settings, slots = (
            study.current_settings,
            slots_of(options["slots"] or file.run.get("slots")),
        )
        workers = options["workers"] or file.run.get("workers")
    task = CommandTask(settings.command or (), metric=settings.metric)
    loggers = loggers_of(options["log"] or file.run.get("log", ()))
    check_placeholders(task, settings.space.names)
    check_start(task, settings)
    if request is not None:
        study = _open_or_create(request, task, trust)
    for each in options["tries"]:
        study.enqueue(configuration_of(each, study.space.parameters, "--try"), once=True)
    if not quiet:
        _print_start(study, storage, task)
    try:
        parallel = (workers or len(slots or ())) > 1
        with watching(study, quiet=quiet, parallel=parallel) as on_change:
            result = study.run(
                task,
                workers=workers,
                slots=slots,
                callbacks=loggers,
                on_change=lambda _: on_change(),
            )
        code = finish(result, kind, again=same_command())
        print_missing_cost(study, result)
        return code
    finally:
        study.close()


def _open_or_create(request: Request, task: CommandTask, trust: bool) -> Study:
    """Create the study, or open it with changed settings."""
    from farthing.cli.mistakes import check_all_used
    from farthing.cli.trust import check_trust
    from farthing.study import Study

    if request.name not in Study.names(request.storage):
        check_all_used(task, request.settings.space.parameters)
    try:
        study = Study.from_settings(request.storage, request.name, request.settings)
    except InvalidInput as error:
        raise InvalidInput(f"{error}{_how_to_resume(request)}") from None
    if study.own_code:  # `farthing change` has named code that the request does not
        check_trust(study, request.storage, trust)
        changed, overridden = study.changed, study.overridden
        study.close()
        study = Study.from_settings(request.storage, request.name, request.settings, trust=True)
        study.changed, study.overridden = changed, overridden
    if request.more is not None:
        study.changed = {**study.changed, **study.change(budget=request.more)}
    return study


def _how_to_resume(request: Request) -> str:
    """What the parameters of the existing study are, if the request has different ones."""
    from farthing.core.edits import describe_parameter
    from farthing.study import Study

    if request.name not in Study.names(request.storage):
        return ""
    study = Study.open(request.storage, request.name, look=True)
    try:
        space = study.space
    finally:
        study.close()
    if space == request.settings.space:
        return ""
    parameters = (f"{name}: {describe_parameter(each)}" for name, each in space.parameters.items())
    return (
        f" The study has {'; '.join(parameters)}. To resume it with these, leave out --param. To "
        "widen a range, give the wider range to `farthing run` or `farthing change`. To start a "
        "new study, give --name NEW."
    )


def _resume(storage: str, options: dict[str, Any], command: tuple[str, ...], trust: bool) -> Study:
    """Open an existing study, and change the settings that the options name."""
    from farthing.cli.mistakes import check_placeholders
    from farthing.cli.request import NOTHING_TO_TUNE, change
    from farthing.running import CommandTask
    from farthing.study import Study

    if command:  # it may be meant for a new study: only a name selects an existing one
        name = locate(storage, options["name"])[1]
        if options["name"] is None and name not in Study.names(storage):
            check_placeholders(CommandTask(command), ())
            raise InvalidInput(NOTHING_TO_TUNE)
    else:
        check_exists(storage, NOTHING_TO_TUNE)
        name = options["name"] or only_study(storage, "Give one of them: --name NAME")
    study = open_study(storage, name, NOTHING_TO_TUNE, trust=trust)
    if not command and study.current_settings.command is None:
        raise InvalidInput(
            f"Study {study.name!r} has no command. Give it last: farthing run ... -- "
            "python train.py --lr {lr}."
        )
    if command:
        check_placeholders(CommandTask(command), study.space.names)
    study.changed = change(study, options, command)
    return study


def _print_start(study: Study, storage: str, task: CommandTask) -> None:
    """Print whether the study is resumed, and which settings have changed."""
    from farthing.budget.units import format_amount
    from farthing.cli.mistakes import how_to_report, must_be_reported
    from farthing.storage import printable
    from farthing.view.formatting import spent

    if study.history:
        count = format_amount("trials", len(study.history))
        so_far = f"{count}, {spent(study.ledger) or 'nothing'} spent"
        click.echo(f"Resuming study {study.name!r} in {printable(storage)}: {so_far}.")
    elif study.current_settings.learn_from:
        click.echo(f"Learns from {'; '.join(map(str, study.current_settings.learn_from))}.")
    print_changes({n: pair for n, pair in study.changed.items() if (n, pair[0]) != NEW_COMMAND})
    for setting, (given, current) in study.overridden.items():
        name = setting.replace("_", "-")
        click.echo(
            f"Keeping {name} = {current} (changed since the study was created); "
            f"ignoring {name} = {given}."
        )
    resource = must_be_reported(study.current_settings)
    if resource is not None and not any(resource in trial.cost for trial in study.history):
        unit = "counts a cost" if resource == "cost" else f"counts {resource}"
        click.echo(
            f"The study {unit}, which Farthing cannot measure. "
            f"{how_to_report(study.current_settings, resource)}",
            err=True,
        )
    unused = [name for name in study.space.names if name not in task.placeholders]
    if unused:
        names = ", ".join(f"{{{name}}}" for name in unused)
        one = len(unused) == 1
        click.echo(
            f"{names} {'does' if one else 'do'} not appear in the command. The command can read "
            f"{'it' if one else 'them'} from FARTHING_PARAMS.",
            err=True,
        )


def print_missing_cost(study: Study, result: Result) -> None:
    """If a study stopped because the program reported no cost, print how to report it."""
    from farthing.cli.mistakes import how_to_report, must_be_reported

    resource = must_be_reported(study.current_settings)
    if result.stop_reason.kind == "cost_missing" and resource is not None:
        advice = how_to_report(study.current_settings, resource)
        click.echo(f"{advice} Then run again.", err=True)


def finish(result: Result, kind: str, *, again: str) -> int:
    """Print the result; return the exit code.

    Args:
        again: the command that resumes the study.
    """
    from farthing.data.tabular import to_json
    from farthing.view.result import summary

    if kind == "json":
        facts, reason = summary("", result), result.stop_reason
        spent = {name: account["spent"] for name, account in facts["budget"].items()}
        ended = {"best": facts["best"], "stop_reason": reason.sentence, "stop_kind": reason.kind}
        took = {"elapsed_s": result.elapsed_s, "overhead_s": result.overhead_s}
        click.echo(to_json({**ended, "spent": spent, "trials": len(result.history), **took}))
    else:
        click.echo(str(result))
    return exit_code(result, again=again)


def exit_code(result: Result, *, again: str) -> int:
    """The exit code of a run; if it was interrupted or found nothing, also print what to do."""
    from farthing.cli.mistakes import metric_hint
    from farthing.view.formatting import without_controls

    reason = result.stop_reason
    if reason.kind in BY_SIGNAL:
        click.echo(f"All results are saved. Resume with: {again}", err=True)
        return BY_SIGNAL[reason.kind]
    if result.found is None and not result.history.done:
        error = next((trial.error for trial in result.history if trial.error), None)
        first = "" if error is None or reason.includes(error) else f" The first error:\n{error}"
        click.echo(f"No trial succeeded.{without_controls(first + metric_hint(error))}", err=True)
    if reason.kind == "cost_missing":  # the program does not report the cost that the budget needs
        return USAGE
    return NO_SUCCESS if result.failed or result.found is None else 0

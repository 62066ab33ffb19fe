"""`farthing demo`: tune a small neural network that reads digits, and say in plain words how."""

from __future__ import annotations

import math
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from farthing.budget.units import Budget, format_amount
from farthing.cli.options import STORAGE
from farthing.cli.run import exit_code
from farthing.errors import InvalidInput
from farthing.view.formatting import amounts, counted_trials, shown_params, spent

if TYPE_CHECKING:
    from farthing.history import Trial
    from farthing.study import Study
    from farthing.view.result import Result

__all__ = ["demo"]

DATABASE, REPORT, NAME = "farthing-demo.db", "farthing-demo.html", "demo"
WORTH = "1 = 1m"  # one percentage point fewer errors is worth one minute
CLEAR = "\r\x1b[K"  # back to the start of the line, which is erased
USED_UP = "budget_spent", "unaffordable"  # kinds of stop before the rule could decide


@click.command()
@click.option("--budget", default="1m", show_default=True, help="Time to spend.")
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of trials at the same time.",
)
@click.option(
    "--storage",
    metavar="URL",
    envvar=STORAGE,
    help=f"Database for the study.  [default: ${STORAGE}, or {DATABASE}]",
)
@click.option(
    "--name",
    help=f"Name of the study, which is resumed if it exists.  [default: a new one, {NAME}, "
    f"{NAME}-2, ...]",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@click.option("--quiet", is_flag=True, help="Print only the result.")
def demo(
    budget: str, workers: int, storage: str | None, name: str | None, seed: int, quiet: bool
) -> int:
    """Tune a small neural network for at most one minute.

    The network reads handwritten digits, and the demo looks for settings with which it misreads as
    few as possible. Depending on the settings, the network trains in a hundredth of a second or in
    several seconds. The digits are those of scikit-learn, or drawn ones if it is not installed.
    """
    from farthing.cli.digits import SPACE, load, reader
    from farthing.stopping import NotWorthIt
    from farthing.study import Study

    if "s" not in (limits := Budget(budget).limits) or set(limits) - {"s", "trials"}:
        raise InvalidInput(
            f"--budget {budget!r}: the demo spends time. Write for example 30s or 2m."
        )
    url, digits = storage or DATABASE, load()
    study = Study.create(
        url,
        name=name or _new_name(url),
        space=SPACE,
        budget=budget,
        stop=NotWorthIt(),
        worth=WORTH,
        seed=seed,
        retries=1,
    )
    try:
        if not quiet:
            click.echo(_introduction(amounts(limits), digits.source))
        show = _progress(study, quiet)
        result = study.run(reader(digits), workers=workers, on_change=lambda _: show())
        show()  # trials that have finished since the last change
        if not quiet:
            click.echo()
        click.echo(_conclusion(study, result))
        at = f"--storage {_shown(url)}"
        if result.found is not None and not quiet:
            click.echo(_next_commands(result.found.number, study.name, at))
        return exit_code(
            result,
            again=f"{_short(sys.argv[0], 'farthing')} demo {at} --name {shlex.quote(study.name)}",
        )
    finally:
        study.close()


def _new_name(url: str) -> str:
    """The first of `demo`, `demo-2`, ... that the database does not have."""
    from farthing.study import Study

    taken = Study.names(url)
    names = (NAME if number == 1 else f"{NAME}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def _introduction(budget: str, source: str) -> str:
    return f"""\
A small neural network learns to read {source}. How many of them it misreads, and how
long it trains, depends on its settings. Farthing looks for good settings within a budget.

A trial trains the network with one choice of settings and counts the test digits it misreads.
The budget for all trials is {budget}. Farthing stops earlier if no further trial is worth
its time. In this demo, one percentage point fewer errors is worth one minute.

The trials that were better than all before them:"""


def _progress(study: Study, quiet: bool) -> Callable[[], None]:
    """A function that prints the trials that have finished since its last call, if they are best.

    A terminal also shows the number of trials so far, in a line that is overwritten.
    """
    if quiet:
        return lambda: None
    seen, lowest, is_terminal = set[int](), math.inf, sys.stdout.isatty()

    def show() -> None:
        nonlocal lowest
        state = study.seen
        for trial in state.history.done:
            if trial.number not in seen and trial.value is not None:
                seen.add(trial.number)
                if trial.value < lowest:
                    lowest = trial.value
                    click.echo(CLEAR * is_terminal + _trial_line(trial))
        if is_terminal:
            status = f"{counted_trials(len(state.history))}, {spent(state.ledger)}"
            click.echo(f"{CLEAR}{status}", nl=False)

    return show


def _trial_line(trial: Trial) -> str:
    cost = format_amount("s", trial.cost["s"])
    line = f"trial {trial.number:<3} {trial.value:4.1f} % misread, {cost:>7} of training"
    return f"{line}  {shown_params(trial.params)}"


def _conclusion(study: Study, result: Result) -> str:
    """What was found, what it cost, and why the demo stopped."""

    def seconds(amount: float) -> str:
        return format_amount("s", amount)

    best, kind = result.found, result.stop_reason.kind
    costs = [trial.cost["s"] for trial in result.history if "s" in trial.cost]
    facts = {}
    if best is not None:
        facts["best"] = f"{best.value:.1f} % of the test digits are misread, in trial {best.number}"
        facts["settings"] = shown_params(best.params)
    if costs:
        facts["cost"] = f"{seconds(sum(costs))} of training in {counted_trials(len(costs))}"
        if len(costs) > 1:
            facts["cost"] += f", from {seconds(min(costs))} to {seconds(max(costs))} each"
        facts["cost"] += f"; choosing what to try took {seconds(result.overhead_s)}"
    facts["stopped"] = f"after {seconds(result.elapsed_s)}: {_why(result)}"
    if kind == "rule":
        facts["saved"] = f"{seconds(result.ledger['s'].left)} of the budget"
    elif kind in USED_UP and best is not None:
        facts["more time"] = _advice(study)
    return "\n".join(f"{name + ':':<11}{fact}" for name, fact in facts.items())


def _why(result: Result) -> str:
    if result.stop_reason.kind == "rule":
        return "no further trial is expected to be worth its time"
    if result.stop_reason.kind == "unaffordable":
        return "no further trial is likely to fit into the rest of the budget"
    return result.stop_reason.sentence


def _advice(study: Study) -> str:
    """The verdict of the stopping rule on the same trials with a budget of one hour."""
    from farthing.optimizer import Optimizer
    from farthing.stopping import NotWorthIt

    optimizer = Optimizer(study.space, "1h", stop=NotWorthIt(), worth=WORTH)
    for trial in study.history.done:
        optimizer.add(trial.params, trial.value, cost=trial.cost)
    if optimizer.verdict.stop:
        return "even with a larger budget, no further trial is expected to be worth its time"
    return "with a larger budget, further trials are expected to be worth their time"


def _next_commands(best: int, name: str, at: str) -> str:
    """Three commands that work when they are copied."""
    farthing, python = _short(sys.argv[0], "farthing"), _short(sys.executable, "python")
    study = shlex.quote(name)
    return f"""
Try next:

A page with every trial, for a browser:
  {farthing} report {study} {at} -o {REPORT}

Why Farthing tried the best settings:
  {farthing} explain {best} --name {study} {at}

Tune a program: any that prints a line such as {{"value": 2.4}}; here, the network as a program:
  {farthing} run --budget 1m {at} --name program \\
    --param width=int:16:512:log --param rate=float:0.001:0.03:log \\
    -- {python} -m farthing.cli.digits --width {{width}} --rate {{rate}}"""


def _short(program: str, name: str) -> str:
    """How to call a program from the current folder: by its name, or by its path."""
    path = Path(program).absolute()
    if not path.is_file() or shutil.which(path.name) == str(path):
        return path.name if path.is_file() else name
    inside = path.is_relative_to(Path.cwd())
    return shlex.quote(str(path.relative_to(Path.cwd()) if inside else path))


def _shown(url: str) -> str:
    """The address of the database for a command line, without a password."""
    from farthing.storage import printable

    return shlex.quote(url) if printable(url) == url else f'"${STORAGE}"'

"""`hydra/sweeper=farthing`, in apps of the real Hydra."""

import logging
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from processes import PATIENCE

from farthing import Categorical, Float, Int, InvalidInput, Ordinal, Outcome

hydra = pytest.importorskip("hydra")

from hydra.core.override_parser.overrides_parser import OverridesParser  # noqa: E402
from hydra.core.utils import JobReturn, JobStatus  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402

from farthing.integrations.hydra import parameter_of, run_sweep  # noqa: E402

APP = """
import time
import hydra
from hydra.core.config_store import ConfigStore

@hydra.main(version_base=None, config_name="config")
def app(config):
    time.sleep(config.sleep)
    if config.kind == "bad":
        raise ValueError("bad kind")
    with open(config.seen, "a") as file:
        print(config.x, config.model.size, config.kind, config.fixed, file=file)
    value = (config.x - 0.3) ** 2 + config.model.size
    return {"value": value, "cost": 2.0} if config.dollars else value

node = {"x": 0.5, "model": {"size": 1}, "kind": "a", "fixed": 0, "sleep": 0, "dollars": False}
ConfigStore.instance().store(name="config", node=node | {"seen": "seen.txt"})
app()
"""


@pytest.fixture
def sweep(tmp_path):
    """Sweep in an empty folder: the finished process, the results, and what the jobs saw."""
    (tmp_path / "app.py").write_text(APP)

    def run(*overrides):
        (tmp_path / "seen.txt").unlink(missing_ok=True)
        settings = ["hydra/sweeper=farthing", "hydra.sweep.dir=out", f"seen={tmp_path}/seen.txt"]
        done = subprocess.run(
            [sys.executable, "app.py", "--multirun", *settings, *overrides],
            cwd=tmp_path,
            env={**os.environ, "PYTHONWARNINGS": "error::UserWarning"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        results, seen = tmp_path / "out" / "optimization_results.yaml", tmp_path / "seen.txt"
        found = OmegaConf.load(results) if results.exists() else None
        return done, found, seen.read_text().splitlines() if seen.exists() else []

    return run


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x=interval(0, 2)", Float(0, 2)),
        ("x=tag(log, interval(1e-5, 0.1))", Float(1e-5, 0.1, log=True)),
        ("x=int(interval(1, 8))", Int(1, 8)),
        ("x=tag(int, log, interval(1, 64))", Int(1, 64, log=True)),
        ("x=range(1, 9)", Int(1, 8)),
        ("x=range(9, 1, -1)", Int(2, 9)),
        ("x=range(0, 9, 4)", Ordinal([0, 4, 8])),
        ("x=range(0.0, 1.0, 0.25)", Ordinal([0.0, 0.25, 0.5, 0.75])),
        ("x=64,16,32", Ordinal([16, 32, 64])),
        ("x=tag(log, choice(1, 10, 100))", Ordinal([1, 10, 100], log=True)),
        ("x=adam,sgd", Categorical(["adam", "sgd"])),
        ("x=choice(true, false)", Categorical(["True", "False"])),
        ("x='a b','c,d'", Categorical(["'a b'", "'c,d'"])),
        ("x=[1,2],[3,4]", Categorical(["[1,2]", "[3,4]"])),
    ],
)
def test_the_syntax_of_hydra(text, expected):
    (override,) = OverridesParser.create().parse_overrides([text])
    assert parameter_of(override) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x=tag(log, choice(a, b))", "x: a, b have no log scale"),
        ("x=range(3, 4)", "at least two values"),
    ],
)
def test_a_sweep_that_is_no_parameter_is_refused(text, message):
    (override,) = OverridesParser.create().parse_overrides([text])
    with pytest.raises(InvalidInput, match=message):
        parameter_of(override)


@pytest.mark.slow
def test_a_budget_of_trials(sweep):
    params = ["x=interval(0, 1)", "model.size=range(1, 4)", "kind=a,bad,c", "fixed=7"]
    done, results, seen = sweep("hydra.sweeper.budget=5 trials", "hydra.sweeper.jobs=2", *params)
    assert done.returncode == 0, done.stderr
    assert results.trials == 5
    assert results.stopped == "the budget of 5 trials is spent"
    values = [line.split() for line in seen]
    assert 0 < len(values) <= 5
    assert {words[3] for words in values} == {"7"}
    best = min((float(x) - 0.3) ** 2 + int(size) for x, size, *_ in values)
    assert results.best_evaluated_result == pytest.approx(best)
    assert results.best_evaluated_params.kind in ("a", "c")
    failed = done.stdout.count("ValueError: bad kind")
    assert failed + len(values) == 5


@pytest.mark.slow
def test_a_budget_of_seconds(sweep):
    done, results, seen = sweep("hydra.sweeper.budget=2s", "sleep=0.5", "x=interval(0, 1)")
    assert done.returncode == 0, done.stderr
    assert "2.0 s is spent" in results.stopped or "nothing affordable" in results.stopped
    assert 1 <= len(seen) <= 4  # of at least half a second each


def launched(overrides, launch, folder, **options):
    parsed = OverridesParser.create().parse_overrides(overrides)
    options = {"direction": "minimize", "jobs": 1, "storage": None, "name": "a"} | options
    log = logging.getLogger("test")
    value = run_sweep(parsed, launch, str(folder), log, **{"settings": None} | options)
    return value, OmegaConf.load(folder / "optimization_results.yaml")


def test_jobs_at_the_same_time_count_once(tmp_path):
    batches = []

    def launch(batch, first):
        batches.append((first, batch))
        return [JobReturn(status=JobStatus.COMPLETED, _return_value=(0.5, 100.0)) for _ in batch]

    value, results = launched(
        ["x=interval(0, 1)", "y=3"], launch, tmp_path, budget="900s, 4 trials", jobs=3
    )
    assert value == 0.5
    assert [(first, len(batch)) for first, batch in batches] == [(0, 3), (3, 1)]
    lines = [line for _, batch in batches for line in batch]
    assert {line[0] for line in lines} == {"y=3"}
    assert all(0 <= float(line[1].removeprefix("x=")) <= 1 for line in lines)
    assert "4 of 4 trials" in results.spent
    minutes = results.spent.split(" of ")[0]
    assert "ms" in minutes or float(minutes.split()[0]) < 100  # not 400 s


def test_what_a_job_returns_may_have_a_cost_or_be_wrong(tmp_path):
    returned = iter(["text", {"value": 3.0, "cost": 1.0}, Outcome(1.0, cost={"usd": 1.0})])

    def launch(batch, first):
        (_,) = batch
        return [JobReturn(status=JobStatus.COMPLETED, _return_value=(next(returned), 0.1))]

    value, results = launched(
        ["x=interval(0, 1)"], launch, tmp_path, budget="$2", settings={"policy": "random"}
    )
    assert (value, results.spent, results.trials) == (1.0, "$2.00 of $2.00", 3)
    returned = iter([0.5])
    value, results = launched(["x=interval(0, 1)"], launch, tmp_path, budget="$3")
    assert "did not report its cost in usd" in results.stopped
    with pytest.raises(InvalidInput, match="nothing to tune"):
        launched(["x=1"], launch, tmp_path, budget="$3")


@pytest.mark.slow
def test_a_budget_of_dollars_and_a_sweep_that_is_continued(sweep):
    same = ["hydra.sweeper.storage=tune.db", "hydra.sweeper.settings={policy: random}"]
    same += ["dollars=true", "x=interval(0, 1)"]
    done, results, seen = sweep("hydra.sweeper.budget=$4", *same)
    assert done.returncode == 0, done.stderr
    assert (results.spent, len(seen)) == ("$4.00 of $4.00", 2)
    done, results, seen = sweep("hydra.sweeper.budget=$10", *same)
    assert (results.spent, len(seen), results.trials) == ("$10.00 of $10.00", 3, 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["hydra.sweeper.budget=banana", "x=interval(0, 1)"], "'banana' is not a budget"),
        (
            ["hydra.sweeper.budget=9 trials", "kind=bad", "x=interval(0, 1)"],
            "There is no best trial",
        ),
    ],
)
def test_a_mistake_is_one_sentence(sweep, overrides, message):
    done, results, _ = sweep(*overrides)
    assert done.returncode == 1
    assert message in done.stderr
    assert results is None


def test_the_wheel_has_the_plugin():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert packages == ["src/farthing", "src/hydra_plugins"]
    assert not Path(__file__).parents[2].joinpath("src/hydra_plugins/__init__.py").exists()

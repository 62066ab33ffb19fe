"""The problems similar to those of the lookahead paper, and their artefacts."""

import numpy as np
import pytest

from benchmarks import problems
from benchmarks.evidence.artefacts import rollout
from benchmarks.evidence.artefacts.artefact import Settings
from benchmarks.evidence.artefacts.printed import NoRuns
from benchmarks.evidence.replay import Job, replay
from benchmarks.problems import lookahead
from benchmarks.problems.tables import NoData

pd = pytest.importorskip("pandas")


@pytest.fixture
def folder(tmp_path):
    """Invented weather: twelve stations on a line, whose winds change with the place."""
    (tmp_path / "weather").mkdir()
    rng = np.random.default_rng(0)
    lon = np.linspace(-5, 1, 12)
    pd.DataFrame({"id": range(12), "lon": lon, "lat": np.linspace(50, 58, 12)}).to_parquet(
        tmp_path / "weather" / "midas_wind_1969_stations.parquet"
    )
    days = rng.normal(size=(40, 1)) * np.sin(lon) + rng.normal(size=(40, 1)) * np.cos(lon) + 10
    wind = [
        {"id": i, "date": f"1969-{1 + d // 28:02}-{1 + d % 28:02}", "wind_speed_kn": days[d, i]}
        for d in range(40)
        for i in range(12)
        if (d, i) != (3, 4)  # one value is missing
    ]
    pd.DataFrame(wind).to_parquet(tmp_path / "weather" / "midas_wind_1969_daily.parquet")
    return tmp_path


def test_the_deep_well_of_the_toy_is_the_expensive_one():
    toy = problems.load("lookahead/toy")
    x = np.linspace(0, 1, 2001)
    value, cost = np.array([toy.at({"x": v}) for v in x]).T
    assert x[np.argmin(value)] == pytest.approx(0.85, abs=0.01)
    assert value.min() < rollout.REACHED < value[x < 0.6].min()
    assert cost[np.argmin(value)] > 3 * np.median(cost[x < 0.6])


@pytest.mark.parametrize("times", lookahead.TIMES)
def test_the_best_tree_has_depth_8(times):
    problem = problems.load(f"lookahead/depth-{times}")
    depths = range(1, 8 * times + 1)
    values = [problem.at({"depth": depth, "split": 0.1}) for depth in depths]
    assert depths[int(np.argmin([v.value for v in values]))] == 8
    cost = np.array([v.cost for v in values])
    assert np.mean(cost < values[7].cost) == pytest.approx((7 / 8) / times, abs=0.01)


def test_sensors_predict_the_winds_and_pay_for_moves(folder):
    problem = lookahead.sensors(folder)
    places, wind = lookahead.weather(folder)
    assert wind.shape == (40, 12)
    assert np.isfinite(wind).all()

    def standing(at):
        chosen = places[np.asarray(at)]
        return {f"east{i}": p[0] for i, p in enumerate(chosen)} | {
            f"north{i}": p[1] for i, p in enumerate(chosen)
        }

    together, apart = standing([0] * 10), standing(range(1, 11))
    assert problem.at(apart).value < 0.5 * problem.at(together).value
    way = np.sqrt(((places[1:11] - places[0]) ** 2).sum())
    assert problem.move(apart, together) == pytest.approx(lookahead.SET_UP + way)
    assert problem.move(apart, None) == problem.move(apart, apart) == lookahead.SET_UP


@pytest.mark.slow
def test_a_replay_charges_every_move(folder):
    problem = lookahead.sensors(folder)
    run = replay(problem, Job(problem.name, "random", 0, budget=4.0, most=5))
    assert run.error is None
    assert run.costs[0] == lookahead.SET_UP
    assert min(run.costs[1:4]) > 2 * lookahead.SET_UP
    known = replay(problem, Job(problem.name, "EIpu", 0, budget=4.0, most=8))
    assert known.error is None
    assert known.values[-1] is not None  # the cost of a move is known, so nothing is overspent


def test_missing_weather_data_is_an_error_with_a_remedy(tmp_path):
    with pytest.raises(NoData, match="FARTHING_DATA"):
        problems.load("sensors/wind-1969", str(tmp_path))
    with pytest.raises(KeyError, match="lookahead/toy"):
        lookahead.load("lookahead/nothing")
    with pytest.raises(NoRuns):  # without the data of its only problem
        rollout.summary(("sensors/wind-1969",), Settings(data=str(tmp_path), more=False))


def numbers(finals):
    part = {"curve": [0.0] * 101, "evaluations": 9.0, "cost": 1.0, "thinking": 0.1}
    by = {method: {**part, "finals": values} for method, values in finals.items()}
    return {
        "problems": {"lookahead/toy": by},
        "missing": [],
        "limits": {},
        "seeds": {"lookahead/toy": 2},
    }


def test_verdicts_name_the_winner():
    won = numbers(
        {"EI": [3.0, 3.0], "EIpu": [4.0, 4.0], "rollout_2": [1, 3], "rollout_4": [2, 2.5]}
    )
    lost = numbers({"EI": [1.0, 1.0], "EIpu": [4.0, 4.0], "rollout_2": [2, 2], "rollout_4": [2, 2]})
    by_name = {artefact.name: artefact for artefact in rollout.ARTEFACTS}
    verdict = by_name["rollout-figure-4"].verdict
    assert "on 1 of 1 problems" in verdict(won)
    assert "rollout_2 ends below EI in 75 % of the seeds" in verdict(won)
    assert "on 0 of 1 problems" in verdict(lost)
    assert "in 0 % of the seeds" in verdict(lost)
    toy = by_name["rollout-figure-3"].verdict
    reached = numbers({"EI": [0, 0], "EIpu": [0, 0], "rollout_2": [-1.5, 0], "rollout_4": [0, 0]})
    assert "well more often than the myopic" in toy(reached)
    assert "rollout_2 in 50 %" in toy(reached)
    assert "well no more often than the myopic" in toy(
        numbers({m: [0.0, 0.0] for m in rollout.METHODS})
    )

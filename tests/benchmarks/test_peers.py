"""The peers' adapters, as far as they can be checked where their libraries are missing."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from benchmarks import peers
from benchmarks.evidence import install_peers
from benchmarks.evidence.run_peers import environments
from benchmarks.peers._terms import Penalties, from_indexed, indexed, initial, plain
from benchmarks.problems.problem import Evaluation
from farthing import Categorical, Float, Int, Ordinal, Space

SPACE = Space(
    {
        "rate": Float(1e-4, 0.1, log=True),
        "units": Int(16, 512, log=True),
        "batch": Ordinal([4, 16, 64], log=True),
        "activation": Categorical(["relu", "tanh"]),
    }
)
PARAMS = {"rate": 0.01, "units": 32, "batch": 16, "activation": "tanh"}
IMPORTS = {"scikit_optimize": "skopt"}  # where the module is not named as the file


def available(name):
    library = peers.NAMES[name]
    needed = [IMPORTS.get(library, library), *(["torch"] if name == "optuna-gp" else [])]
    return all(find_spec(module) is not None for module in needed)


def test_peers_are_found_in_their_folder():
    assert {"optuna-tpe", "optuna-gp", "flaml-cfo", "smac", "ax"} <= set(peers.NAMES)
    assert peers.NAMES["skopt-eips"] == "scikit_optimize"
    assert set(peers.NAMES.values()) == set(install_peers.read_libraries(install_peers.PEERS))


@pytest.mark.slow
def test_listing_the_peers_imports_no_library():
    code = (
        "import sys; from benchmarks import peers; "
        "print([m for m in ('optuna', 'torch', 'flaml', 'smac', 'skopt') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=install_peers.REPO,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_unknown_peer():
    with pytest.raises(KeyError, match="optuna-tpe"):
        peers.make("optuna", SPACE, budget=1.0, seed=0, evaluations=60)


def test_every_peer_explains_its_settings():
    for library in peers.LIBRARIES:
        module = sys.modules[f"benchmarks.peers.{library}"]
        assert module.__doc__
        assert all(peer.__doc__ for peer in module.PEERS.values())


def test_requirements_are_read_without_import(tmp_path):
    (tmp_path / "broken.py").write_text(
        'import nothing_like_it\nREQUIREMENTS = ("a==1", "b[c]>2")\n'
    )
    (tmp_path / "_helper.py").write_text("")
    libraries = install_peers.read_libraries(tmp_path)
    assert libraries == {"broken": ("a==1", "b[c]>2")}
    assert install_peers.distribution(libraries["broken"]) == "b"
    assert install_peers.distribution(("--no-deps HEBO==0.3.6",)) == "HEBO"
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(SyntaxError, match=r"empty\.py"):
        install_peers.read_libraries(tmp_path)


def test_peers_are_grouped_by_environment(tmp_path):
    record = tmp_path / "peers.json"
    record.write_text(
        json.dumps(
            {
                "optuna": {"python": "shared", "error": None},
                "smac": {"python": "shared", "error": None},
                "flaml": {"python": None, "error": "no wheel"},
            }
        )
    )
    pythons, missing = environments(["smac", "optuna-tpe", "flaml-cfo", "ax"], record)
    assert pythons == {"shared": ["smac", "optuna-tpe"]}
    assert missing["flaml-cfo"] == "no wheel"
    assert "install_peers" in missing["ax"]


def test_ordinals_are_places_in_a_library_without_them():
    assert indexed(SPACE, PARAMS) == {**PARAMS, "batch": 1}
    assert from_indexed(SPACE, {**PARAMS, "batch": 2.0}) == {**PARAMS, "batch": 64}


def test_params_become_plain_and_stay_in_range():
    import numpy as np

    rounded_out = {**PARAMS, "rate": np.float64(0.1) * (1 + 1e-15), "units": np.int64(32)}
    found = plain(SPACE, {**rounded_out, "batch": np.int64(16)})
    assert found == {**PARAMS, "rate": 0.1}
    assert [type(value) for value in found.values()] == [float, int, int, str]


def test_an_initial_design_leaves_evaluations_for_a_model():
    """A fifth of what the budget buys, from 5 to 10; a model is used from 6 evaluations on."""
    assert [initial(n) for n in (6, 15, 30, 60, 240)] == [5, 5, 6, 10, 10]
    assert [initial(n, most=18) for n in (15, 60, 240)] == [5, 12, 18]


def test_a_failure_is_the_worst_value_and_waits_for_one():
    penalties = Penalties()
    assert penalties.tell({"x": 1}, Evaluation(None, 2.0)) == []
    reported = penalties.tell({"x": 2}, Evaluation(5.0, 3.0))
    assert reported == [({"x": 1}, 5.0, 2.0, True), ({"x": 2}, 5.0, 3.0, False)]
    penalties.tell({"x": 3}, Evaluation(4.0, 1.0))
    assert penalties.tell({"x": 4}, Evaluation(None, 1.0)) == [({"x": 4}, 5.0, 1.0, True)]


@pytest.mark.parametrize("name", peers.NAMES)
@pytest.mark.filterwarnings("ignore")
def test_a_peer_asks_valid_params_and_takes_failures_and_rows(name):
    if not available(name):
        pytest.skip(
            f"{peers.NAMES[name]} is not installed: see benchmarks/evidence/install_peers.py"
        )
    method = peers.make(name, SPACE, budget=100.0, seed=0, evaluations=30)
    for i in range(12):
        params = method.ask()
        SPACE.encode(params)
        row = {**params, "units": 64} if i % 3 == 0 else params
        method.tell(row, Evaluation(None if i % 4 == 2 else float(params["rate"]), 1.0 + i))

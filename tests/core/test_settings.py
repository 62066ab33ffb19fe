"""Settings: checks, derived values, and that every interface takes every setting."""

import inspect
import math
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from farthing import Budget, Float, Optimizer, Space, Steps, Study, minimize
from farthing.cli.config import SETTINGS, Config
from farthing.cli.request import read_request
from farthing.cli.run import run
from farthing.core.options import RunOptions, SearchOptions
from farthing.core.settings import Settings
from farthing.cost import Known, Linear, LogGP
from farthing.errors import InvalidInput
from farthing.policies import EI, CArBO, Cooling, EIPerCost, Gittins, Random
from farthing.stopping import MaxTrials, NotWorthIt, Target

SPACE = Space({"a": Float(2, 3)})
FIELDS = {f.name: f.default for f in fields(Settings)}


def of(budget="9s", **given):
    return Settings.of(SPACE, budget, **given)


def price(params):
    return 7.0


# ── refused values ───────────────────────────────────────────────────────────────────────────────

REFUSED = [
    ("space", {}, "at least one parameter"),
    ("space", {"a": 3}, "not a parameter"),
    ("budget", "soon", "is not a budget"),
    ("budget", -1, "positive"),
    ("policy", "carb", "there is no policy 'carb'. Did you mean carbo?"),
    ("policy", 3, r"policy=3 has no method propose\(belief, rng\) and no attribute needs and no"),
    ("policy", EI, r"EI\(\.\.\.\)"),
    ("stop", "soon", "there is no stopping rule 'soon'"),
    ("stop", 3, r"stop=3 has no method __call__\(belief, proposal, rng\) and no attribute needs"),
    ("cost", "log_g", "there is no cost model 'log_g'. Did you mean log_gp?"),
    ("stop", MaxTrials, r"MaxTrials\(\.\.\.\)"),
    ("cost", 3.0, "function of the parameters"),
    ("cost", LogGP, "function of the parameters"),
    ("cost", {"usd": price}, "'usd' has no effect: this study uses the costs in s"),
    ("worth", -1, "positive"),
    ("worth", "much", "NUMBER = PRICE"),
    ("worth", "0.01 = $20", "measured in s"),
    ("direction", "max", '"minimize" or "maximize"'),
    ("direction", None, '"minimize" or "maximize"'),
    ("seed", -1, "whole number of at least 0"),
    ("seed", 1.0, "whole number of at least 0"),
    ("seed", True, "whole number of at least 0"),
    ("retries", -1, "whole number of at least 0"),
    ("retries", 0.5, "whole number of at least 0"),
    ("retries", None, "whole number of at least 0"),
    *(("timeout", bad, "expected seconds.*or a time") for bad in (0, -1, math.inf, True, [1])),
    *(("timeout", bad, "expected seconds.*or a time") for bad in ("$3", "soon", "2 trials")),
    *(("lease", bad, "expected seconds.*or a time") for bad in (0, None, math.nan, "1s, $1")),
    *(("grace", bad, "expected seconds.*or a time") for bad in (None, math.nan, "$1")),
    ("grace", -1, "seconds of at least 0"),
    *(("failures_in_a_row", bad, "0 to continue") for bad in (-1, math.nan, True, "5", None)),
    ("rate", 3, "a price per time"),
    ("rate", "$3", "a price per time"),
    ("rate", "$3.06/h", "has no effect: the budget limits s. Add a budget in usd"),
    ("measure", "gpu", '"wall" or "cpu"'),
    ("start", {"b": 1}, "Unknown parameter 'b'"),
    ("start", [{"a": 99.0}], "start|Parameter 'a'"),
    ("start", ["a=2"], "start='a=2': expected parameters"),
    *(
        ("max_overrun", bad, "a number above 0, or None")
        for bad in (0, -1, math.inf, math.nan, "3", True)
    ),
    ("max_cost", "$2", "max_cost in 'usd' has no effect: the budget limits s"),
    ("max_cost", "3 trials", "max_cost in 'trials' has no effect"),
    ("max_cost", "9x", "max_cost|9x"),
    *(("overhead", bad, "expected a share in") for bad in (0, -1, 2, None, "5 %")),
    ("measure", "cpu", "CPU seconds has no effect"),
    *(("steps", bad, "whole number of steps") for bad in (0, 2.5, "51", True)),
    *(("constraints", bad, "expected") for bad in ({"a": "< 3"}, {"a": 3}, "a <= 3", [1])),
    *(("constraints", {bad: "<= 3"}, "not a name of a quantity") for bad in ("", " a", 3)),
    *(("constraints", {bad: "<= 3"}, "something else") for bad in ("value", "cost", "failed")),
    *(("learn_from", bad, "expected a Source") for bad in ("old.csv", [3], {"a": 1})),
    *(("command", bad, "a program and its arguments") for bad in ("python x", [], [""], [1], {})),
    *(("metric", bad, "expected a key") for bad in ("", None, 3)),
    *(("cwd", bad, "the path of a folder") for bad in ("", 3)),
    *(("logs", bad, "the path of a folder") for bad in ("", False)),
    *(
        ("env", bad, "expected names and strings")
        for bad in ("A=1", {"A": 1}, {"": "1"}, {"A=B": "1"}, {"A": "\0"})
    ),
]


@pytest.mark.parametrize(("name", "given", "match"), REFUSED)
def test_an_invalid_value_is_refused_with_a_clear_error(name, given, match):
    with pytest.raises(InvalidInput, match=match) as refusal:
        Settings.of(**{"space": SPACE, "budget": "9s", name: given})
    said = str(refusal.value)
    assert said.endswith(".")
    assert "\n" not in said
    if name not in ("space", "budget", "start"):
        assert name in said or name == "measure"


def test_every_setting_refuses_some_value():
    assert {name for name, _, _ in REFUSED} == FIELDS.keys() - {"noisy"}


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"policy": CArBO()}, "CArBO needs a budget"),
        ({"stop": NotWorthIt(), "policy": EI()}, "needs the exchange rate"),
        ({"worth": 0.1}, "has no effect: neither EI nor the stopping rule"),
        ({"worth": 0.1, "policy": Gittins(worth=1.0), "budget": 9}, "neither Gittins nor"),
        ({"cost": price}, "has no effect: there is no budget, and EI does not use costs"),
        ({"cost": price, "budget": "9 trials"}, "has no effect"),
        ({"rate": "$3/h"}, "the budget limits nothing"),
        ({"rate": "$3/h", "budget": "2kWh"}, "the budget limits kWh"),
        ({"measure": "cpu", "budget": "$9"}, "has no effect"),
    ],
)
def test_settings_must_fit_together(given, match):
    with pytest.raises(InvalidInput, match=match):
        of(**{"budget": None, **given})


def test_an_unknown_setting_is_refused_everywhere(tmp_path):
    for call in (
        lambda **given: of(**given),
        lambda **given: Optimizer(SPACE, "9s", **given),
        lambda **given: minimize(price, SPACE, "9s", **given),
        lambda **given: Study.create(tmp_path / "a.db", name="a", space=SPACE, **given),
    ):
        with pytest.raises(TypeError, match="argument 'colour'"):
            call(colour=3)
    assert not (tmp_path / "a.db").exists()


@pytest.mark.parametrize(
    "name", sorted(RunOptions.__annotations__.keys() - SearchOptions.__annotations__)
)
def test_run_options_are_refused_without_workers(name):
    """An Optimizer evaluates nothing: a timeout would have no effect."""
    with pytest.raises(TypeError, match=name):
        Optimizer(SPACE, "9s", **{name: FIELDS[name]})
    if name != "failures_in_a_row":
        with pytest.raises(TypeError, match=name):
            minimize(price, SPACE, "9s", **{name: FIELDS[name]})


# ── as a user writes them ────────────────────────────────────────────────────────────────────────


def test_texts_become_numbers():
    made = of("2h", timeout="10m", grace="2s", lease=np.float64(30), command=["sh", "-c", "x"])
    assert (made.timeout, made.grace, made.lease) == (600.0, 2.0, 30.0)
    assert made.budget == Budget({"s": 7200})
    assert made.command == ("sh", "-c", "x")
    assert of(grace=0).grace == 0.0
    assert of(failures_in_a_row=0).failures_in_a_row == math.inf  # as on the command line
    assert of(command=("a",)).command == ("a",)
    assert of(timeout=None).timeout is None
    plain = Settings.of({"a": Float(2, 3)}, Budget(3), noisy=1, seed=np.int64(4))
    assert plain.space == SPACE
    assert plain.budget.limits == {"cost": 3}
    assert plain.noisy is True
    assert type(plain.seed) is int


def test_the_default_policy_depends_on_the_budget():
    assert of("9s").policy == Cooling(first=0.5)
    assert of("9 trials, $3").policy == Cooling(first=0.5)
    assert of("9s", worth=0.1).policy == of("9s", worth="budget").policy == Gittins()
    assert isinstance(of("9 trials").policy, EI)
    assert isinstance(of(None).policy, EI)
    assert of("9s", policy=Random()).policy == Random()


def test_defaults_are_those_of_the_fields():
    made = of()
    for name, default in FIELDS.items():
        if name not in ("space", "budget", "policy"):
            assert getattr(made, name) == default


def test_arguments_are_not_changed():
    given = {"command": ["sh"], "policy": Random(), "timeout": "1m"}
    before = dict(given)
    of(**given)
    assert given == before


# ── derived values ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("budget", "policy", "priced", "needed"),
    [
        ("9s", Random(), ("s",), ("s",)),
        ({"usd": 3, "s": 9, "trials": 4}, Random(), ("usd", "s"), ("usd", "s")),
        ("9 trials", Random(), ("cost",), ()),
        ("9 trials", EIPerCost(), ("cost",), ("cost",)),
        (None, EI(), ("cost",), ()),
        (None, EIPerCost(), ("cost",), ("cost",)),
    ],
)
def test_cost_resources_and_required_costs(budget, policy, priced, needed):
    made = of(budget, policy=policy)
    assert (made.cost_resources, made.required_costs) == (priced, needed)
    assert made.learners == dict.fromkeys(needed, LogGP())


def test_every_required_cost_has_a_learner():
    budget = {"usd": 3, "s": 9}
    one = of(budget, cost=price).learners
    assert one == {"usd": Known(price), "s": LogGP()}
    two = of(budget, cost={"s": Linear(), "usd": price}).learners
    assert two == {"usd": Known(price), "s": Linear()}
    assert list(two) == ["usd", "s"]


def test_worth_is_exchanged_into_the_first_resource():
    assert of("9s").exchange_rate is None
    assert of("9s", worth=0.5).exchange_rate == 0.5
    assert of("$9", worth="0.01 = $20").exchange_rate == pytest.approx(0.0005)
    assert of("2h, $9", worth="3 = 1m").exchange_rate == pytest.approx(0.05)


def test_needs_and_uses_are_those_of_policy_and_rule():
    assert of(policy=Random()).needs == of(policy=Random()).uses == frozenset()
    judged = of(policy=Random(), stop=NotWorthIt(worth=0.1))
    assert judged.needs == {"cost", "model"}
    assert judged.uses == {"cost", "model", "steps"}
    assert of(policy=EI()).uses == {"model"}
    assert of(policy=Random(), stop=Target(0.5)).uses == frozenset()


def test_the_sign_is_flipped_where_the_user_maximises():
    assert of().sign == 1.0
    assert of(direction="maximize").sign == -1.0


def test_the_seed_of_a_trial_is_a_function_of_the_study_s_and_its_number():
    one, other = of(seed=3), of(seed=4)
    seeds = [one.seed_of(number) for number in range(50)]
    assert seeds == [of(seed=3).seed_of(number) for number in range(50)]
    assert len({*seeds, *(other.seed_of(number) for number in range(50))}) == 100
    assert all(type(seed) is int and 0 <= seed < 2**32 for seed in seeds)


# ── every interface takes every setting ──────────────────────────────────────────────────────────

# Options whose names differ from those of their settings.
RENAMED = {
    "param": {"space"},
    "allowed": {"space"},
    "maximize": {"direction"},
    "cost": {"cost", "measure"},
}
OF_STEPS = ("first_step", "resume", "suspended", "checkpoints", "step_value")
RENAMED |= {option: {"steps"} for option in OF_STEPS}
# Options that are no settings: the database, the name of the study, the workers.
WHERE = {"storage", "name", "workers", "slots", "log"}
ONCE = {"config", "quiet", "kind", "tries", "trust"}  # options of one run


def of_signature(taker):
    return {
        name: parameter.default for name, parameter in inspect.signature(taker).parameters.items()
    }


def test_search_and_run_options_are_the_fields_of_settings():
    assert RunOptions.__annotations__.keys() == FIELDS.keys() - {"space", "budget"}
    assert SearchOptions.__annotations__.keys() <= RunOptions.__annotations__.keys()


@pytest.mark.parametrize(
    ("taker", "settings", "others"),
    [
        (Optimizer, SearchOptions, {"space", "budget"}),
        (
            minimize,
            SearchOptions,
            {
                *("objective", "space", "budget", "progress", "failures_in_a_row"),
                *("n_trials", "max_trials", "workers", "callbacks"),
            },
        ),
        (Study.create, RunOptions, {"url", "name", "space", "budget"}),
    ],
)
def test_a_signature_shows_every_setting_with_its_default(taker, settings, others):
    shown = of_signature(taker)
    assert shown.keys() == settings.__annotations__.keys() | others
    for name in shown.keys() & FIELDS.keys() - {"space", "budget", "policy"}:
        assert shown[name] == FIELDS[name]
    assert shown["policy"] is None
    assert shown["budget"] is None


def settings_of(names):
    return {setting for name in names for setting in RENAMED.get(name, {name})}


def test_the_options_of_run_are_the_fields_of_settings():
    options = {parameter.name for parameter in run.params} - ONCE
    assert options > WHERE
    assert settings_of(options - WHERE) == FIELDS.keys()


def test_the_keys_of_the_file_are_the_fields_of_settings():
    # Parameters have their own table.
    assert SETTINGS.keys() > WHERE
    assert settings_of(SETTINGS.keys() - WHERE) | {"space"} == FIELDS.keys()


EARLIER = str(Path(__file__).with_name("earlier.csv"))  # three trials
LEARNT = Optimizer(SPACE, "$9, 9 worker_s", learn_from=EARLIER).facts[0].learn_from

# The command-line option, the key in the file, and the setting.
WRITTEN = {
    "param": (["--param", "b=float:2:3"], None, ("space", Space({"b": Float(2, 3)}))),
    "budget": (
        ["--budget", "7 worker_s, $3"],
        "7 worker_s, $3",
        ("budget", Budget("7 worker_s, $3")),
    ),
    "policy": (["--policy", "random"], "random", ("policy", Random())),
    "stop": (["--stop", "max_trials(3)"], ["max_trials(3)"], ("stop", MaxTrials(3))),
    "cost": (["--cost", "linear"], "linear", ("cost", Linear())),
    "measure": (["--cost", "cpu"], "cpu", ("measure", "cpu")),
    "worth": (["--worth", "0.01"], 0.01, ("worth", 0.01)),
    "maximize": (["--maximize"], True, ("direction", "maximize")),
    "noisy": (["--noisy"], True, ("noisy", True)),
    "seed": (["--seed", "3"], 3, ("seed", 3)),
    "start": (["--start", "a=2.5"], {"a": 2.5}, ("start", ({"a": 2.5},))),
    "max_overrun": (["--max-overrun", "3"], 3, ("max_overrun", 3.0)),
    "max_cost": (["--max-cost", "$2"], "$2", ("max_cost", {"usd": 2.0})),
    "overhead": (["--overhead", "0.2"], 0.2, ("overhead", 0.2)),
    "steps": (["--steps", "51"], 51, ("steps", Steps(51))),
    "timeout": (["--timeout", "2m"], "2m", ("timeout", 120.0)),
    "retries": (["--retries", "2"], 2, ("retries", 2)),
    "failures_in_a_row": (["--failures-in-a-row", "0"], 0, ("failures_in_a_row", math.inf)),
    "grace": (["--grace", "2"], 2, ("grace", 2.0)),
    "lease": (["--lease", "3s"], "3s", ("lease", 3.0)),
    "rate": (["--rate", "$3/h"], "$3/h", ("rate", "$3/h")),
    "metric": (["--metric", "loss"], "loss", ("metric", "loss")),
    "command": (["--", "echo", "{a}"], ["echo", "{a}"], ("command", ("echo", "{a}"))),
    "constraints": (
        ["--constraint", "a <= 3", "--constraint", "b b>=0.5"],
        ["a <= 3", "b b>=0.5"],
        ("constraints", {"a": "<= 3.0", "b b": ">= 0.5"}),
    ),
    "learn_from": (["--learn-from", EARLIER], [EARLIER], ("learn_from", LEARNT)),
    "cwd": (["--cwd", "/sub"], "/sub", ("cwd", "/sub")),
    "env": (["--env", "A=b=c"], {"A": "b=c"}, ("env", {"A": "b=c"})),
    "logs": (["--logs", "/kept"], "/kept", ("logs", "/kept")),
}


def requested(options, file):
    """The settings from a command line and a file, as `farthing run` reads them."""
    given = run.make_context("run", list(options)).params
    command = given.pop("command")
    for name in ONCE:
        given.pop(name)
    return read_request(given, command, Config(*file)).settings


@pytest.mark.parametrize("name", WRITTEN)
def test_an_option_and_a_key_of_the_file_make_the_setting(name):
    option, key, (setting, expected) = WRITTEN[name]
    basis = {"budget": "$9, 9 worker_s", "command": ["true"]}
    params = {} if name == "param" else {"a": "float:2:3"}
    made = requested(option, (basis, params))
    assert getattr(made, setting) == expected
    assert getattr(requested([], (basis, {"a": "float:2:3"})), setting) != expected
    if name != "param":
        key_name = "cost" if name == "measure" else name
        from_file = requested([], ({**basis, key_name: key}, params))
        assert getattr(from_file, setting) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--steps", "1,3,9,27"], Steps(27, rungs=(1, 3, 9, 27))),
        (["--steps", "51", "--first-step", "3"], Steps(51, first=3)),
        (["--steps", "51", "--resume", "never"], Steps(51, resume="never")),
        (["--steps", "51", "--resume", "2.5"], Steps(51, resume=2.5)),
        (["--steps", "51", "--step-value", "last"], Steps(51, value="last")),
        (["--steps", "51", "--checkpoints", "20GB"], Steps(51, checkpoints="20GB")),
        (
            ["--steps", "51", "--resume", "suspend", "--suspended", "3"],
            Steps(51, resume="suspend", suspended=3),
        ),
    ],
)
def test_the_command_line_sets_all_of_steps(options, expected):
    basis = {"budget": "9s", "command": ["true"]}
    assert requested(options, (basis, {"a": "float:2:3"})).steps == expected
    named = zip(options[::2], options[1::2], strict=True)
    keys = {option[2:].replace("-", "_"): text for option, text in named}
    keys |= {key: int(keys[key]) for key in ("first_step", "suspended") if key in keys}
    assert requested([], ({**basis, **keys}, {"a": "float:2:3"})).steps == expected


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--resume", "never"], "--resume never has no effect without steps"),
        (["--steps", "many"], "--steps many: expected the last step"),
        (["--steps", "51", "--resume", "often"], "expected 'checkpoint'"),
    ],
)
def test_the_command_line_refuses_impossible_steps(options, match):
    with pytest.raises(InvalidInput, match=match):
        requested(options, ({"budget": "9s", "command": ["true"]}, {"a": "float:2:3"}))


def test_there_is_an_example_for_every_setting():
    assert {setting for _, _, (setting, _) in WRITTEN.values()} == FIELDS.keys()


def test_the_command_line_takes_a_worth_if_the_policy_uses_it():
    """The default policy under a budget uses it, so that no stopping rule is needed."""
    words = ["--worth", "0.01", "--budget", "10m", "--param", "a=float:2:3", "true"]
    made = requested(words, ({}, {}))
    assert made.exchange_rate == 0.01
    assert made.stop is None
    assert Optimizer(SPACE, "10m", worth=0.01).worth == 0.01
    with pytest.raises(InvalidInput, match=r"--worth 0\.01 has no effect"):
        requested([*words[:4], "--policy", "random", *words[4:]], ({}, {}))


@pytest.mark.parametrize(
    ("call", "given", "sentence"),
    [
        (minimize, "n_trails", "minimize() has no argument 'n_trails'. Did you mean 'n_trials'?"),
        (Optimizer, "polcy", "Optimizer() has no argument 'polcy'. Did you mean 'policy'?"),
        (Study.create, "time_out", "Study.create() has no argument 'time_out'. Did you mean 'time"),
        (Optimizer, "zzz", "Optimizer() has no argument 'zzz'. It has space, budget, policy, stop"),
    ],
)
def test_a_misspelt_argument_names_the_nearest_one(call, given, sentence):
    with pytest.raises(TypeError, match=re.escape(sentence)):
        call(**{given: 3})


def test_a_misspelt_change_names_the_nearest_setting():
    with pytest.raises(InvalidInput, match=r"Did you mean 'policy'\?"):
        Optimizer(SPACE, "9s").change(polcy="ei")

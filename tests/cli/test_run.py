"""`farthing run`: what it runs, how it resumes, and how it ends."""

import json
import re

import pytest


def rows(farthing, *arguments):
    result = farthing("trials", "--format", "json", *arguments)
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_all_kinds_of_parameters(farthing, quick, tmp_path):
    (tmp_path / "train.sh").write_text(
        'echo "$2,$4,$6,$7" >> seen; echo "{\\"value\\": $2, \\"cost\\": $4}"\n'
    )
    result = farthing(
        *("run", *quick, "--param", "lr=float:1e-5:1e-1:log", "--param", "depth=int:1:16"),
        *("--param", "loss=choice:hinge,log", "--param", "batch=ordinal:16,32,64:log", "--"),
        *("sh", "train.sh", "--lr", "{lr}", "--depth", "{depth}", "--loss", "{loss}", "-b{batch}"),
    )
    assert (result.code, result.err) == (0, "")
    seen = [line.split(",") for line in (tmp_path / "seen").read_text().splitlines()]
    assert len(seen) == 3
    stored = rows(farthing)
    expected = [{**row["params"], "batch": f"-b{row['params']['batch']}"} for row in stored]
    assert seen == [[str(value) for value in params.values()] for params in expected]
    assert [row["value"] for row in stored] == [row["params"]["lr"] for row in stored]
    assert [row["cost"] for row in stored] == [{"cost": row["params"]["depth"]} for row in stored]
    assert all(row["state"] == "done" and "uniform" in row["because"] for row in stored)


def test_no_dashes_are_needed_before_the_command(farthing, quick, printing):
    result = farthing("run", *quick, "--param", "x=float:0:1", *printing("{x}"))
    assert result.code == 0
    assert re.search(r"^best: +\S+ \(trial \d\) at x=", result.out, re.MULTILINE)


@pytest.mark.slow
def test_lines_for_a_file_and_only_the_result_when_quiet(farthing, quick, printing):
    run = ["run", *quick, "--param", "x=float:0:1"]
    lines = farthing(*run, "--", *printing("{x}")).out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        *("trial 0", "trial 1", "trial 2", "stopped", "best", "spent")
    ]
    quiet = farthing(*run, "--name", "q", "--quiet", "--", *printing("{x}")).out.splitlines()
    assert [line.split(":")[0] for line in quiet] == ["stopped", "best", "spent"]
    data = json.loads(farthing(*run, "--name", "j", "--format", "json", "--", *printing("{x}")).out)
    assert data["trials"] == 3
    assert data["best"]["value"] == data["best"]["params"]["x"]


def test_the_same_command_resumes_the_study(farthing, quick, printing):
    run = ["run", "--policy", "random", "--param", "x=float:0:1", "--budget", "5 trials"]
    limited = [*run, "--stop", "max_trials(2)", "--name", "a", "--", *printing("{x}")]
    assert "Resuming" not in farthing(*limited).out
    before = rows(farthing, "--name", "a")
    result = farthing(*limited)
    assert result.code == 0
    assert "Resuming study 'a' in farthing.db: 2 trials" in result.out
    assert rows(farthing, "--name", "a") == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (
            ["--param", "x=float:0.5:1"],
            "is 0 to 1 and cannot become 0.5 to 1: it can only get a wider",
        ),
        (["--param", "y=float:0:1"], "Parameter 'y' is new"),
        (["--maximize"], 'trials with direction="minimize"'),
        (["--metric", "acc"], "are its command's 'value'"),
    ],
)
def test_a_change_that_does_not_fit_the_study_is_refused(study, quick, printing, other, sentence):
    again = ["run", *quick, *([] if "x=" in other[-1] else ["--param", "x=float:0:1"])]
    result = study(*again, *other, "--", *printing("{x}"))
    assert (result.code, result.out) == (2, "")
    assert "There is already a study 'default' in sqlite:///farthing.db. " in result.err
    assert sentence in result.err
    assert len(result.err.splitlines()) == 1


@pytest.mark.slow
def test_parameters_arrive_unchanged(farthing, quick, tmp_path):
    options = ["a b", "--x", 'it\'s "quoted"', "two\nlines", "$HOME `ls` *", "{x}", ""]
    quoted = ",".join('"' + option.replace('"', '""') + '"' for option in options)
    (tmp_path / "take.sh").write_text(
        'printf \'%s\\0%s\\0\' "$1" "$2" >> seen; echo \'{"value": 1}\'\n'
    )
    result = farthing(
        *("run", "--policy", "random", "--budget", "12 trials", "--param", f"x=choice:{quoted}"),
        *("--param", "y=float:0:1", "--", "sh", "take.sh", "{x}", "<{x}>{{x}}", "{y}"),
    )
    assert result.code == 0, result.err
    seen = (tmp_path / "seen").read_text().split("\0")[:-1]
    chosen = [row["params"]["x"] for row in rows(farthing)]
    assert seen[::2] == chosen
    assert seen[1::2] == [f"<{option}>{{x}}" for option in chosen]
    assert len(set(chosen)) > 3  # of twelve draws from seven


def test_metric_maximize_and_result_file(farthing, quick):
    result = farthing(
        *("run", *quick, "--param", "x=float:0:1", "--metric", "acc", "--maximize", "--"),
        *("sh", "-c", 'echo "{\\"acc\\": $0}" > "$FARTHING_RESULT"; echo noise', "{x}"),
    )
    assert result.code == 0
    stored = rows(farthing)
    best = json.loads(farthing("best", "--format", "json").out)
    assert best["value"] == max(row["value"] for row in stored) == best["params"]["x"]


def test_a_rate_makes_dollars_of_seconds(farthing, quick):
    result = farthing(
        *("run", "--policy", "random", "--budget", "$1, 3 trials", "--rate", "$3.6/h"),
        *("--param", "x=float:0:1", "--", "sh", "-c", 'echo "{\\"value\\": $0}"', "{x}"),
    )
    assert result.code == 0, result.err
    for row in rows(farthing):
        assert row["cost"]["usd"] == pytest.approx(row["run_s"] * 3.6 / 3600)


@pytest.mark.slow
def test_a_study_on_every_database(farthing, url, printing):
    run = ["run", "--policy", "random", "--budget", "3 trials", "--param", "x=float:0:1"]
    result = farthing(*run, "--storage", url, "--name", "a b", "--", *printing("{x}"))
    assert result.code == 0, result.err
    where = ["--storage", url, "--name", "a b"]
    assert [row["state"] for row in rows(farthing, *where)] == ["done"] * 3
    assert "3 of 3 trials spent" in farthing("status", *where).out
    assert "Resuming" in farthing(*run, *where, "--", *printing("{x}")).out
    assert farthing("stop", *where).code == 0
    assert farthing("worker", url, "a b").code == 0


@pytest.mark.slow
def test_several_workers_share_a_study(farthing, printing):
    result = farthing(
        *("run", "--policy", "random", "--budget", "6 trials", "--workers", "2"),
        *("--param", "x=float:0:1", "--", *printing("{x}")),
    )
    assert result.code == 0, result.err
    assert [row["number"] for row in rows(farthing)] == list(range(6))
    assert sorted(re.findall(r"^trial (\d)", result.out, re.MULTILINE)) == list("012345")


@pytest.mark.slow
def test_a_file_sets_what_options_do_not(farthing, tmp_path):
    (tmp_path / "farthing.toml").write_text(
        """
        [run]
        budget = "3 trials"
        policy = "random"
        name = "from-file"
        failures-in-a-row = 2
        command = ["sh", "-c", 'echo "{\\"value\\": $0}"', "{x}", "{m?}"]

        [params]
        x = "float:0:1"
        kind = {type = "choice", values = ["a", "b"]}
        m = {type = "float", low = 0, high = 1, when = {kind = "a"}}
        """
    )
    assert farthing("run").code == 0
    assert len(rows(farthing)) == 3  # the file names the study
    assert {("m" in row["params"]) == (row["params"]["kind"] == "a") for row in rows(farthing)} == {
        True
    }
    result = farthing("run", "--name", "mine", "--budget", "1 trials", "--param", "x=float:5:6")
    assert result.code == 0
    (only,) = rows(farthing, "--name", "mine")
    assert 5 <= only["params"]["x"] <= 6


def test_zero_failures_in_a_row_means_no_limit(farthing):
    result = farthing(
        *("run", "--policy", "random", "--budget", "3 trials", "--failures-in-a-row", "0"),
        *("--param", "x=float:0:1", "--", "sh", "-c", "exit 3"),
    )
    assert [row["state"] for row in rows(farthing)] == ["failed"] * 3, result.err


def test_a_policy_of_this_folder(farthing, printing, tmp_path):
    (tmp_path / "middle_policy.py").write_text(
        "from dataclasses import dataclass\n"
        "from farthing.policies import Random\n"
        "@dataclass(frozen=True)\n"
        "class Mine:\n"
        "    needs = reads = frozenset()\n"
        "    def propose(self, belief, rng): return Random().propose(belief, rng)\n"
    )
    result = farthing(
        *("run", "--policy", "middle_policy:Mine", "--budget", "2 trials"),
        *("--param", "x=float:0:1", "--", *printing("{x}")),
    )
    assert result.code == 0, result.err
    assert len(rows(farthing)) == 2


def test_any_of_several_rules_stops(farthing, printing):
    result = farthing(
        *("run", "--policy", "random", "--stop", "max_trials(3)", "--stop", "target(-1)"),
        *("--param", "x=float:0:1", "--", *printing("{x}")),
    )
    assert result.code == 0
    assert "stopped: 3 of at most 3 trials" in result.out


@pytest.mark.parametrize("workers", [4, 16])
@pytest.mark.parametrize("more", [(), ("--policy", "random"), ("--cost", "point_estimate")])
def test_a_budget_is_kept_at_a_parallel_start(farthing, workers, more):
    """Each trial costs $1, which it reports at its end. Without waiting, all workers start one."""
    command = ("sh", "-c", 'sleep 0.5; echo "{\\"value\\": {x}, \\"cost\\": 1}"')
    arguments = ("--budget", "$2", "--workers", str(workers), "--param", "x=float:0:1", *more)
    result = farthing("run", *arguments, "--", *command)
    assert result.code == 0, result.err
    assert [row["cost"] for row in rows(farthing)] == [{"usd": 1.0}] * 2


def test_with_max_cost_workers_start_together(farthing):
    command = ("sh", "-c", 'sleep 0.5; echo "{\\"value\\": {x}, \\"cost\\": 1}"')
    arguments = ("--budget", "$4", "--workers", "4", "--param", "x=float:0:1", "--max-cost", "$1")
    result = farthing("run", *arguments, "--", *command)
    assert result.code == 0, result.err
    assert "Waiting" not in result.out
    assert [row["cost"] for row in rows(farthing)] == [{"usd": 1.0}] * 4


RICH = [
    *("--param", "width=int:16:64:step=16", "--param", "layers=int:1:3"),
    *("--param", "drop=float:0:0.5:step=0.1:when=layers>=2"),
    *("--param", "norm=bool", "--param", "eps=float:0:1:when=norm=true:when=layers>=2"),
    *("--param", "solver=choice:sgd,adam", "--param", "momentum=float:0:1"),
    *("--allowed", "solver=sgd,momentum=0.9", "--allowed", "solver=adam"),
]


def check_rich(params):
    assert params["width"] in (16, 32, 48, 64)
    assert ("drop" in params) == (params["layers"] >= 2)
    assert ("eps" in params) == (params["layers"] >= 2 and params["norm"])
    assert params.get("momentum") == {"sgd": 0.9, "adam": None}[params["solver"]]


def test_steps_conditions_and_combinations_in_the_shell(farthing, tmp_path):
    (tmp_path / "train.sh").write_text('echo "$@" >> seen; echo "{\\"value\\": $1}"\n')
    run = ["run", "--policy", "random", *RICH, "--", "sh", "train.sh", "{width}", "{norm}"]
    run += ["{layers}", "{solver}", "--drop={drop?}", "--eps={eps?}", "--momentum={momentum?}"]
    result = farthing(*run[:3], "--budget", "12 trials", *run[3:])
    assert (result.code, result.err) == (0, "")
    stored = [row["params"] for row in rows(farthing)]
    for params in stored:
        check_rich(params)
    assert {params["norm"] for params in stored} == {True, False}
    seen = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]
    assert [words[1] for words in seen] == [str(params["norm"]).lower() for params in stored]
    for words, params in zip(seen, stored, strict=True):
        optional = [f"--{n}={params[n]}" for n in ("drop", "eps", "momentum") if n in params]
        assert words[4:] == optional
    again = farthing(*run[:3], "--budget", "14 trials", *run[3:])
    assert again.code == 0
    assert len(rows(farthing)) == 14
    wider = farthing("change", "--param", "width=int:0:96:step=16")
    assert wider.code == 0, wider.err
    assert "width" in wider.out
    more = [*RICH[-4:], "--allowed", "solver=adam,momentum=0.5"]
    assert farthing("change", *more).code == 0
    refused = farthing("change", "--allowed", "solver=adam")
    assert (
        "can only get more allowed combinations" in refused.err or "same parameters" in refused.err
    )
    assert refused.code == 2


def test_a_file_with_conditions_and_combinations(farthing, tmp_path):
    (tmp_path / "farthing.toml").write_text(
        """
        [run]
        budget = "6 trials"
        policy = "random"
        command = ["sh", "-c", 'echo "{\\"value\\": $0}" # reads FARTHING_PARAMS', "{width}"]

        [params]
        width = {type = "int", low = 16, high = 64, step = 16}
        layers = "int:1:3"
        drop = {type = "float", low = 0, high = 0.5, when = {layers = {at_least = 2}}}
        norm = {type = "bool"}
        eps = "float:0:1:when=layers>=2:when=norm=true"
        solver = "choice:sgd,adam"
        momentum = "float:0:1"

        [[allowed]]
        solver = "sgd"
        momentum = 0.9

        [[allowed]]
        solver = "adam"
        """
    )
    result = farthing("run")
    assert result.code == 0, result.err
    for row in rows(farthing):
        check_rich(row["params"])
    (tmp_path / "farthing.toml").write_text("allowed = 3")
    assert "expected a table [[allowed]]" in farthing("run").err


def test_control_sequences_of_a_trial_are_shown_and_not_executed(farthing):
    script = "printf '\\033]0;mine\\007 broken\\033[2J\\n' >&2; exit 3"
    budget = ["--budget", "2 trials", "--failures-in-a-row", "1", "--param", "x=float:0:1"]
    result = farthing("run", *budget, "--", "sh", "-c", script)
    assert "broken" in result.out + result.err
    assert not {"\x1b", "\x07"} & set(result.out + result.err)
    assert "\\x1b]0;mine" in result.out + result.err

"""Separate processes: Ctrl-C, several workers, a requested stop, a terminal, the demo."""

import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from processes import FOREVER, Pids, wait_until

import farthing
from farthing import Float, Study
from farthing.cli import main

SLOW = f'echo $$ >> pids; sleep {FOREVER} & echo $! >> pids; wait; echo "{{\\"value\\": $0}}"'
UNTIL_GO = 'echo $$ >> pids; while ! [ -e go ]; do sleep 0.05; done; echo "{\\"value\\": $0}"'
RUN = ["run", "--policy", "random", "--budget", f"{FOREVER}s", "--grace", "0.2s"]
RUN += ["--lease", f"{FOREVER}s", "--param", "x=float:0:1"]


@pytest.fixture
def pids(tmp_path):
    noted = Pids(tmp_path / "pids")
    yield noted
    noted.kill()


class Process:
    """The command line in a forked process: a fresh one would need seconds for its imports."""

    def __init__(self, tmp_path, *arguments, terminal=False, **environment):
        self.out, self.err = tmp_path / f"out-{id(self)}", tmp_path / f"err-{id(self)}"
        self.pid, self._terminal = pty.fork() if terminal else (os.fork(), None)
        self._code, self._seen = None, b""
        if self.pid == 0:
            try:
                self._become(tmp_path, arguments, terminal, environment)
            except SystemExit as exit:
                sys.stdout.flush()
                os._exit(exit.code)
            finally:
                os._exit(99)

    def _become(self, tmp_path, arguments, terminal, environment):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a shell, even under nohup
        os.chdir(tmp_path)
        os.environ.update(environment)
        if not terminal:
            os.setsid()
            os.dup2(os.open(self.out, os.O_WRONLY | os.O_CREAT), 1)
        os.dup2(os.open(self.err, os.O_WRONLY | os.O_CREAT), 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        sys.argv = ["farthing", *arguments]
        main()

    def ended(self):
        """(exit code, stdout, stderr) of a process that is about to end."""
        if self._terminal is not None:
            while self._reads():
                pass
            os.close(self._terminal)
        assert wait_until(self._has_ended)
        out = self._seen.decode() if self._seen else self.out.read_text()
        return self._code, out, self.err.read_text()

    def shows(self, text):
        """Wait for a text in the terminal."""
        while text.encode() not in self._seen:
            assert self._reads(), self._seen.decode()

    def seen_so_far(self):
        """The contents of the terminal, without waiting for more."""
        while select.select([self._terminal], [], [], 0)[0] and self._reads():
            pass
        return self._seen.decode(errors="replace")

    def _reads(self):
        """Whether the terminal had more to read; its end raises an error."""
        chunk = b""
        with suppress(OSError):
            chunk = os.read(self._terminal, 4096)
        self._seen += chunk
        return bool(chunk)

    def _has_ended(self):
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code is not None

    def kill(self):
        if not self._has_ended():
            os.killpg(self.pid, signal.SIGKILL)
            wait_until(self._has_ended)


@pytest.fixture
def begin(tmp_path):
    """`begin("run", ...)` starts a process, which is killed after the test."""
    started = []

    def start(*arguments, **how):
        started.append(Process(tmp_path, *arguments, **how))
        return started[-1]

    yield start
    for process in started:
        process.kill()


def trials(tmp_path, name="default", database="farthing.db"):
    study = Study.open(tmp_path / database, name)
    try:
        return study.records()
    finally:
        study.close()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_twice_kills_and_charges_and_the_study_can_be_resumed(
    begin, tmp_path, pids, workers
):
    arguments = [*RUN, "--workers", str(workers)]
    run = begin(*arguments, "--", "sh", "-c", SLOW, "{x}")
    assert wait_until(lambda: len(pids.all) == 2 * workers)
    for times in (1, 2):
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does
        text = "to finish" if times == 1 else "killing trial"
        assert wait_until(lambda text=text: text in run.err.read_text())
    code, out, err = run.ended()
    assert code == 130
    assert "stopped: interrupted from the keyboard" in out
    assert "All results are saved. Resume with: farthing run --policy random" in err
    assert "Traceback" not in err
    assert wait_until(lambda: pids.alive == [])
    killed = trials(tmp_path)
    assert [row["state"] for row in killed] == ["killed"] * workers
    assert all(row["cost"]["s"] > 0 for row in killed)
    # The same command resumes the study; its trials are quick now.
    quick = 'echo "{\\"value\\": $0}"; echo $$ >> pids'
    run = begin(*arguments, "--", "sh", "-c", quick, "{x}")
    assert wait_until(lambda: "done" in [row["state"] for row in trials(tmp_path)])
    os.kill(run.pid, signal.SIGINT)
    code, out, _ = run.ended()
    assert code == 130
    assert f"Resuming study 'default' in farthing.db: {workers} trial" in out
    assert [row["state"] for row in trials(tmp_path)][:workers] == ["killed"] * workers
    assert "done" in [row["state"] for row in trials(tmp_path)]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_third_ctrl_c_skips_the_grace_period_and_charges(begin, tmp_path, pids, workers):
    stubborn = f'trap "" TERM INT; echo $$ >> pids; sleep {FOREVER}'
    terms = ["--grace", f"{FOREVER}s", "--workers", str(workers)]
    run = begin(*RUN, *terms, "--", "sh", "-c", stubborn, "{x}")
    assert wait_until(lambda: len(pids.all) == workers)
    for text in ("to finish", "killing trial"):
        os.kill(run.pid, signal.SIGINT)
        assert wait_until(lambda text=text: text in run.err.read_text())
    os.kill(run.pid, signal.SIGINT)
    code, _, err = run.ended()
    assert (code, "Traceback" in err) == (130, False)
    assert wait_until(lambda: pids.alive == [])
    charged = trials(tmp_path)
    assert [(row["state"], row["cost"]["s"] > 0) for row in charged] == [("killed", True)] * workers


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("group", [True, False], ids=["terminal", "kill"])
def test_ctrl_c_once_finishes_the_running_trials(begin, tmp_path, pids, workers, group):
    run = begin(*RUN, "--workers", str(workers), "--", "sh", "-c", UNTIL_GO, "{x}")
    assert wait_until(lambda: len(pids.all) == workers)
    (os.killpg if group else os.kill)(run.pid, signal.SIGINT)
    assert wait_until(lambda: "to finish" in run.err.read_text())
    (tmp_path / "go").touch()
    code, out, err = run.ended()
    assert code == 130
    numbers = ", ".join(map(str, range(workers)))
    expected = f"Ctrl-C: waiting for trial{'s' * (workers > 1)} {numbers} to finish."
    assert err.splitlines()[0].startswith(expected)
    assert "stopped: interrupted from the keyboard" in out
    assert "All results are saved. Resume with: farthing run" in err
    assert [row["state"] for row in trials(tmp_path)] == ["done"] * workers


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_kills_and_prints_a_message(begin, tmp_path, pids, workers):
    run = begin(*RUN, "--workers", str(workers), "--", "sh", "-c", SLOW, "{x}")
    assert wait_until(lambda: len(pids.all) == 2 * workers)
    os.kill(run.pid, signal.SIGTERM)
    code, out, err = run.ended()
    assert code == 143
    assert err.startswith("SIGTERM: killing trial")
    assert "stopped: ended by SIGTERM" in out
    rows = trials(tmp_path)
    assert [row["state"] for row in rows] == ["killed"] * workers
    assert {row["error"] for row in rows} == {"ended by SIGTERM"}
    assert wait_until(lambda: pids.alive == [])


def test_ctrl_c_in_a_terminal_is_shown_beside_the_bar(begin, tmp_path, pids):
    look = {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    run = begin(*RUN, "--", "sh", "-c", UNTIL_GO, "{x}", terminal=True, **look)
    run.shows("trial 0: ")
    os.kill(run.pid, signal.SIGINT)
    assert wait_until(lambda: "to finish" in run.err.read_text() + run.seen_so_far())
    (tmp_path / "go").touch()
    assert run.ended()[0] == 130


def test_following_a_log_continues_until_the_trial_has_ended(begin, tmp_path):
    run = begin(
        *RUN, "--stop", "max_trials(1)", "--", "sh", "-c", f"echo started; {UNTIL_GO}", "{x}"
    )
    log = tmp_path / "farthing.db-logs" / "default" / "0.log"
    assert wait_until(lambda: log.exists() and log.read_text() == "started\n")
    assert begin("logs", "0").ended()[:2] == (0, "started\n")
    following = begin("logs", "0", "--follow")
    assert wait_until(lambda: following.out.exists() and following.out.read_text() == "started\n")
    (tmp_path / "go").touch()
    assert run.ended()[0] == 0
    code, out, err = following.ended()
    assert (code, err) == (0, f"{log}:\n")
    assert out == log.read_text() != "started\n"


@pytest.mark.slow
@pytest.mark.parametrize("now", [False, True])
def test_stop_reaches_every_worker(begin, tmp_path, pids, now):
    run = begin(*RUN, "--", "sh", "-c", SLOW if now else UNTIL_GO, "{x}")
    assert wait_until(lambda: bool(pids.all))
    assert wait_until(lambda: trials(tmp_path)[0]["cost"] != {})  # its worker has reported
    result = begin(*(["stop", "--now"] if now else ["stop"])).ended()
    (tmp_path / "go").touch()
    code, out, err = run.ended()
    assert result[0] == 0
    assert ("Killing trial 0" if now else "Waiting for trial 0") in result[1]
    assert "stopped: a stop was requested" in out
    (row,) = trials(tmp_path)
    assert (code, row["state"]) == ((1, "killed") if now else (0, "done"))
    assert row["cost"]["s"] > 0
    assert "Traceback" not in err
    assert wait_until(lambda: pids.alive == [])


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_outlives_the_shell_that_started_it(tmp_path, pids, workers):
    """As after a log-out: `nohup farthing run ... &`, and the shell ends during the first trial."""
    run = ["run", "--policy", "random", "--budget", "3 trials", "--param", "x=float:0:1"]
    run += ["--workers", str(workers), "--", "sh", "-c", UNTIL_GO, "{x}"]
    command = [sys.executable, "-c", "from farthing.cli import main; main()", *run]
    shell = f"nohup {shlex.join(command)} > out 2>&1 & while ! [ -s pids ]; do sleep 0.05; done"
    subprocess.run(["sh", "-c", shell], cwd=tmp_path, check=True)
    (tmp_path / "go").touch()
    assert wait_until(lambda: "spent:" in (tmp_path / "out").read_text())
    assert [row["state"] for row in trials(tmp_path)] == ["done"] * 3


def test_a_worker_finds_the_command_in_the_study(farthing, printing):
    run = ["run", "--policy", "random", "--budget", "6 trials", "--param", "x=float:0:1"]
    result = farthing(*run, "--stop", "max_trials(6)", "--", *printing("{x}"))
    assert result.code == 0
    # A worker that starts too late has nothing to do, and prints why.
    result = farthing("worker", "farthing.db", "default")
    assert result.code == 0
    assert "stopped: the budget of 6 trials is spent" in result.out


@pytest.mark.slow
def test_workers_of_several_processes(begin, tmp_path, farthing, printing):
    settings = {"space": {"x": Float(0, 1)}, "budget": "8 trials", "lease": FOREVER}
    Study.create(tmp_path / "farthing.db", name="s", **settings).close()
    result = farthing("worker", "farthing.db", "s")
    assert (result.code, result.out) == (2, "")
    assert "has no command" in result.err
    workers = [begin("worker", "farthing.db", "s", "--", *printing("{x}")) for _ in range(3)]
    assert [worker.ended()[0] for worker in workers] == [0, 0, 0]
    rows = trials(tmp_path, "s")
    assert [row["number"] for row in rows] == list(range(8))
    assert {row["state"] for row in rows} == {"done"}


def test_a_terminal_shows_a_bar(begin, tmp_path):
    arguments = ["run", "--policy", "random", "--budget", "9m, 3 trials", "--param", "x=float:0:1"]
    look = {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    waiting = UNTIL_GO.replace("-e go", "-e go-$FARTHING_TRIAL")
    run = begin(*arguments, "--", "sh", "-c", waiting, "{x}", terminal=True, **look)
    for number in range(3):
        run.shows(f"trial {number}: ")  # while it is running
        (tmp_path / f"go-{number}").touch()
    code, seen, err = run.ended()
    assert (code, err) == (0, "")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    assert "━" * 40 in text
    assert re.search(r"of 9 m 00 s spent.* of it overhead", text)
    assert re.search(r"trial 1: (starting|\d+ ms|[\d.]+ s)", text)
    assert re.search(r"best \S+ +trial \d at x=", text)
    assert "stopped: the budget of 3 trials is spent" in text


@pytest.mark.slow
def test_the_demo_in_a_terminal_counts_trials_and_is_resumed_after_ctrl_c(begin, tmp_path):
    run = begin("demo", "--budget", f"{FOREVER}s", "--seed", "1", terminal=True)
    run.shows("\x1b[K2 trials, ")
    os.kill(run.pid, signal.SIGINT)
    code, out, err = run.ended()
    assert code == 130
    assert re.search(r"\r\x1b\[Ktrial 0 +[\d.]+ % misread, ", out)
    again = "farthing demo --storage farthing-demo.db --name demo"
    assert f"All results are saved. Resume with: {again}\n" in err
    before = len(trials(tmp_path, "demo", "farthing-demo.db"))
    resumed = begin(*shlex.split(again)[1:], "--budget", f"9m, {before + 1} trials", "--quiet")
    assert resumed.ended()[0] == 0
    assert len(trials(tmp_path, "demo", "farthing-demo.db")) == before + 1


@pytest.mark.slow
def test_the_executable_is_installed_and_light():
    script = shutil.which("farthing", path=str(Path(sys.executable).parent))
    assert script is not None
    result = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"farthing, version {farthing.__version__}\n"
    loaded = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys, json, farthing.cli; print(json.dumps(sorted(sys.modules)))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {name.split(".")[0] for name in json.loads(loaded.stdout)}
    assert "click" in names
    assert not names & {"sqlalchemy", "rich", "cloudpickle", "sklearn", "pandas", "psycopg"}

"""A small resumable training that logs every report in a file of its own, as a function or program.

Its value after a step is `lr ** step`, and a step costs one dollar. The file `log` of the current
folder gets a line before and after each report, so an audit needs nothing of Farthing's. A lock
shows whether two processes train the same trial.
"""

import fcntl
import json
import os
import time
from pathlib import Path

LAST = 16
SECONDS = 0.03  # of a step


def log(*words):
    file = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, (" ".join(map(str, (*words, os.getpid()))) + "\n").encode())
    os.close(file)


def train(params, trial):
    """Trials of even numbers save a checkpoint after each step, the others when they are told."""
    lock = os.open(f"lock-{trial.number}", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        log("overlap", trial.number, 0, 0)
    # A training that is suspended has no checkpoint: it goes on in its process.
    state = None if trial.checkpoint is None else trial.checkpoint / "state.json"
    step, cost = json.loads(state.read_text()) if state and state.exists() else 0, 0
    log("start", trial.number, step, trial.step)
    while step < LAST:
        time.sleep(SECONDS)
        step, cost = step + 1, cost + 1
        value = params["lr"] ** step
        log("before", trial.number, step, repr(value))
        answer = trial.report(step, value, cost={"usd": float(cost)})
        log("after", trial.number, step, repr(value))
        if state and (answer != "continue" or trial.number % 2 == 0):
            new = state.with_suffix(".new")
            new.write_text(json.dumps(step))
            new.replace(state)
        if answer != "continue":
            break
    log("end", trial.number, step, 0)


class Program:
    """The same interface for a program, which asks through FARTHING_CONTINUE."""

    def __init__(self):
        env = os.environ
        self.number, self.step = int(env["FARTHING_TRIAL"]), int(env["FARTHING_STEP"])
        self.until, self.answers = int(env["FARTHING_UNTIL"]), Path(env["FARTHING_CONTINUE"])
        folder = env.get("FARTHING_CHECKPOINT")
        self.checkpoint = None if folder is None else Path(folder)

    def report(self, step, value, cost):
        print(json.dumps({"step": step, "value": value, "cost": cost}), flush=True)
        while self.until <= step < LAST:
            answer = self.answers.read_text().strip()
            if answer in ("pause", "stop"):
                return answer
            self.until = int(answer)
            time.sleep(0.005)
        return "continue"


if __name__ == "__main__":
    train(json.loads(os.environ["FARTHING_PARAMS"]), Program())

"""Makes the files of this folder, with the code of the first release and no other.

    git worktree add /tmp/first 2212a9a
    PYTHONPATH=/tmp/first/src:$PWD/tests python tests/snapshots/0.1.0/make.py

`studies.db` and `postgres.sql` hold the same five studies, in SQLite and as SQL for PostgreSQL;
`expected.json` is what the first release said of them, and what it did next. Proposals come out the
same every time; the times that are stored do not.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from before import NAMES, OBJECTIVES, SETTINGS, SHELL
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from farthing import Outcome, Study
from farthing.storage.schema import metadata

HERE = Path(__file__).parent
MOMENT, WHILE, AGES = 0.05, 3.0, 1e9  # seconds
NEXT = 3  # proposals


def tell(study: Study, trial: Any) -> None:
    """As the objective of the study would."""
    outcome = OBJECTIVES[study.name](trial.params)
    known = isinstance(outcome, Outcome)
    study.tell(trial, outcome.value if known else outcome, cost=outcome.cost if known else None)


def play(study: Study, count: int) -> None:
    for _ in range(count):
        tell(study, study.ask())


def lose(url: str, name: str) -> None:
    """A worker that disappears; its trial waits to be tried again."""
    study = Study.open(url, name)
    study._clerk.ask(worker="elsewhere:1", lease=MOMENT)
    time.sleep(2 * MOMENT)
    Study.open(url, name)._clerk.is_worked_on()


def make_mixed(url: str) -> None:
    """Trials in every state, costs and an evaluation from elsewhere."""
    study = Study.create(url, name="mixed", **SETTINGS["mixed"])
    paid = [
        {"a": 0.0, "b": 0.01, "k": 6, "s": "v", "cost": 5.5},
        {"a": 4.0, "b": 0.5, "k": 1, "s": ("w", 1), "cost": 2.8},
    ]
    study.import_trials(paid, values=False)
    study.add({"a": -1.0, "b": 0.003, "k": 2, "s": "u", "m": 2.5}, 8.0, cost=1.1)
    play(study, 5)
    study.tell(study.ask(), failed="it diverged", cost=0.7)
    study.tell(study.ask(), killed=True, cost=1.9)
    lose(url, "mixed")
    play(study, 1)  # the lost one, again
    study.ask()  # and nobody says what became of it
    study._clerk.ask(worker="elsewhere:2", lease=AGES)
    study._clerk.ask(worker="elsewhere:3", lease=WHILE)  # lost, but nobody has noticed yet
    lose(url, "mixed")


def make_shell(url: str, folder: Path) -> None:
    """A run that is asked to stop during its sixth trial."""
    gate = folder / "wait-5"
    gate.touch()
    run = subprocess.Popen(command([*SHELL[:1], "--storage", url, *SHELL[1:]]), cwd=folder)
    while not (gate.exists() and "5" in running(url)):
        time.sleep(MOMENT)
    subprocess.run(command(["stop", "--storage", url, "--name", "shell"]), check=True)
    gate.unlink()
    assert run.wait() == 0


def running(url: str) -> list[str]:
    if "shell" not in Study.names(url):
        return []
    return [str(trial.number) for trial in Study.open(url, "shell").history.running]


def command(arguments: list[str]) -> list[str]:
    return [sys.executable, "-c", "from farthing.cli import main; main()", *arguments]


def said(arguments: list[str], folder: Path) -> Any:
    found = subprocess.run(command(arguments), cwd=folder, capture_output=True, check=True)
    return json.loads(found.stdout)


# ── what the first release says ────────────────────────────────────────────────────────────────


def expected(url: str, name: str, folder: Path) -> dict[str, Any]:
    """What can be seen of a study, and what it would do next."""
    study = Study.open(url, name)
    where = ["--storage", url, "--name", name]
    seen = {
        "trials": said(["export", *where, "--format", "json"], folder),
        "status": said(["status", *where, "--format", "json"], folder),
        "holds": study.ledger.holds,
        "best": None if study.best is None else study.best.number,
        "verdict": study.verdict.stop,
        "reason": study.result().stop_reason,
    }
    study.close()
    copy = f"sqlite:///{folder / 'copy.db'}"
    shutil.copy(folder / "studies.db", folder / "copy.db")
    if name == "shell":
        subprocess.run(command([*SHELL[:1], "--storage", copy, *SHELL[1:]]), cwd=folder, check=True)
        again = Study.open(copy, name)
        asked = [again.history[len(seen["trials"])]]  # the second depends on how long this took
    else:
        again = Study.open(copy, name)
        asked = [again.ask() for _ in range(NEXT)]
    again.close()
    shown = ("number", "params", "predicted", "because")
    after = [{key: getattr(trial, key) for key in shown} for trial in asked]
    return {**seen, "next": after}


# ── as SQL ─────────────────────────────────────────────────────────────────────────────────────


def as_sql(path: Path) -> str:
    """The same tables and rows, for PostgreSQL."""
    dialect = postgresql.dialect()
    lines = []
    with sqlite3.connect(path) as connection:
        for table in metadata.sorted_tables:
            lines.append(f"{str(CreateTable(table).compile(dialect=dialect)).strip()};")
            for index in sorted(table.indexes, key=lambda index: str(index.name)):
                lines.append(f"{CreateIndex(index).compile(dialect=dialect)};")
            names = ", ".join(column.name for column in table.columns)
            for row in connection.execute(f"SELECT {names} FROM {table.name}"):
                values = ", ".join(map(literal, row))
                lines.append(f"INSERT INTO {table.name} ({names}) VALUES ({values});")
            if "id" in table.columns:
                last = f"(SELECT max(id) FROM {table.name})"
                sequence = f"pg_get_serial_sequence('{table.name}', 'id')"
                lines.append(f"SELECT setval({sequence}, {last});")
    connection.close()
    return "\n".join(lines) + "\n"


def literal(value: str | float | None) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def pack(path: Path) -> None:
    """One small file, and no name of the machine in it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE farthing_trials SET worker = 'here:1' WHERE worker NOT LIKE 'else%'")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.execute("PRAGMA page_size=1024")
    connection.execute("VACUUM")
    connection.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        url = f"sqlite:///{folder / 'studies.db'}"
        make_mixed(url)
        make_shell(url, folder)
        for name, count in (("noisy", 16), ("table", 7), ("drawn", 2)):
            play(Study.create(url, name=name, **SETTINGS[name]), count)
        time.sleep(WHILE)
        pack(folder / "studies.db")
        shutil.copy(folder / "studies.db", HERE / "studies.db")
        (HERE / "postgres.sql").write_text(as_sql(folder / "studies.db"))
        seen = {name: expected(url, name, folder) for name in NAMES}
        assert Study.names(url) == NAMES
    text = json.dumps(seen, indent=1, ensure_ascii=False)
    (HERE / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main()

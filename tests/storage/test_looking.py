"""Looking changes nothing: it does not migrate, and needs no permission to write."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from farthing import Float, Outcome, Space, Study
from farthing.cli import main
from farthing.errors import StorageError, Superseded, Unreachable
from farthing.storage import Database
from farthing.storage.schema import MIGRATIONS

FILES = Path(__file__).parents[1] / "snapshots"
SETTINGS = {"space": Space({"x": Float(0, 1)}), "budget": "9 trials", "policy": "random"}
LOOKS = (
    ["studies"],
    ["status", "mixed"],
    ["best", "mixed"],
    ["trials", "mixed"],
    ["export", "mixed"],
)
NOBODY = 65534


def schema_of(where):
    """Everything that a migration changes."""
    with where.reading() as connection:
        return connection.execute(text("SELECT version FROM farthing_schema")).scalar_one()


@pytest.fixture(params=["0.1.0", "0.2.0"])
def older(request, url, tmp_path, monkeypatch):
    """The address of a database of an earlier version."""
    monkeypatch.chdir(tmp_path)
    if url.startswith("sqlite"):
        shutil.copy(FILES / request.param / "studies.db", url.removeprefix("sqlite:///"))
        return url
    import psycopg

    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute((FILES / request.param / "postgres.sql").read_text(encoding="utf-8"))
    return url


def test_commands_look_at_an_older_database_and_do_not_migrate_it(older, capfd):
    where = Database(older, look=True)
    before = schema_of(where)
    assert before == where.version < len(MIGRATIONS)
    for verb, *arguments in LOOKS:
        with pytest.raises(SystemExit) as exit:
            main([verb, "--storage", older, *arguments])
        assert exit.value.code == 0, capfd.readouterr().err
    study = Study.open(older, "mixed", look=True)
    assert len(study.history) > 3
    assert study.best.value is not None
    assert schema_of(where) == before
    if where.is_sqlite:
        file = Path(older.removeprefix("sqlite:///"))
        with sqlite3.connect(file) as connection:  # no view is left behind
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        connection.close()
        assert "farthing_curves" not in names
    # A change migrates; the one who looks sees it.
    Study.open(older, "mixed", look=True).change(seed=77)
    assert study.current_settings.seed == 77
    assert schema_of(where) == len(MIGRATIONS)
    study.close()
    where.close()


def test_one_who_looks_sees_what_a_newer_version_writes_after_its_migration(older):
    watching = Study.open(older, "mixed", look=True)
    count = len(watching.history)
    working = Study.open(older, "mixed", trust=True)
    working.add(dict(working.best.params), 0.25, cost=1.0)
    working.request_stop()
    assert len(watching.history) == count + 1
    assert watching._look().stop_requested.kind == "requested"  # a column of later versions
    watching.close()
    working.close()


def test_a_look_cannot_write(url):
    Study.create(url, name="a", **SETTINGS).close()
    where = Database(url, look=True)
    with pytest.raises(StorageError, match="cannot be written"), where.reading() as connection:
        connection.execute(text("DELETE FROM farthing_studies"))
    assert Study.names(url) == ["a"]
    where.close()


def test_an_empty_database_has_no_studies_and_stays_empty(tmp_path):
    file = tmp_path / "s.db"
    file.touch()
    assert Study.names(file) == []
    assert Study.overview(file) == []
    assert file.stat().st_size == 0
    assert os.listdir(tmp_path) == ["s.db"]


@contextmanager
def without_permission(*paths):
    """Inside, this process cannot write the files and folders. Root has another user's rights."""
    modes = {path: path.stat().st_mode for path in paths}
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    if is_root := os.geteuid() == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        for path, mode in modes.items():
            path.chmod(mode)


@pytest.fixture
def folder():
    """A folder that every user can enter, unlike `tmp_path`."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_a_read_only_file_in_a_read_only_folder_can_be_looked_at(folder):
    file = folder / "s.db"
    study = Study.create(file, name="a", **SETTINGS)
    study.add({"x": 0.5}, 0.25)
    study.close()
    assert len(Study.open(file, "a", look=True).history) == 1  # imports what a look needs
    with without_permission(file, folder):
        assert Study.names(file) == ["a"]
        looking = Study.open(file, "a", look=True)
        assert looking.best.value == 0.25
        with pytest.raises(StorageError):
            looking.request_stop()
        assert looking.best.value == 0.25  # still
        with pytest.raises(StorageError):
            Study.open(file, "a")
    assert os.listdir(folder) == ["s.db"]
    looking.close()


def test_a_file_that_cannot_be_written_shows_what_its_writer_does(folder):
    file = folder / "s.db"
    study = Study.create(file, name="a", **SETTINGS)
    study.close()
    Study.open(file, "a", look=True).close()
    with without_permission(file, folder):
        looking = Study.open(file, "a", look=True)
        assert len(looking.history) == 0
    study.add({"x": 0.5}, 0.25)  # the log exists from now on
    beside = [path for path in folder.iterdir() if path != file]
    with without_permission(file, folder, *beside):
        assert len(looking.history) == 1
    study.close()
    looking.close()


# ── another version migrates the database under a worker ──────────────────────────────────────


def set_version(where, version):
    with where.writing() as connection:
        connection.execute(text(f"UPDATE farthing_schema SET version = {version}"))


def test_a_worker_stops_if_a_newer_version_migrates_and_keeps_its_result(
    url, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    study = Study.create(url, name="a", lease=60, **SETTINGS)

    def objective(params):
        other = Database(url)
        if not study_is_done():
            set_version(other, 99)
        other.close()
        return Outcome(params["x"], cost=1.0)

    def study_is_done():
        return (tmp_path / "migrated").exists()

    with pytest.raises(Unreachable, match=r"has schema version 99 now.*is saved on this machine"):
        study.run(objective)
    (tmp_path / "migrated").touch()
    with pytest.raises(Superseded, match="run again"):
        study.ask()
    where = study._database
    set_version(where, len(MIGRATIONS))
    again = Study.open(url, "a")
    assert [trial.state for trial in again.history] == ["running"]
    again.run(objective)
    assert [trial.state for trial in again.history] == ["done"] * 9
    assert again.history[0].run.attempt == 1
    again.close()
    study.close()


def test_waiting_for_an_answer_does_not_wait_for_another_schema(url, monkeypatch):
    study = Study.create(url, name="a", **SETTINGS)
    study._stored.patience = 1e9
    set_version(study._database, 99)
    with pytest.raises(Superseded):
        study.ask()
    study.close()

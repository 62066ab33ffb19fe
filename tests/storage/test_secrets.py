"""Passwords are never shown, stored or passed on, and only the owner can read files."""

import json
import os
import pickle
import stat
import sys
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import make_url

from farthing import Float, Study
from farthing.errors import InvalidInput, StorageError
from farthing.policies import Random
from farthing.running import CallableTask, CommandTask
from farthing.running.result import read_result_file
from farthing.storage import Database, check_no_secret, printable
from farthing.storage.address import secrets_in

SPACE = {"x": Float(0, 1)}
PASSWORD = "s3cr&t/p?w"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:s3cret@host/tune", "postgresql://me:***@host/tune"),
        ("postgresql://me:s3@cr/et?x@host/tune", "postgresql://me:***@host/tune"),
        ("postgresql://:s3cret@host", "postgresql://:***@host"),
        ("postgresql:/me:s3cret@host", "postgresql:/me:***@host"),
        ("postgresql://me@h/t?password=s3cret&a=b", "postgresql://me@h/t?password=***&a=b"),
        ("postgresql://h/t?a=b&pass%77ord=s3cret", "postgresql://h/t?a=b&pass%77ord=***"),
        ("postgresql://h/t?passfile=/etc/s3cret", "postgresql://h/t?passfile=***"),
        ("host=h password=s3cret dbname=t", "host=h password=*** dbname=t"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
        ("postgresql://me@host:5432/t?options=a@b", "postgresql://me@host:5432/t?options=a@b"),
    ],
)
def test_an_address_is_shown_without_its_password(address, shown):
    assert printable(address) == shown
    assert printable(shown) == shown


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_password_is_hidden(password):
    for address in (f"postgresql://me:{password}@host/tune", f"mysql:/me:{password}@host"):
        assert printable(address).endswith("me:***@host" + "/tune" * address.endswith("tune"))
        assert password in secrets_in(address)


@pytest.mark.parametrize(
    "address",
    [
        "mysql://me:s3cret@host/tune",
        "nonsense://me:s3cret@host",
        "postgresql://me:s3cret@host:port/tune",
        "postgresql://me:w@s3cret@127.0.0.1:1/tune",
        "postgresql://me:s3cret@127.0.0.1:1/tune",
        "postgresql://me@127.0.0.1:1/tune?password=s3cret",
        "host=127.0.0.1 dbname=tune password=s3cret",
        "password = 's3cret' host=127.0.0.1",
    ],
)
def test_no_error_contains_a_password(address):
    with pytest.raises(StorageError) as error:
        Database(address)
    assert "s3cret" not in str(error.value)


def test_an_address_of_keywords_creates_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match="Write it as a URL"):
        Study.names("host=h password=s3cret")
    with pytest.raises(StorageError, match="Write it as a URL"):
        Database("host=h password=s3cret")
    assert not list(tmp_path.iterdir())
    Database(tmp_path / "lr=0.1.db").close()  # a file name may have an equals sign


def test_the_password_of_the_database_is_not_stored_in_it():
    url = f"postgresql://me:{quote('s3cret', safe='')}@127.0.0.1:1/tune"
    with pytest.raises(InvalidInput, match="settings contain the password of the database"):
        Study.create(url, name="s", space=SPACE, command=["train", "--db", url])


def test_a_study_whose_address_has_a_password_cannot_be_pickled(tmp_path):
    study = Study.create(tmp_path / "a.db", name="s", space={"x": Float(0, 1)}, budget="3 trials")
    study._database.url = make_url("postgresql+psycopg://user:geheim@host/name")
    with pytest.raises(InvalidInput, match="its address contains a password") as refused:
        pickle.dumps(study)
    assert "geheim" not in str(refused.value)


def test_a_pickled_study_still_opens(tmp_path):
    study = Study.create(tmp_path / "s.db", name="s", space=SPACE, policy=Random())
    assert pickle.loads(pickle.dumps(study)).name == "s"


@pytest.mark.slow
def test_trials_do_not_get_the_password_of_the_database(monkeypatch, tmp_path):
    monkeypatch.setenv("FARTHING_STORAGE", f"postgresql://me:{PASSWORD}@host/tune")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("PGPASSFILE", PASSWORD)
    study = Study.create(
        tmp_path / "s.db", name="s", space=SPACE, policy=Random(), budget="3 trials"
    )
    code = "import os; n = sum('s3cr&t' in v for v in os.environ.values()); "
    code += "print('{\"value\": %d}' % n)"
    tasks = [CommandTask([sys.executable, "-c", code]), _leaks, CallableTask(_leaks, start="spawn")]
    for task in tasks:
        study.change(budget=f"{len(study.history) + 1} trials")
        study.run(task)
    assert [trial.value for trial in study.history] == [0.0, 0.0, 0.0]


def _leaks(params):
    return float(sum("s3cr&t" in text for text in os.environ.values()))


def test_only_the_owner_can_read_a_new_database(tmp_path):
    before = os.umask(0)
    try:
        Study.create(tmp_path / "s.db", name="s", space=SPACE).ask()
        shared = tmp_path / "shared.db"
        shared.touch(0o664)
        Study.create(shared, name="s", space=SPACE)
    finally:
        os.umask(before)
    made = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert made.pop("shared.db") == 0o664
    assert {mode for name, mode in made.items() if not name.startswith("shared")} == {0o600}


# ── result files ───────────────────────────────────────────────────────────────────────────────


def test_a_result_that_is_a_link_a_pipe_or_a_device_is_refused(tmp_path):
    (tmp_path / "own").write_text('{"value": 1}')
    (tmp_path / "link").symlink_to(tmp_path / "own")
    (tmp_path / "endless").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "endless", "pipe"):
        assert "regular file" in json.loads(read_result_file(tmp_path / name))["failed"]
    assert json.loads(read_result_file(tmp_path / "own")) == {"value": 1}


@pytest.mark.parametrize("how", ['mkfifo "$FARTHING_RESULT"', 'ln -s /dev/zero "$FARTHING_RESULT"'])
def test_a_trial_with_such_a_result_fails_and_says_why(tmp_path, how):
    study = Study.create(tmp_path / "s.db", name="s", space=SPACE, budget="1 trials")
    study.run(CommandTask(["sh", "-c", how + "; echo '{\"value\": 1}'"]))
    (trial,) = study.history
    assert trial.state == "failed"
    assert "expected a regular file" in trial.error


@pytest.mark.parametrize(("password", "refused"), [("abcd", True), ("abc", False)])
def test_the_shortest_password_that_is_looked_for(password, refused):
    address, settings = f"postgresql://me:{password}@h/tune", f"train --db {password}"
    if not refused:  # it may occur by chance
        check_no_secret(address, settings)
        return
    with pytest.raises(InvalidInput, match="contain the password"):
        check_no_secret(address, settings)

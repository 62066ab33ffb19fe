"""Pages, parts, stamps and changes, requested without a server."""

import asyncio
import importlib
import math
import os
import re
import subprocess
import sys
import threading

import httpx
import pytest
from processes import PATIENCE
from runs import SPACE, value

from farthing import Categorical, Float, Study
from farthing.dashboard.app import make_app
from farthing.dashboard.watcher import Watcher
from farthing.policies import Random
from farthing.view.web import SCRIPTS, answers, script

DATA = ("study", "figures", "settings", "trial", "why", "log")


def fill(url, name="svm", count=8):
    study = Study.create(url, name=name, space=SPACE, budget="$100", policy=Random())
    for k in range(count):
        trial = study.ask()
        if k == 3:
            study.tell(trial, failed="Traceback\nValueError: <b>no</b>", cost=1.0)
        else:
            study.tell(trial, value(trial.params), cost=1.0 + trial.params["depth"])
    study.close()


@pytest.fixture
def database(tmp_path):
    url = f"sqlite:///{tmp_path / 's.db'}"
    fill(url)
    return url


def visit(url, *requests, changes=True):
    """The answers of an application to calls of `ask(client, watcher)`, one after the other."""

    async def all_of_them():
        watcher = Watcher(url)
        app = make_app(watcher, shown="s.db", changes=changes)
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        async with (
            watcher.watching(),
            httpx.AsyncClient(transport=transport, base_url="http://x") as client,
        ):
            return [await ask(client, watcher) for ask in requests]

    return asyncio.run(all_of_them())


def get(path, **query):
    async def ask(client, _):
        return await client.get(path, params=query)

    return ask


def data(which, name="svm", **query):
    return get(f"/data/{which}", name=name, **query)


def values_of(answer, key):
    """A column of the table of trials."""
    (column,) = [each for each in answer.json()["trials"]["columns"] if each["key"] == key]
    if "values" in column:
        return column["values"]
    return [None if at is None else column["words"][at] for at in column["at"]]


def test_a_page_reads_nothing(tmp_path):
    (answer,) = visit(str(tmp_path / "none.db"), get("/study", name="<i>&"))
    assert answer.status_code == 200
    assert "<h1>&lt;i&gt;&amp;</h1>" in answer.text
    assert 'data-query="name=%3Ci%3E%26"' in answer.text
    assert re.findall(r'src="static/([^"]+)"', answer.text) == list(SCRIPTS)
    assert not (tmp_path / "none.db").exists()


def test_buttons_appear_only_if_changes_are_allowed(database):
    for changes in (True, False):
        (answer,) = visit(database, get("/study", name="svm"), changes=changes)
        assert ("<form" in answer.text) == changes


def test_a_study_is_sent_with_its_key_figures_and_trials(database):
    study = Study.open(database, "svm")
    best, history = study.best, study.history
    study.close()
    (answer,) = visit(database, data("study"))
    facts = answer.json()["facts"]
    assert facts["best"] == best.number
    assert facts["states"] == {"done": 7, "failed": 1}
    assert facts["phase"] == "idle"
    (account,) = facts["accounts"]
    assert account["resource"] == "usd"
    assert account["limit"] == 100
    assert account["spent"] == pytest.approx(sum(t.cost["usd"] for t in history))
    assert answer.json()["trials"]["numbers"] == list(range(8))
    assert values_of(answer, "value") == [t.value for t in history]
    assert values_of(answer, "momentum") == [t.params.get("momentum") for t in history]
    assert values_of(answer, "solver") == [t.params["solver"] for t in history]
    assert values_of(answer, "why")[3] == "ValueError: <b>no</b>"


def test_only_what_has_changed_is_sent_again(database):
    """Also if the number of the version comes from another process of the server."""
    before = {}

    async def first(client, _):
        answer = await client.get("/data/study", params={"name": "svm"})
        before.update(answer.json())
        return answer

    async def change(client, watcher):
        await asyncio.to_thread(tell_one, database)
        await watcher.look("svm")

    async def second(client, _):
        known = {"since": before["version"], "epoch": before["epoch"]}
        return await client.get("/data/study", params={"name": "svm", **known})

    async def of_another_server(client, _):
        known = {"since": before["version"], "epoch": "another"}
        return await client.get("/data/study", params={"name": "svm", **known})

    _, same, _, changed, whole = visit(database, first, second, change, second, of_another_server)
    assert same.json()["trials"]["numbers"] == []
    assert changed.json()["trials"]["numbers"] == [8]
    assert changed.json()["trials"]["count"] == 9
    assert values_of(changed, "value") == [1.0]
    assert whole.json()["trials"]["numbers"] == list(range(9))


def test_the_list_of_studies(database):
    fill(database, "an/other & one", 1)
    (answer,) = visit(database, get("/data/studies"))
    other, svm = sorted(answer.json(), key=lambda each: each["name"])
    assert other["name"] == "an/other & one"
    assert svm["trials"] == 8
    assert svm["error"] == ""
    study = Study.open(database, "svm")
    assert svm["best"] == study.best.value == svm["curve"]["y"][-1]
    assert svm["curve"]["x"][-1] == pytest.approx(study.ledger["usd"].spent)
    study.close()


def test_the_list_of_studies_is_computed_once_for_each_version(database, monkeypatch):
    made = []
    make = answers.list_entry
    monkeypatch.setattr(answers, "list_entry", lambda *args: made.append(args[0]) or make(*args))

    async def change(client, _):
        await asyncio.to_thread(tell_one, database)

    listed = get("/data/studies")
    *_, last = visit(database, listed, listed, change, listed)
    assert made == ["svm", "svm"]
    assert last.json()[0]["trials"] == 9


def test_studies_on_one_axis(database):
    fill(database, "other", 3)
    (answer,) = visit(database, get("/data/comparison", name=["svm", "other"]))
    (panel,) = answer.json()["panels"]
    assert [layer["label"].split(":")[0] for layer in panel["layers"]] == ["svm", "other"]


def test_the_figures_of_a_tab(database):
    tabs = ("costs", "running", "stopping", "parameters", "trials")
    found = {}
    for tab, answer in zip(
        tabs, visit(database, *(data("figures", tab=t) for t in tabs)), strict=True
    ):
        found[tab] = [figure["name"] for figure in answer.json()["figures"]]
        assert ("being fitted" in answer.json()["note"]) == (tab not in ("running", "trials"))
    assert found == {
        "costs": ["money"],
        "running": ["timeline", "learning"],
        "stopping": [],
        "parameters": [],
        "trials": [],
    }


def test_a_trial_is_explained(database):
    facts, why, log = visit(
        database, data("trial", number=7), data("why", number=7), data("log", number=3)
    )
    assert "solver" in dict(facts.json()["params"])
    assert set(facts.json()["copies"]) == {"command line", "Python", "JSON"}
    words = dict(why.json()["words"])
    assert "drawn uniformly" in words["because"]
    assert words["trade-off"] == (
        "The policy uses no model: it compares neither improvement nor cost."
    )
    assert why.json()["figure"]["name"] == "pareto"
    assert log.json()["error"] == "Traceback\nValueError: <b>no</b>"
    assert log.json()["latest"] == ""


def test_an_old_link_to_a_trial_leads_to_its_study(database):
    (answer,) = visit(database, get("/trial", name="a&b", number=7))
    assert answer.status_code == 307
    assert answer.headers["location"] == "study?name=a%26b&trial=7"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"name": "none", "number": "1"}, "There is no study 'none'"),
        ({"name": "svm"}, "The address needs the number of a trial"),
        ({"name": "svm", "number": "-1"}, "The address needs the number of a trial"),
        ({"name": "svm", "number": "9" * 50}, "The address needs the number of a trial"),
        ({"name": "svm", "number": "\u0663"}, "There is no trial"),
        ({"name": "svm", "number": "8"}, "There is no trial 8"),
    ],
)
def test_requests_for_unknown_things(tmp_path, query, message):
    url = str(tmp_path / "s.db")
    fill(url, count=2)
    (answer,) = visit(url, get("/data/trial", **query))
    assert answer.status_code == 400
    assert message in answer.text


@pytest.mark.parametrize("since", ["9" * 5000, "-1", "x", "\u0663"])
def test_any_version_is_answered(tmp_path, since):
    url = str(tmp_path / "s.db")
    fill(url, count=1)

    async def of_this_server(client, watcher):
        return await data("study", since=since, epoch=watcher.epoch)(client, watcher)

    of_another, of_this = visit(url, data("study", since=since), of_this_server)
    assert of_another.json()["trials"]["numbers"] == [0]
    assert of_this.status_code == 200


def test_other_addresses(database):
    paths = ("/none", "/static/chart.js", "/static/../app.py", "/static/vendor/LICENSE")
    answers = visit(database, *map(get, paths))
    assert [a.status_code for a in answers] == [404, 200, 404, 404]
    assert answers[1].headers["content-type"].startswith("text/javascript")


def test_a_study_is_stopped(database):
    def post(name, **form):
        async def ask(client, _):
            return await client.post("/change", params={"name": name}, data=form)

        return ask

    answer = visit(
        database,
        post(name="svm", action="cake"),
        post(name="none", action="stop"),
        post(name="svm", action="x" * 30_000),
        post(name="svm", action="stop now"),
        data("study"),
    )
    assert [answer.status_code for answer in answer] == [400, 400, 400, 303, 200]
    assert answer[3].headers["location"] == "study?name=svm"
    facts = answer[4].json()["facts"]
    assert facts["status"] == "stopped: a stop was requested in the dashboard"
    assert facts["phase"] == "stopped"
    study = Study.open(database, "svm")
    assert study.facts[1].kill_running
    study.close()


def test_a_budget_is_changed(database):
    def post(**form):
        async def ask(client, _):
            return await client.post("/change", params={"name": "svm"}, data=form)

        return ask

    answer = visit(
        database,
        post(action="budget", budget="+$50"),
        post(action="budget", budget="cake"),
        post(action="budget"),
        data("study"),
    )
    assert [answer.status_code for answer in answer] == [303, 400, 400, 200]
    assert "cake" in answer[1].text
    assert answer[3].json()["facts"]["accounts"][0]["limit"] == 150


def test_the_output_of_a_running_trial_is_shown(database):
    study = Study.open(database, "svm")
    trial = study.ask()
    study.logs.mkdir(parents=True)
    (study.logs / f"{trial.number}.log").write_text("x" * 30_000 + "\n<b>epoch 3</b>\n")
    study.close()
    (answer,) = visit(database, data("log", number=trial.number))
    assert answer.json()["output"].endswith("\n<b>epoch 3</b>")
    assert 15_000 < len(answer.text) < 25_000


def test_the_output_of_every_running_trial_is_shown(database):
    study = Study.open(database, "svm")
    first, second, silent = (study.ask(lease=1e9, anyway=True).number for _ in range(3))
    study.logs.mkdir(parents=True)
    (study.logs / f"{first}.log").write_text("\n".join(f"epoch {k}" for k in range(40)))
    (study.logs / f"{second}.log").write_text("<b>" + "x" * 30_000)
    study.close()
    (answer,) = visit(database, data("outputs"))
    found = {each["number"]: each["output"] for each in answer.json()}
    assert list(found) == [first, second]
    assert silent not in found
    assert found[first].splitlines() == [f"epoch {k}" for k in range(28, 40)]
    assert len(found[second]) < 5_000


def test_a_symbolic_link_is_not_followed(database, tmp_path):
    (tmp_path / "key").write_text("the secret")
    study = Study.open(database, "svm")
    study.logs.mkdir(parents=True)
    (study.logs / "0.log").symlink_to(tmp_path / "key")
    study.close()
    (answer,) = visit(database, data("log", number=0))
    assert answer.status_code == 200
    assert "the secret" not in answer.text


# ── live ───────────────────────────────────────────────────────────────────────────────────────


class Polling:
    """A page that asks for the stamp of a study again and again."""

    def __init__(self, watcher, name):
        self.watcher, self.name, self.last = watcher, name, None

    async def next(self):
        while (stamp := dict((await self.watcher.poll(self.name)).stamp())) == self.last:
            await asyncio.sleep(0.01)
        self.last = stamp
        return stamp


async def next_stamp(page):
    return await page.next()


def live(url, script):
    """Run a script with a watcher and a page that polls."""

    async def go():
        watcher = Watcher(url)
        async with watcher.watching():
            return await asyncio.wait_for(script(watcher, Polling(watcher, "svm")), PATIENCE)

    return asyncio.run(go())


def tell_one(url):
    study = Study.open(url, "svm")
    study.tell(study.ask(), 1.0, cost=1.0)
    study.close()


def test_a_change_sends_an_event(url):
    fill(url)

    async def script(watcher, stream):
        stamps = [await next_stamp(stream)]
        while not stamps[-1]["version"]:
            stamps.append(await next_stamp(stream))
        before = stamps[-1]["version"]
        await asyncio.to_thread(tell_one, url)
        while stamps[-1]["version"] == before:
            stamps.append(await next_stamp(stream))
        while len(watcher.seen("svm").facts[1].history.done) < 8:
            stamps.append(await next_stamp(stream))
        return watcher.seen("svm").is_watched

    assert live(url, script)


def test_no_request_of_a_page_stays_open(database):
    """A browser opens six connections to a host, so pages that keep one block the seventh."""
    pages = [get("/stamp", name="svm") for _ in range(20)]  # each answer is complete
    answers = visit(database, *pages)
    assert [answer.status_code for answer in answers] == [200] * 20
    assert set(answers[0].json()) == {"version", "drawn", "error"}
    assert "new EventSource" not in script()


def test_a_study_is_read_only_while_a_page_asks(database, monkeypatch):
    reads = []
    look = Watcher.look
    monkeypatch.setattr(Watcher, "look", lambda self, name: reads.append(name) or look(self, name))

    async def script(watcher, _):
        seen = watcher.seen("svm")
        assert not seen.is_watched
        await asyncio.gather(*(watcher.poll("svm") for _ in range(5)))  # of five pages
        assert reads == ["svm"]
        assert seen.is_watched
        assert seen.facts is not None
        seen.read_at = -math.inf
        await watcher.poll("svm")
        assert reads == ["svm"] * 2
        seen.polled_at -= 60
        return seen.is_watched

    assert not live(database, script)


def test_a_page_does_not_wait_for_a_database_that_hangs(database, monkeypatch):
    monkeypatch.setattr(importlib.import_module("farthing.dashboard.watcher"), "PATIENCE", 0.0)
    answer = threading.Event()

    async def script(watcher, _):
        opened = watcher._open
        monkeypatch.setattr(watcher, "_open", lambda name: answer.wait() and opened(name))
        seen = [await watcher.poll("svm") for _ in range(3)]
        assert not seen[-1].reading.done()
        answer.set()
        return seen[-1].stamp()

    assert live(database, script)["version"] == 0


@pytest.mark.slow
def test_slow_figures_come_later(database):
    async def script(watcher, stream):
        while not (await next_stamp(stream))["drawn"]:
            pass
        while watcher.seen("svm").figures_of < 0:
            await next_stamp(stream)
        seen = watcher.seen("svm")
        assert "one more trial is expected to improve" in seen.forecast["sentence"]
        return [figure.name for figure in seen.figures]

    names = live(database, script)
    assert {"predictions", "drivers", "pareto", "slice", "prospect"} <= set(names)


@pytest.mark.slow
def test_only_a_study_that_is_watched_and_has_changed_is_drawn(database, monkeypatch):
    """Drawing fits models."""
    watcher, drawn, looks = Watcher(database), [], []

    async def draw(self, seen):
        drawn.append(seen.version)
        seen.figures_of = seen.version

    async def sleep(seconds):
        looks.append(list(drawn))
        watcher.seen("svm").polled_at = math.inf  # from now on a page asks for it
        if len(looks) == 4:
            raise asyncio.CancelledError

    async def keep_drawing():
        await watcher.look("svm")
        monkeypatch.setattr(asyncio, "sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await watcher._keep_drawing()

    monkeypatch.setattr(Watcher, "_draw", draw)
    asyncio.run(keep_drawing())
    assert looks == [[], [1], [1], [1]]


def test_a_database_that_disappears_and_comes_back(database, tmp_path):
    file, away = tmp_path / "s.db", tmp_path / "away.db"

    async def script(watcher, stream):
        while not (await next_stamp(stream))["version"]:
            pass
        file.rename(away)
        while not (stamp := await next_stamp(stream))["error"]:
            pass
        missing = stamp["error"]
        assert not file.exists()
        assert watcher.seen("svm").facts is not None  # the last snapshot
        away.rename(file)
        while (await next_stamp(stream))["error"]:
            pass
        file.rename(away)
        fill(database, count=2)  # another study of the same name, in another file
        while len(watcher.seen("svm").facts[1].history) != 2:
            await next_stamp(stream)
        return missing

    message = live(database, script)
    assert "does not exist any more. Restore it" in message


@pytest.mark.slow
def test_a_study_with_external_code_is_shown_without_importing_the_code(tmp_path, monkeypatch):
    url = str(tmp_path / "p.db")
    fill(url, "other")
    (tmp_path / "unseen.py").write_text(
        "from farthing.policies import Random\nclass M(Random): ...\n"
    )
    code = (
        "import unseen; from farthing import Study, Float;"
        f"s = Study.create({url!r}, name='svm', space={{'x': Float(0, 1)}}, policy=unseen.M());"
        "[s.tell(s.ask(), float(k), cost=1.0) for k in range(4)]"
    )
    env = {**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{tmp_path}"}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
    monkeypatch.syspath_prepend(tmp_path)  # it could be imported
    requests = [data(which, number=2, tab="costs") for which in DATA]
    for answer in visit(url, *requests):
        assert answer.status_code == 200, answer.text
    (listed,) = visit(url, get("/data/studies"))
    assert "other" in listed.text
    assert "svm" in listed.text
    assert "unseen" not in sys.modules


# ── bad input ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_hostile_study(tmp_path):
    url = str(tmp_path / "h.db")
    space = {
        "<script>alert(1)</script>": Float(0, 1),
        "\u202eevil": Categorical(["<img src=x onerror=alert(1)>", "b" * 1_000_000]),
    }
    name = "</title><script>alert(1)</script>\u202e"
    study = Study.create(url, name=name, space=space, budget="$50", policy=Random())
    for k in range(7):
        trial = study.ask(worker="<i>worker</i>")
        if k == 2:
            study.tell(trial, failed="</pre><script>alert(1)</script>" + "e" * 1_000_000, cost=1.0)
        else:
            study.tell(trial, float(k), cost=1.0)
    study.close()
    for answer in visit(url, get("/"), get("/study", name=name)):
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text
    requests = [data(which, name, number=2, tab="running") for which in DATA]
    for answer in visit(url, *requests, get("/data/studies")):
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        assert "\u202e" not in answer.text.replace(name, "")  # the key of the study
        assert len(answer.text) < 400_000

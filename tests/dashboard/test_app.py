"""Pages, parts, stamps and changes, requested without a server."""

import asyncio
import os
import re
import subprocess
import sys

import httpx
import pytest
from processes import PATIENCE
from runs import SPACE, value

from farthing import Categorical, Float, Study
from farthing.dashboard.app import make_app
from farthing.dashboard.watcher import Watcher
from farthing.policies import Random

PARTS = ("head", "best", "ledger", "quick", "models", "trials", "settings")


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


def part(which, name="svm", **query):
    return get("/part", part=which, name=name, **query)


def test_a_page_without_its_parts_reads_nothing(tmp_path):
    (answer,) = visit(str(tmp_path / "none.db"), get("/study", name="<i>&"))
    assert answer.status_code == 200
    assert "<h1>&lt;i&gt;&amp;</h1>" in answer.text
    assert re.findall(r'data-part="(\w+)"', answer.text) == list(PARTS)
    assert 'data-query="name=%3Ci%3E%26"' in answer.text
    assert not (tmp_path / "none.db").exists()


def test_buttons_appear_only_if_changes_are_allowed(database):
    for changes in (True, False):
        (answer,) = visit(database, get("/study", name="svm"), changes=changes)
        assert ("<form" in answer.text) == changes


def test_the_parts_contain_the_facts(database):
    study = Study.open(database, "svm")
    best, history = study.best, study.history
    study.close()
    answers = dict(zip(PARTS, visit(database, *map(part, PARTS)), strict=True))
    assert {answer.status_code for answer in answers.values()} == {200}
    assert f"<strong>{best.value:.6g}</strong>" in answers["best"].text
    assert f'href="trial?name=svm&amp;number={best.number}"' in answers["best"].text
    assert "8 trials: 7 done, 1 failed" in answers["head"].text
    assert 'data-figure="curve"' in answers["quick"].text
    rows = re.findall(r"\"trial\?name=svm&amp;number=(\d+)", answers["trials"].text)
    assert rows == [str(t.number) for t in reversed(history.trials)]
    assert "ValueError: &lt;b&gt;no&lt;/b&gt;" in answers["trials"].text
    assert "Random()" in answers["settings"].text
    assert "being fitted" in answers["models"].text


def test_the_list_of_studies(database, tmp_path):
    fill(database, "an/other & one", 1)
    (answer,) = visit(database, get("/part", part="list"))
    assert "an/other &amp; one" in answer.text
    assert '"study?name=an%2Fother+%26+one"' in answer.text
    assert answer.text.count("<tr>") == 3
    Study.create(tmp_path / "e.db", name="x", space={"x": Float(0, 1)}).close()
    (answer,) = visit(str(tmp_path / "e.db"), part("trials", "x"))
    assert "There are no such trials yet." in answer.text


def test_trials_are_paged_sorted_and_filtered(tmp_path):
    url = str(tmp_path / "m.db")
    study = Study.create(url, name="m", space={"x": Float(0, 1)})
    study.import_trials([{"x": k / 250, "value": (k - 100) ** 2} for k in range(250)])
    study.close()

    def numbers(answer):
        return [int(n) for n in re.findall(r"number=(\d+)\"", answer.text)]

    pages = visit(
        url,
        part("trials", "m"),
        part("trials", "m", page=3),
        part("trials", "m", page="99"),
        part("trials", "m", page="-1"),
        part("trials", "m", order="best"),
        part("trials", "m", state="failed"),
    )
    assert numbers(pages[0]) == list(range(249, 149, -1))
    assert numbers(pages[1]) == numbers(pages[2]) == list(range(49, -1, -1))
    assert numbers(pages[3]) == numbers(pages[0])
    assert numbers(pages[4])[:3] == [100, 99, 101]
    assert "There are no such trials yet." in pages[5].text
    assert "page 1 of 3" in pages[0].text


def test_the_page_of_a_trial_explains_it(database):
    facts, why, log = visit(
        database,
        part("trial", number=7),
        part("explanation", number=7),
        part("log", number=3),
    )
    assert "momentum" in facts.text or "adam" in facts.text
    assert "drawn uniformly" in why.text
    assert "The policy uses no model: it compares neither improvement nor cost." in why.text
    assert 'data-figure="pareto"' in why.text
    assert "ValueError: &lt;b&gt;no&lt;/b&gt;" in log.text
    assert "This trial has reported no progress." in log.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"part": "head", "name": "none"}, "There is no study 'none'"),
        ({"part": "trial", "name": "svm"}, "The address needs the number of a trial"),
        (
            {"part": "trial", "name": "svm", "number": "-1"},
            "The address needs the number of a trial",
        ),
        (
            {"part": "trial", "name": "svm", "number": "9" * 50},
            "The address needs the number of a trial",
        ),
        ({"part": "trial", "name": "svm", "number": "8"}, "There is no trial 8"),
        ({"part": "cake", "name": "svm"}, "The address needs the number of a trial"),
    ],
)
def test_requests_for_unknown_things(database, query, message):
    (answer,) = visit(database, get("/part", **query))
    assert answer.status_code == 400
    assert message in answer.text


def test_other_addresses(database):
    answers = visit(database, get("/none"), get("/static/live.js"), get("/static/../app.py"))
    assert [a.status_code for a in answers] == [404, 200, 404]
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
        part("head"),
    )
    assert [answer.status_code for answer in answer] == [400, 400, 400, 303, 200]
    assert answer[3].headers["location"] == "study?name=svm"
    assert "stopped: a stop was requested in the dashboard" in answer[4].text
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
        part("ledger"),
    )
    assert [answer.status_code for answer in answer] == [303, 400, 400, 200]
    assert "cake" in answer[1].text
    assert "$150.00" in answer[3].text


def test_the_output_of_a_running_trial_is_shown(database):
    study = Study.open(database, "svm")
    trial = study.ask()
    study.logs.mkdir(parents=True)
    (study.logs / f"{trial.number}.log").write_text("x" * 30_000 + "\n<b>epoch 3</b>\n")
    study.close()
    (answer,) = visit(database, part("log", number=trial.number))
    assert "&lt;b&gt;epoch 3&lt;/b&gt;" in answer.text
    assert 15_000 < len(answer.text) < 25_000


def test_a_symbolic_link_is_not_followed(database, tmp_path):
    (tmp_path / "key").write_text("the secret")
    study = Study.open(database, "svm")
    study.logs.mkdir(parents=True)
    (study.logs / "0.log").symlink_to(tmp_path / "key")
    study.close()
    (answer,) = visit(database, part("log", number=0))
    assert answer.status_code == 200
    assert "the secret" not in answer.text


# ── live ───────────────────────────────────────────────────────────────────────────────────────


class Polling:
    """A page that asks for the stamp of a study again and again."""

    def __init__(self, watcher, name):
        self.watcher, self.name, self.last = watcher, name, None

    async def next(self):
        while (stamp := dict(self.watcher.polled(self.name).stamp())) == self.last:
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
    (script,) = visit(database, get("/static/live.js"))
    assert "new EventSource" not in script.text
    assert "fetch(`stamp?" in script.text


def test_a_study_is_read_only_while_a_page_asks(database, monkeypatch):
    watcher = Watcher(database)
    assert not watcher.seen("svm").is_watched
    assert watcher.polled("svm").is_watched
    watcher.seen("svm").polled_at -= 60
    assert not watcher.seen("svm").is_watched


@pytest.mark.parametrize("page", ["9" * 5000, "0", "-1", "x", "\u0663"])
def test_any_number_of_a_page_is_answered(database, page):
    (answer,) = visit(database, part("trials", page=page))
    assert answer.status_code == 200
    assert "page 1 of 1" in answer.text


@pytest.mark.slow
def test_slow_figures_come_later(database):
    async def script(watcher, stream):
        while not (await next_stamp(stream))["drawn"]:
            pass
        while watcher.seen("svm").figures_of < 0:
            await next_stamp(stream)
        return [figure.name for figure in watcher.seen("svm").figures]

    names = live(database, script)
    assert {"predictions", "drivers", "pareto", "slice", "prospect"} <= set(names)


@pytest.mark.slow
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
    (tmp_path / "mine.py").write_text(
        "from farthing.policies import Random\nclass Mine(Random): ...\n"
    )
    code = (
        "import mine; from farthing import Study, Float;"
        f"s = Study.create({url!r}, name='svm', space={{'x': Float(0, 1)}}, policy=mine.Mine());"
        "[s.tell(s.ask(), float(k), cost=1.0) for k in range(4)]"
    )
    env = {**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{tmp_path}"}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
    monkeypatch.syspath_prepend(tmp_path)  # it could be imported
    requests = [part(which) for which in PARTS]
    requests += [part(which, number=2) for which in ("trial", "explanation", "log")]
    for answer in visit(url, *requests):
        assert answer.status_code == 200, answer.text
    (listed,) = visit(url, get("/part", part="list"))
    assert "other" in listed.text
    assert "svm" in listed.text
    assert "mine" not in sys.modules


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
    requests = [get("/"), get("/study", name=name), get("/trial", name=name, number=2)]
    requests += [part(which, name) for which in PARTS]
    requests += [part(which, name, number=2) for which in ("trial", "explanation", "log")]
    requests += [get("/part", part="list")]
    for answer in visit(url, *requests):
        assert answer.status_code == 200, answer.text
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text
        assert "<i>" not in answer.text
        assert "\u202e" not in answer.text
        assert len(answer.text) < 400_000

"""The dashboard and the report in a real browser."""

import subprocess
import sys
import urllib.error
import urllib.request
from urllib.parse import urlencode, urljoin

import pytest
from processes import PATIENCE
from runs import SPACE, value

from farthing import Categorical, Float, Study
from farthing.policies import Random

pytestmark = pytest.mark.xdist_group("browser")  # one process of tests, one browser

FARTHING = (sys.executable, "-c", "from farthing.cli import main; main()")
PART = "[data-part={}]"


def study_at(page, name):
    """The address of a study in the folder of the page that is open."""
    return urljoin(page.url, f"study?{urlencode({'name': name})}")


def shown_trials(page):
    """The numbers of the trials in the table of the page."""
    return [
        int(text) for text in page.locator(f"{PART.format('trials')} tbody a").all_inner_texts()
    ]


@pytest.mark.slow
def test_a_study_runs_while_the_page_is_open_and_the_button_stops_it(tmp_path, tab, dashboard):
    command = [*FARTHING, "run", "--storage", "s.db", "--budget", "1000 trials"]
    command += ["--policy", "random", "--param", "x=float:0:1", "--"]
    command += ["sh", "-c", 'sleep 0.3; echo "{\\"value\\": $0}"', "{x}"]
    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        run.stdout.readline()  # a trial has ended, so the database exists
        with dashboard(tmp_path / "s.db", "--allow-changes") as address:
            seen = tab()
            page = seen.page
            page.goto(address)
            assert "token" not in page.url
            page.click("text=default")
            page.wait_for_selector(f"{PART.format('trials')} tbody a")
            latest = shown_trials(page)[0]
            page.wait_for_function(
                "([rows, n]) => Number(document.querySelector(rows)?.innerText) >= n",
                arg=[f"{PART.format('trials')} tbody a", latest + 2],
            )
            assert run.poll() is None
            page.fill("input[name=budget]", "+1000 trials")
            page.press("input[name=budget]", "Enter")  # presses the button beside it
            page.wait_for_selector("text=of 2,000 trials spent")
            assert run.poll() is None
            page.click("button:text-is('Stop')")
            page.wait_for_selector("text=stopped: a stop was requested in the dashboard")
            out, _ = run.communicate(timeout=PATIENCE)
            assert "a stop was requested in the dashboard" in out
            assert page.locator("figure[data-figure=curve]").count() == 1
            assert page.locator("#error-banner").is_hidden()
            assert seen.errors == []
    finally:
        run.kill()
        run.wait()
        run.stdout.close()


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """Studies that are difficult to display."""
    url = str(tmp_path_factory.mktemp("browser") / "s.db")
    Study.create(url, name="empty", space=SPACE, budget="$10").close()
    good = Study.create(url, name="good", space=SPACE, budget="$100", policy=Random())
    for _ in range(8):
        trial = good.ask()
        good.tell(trial, value(trial.params), cost=1.0 + trial.params["depth"])
    good.close()
    bad = Study.create(url, name="failures", space=SPACE, budget="$10", policy=Random())
    for _ in range(4):
        bad.tell(bad.ask(), failed="CUDA out of memory", cost=1.0)
    bad.close()
    space = {
        "<script>window.pwned = 1</script>": Float(0, 1),
        "\u202eevil": Categorical(["<img src=x onerror='window.pwned = 1'>", "b" * 10_000_000]),
    }
    name = "</title><script>window.pwned = 1</script>\u202e/&?"
    evil = Study.create(url, name=name, space=space, budget="$50", policy=Random())
    for k in range(6):
        trial = evil.ask()
        if k == 2:
            evil.tell(trial, failed="</pre><script>window.pwned = 1</script>", cost=1.0)
        else:
            evil.tell(trial, float(k), cost=1.0)
    evil.close()
    many = Study.create(url, name="many", space={"x": Float(0, 1)})
    many.import_trials([{"x": k / 20_000, "value": (k * 7919) % 20_000} for k in range(20_000)])
    many.close()
    return url, name


def wait_for_models(page):
    gallery = f"{PART.format('models')} figure, {PART.format('models')} ul.empty"
    page.wait_for_selector(gallery)


@pytest.mark.slow
def test_difficult_studies_are_displayed(tab, dashboard, database):
    url, evil = database
    with dashboard(url) as address:
        seen = tab()
        page = seen.page
        page.goto(address)
        page.wait_for_selector("text=failures")

        page.goto(study_at(page, "empty"))
        page.wait_for_selector("text=No trial has ended yet.")
        wait_for_models(page)
        assert page.locator("form").count() == 0

        page.goto(study_at(page, "failures"))
        page.wait_for_selector("text=No trial returned a value: 4 failed.")
        page.click(f"{PART.format('trials')} tbody a >> nth=0")
        page.wait_for_selector("text=CUDA out of memory")

        page.goto(study_at(page, evil))
        page.wait_for_selector(f"{PART.format('trials')} tbody a")
        page.wait_for_selector(f"{PART.format('quick')} figure")
        wait_for_models(page)
        assert page.evaluate("window.pwned") is None
        assert page.locator("main img, main script, main iframe").count() == 0
        page.click(f"{PART.format('trials')} tbody a >> nth=3")
        page.wait_for_selector(f"{PART.format('explanation')} table")
        page.wait_for_selector(f"{PART.format('log')} pre")
        assert "</pre><script>" in page.inner_text(PART.format("log"))
        assert page.evaluate("window.pwned") is None

        page.goto(study_at(page, "many"))
        page.wait_for_selector("text=page 1 of 200")
        assert shown_trials(page)[:2] == [19_999, 19_998]
        page.click("text=best first")
        page.wait_for_selector(f"{PART.format('trials')} strong:text-is('best first')")
        page.click("text=next")
        page.wait_for_selector("text=page 2 of 200")
        assert seen.errors == []


@pytest.mark.slow
def test_a_narrow_dark_page(tab, dashboard, database):
    with dashboard(database[0]) as address:
        seen = tab(390, dark=True)
        page = seen.page
        page.goto(address)
        page.goto(study_at(page, "good"))
        page.wait_for_selector("figure[data-figure=curve] svg")
        wait_for_models(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(22, 24, 27)"
        line = "figure[data-figure=curve] path.s-best"
        assert (
            page.eval_on_selector(line, "e => getComputedStyle(e).stroke") == "rgb(116, 183, 255)"
        )
        assert seen.errors == []


@pytest.mark.slow
def test_other_clients_are_refused(dashboard, database):
    with dashboard(database[0]) as address:
        bare = address.split("?")[0]
        for where, headers, part in (
            (bare, {}, "printed"),
            (f"{bare}?token=wrong", {}, "token is wrong"),
            (address, {"Host": "evil.example"}, "not the host"),
            (address, {"Origin": "http://evil.example"}, "another page"),
        ):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(where, headers=headers))
            with refused.value as answer:
                assert answer.code == 403
                assert part in answer.read().decode()


@pytest.mark.slow
def test_a_report_opens_without_a_network(tab, database, tmp_path):
    url, evil = database
    for name in ("good", evil):
        study = Study.open(url, name)
        study.report(tmp_path / "report.html")
        study.close()
        seen = tab(offline=True)
        page, requested = seen.page, []
        page.on("request", lambda request, urls=requested: urls.append(request.url))
        page.goto(f"file://{tmp_path / 'report.html'}")
        assert page.locator("figure svg").count() > 3
        assert requested == [page.url]
        page.click("summary:text-is('JSON')")
        page.click("details[open] button.copy")
        page.wait_for_selector("button:text-is('copied')")
        assert page.evaluate("window.pwned") is None
        assert seen.errors == []

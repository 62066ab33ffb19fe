"""The dashboard and the report in a real browser."""

import math
import re
import subprocess
import sys
import urllib.error
import urllib.request
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import pytest
from processes import PATIENCE
from runs import SPACE, value

from farthing import Categorical, Float, Study
from farthing.policies import Random
from farthing.view.report.page import page as report_page

pytestmark = pytest.mark.xdist_group("browser")  # one process of tests, one browser

FARTHING = (sys.executable, "-c", "from farthing.cli import main; main()")
ROWS = ".trials tbody tr[data-row]"
FIRST = f"{ROWS} >> nth=0"
CHART = "#curve .chart"
VALUES = (5.0, 7.0, 4.0, 6.0, 2.0, 8.0, 1.0, 3.0)  # of the study "steps", each for $1
MANY = 50_000


def study_at(page, name, **query):
    """The address of a study in the folder of the page that is open."""
    return urljoin(page.url, f"study?{urlencode({'name': name, **query})}")


def shown_trials(page):
    """The numbers of the trials in the table, from its top."""
    return [
        int(row) for row in page.eval_on_selector_all(ROWS, "all => all.map(r => r.dataset.row)")
    ]


def wait_for_rows(page, rows):
    page.wait_for_function(
        """([where, rows]) => {
            const shown = [...document.querySelectorAll(where)].map(row => row.dataset.row);
            return shown.join() === rows;
        }""",
        arg=[ROWS, ",".join(map(str, rows))],
    )


def wait_for_models(page):
    """Wait until the models have predicted what one more trial would buy."""
    page.wait_for_selector("#key-figures:not(:has-text('being fitted'))")


def place(page, end, at):
    """Where the main chart of the study "steps" shows a spending and a value, in the window."""
    page.wait_for_selector(f"{CHART} canvas")
    box = page.locator("#curve .u-over").bounding_box()
    across = end / (1.04 * len(VALUES))
    up = (at - 1 + 0.04 * 7) / (1.08 * 7)
    return box["x"] + across * box["width"], box["y"] + (1 - up) * box["height"]


def drag(page, start, end):
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    page.mouse.move(*end)
    page.mouse.up()


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
            page.wait_for_selector(ROWS)
            latest = shown_trials(page)[0]
            page.wait_for_function(
                "([rows, n]) => Number(document.querySelector(rows)?.dataset.row) >= n",
                arg=[ROWS, latest + 2],
            )
            assert run.poll() is None
            page.fill("input[name=budget]", "+1000 trials")
            page.press("input[name=budget]", "Enter")  # presses the button beside it
            page.wait_for_selector("text=of 2,000 trials")
            assert run.poll() is None
            page.click("button:text-is('Stop')")
            page.wait_for_selector("text=stopped: a stop was requested in the dashboard")
            out, _ = run.communicate(timeout=PATIENCE)
            assert "a stop was requested in the dashboard" in out
            assert page.locator(f"{CHART} canvas").count() == 1
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
    steps = Study.create(url, name="steps", space={"x": Float(0, 1)}, budget="$9", policy=Random())
    for each in VALUES:
        steps.tell(steps.ask(), each, cost=1.0)
    steps.close()
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
        trial = evil.ask(worker="<img src=x onerror='window.pwned = 1'>")
        if k == 2:
            evil.tell(trial, failed="</pre><script>window.pwned = 1</script>", cost=1.0)
        else:
            evil.tell(trial, float(k), cost=1.0)
    evil.close()
    many = Study.create(url, name="many", space={"x": Float(0, 1)}, policy=Random())
    many.import_trials([{"x": k / MANY, "value": (k * 7919) % MANY} for k in range(MANY)])
    many.close()
    return url, name


@pytest.fixture(scope="module")
def address(database, dashboard):
    """One dashboard of these studies for all tests."""
    with dashboard(database[0]) as opened:
        yield opened


@pytest.fixture
def steps(tab, address):
    """The page of the study "steps"."""
    seen = tab()
    seen.page.goto(address)
    seen.page.goto(study_at(seen.page, "steps"))
    wait_for_rows(seen.page, [7, 6, 5, 4, 3, 2, 1, 0])
    wait_for_models(seen.page)  # what they predict moves the chart down
    yield seen.page
    assert seen.errors == []


# ── looking ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_difficult_studies_are_displayed(tab, address, database):
    _, evil = database
    seen = tab()
    page, requested = seen.page, []
    page.on("request", lambda request: requested.append(urlsplit(request.url).netloc))
    page.goto(address)
    page.wait_for_selector("text=failures")

    page.goto(study_at(page, "empty"))
    page.wait_for_selector("text=No trial has ended yet.")
    wait_for_models(page)
    assert page.locator("form").count() == 0

    page.goto(study_at(page, "failures"))
    page.wait_for_selector("text=No trial returned a value: 4 failed.")
    page.wait_for_function(  # lines in two directions tell this part of the bar without its colour
        """() => {
            const part = document.querySelector("#key-figures .part.failed");
            return getComputedStyle(part).backgroundImage.split("repeating").length === 3;
        }"""
    )
    page.click(f"{FIRST} >> a")
    page.wait_for_selector("#trial pre:has-text('CUDA out of memory')")

    page.goto(study_at(page, evil))
    page.wait_for_selector(ROWS)
    for name in ("parameters", "costs", "running", "stopping", "settings", "trials"):
        page.click(f"#tab-{name}")
        page.wait_for_selector(f"#tab[aria-labelledby=tab-{name}]:not(:has-text('Loading'))")
    page.hover(f"{CHART} .u-over")
    page.click(f"{ROWS} >> nth=3 >> a")
    page.wait_for_selector("[data-part=why] table")
    page.wait_for_selector("[data-part=log] pre")
    assert "</pre><script>" in page.inner_text("[data-part=log]")
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img, main script, main iframe, #trial img").count() == 0
    assert set(requested) == {urlsplit(address).netloc}  # nothing from another host
    assert seen.errors == []


@pytest.mark.slow
def test_a_narrow_dark_page(tab, address):
    seen = tab(390, dark=True)
    page = seen.page
    page.goto(address)
    page.wait_for_selector(".studies svg.spark")
    assert page.eval_on_selector(".studies", "e => e.scrollWidth - e.parentNode.clientWidth") <= 0
    assert page.is_visible(".studies tr:has-text('good') .account")
    for name in ("trials", "parameters", "costs", "running", "stopping", "settings"):
        page.goto(study_at(page, "good", tab=name))
        page.wait_for_selector(f"{CHART} canvas")
        page.wait_for_selector(f"#tab[aria-labelledby=tab-{name}]:not(:has-text('Loading'))")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(17, 19, 22)"
    assert page.evaluate("chart.look('best').colour") == "#74b7ff"
    assert seen.errors == []


@pytest.mark.slow
def test_the_first_screen_shows_the_key_figures(steps):
    wait_for_models(steps)
    cards = steps.locator("#key-figures .card").all_inner_texts()
    assert [card.split("\n")[0] for card in cards] == [
        "Best value",
        "Spent of the budget",
        "Trials",
        "One more trial",
    ]
    assert "trial 6 for $1.00" in cards[0]
    assert "$8.00 of $9.00" in cards[1]
    assert "8 done" in cards[2]
    assert "expected improvement for about $1.00" in cards[3]
    assert steps.locator("#key-figures .bar .part.accent").bounding_box()["width"] > 100
    bottom = steps.locator("#tabs").bounding_box()
    assert bottom["y"] + bottom["height"] <= 900  # all of it without scrolling


# ── the main chart ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_the_pointer_shows_a_trial(steps):
    steps.mouse.move(*place(steps, 5.0, 2.0))
    steps.wait_for_selector(f"{CHART}[data-row='4'] .tip")
    text = steps.inner_text(f"{CHART} .tip")
    for part in ("trial 4", "done", "x\n", "cost (usd)", "$1.00", "drawn uniformly"):
        assert part in text
    steps.mouse.move(*place(steps, 6.0, 8.0))
    steps.wait_for_selector(f"{CHART}[data-row='5'] .tip:has-text('trial 5')")
    steps.mouse.click(*place(steps, 6.0, 8.0))
    steps.wait_for_selector("#trial h2:text-is('Trial 5')")
    steps.keyboard.press("Escape")
    steps.wait_for_selector("#trial", state="hidden")


@pytest.mark.slow
def test_a_zoom_changes_the_axes_and_a_double_click_shows_all(steps):
    drag(steps, place(steps, 4.4, 4.4), place(steps, 7.6, 0.8))
    steps.wait_for_selector(f"{CHART}[data-zoomed=yes]")
    left, right, low, high = map(float, parse_qs(urlsplit(steps.url).query)["zoom"][0].split(","))
    assert (left, right) == pytest.approx((4.4, 7.6), abs=0.05)
    assert (low, high) == pytest.approx((0.8, 4.4), abs=0.05)
    box = steps.locator("#curve .u-over").bounding_box()
    # Trial 4 ended at $5.00 with the value 2. It is elsewhere in the chart now.
    x = box["x"] + box["width"] * (5.0 - left) / (right - left)
    y = box["y"] + box["height"] * (high - 2.0) / (high - low)
    steps.mouse.move(x, y)
    steps.wait_for_selector(f"{CHART}[data-row='4'] .tip")
    steps.reload()
    steps.wait_for_selector(f"{CHART}[data-zoomed=yes]")
    steps.mouse.dblclick(x, y)
    steps.wait_for_selector(f"{CHART}[data-zoomed=no]")
    assert "zoom" not in parse_qs(urlsplit(steps.url).query)


@pytest.mark.slow
def test_a_logarithmic_axis_and_a_link_to_it(steps):
    x, y = place(steps, 5.0, 2.0)
    steps.mouse.move(x, y)
    steps.wait_for_selector(f"{CHART}[data-row='4'] .tip")
    steps.click("#curve button:text-is('Log')")
    steps.wait_for_selector("#curve button[aria-pressed=true]:text-is('Log')")
    assert parse_qs(urlsplit(steps.url).query)["y"] == ["log"]
    steps.reload()
    steps.wait_for_selector("#curve button[aria-pressed=true]:text-is('Log')")
    wait_for_models(steps)
    box = steps.locator("#curve .u-over").bounding_box()
    # The values 1 to 8, with a margin of 4 % on each side: 2 is at about a third of the axis.
    up = (math.log(2) / math.log(8) + 0.04) / 1.08
    steps.mouse.move(x, box["y"] + (1 - up) * box["height"])
    steps.wait_for_selector(f"{CHART}[data-row='4'] .tip")
    steps.click("#curve button:text-is('Log')")
    steps.wait_for_selector("#curve button[aria-pressed=false]:text-is('Log')")
    assert parse_qs(urlsplit(steps.url).query)["y"] == ["linear"]


@pytest.mark.slow
def test_a_selection_in_the_chart_filters_the_table(steps):
    steps.click("button[data-mode=select]")
    drag(steps, place(steps, 4.5, 3.5), place(steps, 8.2, 0.8))
    wait_for_rows(steps, [7, 6, 4])  # the values 3, 1 and 2
    assert steps.inner_text("#found") == "3 of 8 trials"
    terms = parse_qs(urlsplit(steps.url).query)["filter"][0].split()
    assert [re.match(r"\w+[<>]=", term)[0] for term in terms] == [
        *("spent>=", "spent<=", "value>=", "value<="),
    ]
    steps.fill("#filter", "")
    wait_for_rows(steps, [7, 6, 5, 4, 3, 2, 1, 0])


@pytest.mark.slow
def test_parallel_coordinates_name_the_best_trial_and_filter(steps):
    steps.click("#tab-parameters")
    steps.wait_for_selector(".legend:has-text('best: trial 6')")
    canvas = steps.locator(".parallel canvas")

    def across():  # the axis of the value, the last one
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        return box["x"] + box["width"] - 54, box["y"]

    x, y = across()
    drag(steps, (x, y + 320), (x, y + 230))  # from its end, the value 1
    steps.click("#tab-trials")
    steps.wait_for_selector("#found:has-text('of 8 trials')")
    terms = parse_qs(urlsplit(steps.url).query)["filter"][0].split()
    assert [re.match(r"\w+[<>]=", term)[0] for term in terms] == ["value>=", "value<="]
    assert terms[0] == "value>=1"
    limit = float(terms[1].partition("=")[2])
    assert 2 < limit < 4
    wait_for_rows(steps, [k for k in reversed(range(8)) if VALUES[k] <= limit])
    steps.click("#tab-parameters")
    x, y = across()
    steps.mouse.click(x, y + 200)  # a click removes the filter
    steps.click("#tab-trials")
    wait_for_rows(steps, [7, 6, 5, 4, 3, 2, 1, 0])


@pytest.mark.slow
def test_the_keyboard_reaches_trials_and_tabs(steps):
    steps.focus(CHART)
    for number in range(3):
        steps.keyboard.press("ArrowRight")
        steps.wait_for_selector(f"{CHART}[data-row='{number}'] .tip")
    steps.keyboard.press("+")
    steps.wait_for_selector(f"{CHART}[data-zoomed=yes]")
    steps.keyboard.press("0")
    steps.wait_for_selector(f"{CHART}[data-zoomed=no]")
    steps.focus("#tab-trials")
    steps.keyboard.press("ArrowRight")
    steps.wait_for_selector("#tab-parameters[aria-selected=true]")
    assert steps.evaluate("document.activeElement.id") == "tab-parameters"
    steps.keyboard.press("/")
    steps.wait_for_selector("#tab-trials[aria-selected=true]")
    assert steps.evaluate("document.activeElement.id") == "filter"


# ── the table of trials ────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_filters_columns_and_two_trials_side_by_side(steps):
    steps.fill("#filter", "value<4 -nothing")
    wait_for_rows(steps, [7, 6, 4])
    steps.fill("#filter", "valeu<4")
    steps.wait_for_selector("#found:has-text('there is no column “valeu”')")
    steps.fill("#filter", "")
    wait_for_rows(steps, [7, 6, 5, 4, 3, 2, 1, 0])
    steps.click("button.sort[title=value]")
    wait_for_rows(steps, [6, 4, 7, 2, 0, 3, 1, 5])
    steps.click("button.sort[title=value]")
    wait_for_rows(steps, [5, 1, 3, 0, 2, 7, 4, 6])
    assert steps.get_attribute("th:has(button[title=value])", "aria-sort") == "descending"
    steps.click(".menu summary")
    steps.click(".menu label:has-text('why')")
    steps.wait_for_selector("button.sort[title=why]", state="detached")
    for row in (0, 6):
        steps.check(f"input[aria-label='compare trial {row}']")
    steps.wait_for_selector(".compared tr.differs:has-text('value')")
    assert steps.locator(".compared tr:has(th:text-is('value')) td").all_inner_texts() == ["5", "1"]
    assert steps.locator(".compared tr:not(.differs) th:text-is('cost.usd')").count() == 1


@pytest.mark.slow
def test_a_link_restores_what_is_shown(tab, address):
    seen = tab()
    page = seen.page
    page.goto(address)
    query = {"tab": "trials", "filter": "value>=2 value<=6", "sort": "value", "trial": 3}
    page.goto(study_at(page, "steps", **query, compare="2,4", zoom="1,6,1,7", x="trials"))
    wait_for_rows(page, [4, 7, 2, 0, 3])
    page.wait_for_selector("#trial h2:text-is('Trial 3')")
    page.wait_for_selector(f"{CHART}[data-zoomed=yes]")
    assert page.input_value("#filter") == "value>=2 value<=6"
    assert page.locator(".compared thead th").count() == 3
    assert page.input_value("#curve select") == "trials"
    page.click("#tab-costs")
    page.wait_for_selector("[data-figure=money] canvas")
    page.go_back()
    wait_for_rows(page, [4, 7, 2, 0, 3])
    # Text that is not a tab, a trial or a zoom does no harm.
    page.goto(study_at(page, "steps", tab="<b>", trial="x", zoom="1,2", sort="none", hide="q"))
    page.wait_for_selector(ROWS)
    page.wait_for_selector("#tab-trials[aria-selected=true]")
    assert seen.errors == []


@pytest.mark.slow
def test_fifty_thousand_trials(tab, address, database):
    """All of them are sorted, but only the rows in view are elements of the page."""
    seen = tab()
    page = seen.page
    page.goto(address)
    page.goto(study_at(page, "many"))
    page.wait_for_selector(f"{FIRST} >> a:text-is('{MANY - 1}')")
    assert page.locator("#curve .legend").inner_text().startswith(f"done ({MANY:,})")
    assert len(shown_trials(page)) < 100
    by_value = sorted(range(MANY), key=lambda k: (k * 7919) % MANY)
    page.click("button.sort[title=value]")
    page.wait_for_selector(f"{FIRST} >> a:text-is('{by_value[0]}')")
    assert shown_trials(page)[:10] == by_value[:10]
    page.eval_on_selector(".scroller", "e => { e.scrollTop = e.scrollHeight; }")
    page.wait_for_selector(f"{ROWS} a:text-is('{by_value[-1]}')")
    assert shown_trials(page)[-10:] == by_value[-10:]
    assert len(shown_trials(page)) < 100
    study = Study.open(database[0], "many")  # a new trial appears without a reload
    study.tell(study.ask(), -1.0, cost=1.0)
    study.close()
    page.wait_for_selector(f"#key-figures :text-is('trial {MANY}')")
    assert seen.errors == []


# ── several studies ────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_the_list_of_studies_compares_some_of_them(tab, address):
    seen = tab()
    page = seen.page
    page.goto(address)
    page.wait_for_selector(".studies tr:has-text('steps') svg.spark path")
    row = page.inner_text(".studies tr:has-text('steps')")
    assert "$8.00 of $9.00" in row
    page.check("input[aria-label='compare steps']")
    page.check("input[aria-label='compare good']")
    page.wait_for_selector("[data-figure=comparison] canvas")
    assert page.locator("[data-figure=comparison] .entry").count() == 2
    page.reload()
    page.wait_for_selector("[data-figure=comparison] canvas")
    page.uncheck("input[aria-label='compare good']")
    page.wait_for_selector("[data-figure=comparison]", state="detached")
    page.click(".studies a:text-is('steps')")
    page.wait_for_selector(f"{CHART} canvas")
    assert seen.errors == []


# ── security and the report ────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_other_clients_are_refused(address):
    bare = address.split("?")[0]
    for where, headers, part in (
        (bare, {}, "printed"),
        (f"{bare}data/study?name=good", {}, "printed"),
        (f"{bare}?token=wrong", {}, "token is wrong"),
        (address, {"Host": "evil.example"}, "not the host"),
        (address, {"Origin": "http://evil.example"}, "another page"),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(where, headers=headers))
        with refused.value as answer:
            assert answer.code == 403
            assert part in answer.read().decode()


@pytest.fixture(scope="module")
def report(database, tmp_path_factory):
    """`report(name, ...)`: the report of studies as the address of a file."""
    folder = tmp_path_factory.mktemp("reports")

    def make(*names):
        file = folder / f"{len(list(folder.iterdir()))}.html"
        facts = {}
        for name in names:
            study = Study.open(database[0], name)
            facts[name] = study.facts
            study.close()
        file.write_text(report_page(facts), "utf-8")
        return f"file://{file}"

    return make


@pytest.mark.slow
def test_a_report_opens_without_a_network(tab, database, report):
    for name in ("good", database[1]):
        seen = tab(offline=True)
        page, requested = seen.page, []
        page.on("request", lambda request, urls=requested: urls.append(request.url))
        page.goto(report(name))
        page.wait_for_selector(f"{CHART} canvas")
        wait_for_models(page)
        assert "This study tuned" in page.inner_text(".screen .lead")
        for each in ("parameters", "costs", "running", "stopping", "settings", "trials"):
            page.click(f"#tab-{each}")
            page.wait_for_selector(f"#tab[aria-labelledby=tab-{each}]:not(:has-text('Loading'))")
        page.click("#key-figures a")
        page.click("#trial summary:text-is('JSON')")
        page.click("#trial details[open] button.copy")
        page.wait_for_selector("button:text-is('copied')")
        assert requested == [page.url.partition("?")[0]]
        assert page.evaluate("window.pwned") is None
        assert seen.errors == []


@pytest.mark.slow
def test_a_report_can_be_printed_and_read_without_scripts(tab, report, tmp_path):
    where = report("good")
    seen = tab()
    seen.page.goto(where)
    seen.page.wait_for_selector(f"{CHART} canvas")
    assert not seen.page.is_visible(".paper")
    seen.page.emulate_media(media="print")
    assert seen.page.is_visible(".paper [data-figure=curve] svg")
    assert not seen.page.is_visible(".screen")
    printed = seen.page.pdf(format="A4", prefer_css_page_size=True)
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 4
    assert seen.errors == []
    without = tab(java_script_enabled=False).page
    without.goto(where)
    assert without.is_visible(".paper [data-figure=curve] svg")
    assert without.is_visible(".paper .trials")
    assert not without.is_visible(".screen")


@pytest.mark.slow
def test_a_report_of_several_studies_has_the_page_of_each(tab, database, report):
    hostile = database[1]
    where = report("good", "steps", hostile)
    seen = tab(offline=True)
    page = seen.page
    page.goto(where)
    page.wait_for_selector("#comparison [data-figure=comparison] canvas")
    assert page.locator(".studies tbody tr").count() == 3
    assert page.locator(".studies input").count() == 0  # all are compared
    page.click(".studies a:text-is('steps')")
    page.wait_for_selector(f"{CHART} canvas")
    assert page.inner_text("#one h1") == "steps"
    assert page.inner_text("#one .lead").startswith("This study tuned")
    page.click("#tab-settings")
    page.wait_for_selector("#tab table")
    assert parse_qs(urlsplit(page.url).query) == {"study": ["steps"], "tab": ["settings"]}
    page.click("#one nav a")
    page.wait_for_selector("#comparison [data-figure=comparison] canvas")
    page.locator(".studies a").nth(2).click()
    page.wait_for_selector("#one:not([hidden])")
    assert page.evaluate("window.pwned") is None
    page.emulate_media(media="print")
    assert page.locator(".paper section").count() == 3
    assert page.is_visible(".paper #study-1")
    assert not page.is_visible(".screen")
    assert seen.errors == []

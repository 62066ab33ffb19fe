"""Studies in the outputs of a notebook, in a browser."""

import re

import pytest

from farthing import Categorical, Float, Study

pytestmark = pytest.mark.xdist_group("browser")  # one process of tests, one browser

FITS = "document.documentElement.scrollHeight <= innerHeight"
EVIL = "</iframe></script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The outputs of two cells, as a notebook stores them."""
    made, folder = [], tmp_path_factory.mktemp("notebook")
    for name, cost in (("plain", 1.0), (EVIL, 2.0)):
        space = {"x": Float(0, 1), "kind": Categorical(["a", EVIL])}
        study = Study.create(folder / "s.db", name=name, space=space, budget="$40")
        for k in range(6):
            study.tell(study.ask(), (k - 3.5) ** 2, cost=cost)
        study.tell(study.ask(), failed=EVIL, cost=cost)
        made.append(study._repr_html_())
        study.close()
    return made


@pytest.fixture
def opened(outputs, tab, tmp_path):
    def open_page(*contents, **options):
        file = tmp_path / "notebook.html"
        file.write_text(f"<!doctype html><meta charset='utf-8'><body>{''.join(contents)}", "utf-8")
        page = tab(**options)
        requests = []
        page.page.on("request", lambda request: requests.append(request.url))
        page.page.goto(f"file://{file}")
        return page, requests

    return open_page


def frames_of(page):
    frames = page.frames[1:]
    for frame in frames:
        frame.wait_for_selector("#curve canvas")
    return frames


@pytest.mark.slow
@pytest.mark.parametrize("width", [1100, 390])
def test_two_outputs_of_a_notebook_with_hover(opened, outputs, width):
    tab, requests = opened(*outputs, width=width)
    page = tab.page
    first, second = frames_of(page)
    assert first.inner_text(".card .figure-number") == "0.25"
    first.wait_for_function(FITS)
    assert second.inner_text("h1") == EVIL
    assert "$14.00 of $40.00" in second.inner_text("#key-figures")
    for frame, paid in ((first, "$1.00"), (second, "$2.00")):
        frame.locator("#curve .chart").focus()
        frame.locator("#curve .chart").press("ArrowRight")
        assert frame.inner_text(".tip .title").startswith("trial 0")
        assert paid in frame.inner_text(".tip")
    assert page.locator("div > img").count() == 2
    assert not any(picture.is_visible() for picture in page.locator("div > img").all())
    assert [url for url in requests if not re.match("file:|about:srcdoc|data:", url)] == []
    assert tab.errors == []


@pytest.mark.slow
def test_the_chart_takes_what_is_left_of_its_frame(opened, outputs):
    """The frame may get its width only after its script has run."""
    tab, _ = opened(outputs[0], width=1100)
    (frame,) = frames_of(tab.page)
    frame.wait_for_function(f"{FITS} && document.querySelector('.chart').offsetHeight === 270")
    tab.page.set_viewport_size({"width": 390, "height": 900})
    frame.wait_for_function(f"{FITS} && innerWidth < 390")
    assert 200 < frame.evaluate("document.querySelector('.chart').offsetHeight") < 270


@pytest.mark.slow
def test_the_frame_cannot_reach_the_notebook(opened, outputs):
    tab, _ = opened(outputs[0])
    (frame,) = frames_of(tab.page)
    assert frame.evaluate("self.origin") == "null"
    refused = "() => { try { return String(parent.document.title); } catch (e) { return e.name; } }"
    assert frame.evaluate(refused) == "SecurityError"


@pytest.mark.slow
def test_without_scripts_and_frames_the_picture_is_seen(opened, outputs):
    kept = [re.sub(r"<style>.*?</style>|<iframe [^>]*></iframe>", "", each) for each in outputs]
    tab, _ = opened(*kept, java_script_enabled=False)
    page = tab.page
    pictures = page.locator("div > img")
    assert pictures.count() == 2
    for k in range(2):
        assert pictures.nth(k).is_visible()
        assert pictures.nth(k).bounding_box()["height"] > 200  # it is a picture, not its text
    assert "0.25 (trial 3)" in page.inner_text("body")

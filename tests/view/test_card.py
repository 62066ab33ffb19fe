"""A study as the output of a notebook cell: what it contains, and what remains of it elsewhere."""

import base64
import html
import json
import re

import numpy as np
import pytest

from farthing import Categorical, Float, Optimizer, Study, minimize
from farthing.policies import Random
from farthing.view import card as module
from farthing.view.card import card, study_card
from farthing.view.web import hash_of, script
from farthing.view.web.assets import CARD_SCRIPTS

EVIL = "</iframe></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
FRAME = re.compile(r"<iframe ([^>]*)></iframe>")


def run(count=6, **more):
    return minimize(lambda p: (p["x"] - 0.3) ** 2, {"x": Float(0, 1)}, n_trials=count, **more)


def frame_of(made):
    """The attributes of the only frame of an output, unescaped."""
    (inside,) = FRAME.findall(made)
    return {name: html.unescape(value) for name, value in re.findall(r'([\w-]+)="([^"]*)"', inside)}


def data_of(page):
    (text,) = re.findall(r'<script type="application/json" id="card-data">(.*?)</script>', page)
    return json.loads(text)


def without_frames_and_styles(made):
    """What GitHub keeps of an output."""
    return re.sub(r"<style>.*?</style>| style=\"[^\"]*\"", "", FRAME.sub("", made))


@pytest.fixture(scope="module")
def result():
    return run()


def test_the_page_of_a_frame_runs_one_script_and_loads_nothing(result):
    frame = frame_of(result._repr_html_())
    assert frame["sandbox"] == "allow-scripts"  # not the origin of the notebook
    assert "src" not in frame
    page = frame["srcdoc"]
    (rules,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert rules.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert f"script-src {hash_of(script(CARD_SCRIPTS))};" in rules
    assert "unsafe" not in rules
    assert not re.search(r"<(?:script|link|img)[^>]* (?:src|href)=", page)


def test_the_page_has_the_key_figures_and_every_trial(result):
    data = data_of(frame_of(result._repr_html_())["srcdoc"])
    assert data["facts"]["status"] == result.stop_reason.sentence
    assert data["facts"]["phase"] == "stopped"
    assert data["facts"]["best"] == result.best.number
    assert data["forecast"]["gain"] >= 0
    assert data["trials"]["numbers"] == list(range(6))
    assert data["ends"] == [1, 2, 3, 4, 5, 6]
    (values,) = [c["values"] for c in data["trials"]["columns"] if c["key"] == "value"]
    assert values == [float(f"{trial.value:.6g}") for trial in result.trials]


def test_an_output_without_frames_and_styles_is_a_table_and_a_picture(result):
    made = result._repr_html_()
    (name,) = re.findall(r"<style>\.(farthing-\w+){display:none}</style>", made)
    assert f'<div class="{name}">' in made
    assert name not in run(5)._repr_html_()  # a style reaches the outputs of other cells
    rest = without_frames_and_styles(made)
    assert "iframe" not in rest
    assert "style" not in rest.replace("style='text-align", "")
    assert f"(trial {result.best.number})" in rest
    (source,) = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)"', rest)
    picture = base64.b64decode(source).decode()
    assert picture.startswith("<svg")
    assert "best: " in picture
    assert "<title>" not in picture  # nothing can be pointed at


def test_a_hostile_study_is_escaped_everywhere(tmp_path):
    space = {EVIL: Categorical([EVIL, "b"]), "x": Float(0, 1)}
    study = Study.create(tmp_path / "a.db", name=EVIL, space=space, budget="9 trials")
    study.tell(study.ask(), 0.5)
    study.tell(study.ask(), failed=EVIL)
    made = study._repr_html_()
    study.close()
    for text in (FRAME.sub("", made), frame_of(made)["srcdoc"]):
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    assert len(re.findall("<script", made)) == 0  # those of the page are escaped in an attribute
    assert len(re.findall("</script>", frame_of(made)["srcdoc"])) == 2


def test_a_long_study_is_thinned_but_keeps_its_improvements(monkeypatch):
    monkeypatch.setattr(module, "MAX_TRIALS", 20)
    result = run(120, policy=Random(), seed=3)
    data = data_of(frame_of(result._repr_html_())["srcdoc"])
    numbers, values = data["trials"]["numbers"], [trial.value for trial in result.trials]
    improved = [n for n, v in enumerate(values) if v == min(values[: n + 1])]
    assert set(improved) <= set(numbers)
    assert len(numbers) <= 20 + len(improved)
    assert data["left_out"] == 120 - len(numbers) > 0
    assert data["ends"] == [number + 1 for number in numbers]
    assert data["trials"]["count"] == 120


def test_no_model_is_fitted_to_many_trials(monkeypatch, result):
    monkeypatch.setattr(module, "MAX_FITTED", 5)
    assert data_of(frame_of(result._repr_html_())["srcdoc"])["forecast"] is None


def test_an_output_stays_small():
    """The scripts and styles are most of it; a trial adds about a hundred bytes."""
    optimizer = Optimizer({"x": Float(0, 1)}, "1000 trials", policy=Random())
    empty = len(study_card("a", *optimizer.facts))
    for k in range(300):
        optimizer.tell(optimizer.ask(), float(np.sin(k)))
    assert empty < 160_000
    assert len(study_card("a", *optimizer.facts)) - empty < 300 * 150


def test_a_study_without_values():
    optimizer = Optimizer({"x": Float(0, 1)}, "$9")
    made = optimizer._repr_html_()
    assert data_of(frame_of(made)["srcdoc"])["ends"] == []
    assert "No trial has ended yet." in without_frames_and_styles(made)


def test_a_result_without_settings_is_a_table(result):
    from dataclasses import replace

    assert replace(result, facts=None)._repr_html_().startswith("<table>")


def test_the_facts_of_a_card_are_escaped_once(result):
    made = card("a & b", {"stopped": "x < y"}, *result.facts)
    assert "<strong>a &amp; b</strong>" in made
    assert "x &lt; y" in FRAME.sub("", made)


def test_the_real_display_formatter_shows_text_and_html(result):
    formatters = pytest.importorskip("IPython.core.formatters")
    data, _ = formatters.DisplayFormatter().format(result)
    assert set(data) == {"text/plain", "text/html"}

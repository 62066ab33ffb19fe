"""How results, trials and studies are displayed in a console and in a notebook."""

import re

import numpy as np
import pytest

from farthing import Float, Outcome, Study, minimize
from farthing.errors import NothingFound
from farthing.history import History, Run, Trial
from farthing.notebook import html_table
from farthing.policies import Random

SPACE = {"x": Float(0, 1)}


def untagged(html):
    return re.sub(r"<[^>]*>", " ", html)


def test_a_table_escapes_its_contents():
    table = html_table({"<b>": "<script>alert(1)</script> & 'x' \"y\""})
    assert "<script>" not in table
    assert "&lt;b&gt;" in table
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp;" in table
    assert table.count("<tr>") == table.count("</tr>") == 1


def test_the_repr_of_a_trial_omits_its_coordinates():
    trial = Trial(3, {"x": 0.5}, np.full(50, 0.25), "done", 1.5, {"s": 2.0}, because="why")
    assert repr(trial) == (
        "Trial(number=3, state='done', value=1.5, params={'x': 0.5}, cost={'s': 2.0})"
    )
    failed = Trial(0, {"x": "<i>"}, np.zeros(1), "failed", error="<b>", run=Run(metrics={"a": 1}))
    assert "metrics={'a': 1}, error='<b>'" in repr(failed)
    assert "<b>" not in failed._repr_html_()
    assert "&lt;b&gt;" in failed._repr_html_()
    assert "why" in trial._repr_html_()


def test_the_repr_of_a_history_counts_trials_by_state():
    trials = [Trial(i, {}, np.zeros(1), "done" if i else "failed") for i in range(4)]
    assert repr(History(tuple(trials))) == "<History of 4 trials: 1 failed, 3 done>"
    assert repr(History()) == "<History: none>"


def test_the_repr_of_a_result_is_short_for_any_number_of_trials():
    result = minimize(lambda p: p["x"], SPACE, "40 trials", policy=Random())
    assert len(repr(result).splitlines()) == 3
    assert len(repr(result)) < 400
    assert repr(result) == str(result)
    assert f"(trial {result.best.number})" in untagged(result._repr_html_())
    assert result.found is result.best


@pytest.mark.parametrize("ends", ["budget", "failures"])
def test_a_result_without_values_names_the_reason(ends):
    def fails(params):
        raise ValueError("a <wrong> value")

    more = {"failures_in_a_row": float("inf")} if ends == "budget" else {}
    result = minimize(fails, SPACE, "7 trials", policy=Random(), **more)
    assert result.found is None
    assert result.failed == (ends == "failures")
    assert "ValueError: a <wrong> value" in str(result)
    assert "ValueError: a <wrong> value" in repr(result)
    assert len(repr(result).splitlines()) == 3
    assert "a &lt;wrong&gt; value" in result._repr_html_()
    with pytest.raises(NothingFound, match=r"(?s)no best trial .* failed.*a <wrong> value"):
        _ = result.best.params


def test_a_result_without_trials():
    result = minimize(lambda p: Outcome(1.0, cost=1.0), SPACE, 1e-300, cost=lambda p: 1.0)
    with pytest.raises(NothingFound, match=r"There is no best trial \(no trial was started\)"):
        _ = result.best


def test_a_study_in_a_console_and_in_a_notebook(tmp_path):
    study = Study.create(tmp_path / "a.db", name="<a>", space=SPACE, budget="$9")
    assert "No trial has ended yet" in untagged(study._repr_html_())
    study.tell(study.ask(), 0.25, cost=0.014)
    lines = repr(study).splitlines()
    assert lines[0] == f"Study.open('sqlite:///{tmp_path / 'a.db'}', '<a>')"
    assert lines[1:] == ["1 done; $0.014 of $9.00 spent; best 0.25 (trial 0) at x=0.5"]
    text = study._repr_html_()
    assert "<a>" not in text
    assert "&lt;a&gt;" in text
    assert "0.25" in text
    study.close()


def test_a_study_has_a_repr_after_its_database_was_deleted(tmp_path):
    study = Study.create(tmp_path / "a.db", name="a", space=SPACE)
    study.close()
    (tmp_path / "a.db").unlink()
    (tmp_path / "a.db").mkdir()
    assert repr(study) == f"Study.open('sqlite:///{tmp_path / 'a.db'}', 'a')"

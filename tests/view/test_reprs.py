"""How results, trials and studies are displayed in a console and in a notebook."""

import re

import numpy as np
import pytest

from farthing import Budget, Categorical, Float, Outcome, Space, Study, minimize
from farthing.budget.ledger import Ledger
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


def test_a_history_is_a_table_of_its_last_trials_in_a_notebook():
    trials = [Trial(i, {"x": "<i>"}, np.zeros(1), "done", float(i)) for i in range(60)]
    table = History(tuple(trials))._repr_html_()
    assert untagged(table).startswith("&lt;History of 60 trials: 60 done&gt;, of which the last 50")
    assert table.count("<tr>") == 51
    assert "<i>" not in table
    assert untagged(table).split()[11:16] == ["number", "state", "value", "params", "10"]
    assert "error" not in table
    short = History(tuple(trials[:2]))._repr_html_()
    assert short.count("<tr>") == 3
    assert "of which" not in short


def test_a_ledger_shows_each_account():
    ledger = Ledger.of(Budget("$5, 10 trials")).reserve(0, {"usd": 1.0}).charge(0, {"usd": 2.5})
    ledger = ledger.reserve(1, {"usd": 1.5})
    assert repr(ledger) == (
        "<Ledger: $2.50 of $5.00 spent, $1.50 reserved; "
        "1 trial of 10 trials spent, 1 trial reserved>"
    )
    html = untagged(ledger._repr_html_()).split()
    assert html[:5] == ["limit", "spent", "reserved", "left", "overhead"]
    assert html[5:11] == ["usd", "$5.00", "$2.50", "$1.50", "$1.00", "$0.00"]
    assert repr(Ledger.of(None)) == "<Ledger: 0 of unlimited spent>"


def test_a_space_shows_its_parameters():
    space = Space({"x": Float(0, 1), "k": Categorical(["<a>", "b"])}, allowed=[{"k": "b"}])
    assert repr(space).startswith("Space({'x': Float(low=0.0, high=1.0), 'k': Categorical(")
    html = space._repr_html_()
    assert "<a>" not in html
    assert html.count("<tr>") == 3
    assert "Float(low=0.0, high=1.0)" in html
    assert untagged(html).split()[-3:] == ["allowed", "combinations", "1"]


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
    assert "no trial returned a value" in untagged(study._repr_html_())
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

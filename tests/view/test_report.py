"""The report: its contents, and that no data in a study becomes markup."""

import ast
import json
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from runs import KINDS, played, seen

from farthing import Categorical, Float, Int, Optimizer, Study
from farthing.budget.units import format_amount
from farthing.errors import InvalidInput
from farthing.history import History
from farthing.policies import Random
from farthing.view.card import study_card
from farthing.view.formatting import best_line
from farthing.view.report import (
    copies,
    report_facts,
    report_text,
    status_sentence,
)
from farthing.view.report.page import page
from farthing.view.report.report_facts import lead

VOID = {"img", "meta", "br", "hr", "input", "link"}


class Parsed(HTMLParser):
    """Tags with their attributes, text, and whether every tag is closed."""

    def __init__(self, markup):
        HTMLParser.__init__(self)
        self.tags, self.text, self.open = [], "", []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["script"]:
            self.text += data

    def named(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.fixture(scope="module")
def run():
    return seen(KINDS["minimised"]())


@pytest.fixture(scope="module")
def parsed(run):
    return Parsed(page({"svm": tuple(run)}))


@pytest.mark.slow
def test_the_page_contains_the_facts(run, parsed):
    facts = report_facts("svm", *run)
    assert parsed.open == []
    for text in (facts.status, facts.trials, str(facts.next_trial), f"{facts.best.value:.6g}"):
        assert text in parsed.text
    ledger = run.state.ledger["usd"]
    for amount in (ledger.limit, ledger.spent, ledger.left):
        assert format_amount("usd", amount) in parsed.text
    for text in copies(run.settings, facts.best).values():
        assert text in parsed.text
    drawn = [each["data-figure"] for each in parsed.named("figure")]
    assert {"curve", "money", "prospect", "pareto", "predictions", "drivers"} < set(drawn)
    assert drawn.count("slice") == 5
    assert drawn[0] == "curve"
    top = parsed.text.partition(lead(facts, run.settings))[2].partition("Best configuration")[0]
    number = f"trial {facts.best.number}"
    for text in (f"{facts.best.value:.6g}", number, f"{facts.next_trial.gain:.3g}", facts.trials):
        assert text in top
    assert "Learning curves: No trial reported two or more values" in parsed.text
    rows = re.findall(r"out of memory", parsed.text)
    assert len(rows) == 2


def test_the_page_loads_nothing(parsed):
    addresses = [
        value
        for _, attributes in parsed.tags
        for name, value in attributes.items()
        if name in ("src", "href", "action", "data", "srcset", "poster")
    ]
    assert [address for address in addresses if not address.startswith("#")] == []
    assert [each.get("type") for each in parsed.named("script")] == ["application/json", None]
    assert [each.get("media") for each in parsed.named("style")] == ["screen", "print", None]
    policy = next(m["content"] for m in parsed.named("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


@pytest.mark.slow
def test_every_table_has_a_head_as_wide_as_its_rows(run):
    tables = re.findall(r"<table.*?</table>", page({"svm": tuple(run)}), re.S)
    assert len(tables) >= 2
    for table in tables:
        head, *rows = table.split("</tr>")[:-1]
        assert rows
        columns = len(re.findall("<th[ >]", head))
        assert {len(re.findall("<td[ >]", row)) for row in rows} == {columns}


def test_a_configuration_can_be_copied():
    space = {"n": Int(1, 9), "name": Categorical(["a b", "c"]), "m": Float(0, 1)}
    optimizer = Optimizer(space, "$9")
    trial = optimizer.ask()
    settings = optimizer._settings
    copied = copies(settings, trial)
    assert ast.literal_eval(copied["Python"]) == trial.params
    assert json.loads(copied["JSON"]) == trial.params
    assert shlex.split(copied["command line"]) == [f"--{k}={v}" for k, v in trial.params.items()]
    command = ("python", "t.py", "--n", "{n}", "--name={name?}", "--z={z?}")
    tuned = replace(settings, command=command)
    name, n = trial.params["name"], trial.params["n"]
    assert shlex.split(copies(tuned, trial)["command line"]) == [
        *("python", "t.py", "--n", str(n), f"--name={name}")
    ]


@pytest.mark.slow
def test_a_report_of_a_thousand_trials_is_small_enough_for_an_email():
    optimizer = Optimizer(
        {"x": Float(0, 1), "kind": Categorical(["a", "b", "c"])}, "$1e6", policy=Random()
    )
    rows = [
        {"x": k / 1000, "kind": "abc"[k % 3], "value": (k * 7919) % 1000 / 1000, "cost": 1 + k % 9}
        for k in range(1000)
    ]
    optimizer.import_trials(rows)
    settings, state = seen(optimizer)
    trials = []
    for trial in state.history:  # as if this study had suggested them
        run = replace(trial.run, asked_at=trial.number, told_at=trial.number + 1)
        trials.append(replace(trial, because="drawn uniformly", origin="suggested", run=run))
    made = page({"many": (settings, replace(state, history=History(tuple(trials))))})
    assert len(made.encode()) < 3_000_000
    assert len(Parsed(made).named("tr")) > 1000


@pytest.mark.slow
def test_several_studies_are_compared(run):
    other = seen(played(6, broken=()))
    parsed = Parsed(page({"a": tuple(run), "b & c": tuple(other)}))
    assert parsed.open == []
    assert parsed.named("figure")[0]["data-figure"] == "comparison"
    assert [each["href"] for each in parsed.named("a")] == ["?", "#study-0", "#study-1"]
    assert {each.get("id") for each in parsed.named("section")} >= {"study-0", "study-1"}


def test_a_study_without_trials():
    for made in (Optimizer({"x": Float(0, 1)}), Optimizer({"x": Float(0, 1)}, "$5")):
        parsed = Parsed(page({"new": tuple(seen(made))}))
        assert "No trial returned a value yet." in parsed.text
        assert "No trial has ended yet." in parsed.text
        assert "there is no model yet" in parsed.text


def test_a_study_with_failures_only():
    optimizer = Optimizer({"x": Float(0, 1)}, "$50")
    for _ in range(4):
        optimizer.tell(optimizer.ask(), failed="Traceback\n  no\nValueError: <b>no</b>", cost=1.0)
    parsed = Parsed(page({"bad": tuple(seen(optimizer))}))
    assert "No trial returned a value: 4 failed." in parsed.text
    assert "ValueError: <b>no</b>" in parsed.text


@pytest.mark.slow
def test_a_figure_that_cannot_be_drawn_gives_the_reason(run, monkeypatch):
    def refuse(*_):
        raise InvalidInput("The <cost> cannot be learnt from.")

    for name in ("predictions", "prospect"):
        monkeypatch.setattr(f"farthing.view.figures.{name}", refuse)
    monkeypatch.setattr("farthing.view.report.parts.drivers_of", refuse)
    parsed = Parsed(page({"odd": tuple(run)}))
    for title in (
        "Predicted and actual cost",
        "Is another trial worth its cost?",
        "Which parameters drive value and cost",
    ):
        assert f"{title}: The <cost> cannot be learnt from." in parsed.text
    drawn = [each["data-figure"] for each in parsed.named("figure")]
    assert {"curve", "money", "pareto"} <= set(drawn)


NAMES = {
    "<script>alert(1)</script>": Float(0, 1),
    'x" onload="alert(1)': Int(1, 5),
    "\u202eevil": Categorical(["</pre><script>alert(2)</script>", "b" * 10_000_000]),
}


@pytest.fixture(scope="module")
def hostile():
    optimizer = Optimizer(NAMES, "$100", policy=Random())
    for k in range(7):
        trial = optimizer.ask()
        if k in (2, 3):
            error = "</td><img src=x onerror=alert(3)>" if k == 2 else "e" * 10_000_000
            optimizer.tell(trial, failed=error, cost=1.0)
        else:
            optimizer.tell(trial, 1.0 / (k + 1), cost=1.0 + k)
    settings, state = seen(optimizer)
    reports = ({"step": 1, "value": float("nan")}, {"step": "\u202e", "value": "<b>"})
    trial = state.history[0]
    odd = replace(trial, run=replace(trial.run, reports=reports, worker="<i>w</i>"))
    return settings, replace(state, history=state.history.replacing(odd))


@pytest.mark.slow
def test_nothing_in_a_study_becomes_markup(hostile):
    made = page({"<b>study</b>\u202e": hostile})
    assert len(made) < 3_000_000
    assert "\u202e" not in made
    parsed = Parsed(made)
    assert parsed.open == []
    tags = {tag for tag, _ in parsed.tags}
    assert not tags & {"img", "b", "i", "iframe", "object"}
    assert [each.get("type") for each in parsed.named("script")] == ["application/json", None]
    events = [n for _, attributes in parsed.tags for n in attributes if n.startswith("on")]
    assert events == []
    assert "style" not in {n for _, attributes in parsed.tags for n in attributes}
    assert "<script>alert(1)</script>" in parsed.text  # as text
    assert "too long to show here" in made or "alert(2)" in parsed.text
    small = Parsed(study_card("<b>", *hostile))
    assert not {tag for tag, _ in small.tags} & {"b", "script"}
    assert all(each["src"].startswith("data:image/svg") for each in small.named("img"))
    assert len(report_text(report_facts("x", *hostile))) > 50


# ── in a study ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def study(tmp_path):
    made = Study.create(tmp_path / "s.db", name="svm", space={"x": Float(0, 1)}, budget="$60")
    for _ in range(7):
        trial = made.ask()
        made.tell(trial, (trial.params["x"] - 0.6) ** 2, cost=1 + 5 * trial.params["x"])
    yield made
    made.close()


def test_a_study_has_figures_and_a_report(study, tmp_path):
    assert study.plot.values.curve().panels
    written = study.report(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == written
    assert "<h1>svm</h1>" in written
    assert f"{study.best.value:.6g}" in study._repr_html_()


def test_a_summary_is_plain_values_and_prints_as_text(study):
    summary = study.summary()
    assert json.loads(json.dumps(summary)) == summary
    text = str(summary)
    assert text.startswith("study:   svm\nstate:   can continue: ")
    assert f"best:    {best_line(study.best)}" in text
    assert re.search(r"^next:    one more trial is expected to improve", text, re.M)


def test_reports_and_figures_cost_nothing(study):
    spent = study.ledger.spent
    study.report()
    study._repr_html_()
    str(study.plot.values.prospect())
    assert study.ledger.spent == spent
    assert study.ledger["usd"].overhead == 0


def test_the_status_of_a_study(study):
    assert status_sentence(*study.facts).startswith("can continue: ")
    trial = study.ask()
    assert status_sentence(*study.facts) == f"running: trial {trial.number}"
    study.request_stop()
    assert status_sentence(*study.facts) == f"running: trial {trial.number}; a stop was requested"
    study.tell(trial, 1.0, cost=1.0)
    assert status_sentence(*study.facts) == "stopped: a stop was requested"

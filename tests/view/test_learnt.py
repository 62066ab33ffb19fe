"""What was learnt from earlier studies: explain, the report, the result, the export, a figure."""

import csv
from dataclasses import replace

import pytest
from runs import seen

from farthing import Float, Optimizer, Result
from farthing.data.tabular import row, to_csv
from farthing.history import NOT_ENDED, History
from farthing.view.facts import explanation
from farthing.view.figures import trust
from farthing.view.learnt import learnt_by, learnt_from, trust_over_time
from farthing.view.plots import Plots
from farthing.view.primitives import Line, Points
from farthing.view.report import explained, report_facts, report_text
from farthing.view.report.page import page
from farthing.view.result import summary
from farthing.view.web.answers import figures_answer

TABLE = [{"x": i / 4, "value": float(i)} for i in range(4)]
NOTES = [
    {
        "phase": "start",
        "portfolio": {"may": 0.75, "june": 0.25},
        "trust": {"may": 0.5, "june": 0.5},
    },
    {"trust": {"may": 0.75, "june": 0.125}, "from_sources": {"may": -0.25, "june": 0.0625}},
    {},
    {"trust": {"may": 0.9, "june": 0.0}},
]


def made(notes=NOTES, **settings):
    """A study of four trials with these notes."""
    optimizer = Optimizer({"x": Float(0, 1), "z": Float(0, 1)}, "$9", **settings)
    for i, _ in enumerate(notes):
        optimizer.tell(optimizer.ask(), float(i), cost=1.0)
    settings, state = seen(optimizer)
    plain = ("phase",)
    trials = [
        replace(
            trial,
            notes={key: trial.notes[key] for key in plain if key in trial.notes} | more,
            origin="design" if "phase" in more else "suggested",
        )
        for trial, more in zip(state.history, notes, strict=True)
    ]
    return settings, replace(state, history=History(tuple(trials)))


@pytest.fixture(scope="module")
def facts():
    june = [{**each, "value": -each["value"]} for each in TABLE]
    return made(learn_from={"may": TABLE, "june": june})


def test_the_sources_of_a_study_have_the_latest_trust(facts):
    may, june = learnt_from(*facts)
    assert (may.name, may.trials, may.trust) == ("may", 4, 0.9)
    assert (june.name, june.trust) == ("june", 0.0)
    assert may.fingerprint == facts[0].learn_from[0].fingerprint
    assert str(may) == "'may' (4 trials; z is new here; without costs; trust 0.90)"
    assert str(may._replace(about="", trust=None)) == "'may' (4 trials)"
    assert "\\x1b" in str(may._replace(about="\x1b[2J"))


def test_a_trial_says_what_came_from_which_source(facts):
    assert learnt_by(facts[1].history[1]) == {
        "may": {"trust": 0.75, "from_sources": -0.25},
        "june": {"trust": 0.125, "from_sources": 0.0625},
    }
    told = explained(explanation(*facts, 1))
    assert told["learnt"] == (
        "'may' (trust 0.75) moved the predicted value by -0.25; "
        "'june' (trust 0.12) moved the predicted value by +0.0625"
    )
    design = explanation(*facts, 0)
    assert design["chosen_by"] == "portfolio"
    assert explained(design)["learnt"].startswith(
        "'may' (trust 0.50) expected 75% of the improvement; 'june' (trust 0.50) expected 25%"
    )
    assert "Earlier studies expect much improvement" in explained(design)["trade-off"]
    assert explanation(*facts, 2)["sources"] == {}
    assert "learnt" not in explained(explanation(*facts, 2))


@pytest.mark.parametrize("note", [7, "high", ["may"], {"may": "high"}, {"may": float("nan")}])
def test_notes_that_farthing_did_not_write_show_nothing(note):
    settings, state = made([{"trust": note, "from_sources": note}], learn_from=TABLE)
    assert learnt_by(state.history[0]) == {}
    assert learnt_from(settings, state)[0].trust is None
    assert trust_over_time(state) == {}
    assert trust(settings, state).empty


def test_the_trust_over_time_is_a_figure(facts):
    assert trust_over_time(facts[1]) == {
        "may": [(0, 0.5), (1, 0.75), (3, 0.9)],
        "june": [(0, 0.5), (1, 0.125), (3, 0.0)],
    }
    figure = Plots(lambda: facts).values.trust()
    lines = [layer for layer in figure.panels[0].layers if isinstance(layer, Line)]
    assert [(line.x, line.y) for line in lines] == [
        ((0.0, 1.0, 3.0), (0.5, 0.125, 0.0)),
        ((0.0, 1.0, 3.0), (0.5, 0.75, 0.9)),  # the most trusted is on top
    ]
    points = [layer for layer in figure.panels[0].layers if isinstance(layer, Points)]
    assert [each.label for each in points] == ["june", "may"]
    assert [word for _, word in figure.panels[0].x.ticks] == ["0", "1", "2", "3"]
    assert points[1].texts[2] == "trial 3: trust 0.90 in may"
    assert "trust" in Plots(lambda: facts).text.trust()


def test_many_sources_are_told_apart_as_far_as_possible():
    trusts = {f"s{k}": k / 10 for k in range(7)}
    settings, state = made([{"trust": trusts}] * 2, learn_from=TABLE)
    figure = trust(settings, state)
    labels = [layer.label for layer in figure.panels[0].layers if isinstance(layer, Points)]
    assert [label for label in labels if label] == ["s3", "s4", "s5", "s6"]
    assert figure.caption.endswith("The 3 least trusted are grey.")


def test_the_report_shows_the_sources_and_their_trust(facts):
    html = page({"new": facts})
    assert "Trust in earlier studies" in html
    assert "Learns from &#x27;may&#x27; (4 trials" in html or "Learns from 'may' (4 trials" in html
    text = report_text(report_facts("new", *facts))
    assert "learnt:  from 'may' (4 trials; z is new here; without costs; trust 0.90); 'jun" in text


def test_without_sources_nothing_is_shown():
    settings, state = made([{}, {}])
    assert "Trust in earlier studies" not in page({"new": (settings, state)})
    assert "learnt" not in report_text(report_facts("new", settings, state))
    result = Result.of(settings, None, NOT_ENDED, state)
    assert "learnt" not in str(result)
    assert "learnt" not in summary("new", result)
    assert trust(settings, state).empty.startswith("No trial has been suggested with earlier")


def test_a_result_has_its_sources(facts):
    result = Result.of(facts[0], facts[1].history[0], NOT_ENDED, facts[1])
    assert [(each.name, each.trust) for each in result.learnt] == [("may", 0.9), ("june", 0.0)]
    assert "learnt:  from 'may' (4 trials; z is new here; without costs; trust 0.90)" in str(result)
    may = summary("new", result)["learnt"][0]
    assert (may["name"], may["trials"], may["trust"]) == ("may", 4, 0.9)


def test_the_export_has_a_column_for_each_source(facts):
    rows = [row(trial) for trial in facts[1].history]
    written = list(csv.DictReader(to_csv(rows).splitlines()))
    assert [each["trust_may"] for each in written] == ["0.5", "0.75", "", "0.9"]
    assert [each["from_sources_june"] for each in written] == ["", "0.0625", "", ""]
    assert [each["portfolio_june"] for each in written] == ["0.25", "", "", ""]
    (again,) = Optimizer(facts[0].space, "$9", learn_from=rows).facts[0].learn_from
    assert again.about == "4 trials"  # these columns are not parameters


@pytest.mark.slow
def test_every_renderer_draws_the_trust(facts):
    plots = Plots(lambda: facts)
    (axes,) = plots.trust().axes
    assert axes.get_ylabel() == "trust"
    assert {"may", "june"} <= {trace.name for trace in plots.interactive.trust().data}
    assert plots.svg.trust().startswith("<svg")


def test_the_dashboard_shows_the_trust_with_the_parameters(facts):
    names = [each["name"] for each in figures_answer("parameters", *facts, [], None)["figures"]]
    assert names == ["trust"]

"""Figures of model predictions, checked against the models themselves."""

import math

import numpy as np
import pytest
from runs import KINDS, SPACE, played, seen

from farthing import Bool, Categorical, Float, Int, Optimizer, Space
from farthing.core.suggest import believed
from farthing.cost.calibration import drivers as cost_drivers
from farthing.errors import InvalidInput
from farthing.view.facts import costs, explanation, state_before
from farthing.view.figures import (
    drivers,
    front_figure,
    next_trial,
    predictions,
    prospect,
    slice_figure,
)
from farthing.view.figures.drivers import Effect, draw_drivers, drivers_of
from farthing.view.figures.pareto import front_of, last_chosen
from farthing.view.figures.predictions import MAX_COSTS, _panel, predictions_of
from farthing.view.figures.prospect import prospect_of
from farthing.view.primitives import Band, Heat, Line, Points, Segments


def layers_of(figure, kind, style=None, panel=0):
    return [
        layer
        for layer in figure.panels[panel].layers
        if isinstance(layer, kind) and (style is None or layer.style == style)
    ]


# ── the front ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_the_front_agrees_with_the_explanation(run):
    number = last_chosen(run.state)
    found, facts = front_of(*run, number), explanation(*run, number)
    assert len(found.rows) == facts["front"]
    assert math.exp(found.log_ei[0]) == pytest.approx(facts["expected_improvement"])
    alpha = facts["alpha"]
    if found.alpha is None:
        assert alpha is None
    else:
        assert found.alpha[0] == alpha[0]
        assert alpha[1] in (found.alpha[1], None)


def test_no_point_dominates_the_front(run):
    found = front_of(*run, last_chosen(run.state))
    ei, cost = found.log_ei, found.log_cost
    for row in found.rows:
        better = (ei >= ei[row]) & (cost <= cost[row]) & ((ei > ei[row]) | (cost < cost[row]))
        assert not better.any()
    for alpha, row in zip((0.0, 0.5, 1.0), found.preferred, strict=True):
        assert ei[row] - alpha * cost[row] == pytest.approx(np.max(ei - alpha * cost))


@pytest.mark.slow
def test_the_figure_shows_front_suggestion_and_alpha_lines(run):
    number = last_chosen(run.state)
    found, figure = front_of(*run, number), front_figure(*run)
    assert figure.title.startswith(f"Trial {number}: ")
    (chosen,) = layers_of(figure, Points, "chosen")
    assert chosen.x == (pytest.approx(math.exp(found.log_cost[0])),)
    assert chosen.y == (pytest.approx(math.exp(found.log_ei[0])),)
    (line,) = layers_of(figure, Line, "best")
    on_front = set(np.round(np.exp(found.log_ei[found.rows]), 12))
    assert set(np.round(line.y, 12)) <= on_front
    for alpha, row, line in zip(
        (0.0, 0.5, 1.0), found.preferred, layers_of(figure, Line, "line"), strict=True
    ):
        (x0, x1), (y0, y1) = line.x, line.y
        assert math.log(y1 / y0) == pytest.approx(alpha * math.log(x1 / x0), abs=1e-9)
        through = math.log(y0) + alpha * (found.log_cost[row] - math.log(x0))
        assert through == pytest.approx(found.log_ei[row])
    labels = [line.label for line in layers_of(figure, Line, "line")]
    assert labels == ["EI / cost^a, a = 0, 0.5, 1", "", ""]


@pytest.mark.slow
def test_the_previous_front_has_one_trial_less(minimised):
    number = last_chosen(minimised.state)
    found = front_of(*minimised, number)
    earlier = state_before(minimised.state, minimised.history[number - 1])
    belief = believed(minimised.settings, earlier, model=True)
    assert len(earlier.history) == number - 1
    cost, ei = found.before
    assert (np.diff(cost) > 0).all()
    assert (np.diff(ei) > 0).all()
    assert math.exp(cost[0]) < belief.ledger["usd"].left
    then = front_of(*minimised, number - 1)  # its other candidates are the same
    for each_cost, each_ei in zip(cost, ei, strict=True):
        assert not ((then.log_cost[1:] < each_cost) & (then.log_ei[1:] > each_ei)).any()


@pytest.mark.slow
def test_several_resources_share_one_axis():
    run = seen(KINDS["two resources"]())
    figure = front_figure(*run)
    assert "share of the remaining scarcest resource" in figure.panels[0].x.label
    assert front_of(*run, last_chosen(run.state)).resource is None


def test_no_front_without_a_model(empty, failures, free):
    assert front_figure(*empty).empty == "There was no model of the objective yet."
    assert front_figure(*failures, 0).empty
    with pytest.raises(InvalidInput, match="no trial 4: the study has 0 to 3"):
        front_figure(*failures, 4)
    assert "no cost model" in front_figure(*free).panels[0].x.label


# ── predictions ────────────────────────────────────────────────────────────────────────────────


def test_the_predicted_cost_is_the_height():
    report = {"resource": "usd", "model": "gp", "trials": []}
    panel = _panel(report)
    assert "actual cost" in panel.x.label
    assert "predicted cost" in panel.y.label


@pytest.mark.slow
def test_the_figure_shows_the_predictions_of_costs(run):
    reports = costs(run.settings, run.state)
    figure = predictions(run.settings, run.state)
    assert len(figure.panels) == len(reports) == len(run.settings.required_costs)
    for i, report in enumerate(reports):
        shown = {
            (x, y, low, high)
            for layer in layers_of(figure, Points, panel=i)
            for x, y, low, high in zip(layer.x, layer.y, layer.low, layer.high, strict=True)
        }
        expected = {(t["paid"], t["predicted"], t["low"], t["high"]) for t in report["trials"]}
        assert shown == expected
        (killed,) = layers_of(figure, Points, "killed", panel=i)
        assert len(killed.x) == report["killed"] == 1


@pytest.mark.slow
def test_of_many_costs_a_sample_is_predicted():
    optimizer = Optimizer(SPACE, "$1e6")
    space, rng = optimizer.space, np.random.default_rng(0)
    for x in space.sample(MAX_COSTS + 50, rng):
        params = space.decode(x)
        optimizer.add(params, 1.0, cost=1.0 + params["depth"])
    (report,) = predictions_of(*seen(optimizer))
    assert report["costs"] == MAX_COSTS
    assert predictions(*seen(optimizer)).caption.count(f"(a sample of {MAX_COSTS} trials)") == 1


def test_no_prediction_without_costs(empty, free):
    assert predictions(*empty).empty.startswith("There is no cost model yet")
    assert predictions(*free).empty


# ── prospect ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_no_suggestion_beats_the_best_candidate(run):
    steps = prospect_of(run.settings, run.state)
    assert len(steps) > 3
    for step in steps:
        assert step.promise >= step.chosen > 0
        assert step.worth == run.settings.exchange_rate
    figure = prospect(run.settings, run.state)
    (line,) = layers_of(figure, Line, "best")
    assert line.x == tuple(step.spent for step in steps)
    assert line.y == tuple(step.promise for step in steps)
    worth = layers_of(figure, Line, "before")
    assert bool(worth) == (run.settings.worth is not None)


@pytest.mark.slow
def test_the_statistic_of_the_rule_is_reproduced(minimised):
    steps = prospect_of(*minimised)
    figure = prospect(*minimised)
    assert len(figure.panels) == 2
    number, line = figure.panels[1].layers
    assert line.y == tuple(pytest.approx(math.log(0.001)) for _ in line.y)
    # If the proposal is worth its cost, the rule only looks at the proposal.
    for step in steps:
        if step.chosen > 0.001:
            assert step.number_seen == pytest.approx(math.log(step.chosen), abs=1e-6)
    assert len(number.x) == len(steps)


@pytest.mark.slow
def test_one_more_trial(minimised, empty):
    following = next_trial(*minimised)
    belief = believed(*minimised, model=True)
    (x,) = [belief.space.encode(following.params)]
    assert following.cost["usd"] > 0
    assert following.per_cost == pytest.approx(following.gain / following.cost["usd"])
    assert following.worth == 0.001
    outlook = belief.in_one_unit().outlook(x[None])
    mean, std = outlook.mean[0, 0], outlook.std[0]
    z = (outlook.best[0] - mean) / std
    phi, big = math.exp(-z * z / 2) / math.sqrt(2 * math.pi), 0.5 * math.erfc(-z / math.sqrt(2))
    success = math.exp(outlook.log_success[0])
    assert following.gain == pytest.approx(std * (z * big + phi) * success, rel=1e-3)
    assert ("not worth it" in str(following)) == (following.per_cost <= 0.001)
    assert next_trial(*empty) is None


def test_the_next_trial_for_a_larger_budget():
    optimizer = played(12, broken=())
    spent = optimizer.ledger.spent
    small = Optimizer(SPACE, {"usd": spent})
    small.import_trials([
        {**trial.params, "value": trial.value} for trial in optimizer.history
    ])  # fmt: skip
    run = seen(small)
    used_up = run._replace(state=_used_up(run.state, spent))
    following = next_trial(*used_up)
    assert following is None or not following.afforded
    run = seen(optimizer)
    used_up = run._replace(state=_used_up(run.state, 1e-9))
    following = next_trial(*used_up)
    assert not following.afforded
    assert following.gain > 0
    assert "but the budget does not cover it" in str(following)


def _used_up(state, limit):
    from dataclasses import replace

    account = replace(state.ledger["usd"], limit=limit, spent=limit)
    return replace(state, ledger=replace(state.ledger, _accounts=(("usd", account),)))


# ── drivers ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_the_effects_of_parameters_on_value_and_cost(run):
    found = drivers_of(run.settings, run.state)
    assert list(found) == ["value", *run.settings.required_costs]
    for target, effects in found.items():
        assert {effect.name for effect in effects} == set(SPACE)
        assert [e.share for e in effects] == sorted((e.share for e in effects), reverse=True)
        for effect in effects:
            assert 0 <= effect.share <= 1
            assert effect.error >= 0
        if target != "value":
            assert effects[0].name == "depth"
            assert effects[0].share > 0.5
    figure = drivers(run.settings, run.state)
    assert len(figure.panels) == len(found)
    for panel, effects in zip(figure.panels, found.values(), strict=True):
        bars, errors = panel.layers
        assert isinstance(bars, Segments)
        shown = dict(zip(panel.y.names, bars.end, strict=True))
        assert shown == {e.name: pytest.approx(100 * e.share) for e in effects}
        for effect, low, high in zip(
            [{e.name: e for e in effects}[name] for name in panel.y.names],
            errors.start,
            errors.end,
            strict=True,
        ):
            assert low == pytest.approx(max(100 * (effect.share - effect.error), 0))
            assert high == pytest.approx(min(100 * (effect.share + effect.error), 100))


@pytest.mark.slow
def test_the_effects_on_cost_are_those_of_the_calibration(minimised):
    """The total effects must equal those of `cost.calibration` on the same model."""
    from farthing.acquisition.paid_costs import evidence_of, paid
    from farthing.core.suggest import cost_learners

    settings, state = minimised
    learner = cost_learners(settings, state)["usd"]
    evidence = evidence_of(settings.space, list(paid(state.history, "usd")), "usd")
    rng = np.random.default_rng(settings.seed)
    expected = {d.name: d.share for d in cost_drivers(learner.fit(evidence), evidence, rng)}
    assert {e.name: e.share for e in drivers_of(settings, state)["usd"]} == pytest.approx(expected)


@pytest.mark.slow
def test_the_standard_error_is_that_of_a_jackknife():
    """Compare with a plain jackknife, for a parameter whose share is not clipped."""
    run = seen(played(16, broken=()))
    (effect,) = (e for e in drivers_of(*run)["value"] if e.name == "rate")
    from farthing.cost.calibration import total_effects
    from farthing.models.gp import refit

    space, done = run.settings.space, list(run.history.done)
    rng = np.random.default_rng(run.settings.seed)
    X, other = space.sample(512, rng), space.sample(512, rng)
    memory = {**run.history.last_note("memories")["objective"], "n": 0}
    shares = []
    for k in range(8):
        kept = [t for i, t in enumerate(done) if i % 8 != k]
        gp, _ = refit([t.x for t in kept], [t.value for t in kept], memory, options=space.options)
        shares.append(total_effects(lambda X, gp=gp: gp.at(X).mean[:, 0], X, other)[0])
    expected = math.sqrt(7 / 8 * sum((s - np.mean(shares)) ** 2 for s in shares))
    assert effect.error == pytest.approx(expected)
    assert effect.error > 0


def test_no_drivers_without_values(empty, failures):
    assert drivers(*empty).empty == "This needs at least 5 trials with a value or a cost."
    assert drivers(*failures).empty


# ── slices ─────────────────────────────────────────────────────────────────────────────────────


def test_a_slice_shows_the_predictions_of_the_models(run):
    figure = slice_figure(*run, "rate")
    belief = believed(*run, model=True).without_running()
    best = min(run.history.done, key=lambda t: run.settings.sign * t.value)
    assert f"as in trial {best.number}" in figure.caption
    assert len(figure.panels) == 1 + len(run.settings.required_costs)
    (line,) = layers_of(figure, Line)
    (band,) = layers_of(figure, Band)
    assert (line.x[0], line.x[-1]) == (pytest.approx(1e-4), pytest.approx(1e-1))
    middle = len(line.x) // 2
    x = belief.space.completed({"rate": line.x[middle]}, best.x)
    mean, std = (part.ravel()[0] for part in belief.objective.at(x[None]))
    assert line.y[middle] == pytest.approx(run.settings.sign * mean)
    assert band.high[middle] - line.y[middle] == pytest.approx(1.959964 * std, rel=1e-5)
    for i, resource in enumerate(run.settings.required_costs, start=1):
        ln = belief.cost[resource].log_at(x[None])
        (line,) = layers_of(figure, Line, panel=i)
        (band,) = layers_of(figure, Band, panel=i)
        assert line.y[middle] == pytest.approx(math.exp(ln.mean[0]))
        assert band.low[middle] == pytest.approx(math.exp(ln.mean[0] - 1.2815516 * ln.std[0]))
    (dots,) = layers_of(figure, Points)
    assert sorted(dots.x) == sorted(t.params["rate"] for t in run.history.done)


def test_a_slice_of_options_and_of_a_conditional_parameter(minimised):
    figure = slice_figure(*minimised, "solver")
    assert figure.panels[0].x.names == ("sgd", "adam")
    predicted, dots = layers_of(figure, Points, "best")[0], layers_of(figure, Points, "other")[0]
    assert predicted.x == (0.0, 1.0)
    expected = sorted(["sgd", "adam"].index(t.params["solver"]) for t in minimised.history.done)
    assert sorted(dots.x) == expected
    figure = slice_figure(*minimised, "momentum")
    with_it = [t for t in minimised.history.done if "momentum" in t.params]
    best = min(with_it, key=lambda t: t.value)
    assert f"as in trial {best.number}" in figure.caption
    (dots,) = layers_of(figure, Points, "other")
    assert sorted(dots.x) == sorted(t.params["momentum"] for t in with_it)


def test_a_heat_map_of_two_parameters(minimised):
    figure = slice_figure(*minimised, "rate", "depth")
    (heat,) = layers_of(figure, Heat)
    assert (len(heat.y), len(heat.z), len(heat.z[0])) == (9, 9, len(heat.x))
    belief = believed(*minimised, model=True)
    best = min(minimised.history.done, key=lambda t: t.value)
    x = belief.space.completed({"rate": heat.x[5], "depth": 7}, best.x)
    assert heat.y[6] == pytest.approx(7)
    assert heat.z[6][5] == pytest.approx(belief.objective.at(x[None]).mean[0, 0])


def test_a_slice_of_a_table():
    rows = [{"width": w, "kind": k} for w in (8, 16, 64, 128) for k in "ab"]
    optimizer = Optimizer(Space.from_rows(rows), "$100")
    for k in range(8):
        trial = optimizer.ask()
        optimizer.tell(trial, trial.params["width"] / 100 + k / 50, cost=1.0 + k)
    figure = slice_figure(*seen(optimizer), "width")
    (line,) = layers_of(figure, Line)
    assert line.x == pytest.approx((8.0, 16.0, 64.0, 128.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "message"),
    [((), "got 0 parameters"), (("rate",) * 3, "expected one or two"), (("x",), "Unknown")],
)
def test_slices_that_cannot_be_drawn(minimised, names, message):
    with pytest.raises(InvalidInput, match=message):
        slice_figure(*minimised, *names)


def test_no_slice_without_values(empty, failures):
    assert slice_figure(*empty, "rate").empty == "No trial with a value has rate."
    assert slice_figure(*failures, "rate", "depth").empty


def test_an_uncertain_effect_is_not_called_a_driver(minimised):
    found = drivers_of(*minimised)
    caption = draw_drivers(found).caption
    assert f"the cost in usd depends most on depth ({found['usd'][0].share:.0%} ± " in caption
    unsure = {"value": [Effect("rate", 0.4, 0.5)], "usd": [Effect("rate", 0.0, 0.0)]}
    assert draw_drivers(unsure).caption.startswith(
        "No parameter clearly drives the value; no parameter clearly drives the cost in usd."
    )


def test_slices_of_steps_options_and_conditions_of_any_depth():
    space = Space(
        {
            "w": Int(16, 64, step=16),
            "s": Categorical(["a", "b"]),
            "f": Bool(when={"s": "b"}),
            "m": Float(0, 1, when={"f": True}),  # inactive in the middle of the space
            "p": Int(1, 9),
            "q": Categorical(["x", "y"]),
        },
        allowed=[{"p": 1, "q": "x"}, {"p": 5, "q": "y"}],
    )
    optimizer = Optimizer(space, "40 trials")
    for x in space.sample(24, np.random.default_rng(0)):
        params = space.decode(x)
        optimizer.add(params, params["w"] + params.get("m", 2.0) + params["p"])
    axes = {name: slice_figure(*seen(optimizer), name).panels[0].x for name in space.names}
    assert axes["f"].names == ("False", "True")
    assert axes["q"].names == ("x", "y")
    assert not axes["m"].names
    assert axes["w"].low < 16 < 64 < axes["w"].high

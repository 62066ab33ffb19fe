import numpy as np
import pytest
from beliefs import NOTHING, done, pool, toy, two_points

from farthing import Float, History, InvalidInput, Ledger, Optimizer, Space, Trial
from farthing.acquisition.belief import believe
from farthing.acquisition.protocols import Proposal
from farthing.policies import EI
from farthing.stopping import EIRatio, ei_ratio

SERIES = [-1, -1.4, -0.8, -2, -1.6, -3.1, -5.2, -6.1]


def judged(rule, belief, proposal=NOTHING):
    return rule(belief, proposal, np.random.default_rng(0))


def follow(rule, series, monkeypatch):
    """The verdicts of the rule if the statistic takes these values, one after the other."""
    history, verdicts = History(), []
    for i, number in enumerate(series):
        monkeypatch.setattr(ei_ratio, "most_per_cost", lambda belief, rng, n=number: float(n))
        verdict = judged(rule, toy(history=history))
        verdicts.append(verdict)
        trial = done(i, [2.0], 0.5, notes=dict(verdict.notes))  # a point outside the table
        history = history.adding(trial)
    return verdicts


def test_it_stops_at_a_share_of_the_first(monkeypatch):  # [log-eipc-median]
    verdicts = follow(EIRatio(ratio=0.01, first=5), SERIES, monkeypatch)
    assert [v.stop for v in verdicts] == [False] * 7 + [True]
    assert [v.number for v in verdicts] == SERIES
    assert all(v.threshold == pytest.approx(-6.005170186, abs=1e-9) for v in verdicts[4:])
    assert verdicts[6].because == (
        "one more unit of cost is expected to improve the objective by 0.00552, more than 0.01 of "
        "what it was at first, 0.00247"
    )
    assert verdicts[1].because.endswith(" (value 2 of the first 5)")


def test_the_first_values_are_noted(monkeypatch):
    verdicts = follow(EIRatio(first=3), SERIES, monkeypatch)
    assert [len(v.notes.get("ei_faded", [])) for v in verdicts] == [1, 2, 3, 0, 0, 0, 0, 0]
    assert verdicts[2].notes["ei_faded"] == SERIES[:3]


def test_two_rules_share_their_notes(monkeypatch):
    """A shorter list of first values is the beginning of a longer one."""
    longer = follow(EIRatio(first=5), SERIES, monkeypatch)
    history = History((done(0, [2.0], 0.5, notes=dict(longer[4].notes)),))
    monkeypatch.setattr(ei_ratio, "most_per_cost", lambda belief, rng: -6.0)
    verdict = judged(EIRatio(first=3), toy(history=history))
    assert verdict.threshold == pytest.approx(np.log(0.01) + np.median(SERIES[:3]))


def test_it_does_not_stop_while_it_collects_first_values(monkeypatch):
    verdicts = follow(EIRatio(ratio=0.9, first=4), [0.0, -50.0, -50.0, -50.0, -60.0], monkeypatch)
    assert [v.stop for v in verdicts] == [False] * 4 + [True]


def test_it_compares_with_the_first_twenty_by_default(monkeypatch):
    """Half of the first 20 are high, so one more or less would move the median by 50."""
    series = [0.0] * 10 + [-100.0] * 15
    verdicts = follow(EIRatio(), series, monkeypatch)
    assert [v.stop for v in verdicts] == [False] * 20 + [True] * 5
    assert all(v.threshold == pytest.approx(np.log(0.01) - 50) for v in verdicts[19:])


def test_a_second_search_must_confirm_a_stop(monkeypatch):
    history = History((done(0, [2.0], 0.5, notes={"ei_faded": [-1.0]}),))
    found = iter([-9.0, -2.0])
    monkeypatch.setattr(ei_ratio, "most_per_cost", lambda belief, rng: next(found))
    verdict = judged(EIRatio(first=1), toy(history=history))
    assert (verdict.stop, verdict.number) == (False, -2.0)


def test_the_statistic_is_that_of_the_pool():
    most = np.log(0.01133397354)
    assert judged(EIRatio(), toy()).number == pytest.approx(most, abs=1e-9)
    row = toy().space.rows[3]
    assert judged(EIRatio(), toy(), Proposal(row, "D")).number == pytest.approx(most, abs=1e-9)
    uncertain = pool([0.3], [0.2], [10.0], 0.25, cost_std=[0.8])
    expected = np.log(0.05726893964) - np.log(10.0) - 0.32
    assert judged(EIRatio(), uncertain).number == pytest.approx(expected, abs=1e-9)


def test_without_costs_it_is_the_improvement():
    verdict = judged(EIRatio(), two_points())
    assert verdict.because.startswith("one more evaluation is expected to improve the objective by")
    grid = np.linspace(0, 1, 4001)[:, None]
    mean, std = two_points().objective.at(grid)
    from farthing.models.normal import log_ei

    assert verdict.number == pytest.approx(log_ei(mean[:, 0], std, -0.1).max(), abs=1e-5)


def test_it_averages_over_running_trials():
    space = Space({"x": Float(2, 3)})
    history = History(tuple(done(i, [i / 6], np.sin(i), space=space) for i in range(7)))
    history = history.adding(Trial(7, space.decode(np.array([0.55])), np.array([0.55])))
    belief = believe(space, history, Ledger.of(None), learners={})
    assert (
        "(averaged over the possible values of the running trial)"
        in judged(EIRatio(), belief).because
    )


def test_a_restart_does_not_change_a_run():
    """The notes of the trials suffice: a new Optimizer with them gives the same verdict."""
    one = Optimizer(Space({"x": Float(0, 1)}), policy=EI(), stop=EIRatio(ratio=0.5, first=4))
    while not one.verdict.stop and len(one.history) < 40:
        trial = one.ask()
        one.tell(trial, float(np.sin(9 * trial.params["x"])))
    assert one.verdict.stop
    again = Optimizer(Space({"x": Float(0, 1)}), policy=EI(), stop=EIRatio(ratio=0.5, first=4))
    again._store.commit(lambda state, now: one._look())
    assert again.verdict == one.verdict


@pytest.mark.parametrize("ratio", [0.0, 1.0, -1, np.nan, "0.1"])
def test_an_invalid_ratio_is_refused(ratio):
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        EIRatio(ratio=ratio)


@pytest.mark.parametrize("first", [0, 2.5, True, None])
def test_an_invalid_number_of_first_values_is_refused(first):
    with pytest.raises(InvalidInput, match="whole number of at least 1"):
        EIRatio(first=first)

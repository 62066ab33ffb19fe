import numpy as np
import pytest
from beliefs import NOTHING, done
from hypothesis import given
from hypothesis import strategies as st
from oracles import dense_gp, sampled_improvement

from farthing import Float, History, InvalidInput, Ledger, Space, Trial
from farthing.acquisition.belief import START, believe
from farthing.stopping import RegretGapRatio
from farthing.stopping.regret_gap_ratio import LEAST_NOISE, Effect, _newest, improvement

SPACE = Space({"x": Float(2, 3)})
EXAMPLE = Effect(
    means=abs(0.240 - 0.300),
    improvement=improvement(0.296 - 0.240, 4e-4 - 2 * 5e-5 + 1e-4),
    kappa=0.45,
    std=np.sqrt(4e-4),
    v=0.0225,
    miss=0.238 - 0.31,
    noise=1e-4,
)


def test_the_gap_and_its_parts():  # [expected-regret-gap]
    assert EXAMPLE.divergence == pytest.approx(2.326662675, abs=1e-9)
    assert EXAMPLE.improvement == pytest.approx(0.05601522173, abs=1e-11)
    assert improvement(0.240 - 0.296, 4e-4) == pytest.approx(1.522173316e-05, rel=1e-9)
    assert EXAMPLE.gap == pytest.approx(0.6013754961, abs=1e-10)
    assert EXAMPLE.by_noise(0.1) == pytest.approx(0.03489568649, abs=1e-11)


@given(st.floats(1e-6, 4.0), st.floats(1e-6, 1.0), st.floats(-3.0, 3.0))
def test_the_divergence_is_that_of_two_normals(v, n, miss):
    """KL of the posterior at the new point after its value from the one before."""
    effect = EXAMPLE._replace(v=v, noise=n, miss=miss)
    new, shift = v * n / (v + n), v / (v + n) * miss
    slow = 0.5 * (np.log(v / new) - 1 + new / v + shift**2 / v)
    assert effect.divergence == pytest.approx(slow, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("mean", "variance"), [(0.3, 0.2), (-0.4, 0.1), (0.0, 1.0)])
def test_the_improvement_is_the_mean_of_the_positive_part(mean, variance):
    slow, error = sampled_improvement(0.0, np.sqrt(variance), mean)
    assert improvement(mean, variance) == pytest.approx(slow, abs=5 * error)
    assert improvement(0.3, 0.0) == 0.3
    assert improvement(-0.3, 0.0) == 0.0


def history_of(values, running=0):
    history = History()
    for i, value in enumerate(values):
        x = (0.37 + 0.618 * i) % 1
        history = history.adding(done(i, [x], value, space=SPACE))
    for i in range(running):
        x = np.array([(0.11 + 0.3 * i) % 1])
        history = history.adding(Trial(len(history), SPACE.decode(x), x))
    return history


def belief_of(values, running=0, **settings):
    history = history_of(values, running)
    return believe(SPACE, history, Ledger.of(None), learners={}, **settings)


def value_at(i):
    return float(np.sin(9 * ((0.37 + 0.618 * i) % 1)) + 3)


@pytest.mark.slow
@pytest.mark.parametrize("count", [6, 9, 14])
@pytest.mark.parametrize("noisy", [False, True])
def test_the_effect_of_a_value_by_dense_algebra(count, noisy):
    belief = belief_of([value_at(i) for i in range(count)], noisy=noisy)
    gp = belief.objective
    X, z = gp.X, gp.targets[:, 0]
    hyper = (gp.lengthscales, gp.variance, gp.noise, gp.mean)
    grid = np.vstack([X, np.linspace(0, 1, 121)[:, None]])

    def posterior(n):
        mean, cov = dense_gp(X[:n], z[:n], grid, *hyper)
        return gp.shift + gp.scale * mean, gp.scale**2 * cov

    (old, old_cov), (new, new_cov) = posterior(count - 1), posterior(count)
    y = belief.y
    was = int(np.argmin(old[: count - 1])) if noisy else int(np.argmin(y[:-1]))
    now = int(np.argmin(new[:count])) if noisy else int(np.argmin(y))
    root = np.sqrt(0.4 * np.log((count - 1) ** 2 * np.pi**2 / 0.6))
    std = np.sqrt(np.maximum(np.diag(old_cov), 0))
    kappa = (old + root * std)[: count - 1].min() - (old - root * std).min()
    v = old_cov[count - 1, count - 1] / gp.scale**2
    n = max(gp.noise, LEAST_NOISE * gp.variance)
    miss = z[-1] - (old[count - 1] - gp.shift) / gp.scale
    kl = 0.5 * (np.log1p(v / n) - v / (v + n) + v * (miss / (v + n)) ** 2)
    gained = 0.0
    if now != was:
        spread = new_cov[was, was] - 2 * new_cov[was, now] + new_cov[now, now]
        gained, _ = sampled_improvement(0.0, np.sqrt(max(spread, 0)), new[was] - new[now])
    effect = _newest(belief, 0.1, np.random.default_rng(0))
    assert effect.kappa == pytest.approx(kappa, rel=5e-3)
    assert effect.means == pytest.approx(abs(new[now] - old[was]), abs=1e-6)
    assert effect.divergence == pytest.approx(kl, rel=1e-3)
    slow = abs(new[now] - old[was]) + gained + kappa * np.sqrt(kl / 2)
    assert effect.gap == pytest.approx(slow, rel=5e-3)


def follow(rule, count):
    """The verdicts of the rule on a run of `count` values, with its notes."""
    history, verdicts = History(), []
    for i in range(count):
        x = np.array([(0.37 + 0.618 * i) % 1])
        history = history.adding(done(i, x, value_at(i), space=SPACE, notes=_notes(verdicts)))
        belief = believe(SPACE, history, Ledger.of(None), learners={})
        if belief.objective is not None:
            verdicts.append(rule(belief, NOTHING, np.random.default_rng(i)))
    return verdicts


def _notes(verdicts):
    return dict(verdicts[-1].notes) if verdicts else {}


def test_it_compares_with_the_median_of_the_first():
    verdicts = follow(RegretGapRatio(ratio=0.2, first=4), 22)
    first = [v.number for v in verdicts[:4]]
    assert [v.stop for v in verdicts[:4]] == [False] * 4
    assert all(v.threshold == pytest.approx(0.2 * np.median(first)) for v in verdicts[4:])
    assert all(v.stop == (v.number <= v.threshold) for v in verdicts[4:])
    assert {v.stop for v in verdicts} == {True, False}
    assert verdicts[3].notes["regret_gap_faded"][-1] == [START + 3, pytest.approx(first[-1])]
    assert verdicts[4].notes == {}
    assert "(value 4 of the first 4)" in verdicts[3].because


def test_asking_again_without_a_new_value_counts_once():
    rule = RegretGapRatio(first=3)
    values = [value_at(i) for i in range(7)]
    verdict = rule(belief_of(values), NOTHING, np.random.default_rng(0))
    noted = history_of(values)
    last = noted[6]
    noted = noted.replacing(done(6, last.x, last.value, space=SPACE, notes=dict(verdict.notes)))
    belief = believe(SPACE, noted, Ledger.of(None), learners={})
    again = rule(belief, NOTHING, np.random.default_rng(1))
    assert [n for n, _ in again.notes["regret_gap_faded"]] == [7]


def judged_with(rule, noted, values):
    """The verdict if these gaps were noted and `values` values are known."""
    history = history_of([value_at(i) for i in range(values)])
    last = history[values - 1]
    notes = {"regret_gap_faded": noted}
    history = history.replacing(done(values - 1, last.x, last.value, space=SPACE, notes=notes))
    belief = believe(SPACE, history, Ledger.of(None), learners={})
    return rule(belief, NOTHING, np.random.default_rng(0))


def test_the_last_of_the_first_values_is_not_compared_with_itself():
    """All first values are noted, but there is no new value since."""
    rule, noted = RegretGapRatio(first=3), [[5, 1e9], [6, 1e9], [7, 1e9]]
    again = judged_with(rule, noted, 7)
    assert (again.stop, again.notes["regret_gap_faded"]) == (False, noted)
    new = judged_with(rule, noted, 8)
    assert (new.stop, new.notes) == (True, {})


def test_it_compares_with_the_first_twenty_by_default():
    noted = [[i - 13, 1e9] for i in range(20)]
    assert judged_with(RegretGapRatio(), noted, 7).stop
    one_less = judged_with(RegretGapRatio(), noted[:-1], 7)
    assert (one_less.stop, len(one_less.notes["regret_gap_faded"])) == (False, 20)


def test_without_a_ratio_the_threshold_comes_from_noise():
    belief = belief_of([value_at(i) for i in range(9)])
    verdict = RegretGapRatio(ratio=None)(belief, NOTHING, np.random.default_rng(0))
    effect = _newest(belief, 0.1, np.random.default_rng(0))
    assert verdict.threshold == pytest.approx(effect.by_noise(0.1))
    assert verdict.stop == (effect.gap <= effect.by_noise(0.1))
    assert verdict.notes == {}


def test_running_trials_are_ignored():
    values = [value_at(i) for i in range(9)]
    alone, more = (
        RegretGapRatio()(belief_of(values, running), NOTHING, np.random.default_rng(0))
        for running in (0, 2)
    )
    assert more.number == pytest.approx(alone.number, rel=1e-6)
    assert "(ignoring 2 running trials)" in more.because


@pytest.mark.parametrize(
    "arguments", [{"ratio": 0.0}, {"ratio": 2}, {"first": 0}, {"delta": 0.0}, {"delta": 1}]
)
def test_invalid_settings_are_refused(arguments):
    with pytest.raises(InvalidInput, match="RegretGapRatio"):
        RegretGapRatio(**arguments)

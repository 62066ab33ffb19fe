"""Where the middle of a space ranks."""

from benchmarks.evidence.artefacts import centre
from benchmarks.evidence.artefacts.artefact import Settings


def test_nothing_beats_a_minimiser_in_the_middle_and_moved_it_is_beaten() -> None:
    assert centre.ranked("synthetic/ackley5-falling", 0, Settings())[0] == 0.0
    assert centre.ranked("moved/ackley5-falling", 0, Settings())[0] > 0.01


def test_the_cost_is_over_the_median_cost() -> None:
    assert centre.ranked("synthetic/hartmann6-constant", 0, Settings())[1] == 1.0
    assert centre.ranked("synthetic/dear-optimum", 0, Settings())[1] > 1.3  # the most expensive

"""How high a cell must stand out: measured on the stream's own quiet ticks."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.bar import KINDS, LEAST, Bar

WEEK = 336
"""Ticks of half an hour."""
VALUE = KINDS.index("value")


def watched(scale: float = 1.0, weeks: int = 6, seed: int = 1) -> Bar:
    """Quiet ticks of one outcome whose peaks fall off exponentially."""
    rng, bar = np.random.default_rng(seed), Bar(1, WEEK)
    for peaks in rng.exponential(scale, (weeks * WEEK, 1, len(KINDS))) - 1.0:
        bar.observe(peaks, np.zeros(1, bool))
    return bar


CALM, BUSY = np.array([0.0]), np.array([0.6])
"""Looks of a tick: failures are rare, and every cell has new ones all the time."""


def test_before_anything_is_measured_it_goes_by_what_happens_and_by_the_looks() -> None:
    calm, busy, both = (Bar(len(n), WEEK).of(0.5, n) for n in (CALM, BUSY, np.repeat(BUSY, 2)))
    assert calm[0] == pytest.approx(np.log(4.5 / 0.5), abs=0.01)
    assert (busy > calm + 2).all()
    assert (both[0] > busy[0]).all()


def test_a_stream_that_stands_out_more_by_chance_asks_for_more() -> None:
    calm, usual, wild = (watched(scale).of(0.5, CALM) for scale in (0.3, 1.0, 3.0))
    assert (calm < usual).all()
    assert (usual < wild).all()


def test_the_bar_follows_the_logarithm_of_the_budget() -> None:
    bar = watched(2.0)
    asked = np.array([bar.of(budget, CALM)[0, VALUE] for budget in (1.0, 0.5, 0.25)])
    assert (np.diff(asked) > 0).all()
    assert asked[2] - asked[1] == pytest.approx(asked[1] - asked[0])


def test_so_many_weeks_pass_the_bar_as_the_budget_allows() -> None:
    budget, weeks, raised = 3.0, 40, 0
    for seed in range(4):
        asked = watched(2.0, 8, seed).of(budget, CALM)
        later = np.random.default_rng(100 + seed).exponential(2.0, (weeks * WEEK, len(KINDS))) - 1
        raised += int((later > asked[0]).sum())
    assert 0.3 < raised / (4 * weeks) / budget < 2.0


def test_it_asks_for_something_in_any_case() -> None:
    assert (watched(0.001).of(1e6, CALM) >= LEAST).all()


def test_no_kind_of_cell_pays_for_the_noise_of_another() -> None:
    rng, bar = np.random.default_rng(1), Bar(1, WEEK)
    for _ in range(4 * WEEK):
        peaks = rng.exponential(1.0, (1, len(KINDS)))
        peaks[0, VALUE] *= 4
        bar.observe(peaks, np.zeros(1, bool))
    asked = bar.of(0.5, CALM)[0]
    assert asked[VALUE] > 2 * np.delete(asked, VALUE).max()


def storm(labelled_false: bool) -> Bar:
    """A quiet stream with an incident of a day in it."""
    bar = watched()
    for _ in range(48):
        bar.observe(np.full((1, len(KINDS)), 60.0), np.ones(1, bool))
    if labelled_false:
        bar.acquit(0, 0, 47)
    return bar


def test_an_incident_does_not_raise_the_bar_for_the_next_one() -> None:
    np.testing.assert_allclose(storm(labelled_false=False).of(0.5, CALM), watched().of(0.5, CALM))


def test_an_incident_labelled_false_was_noise_and_raises_it() -> None:
    assert (storm(labelled_false=True).of(0.5, CALM) > watched().of(0.5, CALM)).all()


def test_a_restored_bar_goes_on_with_the_same_heights() -> None:
    bar, other = watched(), Bar(1, WEEK)
    other.restore(bar.to_arrays())
    np.testing.assert_array_equal(other.of(0.5, CALM), bar.of(0.5, CALM))


def test_a_schema_with_more_outcomes_is_measured_anew() -> None:
    other = Bar(2, WEEK)
    other.restore(watched().to_arrays())
    two = np.zeros(2)
    np.testing.assert_array_equal(other.of(0.5, two), Bar(2, WEEK).of(0.5, two))

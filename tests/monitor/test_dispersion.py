"""How much quiet counts scatter: gathered, remembered, restored."""

from __future__ import annotations

import numpy as np

from monitor.dispersion import Dispersion
from monitor.encoding import Coded
from monitor.slices import aggregate
from monitor.window import QUANTUM, Horizons
from tests.monitor.towns import start_of

QUIET = np.zeros(1, bool)


def watched(
    s: float, slices: int = 240, busy: bool = False, capacity: int = 2048
) -> tuple[Dispersion, Dispersion]:
    """Counts of four cells around an expectation of 20 that scatter by `s`; fresh, and fitted."""
    rng = np.random.default_rng(3)
    tables = Horizons((0,), 1, (1, 4))
    fresh = Dispersion(1, (1, 4), capacity)
    gathered = Dispersion(1, (1, 4), capacity)
    size = 1 / s**2
    for number in range(1, slices + 1):
        failures = rng.negative_binomial(size, size / (size + 20), 4)
        values = np.repeat(np.arange(1, 5, dtype=np.int32), 2)[:, None]
        failed = np.tile([True, False], 4)[:, None]
        weight = np.column_stack([failures, 200 - failures]).ravel()
        piece = aggregate(start_of(number), values, failed, weight)
        expected = np.full((len(piece.weight), 1), round(0.1 / QUANTUM) * QUANTUM)
        tables.push(Coded(piece, piece.values, expected), (5,))
        gathered.observe(tables, number, QUIET | busy)
    gathered.refit()
    return fresh, gathered


def of(dispersion: Dispersion) -> np.ndarray:
    return dispersion.of(0).values


def test_counts_that_scatter_more_are_believed_less() -> None:
    _, calm = watched(0.05)
    usual, wild = watched(1.0)
    singles = (0, 1)  # the shortest horizon, one value
    assert of(calm)[singles] < of(usual)[singles] < of(wild)[singles]


def test_slices_of_an_incident_teach_nothing() -> None:
    fresh, same = watched(1.0, busy=True)
    np.testing.assert_array_equal(of(same), of(fresh))


def test_old_samples_leave_first_and_the_memory_is_bounded() -> None:
    _, gathered = watched(0.3, slices=600, capacity=16)
    arrays = gathered.to_arrays()
    assert arrays["samples"].shape[3] == 16
    assert arrays["count"][0, 0, 1] > 16
    assert (arrays["samples"][0, 0, 1, :, 1] > 0).all()


def test_restored_it_goes_on_as_before() -> None:
    fresh, gathered = watched(0.5)
    fresh.restore(gathered.to_arrays())
    np.testing.assert_array_equal(of(fresh), of(gathered))
    gathered.refit()
    fresh.refit()
    np.testing.assert_array_equal(of(fresh), of(gathered))


def test_sizes_are_one_over_the_squared_scatter() -> None:
    fresh, _ = watched(0.5, slices=1)
    sizes = fresh.of(0).sizes(np.array([0, 1, 2, 1]))
    np.testing.assert_allclose(sizes, 1 / of(fresh)[:, [0, 1, 2, 1]] ** 2)

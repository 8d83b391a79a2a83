"""How much quiet counts scatter: gathered, remembered, restored."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.attribution import Scatter
from monitor.dispersion import Dispersion
from monitor.encoding import Coded
from monitor.significance import scatter, spread_p_values
from monitor.slices import aggregate
from monitor.window import QUANTUM, Horizons, Layout
from tests.monitor.towns import start_of

QUIET = np.zeros(1, bool)
LAYOUT = Layout.build((0,), (5,))


def watched(
    s: float,
    slices: int = 240,
    busy: bool = False,
    capacity: int = 2048,
    slots: range = range(48),
    mute: bool = False,
) -> tuple[Dispersion, Dispersion]:
    """Counts of four cells around an expectation of 20 that scatter by `s`; fresh, and fitted.

    Outside of the given half hours of the day they scatter by 0.05.
    """
    rng = np.random.default_rng(3)
    tables = Horizons((0,), 1, (1, 4))
    fresh = Dispersion(1, (1, 4), capacity)
    gathered = Dispersion(1, (1, 4), capacity)
    for number in range(1, slices + 1):
        size = (s if number % 48 in slots else 0.05) ** -2
        failures = rng.negative_binomial(size, size / (size + 20), 4)
        values = np.repeat(np.arange(1, 5, dtype=np.int32), 2)[:, None]
        failed = np.tile([True, False], 4)[:, None]
        weight = np.column_stack([failures, 200 - failures]).ravel()
        piece = aggregate(start_of(number), values, failed, weight)
        expected = np.full((len(piece.weight), 1), round(0.1 / QUANTUM) * QUANTUM)
        tables.push(Coded(piece, piece.values, expected), (5,))
        gathered.observe(tables, number, QUIET | busy, np.full((1, 1), mute))
    gathered.refit()
    return fresh, gathered


def of(dispersion: Dispersion) -> np.ndarray:
    """(horizons, orders) scatter of small counts."""
    return dispersion.of(0).values[:, :, 0]


def test_counts_that_scatter_more_are_believed_less() -> None:
    _, calm = watched(0.05)
    usual, wild = watched(1.0)
    singles = (0, 1)  # the shortest horizon, one value
    assert of(calm)[singles] < of(usual)[singles] < of(wild)[singles]


def test_an_attribute_that_failing_keeps_empty_says_nothing_of_scatter() -> None:
    """Its values have no multiplier: all failures lack it, so the expected is always wrong."""
    fresh, gathered = watched(1.0, mute=True)
    fresh.refit()
    assert of(gathered)[0, 1] == of(fresh)[0, 1]


def test_what_scatters_at_one_time_of_day_only_is_seen() -> None:
    """Every six hours, say, would be always midnight, six, noon and six."""
    _, calm = watched(0.05, slices=1440)
    _, wild = watched(1.5, slices=1440, slots=range(5, 11))
    assert of(wild)[0, 0] > 1.2 * of(calm)[0, 0]  # everything
    assert of(wild)[0, 1] > 1.2 * of(calm)[0, 1]  # one value


def test_the_slices_that_teach_the_first_baseline_show_how_everything_scatters() -> None:
    rng = np.random.default_rng(7)
    expected = np.full((48, 1), 80.0)
    usual, calm, wild = (Dispersion(1, (1, 4)) for _ in range(3))
    tables = Horizons((0,), 1, (1, 4))
    calm.begin(tables, rng.negative_binomial(400, 400 / 480, (48, 1)), expected)
    wild.begin(tables, rng.negative_binomial(1, 1 / 81, (48, 1)), expected)
    assert of(calm)[0, 0] < of(usual)[0, 0] < of(wild)[0, 0]


def taught(level: float, spread: float, slices: int = 48) -> Dispersion:
    """Four values with so many failures expected, shown to a fresh memory all at once."""
    rng = np.random.default_rng(9)
    tables, expected = Horizons((0,), 1, (1, 48)), np.full((slices, 1), 4 * level)
    for number in range(1, slices + 1):
        failures = rng.poisson(level * rng.lognormal(-(spread**2) / 2, spread, 4))
        values = np.repeat(np.arange(1, 5, dtype=np.int32), 2)[:, None]
        failed = np.tile([True, False], 4)[:, None]
        weight = np.column_stack([failures, np.full(4, 1000)]).ravel()
        piece = aggregate(start_of(number), values, failed, weight)
        chance = (level / (failures + 1000))[piece.values[:, 0] - 1][:, None]
        tables.push(Coded(piece, piece.values, np.round(chance / QUANTUM) * QUANTUM), (5,))
    gathered = Dispersion(1, (1, 48))
    gathered.begin(tables, expected, expected)
    return gathered


def test_the_slices_that_teach_the_first_baseline_show_how_large_counts_scatter() -> None:
    singles = (0, 1)
    calm, wild = taught(200.0, 0.05), taught(200.0, 0.9)
    fresh = Dispersion(1, (1, 4))
    assert of(calm)[singles] < of(fresh)[singles] < of(wild)[singles]
    few = taught(2.0, 0.9)  # small counts say little: the prior stands
    assert of(few)[singles] == of(fresh)[singles]


def test_small_and_large_counts_scatter_each_in_their_own_way() -> None:
    rng = np.random.default_rng(11)
    tables, gathered = Horizons((0,), 1, (1,)), Dispersion(1, (1,))
    level = np.array([3.0] * 12 + [300.0] * 12)
    spread = np.array([0.02] * 12 + [0.5] * 12)
    for number in range(1, 600):
        failures = rng.poisson(level * rng.lognormal(-(spread**2) / 2, spread))
        values = np.repeat(np.arange(1, 25, dtype=np.int32), 2)[:, None]
        failed = np.tile([True, False], 24)[:, None]
        weight = np.column_stack([failures, np.full(24, 9000)]).ravel()
        piece = aggregate(start_of(number), values, failed, weight)
        chance = (level / (failures + 9000))[piece.values[:, 0] - 1][:, None]
        tables.push(Coded(piece, piece.values, np.round(chance / QUANTUM) * QUANTUM), (25,))
        gathered.observe(tables, number, QUIET)
    gathered.refit()
    expected, one = np.array([[2.0, 10.0, 20.0, 40.0, 4000.0]]), np.ones(5, int)
    s = 1 / np.sqrt(gathered.of(0).sizes(expected, one)[0])
    assert s[0] == s[1] < s[2] < s[3] == s[4], "from one into the other in between"
    assert 0.4 < s[3] < 0.6


@pytest.mark.parametrize("true", [0.15, 0.25, 0.5])
@pytest.mark.parametrize("level", [30.0, 300.0])
def test_trimming_that_is_known_of_does_not_make_counts_seem_calmer(
    true: float, level: float
) -> None:
    rng = np.random.default_rng(12)
    expected = level * rng.uniform(0.6, 1.6, 2048)
    observed = rng.negative_binomial(true**-2, 1 / (1 + expected * true**2)).astype(float)
    known = scatter(observed, expected, 0.4, 1.0, truncated=True)
    assert true / 1.5 < known < true * 1.5
    assert scatter(observed, expected, 0.4, 1.0) <= known


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


def test_what_an_older_version_gathered_is_gathered_anew() -> None:
    fresh, gathered = watched(0.5)
    older = gathered.to_arrays()
    older["fitted"] = older["fitted"][..., 0]  # before volumes were told apart
    before = of(fresh).copy()
    fresh.restore(older)
    np.testing.assert_array_equal(of(fresh), before)
    fresh.refit()  # and nothing of it is left to be fitted
    np.testing.assert_array_equal(of(fresh), before)


def test_a_restless_value_is_believed_less_than_its_calm_neighbours() -> None:
    rng = np.random.default_rng(5)
    tables = Horizons((0,), 1, (1, 4))
    gathered = Dispersion(1, (1, 4))
    spread = np.array([0.1, 0.1, 0.1, 0.8, 0.1, 0.1])
    for number in range(1, 1000):
        level = rng.lognormal(-(spread**2) / 2, spread)
        failures = rng.poisson(100 * level)
        values = np.repeat(np.arange(1, 7, dtype=np.int32), 2)[:, None]
        failed = np.tile([True, False], 6)[:, None]
        weight = np.column_stack([failures, 1000 - failures]).ravel()
        piece = aggregate(start_of(number), values, failed, weight)
        expected = np.full((len(piece.weight), 1), round(0.1 / QUANTUM) * QUANTUM)
        tables.push(Coded(piece, piece.values, expected), (7,))
        gathered.observe(tables, number, QUIET)
    gathered.refit()
    cells = np.arange(2, 8)  # everything, "other", then the values
    orders, parents = np.ones(6, int), np.full((6, 2), -1)
    found = gathered.of(0, tables.layout)
    expected = tables.expected[:, 0][:, cells]
    scattered = 1 / np.sqrt(found.sizes_of(expected, cells, orders, parents)[0])
    assert scattered[3] > 2 * np.delete(scattered, 3).max()
    assert 0.4 < scattered[3] < 1.0

    again = Dispersion(1, (1, 4))
    again.restore(gathered.to_arrays())
    restored = again.of(0, tables.layout).sizes_of(expected, cells, orders, parents)
    np.testing.assert_array_equal(restored, found.sizes_of(expected, cells, orders, parents))


def test_a_restless_value_shows_itself_within_days_though_small_counts_all_seem_calm() -> None:
    """Twelve failures scatter by 29 % by chance alone; the rate of the last value by 40 %."""
    rng = np.random.default_rng(6)
    tables, gathered = Horizons((0,), 1, (1, 4)), Dispersion(1, (1, 4))
    spread = np.array([0.05] * 19 + [0.4])
    for number in range(1, 5 * 48):
        failures = rng.poisson(12 * rng.lognormal(-(spread**2) / 2, spread))
        values = np.repeat(np.arange(1, 21, dtype=np.int32), 2)[:, None]
        failed = np.tile([True, False], 20)[:, None]
        weight = np.column_stack([failures, np.full(20, 988)]).ravel()
        piece = aggregate(start_of(number), values, failed, weight)
        chance = (12 / (failures + 988))[piece.values[:, 0] - 1][:, None]
        tables.push(Coded(piece, piece.values, np.round(chance / QUANTUM) * QUANTUM), (21,))
        gathered.observe(tables, number, QUIET)
        if number % 48 == 0:
            gathered.refit()
    found = gathered.of(0, tables.layout)
    assert found.own is not None
    usual = 1 / found.sizes(tables.expected[:, 0][:, [2]], np.ones(1, int))[0, 0]
    own = np.sqrt(usual * found.own[0, 2:22])
    assert 0.25 < own[-1] < 0.5, "nearly as much as it has"
    assert own[:-1].max() < 0.15, "the others not"


def test_p_values_of_quiet_counts_are_uniform() -> None:
    """Rates that wander (log-normal, not the model's gamma) and counts of every size."""
    rng = np.random.default_rng(8)
    means = np.array([0.5, 2.0, 8.0, 30.0, 120.0, 500.0])
    tables = Horizons((0,), 1, (1, 4))
    gathered = Dispersion(1, (1, 4))
    p: list[float] = []
    for number in range(1, 2000):
        failures = rng.poisson(means * rng.lognormal(-0.02, 0.2, 6))
        values = np.repeat(np.arange(1, 7, dtype=np.int32), 2)[:, None]
        failed = np.tile([True, False], 6)[:, None]
        weight = np.column_stack([failures, np.full(6, 1000)]).ravel()
        piece = aggregate(start_of(number), values, failed, weight)
        chance = means / (failures + 1000)
        expected = np.round(chance / QUANTUM)[piece.values[:, 0] - 1][:, None] * QUANTUM
        tables.push(Coded(piece, piece.values, expected), (7,))
        gathered.observe(tables, number, QUIET)
        if number % 48 == 0:
            gathered.refit()
        if number < 1000:
            continue
        cells = np.arange(2, 8)
        orders, parents = np.ones(6, int), np.full((6, 2), -1)
        by_horizon = tables.expected[:, 0][:, cells]
        size = gathered.of(0, tables.layout).sizes_of(by_horizon, cells, orders, parents)[0]
        observed, fair = tables.observed[0, 0][cells], tables.expected[0, 0][cells]
        p += spread_p_values(observed, fair, size, rng).tolist()
    ranked = np.sort(p)
    distance = np.abs(ranked - (np.arange(len(ranked)) + 0.5) / len(ranked)).max()
    assert distance < 0.06, "uniform"
    assert (ranked < 0.001).mean() < 0.003, "in the tail as well"


def test_a_pair_is_as_restless_as_the_more_restless_of_its_values() -> None:
    own = np.array([[1.0, 4.0, 0.5, 9.0]])
    known = Scatter(Scatter.alike(0.5, 1).values, own)
    cells, orders = np.array([0, 1, 9, 9]), np.array([0, 1, 2, 2])
    parents = np.array([[-1, -1], [-1, -1], [1, 3], [0, 2]])
    size = known.sizes_of(np.ones((1, 4)), cells, orders, parents)
    np.testing.assert_allclose(size[0], [4, 1, 4 / 9, 4])


def test_a_large_count_of_a_value_that_is_hardly_known_is_believed_less() -> None:
    own, doubt = np.array([[1.0, 1.0]]), np.array([[0.0, 3.0]])
    sure = Scatter(Scatter.alike(0.5, 1).values, own)
    unsure = Scatter(sure.values, own, doubt)
    cells, orders, parents = np.ones(4, int), np.ones(4, int), np.full((4, 2), -1)
    expected = np.array([[1.0, 10.0, 40.0, 400.0]])
    ratio = sure.sizes_of(expected, cells, orders, parents) / unsure.sizes_of(
        expected, cells, orders, parents
    )
    np.testing.assert_allclose(ratio[0], [1, 1, 4, 4])


def test_doubt_about_a_value_fades_with_what_is_seen_of_it() -> None:
    doubts = []
    for slices in (60, 240, 960):
        _, gathered = watched(0.3, slices=slices)
        doubt = gathered.of(0, LAYOUT).doubt
        assert doubt is not None
        doubts.append(float(doubt[0, LAYOUT.cell(((0, 1),))]))
    assert doubts[0] > doubts[1] > doubts[2] > 0


def test_sizes_are_one_over_the_squared_scatter() -> None:
    fresh, _ = watched(0.5, slices=1)
    orders = np.array([0, 1, 2, 1])
    sizes = fresh.of(0).sizes(np.ones((2, 4)), orders)
    np.testing.assert_allclose(sizes, 1 / of(fresh)[:, orders] ** 2)

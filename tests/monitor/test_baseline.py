"""How many failures usual traffic makes: a known truth is found again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from monitor.baseline import CAP, Baseline, CodeShares, History, Mask, teach
from monitor.counts import Usual
from monitor.slices import aggregate, empty
from monitor.window import QUANTUM

SLOTS = 8
START = np.datetime64("2026-03-01T00:00", "us")
STEP = np.timedelta64(timedelta(hours=3))
BASE = np.array([0.02, 0.1])
MULTIPLIERS = (
    np.array([[1.0, 1.0, 4.0, 1.0], [1.0, 1.0, 1.0, 1.0]]),
    np.array([[1.0, 1.0, 1.0], [1.0, 0.3, 1.5]]),
)
DAY = 1 + 0.5 * np.sin(np.arange(SLOTS) / SLOTS * 2 * np.pi)
SIZES = (4, 3)


def moment(number: int) -> int:
    return int((START + number * STEP).astype(np.int64))


def history(
    days: int = 20,
    rows: int = 2000,
    outage: tuple[int, int, float] | None = None,
    wait: timedelta = timedelta(0),
    start: timedelta = timedelta(0),
    since: int = 0,
) -> History:
    """Synthetic days under the known truth.

    Args:
        outage: first slice, last slice and the factor by which value 3 of attribute 0 fails more.
        wait, start: see `History`.
        since: first slice in which there are rows of value 2 of attribute 0.
    """
    rng = np.random.default_rng(7)
    kept = History(timedelta(days=28), SLOTS, wait, start)
    for number in range(days * SLOTS):
        values = np.column_stack(
            [rng.choice(4, rows, p=[0.1, 0.4, 0.3, 0.2]), rng.integers(0, 3, rows)]
        )
        if number < since:
            values[values[:, 0] == 2, 0] = 1
        rate = BASE * np.array([DAY[number % SLOTS], 1.0])
        for a, multiplier in enumerate(MULTIPLIERS):
            rate = rate * multiplier[:, values[:, a]].T
        fair = rate.sum(axis=0)
        if outage and outage[0] <= number <= outage[1]:
            rate[values[:, 0] == 3] *= outage[2]
        failed = rng.random((rows, 2)) < rate
        piece = aggregate(
            START + number * STEP, values.astype(np.int32), failed, np.ones(rows, np.int64)
        )
        kept.add(teach(piece, number % SLOTS, number // SLOTS % 7, fair))
    return kept


def fit(
    kept: History, *masks: Mask, skip: tuple[int, ...] = (), codes: int | None = None
) -> Baseline:
    return kept.fit(lambda values: values, SIZES, skip, masks, codes)


ALL = np.array([[a, b] for a in range(4) for b in range(3)], np.int32)


def truth(slot: int) -> np.ndarray:
    rate = np.tile(BASE * np.array([DAY[slot], 1.0]), (len(ALL), 1))
    for a, multiplier in enumerate(MULTIPLIERS):
        rate *= multiplier[:, ALL[:, a]].T
    return rate


def test_base_time_of_day_and_multipliers_are_found_again() -> None:
    found = fit(history())
    for slot in range(SLOTS):
        np.testing.assert_allclose(found.expected(ALL, slot, 0), truth(slot), rtol=0.25)
    ratio = found.multipliers[0][0, 2] / found.multipliers[0][0, 1]
    assert ratio == pytest.approx(4.0, rel=0.15)
    assert found.day[0].max() / found.day[0].min() == pytest.approx(DAY.max() / DAY.min(), rel=0.35)
    assert found.day[1].max() / found.day[1].min() < 1.1


def test_the_total_it_expects_of_its_own_history_is_what_happened() -> None:
    kept = history()
    found = fit(kept)
    seen = sum(t.failures.sum(axis=0) for t in kept.taught)
    fair = sum(
        (found.expected(t.values, t.slot, t.weekday) * t.exposure[:, None]).sum(axis=0)
        for t in kept.taught
    )
    np.testing.assert_allclose(fair, seen, rtol=0.02)


def test_a_value_seen_hardly_ever_fails_as_the_others_do() -> None:
    kept = history(days=2)
    piece = aggregate(
        START + 16 * STEP,
        np.array([[3, 2]], np.int32),
        np.array([[True, True]]),
        np.ones(1, np.int64),
    )
    lonely = History(timedelta(days=28), SLOTS)
    for taught in kept.taught:
        lonely.add(replace(taught, values=np.where(taught.values == 3, 1, taught.values)))
    lonely.add(teach(piece, 0, 0, np.zeros(2)))
    assert fit(lonely).multipliers[0][0, 3] == pytest.approx(1.0, abs=0.1)


def test_what_recurs_every_week_is_expected_and_what_happened_once_is_not() -> None:
    kept = History(timedelta(days=28), SLOTS)
    values, weight = np.ones((1, 2), np.int32), np.array([1000])
    for number in range(22 * SLOTS):
        day, slot = divmod(number, SLOTS)
        failures = 10
        if slot == 1 and (day % 7 == 6 or day == 8):
            failures = 150  # every Sunday, and on one Tuesday
        both = np.repeat(values, 2, axis=0)
        piece = aggregate(
            START + number * STEP, both, np.array([[True], [False]]),
            np.array([failures, weight[0] - failures]),
        )  # fmt: skip
        kept.add(teach(piece, slot, day % 7, np.zeros(1)))
    sundays = Mask(0, (), moment(6 * SLOTS + 1), moment(6 * SLOTS + 1))  # told, and yet no news
    week = kept.fit(lambda v: v, (2, 2), (), (sundays,)).week[0]
    assert week[6, 1] > 3
    assert week[1, 1] == 1.0
    assert (week[1:5] == 1.0).all()


def test_rows_of_a_reported_cause_do_not_teach() -> None:
    spoiled = history(outage=(100, 110, 20.0))
    mask = Mask(0, ((0, (3,)),), moment(100), moment(110))
    clean = fit(history()).multipliers[0][0, 3]
    assert fit(spoiled).multipliers[0][0, 3] > 1.4 * clean
    assert fit(spoiled, mask).multipliers[0][0, 3] == pytest.approx(clean, rel=0.05)


def test_a_cause_of_several_values_keeps_the_rows_of_each_from_teaching() -> None:
    kept = history(outage=(100, 110, 20.0))
    one = fit(kept, Mask(0, ((0, (3,)),), moment(100), moment(110)))
    two = fit(kept, Mask(0, ((0, (2, 3)),), moment(100), moment(110)))
    assert two.multipliers[0][0, 3] == pytest.approx(one.multipliers[0][0, 3], rel=0.05)
    assert two.multipliers[0][0, 2] != one.multipliers[0][0, 2]
    assert two.multipliers[0][0, 1] == pytest.approx(one.multipliers[0][0, 1], rel=0.05)


DAY_LONG = timedelta(days=1)


def test_what_is_still_in_the_window_does_not_teach() -> None:
    """Else what builds up for a day is expected before it has come to light."""
    outage = 20 * SLOTS - SLOTS, 20 * SLOTS, 20.0
    at_once, later = history(outage=outage), history(outage=outage, wait=DAY_LONG)
    clean = fit(history(days=19))
    assert fit(at_once).multipliers[0][0, 3] > 1.4 * clean.multipliers[0][0, 3]
    waited = fit(later)
    assert waited.multipliers[0][0, 3] == pytest.approx(clean.multipliers[0][0, 3], rel=0.02)
    assert waited.base[0] == pytest.approx(clean.base[0], rel=0.02)


def test_the_oldest_rows_teach_at_once() -> None:
    short = history(days=2)
    waiting = history(days=2, wait=DAY_LONG, start=2 * DAY_LONG)
    for mine, its in zip(fit(waiting).multipliers, fit(short).multipliers, strict=True):
        np.testing.assert_array_equal(mine, its)
    half = fit(history(days=2, wait=DAY_LONG, start=DAY_LONG)).base
    assert (half != fit(short).base).all(), "a start of one day is half of them"


def test_the_first_rows_of_a_new_value_teach_at_once() -> None:
    """It would fail four times as often as is expected of it, and that would be told."""
    since = 20 * SLOTS - SLOTS // 2
    waiting = fit(history(since=since, wait=DAY_LONG)).multipliers[0][0]
    known = fit(history(since=since, wait=DAY_LONG, start=2 * DAY_LONG)).multipliers[0][0]
    assert known[2] / known[1] == pytest.approx(4.0, rel=0.25)
    assert waiting[2] < 0.7 * known[2]


def test_a_mask_holds_only_for_its_outcome_its_rows_and_its_time() -> None:
    kept = history()
    plain = fit(kept)
    elsewhere = fit(kept, Mask(0, ((0, (2,)),), moment(-500), moment(-400)))
    np.testing.assert_array_equal(elsewhere.base, plain.base)
    other = fit(kept, Mask(0, ((0, (2,)),), moment(0), moment(40)))
    assert other.base[1] == plain.base[1]
    assert other.base[0] != plain.base[0]


def test_periods_of_everything_are_capped_not_forgotten() -> None:
    kept = History(timedelta(days=28), SLOTS)
    values = np.array([[1, 1]], np.int32)
    for number in range(10 * SLOTS):
        storm = 40 <= number < 44
        failures = 80 if storm else 2
        piece = aggregate(
            START + number * STEP,
            np.repeat(values, 2, axis=0),
            np.array([[True, False], [False, False]]),
            np.array([failures, 100 - failures]),
        )
        kept.add(teach(piece, number % SLOTS, 0, np.array([2.0, 0.0])))
    usual = fit(kept).base[0]
    capped = fit(kept, Mask(0, (), moment(40), moment(43))).base[0]
    rows = 10 * SLOTS * 100
    assert usual == pytest.approx((76 * 2 + 4 * 80) / rows, rel=0.01)
    assert capped == pytest.approx((76 * 2 + 4 * 2 * CAP) / rows, rel=0.01)


def test_a_quiet_period_of_everything_is_not_blown_up() -> None:
    kept = history(days=3)
    plain = fit(kept).base
    np.testing.assert_array_equal(fit(kept, Mask(0, (), moment(4), moment(6))).base, plain)


def test_an_attribute_without_a_multiplier_has_no_say() -> None:
    found = fit(history(days=4), skip=(1,))
    assert found.multipliers[1].shape == (2, 0)
    one, other = found.expected(np.array([[1, 0], [1, 2]], np.int32), 0, 0)
    np.testing.assert_array_equal(one, other)


def test_shares_of_error_codes_among_failures() -> None:
    kept = History(timedelta(days=2), SLOTS)
    values = np.array([[1, 1], [1, 2], [1, -1]], np.int32)
    failed = np.array([[True], [True], [False]])
    piece = aggregate(START, values, failed, np.array([300, 100, 1000]))
    kept.add(teach(piece, 0, 0, np.zeros(1)))
    (codes,) = kept.fit(lambda v: v, SIZES, (1,), (), 1).codes
    assert codes.parent == 0
    np.testing.assert_allclose(codes.share[1], [0.0, 0.75, 0.25], atol=0.002)
    np.testing.assert_allclose(codes.share.sum(axis=1), 1.0)


def test_codes_are_expected_by_the_attribute_that_tells_most_of_them() -> None:
    """Not by the last one: a payment provider says nothing of why a seat could not be held."""
    kept = History(timedelta(days=2), SLOTS)
    rng = np.random.default_rng(1)
    source, provider = rng.integers(1, 4, 2000), rng.integers(1, 9, 2000)
    code = np.where(rng.random(2000) < 0.8, source, rng.integers(1, 4, 2000))
    values = np.column_stack([source, provider, code]).astype(np.int32)
    piece = aggregate(START, values, np.ones((2000, 1), bool), np.ones(2000, np.int64))
    kept.add(teach(piece, 0, 0, np.zeros(1)))
    (codes,) = kept.fit(lambda v: v, (4, 9, 4), (2,), (), 2).codes
    assert codes.parent == 0
    assert (np.diag(codes.share)[1:] > 0.75).all()


def test_an_attribute_that_failing_keeps_empty_is_told_apart_from_one_that_is_often_empty() -> None:
    kept = History(timedelta(days=2), SLOTS)
    provider, version = np.array([-1, 1, 1, -1]), np.array([-1, -1, 1, 1])
    values = np.column_stack([provider, version]).astype(np.int32)
    failed = np.array([[True], [False], [False], [False]])
    piece = aggregate(START, values, failed, np.array([100, 2000, 2000, 50]))
    kept.add(teach(piece, 0, 0, np.zeros(1)))
    # nobody without a seat gets to a provider; a version is missing as often in success
    fitted = kept.fit(lambda v: v, (2, 2), (), ())
    assert fitted.kept_empty.tolist() == [[True, False]]
    # else a failure would foretell itself: its own empty field would say that it was to be expected
    np.testing.assert_array_equal(fitted.multipliers[0], 1.0)
    assert (fitted.multipliers[1] != 1.0).any()


def test_values_missing_or_unknown_leave_the_rate_as_it_is() -> None:
    found = fit(history(days=4))
    rows = np.array([[-1, -1], [99, 99]], np.int32)
    fair = np.tile(found.base * found.day[:, 2], (2, 1))
    np.testing.assert_allclose(found.expected(rows, 2, 0), fair, atol=QUANTUM)


def test_expectations_are_whole_quanta_and_probabilities() -> None:
    steep = Baseline(
        np.array([0.9, 1e-12]),
        np.ones((2, 1)),
        np.ones((2, 7, 1)),
        (np.full((2, 1), 50.0),),
        (CodeShares.none(),) * 2,
        Usual.none(2, 1),
        0,
        np.zeros((2, 1), bool),
    )
    expected = steep.expected(np.zeros((1, 1), np.int32), 0, 0)
    np.testing.assert_array_equal(expected / QUANTUM, np.round(expected / QUANTUM))
    assert expected[0, 0] == pytest.approx(0.999)
    assert expected[0, 1] == QUANTUM, "never quite zero"


def test_a_sample_keeps_every_share_and_every_failure() -> None:
    rng = np.random.default_rng(2)
    rows = 50_000
    values = np.column_stack(
        [rng.choice(4, rows, p=[0.6, 0.3, 0.09, 0.01]), rng.integers(0, 50, rows)]
    )
    failed = rng.random((rows, 2)) < 0.01
    piece = aggregate(START, values.astype(np.int32), failed, np.ones(rows, np.int64))
    # many rows, but few distinct ones: weights are sampled as if they were rows
    taught = teach(piece, 0, 0, np.zeros(2), sample=150)
    assert len(taught.exposure) < len(piece.weight)
    assert taught.exposure.sum() == pytest.approx(rows)
    np.testing.assert_array_equal(taught.failures.sum(axis=0), failed.sum(axis=0))
    for value, share in enumerate([0.6, 0.3, 0.09, 0.01]):
        kept = taught.exposure[taught.values[:, 0] == value].sum() / rows
        assert kept == pytest.approx(share, abs=0.01)


def test_a_small_slice_is_kept_whole() -> None:
    piece = aggregate(
        START, np.array([[1], [2]], np.int32), np.zeros((2, 1), bool), np.array([3, 4])
    )
    np.testing.assert_array_equal(teach(piece, 0, 0, np.zeros(1)).exposure, [3.0, 4.0])


def test_old_slices_leave_the_history() -> None:
    kept = History(timedelta(days=1), SLOTS)
    assert kept.span == timedelta(0)
    for number in range(20):
        kept.add(teach(empty(START + number * STEP, 2, 1), number % SLOTS, 0, np.zeros(1)))
    assert [t.start for t in kept.taught] == [moment(n) for n in range(12, 20)]
    assert kept.span == timedelta(hours=21)
    kept.add(teach(empty(START + 100 * STEP, 2, 1), 0, 0, np.zeros(1)))
    assert len(kept.taught) == 1, "behind a hole the past is gone"

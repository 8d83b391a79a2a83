"""Rows find their slice, in whatever order and however late they come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.domain import Events, WindowSettings, datetime64
from monitor.slices import Slice, Sliced, aggregate, empty, merge, slice_events, slice_starts

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HALF_HOUR = timedelta(minutes=30)
SETTINGS = WindowSettings()


def events(*rows: tuple[float, int], outcomes: int = 1) -> Events:
    """One event per (minutes after noon, value of its only attribute); odd values fail."""
    at = [datetime64(NOON + timedelta(minutes=minutes)) for minutes, _ in rows]
    values = np.array([[value] for _, value in rows], np.int32).reshape(-1, 1)
    return Events(np.array(at, "datetime64[us]"), values, np.repeat(values % 2 == 1, outcomes, 1))


def take_in(batch: Events, **state: object) -> Sliced:
    usual = {"filling": {}, "watermark": None, "closed_until": None, "kept_since": None}
    return slice_events(batch, SETTINGS, **{"now": NOON + timedelta(hours=3), **usual, **state})  # type: ignore[arg-type]


def noon(minutes: float = 0) -> np.datetime64:
    return datetime64(NOON + timedelta(minutes=minutes))


def content(piece: Slice) -> list[tuple[object, ...]]:
    rows = zip(piece.values.tolist(), piece.failed.tolist(), piece.weight.tolist(), strict=True)
    return [(tuple(v), tuple(f), w) for v, f, w in rows]


row = st.tuples(st.integers(0, 89), st.integers(-1, 3))


@given(st.lists(row, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_the_order_of_arrival_leaves_no_trace(rows, shuffler) -> None:
    shuffled = list(rows)
    shuffler.shuffle(shuffled)
    one, other = take_in(events(*rows)), take_in(events(*shuffled))
    assert one.watermark == other.watermark
    assert one.open.keys() == other.open.keys()
    for start, piece in one.open.items():
        for mine, its in zip(
            (piece.values, piece.failed, piece.weight),
            (other.open[start].values, other.open[start].failed, other.open[start].weight),
            strict=True,
        ):
            np.testing.assert_array_equal(mine, its)


@given(st.lists(row, min_size=1, max_size=40), st.integers(0, 40))
def test_batches_add_up_whatever_their_borders(rows, border) -> None:
    whole = take_in(events(*rows))
    first = take_in(events(*rows[:border]))
    second = take_in(events(*rows[border:]), filling=first.open, watermark=first.watermark)
    assert {s: content(p) for s, p in second.open.items()} == {
        s: content(p) for s, p in whole.open.items()
    }
    assert second.watermark == whole.watermark


@given(st.lists(row, max_size=40), st.integers(0, 3), st.integers(0, 3))
def test_every_row_goes_to_exactly_one_place(rows, closed, kept) -> None:
    future = events(*rows, (60 * 24 * 400, 1))
    sliced = take_in(future, closed_until=noon(30 * closed), kept_since=noon(30 * kept))
    counted = sum(p.rows for p in (*sliced.open.values(), *sliced.late.values()))
    assert counted + sliced.too_late + len(sliced.future) == len(rows) + 1
    assert all(start >= noon(30 * closed) for start in sliced.open)
    assert all(noon(30 * kept) <= start < noon(30 * closed) for start in sliced.late)
    assert sliced.too_late == sum(minutes < 30 * kept for minutes, _ in rows)


def test_equal_rows_are_stored_once_with_their_count() -> None:
    piece = take_in(events((1, 2), (2, 2), (3, 1), (4, 2))).open[noon()]
    assert content(piece) == [((1,), (True,), 1), ((2,), (False,), 3)]
    assert piece.rows == 4


def test_a_slice_begins_at_its_first_microsecond() -> None:
    at = np.array(["2026-03-01T12:00:00", "2026-03-01T11:59:59.999999"], "datetime64[us]")
    starts = slice_starts(at, SETTINGS)
    assert starts.tolist() == [noon().item(), noon(-30).item()]


def test_times_before_1970_have_their_slice_too() -> None:
    at = np.array(["1969-12-31T23:59:59"], "datetime64[us]")
    assert str(slice_starts(at, SETTINGS)[0]) == "1969-12-31T23:30:00.000000"


def test_the_watermark_stays_behind_the_newest_row_and_never_goes_back() -> None:
    first = take_in(events((50, 1)))
    assert first.watermark == noon(45)
    assert take_in(events((10, 1)), watermark=first.watermark).watermark == noon(45)


def test_a_row_from_2099_is_set_aside_and_moves_nothing() -> None:
    decades = 73 * 365.25 * 24 * 60
    sliced = take_in(events((5, 1), (decades, 1), (6, 2)))
    assert sliced.future.tolist() == [1]
    assert sliced.watermark == noon(1)
    assert list(sliced.open) == [noon()]
    assert sliced.open[noon()].rows == 2
    alone = take_in(events((decades, 1)), watermark=noon())
    assert alone.watermark == noon()
    assert not alone.open


def test_a_row_a_little_ahead_of_the_clock_is_believed() -> None:
    sliced = take_in(events((59, 1), (61, 1)), now=NOON)
    assert sliced.future.tolist() == [1]
    assert sliced.watermark == noon(54)


def test_a_row_behind_the_watermark_still_fills_a_slice_that_is_open() -> None:
    sliced = take_in(events((31, 2)), watermark=noon(55), closed_until=noon(30))
    assert not sliced.late
    assert sliced.open[noon(30)].rows == 1


def test_rows_of_a_closed_slice_are_late_and_those_of_a_forgotten_one_too_late() -> None:
    batch = events((-5, 1), (5, 1), (35, 1), (65, 1))
    sliced = take_in(batch, closed_until=noon(60), kept_since=noon())
    assert sliced.too_late == 1
    assert list(sliced.late) == [noon(), noon(30)]
    assert list(sliced.open) == [noon(60)]


def test_an_empty_batch_changes_nothing() -> None:
    before = take_in(events((5, 1)))
    after = take_in(events(), filling=before.open, watermark=before.watermark)
    assert content(after.open[noon()]) == content(before.open[noon()])
    assert after.watermark == before.watermark


rows_of_two = st.lists(
    st.tuples(st.integers(-1, 3), st.integers(-1, 2), st.booleans(), st.integers(1, 5)), max_size=15
)


def piece_of(rows: list[tuple[int, int, bool, int]]) -> Slice:
    values = np.array([r[:2] for r in rows], np.int32).reshape(-1, 2)
    failed = np.array([[r[2], not r[2]] for r in rows], bool).reshape(-1, 2)
    return aggregate(noon(), values, failed, np.array([r[3] for r in rows], np.int64))


@given(rows_of_two, rows_of_two, rows_of_two)
def test_merging_is_counting(one, two, three) -> None:
    whole = content(piece_of([*one, *two, *three]))
    assert content(merge(merge(piece_of(one), piece_of(two)), piece_of(three))) == whole
    assert content(merge(piece_of(three), merge(piece_of(two), piece_of(one)))) == whole
    assert content(merge(piece_of(one), empty(noon(), 2, 2))) == content(piece_of(one))


def test_slices_of_different_times_do_not_merge() -> None:
    with pytest.raises(AssertionError, match="different times"):
        merge(empty(noon(), 1, 1), empty(noon(30), 1, 1))


def test_many_wide_attributes_overflow_no_key() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(-1, 200_000, (500, 6)).astype(np.int32)
    values = np.concatenate([values, values[::-1]])
    piece = aggregate(noon(), values, np.zeros((1000, 2), bool), np.ones(1000, np.int64))
    assert piece.rows == 1000
    assert (piece.weight == 2).all()
    assert sorted(map(tuple, piece.values.tolist())) == [tuple(v) for v in piece.values.tolist()]

"""A bounded input becomes slices in order of event time, whatever the order of its rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.backtest import quiet_ticks
from monitor.domain import (
    Attribute,
    Batch,
    Events,
    Rejected,
    Schema,
    Settings,
    WindowSettings,
    datetime64,
)
from monitor.replay import Input, gather
from monitor.slices import Slice

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TICK = timedelta(minutes=30)
SCHEMA = Schema((Attribute("airline"),), ("pay",))
SETTINGS = WindowSettings(length=timedelta(hours=2))


def batch(*rows: tuple[float, int], rejected: tuple[Rejected, ...] = ()) -> Batch:
    """One event per (minutes after noon, airline); odd airlines fail."""
    at = np.array([datetime64(NOON + timedelta(minutes=m)) for m, _ in rows], "datetime64[us]")
    values = np.array([[v] for _, v in rows], np.int32).reshape(-1, 1)
    return Batch(Events(at, values, values % 2 == 1), {"row": len(rows)}, rejected)


def gathered(*batches: Batch, **more: object) -> Input:
    return gather(batches, SCHEMA, SETTINGS, NOON + timedelta(days=30), **more)  # type: ignore[arg-type]


def told(pieces: list[Slice]) -> list[tuple[str, list[tuple[int, int]]]]:
    """Start, then (airline, events) of every slice."""
    return [
        (str(p.start)[5:16], list(zip(p.values[:, 0].tolist(), p.weight.tolist(), strict=True)))
        for p in pieces
    ]


def slices(data: Input, after: np.datetime64 | None = None) -> list[Slice]:
    return list(data.slices(SETTINGS, after))


row = st.tuples(st.integers(-200, 200), st.integers(-1, 4))


@settings(deadline=None)
@given(st.lists(row, min_size=1, max_size=50), st.randoms(use_true_random=False), st.integers(1, 7))
def test_unsorted_input_is_sorted_input(rows, shuffler, size) -> None:
    shuffled = list(rows)
    shuffler.shuffle(shuffled)
    parts = [batch(*shuffled[i : i + size]) for i in range(0, len(shuffled), size)]
    one, other = gathered(batch(*sorted(rows))), gathered(*parts)
    assert told(slices(one)) == told(slices(other))
    for mine, its in zip(slices(one), slices(other), strict=True):
        np.testing.assert_array_equal(mine.failed, its.failed)


@settings(deadline=None)
@given(st.lists(row, min_size=1, max_size=50))
def test_no_row_is_lost_and_no_time_is_skipped(rows) -> None:
    data = gathered(batch(*rows))
    pieces = slices(data)
    assert sum(p.rows for p in pieces) == data.rows == len(rows)
    assert data.count_slices(SETTINGS) == len(pieces)
    starts = np.array([p.start for p in pieces])
    apart = np.diff(starts)
    step, longest = np.timedelta64(TICK), 2 * np.timedelta64(SETTINGS.length)
    assert ((apart == step) | (apart > longest)).all()


@settings(deadline=None)
@given(st.lists(row, min_size=1, max_size=30), st.integers(0, 40))
def test_a_replay_goes_on_where_it_stopped(rows, done) -> None:
    data = gathered(batch(*rows))
    pieces = slices(data)
    done = min(done, len(pieces))
    last = pieces[done - 1].start if done else None
    assert told(slices(data, after=last)) == told(pieces[done:])
    assert data.done(SETTINGS, last) == done


def test_a_short_gap_is_ticked_through_and_a_long_one_jumped_over() -> None:
    four_hours, longer = 240, 241 + 30
    pieces = slices(gathered(batch((0, 2), (four_hours, 2), (four_hours + longer, 2))))
    assert [p.rows for p in pieces] == [1, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert told(pieces)[-1][0] == "03-01T20:30"


def test_a_row_from_2099_is_quarantined_and_adds_no_empty_years() -> None:
    decades = 73 * 365.25 * 24 * 60
    data = gathered(batch((0, 2), (decades, 2), (31, 2)), batch((decades, 2)))
    assert data.rows == 2
    assert data.count_slices(SETTINGS) == 2
    assert data.rejected_rows == 2
    assert {r.reason for r in data.rejected} == {"future"}
    assert "2099" in data.rejected[0].detail


def test_only_the_asked_range_is_replayed() -> None:
    data = gathered(
        batch((-1, 2), (0, 2), (59, 2), (60, 2)), since=NOON, until=NOON + timedelta(hours=1)
    )
    assert data.rows == 2
    assert told(slices(data)) == [("03-01T12:00", [(2, 1)]), ("03-01T12:30", [(2, 1)])]


def test_rejected_rows_are_carried_along_and_progress_is_told() -> None:
    read: list[int] = []
    bad = Rejected("bad_time", "log:7", "no time", count=3)
    data = gathered(batch((0, 1), rejected=(bad,)), batch((1, 1), (2, 2)), progress=read.append)
    assert data.rejected == (bad,)
    assert data.rejected_rows == 3
    assert read == [1, 2]


@pytest.mark.parametrize("batches", [(), (batch(),)], ids=["no batch", "an empty batch"])
def test_an_empty_input_has_no_slices(batches: tuple[Batch, ...]) -> None:
    data = gathered(*batches)
    assert (data.rows, data.count_slices(SETTINGS), slices(data)) == (0, 0, [])
    assert quiet_ticks(data, Settings(SCHEMA, SETTINGS), []) == 0

"""Running sums of failures, cell by cell: exact, whatever comes and goes."""

from __future__ import annotations

from datetime import timedelta
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.encoding import Coded
from monitor.slices import aggregate, empty
from monitor.window import QUANTUM, Horizons, Layout, Table, tabulate

SIZES = (4, 3, 5)
HORIZONS = (1, 2, 5)
START = np.datetime64("2026-03-01T00:00", "us")
STEP = np.timedelta64(timedelta(minutes=30))


def coded(seed: int, number: int = 0, rows: int = 30, sizes: tuple[int, ...] = SIZES) -> Coded:
    """A slice of random rows, some values missing, one failure in four."""
    rng = np.random.default_rng([seed, number])
    local = np.column_stack([rng.integers(-1, size, rows) for size in sizes]).astype(np.int32)
    piece = aggregate(
        START + number * STEP, local, rng.random((rows, 2)) < 0.25, rng.integers(1, 4, rows)
    )
    expected = np.round(rng.random((len(piece.weight), 2)) / QUANTUM) * QUANTUM
    return Coded(piece, piece.values, expected)


def by_hand(slices: list[Coded], layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Observed and expected per outcome and cell, row by row."""
    observed, expected = np.zeros((2, layout.size)), np.zeros((2, layout.size))
    for one in slices:
        for local, failed, weight, fair in zip(
            one.local, one.slice.failed, one.slice.weight, one.expected, strict=True
        ):
            values = [(a, int(n)) for a, n in enumerate(local) if n >= 0]
            for order in range(3):
                for conditions in combinations(values, order):
                    cell = layout.cell(conditions)
                    observed[:, cell] += failed * weight
                    expected[:, cell] += fair * weight
    return observed, expected


def check(tables: Horizons, slices: list[Coded]) -> None:
    for i, h in enumerate(tables.horizons):
        observed, expected = by_hand(slices[-h:], tables.layout)
        np.testing.assert_array_equal(tables.observed[i], observed)
        np.testing.assert_array_equal(tables.expected[i], expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9))
def test_running_sums_equal_sums_from_scratch_for_every_horizon(seed: int, count: int) -> None:
    tables, slices = Horizons((0, 1, 2), 2, HORIZONS), []
    for number in range(count):
        slices.append(coded(seed, number))
        tables.push(slices[-1], SIZES)
    check(tables, slices)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_what_came_and_left_leaves_nothing_behind(seed: int) -> None:
    tables = Horizons((0, 1, 2), 2, HORIZONS)
    for number in range(4):
        tables.push(coded(seed, number), SIZES)
    for number in range(4, 9):
        nothing = Coded(
            empty(START + number * STEP, 3, 2), np.empty((0, 3), np.int32), np.empty((0, 2))
        )
        tables.push(nothing, SIZES)
    assert not tables.observed.any()
    assert not tables.expected.any()


def test_thousands_of_slices_do_not_drift() -> None:
    # 2^-24 steps add up without rounding; a decimal fraction would have drifted long ago.
    tables, one = Horizons((0, 1, 2), 2, (1, 2)), coded(1)
    tables.push(one, SIZES)
    start = tables.expected[0].copy()
    table = tabulate(one, tables.layout)
    for _ in range(20_000):
        table.add_to((tables.observed[0], tables.expected[0]))
    for _ in range(20_000):
        table.add_to((tables.observed[0], tables.expected[0]), sign=-1)
    np.testing.assert_array_equal(tables.expected[0], start)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(-5, -1))
def test_a_slice_replaced_counts_as_if_it_had_always_been_so(seed: int, index: int) -> None:
    tables = Horizons((0, 1, 2), 2, HORIZONS)
    slices = [coded(seed, number) for number in range(7)]
    for one in slices:
        tables.push(one, SIZES)
    folded = coded(seed + 1, 7 + index, rows=45)
    tables.replace(index, folded)
    slices[index] = folded
    check(tables, slices)
    assert tables.slices[index] is folded
    slices.append(coded(seed, 7))  # and it leaves as it was then
    tables.push(slices[-1], SIZES)
    check(tables, slices)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_new_nodes_find_room_and_all_sums_stay(seed: int) -> None:
    tables, slices = Horizons((0, 1, 2), 2, HORIZONS), []
    grown = [(1, 2, 1), (4, 3, 5), (4, 40, 5), (60, 41, 30)]
    before = tables.layout.size
    for number, sizes in enumerate(grown):
        slices.append(coded(seed, number, sizes=sizes))
        tables.push(slices[-1], sizes)
        check(tables, slices)
    assert tables.layout.size > before


def test_few_rows_and_many_make_the_same_table() -> None:
    layout = Layout.build((0, 1, 2), (200, 200, 200))
    few = coded(1, rows=5)
    observed, expected = by_hand([few], layout)
    table = tabulate(few, layout)
    assert (np.diff(table.cells) > 0).all()
    np.testing.assert_array_equal(table.observed, observed[:, table.failed])
    for o in range(len(expected)):
        np.testing.assert_array_equal(table.expected(o), expected[o, table.cells])
    assert table.observed.sum() == observed.sum()


def test_pairs_have_the_same_numbers_whichever_value_comes_first() -> None:
    layout = Layout.build((0, 2, 3, 5), (4, 9, 30, 2))
    every = [
        (p, u, q, v)
        for p, q in permutations(range(4), 2)
        for u in range(0, layout.room[p], 3)
        for v in range(0, layout.room[q], 5)
    ]
    p, u, q, v = np.array(every).T
    named = [
        layout.cell(((layout.attributes[p], u), (layout.attributes[q], v))) for p, u, q, v in every
    ]
    np.testing.assert_array_equal(layout.pairs((p, u), (q, v)), named)


def test_failing_rows_are_those_of_the_outcome() -> None:
    tables, slices = Horizons((0, 1, 2), 2, HORIZONS), [coded(4, number) for number in range(7)]
    for one in slices:
        tables.push(one, SIZES)
    for index in (0, 3, -1):
        for outcome in range(2):
            failed = np.flatnonzero(tables.slices[index].slice.failed[:, outcome])
            np.testing.assert_array_equal(tables.failing(index, outcome), failed)
            assert len(failed)


def test_what_is_too_much_for_32_bits_is_kept_as_exactly() -> None:
    expected = np.array([[300.0 + QUANTUM, 0.5, 256.0, QUANTUM], [1.0, 0.25, 0.0, 1e6]])
    cells, none = np.arange(4), np.zeros(0, np.int64)
    table = Table.of(cells, expected, none, np.zeros((2, 0)), np.array([0, 4]), none)
    assert table.many.tolist() == [0, 2, 3]
    for o, whole in enumerate(expected):
        for first in range(4):
            for last in (None, *range(first, 5)):
                np.testing.assert_array_equal(table.expected(o, first, last), whole[first:last])


def test_an_empty_slice_has_no_cells() -> None:
    nothing = Coded(empty(START, 3, 2), np.empty((0, 3), np.int32), np.empty((0, 2)))
    assert len(tabulate(nothing, Layout.build((0, 1, 2), SIZES)).cells) == 0


@pytest.mark.parametrize("attributes", [(0, 1, 2), (1, 3, 4), (2,)])
def test_cells_and_conditions_are_two_names_of_one_thing(attributes: tuple[int, ...]) -> None:
    layout = Layout.build(attributes, SIZES[: len(attributes)])
    seen = set()
    for cell in range(layout.size):
        conditions = layout.conditions(cell)
        assert layout.cell(conditions) == cell
        assert layout.cell(conditions[::-1]) == cell
        seen.add(conditions)
    assert len(seen) == layout.size
    assert layout.conditions(0) == ()


def test_the_singles_of_a_pair_are_its_parents() -> None:
    layout = Layout.build((0, 1, 2), SIZES)
    pair = layout.cell(((0, 3), (2, 4)))
    single = layout.cell(((1, 2),))
    parents = layout.parents(np.array([0, single, pair]))
    assert parents.tolist() == [
        [-1, -1],
        [-1, -1],
        [layout.cell(((0, 3),)), layout.cell(((2, 4),))],
    ]


def test_a_missing_value_belongs_to_no_cell_of_its_attribute() -> None:
    layout = Layout.build((0, 1), (3, 3))
    cells = layout.cells(np.array([[-1, 2], [1, 2]], np.int32))
    missing = layout.size
    assert cells.tolist() == [
        [0, missing, layout.cell(((1, 2),)), missing],
        [0, layout.cell(((0, 1),)), layout.cell(((1, 2),)), layout.cell(((0, 1), (1, 2)))],
    ]


def test_an_attribute_that_makes_no_cells_is_passed_over() -> None:
    layout = Layout.build((0, 2), (3, 3))
    cells = layout.cells(np.array([[1, 7, 2]], np.int32))
    assert [layout.conditions(int(c)) for c in cells[0]] == [
        (), ((0, 1),), ((2, 2),), ((0, 1), (2, 2)),
    ]  # fmt: skip

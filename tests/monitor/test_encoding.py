"""Values become nodes, and XᵀX is what a dense one-hot matrix would give."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.domain import MISSING, OTHER, WindowSettings
from monitor.encoding import _STRIP, Coded, GramSum, Nodes, correlation
from monitor.slices import Slice, aggregate

START = np.datetime64("2026-03-01T00:00", "us")
STEP = np.timedelta64(timedelta(minutes=30))
SETTINGS = WindowSettings(min_count=3, max_values=6)


def piece(seed: int, number: int = 0, rows: int = 40, codes: int = 8) -> Slice:
    rng = np.random.default_rng([seed, number])
    values = np.minimum(rng.geometric(0.3, (rows, 3)), codes).astype(np.int32)
    values[rng.random(values.shape) < 0.1] = MISSING
    weight = rng.integers(1, 3, rows)
    return aggregate(START + number * STEP, values, rng.random((rows, 2)) < 0.2, weight)


def coded(nodes: Nodes, one: Slice) -> Coded:
    nodes.observe(one)
    local = nodes.local(one.values, one.start)
    return Coded(one, local, np.zeros((len(local), 2)))


def one_hot(slices: list[Coded], nodes: Nodes, min_count: int) -> pd.DataFrame:
    """The dense matrix: a row per event, a column per outcome and node."""
    parts = []
    for one in slices:
        rows = pd.DataFrame(one.local, columns=["0", "1", "2"])
        rows[["f0", "f1"]] = one.slice.failed
        parts.append(rows.loc[np.repeat(rows.index, one.slice.weight)])
    rows = pd.concat(parts, ignore_index=True)
    columns = {f"-1.{o}": rows[f"f{o}"].astype(float) for o in (0, 1)}
    for a, size in enumerate(nodes.sizes()):
        dummies = pd.get_dummies(rows[str(a)], prefix=str(a), prefix_sep=".", dtype=float)
        for number in range(size):
            column = dummies.get(f"{a}.{number}")
            if column is not None and min_count <= column.sum() < len(rows):
                columns[f"{a}.{number}"] = column
    return pd.DataFrame(columns)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(0, 5))
def test_the_running_gram_is_that_of_the_dense_one_hot_matrix(seed, count, dropped) -> None:
    dropped = min(dropped, count - 1)
    nodes, gram = Nodes(3, SETTINGS), GramSum(3, 2)
    slices = [coded(nodes, piece(seed, number)) for number in range(count)]
    for one in slices:
        gram.push(one, nodes.sizes())
    for one in slices[:dropped]:
        gram.drop(one)
    encoding = gram.encode(nodes, min_count=3, max_nodes=100)
    dense = one_hot(slices[dropped:], nodes, 3)
    names = [f"{a}.{n}" for a, n in zip(encoding.attribute, encoding.number, strict=True)]
    assert names == list(dense.columns)
    X = dense.to_numpy()
    np.testing.assert_array_equal(encoding.gram, X.T @ X)
    assert encoding.rows == len(X)


def test_a_gram_that_grew_is_the_same_as_one_with_room_from_the_start() -> None:
    roomy = WindowSettings(min_count=1, max_values=200)
    nodes, gram = Nodes(3, roomy), GramSum(3, 2)
    rng = np.random.default_rng(5)
    slices = []
    for number in range(4):
        values = rng.integers(1, 30 * (number + 1), (80, 3)).astype(np.int32)
        fresh = aggregate(
            START + number * STEP, values, values[:, :2] % 5 == 0, np.ones(80, np.int64)
        )
        slices.append(coded(nodes, fresh))
        gram.push(slices[-1], nodes.sizes())
    encoding = gram.encode(nodes, 1, 1000)
    assert len(encoding.number) > _STRIP  # more than are mirrored at once
    X = one_hot(slices, nodes, 1).to_numpy()
    np.testing.assert_array_equal(encoding.gram, X.T @ X)


def test_adding_then_dropping_everything_leaves_zero() -> None:
    nodes, gram = Nodes(3, SETTINGS), GramSum(3, 2)
    slices = [coded(nodes, piece(7, number)) for number in range(5)]
    for one in slices:
        gram.push(one, nodes.sizes())
    for one in slices:
        gram.drop(one)
    assert gram.rows == 0
    assert not gram._sum.any()


@pytest.mark.parametrize("rows", [60, 4000])
def test_slices_of_few_rows_and_of_many_leave_as_they_came(rows) -> None:
    # of many rows only their pairs are remembered, and those move when a new value needs room
    nodes, gram = Nodes(2, WindowSettings(min_count=1, max_values=200)), GramSum(2, 1)
    rng = np.random.default_rng(rows)
    slices = []
    for number, values in enumerate((5, 5, 60)):
        drawn = rng.integers(1, values, (rows, 2)).astype(np.int32)
        failed = rng.random((rows, 1)) < 0.2
        fresh = Slice(START + number * STEP, drawn, failed, np.ones(rows, np.int64))
        slices.append(coded_one(nodes, fresh))
        gram.push(slices[-1], nodes.sizes())
    late = Coded(slices[0].slice, slices[0].local[::-1], slices[0].expected)
    gram.replace(-2, slices[1], late, nodes.sizes())
    gram.drop(slices[0])
    alone = GramSum(2, 1)
    for one in (late, slices[2]):
        alone.push(one, nodes.sizes())
    np.testing.assert_array_equal(gram._sum, alone._sum)
    gram.drop(late)
    gram.drop(slices[2])
    assert gram.rows == 0
    assert not gram._sum.any()


def test_correlation_is_that_of_the_dense_matrix() -> None:
    nodes, gram = Nodes(3, SETTINGS), GramSum(3, 2)
    one = coded(nodes, piece(3, rows=200))
    gram.push(one, nodes.sizes())
    encoding = gram.encode(nodes, 3, 100)
    X = one_hot([one], nodes, 3).to_numpy()
    np.testing.assert_allclose(
        correlation(encoding.gram, encoding.rows), np.corrcoef(X.T), rtol=0, atol=1e-12
    )


def test_a_constant_column_correlates_with_nothing() -> None:
    gram = np.array([[10.0, 4.0, 0.0], [4.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(correlation(gram, 10), np.eye(3))
    np.testing.assert_array_equal(correlation(np.zeros((2, 2)), 0), np.eye(2))


def rows_of(*codes: int, number: int = 0) -> Slice:
    values = np.array(codes, np.int32).reshape(-1, 1)
    return aggregate(
        START + number * STEP,
        values,
        np.zeros((len(codes), 1), bool),
        np.ones(len(codes), np.int64),
    )


def test_a_value_becomes_a_node_in_the_slice_in_which_it_reaches_its_support() -> None:
    nodes = Nodes(1, SETTINGS)
    first, second, third = rows_of(5, 5), rows_of(5, number=1), rows_of(5, number=2)
    for one in (first, second, third):
        nodes.observe(one)
    assert nodes.sizes() == (2,)
    assert nodes.local(first.values, first.start).tolist() == [[OTHER]]
    assert nodes.local(second.values, second.start).tolist() == [[1]]
    assert nodes.local(third.values, third.start).tolist() == [[1]]
    assert nodes.local(first.values).tolist() == [[1]], "as of now it is one"


def test_late_rows_promote_from_the_next_slice_on() -> None:
    nodes = Nodes(1, SETTINGS)
    first, second = rows_of(5, 5), rows_of(9, number=1)
    nodes.observe(first)
    nodes.observe(second)
    nodes.observe(rows_of(5), since=START + 2 * STEP)
    assert nodes.local(first.values, first.start).tolist() == [[OTHER]]
    assert nodes.local(first.values, START + STEP).tolist() == [[OTHER]]
    assert nodes.local(first.values, START + 2 * STEP).tolist() == [[1]]


def test_missing_and_unknown_values_keep_their_names() -> None:
    nodes = Nodes(1, SETTINGS)
    nodes.observe(rows_of(2, 2, 2, MISSING, OTHER))
    codes = np.array([[MISSING], [OTHER], [2], [12345]], np.int32)
    assert nodes.local(codes).ravel().tolist() == [MISSING, OTHER, 1, OTHER]
    assert nodes.rare() == 0


def test_an_attribute_of_50_000_values_stays_bounded() -> None:
    bounded = WindowSettings(min_count=2, max_values=100)
    nodes, gram = Nodes(1, bounded), GramSum(1, 1)
    rng = np.random.default_rng(1)
    for number in range(10):
        values = (1 + rng.permutation(50_000)[:, None]).astype(np.int32)
        one = aggregate(START + number * STEP, values, values % 7 == 0, np.ones(50_000, np.int64))
        gram.push(coded_one(nodes, one), nodes.sizes())
    assert nodes.sizes() == (101,)
    assert nodes.rare() == 50_000 - 100
    encoding = gram.encode(nodes, 2, 1000)
    assert len(encoding.number) == 102
    assert encoding.rows == 500_000
    # nothing is lost: whatever is no node is counted as `other`
    assert np.diag(encoding.gram)[1:].sum() == 500_000


def coded_one(nodes: Nodes, one: Slice) -> Coded:
    nodes.observe(one)
    local = nodes.local(one.values, one.start)
    return Coded(one, local, np.zeros((len(local), 1)))


def test_only_the_most_frequent_nodes_are_kept_and_every_outcome() -> None:
    nodes, gram = Nodes(3, SETTINGS), GramSum(3, 2)
    gram.push(coded(nodes, piece(3, rows=300)), nodes.sizes())
    everything, few = gram.encode(nodes, 3, 100), gram.encode(nodes, 3, 6)
    assert len(few.number) == 6
    assert (few.attribute[:2] == -1).all()
    counts = np.diag(everything.gram)[2:]
    assert sorted(np.diag(few.gram)[2:]) == sorted(counts)[-4:]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_restored_nodes_code_every_slice_as_before(count: int) -> None:
    nodes = Nodes(3, SETTINGS)
    slices = [piece(11, number) for number in range(count)]
    for one in slices:
        nodes.observe(one)
    other = Nodes.from_arrays(nodes.to_arrays(), 3, SETTINGS)
    assert other.sizes() == nodes.sizes()
    assert other.rare() == nodes.rare()
    for one in slices:
        np.testing.assert_array_equal(
            other.local(one.values, one.start), nodes.local(one.values, one.start)
        )
    later = [piece(11, number) for number in range(count, count + 5)]
    for one in later:
        nodes.observe(one)
        other.observe(one)
    assert other.codes == nodes.codes
    for name, array in nodes.to_arrays().items():
        np.testing.assert_array_equal(other.to_arrays()[name], array)


def test_compact_rows_are_the_same_rows() -> None:
    dice = np.random.default_rng(3)
    values = dice.integers(-1, 40_000, (50, 3)).astype(np.int32)
    expected = dice.integers(1, 2**24, (50, 2)) * 2.0**-24
    piece = Slice(
        np.datetime64("2026-01-05", "us"),
        values,
        dice.random((50, 2)) < 0.1,
        dice.integers(1, 9, 50),
    )
    whole = Coded(piece, np.minimum(values, 900), expected)
    small = whole.compact()
    assert small.local.dtype == np.int16
    assert small.slice.values.dtype == np.int32, "codes beyond int16 stay as they are"
    assert small.expected.dtype == np.float32
    for one, other in (
        (small.local, whole.local),
        (small.slice.values, values),
        (small.slice.weight, piece.weight),
        (small.expected, expected),
    ):
        np.testing.assert_array_equal(one, other)
    assert small.exposure @ small.expected[:, 0] == whole.exposure @ expected[:, 0]
    assert (small.exposure * small.expected[:, 1]).dtype == np.float64
    big = Coded(piece, values, expected + 3.0).compact()
    np.testing.assert_array_equal(big.expected, expected + 3.0)


def test_missing_is_a_value_once_it_has_support_and_never_that_of_an_error_code() -> None:
    values = np.array([[1, -1, -1]] * 2, np.int32)
    one, other = (
        aggregate(START + n * STEP, values, np.zeros((2, 2), bool), np.ones(2, np.int64))
        for n in range(2)
    )
    nodes = Nodes(3, SETTINGS, frozenset({2}))
    nodes.observe(one)
    assert nodes.local(one.values, one.start).tolist() == [[0, MISSING, MISSING]]
    nodes.observe(other)
    assert nodes.local(other.values, other.start).tolist() == [[1, 1, MISSING]]
    assert nodes.local(one.values, one.start).tolist() == [[0, MISSING, MISSING]], "as of its time"
    assert (nodes.codes[1], nodes.number(1, MISSING)) == ([OTHER, MISSING], 1)
    again = Nodes.from_arrays(nodes.to_arrays(), 3, SETTINGS, frozenset({2}))
    np.testing.assert_array_equal(again.local(other.values), nodes.local(other.values))
    assert again.rare() == nodes.rare() == 0

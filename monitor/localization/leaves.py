"""The table to be explained: one row per combination of values, observed beside expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

ROUNDS = 3
SINGLE_PRIOR = 5.0
"""Failures by which the multiplier of a value is held at one."""
LEAF_PRIOR = 20.0
"""Rows by which the rate of a leaf is held at what its values let expect."""


class Labels(NamedTuple):
    """One column of attribute values."""

    names: tuple[str, ...]
    """Sorted, each once."""
    codes: np.ndarray  # (rows,) int, positions in `names`


def labels(values: Sequence[str] | np.ndarray) -> Labels:
    """A column from its values, row by row."""
    names, codes = np.unique(np.asarray(values, dtype=str), return_inverse=True)
    return Labels(tuple(str(name) for name in names), codes)


@dataclass(frozen=True, slots=True)
class Leaves:
    """Combinations of attribute values, each once, with what was seen and what was expected."""

    attributes: tuple[str, ...]
    """In alphabetical order, so that the order of columns decides nothing."""
    values: tuple[tuple[str, ...], ...]
    """Per attribute: its values, sorted."""
    codes: np.ndarray  # (n, attributes) int64, positions in `values`
    observed: np.ndarray  # (n,) ≥ 0
    expected: np.ndarray  # (n,) ≥ 0
    counts: bool = False
    """Observed are known to be counts (of errors)."""

    def __len__(self) -> int:
        return len(self.observed)

    def selector(self, conditions: Sequence[tuple[int, int]]) -> dict[str, list[str]]:
        """(attribute, code) pairs as names."""
        return {self.attributes[a]: [self.values[a][code]] for a, code in conditions}


def leaves(columns: Mapping[str, Labels], observed: np.ndarray, expected: np.ndarray) -> Leaves:
    """Build the table; equal combinations are added up.

    Args:
        columns: attribute → its values.
        observed, expected: (rows,), finite and not negative.
    """
    names, values, codes = _coded(columns, len(observed))
    codes, (o, e) = _merged(codes, values, [observed, expected])
    return Leaves(names, values, codes, o, e)


def leaves_of_windows(
    columns: Mapping[str, Labels], errors: np.ndarray, total: np.ndarray, now: np.ndarray
) -> Leaves:
    """Build the table from errors and totals of two windows; only `now` is explained.

    What a leaf of `now` lets expect is its total times its rate before. A thin rate leans on
    the product of its values' multipliers, which are fitted by iterative proportional fitting.

    Args:
        columns: attribute → its values.
        errors, total: (rows,), 0 ≤ errors ≤ total.
        now: (rows,) bool; False is the window before.
    """
    names, values, codes = _coded(columns, len(errors))
    codes, sums = _merged(
        codes, values, [np.where(w, x, 0.0) for x in (errors, total) for w in (now, ~now)]
    )
    errors_now, errors_before, total_now, total_before = sums
    rate = (errors_before.sum() + 0.5) / (total_before.sum() + 1.0)
    rates = np.full(len(codes), rate)
    for _ in range(ROUNDS):
        for a in range(codes.shape[1]):
            seen = np.bincount(codes[:, a], errors_before) + SINGLE_PRIOR
            fair = np.bincount(codes[:, a], total_before * rates) + SINGLE_PRIOR
            rates = rates * (seen / fair)[codes[:, a]]
    rates = np.minimum(rates, 1.0)
    expected = total_now * (errors_before + LEAF_PRIOR * rates) / (total_before + LEAF_PRIOR)
    return Leaves(names, values, codes, errors_now, expected, counts=True)


def tell_the_window(columns: Mapping[str, Labels], now: np.ndarray) -> list[str]:
    """Columns that have no value in common before and now: times, numbers of rows.

    They would make every leaf of now a new one.
    """
    return [
        name
        for name, column in columns.items()
        if not np.intersect1d(column.codes[now], column.codes[~now]).size
    ]


def _coded(
    columns: Mapping[str, Labels], rows: int
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], np.ndarray]:
    names = tuple(sorted(columns))
    codes = np.zeros((rows, len(names)), np.int64)
    for a, name in enumerate(names):
        codes[:, a] = columns[name].codes
    return names, tuple(columns[name].names for name in names), codes


def _merged(
    codes: np.ndarray, values: tuple[tuple[str, ...], ...], amounts: Sequence[np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """One row per combination, in the order of the codes; amounts added up."""
    cell, count = cells_of(codes, [len(v) for v in values])
    first = np.zeros(count, np.int64)
    first[cell[::-1]] = np.arange(len(cell))[::-1]
    return codes[first], [np.bincount(cell, amount, count) for amount in amounts]


def cells_of(codes: np.ndarray, sizes: Sequence[int]) -> tuple[np.ndarray, int]:
    """Number the combinations that occur, in the order of their codes.

    Returns:
        (n,) number of each row's combination, and how many there are.
    """
    key = np.zeros(len(codes), np.int64)
    room = 1
    for column, size in zip(codes.T, sizes, strict=True):
        if room * size > 1 << 62:  # more combinations than numbers: use those that occur
            key = np.unique(key, return_inverse=True)[1]
            room = len(codes)
        key = key * size + column
        room *= size
    if room <= 4 * len(codes) + 1024:
        present = np.bincount(key, minlength=room) > 0
        return (np.cumsum(present) - 1)[key], int(present.sum())
    found, cell = np.unique(key, return_inverse=True)
    return cell, len(found)

"""Stored slices, summed up for questions that somebody asks later.

A *digest* is of some slices in a row: how often each value failed in each slice, and how often each
pair of values did in all of them. One condition is answered from it exactly; more ask for rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from monitor.domain import OTHER
from monitor.encoding import exposure
from monitor.evolution import Stored

MOST_VALUES = 400
"""Values of an attribute that a digest tells apart: first those that fail most."""

LEAST_EXPECTED = 0.25
"""Failures expected of a pair that has none, for it to be kept."""

Sums = np.ndarray
"""(cells, 1 + 2·outcomes) float64: rows, failures of each outcome, expected failures of each."""


@dataclass(frozen=True, slots=True)
class Course:
    """Every value in every slice; one line a cell."""

    slot: np.ndarray  # (n,) slice, from 0
    attribute: np.ndarray  # (n,) -1 is all rows
    code: np.ndarray  # (n,)
    sums: Sums


@dataclass(frozen=True, slots=True)
class Pairs:
    """The values of one attribute together with those of the others, over all slices."""

    code: np.ndarray  # (n,) of this attribute, ascending
    attribute: np.ndarray  # (n,) the other one
    other: np.ndarray  # (n,) its code
    sums: Sums


@dataclass(frozen=True, slots=True)
class Digest:
    """Of some slices."""

    course: Course
    pairs: tuple[Pairs, ...]
    """By attribute."""


def weightings(stored: Stored) -> Sums:
    """What one row adds to the sums of each of its cells, (rows, 1 + 2·outcomes)."""
    piece = stored.slice
    weight = piece.weight.astype(float)
    return np.column_stack(
        [
            weight,
            weight[:, None] * piece.failed,
            exposure(piece)[:, None] * stored.expected.astype(float),
        ]
    )


def summed(key: np.ndarray, weights: Sums, size: int) -> Sums:
    """(size, k) sums of the rows with each key."""
    columns = [np.bincount(key, column, size) for column in weights.T]
    return np.column_stack(columns) if columns else np.zeros((size, 0))


def digest(slices: Sequence[Stored]) -> Digest:
    """Sum slices up.

    Args:
        slices: in order of time, of one schema; at least one.
    """
    weights = np.concatenate([weightings(one) for one in slices])
    slot = np.repeat(np.arange(len(slices)), [len(one.slice.weight) for one in slices])
    values = np.concatenate([one.slice.values for one in slices]).astype(np.int64)
    outcomes = slices[0].slice.failed.shape[1]
    found = [_kept(column, weights, outcomes) for column in values.T]
    lines = [_lines(slot, np.zeros(len(slot), np.int64), np.zeros(1, np.int64), weights, -1)]
    for a, (place, codes) in enumerate(found):
        lines.append(_lines(slot, place, codes, weights, a))
    course = Course(*(np.concatenate(parts) for parts in zip(*lines, strict=True)))
    sides: list[list[tuple[np.ndarray, ...]]] = [[] for _ in found]
    for a, b in combinations(range(len(found)), 2):
        (one, codes), (two, others) = found[a], found[b]
        sums = summed(one * len(others) + two, weights, len(codes) * len(others))
        keep = (sums[:, 1 : 1 + outcomes] > 0) | (sums[:, 1 + outcomes :] >= LEAST_EXPECTED)
        cells = np.flatnonzero(keep.any(axis=1))
        mine, theirs, sums = codes[cells // len(others)], others[cells % len(others)], sums[cells]
        sides[a].append((mine, np.full(len(cells), b), theirs, sums))
        sides[b].append((theirs, np.full(len(cells), a), mine, sums))
    width = weights.shape[1]
    return Digest(course, tuple(_pairs(side, width) for side in sides))


def _kept(column: np.ndarray, weights: Sums, outcomes: int) -> tuple[np.ndarray, np.ndarray]:
    """Place of each row among the values told apart, and their codes; the rest is `OTHER`."""
    codes, place = np.unique(column, return_inverse=True)
    place = place.ravel()
    if len(codes) > MOST_VALUES:
        sums = summed(place, weights, len(codes))
        order = np.lexsort((-sums[:, 0], -sums[:, 1 : 1 + outcomes].sum(axis=1)))
        keep = np.sort(np.append(order[: MOST_VALUES - 1], np.flatnonzero(codes == OTHER)))
        keep = np.unique(keep)
        kept = np.unique(np.append(codes[keep], OTHER))
        renamed = np.where(np.isin(codes, kept), codes, OTHER)
        codes, place = kept, np.searchsorted(kept, renamed)[place]
    return place, codes


def _lines(
    slot: np.ndarray, place: np.ndarray, codes: np.ndarray, weights: Sums, attribute: int
) -> tuple[np.ndarray, ...]:
    slots = int(slot.max()) + 1 if len(slot) else 0
    sums = summed(slot * len(codes) + place, weights, slots * len(codes))
    cells = np.flatnonzero(sums.any(axis=1))
    return (
        cells // len(codes),
        np.full(len(cells), attribute),
        codes[cells % len(codes)],
        sums[cells],
    )


def _pairs(side: Sequence[tuple[np.ndarray, ...]], width: int) -> Pairs:
    if not side:
        nothing = np.zeros(0, np.int64)
        return Pairs(nothing, nothing, nothing, np.zeros((0, width)))
    code, attribute, other, sums = (np.concatenate(parts) for parts in zip(*side, strict=True))
    order = np.argsort(code, kind="stable")
    return Pairs(code[order], attribute[order], other[order], sums[order])

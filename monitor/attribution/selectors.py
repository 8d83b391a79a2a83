"""Selectors by node number, and the rows of a slice that they hold."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

Selector = tuple[tuple[int, tuple[int, ...]], ...]
"""Per attribute that is named, ascending: the node numbers that its value may have; () is
everything. `monitor.domain.Cause` is the same in words, `monitor.baseline.Codes` by code."""


def selector(conditions: Iterable[tuple[int, int]]) -> Selector:
    """Of one value per attribute, from (attribute, node number) pairs."""
    return tuple((a, (n,)) for a, n in sorted(conditions))


def narrows(narrow: Selector, wide: Selector) -> bool:
    """True when every row of one is a row of the other."""
    mine = dict(narrow)
    return all(a in mine and set(mine[a]) <= set(numbers) for a, numbers in wide)


def match(local: np.ndarray, chosen: Selector) -> np.ndarray:
    """Which rows (m, attributes) of node numbers have one that is named, of each, (m,) bool."""
    hit = np.ones(len(local), bool)
    for attribute, numbers in chosen:
        column = local[:, attribute]
        hit &= column == numbers[0] if len(numbers) == 1 else np.isin(column, numbers)
    return hit

"""Which edges may exist and which must: by mask, by pairs of columns, by tiers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from least.acyclicity import is_acyclic
from least.problem import ProblemError

Column = str | int
"""A column by its name or its number."""
Edges = np.ndarray | Sequence[tuple[Column, Column]]
"""A (d, d) bool mask, [i, j] for i → j; or pairs (cause, effect)."""


def edge_masks(
    d: int,
    allowed: Edges | None,
    required: Edges | None,
    forbidden: Edges | None = None,
    tiers: Sequence[Iterable[Column]] | None = None,
    names: Sequence[str] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Checked (d, d) masks of what may and of what must exist; the diagonal is never allowed.

    Args:
        d: columns.
        allowed: only these edges may exist; None allows all.
        required: they must exist.
        forbidden: they cannot.
        tiers: earliest first; no edge runs from a later tier to an earlier one. Columns in no tier
            are free.
        names: of the columns, for pairs by name and for messages.

    Raises:
        ProblemError: wrong shape, an unknown column, one in two tiers, a required edge that is not
            allowed, or required edges that form a cycle.
    """
    called = _Called(d, names)
    may = _mask("allowed", allowed, called, default=True)
    must = _mask("required", required, called, default=False)
    may &= ~_mask("forbidden", forbidden, called, default=False)
    if tiers is not None:
        may &= _down(tiers, called)
    np.fill_diagonal(may, False)
    for i, j in np.argwhere(must & ~may):
        reason = "on the diagonal" if i == j else "not allowed"
        raise ProblemError(f"the required edge {called[i]} → {called[j]} is {reason}")
    if not is_acyclic(must):
        cycle = " → ".join(called[i] for i in _a_cycle(must))
        raise ProblemError(f"the required edges form a cycle: {cycle}")
    return may, must


class _Called:
    """Columns by name and by number."""

    def __init__(self, d: int, names: Sequence[str] | None) -> None:
        self.d = d
        self.names = None if names is None else list(names)
        self.numbers = {} if names is None else {name: i for i, name in enumerate(names)}

    def __getitem__(self, i: int) -> str:
        return str(i) if self.names is None else self.names[i]

    def number(self, column: Any, what: str) -> int:
        if isinstance(column, str):
            if self.names is None:
                raise ProblemError(
                    f"`{what}` speaks of {column!r}, but the columns have no names: "
                    "fit a DataFrame, or give their numbers"
                )
            if column not in self.numbers:
                some = ", ".join(self.names[:20]) + (", …" if self.d > 20 else "")
                raise ProblemError(f"`{what}` speaks of {column!r}; the columns are {some}")
            return self.numbers[column]
        if isinstance(column, bool | np.bool_) or not isinstance(column, int | np.integer):
            raise ProblemError(f"`{what}`: {column!r} is no name and no number of a column")
        if not 0 <= column < self.d:
            raise ProblemError(f"`{what}` speaks of column {column}; there are {self.d}, from 0")
        return int(column)


def _mask(what: str, edges: Edges | None, called: _Called, *, default: bool) -> np.ndarray:
    d = called.d
    if edges is None:
        return np.full((d, d), default)
    if isinstance(edges, np.ndarray) or _are_flags(edges):
        whole = np.asarray(edges)
        if whole.shape != (d, d):
            raise ProblemError(f"the mask `{what}` is {whole.shape}, the problem ({d}, {d})")
        if whole.dtype != bool:
            raise ProblemError(f"the mask `{what}` must be bool, not {whole.dtype}")
        return whole.copy()
    mask = np.zeros((d, d), bool)
    for pair in edges:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise ProblemError(f"`{what}` holds {pair!r}: a pair (cause, effect) is needed")
        mask[called.number(pair[0], what), called.number(pair[1], what)] = True
    return mask


def _are_flags(edges: Any) -> bool:
    """A mask as nested lists."""
    return (
        isinstance(edges, Sequence)
        and bool(edges)
        and all(isinstance(row, Sequence) and not isinstance(row, str) for row in edges)
        and all(isinstance(cell, bool | np.bool_) for row in edges for cell in row)
    )


def _down(tiers: Sequence[Iterable[Column]], called: _Called) -> np.ndarray:
    place = np.full(called.d, -1)
    for t, tier in enumerate(tiers):
        if isinstance(tier, str):
            raise ProblemError(f"`tiers` holds the text {tier!r}: each tier is a list of columns")
        for column in tier:
            i = called.number(column, "tiers")
            if place[i] >= 0:
                raise ProblemError(f"`tiers` names {called[i]} twice")
            place[i] = t
    up = (place[:, None] > place[None, :]) & (place[None, :] >= 0)
    return ~up


def _a_cycle(edges: np.ndarray) -> list[int]:
    """One cycle of a graph that has one, for the message."""
    alive = edges.copy()
    while True:  # peel what lies on no cycle, then walk until a node repeats
        dead = ~(alive.any(0) & alive.any(1))
        before = alive.sum()
        alive[dead], alive[:, dead] = False, False
        if alive.sum() == before:
            break
    walk = [int(np.flatnonzero(alive.any(1))[0])]
    while walk.count(walk[-1]) < 2:
        walk.append(int(np.flatnonzero(alive[walk[-1]])[0]))
    return walk[walk.index(walk[-1]) :]


__all__ = ["edge_masks"]

"""One table of leaves → its causes: how specific, how many, what is left unexplained.

The rules are those of a tick (search priced, remainders, explaining away, all causes together),
on a table that somebody brings: no history, no clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import numpy as np

from monitor.domain import Cause
from monitor.localization import amounts, counts
from monitor.localization.leaves import (
    Labels,
    Leaves,
    labels,
    leaves,
    leaves_of_windows,
    tell_the_window,
)
from monitor.localization.located import (
    Alternative,
    Conditions,
    Found,
    Link,
    Localization,
    Located,
)

__all__ = [
    "Alternative",
    "Direction",
    "Labels",
    "Leaves",
    "Link",
    "Localization",
    "Located",
    "Model",
    "labels",
    "leaves",
    "leaves_of_windows",
    "localize",
    "tell_the_window",
]

COUNTS_BELOW = 30.0
"""Leaves of fewer expected (in the middle of the table, by amount) only speak in sums."""
CONCENTRATED = 0.8
NARROWER = 0.6
"""A cell tells where a cause is concentrated if it holds at most this share of its expected."""
LINKS = 3
ALIKE = 1.5
"""Ratios that differ by less than this factor belong to one storm."""


class Direction(Enum):
    """Which deviations are looked for."""

    UP = "up"
    DOWN = "down"
    BOTH = "both"

    @property
    def signs(self) -> tuple[int, ...]:
        """+1 and/or -1."""
        return {"up": (1,), "down": (-1,), "both": (1, -1)}[self.value]


class Model(Enum):
    """How leaves scatter around what was expected."""

    AUTO = "auto"
    """Counts if errors were counted, or all observed are whole and leaves thin; else amounts."""
    COUNTS = "counts"
    AMOUNTS = "amounts"


def localize(
    table: Leaves,
    direction: Direction = Direction.BOTH,
    model: Model = Model.AUTO,
    max_causes: int = 20,
    max_order: int | None = None,
) -> Localization:
    """Name the causes in a table.

    Args:
        table: from `leaves` or `leaves_of_windows`.
        direction: more than expected, less, or both.
        model: how leaves scatter.
        max_causes: at most so many.
        max_order: most conditions of a cause; None is as many as the table allows.

    >>> city, day = ["A", "A", "B", "B"] * 10, [str(i // 4) for i in range(40)]
    >>> columns = {"city": labels(city), "day": labels(day)}
    >>> seen, fair = np.array([40.0, 40.0, 10.0, 10.0] * 10), np.full(40, 10.0)
    >>> [str(c.cause) for c in localize(leaves(columns, seen, fair)).causes]
    ['city=A']
    """
    if model is Model.AUTO:
        model = Model.COUNTS if table.counts or _is_thin(table) else Model.AMOUNTS
    search = counts.find if model is Model.COUNTS else amounts.find
    found = search(table, direction.signs, max_causes, max_order) if len(table) else []
    excess = [_excess(table, f.rows) for f in found]
    explained = sum(abs(x) for x in excess)
    left = np.ones(len(table), bool)
    for f in found:
        left[f.rows] = False
    rest = _excess(table, np.flatnonzero(left))
    unexplained = abs(rest) / max(explained + abs(rest), 1e-12)
    groups = _groups(table, found)
    causes = [
        Located(
            cause=Cause.from_json(table.selector(f.conditions)),
            score=f.score,
            observed=float(table.observed[f.rows].sum()),
            expected=float(table.expected[f.rows].sum()),
            leaves=len(f.rows),
            share=abs(x) / max(explained, 1e-12),
            group=group,
            chain=_chain(table, f),
        )
        for f, x, group in zip(found, excess, groups, strict=True)
    ]
    causes.sort(key=lambda c: (-round(c.score, 6), c.cause))
    rivals = tuple(_rivals(table, found))
    return Localization(tuple(causes), rivals, float(unexplained), len(table), model.value)


def _rivals(table: Leaves, found: list[Found]) -> Iterator[Alternative]:
    """The rivals of all causes, each once, the nearest first."""
    said = {f.conditions for f in found}
    pairs = [(rival, f) for f in found for rival in f.rivals]
    for rival, f in sorted(pairs, key=lambda pair: pair[1].score - pair[0].score):
        if rival.conditions in said:
            continue
        said.add(rival.conditions)
        rows = np.ones(len(table), bool)
        for attribute, code in rival.conditions:
            rows &= table.codes[:, attribute] == code
        yield Alternative(
            cause=Cause.from_json(table.selector(rival.conditions)),
            instead_of=Cause.from_json(table.selector(f.conditions)),
            score=rival.score,
            observed=float(table.observed[rows].sum()),
            expected=float(table.expected[rows].sum()),
        )


def _is_thin(table: Leaves) -> bool:
    """Whole numbers, and the leaf in the middle of all that was expected holds few."""
    if not len(table) or not np.all(table.observed == np.rint(table.observed)):
        return False
    order = np.sort(table.expected)
    whole = np.cumsum(order)
    return float(order[np.searchsorted(whole, whole[-1] / 2)]) < COUNTS_BELOW


def _excess(table: Leaves, rows: np.ndarray) -> float:
    return float(table.observed[rows].sum() - table.expected[rows].sum())


def _chain(table: Leaves, cause: Found) -> tuple[Link, ...]:
    """Where the deviation of a cause is concentrated, step by step."""
    rows, conditions = cause.rows, dict(cause.conditions)
    chain = [_link(table, tuple(conditions.items()), rows)]
    while len(chain) < LINKS:
        whole = _excess(table, rows)
        fair = float(table.expected[rows].sum())
        best: tuple[float, int, int] | None = None
        for a in range(len(table.attributes)):
            if a in conditions:
                continue
            codes = table.codes[rows, a]
            held = np.bincount(codes, table.observed[rows] - table.expected[rows]) / (whole or 1.0)
            expected = np.bincount(codes, table.expected[rows])
            narrow = np.where(expected <= NARROWER * fair, held, 0.0)
            value = int(np.argmax(narrow))
            if narrow[value] >= CONCENTRATED and (best is None or narrow[value] > best[0]):
                best = float(narrow[value]), a, value
        if best is None:
            break
        _, a, value = best
        conditions[a] = value
        rows = rows[table.codes[rows, a] == value]
        chain.append(_link(table, tuple(sorted(conditions.items())), rows))
    return tuple(chain)


def _link(table: Leaves, conditions: Conditions, rows: np.ndarray) -> Link:
    return Link(
        Cause.from_json(table.selector(conditions)),
        float(table.observed[rows].sum()),
        float(table.expected[rows].sum()),
    )


def _groups(table: Leaves, found: list[Found]) -> list[int]:
    """Number causes: those apart in one value of one attribute, and alike, share a number."""
    ratios = [
        (float(table.observed[f.rows].sum()) + 1e-9) / (float(table.expected[f.rows].sum()) + 1e-9)
        for f in found
    ]
    groups: list[int] = []
    for i, cause in enumerate(found):
        mine = dict(cause.conditions)
        for j in range(i):
            other = dict(found[j].conditions)
            alike = max(ratios[i], ratios[j]) < ALIKE * min(ratios[i], ratios[j]) or (
                max(ratios[i], ratios[j]) < 1 / ALIKE**2
            )
            if mine.keys() == other.keys() and alike:
                apart = [a for a in mine if mine[a] != other[a]]
                if len(apart) == 1:
                    groups.append(groups[j])
                    break
        else:
            groups.append(max(groups, default=-1) + 1)
    return groups

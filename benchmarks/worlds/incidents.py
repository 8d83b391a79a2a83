"""What goes wrong in a world, or only looks like it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from benchmarks.worlds.domain import Columns, Where

SAME = 0.95
"""Selectors whose rows are the same to this degree (Jaccard) are equally right."""
CODE = "\x00code"
"""The error code among the columns of rows seen in an incident."""
MOST_FAIL = 0.97


@dataclass
class Incident:
    """Rows that fail more than they should, for a while.

    Either `added` (a share of the rows fails besides) or `ratio` (times the true rate) says how
    much. What the oracle counts while rows are drawn is gathered in it.
    """

    id: str
    kind: str
    outcome: int
    start: int
    """First slice."""
    end: int
    """Slice behind the last."""
    where: Where
    added: float = 0.0
    ratio: float = 1.0
    ramp: int = 0
    """Slices until it is at its full strength."""
    code: int = -1
    """Added failures all carry it: the code is the cause."""
    symptom: int = -1
    """Half of the added failures carry it, and would not be there without the cause."""
    blank: str = ""
    """Field left empty by what fails."""
    lag: int = 0
    """Slices by which added failures are written late, at most."""
    expected: float = 0.0
    """Σ of the true rates without it, over its rows."""
    happens: float = 0.0
    """… with it."""
    rows: int = 0
    seen: list[tuple[Columns, np.ndarray]] = field(default_factory=list)
    """Per slice: all rows' columns, and which of them it hits."""

    def strength(self, slice_: int) -> float:
        """Share of its full strength in a slice: 0 outside its time."""
        if not self.start <= slice_ < self.end:
            return 0.0
        return min(1.0, (slice_ - self.start + 1) / (self.ramp + 1))

    def raised(self, usual: np.ndarray, slice_: int, code_share: np.ndarray | float) -> np.ndarray:
        """Probabilities of its rows with it, given those without.

        Args:
            usual: of its rows.
            slice_: when.
            code_share: how often a usual failure of them carries `code`; 1 without a code.
        """
        s = self.strength(slice_)
        added = self.added * s * (1 - usual) + (self.ratio - 1) * s * usual * code_share
        return np.minimum(usual + added, np.maximum(MOST_FAIL, usual))

    @property
    def excess(self) -> float:
        """Failures that it adds, as expected under the true rates."""
        return self.happens - self.expected

    @property
    def nats(self) -> float:
        """Log-likelihood ratio of what happens against the true rates, both known."""
        return nats(self.expected, self.happens)

    @property
    def detectable(self) -> bool:
        """Whether a detector can be asked for it."""
        return self.nats >= 25 and self.excess >= 15


def nats(expected: float, happens: float) -> float:
    """Poisson log-likelihood ratio; half a failure is always expected.

    >>> round(nats(100, 200), 1)
    38.3
    """
    base = max(expected, 0.5)
    return float(happens * np.log(happens / base) - (happens - base)) if happens > base else 0.0


@dataclass(frozen=True)
class Change:
    """A field is written otherwise for some rows: a new version comes, a version is not sent."""

    where: Where
    field: str
    value: int
    start: int
    end: int
    most: float
    """Share of the rows in the end."""
    slices: float
    """In which it reaches 63 % of that; 0 is at once."""

    def share(self, slice_: int) -> float:
        """Of the rows that have it in a slice."""
        if not self.start <= slice_ < self.end:
            return 0.0
        if not self.slices:
            return self.most
        return float(self.most * (1 - np.exp(-(slice_ - self.start + 1) / self.slices)))


@dataclass(frozen=True)
class Promotion:
    """Traffic of a value is multiplied, and fails no more than before."""

    where: Where
    start: int
    end: int
    factor: float


@dataclass(frozen=True)
class Habit:
    """A value fails more at the same hours of every week, as it always did."""

    where: Where
    outcome: int
    ratio: float
    slices: tuple[int, int]
    """Of the week, half-open."""


def mask(columns: Columns, where: Where, count: int) -> np.ndarray:
    """(n,) rows of a selector."""
    rows = np.ones(count, bool)
    for name, values in where.items():
        column = columns[name]
        rows &= column == values[0] if len(values) == 1 else np.isin(column, values)
    return rows


def equivalents(where: Where, seen: list[tuple[Columns, np.ndarray]]) -> list[Where]:
    """Every selector of the rows that were hit, to within `SAME`; the given one first.

    Args:
        where: the selector as planned; it stands for exactly the rows hit.
        seen: per slice, columns of all rows and which of them were hit.
    """
    names = list(seen[0][0]) if seen else []
    columns = {n: np.concatenate([c[n] for c, _ in seen]) for n in names}
    hit = np.concatenate([h for _, h in seen]) if seen else np.zeros(0, bool)
    parts = {name: tuple(values) for name, values in where.items()}
    if not hit.any():
        return [parts]
    for name in names:
        if name not in parts and len(parts) < 6:
            values, counts = np.unique(columns[name][hit], return_counts=True)
            if counts.max() >= SAME * hit.sum() and values[counts.argmax()] >= 0:
                parts[name] = (int(values[counts.argmax()]),)
    rows = {name: mask(columns, {name: values}, len(hit)) for name, values in parts.items()}
    same: list[Where] = [dict(where)]
    for size in range(len(parts) + 1):
        for chosen in combinations(parts, size):
            found = np.ones(len(hit), bool)
            for name in chosen:
                found &= rows[name]
            selector = {name: parts[name] for name in chosen}
            both = (found & hit).sum()
            if selector != same[0] and both >= SAME * (found | hit).sum():
                same.append(selector)
    return same

"""Long timelines on a page: fewer columns than ticks, and no extreme lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

COLUMNS = 700
"""At most so many, however long the backtest."""

WIDTH, HEIGHT, LOW = 1000.0, 140.0, 6.0
"""Of a drawing, in its own units; `LOW` is left under the axis."""


@dataclass(frozen=True, slots=True)
class Column:
    """Some ticks in a row."""

    x: float
    lowest: float
    highest: float
    mean: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """One series over the whole time, as SVG paths."""

    top: float
    """The value at the upper edge."""
    ticks_per_column: int
    band: str
    """From the lowest to the highest of every column."""
    line: str
    """The mean of another series, or nothing."""


def columns(values: Sequence[float], most: int = COLUMNS) -> list[Column]:
    """Ticks in equal groups, each with its extremes.

    >>> [(c.lowest, c.highest) for c in columns([1, 9, 2, 3, 0, 1], most=3)]
    [(1, 9), (2, 3), (0, 1)]
    """
    if not values:
        return []
    size = -(-len(values) // most)
    count = -(-len(values) // size)
    found = []
    for i in range(count):
        group = values[i * size : (i + 1) * size]
        x = WIDTH * (i + 0.5) / count
        found.append(Column(x, min(group), max(group), sum(group) / len(group)))
    return found


def draw(values: Sequence[float], beside: Sequence[float] = ()) -> Drawing:
    """The series as a band, the other as a line, on one scale.

    Args:
        values: one a tick; each extreme shows.
        beside: as many; averaged within a column.
    """
    bands, lines = columns(values), columns(beside)
    top = max([c.highest for c in bands] + [c.mean for c in lines] + [1e-9])

    def y(value: float) -> str:
        return f"{HEIGHT - (HEIGHT - LOW) * value / top:.1f}"

    band = " ".join(
        f"M{c.x:.1f} {y(0.0 if len(values) <= COLUMNS else c.lowest)}V{y(c.highest)}" for c in bands
    )
    line = " ".join(f"{'L' if i else 'M'}{c.x:.1f} {y(c.mean)}" for i, c in enumerate(lines))
    return Drawing(top, -(-len(values) // COLUMNS) if values else 1, band, line)


def place(at: datetime, first: datetime, last: datetime) -> float:
    """Where a moment lies, 0 to `WIDTH`; what is outside lies at the edge."""
    whole = max(last - first, timedelta(seconds=1))
    return round(WIDTH * min(max((at - first) / whole, 0.0), 1.0), 2)

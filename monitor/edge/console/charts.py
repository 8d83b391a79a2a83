"""Failures over time as bars, their rate as a line above, and what was expected of both.

Sideways everything is in per cent, so that a chart fits a telephone without shrinking its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from monitor.edge.wording import number, percent
from monitor.exhibits import Point

_MOST_BARS = 144
_BETWEEN = 22
"""Pixels between the rate and the counts."""
_TICKS = 4
_HOUR_STEPS = (1, 2, 3, 6, 12, 24, 48, 72, 168)


@dataclass(frozen=True, slots=True)
class Bar:
    """The failures of one slice, or of some."""

    x: float
    width: float
    y: float
    height: float
    hot: bool
    title: str


@dataclass(frozen=True, slots=True)
class Step:
    """What was expected, from one place to the next."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class Span:
    """A shaded stretch of time."""

    kind: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment: on the axis, or of the incident."""

    x: float
    at: datetime
    label: str


@dataclass(frozen=True, slots=True)
class Level:
    """A line across, with its count."""

    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Across in per cent, down in pixels."""

    height: int
    bars: tuple[Bar, ...]
    expected: tuple[Step, ...]
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    levels: tuple[Level, ...]
    """Counts to be read beside the bars."""
    rate: tuple[Step, ...]
    """Failures a row; empty where no room was given to it."""
    expected_rate: tuple[Step, ...]
    rate_levels: tuple[Level, ...]
    floors: tuple[float, ...]
    """Where the rate is zero, and the counts are."""
    first: datetime
    end: datetime
    points: tuple[Point, ...]
    """What the bars show, for the table beside it."""
    length: timedelta
    """Of one bar."""


def chart(
    points: Sequence[Point],
    length: timedelta,
    height: int,
    hot: Sequence[tuple[datetime, datetime | None]] = (),
    spans: Sequence[tuple[str, datetime, datetime]] = (),
    marks: Sequence[tuple[datetime, str]] = (),
    head: int = 0,
    rate: int = 0,
) -> Chart | None:
    """Lay the points out.

    Args:
        points: oldest first; slices without data may be missing.
        length: of one slice.
        height: of the drawing, in pixels.
        hot: from when until when (None: to the end) failures are those of incidents.
        spans: (kind, from, to) to be shaded.
        marks: moments to be marked, with a word each.
        head: pixels to leave free above everything.
        rate: pixels of the height that are for the rate.

    Returns:
        None without points.
    """
    if not points:
        return None
    shown, length = _together(points, length)
    first, end = shown[0].start, shown[-1].start + length
    whole = end - first
    top = max(1.0, *(max(float(p.observed), p.expected) for p in shown))

    def across(at: datetime) -> float:
        return round(100 * min(max((at - first) / whole, 0.0), 1.0), 3)

    above = head + rate + (_BETWEEN if rate else 0)

    def down(count: float) -> float:
        return round(above + (height - above) * (1 - count / top), 1)

    shares = [p.observed / p.rows if p.rows else 0.0 for p in shown]
    usual = [p.expected / p.rows if p.rows else 0.0 for p in shown]
    highest = min(max(*shares, *usual, 1e-4), 1.0) if shown else 1.0

    def rate_down(share: float) -> float:
        return round(head + rate * (1 - min(share, highest) / highest), 1)

    def stairs(levels: Sequence[float]) -> tuple[Step, ...]:
        """One level a point, joined where points are neighbours."""
        steps: list[Step] = []
        for point, level in zip(shown, levels, strict=True):
            x, x2 = across(point.start), across(point.start + length)
            if steps and abs(steps[-1].x2 - x) < 0.01:
                steps.append(Step(x, steps[-1].y2, x, level))
            steps.append(Step(x, level, x2, level))
        return tuple(steps)

    bars: list[Bar] = []
    for point in shown:
        x, x2 = across(point.start), across(point.start + length)
        burning = any(a <= point.start and (b is None or point.start < b) for a, b in hot)
        gap = (x2 - x) * 0.14
        y = down(point.observed)
        bars.append(
            Bar(round(x + gap / 2, 3), round(x2 - x - gap, 3), y, round(height - y, 1), burning,
                _told(point, length))
        )  # fmt: skip
    return Chart(
        height=height,
        bars=tuple(bars),
        expected=stairs([down(p.expected) for p in shown]),
        spans=tuple(
            Span(kind, across(a), round(across(b) - across(a), 3))
            for kind, a, b in spans
            if across(b) > across(a)
        ),
        marks=tuple(Mark(across(at), at, word) for at, word in marks if first <= at <= end),
        ticks=tuple(Mark(across(at), at, _clock(at)) for at in _hours(first, end)),
        levels=tuple(Level(down(count), number(count)) for count in _round_counts(top)),
        rate=stairs([rate_down(share) for share in shares]) if rate else (),
        expected_rate=stairs([rate_down(share) for share in usual]) if rate else (),
        rate_levels=tuple(
            Level(rate_down(share / 1e4), percent(share / 1e4))
            for share in _round_counts(highest * 1e4)[-1:]
        )
        if rate
        else (),
        floors=(head + rate, height) if rate else (height,),
        first=first,
        end=end,
        points=tuple(shown),
        length=length,
    )


def _clock(at: datetime) -> str:
    return f"{at:%H:%M}" if at.hour or at.minute else f"{at:%d %b}"


def _told(point: Point, length: timedelta) -> str:
    end = point.start + length
    rate = f", {percent(point.observed / point.rows)} of {number(point.rows)}" if point.rows else ""
    return (
        f"{point.start:%Y-%m-%d %H:%M}–{end:%H:%M} UTC: {number(point.observed)} failed{rate}, "
        f"{number(point.expected)} expected"
    )


def _together(points: Sequence[Point], length: timedelta) -> tuple[list[Point], timedelta]:
    """Neighbours added up until there are few enough to see."""
    span = round((points[-1].start - points[0].start) / length) + 1
    size = -(-span // _MOST_BARS)
    if size == 1:
        return list(points), length
    sums: dict[int, Point] = {}
    for point in points:
        place = round((point.start - points[0].start) / length) // size
        old = sums.get(place)
        start = points[0].start + place * size * length
        sums[place] = Point(
            start,
            point.rows + (old.rows if old else 0),
            point.observed + (old.observed if old else 0),
            point.expected + (old.expected if old else 0.0),
        )
    return list(sums.values()), size * length


def _hours(first: datetime, end: datetime) -> list[datetime]:
    """A few full hours in between."""
    hours = (end - first) / timedelta(hours=1)
    step = next((s for s in _HOUR_STEPS if hours / s <= _TICKS + 1), _HOUR_STEPS[-1])
    while hours / step > 2 * _TICKS:
        step *= 2
    midnight = first.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    count = int((end - midnight) / timedelta(hours=step)) + 1
    moments = (midnight + n * timedelta(hours=step) for n in range(count))
    edge = (end - first) * 0.04  # a label at the very rim would be cut off
    return [at for at in moments if first + edge <= at <= end - edge]


def _round_counts(top: float) -> list[float]:
    """One or two counts to write beside the bars."""
    unit = 1.0
    while unit * 10 <= top:
        unit *= 10
    step = next(unit * f for f in (5, 2, 1) if unit * f <= top)
    return [step] if step * 2 > top else [step, step * 2]

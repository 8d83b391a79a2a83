"""What the page Explore says, worked out before it is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from monitor.edge.console.charts import Chart, chart
from monitor.edge.exploring import Answer, Condition, Count, Question

_HEIGHT, _HEAD, _RATE = 290, 20, 100


@dataclass(frozen=True, slots=True)
class Row:
    """One value in a table."""

    value: str
    count: Count
    href: str
    """The same question within this value."""
    seen: float
    """Length of its bars, in per cent of the table's longest."""
    expected: float


@dataclass(frozen=True, slots=True)
class Table:
    """One attribute."""

    attribute: str
    is_code: bool
    rows: tuple[Row, ...]
    more: int


def address(question: Question, **changes: object) -> str:
    """Of the page with this question; `changes` replace its parts."""
    conditions = changes.get("conditions", question.conditions)
    assert isinstance(conditions, tuple)
    first, end = (changes.get(n, getattr(question, n)) for n in ("first", "end"))
    assert isinstance(first, datetime)
    assert isinstance(end, datetime)
    asked = [("outcome", changes.get("outcome", question.outcome))]
    asked += [("where", f"{name}={value}") for name, value in conditions]
    asked += [("from", _minute(first)), ("to", _minute(end))]
    return "/explore?" + urlencode(asked)


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M}Z"


def course(answer: Answer, hot: Sequence[tuple[datetime, datetime | None]]) -> Chart | None:
    """Rate and count with the expected."""
    points = list(answer.points)
    return chart(points, answer.length, _HEIGHT, hot=hot, head=_HEAD, rate=_RATE)


def tables(question: Question, answer: Answer) -> list[Table]:
    """Values by excess, each a link into itself."""
    found = []
    for breakdown in answer.breakdowns:
        rates = [
            max(c.rate or 0.0, c.expected_rate or 0.0) if not breakdown.is_code else c.observed
            for _, c in breakdown.values
        ]
        top = max(rates, default=0.0) or 1.0
        rows = []
        for value, count in breakdown.values:
            seen = count.observed if breakdown.is_code else count.rate or 0.0
            usual = count.expected if breakdown.is_code else count.expected_rate or 0.0
            here: Condition = (breakdown.attribute, value)
            href = address(question, conditions=(*question.conditions, here))
            rows.append(
                Row(value, count, href, *(round(100 * min(s / top, 1), 1) for s in (seen, usual)))
            )
        found.append(Table(breakdown.attribute, breakdown.is_code, tuple(rows), breakdown.more))
    return found


def ranges(question: Question, newest: datetime, kept: datetime) -> Mapping[str, str]:
    """Words → address of the same question for another time."""
    words = {"6 hours": 6, "24 hours": 24, "7 days": 168, "30 days": 720}
    out = {
        f"last {name}": address(
            question, first=max(newest - timedelta(hours=hours), kept), end=newest
        )
        for name, hours in words.items()
    }
    half = (question.end - question.first) / 2
    out["zoom out"] = address(
        question, first=max(question.first - half, kept), end=min(question.end + half, newest)
    )
    return out

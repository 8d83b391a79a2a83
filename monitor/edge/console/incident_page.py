"""What the page of one incident says, worked out before it is drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from monitor.domain import Incident, Method, State
from monitor.edge.console.charts import Chart, chart
from monitor.edge.console.explore_page import address
from monitor.edge.exploring import Question
from monitor.edge.status import Status
from monitor.exhibits import Example, Exhibit

if TYPE_CHECKING:
    from monitor.edge.console import Story


_HEAD, _RATE = 30, 90
"""Pixels for two lines of words above the drawing, and for the rate."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The first screen in numbers."""

    excess: float
    """Failures beyond the expected."""
    factor: float | None
    """Failures as a multiple of the expected; None where nothing was expected."""
    lasted: timedelta
    """From the first slice of the excess to now, or to the end."""
    going_on: bool
    beside: str
    """What the counts are held against, for the reader."""


def facts(incident: Incident, status: Status) -> Facts:
    """How badly, for how long."""
    finding = incident.finding
    now = status.diagnosis.at if status.diagnosis else incident.updated_at
    end = incident.resolved_at or max(now, incident.last_seen_at)
    over = incident.state is State.RESOLVED or incident.latest.ended
    last = incident.last_seen_at if over else end
    return Facts(
        excess=max(finding.observed - finding.expected, 0.0),
        factor=finding.observed / finding.expected if finding.expected > 0 else None,
        lasted=max(last - finding.began, timedelta(0)),
        going_on=not over,
        beside="expected" if finding.method is Method.EXCESS else "the day before",
    )


def course(
    story: Story, slice_length: timedelta, window: timedelta, height: int, near: bool
) -> Chart | None:
    """Observed against expected over time, with what was compared with what.

    Args:
        story: of the incident.
        slice_length: of one point.
        window: T.
        height: of the drawing, in pixels.
        near: only the incident, with half as much time before and after.
    """
    incident, finding = story.incident, story.incident.finding
    end = story.exhibit.at if story.exhibit else incident.updated_at
    judged = (end - finding.horizon, end)
    marks: list[tuple[datetime, str]] = [(incident.opened_at, "reported")]
    if incident.resolved_at:
        marks.append((incident.resolved_at, "resolved"))
    over = incident.last_seen_at if incident.resolved_at or incident.latest.ended else None
    now_began = incident.opened_at - window
    points = story.course
    if near:
        last = over or max([p.start for p in points], default=incident.last_seen_at)
        room = max((last - finding.began) / 2, 4 * slice_length)
        points = [p for p in points if finding.began - room <= p.start < last + room]
    return chart(
        points,
        slice_length,
        height,
        hot=[(finding.began, over)],
        spans=(("reference", now_began - window, now_began), ("judged", *judged)),
        marks=marks,
        head=_HEAD,
        rate=_RATE,
    )


def explored(incident: Incident, near: timedelta) -> str:
    """Address of the same rows on the page Explore, from `near` before it began to its end."""
    finding = incident.finding
    one = [(name, values[0]) for name, values in finding.cause.selector if len(values) == 1]
    question = Question(finding.outcome, tuple(one), finding.began - near, incident.last_seen_at)
    return address(question)


def examples(
    exhibit: Exhibit | None, allowed: Sequence[str] | None
) -> tuple[tuple[str, ...], list[tuple[tuple[str, ...], Example]]]:
    """Columns and rows to show: what was kept, as far as it may still be shown.

    Args:
        exhibit: None of an older release.
        allowed: columns that the configuration names today; None: it is not known here.
    """
    if exhibit is None:
        return (), []
    places = [i for i, c in enumerate(exhibit.columns) if allowed is None or c in allowed]
    columns = tuple(exhibit.columns[i] for i in places)
    if not columns:
        return (), []
    return columns, [(tuple(e.values[i] for i in places), e) for e in exhibit.examples]


def runbook(status: Status, outcome: str) -> str | None:
    """The address of the runbook of an outcome, if there is one."""
    pattern = status.config.console.runbook_url if status.config else None
    return pattern and pattern.replace("{outcome}", quote(outcome, safe=""))


def matching(incident: Incident) -> Iterator[str]:
    """Matchers that hold for the incident, and for its like."""
    yield f'outcome="{incident.finding.outcome}"'
    for name, values in incident.finding.cause.selector:
        if len(values) == 1:
            yield f'{name}="{values[0]}"'
        else:
            yield f'{name}=~"{"|".join(map(re.escape, values))}"'

"""Incidents of one outage: what has the same or a nested cause at the same time is one story.

A story has the id of its first incident and keeps it. It is over when none of its incidents goes
on, and only then people hear of their ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from monitor.domain import Cause, Change, Incident, Notification, State


def related(one: Cause, other: Cause) -> bool:
    """True when one contains the other; everything contains nothing but itself.

    >>> related(Cause.of(carrier="LH"), Cause.of(carrier="LH", source="GDS-1A"))
    True
    >>> related(Cause.of(carrier="LH"), Cause.of())
    False
    """
    if not one.selector or not other.selector:
        return one == other
    return one == other or one.narrows(other) or other.narrows(one)


def joined(incident: Incident, known: Iterable[Incident]) -> Incident:
    """The new incident in the story that it is part of, the oldest of several.

    Args:
        incident: of this tick.
        known: before it, each in a story already.
    """
    of_it = (
        other
        for other in known
        if other.finding.method is incident.finding.method
        and (other.state is not State.RESOLVED or incident.finding.began < other.last_seen_at)
        and any(
            related(incident.finding.cause, cause)
            for cause in (other.finding.cause, other.latest.cause)
        )
    )
    first = min(of_it, key=lambda other: other.opened_at, default=None)
    return incident if first is None else replace(incident, part_of=first.story)


def ends(incidents: Sequence[Incident], at: datetime) -> tuple[list[Incident], list[Notification]]:
    """The incidents, and the ends that are news: those of stories of which nothing goes on."""
    going_on = {i.story for i in incidents if i.state is not State.RESOLVED}
    stories = {i.id: i.story for i in incidents}
    kept, news = [], []
    for incident in incidents:
        if incident.story_goes_on and incident.story not in going_on:
            incident = replace(incident, story_goes_on=False)
            elsewhere = stories.get(incident.merged_into or "", incident.story) != incident.story
            change = Change.MERGED if elsewhere else Change.RESOLVED
            news.append(Notification(incident, change, at))
        kept.append(incident)
    return kept, news

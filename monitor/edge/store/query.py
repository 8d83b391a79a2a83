"""Which incidents are asked for; the same question for every store, and for a daemon."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from monitor.domain import Incident, Severity, State


@dataclass(frozen=True, slots=True)
class IncidentQuery:
    """What is left out does not matter."""

    state: State | None = None
    unresolved: bool = False
    """Only those that are not resolved."""
    since: datetime | None = None
    """Opened, or still unresolved, at or after this time."""
    until: datetime | None = None
    """Opened before this time."""
    outcome: str | None = None
    method: str | None = None
    """By which it was judged."""
    severity: Severity | None = None
    story: str | None = None
    """Id of a story's first incident: all that are part of it."""
    text: str | None = None
    """Words, each of which has to occur (`mentions`)."""
    limit: int | None = None
    """At most so many, the newest."""
    after: tuple[datetime, str] | None = None
    """Continue behind the incident that opened then and has this id, or had it (paging)."""

    @property
    def words(self) -> list[str]:
        """Of the text."""
        return (self.text or "").split()

    def accepts(self, incident: Incident) -> bool:
        """Whether it is among them, however many there may be."""
        opened, resolved = incident.opened_at, incident.resolved_at
        since, after = self.since, self.after
        return (
            (self.state is None or incident.state is self.state)
            and not (self.unresolved and incident.state is State.RESOLVED)
            and (since is None or opened >= since or (resolved or since) >= since)
            and (self.until is None or opened < self.until)
            and self.outcome in (None, incident.finding.outcome)
            and self.method in (None, incident.finding.method.value)
            and (self.severity is None or incident.severity is self.severity)
            and self.story in (None, incident.story)
            and (after is None or (opened, incident.id) < after)
            and mentions(incident, self.words)
        )


EVERY_INCIDENT = IncidentQuery()


def worst_first(incidents: Iterable[Incident]) -> list[Incident]:
    """As lists for people have them: what is not over, then by severity, then the newest.

    The incidents of a story stand together, where the first of them does.
    """
    order = sorted(
        sorted(incidents, key=lambda i: (i.opened_at, i.id), reverse=True),
        key=lambda i: (i.state is State.RESOLVED, -i.severity.rank),
    )
    place = {story: n for n, story in enumerate(dict.fromkeys(i.story for i in order))}
    return sorted(order, key=lambda i: place[i.story])


def mentions(incident: Incident, words: Iterable[str]) -> bool:
    """True when every word occurs in what the incident is about, whatever the case.

    That is its id, outcome, causes, path and error codes; `attribute=value` may be a word.
    """
    finding = incident.finding
    causes = [f"{n}={v}" for c in incident.causes for n, values in c.selector for v in values]
    about = (incident.id, finding.outcome, *causes, *finding.path, *finding.codes)
    text = "\n".join(about).casefold()
    return all(word.casefold() in text for word in words)

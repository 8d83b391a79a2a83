"""What is known beside an incident: its like in the past, and what was new just before it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from monitor.domain import Incident, State
from monitor.edge.store import IncidentNotFoundError, IncidentQuery, Store, Verdict
from monitor.edge.wording import ago
from monitor.exhibits import Exhibit
from monitor.stories import related

VERDICTS = {
    Verdict.TRUE: "a true incident",
    Verdict.FALSE: "a false alarm",
    Verdict.EXPECTED: "true, but expected",
}

_TIMES = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_LONGEST_NOTE = 200


@dataclass(frozen=True, slots=True)
class Before:
    """That an incident's cause was seen before."""

    incidents: tuple[Incident, ...]
    """The newest first."""
    verdict: Verdict | None
    """The newest that was given."""
    note: str
    """What somebody wrote last; may be empty."""

    def told(self, now: datetime) -> str:
        """In one sentence."""
        count, first = len(self.incidents), self.incidents[-1]
        times = _TIMES[count - 1] if count <= len(_TIMES) else f"{count + 1}th"
        span = ago(first.opened_at, now).removesuffix(" ago")
        parts = [f"{times} time in {span}", f"last {ago(self.incidents[0].last_seen_at, now)}"]
        if self.verdict is not None:
            parts.append(f"judged {VERDICTS[self.verdict]}")
        if self.note:
            cut = self.note[:_LONGEST_NOTE] + ("…" if len(self.note) > _LONGEST_NOTE else "")
            parts.append(f"note: {cut}")
        return ", ".join(parts)


def seen_before(
    store: Store, incident: Incident, waiting: Iterable[Incident] = ()
) -> Before | None:
    """Earlier incidents of the same outcome with the same or a nested cause, of other stories.

    Args:
        store: as far back as it keeps incidents.
        incident: of now.
        waiting: known, but perhaps not in the store yet.

    Raises:
        StoreError: the store failed.
    """
    finding = incident.finding
    asked = IncidentQuery(
        until=incident.opened_at, outcome=finding.outcome, method=finding.method.value
    )
    known = {i.id: i for i in (*store.incidents(asked), *filter(asked.accepts, waiting))}
    like = [
        i
        for i in known.values()
        if i.story != incident.story
        and i.merged_into is None
        and related(i.finding.cause, finding.cause)
    ]
    if not like:
        return None
    like.sort(key=lambda i: (i.opened_at, i.id), reverse=True)
    labels, note = store.labels(), ""
    for one in like:
        with suppress(IncidentNotFoundError):  # not in the store yet
            note = note or next((a.note for a in reversed(store.audit(one.id)) if a.note), "")
    return Before(tuple(like), next((labels[i.id] for i in like if i.id in labels), None), note)


def symptoms(incident: Incident, known: Iterable[Incident]) -> str:
    """The outcomes that fail in its story."""
    names = [
        i.finding.outcome
        for i in known
        if i.story == incident.story and i.state is not State.RESOLVED
    ]
    return ", ".join(dict.fromkeys(names))


def new_before(exhibit: Exhibit) -> str:
    """Values and links that were new when it began; empty when none was."""
    values = [value.node for value in exhibit.new_values]
    links = [f"{link.source} → {link.target}" for link in exhibit.new_links]
    return "; ".join(
        f"new {what}: {', '.join(names)}"
        for what, names in (("values", values), ("links", links))
        if names
    )

"""What a change makes of a stored incident or silence; the same in every store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from monitor.domain import Change, Incident, Notification, State
from monitor.edge import documents
from monitor.edge.silences import Silence
from monitor.edge.store.errors import (
    ChangedError,
    ConflictError,
    IncidentNotFoundError,
    SilenceNotFoundError,
)
from monitor.edge.store.work import Seen


def merge(stored: Incident | None, incoming: Incident) -> tuple[Incident, tuple[str, ...]]:
    """What to write for `incoming`, and what has changed, for the audit.

    The monitor does not see operators at work: an acknowledgement in the store is newer than
    the monitor's "open" and stays.
    """
    if stored is None:
        return incoming, ("opened", *_ending(incoming))
    kinds: tuple[str, ...] = ()
    if stored.state is State.ACKNOWLEDGED and incoming.state is State.OPEN:
        incoming = replace(incoming, state=State.ACKNOWLEDGED)
    if stored.state is State.RESOLVED and incoming.state is not State.RESOLVED:
        kinds += ("reopened",)
    if len(incoming.worsened_at) > len(stored.worsened_at):
        kinds += ("worsened",)
    if incoming.severity.rank > stored.severity.rank:
        kinds += (f"severity_{incoming.severity.value}",)
    if len(incoming.causes) > len(stored.causes):
        kinds += ("refined",)
    if stored.state is not State.RESOLVED:
        kinds += _ending(incoming)
    return incoming, kinds


def _ending(incident: Incident) -> tuple[str, ...]:
    if incident.state is not State.RESOLVED:
        return ()
    return (f"merged_into_{incident.merged_into}" if incident.merged_into else "resolved",)


def history(
    stored: Incident | None, incoming: Incident, news: Sequence[Notification]
) -> tuple[Incident, list[tuple[datetime, str]]]:
    """What to write for `incoming`, and its new entries in the audit: when, and what.

    Args:
        stored: as it was; None if it is new.
        incoming: as the monitor has it.
        news: what is told of it, in order. Over a backlog one commit holds a whole life, of which
            the two ends alone say too little.
    """
    incident, kinds = merge(stored, incoming)
    if not news or (stored is not None and len(news) == 1):
        return incident, [
            (incident.opened_at if kind == "opened" else incident.updated_at, kind)
            for kind in kinds
        ]
    told = [entry for n in news for entry in _told(n)]
    said = {kind for _, kind in told}
    silent = ("reopened", "severity_", "resolved", "merged_into_")
    others = [kind for kind in kinds if kind.startswith(silent) and kind not in said]
    return incident, [*told, *((incident.updated_at, kind) for kind in others)]


def _told(news: Notification) -> list[tuple[datetime, str]]:
    match news.change:
        case Change.RESOLVED | Change.MERGED:  # perhaps told later, with the whole story
            at = news.incident.resolved_at or news.at
            return [(at, kind) for kind in _ending(news.incident)]
        case Change.REGRESSED:
            return [(news.at, "reopened")]
    return [(news.at, news.change.value)]


def acknowledged(stored: Incident) -> Incident:
    """The incident after an operator took it on; unchanged if that was so already."""
    if stored.state is State.RESOLVED:
        raise ConflictError(f"incident {stored.id} is already resolved; label it instead")
    return replace(stored, state=State.ACKNOWLEDGED)


def unchanged(seen: Seen | None, incident: Incident, entries: int) -> None:
    """To be asked in the transaction of a change.

    Raises:
        ChangedError: it is not as `seen`.
    """
    # As documents: a NaN is not equal to itself.
    if seen is not None and (
        entries != seen.entries
        or documents.incident_document(incident) != documents.incident_document(seen.incident)
    ):
        raise ChangedError(f"incident {incident.id} has changed meanwhile; look at it again")


def only_silence(prefix: str, found: Sequence[Silence]) -> Silence:
    """The one silence of `found`.

    Raises:
        SilenceNotFoundError: there is none, or several.
    """
    if len(found) != 1:
        what = "is short for several silences" if found else "is no silence"
        raise SilenceNotFoundError(f"{prefix!r} {what}; `least-monitor silence list` lists them")
    return found[0]


def expired(silence: Silence, at: datetime, actor: str) -> Silence:
    """The silence, ended.

    Raises:
        ConflictError: it has ended already.
    """
    if silence.ends_at <= at:
        raise ConflictError(f"silence {silence.id} has ended already")
    return replace(silence, ends_at=at, expired_by=actor)


def only(prefix: str, found: list[str]) -> str:
    """The one id that starts with `prefix`.

    Raises:
        IncidentNotFoundError: none does, or several do.
    """
    if not found:
        raise IncidentNotFoundError(f"no incident {prefix!r}; `least-monitor incidents` lists them")
    if len(found) > 1:
        raise IncidentNotFoundError(
            f"{prefix!r} is short for several incidents: {', '.join(found[:5])}"
        )
    return found[0]

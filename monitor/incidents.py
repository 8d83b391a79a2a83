"""Findings → incident changes: one incident per outcome and cause, told once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from monitor.domain import (
    Change,
    Finding,
    Incident,
    IncidentSettings,
    Notification,
    Severity,
    State,
)
from monitor.stories import ends, joined, related


def identity(finding: Finding, at: datetime) -> str:
    """A fingerprint that only depends on what failed, why, and when it was first seen."""
    text = f"{finding.method.value}|{finding.outcome}|{finding.cause}|{at.isoformat()}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


LATER_SHARE = 0.5
"""Of the score told that suffices for a new word, narrower or wider, to be told instead."""
_HIGH_RATE_SHARE = 0.1
"""Of the failures of a severity; so many suffice where most rows fail."""


def severity(finding: Finding, settings: IncidentSettings) -> Severity:
    """How much a finding hurts: by the failures beyond the expected, or by the share failing.

    A high share alone is not enough: five bookings that all fail are no catastrophe.
    """
    excess = finding.observed - finding.expected
    for level, failures, rate in (
        (Severity.CRITICAL, settings.critical_failures, settings.critical_rate),
        (Severity.WARNING, settings.warning_failures, settings.warning_rate),
    ):
        if excess >= failures or (
            finding.rate_now >= rate and excess >= _HIGH_RATE_SHARE * failures
        ):
            return level
    return Severity.INFO


def track(
    known: Iterable[Incident],
    findings: Iterable[Finding],
    at: datetime,
    settings: IncidentSettings,
    *,
    gap: bool = False,
    memory: timedelta = timedelta(hours=24),
) -> tuple[tuple[Incident, ...], tuple[Notification, ...]]:
    """Fold a tick's findings into the incidents.

    Args:
        known: incidents that are open, or resolved less than `memory` ago.
        findings: of one tick, every method and outcome.
        at: end of the newest slice.
        settings: hysteresis.
        gap: the newest slice is missing; nothing is resolved on no data.
        memory: how long a resolved incident still claims its cause's old rows.

    Returns:
        The incidents to remember from now on, and the changes that are news.
    """
    incidents = list(known)
    news: list[Notification] = []
    seen: set[str] = set()
    for finding in sorted(findings, key=lambda f: -f.score):
        index = _belongs(finding, incidents, seen)
        if index is None:
            if finding.ended or not finding.fresh:
                continue
            incident = Incident(
                identity(finding, at), State.OPEN, at, at, at, finding, finding,
                told_excess=finding.observed - finding.expected, causes=(finding.cause,),
                severity=severity(finding, settings), told_per_hour=_per_hour(finding),
            )  # fmt: skip
            incidents.append(joined(incident, incidents))
            news.append(Notification(incidents[-1], Change.OPENED, at))
            seen.add(incident.id)
            continue
        incident = incidents[index]
        seen.add(incident.id)
        if incident.state is State.RESOLVED:
            if finding.ended or not finding.fresh or finding.began < incident.last_seen_at:
                continue
            incidents[index] = _reopened(incident, finding, at, settings)
            if not incident.story_goes_on:  # else nobody has heard that it was over
                news.append(Notification(incidents[index], Change.REGRESSED, at))
            continue
        if finding.ended:
            continue
        incidents[index], change = _update(incident, finding, at, settings)
        if change is not Change.UNCHANGED:
            news.append(Notification(incidents[index], change, at))
    if not gap:
        _age(incidents, at, settings)
    incidents, over = ends(incidents, at)
    kept = tuple(
        i
        for i in incidents
        if i.resolved_at is None or at - i.resolved_at < memory or i.story_goes_on
    )
    return kept, (*news, *over)


def _reopened(
    incident: Incident, finding: Finding, at: datetime, settings: IncidentSettings
) -> Incident:
    """The same trouble is back within the memory: it goes on."""
    back = replace(
        incident,
        state=State.OPEN,
        resolved_at=None,
        story_goes_on=False,
        severity=severity(finding, settings),
        told_excess=finding.observed - finding.expected,
        told_per_hour=_per_hour(finding),
    )
    back, _ = _update(back, finding, at, settings)
    return replace(back, worsened_at=tuple(dict.fromkeys((*back.worsened_at, at))))


def _age(incidents: list[Incident], at: datetime, settings: IncidentSettings) -> None:
    """What the tick did not see: one tick nearer its end, or part of what was seen."""
    for index, incident in enumerate(incidents):
        if incident.state is State.RESOLVED or incident.last_seen_at == at:
            continue
        heir = _heir(incident, incidents, at)
        if heir is not None:
            incidents[index] = replace(
                incident,
                state=State.RESOLVED,
                resolved_at=at,
                updated_at=at,
                merged_into=incidents[heir].id,
                story_goes_on=True,
            )
            more = (c for c in incident.causes if c not in incidents[heir].causes)
            incidents[heir] = replace(incidents[heir], causes=(*incidents[heir].causes, *more))
            continue
        # Ticks are counted, not hours: a gap in the data proves nothing.
        incidents[index] = replace(incident, quiet_ticks=incident.quiet_ticks + 1)
        if incidents[index].quiet_ticks >= settings.resolve_after:
            incidents[index] = replace(
                incidents[index],
                state=State.RESOLVED,
                resolved_at=at,
                updated_at=at,
                story_goes_on=True,
            )


def _heir(incident: Incident, incidents: list[Incident], at: datetime) -> int | None:
    """The incident, seen in this tick, that tells of the same more generally or exactly."""
    heirs = [
        (index, other)
        for index, other in enumerate(incidents)
        if other.last_seen_at == at
        and other.state is not State.RESOLVED
        and other.finding.outcome == incident.finding.outcome
        and other.finding.method == incident.finding.method
        and _nested(other.latest, incident)
    ]
    return max(heirs, key=lambda pair: pair[1].latest.score, default=(None, None))[0]


def _belongs(finding: Finding, incidents: list[Incident], seen: set[str]) -> int | None:
    """The incident that this finding continues.

    Same outcome and method, and the same cause or one nested in it.
    """
    same = [
        (index, incident)
        for index, incident in enumerate(incidents)
        if incident.finding.outcome == finding.outcome
        and incident.finding.method == finding.method
        and incident.merged_into is None  # its causes are its heir's now
    ]
    for exact in (True, False):
        for index, incident in sorted(same, key=lambda pair: pair[1].state is State.RESOLVED):
            if exact and finding.cause in incident.causes:
                return index
            if not exact and incident.id not in seen and _nested(finding, incident):
                return index
    return None


def _nested(finding: Finding, incident: Incident) -> bool:
    mine, its = finding.cause, incident.latest.cause
    return mine != its and related(mine, its)


def _update(
    incident: Incident, finding: Finding, at: datetime, settings: IncidentSettings
) -> tuple[Incident, Change]:
    change = Change.UNCHANGED
    top = finding if _names(finding, incident) else incident.finding
    causes = incident.causes
    if finding.cause not in causes:
        causes = (*causes, finding.cause)
    if top.cause != incident.finding.cause:
        change = Change.REFINED
    worsened, told = incident.worsened_at, incident.told_excess
    excess = finding.observed - finding.expected
    hurts = max(incident.severity, severity(finding, settings), key=lambda s: s.rank)
    if finding.fresh and hurts is not incident.severity:
        change = Change.WORSENED
    pace = incident.told_per_hour
    if finding.fresh and excess >= settings.worsen_factor * max(told, 1.0):
        worsened, told = (*worsened, at), excess
        # What merely lasts adds up in longer and longer horizons, and is no news: the severity
        # tells when the sum matters.
        if _per_hour(finding) >= settings.worsen_factor * pace:
            change, pace = Change.WORSENED, _per_hour(finding)
    return (
        replace(
            incident,
            updated_at=at,
            last_seen_at=at,
            finding=top,
            latest=finding,
            worsened_at=worsened,
            told_excess=told,
            causes=causes,
            severity=hurts,
            quiet_ticks=0,
            told_per_hour=pace,
        ),
        change,
    )


def _names(finding: Finding, incident: Incident) -> bool:
    """True when a finding says better what failed than what was told so far.

    That is the more evident one. A new word on the same trouble rests on all that has happened
    since, though by then it may have become less evident: half the evidence suffices. A word that
    is older than what is told needs twice as much, so that names do not swap back and forth.
    """
    told, cause, seen = incident.finding, finding.cause, incident.causes
    if cause == told.cause:
        return finding.score > told.score
    if cause in seen and seen.index(cause) < seen.index(told.cause):
        return LATER_SHARE * finding.score > told.score
    later = cause.narrows(told.cause) or told.cause.narrows(cause)
    return finding.score > (LATER_SHARE if later else 1.0) * told.score


def _per_hour(finding: Finding) -> float:
    return (finding.observed - finding.expected) / (finding.horizon / timedelta(hours=1))

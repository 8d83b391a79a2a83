"""Nouns ↔ JSON documents: the one place that knows how an incident looks on paper.

Store, webhook, HTTP interface and command line all use these forms. Keys are sorted and
numbers are written in their shortest exact form, so equal nouns give equal bytes. Times are
ISO-8601 in UTC with ``Z``; durations carry ``_seconds``; a number that JSON cannot hold
(infinity, NaN) is written as the string ``"inf"``, ``"-inf"`` or ``"nan"``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from monitor.domain import (
    Cause,
    Change,
    Diagnosis,
    Edge,
    Finding,
    Incident,
    Method,
    Misfit,
    Notification,
    OutcomeCount,
    Severity,
    State,
)

if TYPE_CHECKING:
    from monitor.edge.silences import Silence
    from monitor.edge.store import Audit, Verdict

NOTIFICATION_VERSION = 1
"""Version of the notification document; grows when a field changes its meaning or goes."""

Document = dict[str, Any]


def dumps(document: object) -> bytes:
    """JSON with sorted keys: equal documents give equal bytes.

    >>> dumps({"b": 1, "a": 0.1})
    b'{"a":0.1,"b":1}'
    """
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def loads(text: bytes | str) -> Any:
    """Inverse of `dumps`."""
    return orjson.loads(text)


def time_text(at: datetime) -> str:
    """ISO-8601 in UTC; the fraction only where there is one.

    >>> time_text(datetime(2013, 4, 16, 17, 30, tzinfo=UTC))
    '2013-04-16T17:30:00Z'
    """
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def time_from(text: str) -> datetime:
    """Inverse of `time_text`."""
    return datetime.fromisoformat(text).astimezone(UTC)


def _maybe_time(at: datetime | None) -> str | None:
    return None if at is None else time_text(at)


def _number(value: float) -> float | str:
    number = float(value)
    return number if math.isfinite(number) else str(number)


def finding_document(finding: Finding) -> Document:
    """The document of a finding."""
    return {
        "method": finding.method.value,
        "outcome": finding.outcome,
        "cause": finding.cause.to_json(),
        "path": list(finding.path),
        "score": _number(finding.score),
        "p_value": _number(finding.p_value),
        "q_value": _number(finding.q_value),
        "observed": _number(finding.observed),
        "expected": _number(finding.expected),
        "rows": int(finding.rows),
        "horizon_seconds": finding.horizon.total_seconds(),
        "began": time_text(finding.began),
        "rate_before": _number(finding.rate_before),
        "rate_now": _number(finding.rate_now),
        "ended": bool(finding.ended),
        "fresh": bool(finding.fresh),
        "chain": [cause.to_json() for cause in finding.chain],
        "codes": list(finding.codes),
        "runners_up": [
            {"cause": cause.to_json(), "score": _number(score)}
            for cause, score in finding.runners_up
        ],
    }


def finding_from(document: Mapping[str, Any]) -> Finding:
    """Inverse of `finding_document`.

    Raises:
        KeyError, ValueError: the document is not one of ours.
    """
    return Finding(
        method=Method(document["method"]),
        outcome=document["outcome"],
        cause=Cause.from_json(document["cause"]),
        path=tuple(document["path"]),
        score=float(document["score"]),
        p_value=float(document["p_value"]),
        q_value=float(document["q_value"]),
        observed=float(document["observed"]),
        expected=float(document["expected"]),
        rows=document["rows"],
        horizon=timedelta(seconds=document["horizon_seconds"]),
        began=time_from(document["began"]),
        rate_before=float(document["rate_before"]),
        rate_now=float(document["rate_now"]),
        ended=document["ended"],
        fresh=document.get("fresh", True),  # not in documents of the first days
        chain=tuple(Cause.from_json(cause) for cause in document["chain"]),
        codes=tuple(document["codes"]),
        runners_up=tuple(
            (Cause.from_json(r["cause"]), float(r["score"])) for r in document["runners_up"]
        ),
    )


def incident_document(incident: Incident) -> Document:
    """The whole incident, as it is stored and served."""
    return {
        "id": incident.id,
        "state": incident.state.value,
        "opened_at": time_text(incident.opened_at),
        "updated_at": time_text(incident.updated_at),
        "last_seen_at": time_text(incident.last_seen_at),
        "resolved_at": _maybe_time(incident.resolved_at),
        "worsened_at": [time_text(at) for at in incident.worsened_at],
        "told_excess": _number(incident.told_excess),
        "causes": [cause.to_json() for cause in incident.causes],
        "severity": incident.severity.value,
        "quiet_ticks": incident.quiet_ticks,
        "merged_into": incident.merged_into,
        "story": incident.story,
        "story_goes_on": incident.story_goes_on,
        "told_per_hour": _number(incident.told_per_hour),
        "finding": finding_document(incident.finding),
        "latest": finding_document(incident.latest),
    }


def incident_from(document: Mapping[str, Any]) -> Incident:
    """Inverse of `incident_document`."""
    resolved = document["resolved_at"]
    return Incident(
        id=document["id"],
        state=State(document["state"]),
        opened_at=time_from(document["opened_at"]),
        updated_at=time_from(document["updated_at"]),
        last_seen_at=time_from(document["last_seen_at"]),
        resolved_at=None if resolved is None else time_from(resolved),
        worsened_at=tuple(time_from(at) for at in document["worsened_at"]),
        told_excess=float(document.get("told_excess", 0.0)),
        causes=tuple(Cause.from_json(cause) for cause in document["causes"]),
        # Not in documents of the first days.
        severity=Severity(document.get("severity", "info")),
        quiet_ticks=document.get("quiet_ticks", 0),
        merged_into=document.get("merged_into"),
        part_of=_other(document.get("story"), document["id"]),
        story_goes_on=document.get("story_goes_on", False),
        told_per_hour=float(document.get("told_per_hour", 0.0)),
        finding=finding_from(document["finding"]),
        latest=finding_from(document["latest"]),
    )


def _other(story: str | None, incident: str) -> str | None:
    return None if story == incident else story


def incident_history(
    incident: Incident, history: Iterable[Audit], label: Verdict | None
) -> Document:
    """The incident with everything that happened to it, for operators and their programs."""
    return incident_document(incident) | {
        "label": None if label is None else label.value,
        "audit": [
            {"at": time_text(a.at), "kind": a.kind, "actor": a.actor, "note": a.note}
            for a in history
        ],
    }


def incident_summary(incident: Incident) -> Document:
    """The flat form that a backtest reports: the incident at its highest score."""
    finding = incident.finding
    return {
        "id": incident.id,
        "method": finding.method.value,
        "outcome": finding.outcome,
        "cause": finding.cause.to_json(),
        "path": list(finding.path),
        "severity": incident.severity.value,
        "opened_at": time_text(incident.opened_at),
        "worsened_at": [time_text(at) for at in incident.worsened_at],
        "resolved_at": _maybe_time(incident.resolved_at),
        "score": _number(finding.score),
        "q_value": _number(finding.q_value),
        "observed": _number(finding.observed),
        "expected": _number(finding.expected),
        "rate_before": _number(finding.rate_before),
        "rate_now": _number(finding.rate_now),
    }


def notification_document(notification: Notification, link: str | None = None) -> Document:
    """What a webhook receives: the change, the incident, and where to look at it."""
    return {
        "version": NOTIFICATION_VERSION,
        "story": notification.incident.story,
        "change": notification.change.value,
        "at": time_text(notification.at),
        "link": link,
        "incident": incident_document(notification.incident),
    } | ({"context": dict(notification.context)} if notification.context else {})


def notification_from(document: Mapping[str, Any]) -> Notification:
    """Inverse of `notification_document`, without the link."""
    return Notification(
        incident=incident_from(document["incident"]),
        change=Change(document["change"]),
        at=time_from(document["at"]),
        context=tuple(document.get("context", {}).items()),
    )


def silence_document(silence: Silence, now: datetime) -> Document:
    """A silence, and how it stands."""
    state = "active" if silence.active(now) else "pending" if now < silence.starts_at else "expired"
    return {
        "id": silence.id,
        "state": state,
        "match": [str(matcher) for matcher in silence.matchers],
        "starts_at": time_text(silence.starts_at),
        "ends_at": time_text(silence.ends_at),
        "created_at": time_text(silence.created_at),
        "actor": silence.actor,
        "note": silence.note,
        "expired_by": silence.expired_by,
        "fault": silence.fault,
    }


def diagnosis_document(diagnosis: Diagnosis) -> Document:
    """The newest tick, as it is kept for `graph` and served under ``/api/v1``."""
    return {
        "at": time_text(diagnosis.at),
        "rows": int(diagnosis.rows),
        "clean_rows": int(diagnosis.clean_rows),
        "outcomes": [
            {"outcome": o.outcome, "observed": int(o.observed), "expected": _number(o.expected)}
            for o in diagnosis.outcomes
        ],
        "learning": bool(diagnosis.learning),
        "gap": bool(diagnosis.gap),
        "fit_status": diagnosis.fit_status,
        "fit_steps": int(diagnosis.fit_steps),
        "delta": _number(diagnosis.delta),
        "nodes": int(diagnosis.nodes),
        "rare_nodes": int(diagnosis.rare_nodes),
        "edges": [
            {"source": e.source, "target": e.target, "weight": _number(e.weight)}
            for e in diagnosis.edges
        ],
        "edges_added": int(diagnosis.edges_added),
        "edges_removed": int(diagnosis.edges_removed),
        "paths_truncated": bool(diagnosis.paths_truncated),
        "findings": [finding_document(finding) for finding in diagnosis.findings],
        "unexplained": {k: _number(v) for k, v in diagnosis.unexplained.items()},
        "seconds": {k: _number(v) for k, v in diagnosis.seconds.items()},
        "learning_outcomes": list(diagnosis.learning_outcomes),
        "misfits": [
            {"kind": m.kind, "subject": m.subject, "text": m.text} for m in diagnosis.misfits
        ],
    }


def diagnosis_from(document: Mapping[str, Any]) -> Diagnosis:
    """Inverse of `diagnosis_document`."""
    return Diagnosis(
        at=time_from(document["at"]),
        rows=document["rows"],
        clean_rows=document["clean_rows"],
        outcomes=tuple(
            OutcomeCount(o["outcome"], o["observed"], float(o["expected"]))
            for o in document["outcomes"]
        ),
        learning=document["learning"],
        gap=document["gap"],
        fit_status=document["fit_status"],
        fit_steps=document["fit_steps"],
        delta=float(document["delta"]),
        nodes=document["nodes"],
        rare_nodes=document["rare_nodes"],
        edges=tuple(Edge(e["source"], e["target"], float(e["weight"])) for e in document["edges"]),
        edges_added=document["edges_added"],
        edges_removed=document["edges_removed"],
        paths_truncated=document["paths_truncated"],
        findings=tuple(finding_from(finding) for finding in document["findings"]),
        unexplained={k: float(v) for k, v in document["unexplained"].items()},
        seconds={k: float(v) for k, v in document["seconds"].items()},
        learning_outcomes=tuple(document.get("learning_outcomes", ())),
        misfits=tuple(Misfit(**misfit) for misfit in document.get("misfits", ())),
    )

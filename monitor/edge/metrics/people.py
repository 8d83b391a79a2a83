"""What operators deal with, as Prometheus families: incidents, verdicts, silences, messages."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from monitor.domain import Incident, Severity, State
from monitor.edge.metrics.shapes import labelled, single

if TYPE_CHECKING:
    from monitor.edge.metrics.families import Snapshot


STATES = ("open", "acknowledged", "silenced", "maintenance")


def incident_families(snapshot: Snapshot, top: int) -> Iterator[Metric]:
    """Counts of all, and series of their own for the `top` worst incidents."""
    if snapshot.incidents is not None:
        states = Tally(_state(incident, snapshot.hushed) for incident in snapshot.incidents)
        severities = Tally(incident.severity for incident in snapshot.incidents)
        yield labelled(
            "incidents",
            "Incidents that are not resolved: `open`, or nobody is to be told of them any more.",
            ["state"],
            [([state], states[state]) for state in STATES],
        )
        yield labelled(
            "unresolved_incidents",
            "Incidents that are not resolved, by severity.",
            ["severity"],
            [([severity.value], severities[severity]) for severity in Severity],
        )
        yield from _each(snapshot.incidents[:top])
    if snapshot.labels is not None:
        yield labelled(
            "labels",
            "Incidents by the operators' last verdict on them.",
            ["verdict"],
            [([verdict], count) for verdict, count in snapshot.labels.items()],
        )
        judged = snapshot.labels["true"] + snapshot.labels["false"]
        if judged:
            yield single(
                "precision_ratio",
                "Share of the judged incidents that were true; expected ones are left out.",
                snapshot.labels["true"] / judged,
            )
    if snapshot.silences is not None:
        yield single(
            "silences", "Silences and maintenance windows that hold now.", snapshot.silences
        )
    if snapshot.outbox is not None:
        yield labelled(
            "outbox_notifications",
            "Notifications that wait for their next attempt, are held back or were given up.",
            ["notifier", "status"],
            [(list(key), count) for key, count in sorted(snapshot.outbox.items())],
        )


def _state(incident: Incident, hushed: Mapping[str, str]) -> str:
    """What an operator has taken on is that, silenced or not."""
    if incident.state is State.OPEN and incident.id in hushed:
        return hushed[incident.id]
    return str(incident.state.value)


def _each(incidents: Sequence[Incident]) -> Iterator[Metric]:
    # Ids, never causes: whatever stands in the log must not become a label.
    keys = [[incident.id, incident.finding.outcome] for incident in incidents]
    columns: dict[str, tuple[str, Callable[[Incident], float]]] = {
        "incident_opened_timestamp_seconds": (
            "When an unresolved incident was opened; the worst ones only.",
            lambda i: i.opened_at.timestamp(),
        ),
        "incident_excess_errors": (
            "Failures beyond the expected when it was last seen.",
            lambda i: i.latest.observed - i.latest.expected,
        ),
        "incident_error_ratio": (
            "Share of its cause's rows failing when it was last seen.",
            lambda i: i.latest.rate_now,
        ),
        "incident_severity": ("0 info, 1 warning, 2 critical.", lambda i: i.severity.rank),
    }
    for name, (text, value) in columns.items():
        rows = [(key, value(i)) for key, i in zip(keys, incidents, strict=True)]
        yield labelled(name, text, ["incident", "outcome"], rows)

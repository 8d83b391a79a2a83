"""Incident changes as alerts of Prometheus' Alertmanager, API version 2.

An alert is known by its labels, so they and ``startsAt`` stay the same for the life of an
incident; what becomes better known (cause, path, counts) stands in annotations. Alertmanager
forgets an alert whose ``endsAt`` passes, so open ones are posted again every minute with an end
a few minutes away: if this process dies, they resolve by themselves. A resolution is posted for
a while, in case an Alertmanager of a cluster was away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from monitor.domain import Change, Incident, Notification, State
from monitor.edge import documents
from monitor.edge.notifiers import DeliveryError
from monitor.edge.notifiers.message import one_line
from monitor.edge.notifiers.templates import Wording
from monitor.edge.notifiers.webhook import post
from monitor.edge.posting import Poster

HOLD = timedelta(minutes=5)
"""An open alert ends this long after it was last posted."""

REPEAT_RESOLVED = timedelta(minutes=15)
"""A resolution is posted again for this long."""

_INSTANT = timedelta(seconds=1)


class AlertmanagerNotifier:
    """Posts to one or several Alertmanagers of a cluster.

    Args:
        urls: each as in ``http://alertmanager:9093``; all are told, as Prometheus does it.
        labels: added to every alert, for routing.
        timeout: of one attempt at one of them.
        console_url: where people reach the console; for the link.
        runbook_url: what to do, for the annotation.
        name: for the outbox.
        now: the clock.
        user: sign in by HTTP Basic.
        password: of the user.
        token: bearer, instead of user and password.
        wording: the operators' own words.
    """

    states_only = True

    def __init__(
        self,
        urls: Sequence[str],
        labels: Mapping[str, str] | None = None,
        timeout: timedelta = timedelta(seconds=10),
        console_url: str | None = None,
        runbook_url: str | None = None,
        name: str = "alertmanager",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        wording: Wording | None = None,
    ) -> None:
        self.name = name
        self.every = timedelta(minutes=1)
        self._urls = [f"{url.rstrip('/')}/api/v2/alerts" for url in urls]
        self._labels = dict(labels or {})
        self._wording = wording or Wording(console_url=console_url)
        self._runbook_url = runbook_url
        self._now = now
        self._resolved: dict[str, tuple[datetime, dict[str, Any]]] = {}
        """Incident → when its resolution was first posted, and the alert."""
        bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._poster = Poster(
            timeout,
            {"Content-Type": "application/json", **bearer},
            None if user is None else (user, password or ""),
        )

    def send(self, notification: Notification) -> None:
        """See `Notifier`. Arrives when one of the Alertmanagers has it: they tell each other."""
        self.send_together((notification,))

    def send_together(self, notifications: Sequence[Notification]) -> None:
        """See `Bundling`. Alertmanager groups by itself; this saves it requests."""
        now = self._now()
        alerts = [
            self._alert(
                n.incident, n.change, now, now if n.incident.state is State.RESOLVED else now + HOLD
            )
            for n in notifications
        ]
        self._post(alerts)
        for notification, alert in zip(notifications, alerts, strict=True):
            if notification.incident.state is State.RESOLVED:
                self._resolved[notification.incident.id] = (now, alert)
            else:
                self._resolved.pop(notification.incident.id, None)

    def refresh(self, incidents: Sequence[Incident]) -> None:
        """See `Refreshing`."""
        now = self._now()
        self._resolved = {
            key: (at, alert)
            for key, (at, alert) in self._resolved.items()
            if abs(now - at) < REPEAT_RESOLVED  # the clock may be set back
        }
        # What is over while its story goes on still burns: the story ends as a whole.
        alerts = [
            self._alert(incident, Change.UNCHANGED, now, now + HOLD) for incident in incidents
        ]
        alerts += [alert for _, alert in self._resolved.values()]
        if alerts:
            self._post(alerts)

    def close(self) -> None:
        """See `Notifier`: nothing stays open between messages."""

    def _alert(
        self, incident: Incident, change: Change, now: datetime, ends: datetime
    ) -> dict[str, Any]:
        finding = incident.finding
        told = Notification(incident, change, now)
        link = self._wording.link(incident)
        annotations = {
            "summary": self._wording.title((told,)),
            "description": self._wording.text((told,)),
            "severity": incident.severity.value,
            "state": incident.state.value,
            "cause": one_line(str(finding.cause)),
            "path": one_line(" → ".join(finding.path)),
            "runbook_url": self._runbook_url,
        }
        alert: dict[str, Any] = {
            "labels": {
                **self._labels,
                "alertname": "RootCauseIncident",
                "incident": incident.id,
                "story": incident.story,
                "outcome": one_line(finding.outcome),
            },
            "annotations": {name: text for name, text in annotations.items() if text},
            "startsAt": documents.time_text(incident.opened_at),
            # Event time may run ahead of this clock; an end before the start is refused.
            "endsAt": documents.time_text(max(ends, incident.opened_at + _INSTANT)),
        }
        if link is not None:
            alert["generatorURL"] = link
        return alert

    def _post(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        body = documents.dumps(alerts)
        failures: list[DeliveryError] = []
        for url in self._urls:
            try:
                post(self._poster, url, body, {}, self._now)
            except DeliveryError as error:
                failures.append(error)
        if len(failures) == len(self._urls):
            pauses = [e.retry_after for e in failures if e.retry_after is not None]
            raise DeliveryError(
                "; ".join(map(str, failures)),
                permanent=all(e.permanent for e in failures),
                retry_after=max(pauses, default=None),
            )

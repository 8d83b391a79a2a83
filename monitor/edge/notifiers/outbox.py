"""Takes notifications out of the store and makes sure they arrive.

A tick writes its notifications in its own transaction, so they outlive a crash; this worker
sends them afterwards, at least once and in order for each incident and notifier. What is sent,
and in how many messages, `bundling` decides.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import structlog

from monitor.config import Route
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers import Bundling, Collapsing, DeliveryError, Notifier, Refreshing
from monitor.edge.notifiers.bundling import Bundle, Quiet, never_quiet, plan, within
from monitor.edge.silences import Silencer
from monitor.edge.store import OutboxItem, Store, StoreError

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(hours=1)
_HOUR = timedelta(hours=1)
MOST_ATTEMPTS = 30
"""About 21 hours with the pauses above; then the notification is parked."""

_log = structlog.get_logger("outbox")


def pause_after(attempts: int) -> timedelta:
    """Pause after so many failed attempts: doubling, bounded, the same every time.

    >>> [pause_after(n).seconds for n in (1, 2, 3, 20)]
    [5, 10, 20, 3600]
    """
    return min(FIRST_PAUSE * (1 << min(attempts - 1, 20)), LONGEST_PAUSE)


class Outbox:
    """Delivers what is due.

    Args:
        store: where notifications wait.
        notifiers: the ways out, by their names.
        metrics: counts the attempts; None counts nothing.
        now: the clock.
        interval: between two looks at the store, unless `wake` is called.
        routes: notifier → what it wants and how much of it; others get every change.
        quiet: silences and maintenance.
    """

    def __init__(
        self,
        store: Store,
        notifiers: Sequence[Notifier],
        metrics: Metrics | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        interval: timedelta = timedelta(seconds=1),
        routes: Mapping[str, Route] | None = None,
        quiet: Quiet = never_quiet,
    ) -> None:
        self._store = store
        self._notifiers = {notifier.name: notifier for notifier in notifiers}
        assert len(self._notifiers) == len(notifiers), "two notifiers of one name"
        self._metrics = metrics
        self._now = now
        self._interval = interval.total_seconds()
        self._woken = threading.Event()
        self._refreshed: dict[str, datetime] = {}
        self._routes = routes or {}
        self._quiet = quiet
        self._sent_at: dict[str, deque[datetime]] = {}
        """Of the last hour; forgotten in a restart."""
        self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """For `Work.notifiers`."""
        return tuple(self._notifiers)

    def deliver(self) -> int:
        """Send everything that is due; returns how many notifications arrived.

        After a temporary failure the notifier rests until the next call, so that a dead
        receiver costs one timeout a round and does not hold up the others.

        Raises:
            LeadershipLostError: another process sends now.
            StoreError: the store failed. What was sent but not yet marked will be sent again.
        """
        arrived = 0
        resting: set[str] = set()
        while not self._stopping:
            waiting: dict[str, list[OutboxItem]] = {}
            for item in self._store.due(self._now()):
                if item.notifier not in resting:
                    waiting.setdefault(item.notifier, []).append(item)
            if not waiting:
                break
            for name, items in waiting.items():
                sent, rests = self._deliver(name, items)
                arrived += sent
                if rests:
                    resting.add(name)
        if self._metrics is not None:
            self._metrics.outbox(
                {
                    (count.notifier, count.status): count.count
                    for count in self._store.outbox()
                    if count.status in ("pending", "parked")
                }
            )
            if isinstance(self._quiet, Silencer):
                self._metrics.silenced(self._quiet.count(self._now()))
        return arrived

    def _deliver(self, name: str, items: Sequence[OutboxItem]) -> tuple[int, bool]:
        """Deal with all that is due of one notifier: how much arrived, and must it rest."""
        notifier, now = self._notifiers.get(name), self._now()
        if notifier is None:
            for item in items:
                reason = f"no notifier {name!r} is configured any more"
                self._store.failed(item, reason, None)
                self._count(name, "parked")
            return 0, False
        route = self._routes.get(name, Route())
        if not isinstance(notifier, Bundling):
            route = replace(route, group_by="none")
        made = plan(
            items,
            route,
            self._store.fates(name, {item.notification.incident.id for item in items}),
            now,
            self._quiet,
            collapses=isinstance(notifier, Collapsing),
            states_only=isinstance(notifier, Collapsing) and notifier.states_only,
        )
        for skipped, reason in made.skipped:
            self._store.skipped(skipped, reason)
            self._count(name, "skipped", len(skipped))
        for held, reason, until in made.held:
            self._store.held(held, reason, until)
        return self._send(notifier, self._limited(name, made.bundles, route, now), now)

    def _limited(
        self, name: str, bundles: list[Bundle], route: Route, now: datetime
    ) -> list[Bundle]:
        """What may be sent now; the rest waits, and is told as one message where that can be."""
        if route.most_per_hour is None or not bundles:
            return bundles
        sent = self._sent_at.setdefault(name, deque())
        while sent and not timedelta(0) <= now - sent[0] < _HOUR:  # or the clock was set back
            sent.popleft()
        together = isinstance(self._notifiers[name], Bundling)
        allowed = route.most_per_hour - len(sent)
        chosen, left = within(bundles, allowed, together) if allowed > 0 else ([], len(bundles))
        if left:
            until = (sent[0] if sent else now) + _HOUR
            reason = f"more than {route.most_per_hour} messages in an hour"
            waiting = [item for bundle in bundles[len(bundles) - left :] for item in bundle.items]
            self._store.held(waiting, reason, until)
            self._count(name, "held", len(waiting))
        return chosen

    def _send(
        self, notifier: Notifier, bundles: Sequence[Bundle], now: datetime
    ) -> tuple[int, bool]:
        arrived = 0
        for bundle in bundles:
            if self._stopping:
                return arrived, True
            # Since the last look another process may have taken over, and this one have slept.
            self._store.confirm_lease()
            try:
                if isinstance(notifier, Bundling) and len(bundle.notifications) > 1:
                    notifier.send_together(bundle.notifications)
                else:
                    for notification in bundle.notifications:
                        notifier.send(notification)
            except DeliveryError as error:
                if self._failed(bundle, error):
                    return arrived, True
                continue
            self._sent_at.setdefault(notifier.name, deque()).append(now)
            self._store.sent(*bundle.items)
            self._count(notifier.name, "sent")
            arrived += len(bundle.items)
        return arrived, False

    def _failed(self, bundle: Bundle, error: DeliveryError) -> bool:
        """Note it; True when it will be tried again."""
        attempts = max(item.attempts for item in bundle.items) + 1
        name = bundle.items[0].notifier
        facts = {
            "notifier": name,
            "incidents": [n.incident.id for n in bundle.notifications],
            "attempts": attempts,
            "error": str(error),
        }
        hopeless = error.permanent or attempts >= MOST_ATTEMPTS
        pause = max(pause_after(attempts), error.retry_after or timedelta(0))
        for item in bundle.items:
            self._store.failed(item, str(error), None if hopeless else self._now() + pause)
        self._count(name, "parked" if hopeless else "retried")
        if hopeless:
            _log.error("notification given up", **facts)
        else:
            _log.warning("notification delayed", seconds=pause.total_seconds(), **facts)
        return not hopeless

    def _count(self, notifier: str, result: str, times: int = 1) -> None:
        if self._metrics is not None:
            self._metrics.notified(notifier, result, times)

    def refresh(self) -> None:
        """Tell forgetful receivers again what still holds, each as often as it needs.

        Raises:
            StoreError: the store failed.
        """
        now = self._now()
        for name, notifier in self._notifiers.items():
            if not isinstance(notifier, Refreshing):
                continue
            last = self._refreshed.get(name)
            # A clock that is set back must not let the receiver forget what still burns.
            if last is not None and timedelta(0) <= now - last < notifier.every:
                continue
            self._refreshed[name] = now
            self._store.confirm_lease()
            try:
                notifier.refresh(self._store.told(name))
            except DeliveryError as error:
                _log.warning("cannot refresh", notifier=name, error=str(error))
                self._count(name, "refresh_failed")

    def start(self) -> None:
        """Deliver in a thread of its own until `stop`."""
        assert self._thread is None, "already started"
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """A tick has committed notifications: look now."""
        self._woken.set()

    @property
    def alive(self) -> bool:
        """False when the worker was started and has died of a bug."""
        return self._thread is None or self._thread.is_alive()

    def stop(self, timeout: timedelta = timedelta(seconds=15)) -> None:
        """End after the attempt at hand; what is left stays in the store."""
        self._stopping = True
        self._woken.set()
        self._refreshed.clear()
        if self._thread is not None:
            self._thread.join(timeout.total_seconds())
            self._thread = None

    def _run(self) -> None:
        while not self._stopping:
            try:
                self.deliver()
                self.refresh()
            except StoreError as error:
                _log.error("outbox cannot reach the store", error=str(error))
            self._woken.wait(self._interval)
            self._woken.clear()

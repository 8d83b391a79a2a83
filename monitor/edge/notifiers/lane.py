"""One notifier's way out: what is due of it, in order, with its limits and its pauses.

Nothing here is shared with other notifiers, so what a receiver does costs only its own deliveries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from monitor.config import Route
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers import Bundling, Collapsing, DeliveryError, Notifier, Refreshing
from monitor.edge.notifiers.bundling import Bundle, Quiet, never_quiet, plan, within
from monitor.edge.notifiers.pace import Pace
from monitor.edge.store import OutboxItem, Store

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


class Lane:
    """Delivers through one notifier.

    Args:
        store: where notifications wait.
        notifier: the way out.
        metrics: counts the attempts; None counts nothing.
        now: the clock.
        route: what it wants and how much of it.
        quiet: silences and maintenance.
        pace: whether the log is being caught up with.
    """

    def __init__(
        self,
        store: Store,
        notifier: Notifier,
        metrics: Metrics | None,
        now: Callable[[], datetime],
        route: Route,
        quiet: Quiet = never_quiet,
        pace: Pace | None = None,
    ) -> None:
        self.name = notifier.name
        self._store, self._notifier, self._metrics = store, notifier, metrics
        self._now, self._quiet = now, quiet
        self._pace = Pace() if pace is None else pace
        self._route = route if isinstance(notifier, Bundling) else replace(route, group_by="none")
        self._sent_at: deque[datetime] = deque()
        """Of the last hour; forgotten in a restart."""
        self._asked_to_rest: tuple[datetime, datetime] | None = None
        """When, and until when."""
        self._refreshed: datetime | None = None

    def deliver(self, stopping: Callable[[], bool]) -> int:
        """Send all that is due; returns how many notifications arrived.

        After a temporary failure the rest waits until the next call, so that a dead receiver
        costs one timeout a round; after one that asked for a pause, until that is over.

        Raises:
            LeadershipLostError: another process sends now.
            StoreError: the store failed. What was sent but not yet marked will be sent again.
        """
        arrived, rests = 0, False
        while not (rests or stopping() or self._resting() or self._pace.is_behind(self._now())):
            items = self._store.due(self._now(), notifier=self.name)
            if not items:
                break
            sent, rests = self._deliver(items, stopping)
            arrived += sent
        return arrived

    def _resting(self) -> bool:
        """Whether the receiver has asked for a pause that is not over."""
        if self._asked_to_rest is None:
            return False
        began, until = self._asked_to_rest
        # A clock that is set back must not prolong it.
        return began <= self._now() < until

    def _deliver(
        self, items: Sequence[OutboxItem], stopping: Callable[[], bool]
    ) -> tuple[int, bool]:
        """How much arrived, and must the rest wait."""
        now = self._now()
        made = plan(
            items,
            self._route,
            self._store.fates(self.name, {item.notification.incident.id for item in items}),
            now,
            self._quiet,
            collapses=isinstance(self._notifier, Collapsing),
            states_only=isinstance(self._notifier, Collapsing) and self._notifier.states_only,
            past=self._pace.caught_up_at,
        )
        for skipped, reason in made.skipped:
            self._store.skipped(skipped, reason)
            self._count("skipped", len(skipped))
        for held, reason, until in made.held:
            self._store.held(held, reason, until)
        return self._send(self._limited(made.bundles, now), now, stopping)

    def _limited(self, bundles: list[Bundle], now: datetime) -> list[Bundle]:
        """What may be sent now; the rest waits, and is told as one message where that can be."""
        most, sent = self._route.most_per_hour, self._sent_at
        if most is None or not bundles:
            return bundles
        while sent and not timedelta(0) <= now - sent[0] < _HOUR:  # or the clock was set back
            sent.popleft()
        allowed = most - len(sent)
        together = isinstance(self._notifier, Bundling)
        chosen, left = within(bundles, allowed, together) if allowed > 0 else ([], len(bundles))
        if left:
            until = (sent[0] if sent else now) + _HOUR
            reason = f"more than {most} messages in an hour"
            waiting = [item for bundle in bundles[len(bundles) - left :] for item in bundle.items]
            self._store.held(waiting, reason, until)
            self._count("held", len(waiting))
        return chosen

    def _send(
        self, bundles: Sequence[Bundle], now: datetime, stopping: Callable[[], bool]
    ) -> tuple[int, bool]:
        arrived, notifier = 0, self._notifier
        for bundle in bundles:
            if stopping():
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
            self._sent_at.append(now)
            self._store.sent(*bundle.items)
            self._count("sent")
            arrived += len(bundle.items)
        return arrived, False

    def _failed(self, bundle: Bundle, error: DeliveryError) -> bool:
        """Note it; True when it will be tried again."""
        attempts = max(item.attempts for item in bundle.items) + 1
        facts = {
            "notifier": self.name,
            "incidents": [n.incident.id for n in bundle.notifications],
            "attempts": attempts,
            "error": str(error),
        }
        hopeless = error.permanent or attempts >= MOST_ATTEMPTS
        pause = max(pause_after(attempts), error.retry_after or timedelta(0))
        if error.retry_after is not None and not hopeless:
            self._asked_to_rest = (self._now(), self._now() + error.retry_after)
        for item in bundle.items:
            self._store.failed(item, str(error), None if hopeless else self._now() + pause)
        self._count("parked" if hopeless else "retried")
        if hopeless:
            _log.error("notification given up", **facts)
        else:
            _log.warning("notification delayed", seconds=pause.total_seconds(), **facts)
        return not hopeless

    def refresh(self) -> None:
        """Tell a forgetful receiver again what still holds, as often as it needs.

        Raises:
            StoreError: the store failed.
        """
        notifier, now, last = self._notifier, self._now(), self._refreshed
        if not isinstance(notifier, Refreshing) or self._resting():
            return
        # A clock that is set back must not let the receiver forget what still burns.
        if last is not None and timedelta(0) <= now - last < notifier.every:
            return
        self._refreshed = now
        self._store.confirm_lease()
        try:
            notifier.refresh(self._store.told(self.name))
        except DeliveryError as error:
            _log.warning("cannot refresh", notifier=self.name, error=str(error))
            self._count("refresh_failed")

    def forget_refresh(self) -> None:
        """Another process may have told since: refresh at once."""
        self._refreshed = None

    def _count(self, result: str, times: int = 1) -> None:
        if self._metrics is not None:
            self._metrics.notified(self.name, result, times)

"""Takes notifications out of the store and makes sure they arrive.

A tick writes its notifications in its own transaction, so they outlive a crash; this worker
sends them afterwards, at least once and in order for each incident and notifier.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from monitor.edge.metrics import Metrics
from monitor.edge.notifiers import DeliveryError, Notifier, Refreshing
from monitor.edge.store import OutboxItem, Store, StoreError

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(hours=1)
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
    """

    def __init__(
        self,
        store: Store,
        notifiers: Sequence[Notifier],
        metrics: Metrics | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        interval: timedelta = timedelta(seconds=1),
    ) -> None:
        self._store = store
        self._notifiers = {notifier.name: notifier for notifier in notifiers}
        assert len(self._notifiers) == len(notifiers), "two notifiers of one name"
        self._metrics = metrics
        self._now = now
        self._interval = interval.total_seconds()
        self._woken = threading.Event()
        self._next_refresh: dict[str, datetime] = {}
        self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """For `Work.notifiers`."""
        return tuple(self._notifiers)

    def deliver(self) -> int:
        """Send everything that is due; returns how many arrived.

        After a temporary failure the notifier rests until the next call, so that a dead
        receiver costs one timeout a round and does not hold up the others.

        Raises:
            StoreError: the store failed. What was sent but not yet marked will be sent again.
        """
        arrived = 0
        resting: set[str] = set()
        while True:
            batch = [i for i in self._store.due(self._now()) if i.notifier not in resting]
            if not batch:
                break
            for item in batch:
                if item.notifier in resting or self._stopping:
                    continue
                result = self._attempt(item)
                arrived += result == "sent"
                if result == "retried":
                    resting.add(item.notifier)
                if self._metrics is not None:
                    self._metrics.notified(item.notifier, result)
            if self._stopping:
                break
        if self._metrics is not None:
            self._metrics.outbox(
                {
                    (count.notifier, count.status): count.count
                    for count in self._store.outbox()
                    if count.status != "sent"
                }
            )
        return arrived

    def _attempt(self, item: OutboxItem) -> str:
        notifier = self._notifiers.get(item.notifier)
        if notifier is None:
            reason = f"no notifier {item.notifier!r} is configured any more"
            self._store.failed(item, reason, None)
            return "parked"
        try:
            notifier.send(item.notification)
        except DeliveryError as error:
            return self._failed(item, error)
        self._store.sent(item)
        return "sent"

    def _failed(self, item: OutboxItem, error: DeliveryError) -> str:
        attempts = item.attempts + 1
        facts = {
            "notifier": item.notifier,
            "incident": item.notification.incident.id,
            "attempts": attempts,
            "error": str(error),
        }
        if error.permanent or attempts >= MOST_ATTEMPTS:
            self._store.failed(item, str(error), None)
            _log.error("notification given up", **facts)
            return "parked"
        pause = max(pause_after(attempts), error.retry_after or timedelta(0))
        self._store.failed(item, str(error), self._now() + pause)
        _log.warning("notification delayed", seconds=pause.total_seconds(), **facts)
        return "retried"

    def refresh(self) -> None:
        """Tell forgetful receivers again what still holds, each as often as it needs.

        Raises:
            StoreError: the store failed.
        """
        now = self._now()
        for name, notifier in self._notifiers.items():
            if not isinstance(notifier, Refreshing) or now < self._next_refresh.get(name, now):
                continue
            self._next_refresh[name] = now + notifier.every
            try:
                notifier.refresh(self._store.told(name))
            except DeliveryError as error:
                _log.warning("cannot refresh", notifier=name, error=str(error))
                if self._metrics is not None:
                    self._metrics.notified(name, "refresh_failed")

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

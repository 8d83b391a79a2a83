"""Takes notifications out of the store and makes sure they arrive.

A tick writes its notifications in its own transaction, so they outlive a crash; they are sent
afterwards, at least once and in order for each incident and notifier. Every notifier has a lane and
a thread of its own: one that is slow or dead holds up nobody else. What is sent, and in how many
messages, `bundling` decides.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from monitor.config import Route
from monitor.domain import Incident
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers import Notifier
from monitor.edge.notifiers.bundling import Quiet, never_quiet
from monitor.edge.notifiers.lane import Lane
from monitor.edge.notifiers.pace import Pace
from monitor.edge.silences import Silencer
from monitor.edge.store import Store, StoreError

_log = structlog.get_logger("outbox")


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

    Attributes:
        pace: told by whoever reads the log; while it is being caught up with nothing is sent.
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
        self._store, self._metrics, self._now, self._quiet = store, metrics, now, quiet
        self.pace = Pace()
        self._lanes = {
            one.name: Lane(
                store, one, metrics, now, (routes or {}).get(one.name, Route()), quiet, self.pace
            )
            for one in notifiers
        }
        assert len(self._lanes) == len(notifiers), "two notifiers of one name"
        self._interval = interval.total_seconds()
        self._stop = threading.Event()
        self._woken: list[threading.Event] = []
        self._threads: list[threading.Thread] = []
        self._store_trouble = ""

    @property
    def names(self) -> tuple[str, ...]:
        """For `Work.notifiers`."""
        return tuple(self._lanes)

    def deliver(self) -> int:
        """Send everything that is due; returns how many notifications arrived.

        Raises:
            LeadershipLostError, StoreError: see `Lane.deliver`.
        """
        arrived = sum(lane.deliver(self._stop.is_set) for lane in self._lanes.values())
        self._keep_house()
        return arrived

    def refresh(self) -> None:
        """Tell forgetful receivers again what still holds.

        Raises:
            StoreError: the store failed.
        """
        for lane in self._lanes.values():
            lane.refresh()

    def hushed(self, incidents: Iterable[Incident]) -> dict[str, str]:
        """Incident → why nobody is told of it now: ``silenced`` or ``maintenance``."""
        if not isinstance(self._quiet, Silencer):
            return {}
        now = self._now()
        found = {i.id: self._quiet.hush(i, now) for i in incidents}
        return {name: hush.kind for name, hush in found.items() if hush is not None}

    def _keep_house(self) -> None:
        """What concerns all of them: what is for nobody any more, and the figures."""
        now = self._now()
        for count in self._store.outbox():
            if count.status in ("pending", "held") and count.notifier not in self._lanes:
                self._park(count.notifier, now)
        if self._metrics is None:
            return
        self._metrics.outbox(
            {
                (count.notifier, count.status): count.count
                for count in self._store.outbox()
                if count.status in ("pending", "held", "parked")
            }
        )
        if isinstance(self._quiet, Silencer):
            self._metrics.silenced(self._quiet.count(now))

    def _park(self, name: str, now: datetime) -> None:
        while items := self._store.due(now, notifier=name):
            for item in items:
                self._store.failed(item, f"no notifier {name!r} is configured any more", None)
                if self._metrics is not None:
                    self._metrics.notified(name, "parked")

    def start(self) -> None:
        """Deliver in threads of our own until `stop`."""
        assert not self._threads, "already started"
        self._stop = threading.Event()
        works = [self._work_of(lane) for lane in self._lanes.values()]
        for name, work in zip((*self._lanes, "house"), (*works, self._keep_house), strict=True):
            woken = threading.Event()
            arguments = (work, woken, self._stop)
            thread = threading.Thread(
                target=self._run, args=arguments, name=f"outbox {name}", daemon=True
            )
            self._woken.append(woken)
            self._threads.append(thread)
        for thread in self._threads:
            thread.start()

    def _work_of(self, lane: Lane) -> Callable[[], None]:
        stop = self._stop

        def work() -> None:
            lane.deliver(stop.is_set)
            lane.refresh()

        return work

    def wake(self) -> None:
        """A tick has committed notifications: look now."""
        for woken in self._woken:
            woken.set()

    @property
    def alive(self) -> bool:
        """False when a worker was started and has died of a bug."""
        return all(thread.is_alive() for thread in self._threads)

    def stop(self, timeout: timedelta = timedelta(seconds=15)) -> None:
        """End after the attempts at hand; what is left stays in the store."""
        self._stop.set()
        self.wake()
        deadline = time.monotonic() + timeout.total_seconds()
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        self._threads, self._woken = [], []
        for lane in self._lanes.values():
            lane.forget_refresh()

    def _run(self, work: Callable[[], None], woken: threading.Event, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                work()
                self._store_trouble = ""
            except StoreError as error:
                if not self._store_trouble:  # once, not every second by every thread
                    _log.error("outbox cannot reach the store", error=str(error))
                self._store_trouble = str(error)
            woken.wait(self._interval)
            woken.clear()

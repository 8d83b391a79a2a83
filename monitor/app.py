"""The daemon: source → slices → ticks → store → people, over and over.

One thread polls the source and ticks; the outbox delivers in others; HTTP answers in one more.
APScheduler wakes the first: at every poll interval, and once a slice when its time is over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from monitor.config import Config
from monitor.edge import documents
from monitor.edge.http import serve
from monitor.edge.leadership import Leadership
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers.making import make_notifiers
from monitor.edge.reloading import RefusedError, Reloads, check_replaceable
from monitor.edge.sources import described
from monitor.edge.standby import Standby
from monitor.edge.status import LiveState, Status
from monitor.edge.store import LATEST_DIAGNOSIS, Store, StoreError, StoreFailedError
from monitor.edge.store.lease import Lease
from monitor.edge.supervisor import Supervisor
from monitor.engine import Engine, Surroundings

STORE_PAUSE_SECONDS = 2.0
"""Before the store is tried again when it failed at the start."""

CLOCK_SET_SECONDS = 2.0
"""A difference from steady time by which the clock was set, not only slewed."""

_log = structlog.get_logger("daemon")


@dataclass(slots=True)
class Daemon:
    """Everything that runs, wired.

    Args:
        config: checked.
        store: open.
        now: the clock.
        supervisor: told how we are.
        read: the configuration as it stands in its file now; raises `ConfigError`. None: it cannot
            be reloaded.
        reloads: who asks for that.
    """

    config: Config
    store: Store
    now: Callable[[], datetime]
    supervisor: Supervisor = field(default_factory=lambda: Supervisor({}))
    read: Callable[[], Config] | None = None
    reloads: Reloads = field(default_factory=Reloads)
    _engine: Engine | None = field(default=None, init=False)

    def run(self, stop: threading.Event, started: Callable[[str], None] = lambda url: None) -> None:
        """Work until `stop` is set; the tick at hand is finished and committed first.

        Args:
            stop: set by a signal handler or a test.
            started: told the address of the console.

        Raises:
            ServeError, StoreError: at the start; later failures are logged and tried again.
        """
        config, http = self.config, self.config.http
        metrics = Metrics()
        metrics.started(self.now())
        metrics.reloaded(self.now())
        state = LiveState(
            self.store,
            metrics,
            Status(stage="rebuilding the window", started_at=self.now()),
            self.reloads,
        )
        self._show(state)
        server = serve(state, http.host, http.port, http.token, http.public_url)
        standby = Standby(state)
        leadership = Leadership(self.store, config.store.lease, standby.heard)
        around = Surroundings(
            state,
            self.now,
            server.url,
            lambda: stop.is_set() or leadership.lost.is_set(),
            leadership.lose,
        )

        def waiting(why: Lease | StoreError) -> None:
            standby.show(why)
            self.reloads.serve(lambda: self._take(around), metrics, self.now)

        metrics.leads(False)
        try:
            make_notifiers(config, server.url)  # what cannot be used ends us now, not once we lead
            started(server.url)
            self.supervisor.watch(
                stop,
                lambda: self._in_a_line(state.status),
                lambda seconds: self._healthy(state.status, seconds),
            )
            while leadership.acquire(stop, waiting):
                metrics.leads(True)
                try:
                    self._lead(stop, leadership, around)
                except StoreFailedError as error:  # between taking the lease and the first poll
                    standby.show(error)
                    stop.wait(STORE_PAUSE_SECONDS)
                finally:
                    leadership.release()
                    metrics.leads(False)
            _log.info("stopping", reason="asked to")
        finally:
            server.stop()
            if stop.is_set():
                self.supervisor.ended()

    def _show(self, state: LiveState) -> None:
        """What pages and metrics say of the configuration."""
        config = self.config
        state.metrics.configured(
            config.settings.detection.false_alarms_per_week, config.settings.window.slice_length
        )
        state.change(
            source=described(config),
            method=config.settings.detection.report.value,
            maintenance=config.maintenance,
            config=config,
        )

    @staticmethod
    def _in_a_line(status: Status) -> str:
        at = f"; data up to {status.watermark:%Y-%m-%d %H:%M} UTC" if status.watermark else ""
        return status.problem or (f"watching{at}" if status.ready else status.reason)

    def _healthy(self, status: Status, seconds: float) -> bool:
        """As `/healthz`, and no step has hung for so long."""
        worker = self._engine.worker if self._engine is not None else None
        return not status.problem and (worker is None or worker.busy_seconds() < seconds)

    def _lead(self, stop: threading.Event, leadership: Leadership, around: Surroundings) -> None:
        """Until `stop` is set or another process leads."""
        state = around.state
        state.change(standby="", source_trouble="", stage="rebuilding the window")
        # Until the next tick people see the newest of before the restart.
        newest = self.store.state(LATEST_DIAGNOSIS)
        if newest is not None:
            diagnosis = documents.diagnosis_from(documents.loads(newest))
            state.change(diagnosis=diagnosis)
        self._engine = Engine(self.config, around)
        clock = _offset()
        try:
            self._engine.start()
            while not stop.wait(0.1) and not leadership.lost.is_set():
                moved, clock = _offset() - clock, _offset()
                if abs(moved) > CLOCK_SET_SECONDS:
                    _log.warning("the clock was set", by_seconds=round(moved, 1))
                    self._engine.clock_was_set()
                self.reloads.serve(lambda: self._take(around), state.metrics, self.now)
        finally:
            engine, self._engine = self._engine, None
            engine.close()

    def _take(self, around: Surroundings) -> None:
        """Go on under the configuration as it stands in its file now, all of it or nothing.

        Raises:
            ConfigError, RefusedError, UnusableError, StoreError: nothing has changed.
        """
        if self.read is None:
            raise RefusedError("this daemon was started without a file")
        fresh = self.read()
        check_replaceable(self.config, fresh)
        make_notifiers(fresh, around.console_url)
        running = self._engine
        if running is not None:
            running.halt()
            try:
                # From the store, as after a restart: the windows, the position, all of it.
                successor = Engine(fresh, around)
            except BaseException:
                running.start()
                raise
            running.close()
            around.state.change(source_trouble="", stage="rebuilding the window")
            self._engine = successor
            successor.start()
        self.config = fresh
        self._show(around.state)


def _offset() -> float:
    """Of the clock from steady time, in seconds; changes when the clock is set."""
    return time.time() - time.monotonic()

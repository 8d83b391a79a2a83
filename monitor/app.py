"""The daemon: source → slices → ticks → store → people, over and over.

One thread polls the source and ticks; the outbox delivers in another; HTTP answers in a third.
APScheduler wakes the first: at every poll interval, and once a slice when its time is over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import structlog
from apscheduler.schedulers.background import BackgroundScheduler

from monitor.config import Config
from monitor.edge.heartbeat import Heartbeat
from monitor.edge.http import serve
from monitor.edge.leadership import Leadership
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers.making import make_notifiers, routes
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.silences import Silencer
from monitor.edge.sources import described
from monitor.edge.standby import Standby
from monitor.edge.status import LiveState, Status
from monitor.edge.store import Store, StoreFailedError
from monitor.jobs import Worker, schedule
from monitor.pipeline import Pipeline

STORE_PAUSE_SECONDS = 2.0
"""Before the store is tried again when it failed at the start."""

_log = structlog.get_logger("daemon")


@dataclass(slots=True)
class Daemon:
    """Everything that runs, wired.

    Args:
        config: checked.
        store: open.
        now: the clock.
    """

    config: Config
    store: Store
    now: Callable[[], datetime]

    def run(self, stop: threading.Event, started: Callable[[str], None] = lambda url: None) -> None:
        """Work until `stop` is set; the tick at hand is finished and committed first.

        Args:
            stop: set by a signal handler or a test.
            started: told the address of the console.

        Raises:
            ServeError, StoreError: at the start; later failures are logged and tried again.
        """
        config, http = self.config, self.config.http
        metrics = Metrics(
            false_alarms_per_week=config.settings.detection.false_alarms_per_week,
            slice_length=config.settings.window.slice_length,
        )
        metrics.started(self.now())
        state = LiveState(
            self.store,
            metrics,
            Status(
                reason="rebuilding the window",
                source=described(config),
                started_at=self.now(),
                method=config.settings.detection.report.value,
                maintenance=config.maintenance,
            ),
        )
        server = serve(state, http.host, http.port, http.token)
        notifiers = make_notifiers(config, server.url)
        outbox = Outbox(
            self.store,
            notifiers,
            metrics,
            self.now,
            routes=routes(config),
            quiet=Silencer(self.store, config.maintenance),
        )
        leadership = Leadership(self.store)
        standby = Standby(state)
        metrics.leads(False)
        try:
            started(server.url)
            while leadership.acquire(stop, standby.show):
                metrics.leads(True)
                try:
                    self._lead(stop, leadership, state, outbox)
                except StoreFailedError as error:  # between taking the lease and the first poll
                    standby.show(error)
                    stop.wait(STORE_PAUSE_SECONDS)
                finally:
                    leadership.release()
                    metrics.leads(False)
            _log.info("stopping", reason="asked to")
        finally:
            server.stop()

    def _lead(
        self, stop: threading.Event, leadership: Leadership, state: LiveState, outbox: Outbox
    ) -> None:
        """Until `stop` is set or another process leads."""
        state.status = replace(
            state.status, ready=False, standby="", reason="rebuilding the window"
        )
        settings = self.config.heartbeat
        heartbeat = Heartbeat(settings, self.now) if settings else None
        scheduler: BackgroundScheduler | None = None
        pipeline = Pipeline(self.config, self.store, state.metrics, outbox.names, self.now)
        try:
            outbox.start()
            worker = Worker(pipeline, state, outbox, self.now, heartbeat, leadership.lose)
            pipeline.stopping = lambda: stop.is_set() or leadership.lost.is_set()
            scheduler = schedule(worker, self.config, state.metrics)
            scheduler.start()
            while not stop.wait(0.1) and not leadership.lost.is_set():
                pass
        finally:
            if scheduler is not None:
                scheduler.shutdown(wait=True)
            pipeline.close()
            outbox.stop()
            if heartbeat is not None:
                heartbeat.stop()

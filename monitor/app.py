"""The daemon: source → slices → ticks → store → people, over and over.

One thread polls the source and ticks; the outbox delivers in another; HTTP answers in a third.
APScheduler wakes the first: at every poll interval, and once a slice when its time is over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from apscheduler.schedulers.background import BackgroundScheduler

from monitor.config import Config
from monitor.edge import documents
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
from monitor.edge.store import LATEST_DIAGNOSIS, Store, StoreFailedError
from monitor.edge.supervisor import Supervisor
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
        supervisor: told how we are.
    """

    config: Config
    store: Store
    now: Callable[[], datetime]
    supervisor: Supervisor = field(default_factory=lambda: Supervisor({}))
    _worker: Worker | None = field(default=None, init=False)

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
                stage="rebuilding the window",
                source=described(config),
                started_at=self.now(),
                method=config.settings.detection.report.value,
                maintenance=config.maintenance,
                config=config,
            ),
        )
        server = serve(state, http.host, http.port, http.token, http.public_url)
        notifiers = make_notifiers(config, server.url)
        outbox = Outbox(
            self.store,
            notifiers,
            metrics,
            self.now,
            routes=routes(config),
            quiet=Silencer(self.store, config.maintenance),
        )
        standby = Standby(state)
        leadership = Leadership(self.store, config.store.lease, standby.heard)
        metrics.leads(False)
        try:
            started(server.url)
            self.supervisor.watch(
                stop,
                lambda: self._in_a_line(state.status),
                lambda seconds: self._healthy(state.status, seconds),
            )
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
            if stop.is_set():
                self.supervisor.ended()

    @staticmethod
    def _in_a_line(status: Status) -> str:
        at = f"; data up to {status.watermark:%Y-%m-%d %H:%M} UTC" if status.watermark else ""
        return status.problem or (f"watching{at}" if status.ready else status.reason)

    def _healthy(self, status: Status, seconds: float) -> bool:
        """As `/healthz`, and no step has hung for so long."""
        worker = self._worker
        return not status.problem and (worker is None or worker.busy_seconds() < seconds)

    def _lead(
        self, stop: threading.Event, leadership: Leadership, state: LiveState, outbox: Outbox
    ) -> None:
        """Until `stop` is set or another process leads."""
        state.change(standby="", source_trouble="", stage="rebuilding the window")
        settings = self.config.heartbeat
        heartbeat = Heartbeat(settings, self.now) if settings else None
        scheduler: BackgroundScheduler | None = None
        pipeline = Pipeline(self.config, self.store, state.metrics, outbox.names, self.now)
        # Until the next tick people see the newest of before the restart.
        newest = self.store.state(LATEST_DIAGNOSIS)
        if newest is not None:
            diagnosis = documents.diagnosis_from(documents.loads(newest))
            state.change(diagnosis=diagnosis)
        try:
            outbox.start()
            self._worker = worker = Worker(
                pipeline, state, outbox, self.now, heartbeat, leadership.lose
            )
            pipeline.stopping = lambda: stop.is_set() or leadership.lost.is_set()
            scheduler = schedule(worker, self.config, state.metrics)
            scheduler.start()
            while not stop.wait(0.1) and not leadership.lost.is_set():
                pass
        finally:
            if scheduler is not None:
                scheduler.shutdown(wait=True)
            self._worker = None
            pipeline.close()
            outbox.stop()
            if heartbeat is not None:
                heartbeat.stop()

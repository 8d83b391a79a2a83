"""What one configuration makes run while this process leads: source, ticks, notifications."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from apscheduler.schedulers.background import BackgroundScheduler

from monitor.config import Config
from monitor.edge.heartbeat import Heartbeat
from monitor.edge.notifiers.making import make_notifiers, routes
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.silences import Silencer
from monitor.edge.status import LiveState
from monitor.jobs import Worker, reschedule, schedule
from monitor.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stays the same whatever the configuration says."""

    state: LiveState
    now: Callable[[], datetime]
    console_url: str
    stopping: Callable[[], bool]
    lose: Callable[[str], None]
    """Told that another process leads."""


class Engine:
    """Built from the store; nothing runs before `start`.

    Args:
        config: checked.
        around: see there.

    Raises:
        UnusableError, StoreError: it cannot run under this configuration.
    """

    def __init__(self, config: Config, around: Surroundings) -> None:
        self.config, self._around = config, around
        store, metrics = around.state.store, around.state.metrics
        self.outbox = Outbox(
            store,
            make_notifiers(config, around.console_url),
            metrics,
            around.now,
            routes=routes(config),
            quiet=Silencer(store, config.maintenance),
        )
        self.pipeline = Pipeline(config, store, metrics, self.outbox.names, around.now)
        self.worker: Worker | None = None
        self._heartbeat: Heartbeat | None = None
        self._scheduler: BackgroundScheduler | None = None
        self._halting = False
        self.pipeline.stopping = lambda: around.stopping() or self._halting

    def start(self) -> None:
        """Begin, or go on after `halt`."""
        around, settings = self._around, self.config.heartbeat
        self._halting = False
        self._heartbeat = Heartbeat(settings, around.now) if settings else None
        self.outbox.start()
        self.worker = Worker(
            self.pipeline, around.state, self.outbox, around.now, self._heartbeat, around.lose
        )
        self._scheduler = schedule(self.worker, self.config, around.state.metrics)
        self._scheduler.start()

    def clock_was_set(self) -> None:
        """The jobs were planned by the clock as it went before: plan them anew."""
        if self._scheduler is not None:
            reschedule(self._scheduler, self.config)

    def halt(self) -> None:
        """Finish the step at hand and rest."""
        self._halting = True
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=True)
        self._scheduler = self.worker = None
        self.outbox.stop()
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None

    def close(self) -> None:
        """Halt for good."""
        self.halt()
        self.pipeline.close()

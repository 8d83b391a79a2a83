"""The daemon: source → slices → ticks → store → people, over and over.

One thread polls the source and ticks; the outbox delivers in another; HTTP answers in a third.
APScheduler wakes the first: at every poll interval, and once a slice when its time is over.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import structlog
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from monitor.config import Config
from monitor.diagnosis import Tick
from monitor.domain import Batch, Rejected, datetime64, utc
from monitor.edge.heartbeat import Heartbeat
from monitor.edge.http import serve
from monitor.edge.leadership import Leadership
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers.making import make_notifiers, routes
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.silences import Silencer
from monitor.edge.source import Flow, SourceError
from monitor.edge.sources import described, open_source
from monitor.edge.standby import Standby, tell_store_failure, tell_store_works
from monitor.edge.status import LiveState, Status
from monitor.edge.store import (
    LeadershipLostError,
    Store,
    StoreError,
    StoreFailedError,
)
from monitor.replay import MAX_GAP_WINDOWS
from monitor.session import Session
from monitor.slices import Slice, empty, slice_events

LIVE_SLICES = 3
"""Within this distance of the clock the data count as live, and silence closes slices too."""

PROGRESS_SECONDS = 5.0
"""Between two lines of the log while a backlog is read."""

STORE_PAUSE_SECONDS = 2.0
"""Before the store is tried again when it failed at the start."""

_log = structlog.get_logger("daemon")


class Pipeline:
    """From the source to committed ticks; knows no threads.

    Args:
        config: checked.
        store: goes on from it, writes to it.
        metrics: counts what comes in and what a tick found.
        notifiers: names for the outbox.
        now: the clock.

    Attributes:
        stopping: asked between two batches; true ends a pass early.
        committed: told of the ticks of every batch, once they are stored.
        beginning: told before every tick.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        metrics: Metrics,
        notifiers: tuple[str, ...],
        now: Callable[[], datetime],
    ) -> None:
        self.config, self.metrics, self._now = config, metrics, now
        self.stopping: Callable[[], bool] = lambda: False
        self.committed: Callable[[list[Tick]], None] = lambda ticks: None
        self.beginning: Callable[[], None] = lambda: None
        self.session = Session(
            config.settings, store, notifiers, config.store.keep, config.console.example_columns
        )
        self.source = open_source(config, self.session.vocabulary, now)
        resumed = self.session.resumed
        for start, reason in self.session.damaged.items():
            _log.error(
                "a stored slice is damaged and was set aside; what happened then is unknown",
                slice=start.isoformat(),
                reason=reason,
            )
        metrics.damaged(len(self.session.damaged))
        self.position: Mapping[str, object] | None = resumed.position
        self.filling: dict[np.datetime64, Slice] = {s.start: s for s in resumed.filling}
        self._step = np.timedelta64(config.settings.window.slice_length)
        last = self.session.last_slice
        self.watermark: np.datetime64 | None = None if last is None else last + self._step
        """At least the end of what was diagnosed before the restart."""
        self._unsaved = False

    def poll(self) -> list[Tick]:
        """Take in everything new, diagnose every slice that is complete, commit after each batch.

        Raises:
            SourceError, StoreError: nothing is lost; the next call goes on where this one stopped.
        """
        ticks: list[Tick] = []
        if self._unsaved:
            self._commit()
        for batch in self.source.batches(self.position):
            fresh = self._take_in(batch)
            self.committed(fresh)
            ticks += fresh
            if self.stopping():
                break
        return ticks

    def silence(self) -> list[Tick]:
        """The clock says that a slice is over: close it, if the data were live until now.

        Not while the source is behind or away: then nobody knows what happened.
        """
        if self.watermark is None or not self.source.status().current:
            return []
        window = self.config.settings.window
        by_clock = datetime64(self._now() - window.allowed_lateness)
        if by_clock - self.watermark > LIVE_SLICES * self._step:
            return []
        self.watermark = max(self.watermark, by_clock)
        ticks = self._close()
        if ticks:
            self._commit()
        return ticks

    def close(self) -> None:
        """Let go of the source; what was handed over and stored stays so."""
        self.source.close()

    def _commit(self) -> None:
        self._unsaved = True
        self.session.commit(self.position, self.filling.values())
        self._unsaved = False

    def _take_in(self, batch: Batch) -> list[Tick]:
        monitor, last = self.session.monitor, self.session.last_slice
        sliced = slice_events(
            batch.events,
            self.config.settings.window,
            filling=self.filling,
            watermark=self.watermark,
            closed_until=None if last is None else last + self._step,
            kept_since=monitor.window[0].slice.start if monitor.window else None,
            now=self._now(),
            reached=batch.reached,
        )
        late, too_late = 0, sliced.too_late
        for piece in sliced.late.values():
            if self.session.fold(piece):
                late += piece.rows
            else:
                too_late += piece.rows
        where = str(dict(batch.position))
        rejected = batch.rejected
        for count, reason, detail in (
            (len(sliced.future), "future", "stamped later than now; check the writer's clock"),
            (too_late, "too_late", "older than everything in the window"),
        ):
            if count:
                rejected += (Rejected(reason, where, detail, count),)
        self.session.reject(rejected)
        self.metrics.rejected(rejected)
        self.metrics.ingested(len(batch.events) - len(sliced.future) - too_late, late)
        self.filling = dict(sliced.open)
        self.watermark = sliced.watermark
        # The rows are taken in, stored or not: reading them again would count them twice.
        self.position = batch.position
        ticks = self._close()
        self._commit()
        return ticks

    def _close(self) -> list[Tick]:
        """Tick through every slice that ends before the watermark."""
        ticks: list[Tick] = []
        schema, window = self.config.settings.schema, self.config.settings.window
        longest = MAX_GAP_WINDOWS * np.timedelta64(window.length)
        while self.watermark is not None:
            last = self.session.last_slice
            following = min(self.filling, default=None)
            if last is None or (following is not None and following - last > longest):
                start = following
            else:
                start = last + self._step
            if start is None or start + self._step > self.watermark:
                break
            piece = self.filling.pop(start, None)
            if piece is None:
                piece = empty(start, len(schema.attributes), len(schema.outcomes))
            self.beginning()
            tick = self.session.tick(piece)
            ticks.append(tick)
            self.metrics.observe(tick.diagnosis)
            for notification in tick.news:
                if notification.incident.finding.method is self.config.settings.detection.report:
                    self.metrics.changed(notification.change)
        return ticks


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
            worker = _Worker(pipeline, state, outbox, self.now, heartbeat, leadership.lose)
            pipeline.stopping = lambda: stop.is_set() or leadership.lost.is_set()
            scheduler = _schedule(worker, self.config, state.metrics)
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


class _Worker:
    """The two jobs of the scheduler, and what they leave for the pages to show."""

    def __init__(
        self,
        pipeline: Pipeline,
        state: LiveState,
        outbox: Outbox,
        now: Callable[[], datetime],
        heartbeat: Heartbeat | None = None,
        lose: Callable[[str], None] = lambda why: None,
    ) -> None:
        self._pipeline, self._state, self._outbox, self._now = pipeline, state, outbox, now
        self._heartbeat, self._lose = heartbeat, lose
        if heartbeat is not None:
            pipeline.beginning = heartbeat.begins
        self._progress_told = 0.0
        pipeline.committed = self._publish

    def poll(self) -> None:
        """Pass after pass while there is a backlog."""
        while self._work(self._pipeline.poll):
            if self._pipeline.stopping() or self._flow() is not Flow.CATCHING_UP:
                break

    def slice_over(self) -> None:
        def job() -> None:
            self._pipeline.poll()
            self._publish(self._pipeline.silence())

        self._work(job)

    def _flow(self) -> Flow:
        return self._pipeline.source.status().flow

    def _work(self, job: Callable[[], object]) -> bool:
        """Whether it could be done."""
        state, metrics = self._state, self._state.metrics
        if not self._outbox.alive and not state.status.problem:
            # Incidents are still found and stored, but nobody hears of them.
            _log.critical("the outbox has died of a bug; restart the daemon")
            state.status = replace(state.status, problem="notifications are no longer delivered")
        try:
            job()
        except SourceError as error:
            _log.error("the source cannot be read", error=str(error))
            self._fails(f"source: {error}")
            state.status = replace(state.status, ready=False, reason=f"source: {error}")
            return False
        except LeadershipLostError as error:
            self._lose(str(error))
            return False
        except StoreError as error:
            self._fails(f"store: {error}")
            tell_store_failure(state, error)
            return False
        finally:
            metrics.source(self._pipeline.source.status())
        self._publish([])
        return True

    def _publish(self, ticks: list[Tick]) -> None:
        """Show how far we are: after every commit, and at the end of a pass."""
        state, metrics = self._state, self._state.metrics
        tell_store_works(state)
        changes: dict[str, object] = self._readiness()
        watermark = self._pipeline.watermark
        if watermark is not None:
            metrics.watermark(utc(watermark), self._now())
            changes["watermark"] = utc(watermark)
        if ticks:
            changes["diagnosis"] = ticks[-1].diagnosis
            report = self._pipeline.config.settings.detection.report
            metrics.incidents(i for i in state.store.open_incidents() if i.finding.method is report)
            metrics.judged(verdict.value for verdict in state.store.labels().values())
            _log.info(
                "tick",
                at=ticks[-1].diagnosis.at.isoformat(),
                ticks=len(ticks),
                rows=ticks[-1].diagnosis.rows,
                open=len(self._pipeline.session.monitor.open_incidents()),
                fit=ticks[-1].diagnosis.fit_status,
                seconds=round(sum(ticks[-1].diagnosis.seconds.values()), 3),
            )
            self._outbox.wake()
            if self._heartbeat is not None:
                self._heartbeat.done(f"tick of {ticks[-1].diagnosis.at.isoformat()}")
        state.status = replace(state.status, **changes)  # type: ignore[arg-type]

    def _fails(self, reason: str) -> None:
        if self._heartbeat is not None:
            self._heartbeat.fails(reason)

    def _readiness(self) -> dict[str, object]:
        """Once caught up it stays ready with a backlog, which is told by its lag."""
        source = self._pipeline.source.status()
        self._state.metrics.source(source)
        match source.flow:
            case Flow.PAUSED:
                self._fails(f"source paused: {source.detail}")
                return {"ready": False, "reason": f"source paused: {source.detail}"}
            case Flow.CATCHING_UP if not self._state.status.ready:
                reason = f"catching up: {source.detail}"
                if self._pipeline.watermark is not None:
                    reason += f", now at {utc(self._pipeline.watermark):%Y-%m-%d %H:%M} UTC"
                if time.monotonic() - self._progress_told > PROGRESS_SECONDS:
                    self._progress_told = time.monotonic()
                    _log.info("catching up", detail=reason.removeprefix("catching up: "))
                return {"reason": reason}
            case Flow.AWAY:
                return {}
        return {"ready": True, "reason": ""}


def _schedule(worker: _Worker, config: Config, metrics: Metrics) -> BackgroundScheduler:
    """Jobs never overlap: one thread runs them all, late ones are run, not dropped."""
    scheduler = BackgroundScheduler(
        timezone="UTC",
        executors={"default": ThreadPoolExecutor(1)},
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
    )
    window = config.settings.window
    scheduler.add_job(
        worker.poll,
        IntervalTrigger(seconds=config.source.poll.total_seconds(), timezone="UTC"),
        id="poll",
        next_run_time=datetime.now(tz=scheduler.timezone),
    )
    scheduler.add_job(worker.slice_over, _every(window.slice_length, window.allowed_lateness),
                      id="slice_over")  # fmt: skip

    def missed(event: object) -> None:
        if getattr(event, "job_id", "") == "slice_over":
            metrics.tick_missed()

    def overrun(event: object) -> None:
        if getattr(event, "job_id", "") == "slice_over":
            metrics.tick_overrun()

    def crashed(event: object) -> None:  # our bug: say so and end, the supervisor restarts us
        _log.critical(
            "a bug ended the daemon",
            error=repr(getattr(event, "exception", None)),
            traceback=getattr(event, "traceback", None),
        )
        signal.raise_signal(signal.SIGABRT)

    scheduler.add_listener(missed, EVENT_JOB_MISSED)
    scheduler.add_listener(overrun, EVENT_JOB_MAX_INSTANCES)
    scheduler.add_listener(crashed, EVENT_JOB_ERROR)
    return scheduler


def _every(length: timedelta, after: timedelta) -> CronTrigger | IntervalTrigger:
    """At the end of every slice, as soon as no more rows are waited for."""
    minutes = length.total_seconds() / 60
    offset = after.total_seconds() / 60
    if minutes == int(minutes) and 60 % minutes == 0 and offset == int(offset) < minutes:
        at = ",".join(str(int(m + offset)) for m in range(0, 60, int(minutes)))
        return CronTrigger(minute=at, timezone="UTC")
    return IntervalTrigger(seconds=length.total_seconds(), timezone="UTC")

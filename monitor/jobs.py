"""When the pipeline works, and what is told of it: the scheduler, its two jobs, the status."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from monitor.config import Config
from monitor.diagnosis import Tick
from monitor.domain import utc
from monitor.edge.heartbeat import Heartbeat
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.rejections import RejectionLog
from monitor.edge.source import Flow, SourceError
from monitor.edge.standby import tell_store_failure, tell_store_works
from monitor.edge.status import LiveState
from monitor.edge.store import LeadershipLostError, StoreError
from monitor.pipeline import Pipeline

PROGRESS_SECONDS = 5.0
"""Between two lines of the log while a backlog is read."""

_log = structlog.get_logger("daemon")


class Worker:
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
        outbox.pace.falls_behind(now())  # until the first pass has shown what there is
        self._heartbeat, self._lose = heartbeat, lose
        if heartbeat is not None:
            pipeline.beginning = heartbeat.begins
        self._progress_told = 0.0
        self._ahead_told = False
        self._step_began: float | None = None
        pipeline.committed = self._publish
        pipeline.setting_aside = RejectionLog().add

    def busy_seconds(self) -> float:
        """How long the step at hand has lasted; 0 between jobs. A commit ends a step."""
        began = self._step_began
        return 0.0 if began is None else time.monotonic() - began

    def poll(self) -> None:
        """Pass after pass while there is a backlog."""
        while self._work(self._pipeline.poll):
            if self._pipeline.stopping() or self._flow() is not Flow.CATCHING_UP:
                break

    def slice_over(self) -> None:
        """The clock says that a slice is over: read what there is, then close it."""

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
            state.change(problem="notifications are no longer delivered")
        self._step_began = time.monotonic()
        try:
            job()
            state.store.lease()  # a pass that commits nothing says nothing of the store
            self._show_incidents()  # operators are at work between two ticks, too
        except SourceError as error:
            if not state.status.source_trouble:  # once, not at every poll
                _log.error("the source cannot be read", error=str(error))
            self._fails(f"source: {error}")
            state.change(source_trouble=f"source: {error}")
            return False
        except LeadershipLostError as error:
            self._lose(str(error))
            return False
        except StoreError as error:
            self._fails(f"store: {error}")
            tell_store_failure(state, error)
            return False
        finally:
            self._step_began = None
            metrics.source(self._pipeline.source.status())
        self._publish([])
        if self._flow() is not Flow.CATCHING_UP:
            self._outbox.pace.catches_up(self._now())
            metrics.catching_up(False)
        return True

    def _publish(self, ticks: list[Tick]) -> None:
        """Show how far we are: after every commit, and at the end of a pass."""
        state, metrics = self._state, self._state.metrics
        if self._step_began is not None:
            self._step_began = time.monotonic()
        tell_store_works(state)
        changes: dict[str, object] = self._readiness()
        watermark = self._pipeline.watermark
        if watermark is not None:
            metrics.watermark(utc(watermark), self._now())
            changes["watermark"] = utc(watermark)
        if ticks:
            if self._is_past(ticks[-1].diagnosis.at):
                self._outbox.pace.falls_behind(self._now())
                metrics.catching_up(True)
            changes["diagnosis"] = ticks[-1].diagnosis
            self._show_incidents()
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
        state.change(**changes)

    def _show_incidents(self) -> None:
        store, metrics = self._state.store, self._state.metrics
        report = self._pipeline.config.settings.detection.report
        known = [i for i in store.open_incidents() if i.finding.method is report]
        metrics.incidents(known, self._outbox.hushed(known))
        metrics.judged(verdict.value for verdict in store.labels().values())

    def _is_past(self, at: datetime) -> bool:
        """Whether a slice that ended then should have been judged before the last one."""
        window = self._pipeline.config.settings.window
        return self._now() - at > 2 * window.slice_length + window.allowed_lateness

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
                return {"source_trouble": f"source paused: {source.detail}"}
            case Flow.CATCHING_UP if not self._state.status.ready:
                reason = f"catching up: {source.detail}"
                if self._pipeline.watermark is not None:
                    reason += f", now at {utc(self._pipeline.watermark):%Y-%m-%d %H:%M} UTC"
                if time.monotonic() - self._progress_told > PROGRESS_SECONDS:
                    self._progress_told = time.monotonic()
                    _log.info("catching up", detail=reason.removeprefix("catching up: "))
                return {"source_trouble": "", "stage": reason}
            case Flow.AWAY:
                return {}
        ahead = self._pipeline.ahead()
        if ahead and not self._ahead_told:
            _log.error("no slice can close", why=ahead)
        self._ahead_told = bool(ahead)
        return {"source_trouble": "", "stage": ahead}


def schedule(worker: Worker, config: Config, metrics: Metrics) -> BackgroundScheduler:
    """Jobs never overlap: one thread runs them all, late ones are run, not dropped."""
    scheduler = BackgroundScheduler(
        timezone="UTC",
        executors={"default": ThreadPoolExecutor(1)},
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
    )
    window = config.settings.window
    scheduler.add_job(
        worker.poll,
        _polls(config),
        id="poll",
        next_run_time=datetime.now(tz=scheduler.timezone),
    )
    scheduler.add_job(worker.slice_over, every(window.slice_length, window.allowed_lateness),
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


def reschedule(scheduler: BackgroundScheduler, config: Config) -> None:
    """Plan the jobs anew: the clock was set, and they wait for its old times."""
    window = config.settings.window
    scheduler.reschedule_job("poll", trigger=_polls(config))
    scheduler.reschedule_job(
        "slice_over", trigger=every(window.slice_length, window.allowed_lateness)
    )


def _polls(config: Config) -> IntervalTrigger:
    return IntervalTrigger(seconds=config.source.poll.total_seconds(), timezone="UTC")


def every(length: timedelta, after: timedelta) -> CronTrigger | IntervalTrigger:
    """At the end of every slice, as soon as no more rows are waited for."""
    minutes = length.total_seconds() / 60
    offset = after.total_seconds() / 60
    if minutes == int(minutes) and 60 % minutes == 0 and offset == int(offset):
        at = ",".join(str(int(m + offset % minutes)) for m in range(0, 60, int(minutes)))
        return CronTrigger(minute=at, timezone="UTC")
    return IntervalTrigger(seconds=length.total_seconds(), timezone="UTC")

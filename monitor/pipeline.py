"""From the source to committed ticks: what the daemon does, without its threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import numpy as np
import structlog

from monitor.config import Config
from monitor.diagnosis import Tick
from monitor.domain import Batch, Rejected, datetime64, utc
from monitor.edge.allocator import hand_back_now
from monitor.edge.metrics import Metrics
from monitor.edge.sources import open_source
from monitor.edge.store import Store
from monitor.replay import MAX_GAP_WINDOWS
from monitor.session import Session
from monitor.slices import Slice, empty, slice_events

LIVE_SLICES = 3
"""Half hours, or longer slices: within this distance of the clock the data count as live, and
silence closes slices too."""

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
        setting_aside: told of what could not be taken in.
        taken_in: rows that could, since the start.
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
        self.setting_aside: Callable[[Sequence[Rejected]], None] = lambda rejected: None
        self.beginning: Callable[[], None] = lambda: None
        self.taken_in = 0
        self.session = Session(
            config.settings,
            store,
            notifiers,
            config.store.keep,
            config.console.example_columns,
            config.whens,
            digests=True,
        )
        for what in self.session.evolution.told:
            _log.warning("the schema is not the one the store was written under", change=what)
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
        self._closed_by_clock: np.datetime64 | None = None
        """Up to here slices were closed because the clock said so."""

    def ahead(self) -> str:
        """Why no slice can close for now: the clock was ahead, and was put right.

        Empty when that is not so. What comes meanwhile is folded into the closed slices.
        """
        last, window = self.session.last_slice, self.config.settings.window
        if last is None:
            return ""
        now, end = self._now(), last + self._step
        by_clock = self._closed_by_clock is not None and end <= self._closed_by_clock
        if end <= datetime64(now if by_clock else now + window.max_future):
            return ""
        return (
            f"the clock was set back: slices up to {utc(end):%Y-%m-%d %H:%M} UTC are closed, and "
            f"it says {now:%H:%M}; rows until then are taken in as late ones, the next tick comes "
            "after"
        )

    def poll(self) -> list[Tick]:
        """Take in everything new, diagnose every slice that is complete, commit after each batch.

        Raises:
            SourceError, StoreError: nothing is lost; the next call goes on where this one stopped.
        """
        if self._unsaved:
            self._commit()
        ticks = self._read()
        if ticks:
            hand_back_now()  # here, where no batch is held any more
        return ticks

    def _read(self) -> list[Tick]:
        ticks: list[Tick] = []
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
        if by_clock - self.watermark > LIVE_SLICES * window.per_half_hour * self._step:
            return []
        self.watermark = max(self.watermark, by_clock)
        ticks = self._close()
        if ticks:
            self._closed_by_clock = by_clock
            self._commit()
            hand_back_now()
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
        rejected = batch.rejected
        for count, reason, detail in (
            (len(sliced.future), "future", "stamped later than now; check the writer's clock"),
            (
                too_late,
                "too_late",
                "older than everything in the window, as the rows of a file that came after newer "
                "ones; `least-monitor backtest` judges such rows",
            ),
        ):
            if count:
                rejected += (Rejected(reason, batch.where, detail, count),)
        self.session.reject(rejected)
        self.metrics.rejected(rejected)
        taken = len(batch.events) - len(sliced.future) - too_late
        self.metrics.ingested(taken, late)
        self.taken_in += taken
        self.filling = dict(sliced.open)
        self.watermark = sliced.watermark
        # The rows are taken in, stored or not: reading them again would count them twice.
        self.position = batch.position
        ticks = self._close()
        self._commit()
        if rejected:
            self.setting_aside(rejected)
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

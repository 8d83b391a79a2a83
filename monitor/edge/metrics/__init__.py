"""What Prometheus sees.

Counters and histograms grow; everything that describes the newest tick (graph, findings,
incidents) is one immutable snapshot that is swapped whole, so a scrape never sees half a tick
and series of yesterday's paths are gone at the next one.
"""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from monitor.domain import KEPT_REASONS, Change, Diagnosis, Incident, Rejected
from monitor.edge.metrics.families import (
    FIT_STATUSES,
    Snapshot,
    SnapshotCollector,
    strongest,
)
from monitor.edge.metrics.shapes import PREFIX
from monitor.edge.source import SourceStatus
from monitor.edge.store import Trouble

_STAGE_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Counts what happens and keeps the newest snapshot. Safe to call from any thread.

    Args:
        top: edges of the graph, findings and incidents that get a series of their own.
        false_alarms_per_week: the operator's budget, exported beside what was observed.
        slice_length: of one tick; so much of the budget each may spend.
    """

    def __init__(
        self,
        top: int = 50,
        false_alarms_per_week: float | None = None,
        slice_length: timedelta = timedelta(minutes=30),
    ) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._top = top
        self.configured(false_alarms_per_week, slice_length)
        self._lock = threading.Lock()
        self._snapshot = Snapshot()
        self._make_counters()
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)
        self.registry.register(SnapshotCollector(lambda: self._snapshot, lambda: self._budget, top))

    def _make_counters(self) -> None:
        def counter(name: str, text: str, labels: Sequence[str] = ()) -> Counter:
            return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{PREFIX}_{name}", text, registry=self.registry)

        self._events = counter(
            "events",
            "Events by what became of them: accepted, late, rejected, duplicate or excluded.",
            ["result"],
        )
        for result in ("accepted", "late", "rejected", "duplicate", "excluded"):
            self._events.labels(result)
        self._rejected = counter("rejected", "Rejected records by reason.", ["reason"])
        self._kept = counter(
            "kept",
            "Accepted records of which something could not be read, by reason; `undecided`: "
            "no outcome has a value to judge it by.",
            ["reason"],
        )
        for reason in KEPT_REASONS:
            self._kept.labels(reason)
        self._ticks = counter("ticks", "Diagnoses made.")
        self._missed = counter("ticks_missed", "Ticks that did not run at their time.")
        self._overrun = counter("ticks_overrun", "Ticks skipped: the one before still ran.")
        self._gaps = counter("gap_ticks", "Ticks whose newest slice was empty against habit.")
        self._rows = counter("rows", "Rows of the slices judged so far.")
        self._clean = counter("clean_rows", "Rows of the slices judged so far without a failure.")
        self._errors = counter("errors", "Failures seen in the slices judged so far.", ["outcome"])
        self._expected = counter(
            "expected_errors", "Failures the baseline expected in those slices.", ["outcome"]
        )
        self._fits = counter("fits", "Fits of the structure learner by how they ended.", ["status"])
        for status in FIT_STATUSES:
            self._fits.labels(status)
        self._steps = counter("fit_steps", "Optimiser steps of all fits.")
        self._edges_changed = counter(
            "graph_edges_changed", "Edges that came or went between ticks.", ["change"]
        )
        for change in ("added", "removed"):
            self._edges_changed.labels(change)
        self._truncated = counter("paths_truncated", "Ticks at which a bound on paths bit.")
        self._changes = counter("incident_changes", "Changes of incidents.", ["change"])
        for news in Change:
            if news is not Change.UNCHANGED:
                self._changes.labels(news.value)
        self._notified = counter(
            "notifications", "Attempts to notify, by result.", ["notifier", "result"]
        )
        self._expected_alarms = counter(
            "expected_false_alarms", "False alarms that the budget allows for the ticks judged."
        )
        self._labelled = counter(
            "incidents_labelled", "Incidents by the operators' verdict.", ["verdict"]
        )
        for verdict in ("true", "false", "expected"):
            self._labelled.labels(verdict)
        self._stage = Histogram(
            f"{PREFIX}_tick_stage_seconds",
            "Wall time of a tick by stage.",
            ["stage"],
            buckets=_STAGE_BUCKETS,
            registry=self.registry,
        )
        self._leading = gauge("leader", "1 while this process leads, 0 while it stands by.")
        self._catching_up = gauge(
            "catching_up", "1 while what is read happened long ago, 0 when all has been read."
        )
        self._takeovers = counter("takeovers", "How often this process began to lead.")
        self._store_up = gauge("store_up", "1 when the store answered last, else 0.")
        self._store_failures = counter(
            "store_failures", "Failed accesses of the store, by what was wrong.", ["trouble"]
        )
        for trouble in Trouble:
            self._store_failures.labels(trouble.value)
        self._damaged = counter("damaged_slices", "Stored slices that could not be read.")
        self._started = gauge("start_timestamp_seconds", "When this process began to monitor.")
        self._reload_worked = gauge(
            "config_last_reload_successful", "1 if the configuration last read was taken, else 0."
        )
        self._reloaded_at = gauge(
            "config_last_reload_success_timestamp_seconds",
            "When a configuration was last taken, at the start or by a reload.",
        )

    def configured(self, false_alarms_per_week: float | None, slice_length: timedelta) -> None:
        """As `Metrics`; again when the configuration was reloaded."""
        self._budget = false_alarms_per_week
        self._allowance = (false_alarms_per_week or 0.0) * (slice_length / timedelta(weeks=1))

    def reloaded(self, at: datetime | None) -> None:
        """The configuration in the file was taken at this time, or refused (None)."""
        self._reload_worked.set(at is not None)
        if at is not None:
            self._reloaded_at.set(at.timestamp())

    def leads(self, leading: bool) -> None:
        """This process leads, or stands by."""
        if leading:
            self._takeovers.inc()
        self._leading.set(leading)

    def catching_up(self, behind: bool) -> None:
        """What is read happened long ago, or all has been read."""
        self._catching_up.set(behind)

    def store(self, trouble: Trouble | None) -> None:
        """The store answered (None), or what was wrong with it."""
        self._store_up.set(trouble is None)
        if trouble is not None:
            self._store_failures.labels(trouble.value).inc()

    def damaged(self, slices: int) -> None:
        """Stored slices that were set aside."""
        self._damaged.inc(slices)

    def started(self, at: datetime) -> None:
        """The process begins its work."""
        self._started.set(at.timestamp())

    def observe(self, diagnosis: Diagnosis) -> None:
        """One tick: count it and show it."""
        self._ticks.inc()
        self._rows.inc(diagnosis.rows)
        self._clean.inc(diagnosis.clean_rows)
        self._gaps.inc(diagnosis.gap)
        if not diagnosis.learning:
            self._expected_alarms.inc(self._allowance)
        self._truncated.inc(diagnosis.paths_truncated)
        for count in diagnosis.outcomes:
            self._errors.labels(count.outcome).inc(count.observed)
            # A learning baseline may have no opinion yet.
            self._expected.labels(count.outcome).inc(max(0.0, count.expected))
        if diagnosis.fit_steps or diagnosis.fit_status == "skipped":  # else it is the last one's
            self._fits.labels(diagnosis.fit_status).inc()
        self._steps.inc(diagnosis.fit_steps)
        self._edges_changed.labels("added").inc(diagnosis.edges_added)
        self._edges_changed.labels("removed").inc(diagnosis.edges_removed)
        for stage, seconds in diagnosis.seconds.items():
            self._stage.labels(stage).observe(seconds)
        findings = sorted(diagnosis.findings, key=lambda f: (-f.score, f.outcome, f.cause))
        self._swap(
            diagnosis=diagnosis,
            edges=strongest(diagnosis, self._top),
            findings=tuple(findings[: self._top]),
        )

    def incidents(
        self, incidents: Iterable[Incident], hushed: Mapping[str, str] | None = None
    ) -> None:
        """The incidents that are not resolved, as they stand now, and which nobody hears of."""
        worst = sorted(
            incidents,
            key=lambda i: (-i.severity.rank, i.latest.expected - i.latest.observed, i.id),
        )
        self._swap(incidents=tuple(worst), hushed=hushed or {})

    def judged(self, verdicts: Iterable[str]) -> None:
        """The operators' last verdicts on all incidents that have one."""
        counts = Tally(verdicts)
        self._swap(labels={verdict: counts[verdict] for verdict in ("true", "false", "expected")})

    def silenced(self, count: int) -> None:
        """So many silences and maintenance windows hold."""
        self._swap(silences=count)

    def changed(self, change: Change) -> None:
        """An incident opened, worsened, became more exact or was resolved."""
        self._changes.labels(change.value).inc()

    def labelled(self, verdict: str) -> None:
        """An operator judged an incident: true, false or expected."""
        self._labelled.labels(verdict).inc()

    def source(self, status: SourceStatus) -> None:
        """How the source is."""
        self._swap(source=status)

    def ingested(self, accepted: int, late: int = 0) -> None:
        """Rows taken in; `late` of them came after their slice had closed."""
        self._events.labels("accepted").inc(accepted - late)
        self._events.labels("late").inc(late)

    def rejected(self, rejected: Iterable[Rejected]) -> None:
        """Records that could not be used, or not all of them."""
        for one in rejected:
            if one.result == "kept":  # counted among the accepted
                self._kept.labels(one.reason).inc(one.count)
                continue
            self._events.labels(one.result).inc(one.count)
            if one.result == "rejected":
                self._rejected.labels(one.reason).inc(one.count)

    def notified(self, notifier: str, result: str, times: int = 1) -> None:
        """Messages sent, retried or parked; notifications skipped or held back."""
        self._notified.labels(notifier, result).inc(times)

    def outbox(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Notifications that wait (pending, held) or were given up (parked), by notifier."""
        self._swap(outbox=dict(counts))

    def tick_missed(self) -> None:
        """A tick did not run at its time."""
        self._missed.inc()

    def tick_overrun(self) -> None:
        """A tick was skipped because the one before was still running."""
        self._overrun.inc()

    def watermark(self, at: datetime, now: datetime) -> None:
        """Event time no longer waited for, and how far it lies behind the clock."""
        self._swap(watermark=at, slice_lag_seconds=max(0.0, (now - at).total_seconds()))

    @property
    def snapshot(self) -> Snapshot:
        """The newest tick as it is exported."""
        return self._snapshot

    def _swap(self, **changes: object) -> None:
        with self._lock:
            self._snapshot = replace(self._snapshot, **changes)  # type: ignore[arg-type]

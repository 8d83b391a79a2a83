"""The newest tick as Prometheus families."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from monitor import __version__
from monitor.domain import Diagnosis, Edge, Finding, Incident
from monitor.edge.metrics.people import incident_families
from monitor.edge.metrics.shapes import PREFIX, labelled, single
from monitor.edge.metrics.stream import source_families
from monitor.edge.source import SourceStatus

FIT_STATUSES = ("converged", "max_steps", "nonfinite", "skipped")
_TITLE_LENGTH = 80


def stable_id(*parts: str) -> str:
    """A short name for a node, edge or path that stays the same across restarts.

    >>> stable_id("airline=AC", "step3") == stable_id("airline=AC", "step3")
    True
    """
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest of everything that has no history in Prometheus' sense."""

    diagnosis: Diagnosis | None = None
    edges: tuple[Edge, ...] = ()
    """The strongest, those on reported paths first."""
    findings: tuple[Finding, ...] = ()
    incidents: tuple[Incident, ...] | None = None
    """Not resolved, the worst first."""
    hushed: Mapping[str, str] = field(default_factory=dict)
    """Incident → ``silenced`` or ``maintenance``."""
    labels: Mapping[str, int] | None = None
    """Verdict → incidents that operators judged so."""
    silences: int | None = None
    """Silences and maintenance windows that hold now."""
    watermark: datetime | None = None
    slice_lag_seconds: float | None = None
    source: SourceStatus | None = None
    outbox: Mapping[tuple[str, str], int] | None = None
    """(notifier, pending | held | parked) → notifications."""


def strongest(diagnosis: Diagnosis, top: int) -> tuple[Edge, ...]:
    """At most `top` edges: first those on a finding's path, then into outcomes, then by weight."""
    on_paths = {
        step
        for finding in diagnosis.findings
        for step in zip(finding.path, finding.path[1:], strict=False)
    }
    outcomes = {count.outcome for count in diagnosis.outcomes}

    def rank(edge: Edge) -> tuple[bool, bool, float, str, str]:
        return (
            (edge.source, edge.target) not in on_paths,
            edge.target not in outcomes,
            -abs(edge.weight),
            edge.source,
            edge.target,
        )

    return tuple(sorted(diagnosis.edges, key=rank)[:top])


class SnapshotCollector(Collector):
    """Renders the snapshot at every scrape."""

    def __init__(
        self, newest: Callable[[], Snapshot], budget: Callable[[], float | None], top: int
    ) -> None:
        self._newest = newest
        self._top = top
        self._budget = budget

    def describe(self) -> Iterator[Metric]:
        """Nothing fixed: what is shown depends on the tick."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Called at every scrape."""
        snapshot = self._newest()
        info = InfoMetricFamily(f"{PREFIX}_build", "Version of least-monitor and Python.")
        info.add_metric([], {"version": __version__, "python": platform.python_version()})
        yield info
        if (budget := self._budget()) is not None:
            yield single(
                "false_alarms_budget_per_week",
                "False alarms a week that the operator allows.",
                budget,
            )
        yield from incident_families(snapshot, self._top)
        if snapshot.watermark is not None:
            yield single(
                "watermark_timestamp_seconds",
                "Event time that is no longer waited for.",
                snapshot.watermark.timestamp(),
            )
        if snapshot.slice_lag_seconds is not None:
            yield single(
                "slice_lag_seconds",
                "How far the watermark was behind the clock when it last moved.",
                snapshot.slice_lag_seconds,
            )
        if snapshot.source is not None:
            yield from source_families(snapshot.source)
        if snapshot.diagnosis is not None:
            yield from _tick_families(snapshot.diagnosis)
            yield from _graph_families(snapshot)
            yield from _finding_families(snapshot.findings)


def _tick_families(diagnosis: Diagnosis) -> Iterator[Metric]:
    yield single(
        "last_tick_timestamp_seconds",
        "Event time of the end of the newest slice judged.",
        diagnosis.at.timestamp(),
    )
    yield single("slice_rows", "Rows of the newest slice.", diagnosis.rows)
    if diagnosis.rows:
        yield single(
            "first_attempt_success_ratio",
            "Share of the newest slice's rows without any failure.",
            diagnosis.clean_rows / diagnosis.rows,
        )
        yield labelled(
            "outcome_success_ratio",
            "Share of the newest slice's rows that did not fail in this way.",
            ["outcome"],
            [([c.outcome], 1 - c.observed / diagnosis.rows) for c in diagnosis.outcomes],
        )
    yield labelled(
        "slice_errors",
        "Failures in the newest slice.",
        ["outcome"],
        [([count.outcome], count.observed) for count in diagnosis.outcomes],
    )
    yield labelled(
        "slice_expected_errors",
        "Failures the baseline expected in the newest slice.",
        ["outcome"],
        [([count.outcome], count.expected) for count in diagnosis.outcomes],
    )
    yield labelled(
        "unexplained_ratio",
        "Share of an outcome's excess that no cause explains.",
        ["outcome"],
        [([outcome], share) for outcome, share in sorted(diagnosis.unexplained.items())],
    )
    yield single(
        "learning", "1 while the history is too short to judge, else 0.", diagnosis.learning
    )
    yield labelled(
        "outcome_learning",
        "1 while an outcome has no verdict yet, for its history is too short; else 0.",
        ["outcome"],
        [
            ([count.outcome], float(count.outcome in diagnosis.learning_outcomes))
            for count in diagnosis.outcomes
        ],
    )
    yield labelled(
        "misfit",
        "1 for what is no longer in the log as it was: vanished, more_missing, constant, renewed, "
        "silent or always.",
        ["kind", "subject"],
        [([misfit.kind, misfit.subject], 1.0) for misfit in diagnosis.misfits],
    )
    yield single(
        "data_gap", "1 when the newest slice is empty against habit, else 0.", diagnosis.gap
    )
    yield labelled(
        "fit_status",
        "1 for how the newest fit ended, 0 for the other ways.",
        ["status"],
        [
            ([status], float(status == diagnosis.fit_status))
            for status in dict.fromkeys((*FIT_STATUSES, diagnosis.fit_status))
        ],
    )
    yield single("fit_delta", "LEAST's bound on the cycles of the graph.", diagnosis.delta)
    yield single("last_fit_steps", "Optimiser steps of the newest fit.", diagnosis.fit_steps)
    yield single("graph_nodes", "Nodes of the graph.", diagnosis.nodes)
    yield single(
        "graph_rare_nodes", "Values too rare for a node of their own.", diagnosis.rare_nodes
    )
    yield single("graph_edges", "Edges of the graph.", len(diagnosis.edges))


def _graph_families(snapshot: Snapshot) -> Iterator[Metric]:
    # For Grafana's node graph panel: every end of an edge must be among the nodes, or the
    # panel crashes; so the nodes are made from the edges and from nothing else.
    strengths: dict[str, float] = {}
    for edge in snapshot.edges:
        for name in (edge.source, edge.target):
            strengths[name] = max(strengths.get(name, 0.0), abs(edge.weight))
    outcomes = {
        count.outcome for count in (snapshot.diagnosis.outcomes if snapshot.diagnosis else ())
    }
    yield labelled(
        "graph_node_strength",
        "Largest absolute weight of a shown edge at this node.",
        ["id", "title", "subtitle"],
        [
            ([stable_id(name), *_title(name, name in outcomes)], strength)
            for name, strength in sorted(strengths.items())
        ],
    )
    yield labelled(
        "graph_edge_weight",
        "Weight of a learned edge; the strongest only.",
        ["id", "source", "target"],
        [
            (
                [
                    stable_id(edge.source, edge.target),
                    stable_id(edge.source),
                    stable_id(edge.target),
                ],
                edge.weight,
            )
            for edge in snapshot.edges
        ],
    )


def _title(node: str, is_outcome: bool) -> tuple[str, str]:
    attribute, equals, value = node.partition("=")
    if is_outcome or not equals:
        return node[:_TITLE_LENGTH], "outcome" if is_outcome else ""
    return value[:_TITLE_LENGTH], attribute


def _finding_families(findings: Sequence[Finding]) -> Iterator[Metric]:
    labels = ["id", "outcome", "method"]
    keys = [[stable_id(f.outcome, str(f.cause)), f.outcome, f.method.value] for f in findings]
    columns: dict[str, tuple[str, Callable[[Finding], float]]] = {
        "finding_score": ("Evidence for a suspected cause, in nats.", lambda f: f.score),
        "finding_observed_errors": ("Failures of a suspected cause.", lambda f: f.observed),
        "finding_expected_errors": ("Failures expected of it.", lambda f: f.expected),
    }
    for name, (text, value) in columns.items():
        yield labelled(
            name, text, labels, [(key, value(f)) for key, f in zip(keys, findings, strict=True)]
        )

"""What Prometheus sees after a tick, and what it no longer sees after the next."""

from __future__ import annotations

import shutil
import subprocess
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from monitor.domain import (
    Change,
    Edge,
    Incident,
    OutcomeCount,
    Rejected,
    Severity,
    State,
)
from monitor.edge.metrics import Metrics
from tests.samples import finding, tick
from tests.services.brokers import cannot

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HALF_HOUR = timedelta(minutes=30)

FINDING = finding(
    outcome="pay",
    path=("airline=AC", "pay"),
    score=12.5,
    p_value=1e-9,
    q_value=1e-6,
    observed=40,
    expected=3.5,
    rows=200,
    horizon=HALF_HOUR,
    began=NOON - HALF_HOUR,
    rate_before=0.01,
    rate_now=0.2,
)
TICK = tick(
    FINDING,
    outcomes=(OutcomeCount("pay", 50, 12.5), OutcomeCount("seat", 10, 9.0)),
    delta=1e-9,
    edges=(Edge("airline=AC", "pay", 0.7), Edge("office=BKK", "seat", -0.2)),
    unexplained={"pay": 0.25},
    seconds={"learn": 1.25, "score": 0.05},
)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"least_monitor_{name}", labels)


def samples(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels[k] for k in sorted(sample.labels)): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == f"least_monitor_{name}"
    }


def incident(name: str, state: State) -> Incident:
    return Incident(name, state, NOON, NOON, NOON, FINDING, FINDING)


def busy() -> Metrics:
    metrics = Metrics(false_alarms_per_week=1)
    metrics.started(NOON)
    metrics.ingested(1000, late=3)
    metrics.rejected([Rejected("bad_time", "x.csv:3", "no zone", 4)])
    metrics.watermark(NOON, NOON + timedelta(minutes=5))
    metrics.observe(TICK)
    metrics.incidents([incident("a", State.OPEN), incident("b", State.ACKNOWLEDGED)])
    metrics.changed(Change.OPENED)
    metrics.notified("log", "sent")
    metrics.outbox({("log", "pending"): 2})
    metrics.labelled("false")
    metrics.tick_missed()
    metrics.tick_overrun()
    return metrics


def test_a_tick_can_be_read_off_the_metrics() -> None:
    metrics = busy()
    assert value(metrics, "events_total", result="accepted") == 997
    assert value(metrics, "events_total", result="late") == 3
    assert value(metrics, "events_total", result="rejected") == 4
    assert value(metrics, "rejected_total", reason="bad_time") == 4
    assert value(metrics, "errors_total", outcome="pay") == 50
    assert value(metrics, "expected_errors_total", outcome="pay") == 12.5
    assert value(metrics, "first_attempt_success_ratio") == 0.94
    assert value(metrics, "watermark_timestamp_seconds") == NOON.timestamp()
    assert value(metrics, "slice_lag_seconds") == 300
    assert value(metrics, "tick_stage_seconds_sum", stage="learn") == 1.25
    assert value(metrics, "fit_delta") == 1e-9
    assert value(metrics, "fit_status", status="converged") == 1
    assert value(metrics, "fit_status", status="max_steps") == 0
    assert value(metrics, "graph_edges") == 2
    assert value(metrics, "unexplained_ratio", outcome="pay") == 0.25
    assert value(metrics, "incidents", state="open") == 1
    assert value(metrics, "incidents", state="acknowledged") == 1
    assert value(metrics, "incident_changes_total", change="opened") == 1
    assert value(metrics, "false_alarms_budget_per_week") == 1
    assert value(metrics, "incidents_labelled_total", verdict="false") == 1
    assert value(metrics, "ticks_missed_total") == value(metrics, "ticks_overrun_total") == 1
    assert value(metrics, "outbox_notifications", notifier="log", status="pending") == 2


def test_counters_grow_with_every_tick_and_gauges_show_the_last() -> None:
    metrics = Metrics()
    metrics.observe(TICK)
    metrics.observe(replace(TICK, outcomes=(OutcomeCount("pay", 3, 12.5),)))
    assert value(metrics, "ticks_total") == 2
    assert value(metrics, "errors_total", outcome="pay") == 53
    assert value(metrics, "slice_errors", outcome="pay") == 3


def test_series_of_what_is_gone_are_gone_at_the_next_scrape() -> None:
    metrics = Metrics()
    metrics.observe(TICK)
    assert len(samples(metrics, "graph_edge_weight")) == 2
    assert list(samples(metrics, "finding_score").values()) == [12.5]
    metrics.observe(replace(TICK, edges=(), findings=()))
    assert samples(metrics, "graph_edge_weight") == {}
    assert samples(metrics, "graph_node_strength") == {}
    assert samples(metrics, "finding_score") == {}


def test_a_path_keeps_its_id_from_tick_to_tick_and_process_to_process() -> None:
    first, second = Metrics(), Metrics()
    first.observe(TICK)
    stronger = replace(FINDING, score=99.0, path=("airline=AC", "fare=3", "pay"))
    second.observe(replace(TICK, findings=(stronger,)))
    assert samples(first, "finding_score").keys() == samples(second, "finding_score").keys()


names = st.sampled_from(["airline=AC", "airline=LH", "office=BKK", "code=E1", "pay", "seat"])


@given(st.lists(st.builds(Edge, names, names, st.floats(-1, 1)), max_size=12, unique_by=str))
def test_both_ends_of_every_edge_are_among_the_nodes(edges: list[Edge]) -> None:
    # Grafana's node graph panel crashes otherwise.
    metrics = Metrics(top=5)
    unique = tuple({(e.source, e.target): e for e in edges}.values())
    metrics.observe(replace(TICK, edges=unique))
    drawn = samples(metrics, "graph_edge_weight")
    nodes = {node for node, _, _ in samples(metrics, "graph_node_strength")}
    assert len(drawn) == min(5, len(unique))
    assert {end for _, *ends in drawn for end in ends} == nodes


def test_of_many_edges_those_on_reported_paths_are_shown_first() -> None:
    many = tuple(Edge(f"office=O{i}", "seat", 0.9) for i in range(100))
    metrics = Metrics(top=3)
    metrics.observe(replace(TICK, edges=(*many, Edge("airline=AC", "pay", 0.01))))
    weights = sorted(samples(metrics, "graph_edge_weight").values())
    assert weights == [0.01, 0.9, 0.9]


def test_values_of_the_watched_log_cannot_break_the_exposition() -> None:
    metrics = Metrics()
    nasty = 'airline=A"C\n# TYPE x\\'
    metrics.observe(replace(TICK, edges=(Edge(nasty, "pay", 0.5),)))
    text = generate_latest(metrics.registry).decode()
    titles = [
        sample.labels["title"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "least_monitor_graph_node_strength"
    ]
    assert 'A"C\n# TYPE x\\' in titles


def test_an_empty_slice_has_no_success_ratio() -> None:
    metrics = Metrics()
    metrics.observe(replace(TICK, rows=0, clean_rows=0, gap=True))
    assert value(metrics, "first_attempt_success_ratio") is None
    assert value(metrics, "data_gap") == 1


def test_before_the_first_tick_nothing_is_invented() -> None:
    metrics = Metrics()
    assert value(metrics, "ticks_total") == 0
    assert samples(metrics, "slice_errors") == {}
    assert value(metrics, "last_tick_timestamp_seconds") is None


def test_a_scrape_never_sees_half_a_tick() -> None:
    metrics = Metrics()
    ticks = [
        replace(TICK, nodes=n, edges=tuple(Edge(f"a={i}", "pay", 0.5) for i in range(n)))
        for n in (3, 40)
    ]
    metrics.observe(ticks[0])
    running = threading.Event()
    done = threading.Event()

    def keep_ticking() -> None:
        while not done.is_set():
            for one in ticks:
                metrics.observe(one)
            running.set()

    thread = threading.Thread(target=keep_ticking)
    thread.start()
    running.wait()
    pairs = set()
    for _ in range(30):
        families = {f.name: f for f in metrics.registry.collect()}
        nodes = families["least_monitor_graph_nodes"].samples[0].value
        pairs.add((nodes, len(families["least_monitor_graph_edge_weight"].samples)))
    done.set()
    thread.join()
    assert pairs <= {(3.0, 3), (40.0, 40)}


@pytest.mark.service
def test_promtool_finds_nothing_to_say() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        cannot("promtool is not installed (Debian package prometheus)")
    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=generate_latest(busy().registry),
        capture_output=True,
        check=False,
    )
    assert checked.stdout + checked.stderr == b""
    assert checked.returncode == 0


def test_the_worst_incidents_have_series_of_their_own_by_id_and_no_more_than_the_top() -> None:
    many = Metrics(top=2)
    worse = replace(FINDING, observed=400, rate_now=0.9)
    many.incidents(
        [
            incident("small", State.OPEN),
            replace(incident("large", State.OPEN), latest=worse),
            replace(incident("bad", State.ACKNOWLEDGED), severity=Severity.CRITICAL),
        ]
    )
    assert value(many, "incident_severity", incident="bad", outcome="pay") == 2
    assert value(many, "incident_excess_errors", incident="large", outcome="pay") == 396.5
    assert value(many, "incident_error_ratio", incident="large", outcome="pay") == 0.9
    assert value(many, "incident_opened_timestamp_seconds", incident="small", outcome="pay") is None
    assert value(many, "incidents", state="open") == 2
    assert value(many, "unresolved_incidents", severity="critical") == 1
    many.incidents(
        [
            incident("small", State.OPEN),
            incident("hushed", State.OPEN),
            incident("planned", State.OPEN),
            incident("taken", State.ACKNOWLEDGED),
        ],
        {"hushed": "silenced", "planned": "maintenance", "taken": "silenced"},
    )
    states = ("open", "silenced", "maintenance", "acknowledged")
    assert [value(many, "incidents", state=state) for state in states] == [1, 1, 1, 1]
    many.incidents([])
    assert value(many, "incident_severity", incident="bad", outcome="pay") is None


def test_labels_feed_the_precision_and_every_tick_a_share_of_the_budget() -> None:
    metrics = Metrics(false_alarms_per_week=7, slice_length=HALF_HOUR)
    metrics.judged(["true", "true", "true", "false", "expected"])
    assert value(metrics, "precision_ratio") == 0.75
    assert value(metrics, "labels", verdict="expected") == 1
    for _ in range(48):
        metrics.observe(TICK)
    metrics.observe(replace(TICK, learning=True))
    allowed = value(metrics, "expected_false_alarms_total")
    assert allowed == pytest.approx(1.0), "one a day"
    assert value(metrics, "outcome_success_ratio", outcome="pay") == 0.95
    metrics.silenced(3)
    assert value(metrics, "silences") == 3

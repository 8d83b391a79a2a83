"""Alert rules and dashboards, held against a real Prometheus that scrapes our metrics."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import prometheus as prometheus_query
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client import generate_latest

from dashboards.generate import FOLDER, generate
from monitor.cli import app
from monitor.domain import (
    Cause,
    Change,
    Diagnosis,
    Edge,
    Finding,
    Incident,
    Method,
    Misfit,
    OutcomeCount,
    Rejected,
    State,
)
from monitor.edge.metrics import Metrics
from monitor.edge.source import Flow, PartitionStatus, SourceStatus
from monitor.edge.store import Trouble
from tests.services.brokers import cannot

ROOT = Path(__file__).parents[2]
RULES = ROOT / "rules" / "least-monitor.rules.yml"
RUNBOOKS = ROOT / "docs" / "runbooks"
DASHBOARDS = sorted(FOLDER.glob("*.json"))


def rules(kind: str) -> list[dict[str, Any]]:
    """The rules of one kind: "alert" or "record"."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if kind in rule]


def targets(board: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(panel title, query) of a dashboard, annotations included."""
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target
    for annotation in board["annotations"]["list"]:
        yield annotation["name"], annotation


def tool(name: str) -> str:
    found = shutil.which(name)
    if not found:
        cannot(f"{name} is not at hand: `make tools` brings it on Debian")
    return found


# -- what the daemon exports -------------------------------------------------------------


NOW = datetime.now(UTC).replace(microsecond=0)
FINDING = Finding(
    method=Method.EXCESS,
    outcome="reserve",
    cause=Cause.of(airline="AC"),
    path=("airline=AC", "fare_source=FS03", "reserve"),
    score=42.0,
    p_value=1e-20,
    q_value=1e-9,
    observed=120.0,
    expected=12.0,
    rows=900,
    horizon=timedelta(hours=2),
    began=NOW - timedelta(hours=2),
    rate_before=0.01,
    rate_now=0.13,
)
TICK = Diagnosis(
    at=NOW - timedelta(minutes=20),
    rows=8000,
    clean_rows=7700,
    outcomes=(OutcomeCount("reserve", 150, 80.0), OutcomeCount("pay", 30, 31.0)),
    learning=False,
    gap=False,
    fit_status="converged",
    fit_steps=20,
    delta=0.0,
    nodes=3,
    rare_nodes=1,
    edges=(
        Edge("airline=AC", "fare_source=FS03", 0.4),
        Edge("fare_source=FS03", "reserve", 0.3),
        Edge("arrival_city=WUH", "pay", -0.1),
    ),
    edges_added=1,
    edges_removed=1,
    paths_truncated=False,
    findings=(FINDING,),
    unexplained={"reserve": 0.1, "pay": 0.0},
    seconds={"learn": 0.4, "search": 0.1},
    misfits=(Misfit("vanished", "fare_source", "attribute `fare_source` is gone"),),
)


def tick(metrics: Metrics, at: datetime) -> None:
    """Everything that can happen, happens a few times."""
    for _ in range(30):
        metrics.observe(replace(TICK, at=at))
    incident = Incident("abc", State.OPEN, NOW, NOW, NOW, FINDING, FINDING)
    metrics.incidents([incident, replace(incident, id="d", state=State.ACKNOWLEDGED)])
    metrics.changed(Change.OPENED)
    metrics.labelled("true")
    metrics.judged(["true", "true", "false"])
    metrics.silenced(1)
    metrics.ingested(8000, late=3)
    metrics.rejected([Rejected("bad_time", "x.jsonl:3", "no zone", 2)])
    metrics.notified("webhook", "sent")
    metrics.outbox({("webhook", "pending"): 1, ("webhook", "parked"): 1})
    metrics.tick_missed()
    metrics.tick_overrun()
    metrics.leads(True)
    metrics.store(Trouble.LOCKED)
    metrics.store(None)
    metrics.damaged(0)
    partition = PartitionStatus("bookings", 0, 8000, 5, at, idle=False)
    metrics.source(SourceStatus(Flow.READING, "", (partition,), 2_000_000, 0, {"bad_time": 2}))
    metrics.watermark(at, at + timedelta(minutes=25))


def exported_names() -> set[str]:
    metrics = Metrics(false_alarms_per_week=3)
    metrics.started(NOW)
    tick(metrics, NOW)
    text = generate_latest(metrics.registry).decode()
    return set(re.findall(r"^(?:# TYPE )?([a-z][a-zA-Z0-9_:]*)", text, re.M))


def named(expression: str) -> set[str]:
    return set(re.findall(r"\bleast_monitor[_:][a-z0-9_:]+", expression))


# -- files against files ---------------------------------------------------------------


def test_every_metric_in_rules_and_dashboards_exists() -> None:
    known = exported_names() | {rule["record"] for rule in rules("record")}
    used = {name for rule in rules("alert") + rules("record") for name in named(rule["expr"])}
    for path in DASHBOARDS:
        for _, target in targets(json.loads(path.read_text())):
            used |= named(target["expr"])
    assert len(used) > 30
    assert used - known == set()


def test_every_alert_has_its_runbook_and_every_runbook_its_alert() -> None:
    alerts = {rule["alert"] for rule in rules("alert")}
    for rule in rules("alert"):
        assert rule["annotations"]["runbook_url"].endswith(f"/{rule['alert']}.md")
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert {"summary", "description"} <= rule["annotations"].keys()
    pages = {path.stem for path in RUNBOOKS.glob("LeastMonitor*.md")}
    assert pages == alerts


def test_runbooks_link_to_pages_that_exist() -> None:
    pages = sorted(RUNBOOKS.glob("*.md"))
    links = [(p, link) for p in pages for link in re.findall(r"\]\(([\w-]+\.md)\)", p.read_text())]
    assert links
    assert [str(link) for page, link in links if not (page.parent / link).exists()] == []


def test_runbooks_speak_of_metrics_that_exist() -> None:
    known = exported_names()
    spoken = {n for p in RUNBOOKS.glob("*.md") for n in named(p.read_text())}
    assert spoken
    assert spoken - known == set()


def test_runbooks_speak_of_settings_that_exist() -> None:
    reference = (ROOT / "docs" / "configuration.md").read_text()
    sections = set(re.findall(r"^## `\[\[?([\w.]+)\]?\]`", reference, re.M))
    settings = set(re.findall(r"^\| `(\w+)` \|", reference, re.M))
    pattern = rf"`(?:{'|'.join(sections)})\.(\w+)`"
    spoken = {name for p in RUNBOOKS.glob("*.md") for name in re.findall(pattern, p.read_text())}
    assert len(spoken) > 5
    assert spoken - settings == set()


def test_runbooks_speak_of_commands_that_exist() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    known |= {str(group.name) for group in app.registered_groups}
    spoken = {
        name
        for p in RUNBOOKS.glob("*.md")
        for name in re.findall(r"`least-monitor ([a-z][a-z-]+)", p.read_text())
    }
    assert spoken
    assert spoken - {name.replace("_", "-") for name in known} == set()


def test_committed_dashboards_are_what_the_code_makes() -> None:
    made = generate()
    assert {path.name for path in DASHBOARDS} == made.keys()
    for path in DASHBOARDS:
        assert path.read_text(encoding="utf-8") == made[path.name], "run `make dashboards`"


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_can_be_provisioned(path: Path) -> None:
    board = json.loads(path.read_text())
    assert board["schemaVersion"] == 41
    assert board["uid"] == f"least-monitor-{path.stem}"
    variables = {v["name"] for v in board["templating"]["list"]}
    assert variables == {"datasource", "instance", "console"}
    used = set(re.findall(r"\$\{?(\w+)", path.read_text())) - {"__all", "__value"}
    assert used <= variables
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    cells = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        area = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not area & cells, f"{panel['title']} lies over another panel"
        cells |= area
        refs = [target["refId"] for target in panel["targets"]]
        assert len(refs) == len(set(refs))


def kept(ours: Any, theirs: Any, place: str = "") -> Iterator[str]:
    """Where what the SDK understood differs from what we wrote; its defaults may come on top."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from kept(value, theirs.get(key, "lost"), f"{place}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from kept(one, other, f"{place}[{i}]")
    elif ours != theirs:
        yield f"{place}: {ours!r} became {theirs!r}"


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_the_sdk_reads_a_dashboard_as_it_was_meant(path: Path) -> None:
    """Its types of Grafana 11.6, of panels and of queries, know every field that we use."""
    register_default_plugins()
    board = json.loads(path.read_text())
    understood = Dashboard.from_json(board)
    again = json.loads(JSONEncoder(sort_keys=True).encode(understood))
    assert list(kept(board, again)) == []
    queries = [t for panel in understood.panels or [] for t in panel.targets or []]  # type: ignore[union-attr]
    assert len(queries) > 5
    assert {type(query) for query in queries} == {prometheus_query.Dataquery}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_the_manual_has_a_picture_of_every_panel(path: Path) -> None:
    picture = ElementTree.parse(ROOT / "docs" / "pictures" / f"{path.stem}.svg")
    words = {element.text for element in picture.iter() if element.get("class") == "title"}
    assert words == {panel["title"] for panel in json.loads(path.read_text())["panels"]}, (
        "run: python -m dashboards.pictures"
    )


def test_provisioning_files_agree_with_the_dashboards() -> None:
    provisioning = ROOT / "dashboards" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "least-monitor.yml").read_text())[
        "datasources"
    ]
    assert source["type"] == "prometheus"
    assert source["uid"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "least-monitor.yml").read_text())[
        "providers"
    ]
    assert provider["type"] == "file"
    assert provider["options"]["foldersFromFilesStructure"]


# -- promtool ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "rules/least-monitor.rules.yml"),
        ("check", "config", "rules/prometheus.yml"),
        ("test", "rules", "rules/least-monitor_test.yml"),
        ("test", "rules", "rules/least-monitor_weeks_test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_agrees(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [tool("promtool"), *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_seen_to_fire_and_not_to_fire() -> None:
    files = sorted((ROOT / "rules").glob("*_test.yml"))
    cases = [case for file in files for case in yaml.safe_load(file.read_text())["tests"]]
    fired: set[str] = set()
    quiet = 0
    for case in cases:
        for check in case.get("promql_expr_test", []):
            if "ALERTS" in check["expr"]:
                quiet += not check["exp_samples"]
                fired |= set(re.findall(r'alertname="(\w+)"', str(check["exp_samples"])))
        for check in case.get("alert_rule_test", []):
            if check["exp_alerts"]:
                fired.add(check["alertname"])
    assert fired == {rule["alert"] for rule in rules("alert")}
    # The silent ones: no expression may fire in a healthy day, and each scenario is exact.
    assert quiet >= 8


# -- a real Prometheus -------------------------------------------------------------------


@dataclass(frozen=True)
class Prometheus:
    url: str

    def get(self, path: str, **arguments: str) -> Any:
        query = urllib.parse.urlencode(arguments)
        try:
            with urllib.request.urlopen(f"{self.url}{path}?{query}", timeout=10) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as refusal:
            raise AssertionError(f"{arguments}: {refusal.read().decode()}") from None

    def query(self, expression: str) -> list[dict[str, Any]]:
        return self.get("/api/v1/query", query=expression)["result"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def exporter() -> Iterator[int]:
    """Our metrics over HTTP; every scrape finds one more tick."""
    metrics = Metrics(false_alarms_per_week=3)
    metrics.started(NOW)

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tick(metrics, datetime.now(UTC) - timedelta(minutes=20))
            body = generate_latest(metrics.registry)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def prometheus(exporter: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load((ROOT / "rules" / "prometheus.yml").read_text())
    config["global"] |= {"scrape_interval": "500ms", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{exporter}"]
    config["scrape_configs"][0]["scrape_timeout"] = "500ms"
    config["rule_files"] = [str(folder / RULES.name)]
    del config["alerting"]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    # The recordings are evaluated once a minute in earnest; a test has seconds.
    (folder / RULES.name).write_text(RULES.read_text().replace("interval: 1m", "interval: 1s"))
    port = free_port()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                tool("prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    running = Prometheus(f"http://127.0.0.1:{port}")
    try:
        deadline = time.monotonic() + 30
        while True:
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            try:
                if running.query("count_over_time(least_monitor_ticks_total[1m]) >= 4") and (
                    running.query("least_monitor:precision:ratio4w")
                ):
                    break
            except OSError:
                pass  # not up yet
            time.sleep(0.2)
        yield running
    finally:
        process.terminate()
        process.wait(10)


def prepared(expression: str) -> str:
    """What Grafana sends after it has filled in the variables."""
    return expression.replace("$instance", ".*").replace("[5m]", "[1m]")


@pytest.mark.service
def test_every_dashboard_expression_returns_data(prometheus: Prometheus) -> None:
    empty, table = [], []
    expressions = [
        (path.stem, title, target["expr"])
        for path in DASHBOARDS
        for title, target in targets(json.loads(path.read_text()))
    ]
    expressions += [("rules", rule["record"], rule["record"]) for rule in rules("record")]
    for place, title, expression in expressions:
        found = prometheus.query(prepared(expression))
        table.append(f"{place:15} {title:45.45} {len(found):3} series")
        if not found:
            empty.append(f"{place}: {title}: {expression}")
    for rule in rules("alert"):
        # An alert's expression is empty while all is well; what it looks at must be there.
        found = prometheus.query(prepared(rule["expr"]))
        said = f"{len(found):3} series" if found else "empty while all is well, as meant"
        table.append(f"{'alert':15} {rule['alert']:45.45} {said}")
        for name in named(rule["expr"]):
            if not prometheus.query(name):
                empty.append(f"alert {rule['alert']}: {name}")
    print("\n".join(table))
    assert len(table) > 40
    assert empty == []


@pytest.mark.service
def test_the_graph_panel_never_meets_an_edge_without_its_nodes(prometheus: Prometheus) -> None:
    board = json.loads((FOLDER / "root-causes.json").read_text())
    frames = {
        target["refId"]: [r["metric"] for r in prometheus.query(prepared(target["expr"]))]
        for panel in board["panels"]
        if panel["type"] == "nodeGraph"
        for target in panel["targets"]
    }
    assert {"id", "source", "target", "mainstat"} <= frames["edges"][0].keys()
    assert {"id", "title", "subtitle", "mainstat"} <= frames["nodes"][0].keys()
    nodes = {node["id"] for node in frames["nodes"]}
    assert len(frames["edges"]) == len(TICK.edges)
    assert {end for e in frames["edges"] for end in (e["source"], e["target"])} == nodes
    assert {node["title"] for node in frames["nodes"]} >= {"AC", "FS03", "reserve", "WUH"}


@pytest.mark.service
def test_every_rule_evaluates_and_every_recording_has_data(prometheus: Prometheus) -> None:
    groups = prometheus.get("/api/v1/rules")["groups"]
    troubled = {r["name"]: r["lastError"] for g in groups for r in g["rules"] if r.get("lastError")}
    assert troubled == {}
    assert sum(len(g["rules"]) for g in groups) == len(rules("alert") + rules("record"))
    silent = [rule["record"] for rule in rules("record") if not prometheus.query(rule["record"])]
    assert silent == []


@pytest.mark.service
def test_an_open_incident_raises_the_alert(prometheus: Prometheus) -> None:
    alerts = {a["labels"]["alertname"]: a for a in prometheus.get("/api/v1/alerts")["alerts"]}
    assert alerts["LeastMonitorIncidentOpen"]["state"] == "firing"
    assert alerts["LeastMonitorIncidentOpen"]["annotations"]["runbook_url"] == (
        "https://wiki.example.org/least-monitor/runbooks/LeastMonitorIncidentOpen.md"
    )
    assert "LeastMonitorDown" not in alerts

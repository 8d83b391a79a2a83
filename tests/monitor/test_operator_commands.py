"""Operators at a terminal: `incidents`, `explain`, `graph`, `notify-test`."""

from __future__ import annotations

import json
import re
import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from typer.testing import CliRunner, Result

from monitor.cli import app
from monitor.commands.graph import dot
from monitor.domain import (
    Cause,
    Edge,
    Incident,
    Method,
    Severity,
    State,
)
from monitor.edge import documents
from monitor.edge.store import LATEST_DIAGNOSIS, Verdict, Work, open_store, worst_first
from tests.samples import finding, tick

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

FINDING = finding(
    chain=(Cause(), Cause.of(airline="AC")),
    codes=("E17",),
    runners_up=((Cause.of(office="BKK [bold]"), 60.0),),
)
TICK = tick(
    FINDING,
    edges=(Edge("fare=3", "reserve", -0.4), Edge("airline=AC", "fare=3", 0.7)),
)
OPENED = Incident(
    id="a1b2c3d4e5",
    state=State.OPEN,
    opened_at=NOON,
    updated_at=NOON,
    last_seen_at=NOON + HOUR,
    finding=FINDING,
    latest=replace(FINDING, observed=300),
    causes=(FINDING.cause,),
)
CONFIG = """
[source]
paths = ["*.csv"]
[schema]
time = { column = "at", zone = "UTC" }
attributes = [{ name = "airline" }]
outcomes = [{ name = "reserve", when = 'failed == "reserve"' }]
[store]
url = "STORE"
"""


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'monitor.db'}"
    store = open_store(url)
    ended = replace(
        OPENED, id="ffff", opened_at=NOON - 9 * HOUR, state=State.RESOLVED, resolved_at=NOON - HOUR
    )
    compared = replace(OPENED, id="paper1", finding=replace(FINDING, method=Method.PAPER))
    store.commit(
        Work(
            incidents=(OPENED, ended, compared),
            state={LATEST_DIAGNOSIS: documents.dumps(documents.diagnosis_document(TICK))},
        )
    )
    store.label("ffff", Verdict.FALSE, NOON, "maria", "a test booking")
    store.close()
    return url


def least_monitor(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_incidents_are_listed_what_is_open_first(store_url: str) -> None:
    shown = least_monitor("incidents", "--store", store_url, "--all-methods")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    rows = [line for line in lines if "reserve" in line]
    assert [row.split()[0] for row in rows] == ["paper1", "a1b2c3d4e5", "ffff"]
    assert "airline AC" in rows[1]
    assert "opened (UTC)" in shown.stdout
    assert "2026-03-01 12:00" in rows[1]
    assert "440" in rows[1]


def test_at_80_columns_id_age_and_cause_are_whole(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    from monitor.commands import incidents

    monkeypatch.setattr(incidents, "wide_terminal", lambda: Console(width=80))
    lines = least_monitor("incidents", "--store", store_url, "--all-methods").stdout.splitlines()
    rows = [line for line in lines if "airline AC" in line]
    assert [row.split()[0] for row in rows] == ["paper1", "a1b2c3d4e5", "ffff"]
    assert all(re.search(r"(min|h|days) ago|just now|in \d", row) for row in rows)
    assert max(map(len, lines)) <= 80


def test_the_worst_lead_every_list() -> None:
    shown = [
        replace(OPENED, id=name, severity=severity, state=state, opened_at=NOON + hours * HOUR)
        for name, severity, state, hours in (
            ("old", Severity.CRITICAL, State.OPEN, 0),
            ("over", Severity.CRITICAL, State.RESOLVED, 9),
            ("mild", Severity.INFO, State.OPEN, 5),
            ("taken", Severity.CRITICAL, State.ACKNOWLEDGED, 1),
            ("bad", Severity.WARNING, State.OPEN, 2),
        )
    ]
    assert [i.id for i in worst_first(shown)] == ["taken", "old", "bad", "mild", "over"]


def test_incidents_for_programs_come_whole(store_url: str) -> None:
    shown = least_monitor("incidents", "--store", store_url, "--state", "open", "--json")
    found = json.loads(shown.stdout)["incidents"]
    assert documents.incident_from(found[-1]) == OPENED


def test_a_configuration_knows_the_store_and_the_method(store_url: str, tmp_path: Path) -> None:
    config = tmp_path / "monitor.toml"
    config.write_text(CONFIG.replace("STORE", store_url))
    shown = least_monitor("incidents", "-c", str(config), "--json")
    assert shown.exit_code == 0, shown.output
    ids = [i["id"] for i in json.loads(shown.stdout)["incidents"]]
    assert ids == ["a1b2c3d4e5", "ffff"]


@pytest.mark.parametrize(
    ("since", "ids"),
    [
        ("2026-03-01T12:00Z", ["paper1", "a1b2c3d4e5"]),
        ("2026-03-01", ["paper1", "a1b2c3d4e5", "ffff"]),
        ("1d", ["paper1", "a1b2c3d4e5"]),
    ],
)
def test_incidents_since(store_url: str, since: str, ids: list[str]) -> None:
    shown = least_monitor("incidents", "--store", store_url, "--since", since, "--json")
    assert [i["id"] for i in json.loads(shown.stdout)["incidents"]] == ids


def test_explain_tells_the_whole_story(store_url: str) -> None:
    shown = least_monitor("explain", "ffff", "--store", store_url)
    assert shown.exit_code == 0
    for words in (
        "reserve fails: airline AC",
        "airline=AC",
        "└─▶ fare=3",
        "2e-40",
        "office BKK [bold]",
        "← named",
        "lasted 8 h",
        "judged",
        "labelled false by maria: a test booking",
        "E17",
    ):
        assert words in shown.stdout
    counts = next(line for line in shown.stdout.splitlines() if "failures" in line)
    assert counts.split()[-2:] == ["440", "300"]


def test_explain_for_programs_is_what_the_server_says(store_url: str) -> None:
    shown = json.loads(least_monitor("explain", "a1b2", "--store", store_url, "--json").stdout)
    assert documents.incident_from(shown) == OPENED
    assert [entry["kind"] for entry in shown["audit"]] == ["opened"]


def test_the_graph_shows_the_strongest_edges_first(store_url: str) -> None:
    shown = least_monitor("graph", "--store", store_url)
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert rows.index(["airline=AC", "fare=3", "0.700"]) < rows.index(
        ["fare=3", "reserve", "-0.400"]
    )
    whole = json.loads(least_monitor("graph", "--store", store_url, "--json").stdout)
    assert len(whole["edges"]) == 2


def test_the_graph_for_graphviz_survives_any_value() -> None:
    text = dot([Edge('airline="X\\\n}', "reserve", 0.5)], ["reserve", "pay"])
    assert text.splitlines() == [
        "digraph least {",
        "  rankdir=LR;",
        "  node [shape=ellipse];",
        '  "reserve" [shape=box];',
        '  "airline=\\"X\\\\ }" -> "reserve" [label="0.50", penwidth=2.00];',
        "}",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["incidents"], 2, "either -c CONFIG, --api"),
        (["incidents", "--store", "/nowhere/x.db"], 1, "no store at /nowhere/x.db"),
        (["explain", "zz", "--store", "URL"], 1, "no incident 'zz'"),
        (["incidents", "--store", "URL", "--since", "noon"], 2, "no time"),
        (["graph", "--store", "URL", "--json", "--dot"], 2, "not both"),
    ],
)
def test_mistakes_are_explained(
    store_url: str, arguments: list[str], code: int, complaint: str
) -> None:
    shown = least_monitor(*(store_url if a == "URL" else a for a in arguments))
    assert shown.exit_code == code
    assert complaint in " ".join(shown.output.split())


def test_a_store_without_ticks_has_no_graph(tmp_path: Path) -> None:
    url = str(tmp_path / "fresh.db")
    open_store(url).close()
    shown = least_monitor("graph", "--store", url)
    assert (shown.exit_code, "no tick yet" in shown.output) == (1, True)
    assert least_monitor("incidents", "--store", url).stdout == "no incidents\n"


def test_notify_test_says_what_arrived_and_what_did_not(tmp_path: Path) -> None:
    config = tmp_path / "monitor.toml"
    config.write_text(
        CONFIG.replace("STORE", "sqlite:///x.db")
        + '[[notifiers]]\nkind = "log"\n'
        + '[[notifiers]]\nkind = "webhook"\nurl = "http://127.0.0.1:9/hook"\n'
    )
    shown = least_monitor("notify-test", "-c", str(config))
    assert shown.exit_code == 1, shown.output
    assert "TEST is failing: notifier test" in shown.output
    assert "1-log: arrived" in shown.output
    assert "2-webhook: http://127.0.0.1:9/…: " in shown.output
    assert least_monitor("notify-test", "-c", str(config), "--notifier", "1-log").exit_code == 0
    assert least_monitor("notify-test", "-c", str(config), "--notifier", "x").exit_code == 2


def test_notify_test_reaches_alertmanager_and_a_mailbox_with_links_for_people(
    tmp_path: Path,
) -> None:
    posted: list[tuple[str, list[dict[str, Any]]]] = []
    mails: list[str] = []

    class Alertmanager(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append((self.path, json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    class Mailbox:
        async def handle_DATA(self, *arguments: Any) -> str:  # noqa: N802
            mails.append(arguments[-1].content.decode())
            return "250 OK"

    with socket.create_server(("127.0.0.1", 0)) as free:
        mail_port = free.getsockname()[1]
    post_office = Controller(Mailbox(), hostname="127.0.0.1", port=mail_port)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Alertmanager)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    post_office.start()
    config = tmp_path / "monitor.toml"
    config.write_text(
        CONFIG.replace("STORE", "sqlite:///x.db")
        + '[http]\npublic_url = "https://monitor.example.org/"\n'
        + f'[[notifiers]]\nkind = "alertmanager"\nurls = "http://127.0.0.1:{server.server_port}"\n'
        + 'labels = { severity = "page" }\nrunbook_url = "https://wiki.example.org/x"\n'
        + f'[[notifiers]]\nkind = "email"\nhost = "127.0.0.1"\nport = {mail_port}\n'
        + 'security = "none"\nsender = "monitor@example.org"\nrecipients = "ops@example.org"\n'
    )
    try:
        shown = least_monitor("notify-test", "-c", str(config))
    finally:
        post_office.stop()
        server.shutdown()
        server.server_close()
    assert shown.exit_code == 0, shown.output
    assert "1-alertmanager: arrived" in shown.output
    assert "2-email: arrived" in shown.output
    (path, (opened,)), (_, (ended,)) = posted
    assert path == "/api/v2/alerts"
    assert opened["labels"] == ended["labels"]
    assert opened["labels"]["severity"] == "page"
    assert opened["annotations"]["runbook_url"] == "https://wiki.example.org/x"
    link = opened["generatorURL"]
    assert link.startswith("https://monitor.example.org/incidents/test-")
    assert [link in mail for mail in mails] == [True, True]


def test_an_operator_takes_an_incident_on_and_judges_it(store_url: str) -> None:
    taken = least_monitor(
        "acknowledge", "a1b2", "--note", "called AC", "--by", "maria", "--store", store_url
    )
    assert (taken.exit_code, taken.stdout) == (0, "a1b2c3d4e5 is acknowledged by maria\n")
    judged = least_monitor("label", "a1b2", "false", "--by", "maria", "--store", store_url)
    assert judged.stdout == "a1b2c3d4e5 is judged false by maria\n"
    store = open_store(store_url)
    assert store.incident("a1b2c3d4e5").state is State.ACKNOWLEDGED
    assert store.labels()["a1b2c3d4e5"] is Verdict.FALSE
    kinds = [(a.kind, a.actor, a.note) for a in store.audit("a1b2c3d4e5")][-2:]
    assert kinds == [("acknowledged", "maria", "called AC"), ("labelled_false", "maria", "")]
    store.close()
    over = least_monitor("acknowledge", "ffff", "--store", store_url)
    assert over.exit_code == 1
    assert "resolved" in over.output
    assert least_monitor("label", "nobody", "true", "--store", store_url).exit_code == 1
    assert least_monitor("label", "a1b2", "perhaps", "--store", store_url).exit_code == 2


def test_a_silence_shows_what_it_would_have_matched_before_it_is_made(
    store_url: str, tmp_path: Path
) -> None:
    asked = ("silence", "add", "airline=AC", "--for", "2h", "--store", store_url)
    shown = least_monitor(*asked, "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "matches a1b2c3d4e5: reserve fails, airline AC" in shown.stdout
    assert least_monitor("silence", "list", "--store", store_url).stdout == "no silences\n"
    none = least_monitor(
        "silence", "add", "airline=A", "--for", "2h", "--store", store_url, "--dry-run"
    )
    assert "it matches no incident on record" in none.stdout
    config = tmp_path / "monitor.toml"
    config.write_text(CONFIG.replace("STORE", store_url))
    wrong = least_monitor("silence", "add", "carrier=AC", "--for", "2h", "-c", str(config))
    assert wrong.exit_code == 2
    assert "no incident has a 'carrier'" in " ".join(wrong.output.replace("│", " ").split())
    made = least_monitor(*asked)
    assert "silence " in made.stdout

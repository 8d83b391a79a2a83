"""One request, one row of the store: whatever it holds, the daemon goes on, also when restarted."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
from starlette.testclient import TestClient

from monitor.domain import Cause, Change, Notification
from monitor.edge.http import make_app
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.silences import Silence, Silencer, hushed
from monitor.edge.status import LiveState, Status
from monitor.edge.store import Store, Work, open_store
from monitor.edge.store.memory import MemoryStore
from monitor.matching import Matcher, MatcherError
from tests.contracts.receivers import FINDING, INCIDENT, NOON, Told

HOUR = timedelta(hours=1)
BEARER = {"Authorization": "Bearer s3cret"}
EDGES = ("0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59")


@pytest.fixture(params=["memory:", "s.db"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = request.param if request.param == "memory:" else f"sqlite:///{tmp_path / request.param}"
    opened = open_store(url)
    opened.take_lease()
    yield opened
    opened.close()


def ask(store: Store) -> TestClient:
    state = LiveState(store, Metrics(), Status(stage=""))
    return TestClient(make_app(state, token="s3cret"), base_url="http://localhost")


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("field", ["starts_at", "ends_at"])
def test_a_silence_at_the_end_of_the_calendar_is_refused_and_leaves_nothing(
    store: Store, edge: str, field: str
) -> None:
    ends = (datetime.now(UTC) + HOUR).isoformat()
    body = {"actor": "x", "match": ["a=b"], "ends_at": ends} | {field: edge}
    with ask(store) as client:
        answer = client.post("/api/v1/silences", json=body, headers=BEARER)
        assert (answer.status_code, store.silences()) == (422, [])
        for query in ("since", "until"):
            asked = client.get("/api/v1/incidents", params={query: edge})
            assert asked.status_code in (400, 422)


def test_a_row_beyond_the_calendar_does_not_keep_the_others_from_being_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.db"
    store = open_store(f"sqlite:///{path}")
    store.take_lease()
    until = NOON + HOUR
    store.add_silence(Silence.of(["airline=AC"], until, NOON, "maria"))
    with sqlite3.connect(path) as connection:  # as an older release took it in
        connection.execute(
            "insert into silences select 'old', matchers, ?, ends_at, created_at, actor, note, "
            "expired_by from silences",
            (-62135683140000001,),
        )
    connection.close()
    assert {s.id for s in store.silences(active_at=NOON)} >= {"old"}
    told = Told()
    outbox = Outbox(store, [told], now=lambda: until, quiet=Silencer(store))
    news = (Notification(INCIDENT, Change.OPENED, NOON),)
    store.commit(Work(incidents=(INCIDENT,), notifications=news, notifiers=("told",)))
    assert outbox.deliver() == 1
    with ask(store) as client:
        assert client.get("/silences").status_code == 200
        assert client.get("/api/v1/silences").status_code == 200
    store.close()


@pytest.mark.parametrize("pattern", ["([^!]+)+!", "(a|aa)+$", "(.*)*x", "(?:a?){30}a{30}"])
def test_no_regular_expression_holds_the_process_up(pattern: str) -> None:
    value = "a" * 2_000
    incident = replace(INCIDENT, finding=replace(FINDING, cause=Cause.of(app=value)))
    silence = Silence.of([f'app=~"{pattern}"'], NOON + HOUR, NOON, "maria")
    began = time.monotonic()
    hushed(incident, [silence], [], NOON)
    assert time.monotonic() - began < 1


def test_an_expression_still_means_what_it_meant() -> None:
    incident = replace(INCIDENT, finding=replace(FINDING, cause=Cause.of(app="B\n7")))
    for text, holds in (
        ('app=~"B.7"', False),
        ('app=~"(?s)B.7"', True),
        ('app=~"B|C"', False),
        (r'app=~"B\s\d"', True),
        ('app=~"7"', False),
        ('app!~"C|D"', True),
    ):
        assert Matcher.parse(text).holds(incident) is holds, text


@pytest.mark.parametrize("text", ['a=~"a)|(b"', 'a=~"(?=x)y"', r'a=~"(a)\1"', 'a=~"["', 'a=~"\\"'])
def test_what_cannot_be_decided_in_linear_time_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(MatcherError, match="RE2"):
        Matcher.parse(text)


def test_a_stored_silence_that_is_not_understood_any_more_is_told_and_silences_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.db"
    store = open_store(f"sqlite:///{path}")
    store.add_silence(
        Silence.of(["outcome!=none", "airline=AC"], datetime.now(UTC) + HOUR, NOON, "x")
    )
    with sqlite3.connect(path) as connection:
        connection.execute("update silences set matchers = ?", ('["airline!~\\"(?=A)B\\""]',))
    connection.close()
    quiet = Silencer(store)
    with structlog.testing.capture_logs() as logs:
        assert [quiet(INCIDENT, NOON + i * HOUR / 60) for i in range(3)] == [None] * 3
    assert [(line["log_level"], "add it anew" in line["event"]) for line in logs] == [
        ("warning", True)
    ]
    with ask(store) as client:
        (shown,) = client.get("/api/v1/silences").json()["silences"]
        assert shown["match"] == ['airline!~"(?=A)B"']
        assert "RE2" in shown["fault"]
        assert "silences nothing" in client.get("/silences").text
    store.close()


def test_more_than_a_hundred_silences_all_hold(store: Store) -> None:
    first = Silence.of(["airline=AC"], NOON + 9 * HOUR, NOON, "maria")
    store.add_silence(first)
    for n in range(150):
        at = NOON + timedelta(seconds=n)
        store.add_silence(Silence.of([f"airline=X{n}"], NOON + 8 * HOUR, at, "maria"))
    assert len(store.silences(active_at=NOON + HOUR)) == 151
    found = Silencer(store)(INCIDENT, NOON + HOUR)
    assert found is not None
    assert first.id in found[0]


@pytest.mark.parametrize("name", ["least_monitor_session", "least_monitor_theme"])
@pytest.mark.parametrize("path", ["/", "/api/v1/status", "/silences"])
def test_a_cookie_that_is_not_ascii_is_a_bad_request(name: str, path: str) -> None:
    with ask(MemoryStore()) as client:
        cookie = f"{name}=1.2.3.\xe9".encode("latin-1")
        answer = client.get(path, headers=[(b"Cookie", cookie), (b"Accept", b"text/html")])
        assert answer.status_code == 400
        others = client.get(path, headers=[(b"Cookie", b"other=\xe9")])
        assert others.status_code == 200, "of another site on this host"

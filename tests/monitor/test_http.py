"""The daemon over HTTP, asked as browsers, scrapers and programs ask it."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import quote

import httpx2
import pytest
from starlette.testclient import TestClient

from monitor.domain import (
    Cause,
    Change,
    Edge,
    Incident,
    Method,
    Notification,
    OutcomeCount,
    Rejected,
    State,
)
from monitor.edge import documents
from monitor.edge.http import ServeError, make_app, serve
from monitor.edge.metrics import Metrics
from monitor.edge.status import LiveState, Status
from monitor.edge.store import StoreError, Verdict, Work
from monitor.edge.store.memory import MemoryStore
from tests.samples import finding, tick

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BEARER = {"Authorization": "Bearer s3cret"}

FINDING = finding(
    chain=(Cause(), Cause.of(airline="AC")),
    codes=("E17",),
    runners_up=((Cause.of(office="BKK"), 60.0),),
)
TICK = tick(
    FINDING,
    outcomes=(OutcomeCount("reserve", 50, 12.5), OutcomeCount("pay", 10, 9.0)),
    unexplained={"reserve": 0.25},
)


def incident(name: str, at: datetime = NOON, **changes: object) -> Incident:
    usual = Incident(name, State.OPEN, at, at, at, FINDING, FINDING, causes=(FINDING.cause,))
    return replace(usual, **changes)


@pytest.fixture
def state() -> LiveState:
    store = MemoryStore()
    store.commit(
        Work(
            incidents=(
                incident("a1b2"),
                incident("c3d4", NOON - HOUR, state=State.RESOLVED, resolved_at=NOON),
            )
        )
    )
    status = Status(stage="", source="files *.csv", watermark=NOON, diagnosis=TICK)
    return LiveState(store, Metrics(), status)


@pytest.fixture
def client(state: LiveState) -> Iterator[TestClient]:
    with TestClient(make_app(state, token="s3cret"), base_url="http://localhost") as client:
        yield client


# Health


def test_it_is_ready_only_once_the_window_is_rebuilt(state: LiveState, client: TestClient) -> None:
    state.status = Status(stage="rebuilding the window: 12 of 48 slices")
    waiting = client.get("/readyz")
    assert (waiting.status_code, waiting.text) == (503, "rebuilding the window: 12 of 48 slices")
    assert client.get("/healthz").status_code == 200
    state.status = replace(state.status, stage="")
    assert client.get("/readyz").status_code == 200
    state.status = replace(state.status, problem="the tick loop has died")
    sick = client.get("/healthz")
    assert (sick.status_code, sick.text) == (503, "the tick loop has died")


# Metrics


def test_kubernetes_may_count_a_standby_as_ready(state: LiveState, client: TestClient) -> None:
    state.status = Status(standby="a, process 1", stage="standby: a, process 1 leads")
    assert client.get("/readyz").status_code == 503
    answer = client.get("/readyz?standby=ready")
    assert (answer.status_code, answer.text) == (200, "standby: a, process 1 leads")
    state.status = Status(stage="rebuilding the window")
    assert client.get("/readyz?standby=ready").status_code == 503


def test_scrapers_get_the_format_they_ask_for(state: LiveState, client: TestClient) -> None:
    state.metrics.observe(TICK)
    plain = client.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "least_monitor_ticks_total 1.0" in plain.text
    modern = client.get(
        "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
    )
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    assert modern.text.endswith("# EOF\n")


# The interface for programs


def test_programs_page_through_incidents(client: TestClient) -> None:
    first = client.get("/api/v1/incidents", params={"limit": 1}).json()
    assert [i["id"] for i in first["incidents"]] == ["a1b2"]
    second = client.get("/api/v1/incidents", params={"limit": 1, "after": first["next"]}).json()
    assert [i["id"] for i in second["incidents"]] == ["c3d4"]
    assert second["next"] is None


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ({"state": "open"}, ["a1b2"]),
        ({"since": "2026-03-01T12:00:00Z"}, ["a1b2", "c3d4"]),
        ({"since": "2026-03-01T14:00:00+01:00"}, ["a1b2"]),
        ({"outcome": "pay"}, []),
        ({"method": "paper"}, []),
    ],
)
def test_programs_filter_incidents(
    client: TestClient, question: dict[str, str], answer: list[str]
) -> None:
    found = client.get("/api/v1/incidents", params=question).json()["incidents"]
    assert [i["id"] for i in found] == answer


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        ({"state": "ajar"}, "state='ajar' is none of open, acknowledged, resolved"),
        ({"since": "noon"}, "since='noon' is no ISO-8601 time"),
        ({"since": "2026-03-01T12:00:00"}, "append Z"),
        ({"limit": "0"}, "limit='0' is not a number from 1 to 500"),
        ({"limit": "many"}, "limit='many'"),
        ({"after": "a1b2"}, "after='a1b2' is no cursor"),
        ({"stat": "open"}, "unknown parameter 'stat'; did you mean state?"),
        ({"state": "opne", "limit": "0"}, "500; state='opne' is none of"),
    ],
)
def test_a_wrong_question_is_explained(
    client: TestClient, question: dict[str, str], complaint: str
) -> None:
    answer = client.get("/api/v1/incidents", params=question)
    assert answer.status_code == 400
    assert complaint in answer.json()["detail"]


def test_one_incident_comes_with_its_history(state: LiveState, client: TestClient) -> None:
    state.store.label("a1b2", Verdict.TRUE, NOON, "maria")
    answer = client.get("/api/v1/incidents/a1").json()
    assert documents.incident_from(answer) == incident("a1b2")
    assert answer["label"] == "true"
    assert [a["kind"] for a in answer["audit"]] == ["opened", "labelled_true"]
    missing = client.get("/api/v1/incidents/zz")
    assert (missing.status_code, missing.json()["detail"][:16]) == (404, "no incident 'zz'")


def test_the_graph_and_the_status_are_those_of_the_newest_tick(
    state: LiveState, client: TestClient
) -> None:
    graph = client.get("/api/v1/graph").json()
    assert graph["edges"][0] == {"source": "airline=AC", "target": "fare=3", "weight": 0.7}
    status = client.get("/api/v1/status").json()
    assert (status["ready"], status["tick"]["rows"]) == (True, 1000)
    assert status["watermark"] == "2026-03-01T12:00:00Z"
    state.status = Status()
    assert client.get("/api/v1/graph").status_code == 503
    assert client.get("/api/v1/status").json()["tick"] is None


def test_an_operator_acknowledges_and_labels(state: LiveState, client: TestClient) -> None:
    taken = client.post(
        "/api/v1/incidents/a1/acknowledge",
        json={"actor": "maria", "note": "on it"},
        headers=BEARER,
    )
    assert taken.json()["state"] == "acknowledged"
    judged = client.post(
        "/api/v1/incidents/a1/label", json={"actor": "maria", "verdict": "true"}, headers=BEARER
    )
    assert (judged.json()["id"], judged.json()["label"]) == ("a1b2", "true")
    assert [a.kind for a in state.store.audit("a1b2")] == [
        "opened",
        "acknowledged",
        "labelled_true",
    ]
    late = client.post(
        "/api/v1/incidents/c3d4/acknowledge", json={"actor": "maria"}, headers=BEARER
    )
    assert late.status_code == 409


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (b'{"actor": "maria"}', "text/plain", 415),
        (b"actor=maria", "application/x-www-form-urlencoded", 415),
        (b"{", "application/json", 400),
        (b"[]", "application/json", 422),
        (b'{"actor": ""}', "application/json", 422),
        (b'{"actor": 7}', "application/json", 422),
        (b'{"actor": "m\\u0000"}', "application/json", 422),
        (b'{"actor": "maria", "nose": "on it"}', "application/json", 422),
        (b'{"actor": "' + b"m" * 100_000 + b'"}', "application/json", 413),
    ],
)
def test_changes_need_a_proper_body(client: TestClient, body: bytes, kind: str, code: int) -> None:
    answer = client.post(
        "/api/v1/incidents/a1/acknowledge",
        content=body,
        headers={"Content-Type": kind, **BEARER},
    )
    assert answer.status_code == code
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]


def test_a_store_that_fails_is_said_to_fail(state: LiveState, client: TestClient) -> None:
    class Broken(MemoryStore):
        def incidents(self, asked: object = None) -> list[Incident]:
            raise StoreError("the disk is full")

    state.store = Broken()
    answer = client.get("/api/v1/incidents")
    assert answer.status_code == 503
    assert answer.json() == {
        "type": "urn:least-monitor:problem:store",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "the disk is full",
    }


# Who may ask


def test_changes_ask_for_the_token_everywhere(state: LiveState, client: TestClient) -> None:
    path, body = "/api/v1/incidents/a1/acknowledge", {"actor": "x"}
    assert client.post(path, json=body).status_code == 401
    wrong = {"Authorization": "Bearer S3cret"}
    assert client.post(path, json=body, headers=wrong).status_code == 401
    # A browser would add a password to any site's request.
    assert client.post(path, json=body, auth=("x", "s3cret")).status_code == 401
    without_token = TestClient(make_app(state), base_url="http://localhost")
    refused = without_token.post(path, json=body, headers=BEARER)
    assert (refused.status_code, "token_file" in refused.json()["detail"]) == (403, True)
    assert state.store.incident("a1b2").state is State.OPEN


def test_from_elsewhere_reading_asks_for_the_token_too(state: LiveState) -> None:
    client = TestClient(
        make_app(state, host="0.0.0.0", token="s3cret"), base_url="http://monitor.example"
    )
    for path in ("/", "/metrics", "/incidents/a1b2", "/api/v1/status"):
        refused = client.get(path)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic")
        assert client.get(path, headers=BEARER).status_code == 200
        assert client.get(path, auth=("anyone", "s3cret")).status_code == 200
        assert client.get(path, headers={"Authorization": "Basic %%%"}).status_code == 401
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200


def test_a_site_whose_name_points_at_this_machine_reads_nothing(client: TestClient) -> None:
    assert client.get("/api/v1/status", headers={"Host": "evil.example"}).status_code == 421
    for host in ("localhost:9090", "127.0.0.1:1", "[::1]:9090"):
        assert client.get("/healthz", headers={"Host": host}).status_code == 200


def test_every_answer_carries_the_protective_headers(client: TestClient) -> None:
    answers = [
        client.get("/"),
        client.get("/metrics"),
        client.get("/nowhere"),
        client.get("/api/v1/status", headers={"Host": "evil.example"}),
        client.post("/api/v1/incidents/a1/label"),
    ]
    for answer in answers:
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


# The console


def test_the_overview_tells_at_a_glance(state: LiveState, client: TestClient) -> None:
    assert "1 open incident" in client.get("/").text
    state.store.commit(Work(incidents=(incident("a1b2", state=State.RESOLVED, resolved_at=NOON),)))
    state.change()  # as after every commit of the daemon
    calm = client.get("/").text
    assert "All quiet" in calm
    assert "No cause found for 25 % of the excess of reserve" in calm
    for changed, words in [
        ({"diagnosis": replace(TICK, gap=True)}, "unknown"),
        ({"diagnosis": replace(TICK, learning=True)}, "Learning"),
        ({"diagnosis": None}, "Waiting for the first slice"),
        ({"stage": "rebuilding"}, "rebuilding"),
        ({"problem": "the loop has died"}, "the loop has died"),
    ]:
        state.change(**changed)
        assert words in client.get("/").text


def test_a_storm_does_not_flood_the_overview(state: LiveState, client: TestClient) -> None:
    state.store.commit(
        Work(incidents=tuple(incident(f"n{i:03}", NOON - i * HOUR) for i in range(200)))
    )
    page = client.get("/").text
    assert "201 open incidents" in page
    assert page.count('class="card open"') == 30
    assert 'href="/incidents?state=open"' in page


def test_methods_that_only_compare_stay_off_the_overview(
    state: LiveState, client: TestClient
) -> None:
    other = replace(FINDING, method=Method.PAPER)
    state.store.commit(Work(incidents=(incident("e5", finding=other),)))
    state.status = replace(state.status, method="excess")
    assert "1 open incident<" in re.sub(r"\s+<", "<", client.get("/").text)
    assert "method paper" not in client.get("/incidents").text
    assert "method paper" in client.get("/incidents?method=paper").text
    everything = client.get("/incidents?method=").text
    assert "method paper" in everything
    assert "/incidents/a1b2" in everything


def test_the_page_of_an_incident_shows_why(state: LiveState, client: TestClient) -> None:
    state.store.acknowledge("a1b2", NOON, "maria", "calling AC")
    page = client.get("/incidents/a1b2").text
    for words in (
        "440 of 2,100 failed where 23.2 were expected (19.0 times as many)",
        "2e-40",
        "E17",
        "BKK",
        "calling AC",
        "acknowledged",
        'aria-label="airline=AC, then fare=3, then reserve"',
    ):
        assert words in page
    assert client.get("/incidents/zz").status_code == 404
    assert "no incident" in client.get("/incidents/zz").text


def test_the_graph_can_be_walked(state: LiveState, client: TestClient) -> None:
    start = client.get("/graph").text
    assert 'href="/graph?node=fare%3D3"' in start
    middle = client.get("/graph", params={"node": "fare=3"}).text
    assert "airline=AC" in middle
    assert "reserve" in middle
    assert "no edge at this node" in client.get("/graph", params={"node": "x"}).text
    state.status = replace(state.status, diagnosis=None)
    assert "No graph yet" in client.get("/graph").text


def test_values_of_the_watched_log_cannot_become_markup(
    state: LiveState, client: TestClient
) -> None:
    attack = '"><script>alert(1)</script>'
    nasty = replace(
        FINDING,
        outcome=attack,
        cause=Cause.of(x=attack),
        path=(f"x={attack}", attack),
        codes=(attack,),
        chain=(Cause(), Cause.of(x=attack)),
        runners_up=((Cause.of(x=attack), 1.0),),
    )
    state.store.commit(Work(incidents=(incident("eeee", finding=nasty, latest=nasty),)))
    state.store.acknowledge("eeee", NOON, attack, attack)
    state.status = replace(
        state.status,
        source=attack,
        diagnosis=replace(
            TICK, outcomes=(OutcomeCount(attack, 1, 1.0),), edges=(Edge(attack, attack, 0.5),)
        ),
    )
    pages = ("/", "/incidents", "/incidents/eeee", f"/incidents/{attack}")
    for path in (*pages, "/graph", f"/graph?node={quote(attack)}"):
        page = client.get(path).text
        assert page.count("<script") == 1  # ours
        assert "<script>" not in page


def test_pages_need_no_script_and_nothing_from_outside(client: TestClient) -> None:
    for path in ("/", "/incidents", "/incidents/a1b2", "/graph"):
        page = client.get(path).text
        assert re.findall("<script[^>]*>", page) == [
            f'<script src="/console.js?{page.split("/console.js?")[1][:8]}" defer>'
        ]
        assert "style=" not in page  # the policy would drop it
        addresses = [unescape(a) for a in re.findall(r'(?:href|src|action)="([^"]+)"', page)]
        assert addresses
        assert all(a.startswith(("/", "#", "data:")) for a in addresses)
        for address in {
            a for a in addresses if a.startswith("/") and "/a1b2/" not in a and a != "/theme"
        }:
            assert client.get(address).status_code == 200


def test_an_operator_acts_in_the_browser(state: LiveState, client: TestClient) -> None:
    page = client.get("/incidents/a1b2").text
    assert 'formaction="/incidents/a1b2/acknowledge"' in page
    fields = {"token": "s3cret", "actor": "maria", "note": "on it", "verdict": "expected"}
    taken = client.post("/incidents/a1b2/acknowledge", data=fields, follow_redirects=False)
    assert (taken.status_code, taken.headers["location"]) == (303, "/incidents/a1b2")
    judged = client.post("/incidents/a1b2/label", data=fields)
    assert "true, but expected" in judged.text
    assert [(a.kind, a.actor) for a in state.store.audit("a1b2")] == [
        ("opened", "monitor"),
        ("acknowledged", "maria"),
        ("labelled_expected", "maria"),
    ]
    assert client.post("/incidents/c3d4/acknowledge", data=fields).status_code == 409
    assert 'formaction="/incidents/c3d4/acknowledge"' not in client.get("/incidents/c3d4").text


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"token": "S3cret"}, 403),
        ({"token": ""}, 403),
        ({"actor": " "}, 422),
        ({"verdict": "maybe"}, 422),
        ({"note": "x" * 3000}, 422),
        ({"note": "x" * 70_000}, 413),
    ],
)
def test_a_form_must_carry_the_token_and_make_sense(
    state: LiveState, client: TestClient, changes: dict[str, str], code: int
) -> None:
    fields = {"token": "s3cret", "actor": "maria", "verdict": "true", **changes}
    assert client.post("/incidents/a1b2/label", data=fields).status_code == code
    # Neither a header nor a remembered password stands in for it.
    del fields["token"]
    assert client.post("/incidents/a1b2/label", data=fields, headers=BEARER).status_code >= 400
    assert state.store.labels() == {}


def test_without_a_token_there_is_nothing_to_press(state: LiveState) -> None:
    client = TestClient(make_app(state), base_url="http://localhost")
    page = client.get("/incidents/a1b2").text
    assert re.findall('action="([^"]+)"', page) == ["/theme"]
    sent = client.post("/incidents/a1b2/label", data={"actor": "x", "verdict": "true"})
    assert sent.status_code == 403


def test_from_elsewhere_a_form_needs_what_reading_needs(state: LiveState) -> None:
    app = make_app(state, host="0.0.0.0", token="s3cret")
    client = TestClient(app, base_url="http://monitor.example")
    fields = {"token": "s3cret", "actor": "maria", "verdict": "true"}
    assert client.post("/incidents/a1b2/label", data=fields).status_code == 401
    signed_in = client.post("/incidents/a1b2/label", data=fields, auth=("x", "s3cret"))
    assert "a true incident" in signed_in.text


def test_the_list_leads_to_older_incidents(state: LiveState, client: TestClient) -> None:
    state.store.commit(
        Work(incidents=tuple(incident(f"n{i:03}", NOON - i * HOUR) for i in range(60)))
    )
    first = client.get("/incidents?state=open").text
    following = re.search(r'href="(/incidents\?state=open&amp;after=[^"]+)"', first)
    assert following is not None
    second = client.get(following.group(1).replace("&amp;", "&")).text
    assert "n059" in second
    assert "n000" not in second


# Serving


def test_it_serves_on_a_free_port_and_stops(state: LiveState) -> None:
    handle = serve(state)
    try:
        assert handle.url.startswith("http://127.0.0.1:")
        assert httpx2.get(f"{handle.url}/healthz").text == "ok"
        packed = httpx2.get(f"{handle.url}/metrics", headers={"Accept-Encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip"
        with pytest.raises(ServeError, match="choose another"):
            serve(state, port=int(handle.url.rpartition(":")[2]))
    finally:
        handle.stop()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{handle.url}/healthz")


def test_it_does_not_open_to_others_without_a_token(state: LiveState) -> None:
    with pytest.raises(ServeError, match="token_file"):
        serve(state, host="0.0.0.0")


def test_an_address_of_another_machine_is_refused(state: LiveState) -> None:
    with pytest.raises(ServeError, match=r"cannot listen on 192\.0\.2\.1"):
        serve(state, host="192.0.2.1", token="x")


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_it_serves_on_ipv6(state: LiveState) -> None:
    try:
        handle = serve(state, host="::1")
    except ServeError:
        pytest.skip("::1 cannot be bound on this machine")
    assert httpx2.get(f"{handle.url}/healthz").text == "ok"
    handle.stop()


def test_an_unsent_notification_shows_on_the_overview(state: LiveState, client: TestClient) -> None:
    opened = incident("a1b2")
    state.store.commit(
        Work(notifications=(Notification(opened, Change.OPENED, NOON),), notifiers=("webhook",))
    )
    assert "1 waiting" in client.get("/").text
    state.store.failed(state.store.due(NOON)[0], "404 no such hook", None)
    state.change()
    overview = client.get("/").text
    assert "1 given up" in overview
    assert "404 no such hook" in overview
    (parked,) = client.get("/api/v1/status").json()["parked"]
    assert (parked["notifier"], parked["incident"], parked["error"]) == (
        "webhook",
        "a1b2",
        "404 no such hook",
    )


def test_what_was_rejected_can_be_looked_at(state: LiveState, client: TestClient) -> None:
    bad = Rejected("bad_time", "x.csv:3", "no time zone", 4, b"12:00\xff")
    kept = Rejected("unread_flag", "x.csv:5", "field `late` is no flag", 2, b"maybe")
    state.store.commit(Work(rejected=(bad, kept)))
    assert client.get("/api/v1/status").json()["rejected"] == {"bad_time": 4}
    assert client.get("/api/v1/rejected").json() == {
        "counts": {"bad_time": 4},
        "kept": {"unread_flag": 2},
        "records": [
            {
                "reason": "bad_time",
                "result": "rejected",
                "where": "x.csv:3",
                "detail": "no time zone",
                "count": 4,
                "raw": "12:00\ufffd",
            },
            {
                "reason": "unread_flag",
                "result": "kept",
                "where": "x.csv:5",
                "detail": "field `late` is no flag",
                "count": 2,
                "raw": "maybe",
            },
        ],
    }

"""`/api/v1` as a careful client uses it: pages, conditional requests, problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from monitor.domain import Incident, State
from monitor.edge.http import make_app
from monitor.edge.http.questions import cursor, place_of
from monitor.edge.metrics import Metrics
from monitor.edge.status import LiveState, Status
from monitor.edge.store import Verdict, Work, open_store
from monitor.edge.store.memory import MemoryStore
from tests.samples import finding, tick

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BEARER = {"Authorization": "Bearer s3cret"}
FINDING = finding(q_value=float("nan"))


def incident(name: str, at: datetime = NOON, **changes: object) -> Incident:
    usual = Incident(name, State.OPEN, at, at, at, FINDING, FINDING, causes=(FINDING.cause,))
    return replace(usual, **changes)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[LiveState]:
    store = open_store(f"sqlite:///{tmp_path / 'monitor.db'}")
    store.commit(Work(incidents=tuple(incident(f"n{i}", NOON - i * HOUR) for i in range(6))))
    yield LiveState(store, Metrics(), Status(stage="", diagnosis=tick(FINDING)))
    store.close()


@pytest.fixture
def client(state: LiveState) -> Iterator[TestClient]:
    app = make_app(state, token="s3cret")
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


# Pages


def test_pages_stay_right_while_incidents_come_and_go(state: LiveState, client: TestClient) -> None:
    first = client.get("/api/v1/incidents?limit=2").json()
    assert [i["id"] for i in first["incidents"]] == ["n0", "n1"]
    # A new one at the top, and the last of the page forgotten by the retention.
    gone = incident("n1", NOON - HOUR, state=State.RESOLVED, resolved_at=NOON - 900 * HOUR)
    state.store.commit(Work(incidents=(incident("new", NOON + HOUR), gone)))
    state.store.commit(Work(drop_incidents_before=NOON - 500 * HOUR))
    second = client.get("/api/v1/incidents", params={"limit": 2, "after": first["next"]})
    assert [i["id"] for i in second.json()["incidents"]] == ["n2", "n3"]
    following = second.headers["link"]
    assert following == f'</api/v1/incidents?limit=2&after={second.json()["next"]}>; rel="next"'
    last = client.get(following[1:].partition(">")[0])
    assert [i["id"] for i in last.json()["incidents"]] == ["n4", "n5"]
    assert last.json()["next"] is None
    assert "link" not in last.headers


def test_the_link_keeps_the_filters(client: TestClient) -> None:
    question = {"limit": "1", "outcome": "reserve", "since": "2026-02-01T00:00:00+01:00"}
    answer = client.get("/api/v1/incidents", params=question)
    assert "since=2026-02-01T00%3A00%3A00%2B01%3A00" in answer.headers["link"]
    address = answer.headers["link"][1:].partition(">")[0]
    assert [i["id"] for i in client.get(address).json()["incidents"]] == ["n1"]


@pytest.mark.parametrize("name", ["a1b2", "Größe:x", "x" * 200])
def test_a_cursor_names_a_place(name: str) -> None:
    place = (NOON + timedelta(microseconds=7), name)
    assert place_of(cursor(place)) == place


@pytest.mark.parametrize("text", ["", "a1b2", "====", "MTI", "OTk5OTk5OTk5OTk5OTk5OTk5OTk6YQ", "é"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - it has only its type
        place_of(text)


# Conditional requests


@pytest.mark.parametrize(
    "path", ["incidents", "incidents/n0", "silences", "graph", "rejected", "openapi.json", "status"]
)
def test_what_has_not_changed_is_not_sent_again(client: TestClient, path: str) -> None:
    first = client.get(f"/api/v1/{path}", headers={"Accept-Encoding": "identity"})
    entity = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    for sent in (entity, f'"other", W/{entity}', "*"):
        again = client.get(f"/api/v1/{path}", headers={"If-None-Match": sent})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == entity
        assert again.headers["content-security-policy"]
    assert client.get(f"/api/v1/{path}", headers={"If-None-Match": '"x"'}).status_code == 200


def test_a_change_changes_the_tag(state: LiveState, client: TestClient) -> None:
    def tags() -> list[str]:
        paths = ("/api/v1/incidents", "/api/v1/incidents/n0")
        return [client.get(p, headers={"Accept-Encoding": ""}).headers["etag"] for p in paths]

    before = tags()
    state.store.label("n0", Verdict.TRUE, NOON, "maria")
    state.change()
    assert tags()[0] == before[0]  # the list does not tell labels
    assert tags()[1] != before[1]
    state.store.acknowledge("n0", NOON, "maria")
    state.change()
    assert tags()[0] != before[0]


def test_packed_and_plain_have_tags_of_their_own(client: TestClient) -> None:
    plain = client.get("/api/v1/incidents", headers={"Accept-Encoding": "identity"})
    packed = client.get("/api/v1/incidents", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["etag"] == plain.headers["etag"][:-1] + '-gzip"'
    assert "Accept-Encoding" in packed.headers["vary"]
    again = {"If-None-Match": packed.headers["etag"]}
    assert client.get("/api/v1/incidents", headers=again).status_code == 304


@pytest.mark.parametrize("change", ["acknowledge", "label"])
def test_a_change_is_made_only_of_what_was_seen(
    state: LiveState, client: TestClient, change: str
) -> None:
    body = {"actor": "maria"} | ({"verdict": "true"} if change == "label" else {})
    seen = client.get("/api/v1/incidents/n0").headers["etag"]
    state.store.commit(Work(incidents=(incident("n0", told_excess=99.0),)))
    path, fresh = f"/api/v1/incidents/n0/{change}", {**BEARER, "If-Match": seen}
    stale = client.post(path, json=body, headers=fresh)
    assert stale.status_code == 412
    assert stale.json()["type"] == "urn:least-monitor:problem:changed"
    assert state.store.audit("n0")[1:] == []
    now = client.get("/api/v1/incidents/n0").headers["etag"]
    done = client.post(path, json=body, headers={**BEARER, "If-Match": f'"old", {now}'})
    assert done.status_code == 200
    # The answer carries the new tag: the next change needs no reading in between.
    after = {**BEARER, "If-Match": done.headers["etag"]}
    label = {"actor": "li", "verdict": "false"}
    again = client.post("/api/v1/incidents/n0/label", json=label, headers=after)
    assert again.status_code == 200
    assert client.post(path, json=body, headers={**BEARER, "If-Match": "*"}).status_code == 200


def test_nobody_comes_in_between(state: LiveState, client: TestClient) -> None:
    """A tick may land after the comparison; the store compares again in its transaction."""
    store, read = state.store, state.store.audit

    def audit(name: str) -> object:
        found = read(name)
        store.commit(Work(incidents=(incident("n0", told_excess=50.0),)))
        return found

    seen = client.get("/api/v1/incidents/n0").headers["etag"]
    store.audit = audit  # type: ignore[method-assign, assignment]
    answer = client.post(
        "/api/v1/incidents/n0/acknowledge",
        json={"actor": "maria"},
        headers={**BEARER, "If-Match": seen},
    )
    assert answer.status_code == 412
    assert store.incident("n0").state is State.OPEN


def test_a_silence_has_an_address_and_a_tag(client: TestClient) -> None:
    body = {"match": ["airline=AC"], "length": "2h", "actor": "maria"}
    made = client.post("/api/v1/silences", json=body, headers=BEARER)
    assert made.status_code == 201
    where = made.headers["location"]
    assert client.get(where).json() == made.json()
    seen = {**BEARER, "If-Match": made.headers["etag"]}
    assert client.post(f"{where}/expire", json={"actor": "li"}, headers=seen).status_code == 200
    assert client.post(f"{where}/expire", json={"actor": "li"}, headers=seen).status_code == 412
    assert client.get("/api/v1/silences/zz").status_code == 404


# Problems


def test_every_refusal_is_a_problem(state: LiveState, client: TestClient) -> None:
    class Broken(MemoryStore):
        def incident(self, id_or_prefix: str) -> Incident:
            raise KeyError("a bug with a secret in it")

    where, good = "/api/v1/incidents/n0/acknowledge", {"actor": "maria"}
    answers = {
        400: client.get("/api/v1/incidents?limit=0"),
        401: client.post(where, json=good),
        403: TestClient(make_app(state), base_url="http://localhost").post(where, json=good),
        404: client.get("/api/v1/nowhere"),
        405: client.put("/api/v1/silences", headers=BEARER),
        413: client.post(where, content=b"x" * 70_000, headers=BEARER | _JSON),
        415: client.post(where, content=b"x", headers=BEARER),
        421: client.get("/api/v1/status", headers={"Host": "evil.example"}),
        422: client.post(where, json={"actor": 7}, headers=BEARER),
    }
    state.store = Broken()
    answers[500] = client.get("/api/v1/incidents/n0")
    for code, answer in answers.items():
        assert answer.status_code == code
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.json()["status"] == code
        assert answer.json()["detail"]
    assert answers[405].headers["allow"] in (
        "GET, HEAD, POST",
        "POST, GET, HEAD",
        "HEAD, GET, POST",
    )
    assert answers[401].headers["www-authenticate"] == 'Bearer realm="least-monitor"'
    assert "secret" not in answers[500].text
    assert answers[500].json()["instance"].startswith("urn:uuid:")


_JSON = {"Content-Type": "application/json"}


def test_all_that_is_wrong_is_told_at_once(client: TestClient) -> None:
    wrong = client.get("/api/v1/incidents?limit=0&stat=open&method=excess&method=paper").json()
    assert {(e["in"], e["name"]) for e in wrong["errors"]} == {
        ("query", "limit"),
        ("query", "stat"),
        ("query", "method"),
    }
    body = {"actor": "", "verdict": "ture", "nose": "x"}
    wrong = client.post("/api/v1/incidents/n0/label", json=body, headers=BEARER).json()
    assert [e["detail"] for e in wrong["errors"]] == [
        "'actor' must be a text, not empty, of at most 200 characters",
        "'verdict' must be one of true, false, expected; did you mean true?",
        "unknown field 'nose'; did you mean note?",
    ]


@pytest.mark.parametrize("name", ["x" * 60_000, "n0%00", quote("n0' OR 1=1 --"), "%25", "_0"])
def test_an_id_that_cannot_be_one_is_not_found(client: TestClient, name: str) -> None:
    assert client.get(f"/api/v1/incidents/{name}").status_code == 404


def test_a_head_has_the_headers_and_no_body(client: TestClient) -> None:
    whole = client.get("/api/v1/incidents", headers={"Accept-Encoding": "identity"})
    head = client.head("/api/v1/incidents", headers={"Accept-Encoding": "identity"})
    assert head.content == b""
    for name in ("etag", "content-length", "content-type", "cache-control"):
        assert head.headers[name] == whole.headers[name]


def test_the_graph_around_a_node(client: TestClient) -> None:
    whole = client.get("/api/v1/graph").json()
    around = client.get("/api/v1/graph", params={"node": "airline=AC"}).json()
    assert around["edges"] == whole["edges"][:1]
    assert client.get("/api/v1/graph", params={"node": "airline=ZZ"}).json()["edges"] == []

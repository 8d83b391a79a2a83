"""The description of the interface is true: every route is in it, every answer fits it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.routing import Route
from starlette.testclient import TestClient

from monitor.domain import (
    Cause,
    Change,
    Edge,
    Incident,
    Notification,
    Rejected,
    State,
)
from monitor.edge import documents
from monitor.edge.http import make_app, openapi
from monitor.edge.metrics import Metrics
from monitor.edge.silences import Silence
from monitor.edge.status import LiveState, Status
from monitor.edge.store import Work
from monitor.edge.store.memory import MemoryStore
from tests.monitor.test_console import configured
from tests.samples import finding, tick

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DESCRIPTION = openapi.document()
BEARER = {"Authorization": "Bearer s3cret"}

FINDING = finding(
    outcome="pay",
    path=("airline=AC", "pay"),
    score=float("inf"),
    p_value=0.0,
    q_value=float("nan"),
    observed=40,
    expected=3.5,
    rows=200,
    horizon=timedelta(minutes=30),
    began=NOON,
    rate_before=0.01,
    rate_now=0.2,
    chain=(Cause(),),
    codes=("E1",),
    runners_up=((Cause(), 1.0),),
)
INCIDENT = Incident("a1", State.OPEN, NOON, NOON, NOON, FINDING, FINDING, causes=(FINDING.cause,))
NEWS = Notification(INCIDENT, Change.OPENED, NOON)
TICK = tick(
    FINDING,
    edges=(Edge("airline=AC", "pay", 0.7),),
    unexplained={"pay": 0.1},
    seconds={"learn": 1.25},
)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    store = MemoryStore()
    store.commit(
        Work(
            incidents=(INCIDENT,),
            notifications=(NEWS,),
            notifiers=("log",),
            rejected=(Rejected("bad_time", "x:1", "no zone", 2, b"x"),),
        )
    )
    store.failed(store.due(NOON)[0], "404", None)
    store.add_silence(Silence("5e", (), NOON, NOON, NOON, "maria"))
    status = Status(stage="", started_at=NOON, diagnosis=TICK, config=configured(tmp_path))
    app = make_app(LiveState(store, Metrics(), status), token="s3cret")
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def fits(schema: dict[str, Any], document: object) -> None:
    whole = {**schema, "components": DESCRIPTION["components"]}
    errors = [e.message for e in Draft202012Validator(whole).iter_errors(document)]
    assert errors == []


def described(path: str, method: str, code: int) -> dict[str, Any]:
    answer = DESCRIPTION["paths"][path][method]["responses"][str(code)]
    if "$ref" in answer:
        answer = DESCRIPTION["components"]["responses"][str(code)]
    kind = "application/json" if code < 400 else "application/problem+json"
    schema: dict[str, Any] = answer["content"][kind]["schema"]
    return schema


def test_every_route_is_described_and_every_description_has_a_route() -> None:
    app = make_app(LiveState(MemoryStore(), Metrics()))
    routes = {
        (route.path, method.lower())
        for route in app.routes
        if isinstance(route, Route) and route.path.startswith("/api/")
        for method in (route.methods or set()) - {"HEAD"}
    }
    promised = {(path, method) for path, item in DESCRIPTION["paths"].items() for method in item}
    assert routes == promised


def test_the_description_in_the_documentation_is_this_one() -> None:
    kept = Path(__file__).parents[2] / "docs" / "openapi.json"
    assert kept.read_text("utf-8") == openapi.text(), (
        "run: python -c \"from monitor.edge.http.openapi import text; print(text(), end='')\" "
        "> docs/openapi.json"
    )


def test_the_description_is_served(client: TestClient) -> None:
    assert client.get("/api/v1/openapi.json").json() == DESCRIPTION


@pytest.mark.parametrize("path", [p for p, item in DESCRIPTION["paths"].items() if "get" in item])
def test_answers_are_as_described(client: TestClient, path: str) -> None:
    wanted = "5" if "silences" in path else "a1"
    answer = client.get(path.replace("{id}", wanted))
    assert answer.status_code == 200
    fits(described(path, "get", 200), answer.json())


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("acknowledge", {"actor": "maria"}, 200),
        ("label", {"actor": "maria", "verdict": "true"}, 200),
        ("label", {"actor": "maria", "verdict": "perhaps"}, 422),
        ("label", {}, 422),
    ],
)
def test_changes_are_as_described(
    client: TestClient, path: str, body: dict[str, str], code: int
) -> None:
    where = f"/api/v1/incidents/{{id}}/{path}"
    answer = client.post(where.replace("{id}", "a1"), json=body, headers=BEARER)
    assert answer.status_code == code
    fits(described(where, "post", code), answer.json())
    asked = DESCRIPTION["paths"][where]["post"]["requestBody"]["content"]["application/json"]
    valid = Draft202012Validator(
        {**asked["schema"], "components": DESCRIPTION["components"]}
    ).is_valid(body)
    assert valid is (code == 200)


def test_errors_are_as_described(client: TestClient) -> None:
    missing = client.get("/api/v1/incidents/zz")
    fits(described("/api/v1/incidents/{id}", "get", missing.status_code), missing.json())
    wrong = client.get("/api/v1/incidents", params={"limit": "-1"})
    fits(described("/api/v1/incidents", "get", wrong.status_code), wrong.json())
    refused = client.post("/api/v1/incidents/a1/label", json={})
    fits(described("/api/v1/incidents/{id}/label", "post", refused.status_code), refused.json())


def test_the_webhook_sends_what_is_described() -> None:
    hook = DESCRIPTION["webhooks"]["incident"]["post"]
    schema = hook["requestBody"]["content"]["application/json"]["schema"]
    fits(schema, documents.loads(documents.dumps(documents.notification_document(NEWS))))

"""Silences and maintenance windows: tracked, shown, and told to nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

from monitor.cli import app
from monitor.config import ConfigError, MaintenanceWindow, load
from monitor.domain import Cause, Change, Notification
from monitor.edge.http import make_app
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.silences import Silence, Silencer, described, hushed, until
from monitor.edge.status import LiveState, Status
from monitor.edge.store import Work, open_store
from monitor.edge.store.memory import MemoryStore
from monitor.matching import Matcher
from tests.contracts.receivers import FINDING, INCIDENT, NOON, Told

HOUR = timedelta(hours=1)
BEARER = {"Authorization": "Bearer s3cret"}
NOW = datetime.now(UTC).replace(microsecond=0)
BKK = replace(
    INCIDENT,
    id="bkk1",
    opened_at=NOW,
    finding=replace(FINDING, cause=Cause.of(airline="AC", office="BKK")),
)


# What holds


def test_the_silence_that_lasts_longest_says_until_when() -> None:
    silences = [
        Silence.of([match], NOON + hours * HOUR, NOON, "maria", note)
        for match, hours, note in (
            ("airline=AC", 1, ""),
            ("outcome=reserve", 3, "new release"),
            ("airline=MU", 9, ""),
        )
    ]
    found = hushed(INCIDENT, silences, [], NOON)
    assert found is not None
    assert found.until == NOON + 3 * HOUR
    assert found.reason == f"silence {silences[1].id} by maria: new release"
    assert hushed(INCIDENT, silences, [], NOON + 3 * HOUR) is None


@pytest.mark.parametrize(
    ("match", "length", "complaint"),
    [
        ([], HOUR, "needs a matcher"),
        (["airline"], HOUR, "no matcher"),
        (["airline=AC"], timedelta(0), "must end after now"),
        (["airline=AC"], timedelta(days=400), "at most 366 days"),
    ],
)
def test_a_silence_without_bounds_is_refused(
    match: list[str], length: timedelta, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        Silence.of(match, NOON + length, NOON, "maria")


def test_a_window_of_the_night_reaches_into_the_next_day() -> None:
    window = MaintenanceWindow(days=frozenset({6}), at=time(23), length=2 * HOUR)
    sunday = datetime(2026, 3, 1, 23, tzinfo=UTC)
    assert until(window, sunday - timedelta(seconds=1)) is None
    assert until(window, sunday) == sunday + 2 * HOUR
    assert until(window, sunday + 2 * HOUR - timedelta(seconds=1)) == sunday + 2 * HOUR
    assert until(window, sunday + 2 * HOUR) is None
    assert until(window, sunday + timedelta(days=1)) is None
    assert described(window) == "sun from 23:00 UTC for 2 h"


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        ("2026-03-29T00:30:00+00:00", "2026-03-29T02:30:00+00:00"),  # spring
        ("2026-10-24T23:30:00+00:00", "2026-10-25T01:30:00+00:00"),  # autumn
        ("2026-06-30T23:30:00+00:00", "2026-07-01T01:30:00+00:00"),
    ],
)
def test_a_window_lasts_its_length_also_when_the_clocks_change(begins: str, ends: str) -> None:
    window = MaintenanceWindow(at=time(1, 30), length=2 * HOUR, zone="Europe/Berlin")
    start, end = datetime.fromisoformat(begins), datetime.fromisoformat(ends)
    minutes = [start + timedelta(minutes=m) for m in range(-60, 200)]
    open_at = [at for at in minutes if until(window, at) == end]
    assert (open_at[0], open_at[-1], len(open_at)) == (start, end - timedelta(minutes=1), 120)


def test_maintenance_of_one_airline_says_so_and_leaves_the_others() -> None:
    window = MaintenanceWindow(
        (Matcher.parse("airline=AC"),), start=NOON, end=NOON + HOUR, note="new fares"
    )
    found = hushed(INCIDENT, [], [window], NOON)
    assert found is not None
    assert (found.reason, found.until) == ("maintenance: new fares", NOON + HOUR)
    other = replace(INCIDENT, finding=replace(FINDING, cause=Cause.of(airline="MU")))
    assert hushed(other, [], [window], NOON) is None


def test_a_silence_ended_early_lets_what_burns_through_within_a_minute() -> None:
    store, told, now = MemoryStore(), Told(), NOON
    outbox = Outbox(store, [told], now=lambda: now, quiet=Silencer(store))
    silence = Silence.of(["airline=AC"], NOON + 8 * HOUR, NOON, "maria")
    store.add_silence(silence)
    news = (Notification(INCIDENT, Change.OPENED, NOON),)
    store.commit(Work(incidents=(INCIDENT,), notifications=news, notifiers=("told",)))
    assert outbox.deliver() == 0
    assert outbox.hushed([INCIDENT]) == {INCIDENT.id: "silenced"}
    assert store.open_incidents() == (INCIDENT,), "tracked all the same"
    store.expire_silence(silence.id, NOON + timedelta(seconds=20), "maria")
    now = NOON + timedelta(minutes=1)
    assert outbox.deliver() == 1


# In the configuration

CONFIG = """
[schema]
time = "at"
zone = "UTC"
attributes = ["airline"]
outcomes = ["pay"]
"""


def read(folder: Path, text: str) -> tuple[MaintenanceWindow, ...]:
    (folder / "monitor.toml").write_text(f"{CONFIG}\n[[maintenance]]\n{text}\n")
    return load(folder / "monitor.toml", {}).maintenance


def test_windows_are_read_as_written(tmp_path: Path) -> None:
    assert read(
        tmp_path, 'match = "airline=AC"\nstart = 2026-12-01T22:00:00Z\nend = 2026-12-02T02:00:00Z'
    ) == (
        MaintenanceWindow(
            (Matcher.parse("airline=AC"),),
            datetime(2026, 12, 1, 22, tzinfo=UTC),
            datetime(2026, 12, 2, 2, tzinfo=UTC),
        ),
    )
    text = 'days = ["sat"]\nat = "22:30"\nlength = "90m"\nzone = "Europe/Lisbon"\nnote = "backup"'
    assert read(tmp_path, text) == (
        MaintenanceWindow(
            days=frozenset({5}),
            at=time(22, 30),
            length=timedelta(minutes=90),
            zone="Europe/Lisbon",
            note="backup",
        ),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no time; give `start` and `end`, or `at` and `length`"),
        ('at = "22:00"\nstart = 2026-12-01T22:00:00Z', "both a single window and one"),
        ("start = 2026-12-01T22:00:00Z", "has no `end`"),
        ("start = 2026-12-01T22:00:00\nend = 2026-12-02T22:00:00Z", "start: has no zone"),
        ("start = 2026-12-03T22:00:00Z\nend = 2026-12-02T22:00:00Z", "is not after `start`"),
        ('at = "22:00"', "has no `length`"),
        ('at = "25:00"\nlength = "1h"', "maintenance[0].at"),
        ('at = "22:00"\nlength = "25h"', "is more than a day"),
        ('at = "22:00"\nlength = "1h"\nzone = "Mars"', "no time zone 'Mars'"),
        ('at = "22:00"\nlength = "1h"\ndays = ["sunday"]', 'cannot be "sunday"'),
        ('at = "22:00"\nlength = "1h"\nmatch = ["airlin=AC"]', "did you mean `airline`?"),
    ],
)
def test_a_wrong_window_is_found_before_the_start(
    tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert complaint in str(caught.value)


# Over HTTP


@pytest.fixture
def state() -> LiveState:
    store = MemoryStore()
    store.commit(Work(incidents=(BKK,)))
    window = MaintenanceWindow(at=time(0), length=timedelta(days=1), note="<b>always</b>")
    none = replace(window, matchers=(Matcher.parse("airline=XX"),))
    return LiveState(store, Metrics(), Status(stage="", maintenance=(none,)))


@pytest.fixture
def client(state: LiveState) -> Iterator[TestClient]:
    with TestClient(make_app(state, token="s3cret"), base_url="http://localhost") as client:
        yield client


def test_an_operator_silences_over_http_and_ends_it(client: TestClient) -> None:
    body: dict[str, Any] = {"match": ["airline=AC"], "length": "2h", "actor": "maria", "note": "x"}
    assert client.post("/api/v1/silences", json=body).status_code == 401
    made = client.post("/api/v1/silences", json=body, headers=BEARER)
    assert made.status_code == 201
    assert made.json()["state"] == "active"
    shown = client.get("/api/v1/incidents/bkk1").json()["silenced"]
    assert shown["reason"] == f"silence {made.json()['id']} by maria: x"
    assert shown["until"] == made.json()["ends_at"]
    listed = client.get("/api/v1/silences").json()
    assert [s["id"] for s in listed["silences"]] == [made.json()["id"]]
    assert listed["maintenance"][0]["open_until"] is not None

    where = f"/api/v1/silences/{made.json()['id'][:6]}/expire"
    assert client.post(where, json={"actor": "ops"}).status_code == 401
    ended = client.post(where, json={"actor": "ops"}, headers=BEARER)
    assert (ended.json()["state"], ended.json()["expired_by"]) == ("expired", "ops")
    assert client.get("/api/v1/incidents/bkk1").json()["silenced"] is None
    assert client.post(where, json={"actor": "ops"}, headers=BEARER).status_code == 409
    where = "/api/v1/silences/zz/expire"
    assert client.post(where, json={"actor": "ops"}, headers=BEARER).status_code == 404


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"match": []}, "needs a matcher"),
        ({"match": "airline=AC"}, "must be a list"),
        ({"match": ["airline"]}, "no matcher"),
        ({"match": ["a=b"] * 21}, "more than 20"),
        ({"length": "2"}, "is not a duration"),
        ({"length": "0s"}, "must end after now"),
        ({"length": ""}, "give 'ends_at' or 'length'"),
        ({"ends_at": "2026-01-01"}, "give 'ends_at' or 'length'"),
        ({"length": "", "ends_at": "2026-01-01"}, "ends_at='2026-01-01' has no time zone"),
        ({"actor": ""}, "'actor' must be a text"),
        ({"length": "99999999w"}, ""),
    ],
)
def test_a_silence_that_makes_no_sense_is_refused(
    client: TestClient, change: dict[str, Any], complaint: str
) -> None:
    body = {"match": ["airline=AC"], "length": "2h", "actor": "maria"} | change
    answer = client.post("/api/v1/silences", json=body, headers=BEARER)
    assert answer.status_code == 422
    assert complaint in answer.json()["detail"]


def test_the_console_shows_and_takes_silences(client: TestClient, state: LiveState) -> None:
    page = client.get("/incidents/bkk1").text
    like_it = "outcome%3D%22reserve%22%0Aairline%3D%22AC%22%0Aoffice%3D%22BKK%22"
    assert f"/silences?match={like_it}" in page
    fields = {"match": "airline=AC\r\noffice=BKK\r\n", "length": "2h", "actor": "<i>maria</i>"}
    assert client.post("/silences", data=fields | {"token": "no"}).status_code == 403
    sent = client.post("/silences", data=fields | {"token": "s3cret"}, follow_redirects=False)
    assert (sent.status_code, sent.headers["location"]) == (303, "/silences")
    (silence,) = state.store.silences()
    assert [str(m) for m in silence.matchers] == ['airline="AC"', 'office="BKK"']
    page = client.get("/silences").text
    assert "&lt;i&gt;maria&lt;/i&gt;" in page
    assert "<i>maria" not in page
    assert "&lt;b&gt;always" in page
    assert "nobody is told until" in client.get("/incidents/bkk1").text
    where = f"/silences/{silence.id}/expire"
    client.post(where, data={"actor": "ops", "token": "s3cret"})
    assert state.store.silences()[0].expired_by == "ops"


def test_without_a_token_nothing_can_be_silenced(state: LiveState) -> None:
    with TestClient(make_app(state), base_url="http://localhost") as client:
        assert 'action="/silences' not in client.get("/silences").text
        body = {"match": ["airline=AC"], "length": "2h", "actor": "maria"}
        assert client.post("/api/v1/silences", json=body).status_code == 403
        assert client.post("/silences", data={"match": "a=b"}).status_code == 403


# At the terminal


def least_monitor(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_an_operator_silences_at_the_terminal(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'monitor.db'}"
    store = open_store(url)
    store.commit(Work(incidents=(BKK,)))
    empty = least_monitor("silence", "list", "--store", url)
    assert empty.stdout == "no silences\n"
    added = least_monitor(
        "silence", "add", "airline=AC", 'office=~"B.*"', "--for", "2h", "--by", "maria",
        "--note", "new [bold] release", "--store", url,
    )  # fmt: skip
    assert added.exit_code == 0, added.output
    listed = least_monitor("silence", "list", "--store", url)
    assert "active" in listed.stdout
    assert "new [bold] release" in listed.stdout
    assert 'airline="AC", office=~"B.*"' in listed.stdout
    assert Silencer(store)(BKK, datetime.now(UTC)) is not None
    documents = least_monitor("silence", "list", "--store", url, "--json").stdout
    (found,) = json.loads(documents)["silences"]
    ended = least_monitor("silence", "expire", found["id"][:5], "--store", url)
    assert ended.exit_code == 0, ended.output
    assert Silencer(store)(BKK, datetime.now(UTC)) is None
    assert least_monitor("silence", "list", "--store", url).stdout == "no silences\n"
    assert "over" in least_monitor("silence", "list", "--all", "--store", url).stdout
    again = least_monitor("silence", "expire", found["id"], "--store", url)
    assert again.exit_code == 1
    assert "has ended already" in again.output
    store.close()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["airline=AC"], "give --for LENGTH or --until TIME"),
        (["airline", "--for", "2h"], "is no matcher"),
        (["airline=AC", "--for", "2"], "is not a duration"),
        (["airline=AC", "--until", "2020-01-01"], "must end after now"),
    ],
)
def test_a_silence_mistyped_at_the_terminal_is_wrong_usage(
    arguments: list[str], complaint: str
) -> None:
    result = least_monitor("silence", "add", *arguments, "--store", "sqlite:///nowhere.db")
    assert result.exit_code == 2
    assert complaint in " ".join(result.output.replace("│", " ").split())

"""`least-monitor store backup | verify | compact`, and a store that has been damaged."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from monitor.cli import app
from monitor.domain import Change, Incident, Notification, State
from monitor.edge.blobs import slice_to_bytes
from monitor.edge.store import Work, open_store
from monitor.encoding import Coded
from monitor.session import Session
from monitor.slices import Slice
from tests.contracts.test_stores import HALF_HOUR, NOON, incident
from tests.monitor.towns import SETTINGS, Town
from tests.services.light import NoLearner

_SERVER = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=_SERVER)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'monitor.db'}"
    made: str = request.getfixturevalue("postgres").database()
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "monitor.db"


def least_monitor(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def blob(at: datetime, rows: int = 50) -> bytes:
    start = np.datetime64(at.replace(tzinfo=None), "us")
    values = np.arange(rows * 2, dtype=np.int32).reshape(rows, 2)
    failed = np.zeros((rows, 1), bool)
    piece = Slice(start, values, failed, np.ones(rows, np.int64))
    return slice_to_bytes(Coded(piece, values, np.full((rows, 1), 0.01)))


def filled(url: str, slices: int = 6) -> None:
    store = open_store(url)
    opened = incident("a1")
    store.commit(
        Work(
            slices={NOON + i * HALF_HOUR: blob(NOON + i * HALF_HOUR) for i in range(slices)},
            position={"at": 1},
            incidents=(opened,),
            notifications=(Notification(opened, Change.OPENED, NOON),),
            notifiers=("log",),
        )
    )
    store.close()


def damage(path: Path, start: datetime) -> None:
    """One bit of a slice turns over, as on a disk that begins to fail."""
    micros = round(start.timestamp() * 1e6)
    with closing(sqlite3.connect(path)) as raw, raw:
        (data,) = raw.execute("SELECT data FROM slices WHERE start = ?", (micros,)).fetchone()
        turned = bytearray(data)
        turned[len(turned) // 2] ^= 4
        raw.execute("UPDATE slices SET data = ? WHERE start = ?", (bytes(turned), micros))


def test_a_whole_store_is_said_to_be_whole(url: str) -> None:
    filled(url)
    done = least_monitor("store", "verify", "--store", url, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["findings"] == []
    assert {t: n for t, n in said["rows"].items() if n} == {
        "slices": 6, "position": 1, "incidents": 1, "audit": 1, "outbox": 1, "generation": 1,
    }  # fmt: skip
    assert said["last_slice"].startswith("2026-03-01T14:30")
    assert "all is as it was written" in least_monitor("store", "verify", "--store", url).stdout


def test_what_is_damaged_is_named(path: Path) -> None:
    filled(str(path))
    damage(path, NOON + 2 * HALF_HOUR)
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE incidents SET document = '{}'")
        raw.execute("PRAGMA foreign_keys = OFF")
        raw.execute("INSERT INTO labels VALUES ('gone', 'true')")
    done = least_monitor("store", "verify", "--store", str(path))
    assert done.exit_code == 1
    assert "DAMAGED slice 2026-03-01 13:00 UTC: checksum" in done.stderr
    assert "DAMAGED incident a1: its document cannot be read" in done.stderr
    assert "DAMAGED labels: a row is of incident gone, which is not there" in done.stderr
    assert len(done.stderr.splitlines()) == 3


def test_a_backup_is_of_one_moment_while_others_write(path: Path, tmp_path: Path) -> None:
    filled(str(path))
    store = open_store(str(path))
    done = threading.Event()

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            at = NOON + timedelta(days=1) + number * HALF_HOUR
            store.commit(Work(slices={at: blob(at)}, position={"at": number}))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for copy in (tmp_path / f"copy{i}.db" for i in range(5)):
            taken = least_monitor("store", "backup", str(copy), "--store", str(path))
            assert taken.exit_code == 0, taken.output
    finally:
        done.set()
        writer.join()
        store.close()
    for i in range(5):
        copy = tmp_path / f"copy{i}.db"
        assert sorted(f.name for f in tmp_path.glob(f"copy{i}*")) == [copy.name]
        judged = least_monitor("store", "verify", "--store", str(copy))
        assert judged.exit_code == 0, judged.output
        reopened = open_store(str(copy))
        saved = reopened.load()
        assert saved.position is not None
        # The slice and the position of the same commit, or neither.
        assert len(saved.slices) in {6 + int(str(saved.position["at"])), 6}
        reopened.close()
    again = least_monitor("store", "backup", str(tmp_path / "copy0.db"), "--store", str(path))
    assert (again.exit_code, "there already" in again.stderr) == (1, True)


@pytest.mark.service
@pytest.mark.slow
def test_for_postgres_its_own_tool_is_named(request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres").database()
    filled(url)
    done = least_monitor("store", "backup", "copy.dump", "--store", url)
    assert done.exit_code == 1
    assert (
        f"pg_dump --format=custom --file=copy.dump '{url.replace('+psycopg', '')}'" in done.stderr
    )


def test_compacting_gives_space_back(url: str) -> None:
    filled(url)
    store = open_store(url)
    dice = random.Random(1)
    heavy = {NOON + i * HALF_HOUR: dice.randbytes(400_000) for i in range(20)}
    store.commit(Work(slices=heavy))
    store.commit(Work(drop_slices_before=NOON + 19 * HALF_HOUR))
    done = least_monitor("store", "compact", "--store", url)
    assert done.exit_code == 0, done.output
    words = done.stdout.split()
    if url.startswith("sqlite"):  # a server keeps the space for itself
        assert float(words[0]) > 7
        assert float(words[3]) < 1.5
    store.commit(Work(position={"at": 2}))
    assert store.load().position == {"at": 2}
    store.close()


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=_SERVER)])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory":
        yield "memory:"
    elif request.param == "sqlite":
        yield str(tmp_path / "monitor.db")
    else:
        yield request.getfixturevalue("postgres").database()


def test_old_incidents_are_forgotten_with_all_that_hangs_on_them(any_url: str) -> None:
    def resolved(name: str, at: datetime) -> Incident:
        return replace(incident(name), state=State.RESOLVED, updated_at=at, resolved_at=at)

    store = open_store(any_url)
    over, later, still = resolved("over", NOON), resolved("later", NOON + HALF_HOUR), incident("on")
    everything = (over, later, still)
    store.commit(
        Work(
            incidents=everything,
            notifications=tuple(Notification(i, Change.OPENED, NOON) for i in everything),
            notifiers=("webhook",),
        )
    )
    for item in store.due(NOON):
        store.failed(item, "no such hook", None)
    store.commit(Work(drop_incidents_before=NOON))
    assert {i.id for i in store.incidents()} == {"over", "later", "on"}, "not older than that"
    store.commit(Work(drop_incidents_before=NOON + HALF_HOUR))
    assert {i.id for i in store.incidents()} == {"later", "on"}
    assert store.audit("over") == []
    assert {i.notification.incident.id for i in store.parked()} == {"later", "on"}
    store.close()


def test_a_damaged_slice_is_set_aside_and_the_monitor_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.session.LeastLearner", NoLearner)
    town = Town(rows=150, seed=5)
    store = open_store(str(path))
    one = Session(SETTINGS, store)
    for a, texts in enumerate(town.vocabulary().to_json().values()):
        one.vocabulary.encode(a, texts)
    for number in range(60):
        one.tick(town.slice(number))
    one.commit({"row": 60})
    store.close()
    start = NOON.replace(hour=0) + 40 * HALF_HOUR
    damage(path, start)

    store = open_store(str(path))
    again = Session(SETTINGS, store)
    assert list(again.damaged) == [start]
    assert "checksum" in again.damaged[start]
    assert again.last_slice == one.last_slice
    assert sum(coded.slice.rows for coded in again.monitor.window) == 47 * 150
    for number in range(60, 64):
        again.tick(town.slice(number))
    again.commit({"row": 64})
    store.close()
    # It is said once; what was found is kept for whoever wants to look.
    store = open_store(str(path))
    assert Session(SETTINGS, store).damaged == {}
    assert len(store.load().slices) == 64
    store.close()
    judged = least_monitor("store", "verify", "--store", str(path), "--json")
    assert judged.exit_code == 0, judged.output
    assert json.loads(judged.stdout)["rows"]["damaged_slices"] == 1

"""What every store owes: the same suite for the one in memory and the one in a database."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.domain import (
    Cause,
    Change,
    Finding,
    Incident,
    Method,
    Notification,
    Rejected,
    Severity,
    State,
)
from monitor.edge import documents
from monitor.edge.silences import Silence
from monitor.edge.store import (
    KEPT_REJECTED,
    ChangedError,
    ConflictError,
    IncidentNotFoundError,
    IncidentQuery,
    LeadershipLostError,
    Seen,
    SilenceNotFoundError,
    Store,
    StoreError,
    StoreFailedError,
    Trouble,
    Verdict,
    Work,
    open_store,
)
from monitor.exhibits import Exhibit, Link, Material, Point
from tests.services.databases import Postgres

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HALF_HOUR = timedelta(minutes=30)

_SERVER = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=_SERVER)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        url = "memory:"
    elif request.param == "sqlite":
        url = str(tmp_path / "deep" / "monitor.db")
    else:
        url = request.getfixturevalue("postgres").database()
    opened = open_store(url)
    yield opened
    opened.close()


def finding(outcome: str = "pay", airline: str = "AC", **changes: object) -> Finding:
    usual = Finding(
        method=Method.EXCESS,
        outcome=outcome,
        cause=Cause.of(airline=airline),
        path=(f"airline={airline}", outcome),
        score=31.5,
        p_value=1e-12,
        q_value=0.003,
        observed=57,
        expected=4.25,
        rows=612,
        horizon=2 * HALF_HOUR,
        began=NOON - HALF_HOUR,
        rate_before=0.007,
        rate_now=0.093,
        chain=(Cause(), Cause.of(airline=airline)),
        codes=("E17",),
        runners_up=((Cause.of(office="BKK"), 12.0),),
    )
    return replace(usual, **changes)


def incident(name: str, at: datetime = NOON, **changes: object) -> Incident:
    found = finding()
    usual = Incident(
        id=name,
        state=State.OPEN,
        opened_at=at,
        updated_at=at,
        last_seen_at=at,
        finding=found,
        latest=found,
        causes=(found.cause,),
    )
    return replace(usual, **changes)


def resolved(opened: Incident, at: datetime) -> Incident:
    return replace(opened, state=State.RESOLVED, updated_at=at, resolved_at=at)


def news(about: Incident, change: Change = Change.OPENED, at: datetime = NOON) -> Notification:
    return Notification(about, change, at)


def kinds(store: Store, incident_id: str) -> list[str]:
    return [entry.kind for entry in store.audit(incident_id)]


# What a tick leaves behind


def test_a_fresh_store_knows_nothing(store: Store) -> None:
    saved = store.load()
    assert (dict(saved.slices), saved.position, dict(saved.state)) == ({}, None, {})
    assert saved.incidents == ()
    assert store.incidents() == []
    assert store.due(NOON) == []


def test_everything_of_a_tick_comes_back(store: Store) -> None:
    opened = incident("a1")
    store.commit(
        Work(
            slices={NOON: b"late", NOON - HALF_HOUR: b"early"},
            position={"partition-0": 17, "file": "día.csv"},
            state={"vocabulary": b"\x00\xff", "baseline": b""},
            incidents=(opened,),
        )
    )
    saved = store.load()
    assert list(saved.slices.items()) == [(NOON - HALF_HOUR, b"early"), (NOON, b"late")]
    assert saved.position == {"partition-0": 17, "file": "día.csv"}
    assert saved.state == {"vocabulary": b"\x00\xff", "baseline": b""}
    assert saved.incidents == (opened,)
    assert store.state("vocabulary") == b"\x00\xff"
    assert store.state("nothing") is None


def test_late_rows_rewrite_their_slice_and_retention_drops_the_oldest(store: Store) -> None:
    store.commit(Work(slices={NOON + i * HALF_HOUR: b"%d" % i for i in range(4)}))
    store.commit(Work(slices={NOON + HALF_HOUR: b"one, and a late row"}))
    store.commit(Work(drop_slices_before=NOON + HALF_HOUR))
    assert list(store.load().slices.values()) == [b"one, and a late row", b"2", b"3"]


def test_what_a_tick_does_not_mention_stays(store: Store) -> None:
    store.commit(Work(position={"at": 1}, state={"a": b"1", "b": b"1"}))
    store.commit(Work(state={"a": b"2"}))
    saved = store.load()
    assert saved.position == {"at": 1}
    assert saved.state == {"a": b"2", "b": b"1"}


def test_rejected_records_are_all_counted_and_the_first_are_kept(store: Store) -> None:
    for i in range(KEPT_REJECTED + 5):
        store.commit(
            Work(
                rejected=(
                    Rejected("bad_time", f"x.csv:{i}", "no time zone", 1, b"12:00"),
                    Rejected("not_json", "y.jsonl:3 and after", "unexpected end", 1000),
                )
            )
        )
    assert store.rejected() == {
        "bad_time": KEPT_REJECTED + 5,
        "not_json": 1000 * (KEPT_REJECTED + 5),
    }
    kept = [r for r in store.rejected_records() if r.reason == "bad_time"]
    assert [r.where for r in kept] == [f"x.csv:{i}" for i in range(KEPT_REJECTED)]
    assert kept[0] == Rejected("bad_time", "x.csv:0", "no time zone", 1, b"12:00")


# Incidents and their history


def test_the_history_of_an_incident_tells_every_change_once(store: Store) -> None:
    opened = incident("a1")
    worse = replace(
        opened, updated_at=NOON + HALF_HOUR, worsened_at=(NOON + HALF_HOUR,), latest=finding()
    )
    finer = replace(
        worse,
        updated_at=NOON + 2 * HALF_HOUR,
        causes=(*worse.causes, Cause.of(airline="AC", office="BKK")),
    )
    for version in (opened, opened, worse, finer, resolved(finer, NOON + 3 * HALF_HOUR)):
        store.commit(Work(incidents=(version,)))
    assert kinds(store, "a1") == ["opened", "worsened", "refined", "resolved"]
    assert store.audit("a1")[1].at == NOON + HALF_HOUR
    assert store.load().incidents == ()
    store.commit(Work(incidents=(finer,)))
    assert kinds(store, "a1")[-1] == "reopened"


def test_two_versions_in_one_tick_are_two_steps_of_one_history(store: Store) -> None:
    opened = incident("a1")
    ended = resolved(opened, NOON + HALF_HOUR)
    store.commit(Work(incidents=(opened, ended)))
    assert store.incident("a1") == ended
    assert kinds(store, "a1") == ["opened", "resolved"]


def test_the_monitor_does_not_undo_an_acknowledgement(store: Store) -> None:
    opened = incident("a1")
    store.commit(Work(incidents=(opened,)))
    store.acknowledge("a1", NOON, "maria", "calling the airline")
    store.acknowledge("a1", NOON + HALF_HOUR, "maria")
    store.commit(Work(incidents=(replace(opened, last_seen_at=NOON + HALF_HOUR),)))
    assert store.incident("a1").state is State.ACKNOWLEDGED
    assert store.incident("a1").last_seen_at == NOON + HALF_HOUR
    assert [i.state for i in store.open_incidents()] == [State.ACKNOWLEDGED]
    taken = store.audit("a1")[1:]
    assert [(a.kind, a.actor, a.note) for a in taken] == [
        ("acknowledged", "maria", "calling the airline")
    ]
    store.commit(Work(incidents=(resolved(opened, NOON + 2 * HALF_HOUR),)))
    assert store.incident("a1").state is State.RESOLVED
    with pytest.raises(ConflictError, match="already resolved"):
        store.acknowledge("a1", NOON, "maria")


def test_the_last_verdict_counts_and_all_are_remembered(store: Store) -> None:
    store.commit(Work(incidents=(incident("a1"), incident("a2"))))
    store.label("a1", Verdict.TRUE, NOON, "maria")
    store.label("a1", Verdict.EXPECTED, NOON, "li", "maintenance")
    assert store.labels() == {"a1": Verdict.EXPECTED}
    assert kinds(store, "a1") == ["opened", "labelled_true", "labelled_expected"]
    with pytest.raises(IncidentNotFoundError):
        store.label("zz", Verdict.TRUE, NOON, "maria")


def test_incidents_are_listed_newest_first_in_pages(store: Store) -> None:
    # Two opened at the same instant: a page must not end between them and forget one.
    times = [0, 1, 1, 2, 3]
    all_of_them = [incident(f"i{n}", NOON + t * HALF_HOUR) for n, t in enumerate(times)]
    store.commit(Work(incidents=tuple(all_of_them)))
    seen: list[str] = []
    after = None
    while page := store.incidents(IncidentQuery(limit=2, after=after)):
        seen += [i.id for i in page]
        after = (page[-1].opened_at, page[-1].id)
    assert seen == ["i4", "i3", "i2", "i1", "i0"]
    # A place needs nobody there: what stood at the end of a page may be gone by now.
    behind = store.incidents(IncidentQuery(after=(NOON + HALF_HOUR, "i1x")))
    assert [i.id for i in behind] == ["i1", "i0"]


def test_a_change_is_refused_when_the_incident_is_not_as_it_was_seen(store: Store) -> None:
    store.commit(Work(incidents=(incident("a1"),)))
    seen = Seen(store.incident("a1"), len(store.audit("a1")))
    store.label("a1", Verdict.TRUE, NOON, "maria", seen=seen)
    for change in (
        lambda: store.label("a1", Verdict.FALSE, NOON, "li", seen=seen),
        lambda: store.acknowledge("a1", NOON, "li", seen=seen),
    ):
        with pytest.raises(ChangedError, match="has changed meanwhile"):
            change()
    assert store.labels() == {"a1": Verdict.TRUE}
    assert store.incident("a1").state is State.OPEN
    now = Seen(store.incident("a1"), len(store.audit("a1")))
    assert store.acknowledge("a1", NOON, "li", seen=now).state is State.ACKNOWLEDGED


def test_a_silence_is_found_by_its_start(store: Store) -> None:
    made = Silence.of(["airline=AC"], NOON + HALF_HOUR, NOON, "maria")
    store.add_silence(made)
    assert store.silence(made.id[:3]) == made
    with pytest.raises(SilenceNotFoundError):
        store.silence("zz")


def test_incidents_are_found_by_state_time_outcome_and_method(store: Store) -> None:
    day = timedelta(days=1)
    long_ago = incident("old", NOON - 9 * day)
    store.commit(
        Work(
            incidents=(
                incident("new"),
                incident("still", NOON - 5 * day),
                resolved(long_ago, NOON - 8 * day),
                resolved(replace(long_ago, id="ended"), NOON - HALF_HOUR),
                incident("seat", finding=finding(outcome="seat")),
                incident("paper", finding=finding(method=Method.PAPER)),
            )
        )
    )

    def ids(**wanted: object) -> set[str]:
        return {i.id for i in store.incidents(IncidentQuery(**wanted))}

    assert ids(state=State.RESOLVED) == {"old", "ended"}
    assert ids(since=NOON - day) == {"new", "still", "ended", "seat", "paper"}
    assert ids(outcome="seat") == {"seat"}
    assert ids(method="paper") == {"paper"}
    assert ids(outcome="pay", state=State.OPEN, method="excess") == {"new", "still"}
    assert ids(unresolved=True, method="excess") == {"new", "still", "seat"}
    assert store.open_counts() == {"pay": 3, "seat": 1}
    assert store.open_counts("excess") == {"pay": 2, "seat": 1}


def test_the_incidents_of_a_story_are_found(store: Store) -> None:
    part = replace(incident("b2", NOON + HALF_HOUR), part_of="a1")
    store.commit(Work(incidents=(incident("a1"), part, incident("c3"))))
    assert store.incidents(IncidentQuery(story="a1")) == [part, incident("a1")]
    assert store.incidents(IncidentQuery(story="b2")) == []


def test_a_prefix_names_an_incident_if_it_is_the_only_one(store: Store) -> None:
    store.commit(Work(incidents=(incident("abc1"), incident("abd2"), incident("ab"))))
    assert store.incident("abc").id == "abc1"
    assert store.incident("ab").id == "ab"
    with pytest.raises(IncidentNotFoundError, match="abc1, abd2"):
        store.incident("a")
    for stranger in ("x", "ABC", "%", "_bc1"):
        with pytest.raises(IncidentNotFoundError, match="no incident"):
            store.incident(stranger)


# The outbox


def test_each_notifier_gets_each_notification_once(store: Store) -> None:
    opened = incident("a1")
    work = Work(incidents=(opened,), notifications=(news(opened),), notifiers=("log", "webhook"))
    store.commit(work)
    store.commit(work)  # the same tick, computed again after a crash
    due = store.due(NOON)
    assert [(i.notifier, i.notification, i.attempts) for i in due] == [
        ("log", news(opened), 0),
        ("webhook", news(opened), 0),
    ]
    store.sent(due[0])
    assert [i.notifier for i in store.due(NOON)] == ["webhook"]
    assert [(c.notifier, c.status, c.count) for c in store.outbox()] == [
        ("log", "sent", 1),
        ("webhook", "pending", 1),
    ]


def test_a_failed_notification_waits_and_nothing_of_its_incident_overtakes_it(
    store: Store,
) -> None:
    first, second = incident("a1"), incident("b2")
    store.commit(
        Work(
            incidents=(first, second),
            notifications=(news(first), news(first, Change.RESOLVED), news(second)),
            notifiers=("webhook",),
        )
    )
    opened = store.due(NOON)[0]
    later = NOON + timedelta(seconds=10)
    store.failed(opened, "503 from the receiver", later)
    assert [i.notification.incident.id for i in store.due(NOON)] == ["b2"]
    again = store.due(later)[0]
    assert (again.notification.change, again.attempts) == (Change.OPENED, 1)
    assert again.error == "503 from the receiver"
    store.sent(again)
    assert store.due(later)[0].notification.change is Change.RESOLVED


def test_a_hopeless_notification_is_parked_and_blocks_nobody(store: Store) -> None:
    opened = incident("a1")
    store.commit(
        Work(
            incidents=(opened,),
            notifications=(news(opened), news(opened, Change.RESOLVED)),
            notifiers=("webhook",),
        )
    )
    store.failed(store.due(NOON)[0], "404: no such hook", None)
    assert [(i.notification.change, i.error) for i in store.parked()] == [
        (Change.OPENED, "404: no such hook")
    ]
    assert [i.notification.change for i in store.due(NOON)] == [Change.RESOLVED]


def test_what_a_notifier_has_told_of_is_remembered_until_it_is_resolved(store: Store) -> None:
    told, silent, waiting = incident("a1"), incident("b2"), incident("c3")
    store.commit(
        Work(
            incidents=(told, silent, waiting),
            notifications=(news(told), news(waiting)),
            notifiers=("webhook",),
        )
    )
    store.sent(store.due(NOON)[0])
    assert store.told("webhook") == (told,)
    assert store.told("log") == ()
    ended = replace(resolved(told, NOON + HALF_HOUR), story_goes_on=True)
    store.commit(Work(incidents=(ended,)))
    assert store.told("webhook") == (ended,), "its end has not been told yet"
    store.commit(Work(incidents=(replace(ended, story_goes_on=False),)))
    assert store.told("webhook") == ()


def test_what_arrived_long_ago_is_forgotten_once_its_incident_is_over(store: Store) -> None:
    over, open_still, waiting, hopeless = (incident(name) for name in ("a1", "b2", "c3", "d4"))
    everything = (over, open_still, waiting, hopeless)
    ended = tuple(resolved(i, NOON + HALF_HOUR) for i in (over, waiting, hopeless))
    store.commit(
        Work(
            incidents=everything, notifications=tuple(map(news, everything)), notifiers=("webhook",)
        )
    )
    of = {item.notification.incident.id: item for item in store.due(NOON)}
    store.sent(of["a1"])
    store.sent(of["b2"])
    store.failed(of["d4"], "404: no such hook", None)

    def kept() -> dict[str, int]:
        return {count.status: count.count for count in store.outbox()}

    whole = {"parked": 1, "pending": 1, "sent": 2}
    store.commit(Work(incidents=ended, drop_sent_before=NOON))
    assert kept() == whole, "not older than that"
    store.commit(Work(drop_sent_before=NOON + HALF_HOUR))
    assert kept() == whole | {"sent": 1}
    assert store.told("webhook") == (open_still,), "its alert must be kept alive"
    assert [i.notification.incident.id for i in store.due(NOON)] == ["c3"]
    assert [i.notification.incident.id for i in store.parked()] == ["d4"]

    # What comes later is told apart from what is left.
    later = news(resolved(open_still, NOON + HALF_HOUR), Change.RESOLVED, NOON + HALF_HOUR)
    store.commit(Work(incidents=(later.incident,), notifications=(later,), notifiers=("webhook",)))
    for item in store.due(NOON):
        store.sent(item)
    assert kept() == {"parked": 1, "sent": 3}
    store.commit(Work(drop_sent_before=NOON + 2 * HALF_HOUR))
    assert kept() == {"parked": 1}


def test_a_replayed_day_of_next_year_notifies_at_once(store: Store) -> None:
    opened = incident("a1", at=NOON + timedelta(days=365))
    store.commit(
        Work(
            incidents=(opened,),
            notifications=(news(opened, at=opened.opened_at),),
            notifiers=("log",),
        )
    )
    assert [i.notification.at for i in store.due(NOON)] == [opened.opened_at]


def test_pages_are_read_while_ticks_are_written(store: Store) -> None:
    ticks = 40
    done = threading.Event()
    seen: list[int] = []
    trouble: list[Exception] = []

    def read() -> None:
        try:
            while not done.is_set():
                saved = store.load()
                seen.append(len(saved.slices))
                # Both written by the same tick: a reader sees both or neither.
                assert len(saved.incidents) == len(saved.slices)
                store.outbox()
        except Exception as error:
            trouble.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for i in range(ticks):
            at = NOON + i * HALF_HOUR
            store.commit(Work(slices={at: b"x" * 1000}, incidents=(incident(f"i{i:03}", at),)))
        while not seen and not trouble:
            time.sleep(0.001)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert trouble == []
    assert len(store.load().slices) == ticks


# What only the lasting store owes


def test_a_reopened_store_goes_on(tmp_path: Path) -> None:
    path = str(tmp_path / "monitor.db")
    store = open_store(path)
    store.commit(Work(slices={NOON: b"x"}, position={"at": 3}, incidents=(incident("a1"),)))
    store.close()
    again = open_store(path)
    saved = again.load()
    assert (dict(saved.slices), saved.position) == ({NOON: b"x"}, {"at": 3})
    assert saved.incidents == (incident("a1"),)
    again.close()


TICKS_UNTIL_KILLED = textwrap.dedent(
    """
    import sys
    from dataclasses import replace
    from datetime import timedelta
    from monitor.domain import Change, Notification, Rejected
    from monitor.edge import documents
    from monitor.edge.store import Work, open_store

    first = documents.incident_from(documents.loads(sys.argv[2]))
    store = open_store(sys.argv[1])
    position = store.load().position
    tick = 0 if position is None else position["tick"] + 1
    print("ready", flush=True)
    while True:
        opened = replace(first, id=f"i{tick}")
        store.commit(Work(
            slices={first.opened_at + tick * timedelta(minutes=30): b"%d" % tick * 20_000},
            position={"tick": tick},
            state={"baseline": b"%d" % tick * 50_000},
            incidents=(opened,),
            notifications=(Notification(opened, Change.OPENED, opened.opened_at),),
            notifiers=("log", "webhook"),
            rejected=(Rejected("bad_time", "x", "y", 2),),
        ))
        tick += 1
    """
)


def test_kill_9_at_any_instant_leaves_a_whole_number_of_ticks(tmp_path: Path) -> None:
    path = str(tmp_path / "monitor.db")
    first = documents.dumps(documents.incident_document(incident("i"))).decode()
    chance = random.Random(20260301)
    last = -1
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", TICKS_UNTIL_KILLED, path, first],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0.01, 0.15))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()

        store = open_store(path)
        saved = store.load()
        store_counts = {(c.notifier, c.status): c.count for c in store.outbox()}
        rejected = store.rejected()
        store.close()
        if saved.position is None:
            continue
        tick = saved.position["tick"]
        assert isinstance(tick, int)
        assert tick >= last
        last = tick
        ticks = range(tick + 1)
        assert list(saved.slices) == [NOON + i * HALF_HOUR for i in ticks]
        assert saved.slices[NOON + tick * HALF_HOUR] == b"%d" % tick * 20_000
        assert saved.state == {"baseline": b"%d" % tick * 50_000}
        assert {i.id for i in saved.incidents} == {f"i{i}" for i in ticks}
        assert store_counts == {("log", "pending"): tick + 1, ("webhook", "pending"): tick + 1}
        assert rejected == {"bad_time": 2 * (tick + 1)}
    assert last > 0


def test_of_two_monitors_on_one_store_the_second_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "monitor.db")
    first, second = open_store(path), open_store(path)
    second.load()
    first.load()
    first.commit(Work(position={"at": 1}))
    # Its counts do not know of the other's tick: writing them would forget it.
    with pytest.raises(StoreError, match="another least-monitor"):
        second.commit(Work(position={"at": 7}))
    first.commit(Work(position={"at": 2}, incidents=(incident("a1"),)))
    # Operators are no monitors.
    second.acknowledge("a1", NOON, "maria")
    first.commit(Work(position={"at": 3}))
    assert second.load().position == {"at": 3}
    second.commit(Work(position={"at": 4}))  # the first has ended, the second takes over
    for store in (first, second):
        store.close()


@pytest.mark.service
@pytest.mark.slow
def test_a_dropped_connection_is_made_again(postgres: Postgres) -> None:
    url = postgres.database()
    store = open_store(url)
    store.commit(Work(position={"at": 1}))
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    store.commit(Work(position={"at": 2}))
    assert store.load().position == {"at": 2}
    store.close()


@pytest.mark.service
@pytest.mark.slow
def test_a_database_made_without_a_locale_keeps_text(postgres: Postgres) -> None:
    postgres.execute(
        "CREATE DATABASE plain TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'",
    )
    store = open_store(f"postgresql+psycopg://{postgres.server}/plain")
    store.commit(Work(position={"file": "größe.csv"}))
    assert store.load().position == {"file": "größe.csv"}
    store.close()


def test_a_locked_store_says_who_might_hold_it(tmp_path: Path) -> None:
    from monitor.edge.store.sql import SqlStore

    path = str(tmp_path / "monitor.db")
    store = SqlStore(path, busy_timeout_seconds=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="second least-monitor"):
        store.commit(Work(position={"at": 1}))
    assert store.load().position is None  # reading goes on meanwhile
    other.execute("ROLLBACK")
    store.commit(Work(position={"at": 1}))
    assert store.load().position == {"at": 1}
    other.close()
    store.close()


def test_a_full_disk_loses_only_the_tick_at_hand(tmp_path: Path) -> None:
    from monitor.edge.store.sql import SqlStore

    store = SqlStore(str(tmp_path / "monitor.db"))
    store.commit(Work(position={"at": 1}))
    # The nearest thing to a small disk: SQLite reports both in the same words.
    with store._write() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StoreError, match=r"disk is full\. .*Free some space"):
        store.commit(Work(slices={NOON: os.urandom(500_000)}, position={"at": 2}))
    assert store.load().position == {"at": 1}
    assert store.load().slices == {}
    store.close()


def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "monitor.db"
    path.write_text("not a database, but the minutes of the last meeting" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another path"):
        open_store(str(path))
    assert path.read_bytes() == before


def test_a_damaged_store_says_so(tmp_path: Path) -> None:
    path = tmp_path / "monitor.db"
    store = open_store(str(path))
    store.commit(Work(slices={NOON + i * HALF_HOUR: b"x" * 50_000 for i in range(20)}))
    store.close()
    data = bytearray(path.read_bytes())
    data[16_384 * 3 :] = b"\xa5" * (len(data) - 16_384 * 3)
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"damaged|SQLite"):
        open_store(str(path)).load()


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("sqlite://", "memory:"),
        ("mysql://host/x", "only SQLite and PostgreSQL"),
        ("postgresql+nosuch://host/x", "not understood"),
        ("/proc/nowhere/monitor.db", "folder"),
    ],
)
def test_a_bad_address_is_explained(url: str, advice: str) -> None:
    with pytest.raises(StoreError, match=advice):
        open_store(url)


def test_a_mistyped_path_does_not_look_like_a_quiet_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at"):
        open_store(str(tmp_path / "monitro.db"), create=False)
    assert list(tmp_path.iterdir()) == []


def test_passwords_stay_out_of_messages() -> None:
    with pytest.raises(StoreError) as caught:
        open_store("postgresql+psycopg://monitor:hunter2@127.0.0.1:1/x")
    assert "hunter2" not in str(caught.value)


def test_a_copy_taken_while_running_is_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "monitor.db")
    store = open_store(path)
    store.commit(Work(slices={NOON: b"x" * 100_000}, position={"at": 1}))
    with sqlite3.connect(path) as source, sqlite3.connect(tmp_path / "copy.db") as target:
        source.backup(target)
    source.close()
    target.close()
    copy = open_store(str(tmp_path / "copy.db"))
    assert copy.load() == store.load()
    copy.close()
    store.close()
    shutil.rmtree(tmp_path)


# Who leads


def test_who_leads_may_write_and_go_on(store: Store) -> None:
    lease = store.take_lease()
    assert (lease.mine, lease.epoch) == (True, 1)
    store.commit(Work(position={"at": 1}))
    store.renew_lease()
    store.confirm_lease()
    assert store.take_lease().epoch == 1, "taking it twice is no change of leader"
    store.resign()
    assert store.lease() is None
    store.commit(Work(position={"at": 2}))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=_SERVER)])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Two daemons' stores in one database; here both live in this process."""
    url = str(tmp_path / "monitor.db")
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").database()
    first, second = open_store(url), open_store(url)
    yield first, second
    first.close()
    second.close()


def test_the_second_stands_by_until_the_first_resigns(pair: tuple[Store, Store]) -> None:
    first, second = pair
    first.take_lease()
    seen = second.take_lease()
    assert (seen.mine, seen.epoch) == (False, 1)
    assert str(os.getpid()) in seen.owner
    assert timedelta(seconds=5) < seen.left <= timedelta(seconds=15)
    second.load()
    with pytest.raises(StoreError, match="another least-monitor leads"):
        second.commit(Work(position={"at": 7}))
    first.resign()
    taken = second.take_lease()
    assert (taken.mine, taken.epoch) == (True, 2)
    second.load()
    second.commit(Work(position={"at": 8}))


def test_who_has_lost_the_lease_can_neither_write_nor_tell(pair: tuple[Store, Store]) -> None:
    first, second = pair
    opened = incident("a1")
    first.take_lease(timedelta(milliseconds=50))
    first.commit(Work(incidents=(opened,), notifications=(news(opened),), notifiers=("webhook",)))
    (item,) = first.due(NOON)
    time.sleep(0.06)  # stopped, or away from the database
    first.confirm_lease()  # over, but nobody took it
    taken = second.take_lease()
    assert (taken.mine, taken.epoch) == (True, 2)
    for attempt in (
        lambda: first.commit(Work(position={"at": 1})),
        lambda: first.sent(item),
        lambda: first.failed(item, "late", None),
        first.confirm_lease,
        first.renew_lease,
    ):
        with pytest.raises(LeadershipLostError, match="taken from it"):
            attempt()
    first.resign()
    assert second.lease() is not None, "the loser's resignation changes nothing"
    second.load()
    assert second.load().position is None
    assert second.due(NOON) == [item]
    assert first.take_lease().mine is False
    first.acknowledge("a1", NOON, "maria")  # operators are no monitors


def test_a_leader_whose_process_is_gone_is_replaced_at_once(pair: tuple[Store, Store]) -> None:
    first, second = pair
    database = first._database  # type: ignore[attr-defined]
    program = (
        "import sys; from monitor.edge.store import open_store; "
        "print(open_store(sys.argv[1]).take_lease().epoch)"
    )
    url = database._engine.url.render_as_string(hide_password=False)
    done = subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"
    assert second.take_lease().epoch == 2


def test_a_commit_whose_answer_got_lost_is_not_made_twice(
    pair: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    from monitor.edge.store.database import Database

    store, _ = pair
    store.take_lease()
    write = Database.write

    @contextmanager
    def deaf(self: Database) -> Iterator[object]:
        with write(self) as connection:
            yield connection
        raise StoreFailedError("the connection broke before the answer", Trouble.AWAY)

    work = Work(position={"at": 1}, rejected=(Rejected("bad_time", "x", "y", 3),))
    monkeypatch.setattr(store, "_write", lambda: deaf(store._database))  # type: ignore[attr-defined]
    with pytest.raises(StoreFailedError):
        store.commit(work)
    monkeypatch.undo()
    store.commit(work)
    assert store.rejected() == {"bad_time": 3}
    store.commit(Work(position={"at": 2}))
    assert store.load().position == {"at": 2}


def test_what_is_held_waits_without_an_attempt_and_what_is_skipped_is_remembered(
    store: Store,
) -> None:
    first, second = incident("a1"), incident("b2")
    store.commit(
        Work(
            incidents=(first, second),
            notifications=(news(first), news(first, Change.WORSENED), news(second)),
            notifiers=("mail",),
        )
    )
    opened, worsened, other = store.due(NOON)
    later = NOON + timedelta(hours=1)
    store.held([opened], "silenced: x", later)
    assert [i.notification.incident.id for i in store.due(NOON)] == ["b2"]
    # What waited and what followed it come together, in order.
    due = [(i.notification.change, i.attempts, i.error) for i in store.due(later)]
    assert due[:2] == [(Change.OPENED, 0, "silenced: x"), (Change.WORSENED, 0, "")]
    store.skipped([opened, worsened], "not for this notifier")
    store.sent(other)
    assert store.fates("mail", ["a1", "b2", "c3"]) == {
        "a1": frozenset({"skipped"}),
        "b2": frozenset({"sent"}),
        "c3": frozenset(),
    }
    assert store.fates("log", ["a1"]) == {"a1": frozenset()}
    assert {c.status: c.count for c in store.outbox()} == {"sent": 1, "skipped": 2}


# Silences


def test_silences_are_kept_found_and_ended(store: Store) -> None:
    def silence(match: str, hours: int, at: datetime = NOON) -> Silence:
        return Silence.of([match, "outcome!=x"], at + timedelta(hours=hours), at, "maria", "tests")

    long, short = silence("airline=AC", 5), silence('office=~"B.*"', 1, NOON + HALF_HOUR)
    for one in (long, short):
        store.add_silence(one)
    assert store.silences() == [short, long]
    assert store.silences(limit=1) == [short]
    assert store.silences(active_at=NOON) == [long]
    assert store.silences(active_at=NOON + 3 * timedelta(hours=1)) == [long]
    assert store.silences(active_at=long.ends_at) == []

    ended = store.expire_silence(long.id[:6], NOON + HALF_HOUR, "ops")
    assert (ended.ends_at, ended.expired_by) == (NOON + HALF_HOUR, "ops")
    assert store.silences(active_at=NOON + HALF_HOUR) == [short]
    assert store.silences()[1] == ended, "who ended it, and when, can be seen later"
    with pytest.raises(ConflictError, match="has ended already"):
        store.expire_silence(long.id, NOON + HALF_HOUR, "ops")
    with pytest.raises(SilenceNotFoundError, match="is no silence"):
        store.expire_silence("zz", NOON, "ops")
    with pytest.raises(SilenceNotFoundError, match="several"):
        store.expire_silence("", NOON, "ops")


# What pages show of an incident


def points(first: datetime, *observed: int) -> dict[datetime, Point]:
    return {
        first + n * HALF_HOUR: Point(first + n * HALF_HOUR, 100, count, 1.25)
        for n, count in enumerate(observed)
    }


def test_the_course_of_an_incident_is_kept_point_by_point(store: Store) -> None:
    shown = Material(series={"a1": points(NOON, 3, 4)}, totals={"pay": points(NOON, 9)})
    store.commit(Work(incidents=(incident("a1"),), material=shown))
    later = Material(series={"a1": points(NOON + HALF_HOUR, 5, 6)})
    store.commit(Work(material=later))
    assert [p.observed for p in store.course("a1")] == [3, 5, 6]
    assert store.course("a1")[0] == Point(NOON, 100, 3, 1.25)
    assert store.course("nobody") == []
    assert store.totals(NOON) == {"pay": [Point(NOON, 100, 9, 1.25)]}
    assert store.totals(NOON + HALF_HOUR) == {}
    # It is known by another cause now.
    store.commit(Work(material=Material(series={"a1": points(NOON, 1)}, anew={"a1"})))
    assert [p.observed for p in store.course("a1")] == [1]


def test_the_history_says_when_an_incident_opened_not_when_it_was_written(store: Store) -> None:
    """A replay writes many ticks at once."""
    late = replace(incident("a1"), updated_at=NOON + 6 * HALF_HOUR)
    store.commit(Work(incidents=(late,)))
    store.commit(Work(incidents=(resolved(late, NOON + 8 * HALF_HOUR),)))
    times = [(entry.kind, entry.at) for entry in store.audit("a1")]
    assert times == [("opened", NOON), ("resolved", NOON + 8 * HALF_HOUR)]


def test_an_exhibit_is_replaced_whole(store: Store) -> None:
    link = Link("airline=AC", "pay", 0.25, NOON)
    first, second = Exhibit(NOON, (link,)), Exhibit(NOON + HALF_HOUR, came=(link,))
    store.commit(Work(incidents=(incident("a1"),), material=Material(exhibits={"a1": first})))
    assert store.exhibit("a1") == first
    store.commit(Work(material=Material(exhibits={"a1": second})))
    assert store.exhibit("a1") == second
    assert store.exhibit("nobody") is None


def test_what_pages_show_is_forgotten_with_its_incident_and_in_time(store: Store) -> None:
    old, going_on = incident("a1"), incident("b2")
    shown = Material(
        series={name: points(NOON, 1, 2) for name in ("a1", "b2")},
        totals={"pay": points(NOON, 1, 2)},
        exhibits={"a1": Exhibit(NOON)},
    )
    store.commit(Work(incidents=(old, going_on), material=shown))
    store.commit(Work(incidents=(resolved(old, NOON),)))
    later = NOON + HALF_HOUR
    store.commit(Work(drop_course_before=later))
    assert [p.start for p in store.course("a1")] == [NOON, later]  # it is over: it stays whole
    assert [p.start for p in store.course("b2")] == [later]
    assert [p.start for p in store.totals(NOON)["pay"]] == [later]
    store.commit(Work(drop_incidents_before=later))
    assert store.course("a1") == []
    assert store.exhibit("a1") is None
    assert store.course("b2")


def test_slices_of_a_time_are_read_without_the_others(store: Store) -> None:
    slices = {NOON + n * HALF_HOUR: b"%d" % n for n in range(4)}
    store.commit(Work(slices=slices))
    found = store.slices(NOON + HALF_HOUR, NOON + 3 * HALF_HOUR)
    assert list(found.values()) == [b"1", b"2"]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"text": "ac"}, ["a1"]),
        ({"text": "airline=AC"}, ["a1"]),
        ({"text": "airline"}, ["d4", "c3", "b2", "a1"]),
        ({"text": "PAY airline E17 b2"}, ["b2"]),
        ({"text": 'say "hi"'}, ["c3"]),
        ({"text": "zürich"}, ["d4"]),
        ({"text": "ZÜRICH"}, ["d4"]),
        ({"text": "100%"}, []),
        ({"text": "severity"}, []),
        ({"text": "airline", "limit": 2}, ["d4", "c3"]),
        ({"text": "airline", "limit": 2, "after": (NOON + 2 * HALF_HOUR, "c3")}, ["b2", "a1"]),
        ({"severity": Severity.CRITICAL}, ["b2"]),
        ({"severity": Severity.INFO}, ["d4", "c3", "a1"]),
        ({"until": NOON + 2 * HALF_HOUR}, ["b2", "a1"]),
        (
            {"since": NOON + HALF_HOUR, "until": NOON + 3 * HALF_HOUR, "text": "pay"},
            ["c3", "b2", "a1"],
        ),
    ],
)
def test_incidents_are_searched(store: Store, asked: dict, answer: list[str]) -> None:
    values = {"a1": "AC", "b2": "MU", "c3": 'say "hi"', "d4": "Zürich"}
    found = [
        incident(
            name,
            NOON + n * HALF_HOUR,
            finding=(one := finding(airline=value)),
            latest=one,
            causes=(one.cause,),
            severity=Severity.CRITICAL if name == "b2" else Severity.INFO,
        )
        for n, (name, value) in enumerate(values.items())
    ]
    store.commit(Work(incidents=tuple(found)))
    assert [i.id for i in store.incidents(IncidentQuery(**asked))] == answer


def test_digests_are_replaced_and_go_with_their_slices(store: Store) -> None:
    later = NOON + timedelta(hours=6)
    store.commit(Work(digests={(NOON, ""): b"a", (NOON, "airline"): b"b", (later, ""): b"c"}))
    assert store.digests(NOON, later, "") == {NOON: b"a"}
    assert store.digests(NOON, later + HALF_HOUR, "airline") == {NOON: b"b"}
    store.commit(Work(stale_digests=frozenset({NOON}), digests={(NOON, ""): b"d"}))
    assert store.digests(NOON, later, "") == {NOON: b"d"}
    assert store.digests(NOON, later, "airline") == {}
    assert store.digested() == {NOON, later}
    store.commit(Work(slices={NOON: b"12", later: b"345"}))
    assert store.slice_sizes(NOON, later + HALF_HOUR) == {NOON: 2, later: 3}
    store.commit(Work(drop_slices_before=later))
    assert store.digested() == {later}

"""A stream that goes bad, a broker that goes away."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from monitor.edge import judge
from monitor.edge.kafka import beginnings, polling
from monitor.edge.kafka import source as source_module
from monitor.edge.source import Flow, SourceAwayError
from tests.contracts.streams import NOW, Desk, record
from tests.services.brokers import Kafka

SOAK = bool(os.environ.get("SOAK"))

pytestmark = [pytest.mark.service, pytest.mark.slow]


def letters(kafka: Kafka, topic: str) -> list[Any]:
    """Everything in the dead-letter topic."""
    consumer = KafkaConsumer(bootstrap_servers=kafka.address)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    end = consumer.end_offsets([partition])[partition]
    found: list[Any] = []
    while len(found) < end:
        for records in consumer.poll(timeout_ms=500).values():
            found += records
    consumer.close()
    return found


def test_bad_records_become_dead_letters_with_their_origin(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 2)
    desk.kafka.create(f"{desk.topic}.dead", 1)
    desk.kafka.send(desk.topic, [(1, record(i)) for i in range(3)])
    bad = b'{"at": "yesterday", "id": 3}'
    desk.kafka.send(desk.topic, [(1, bad)], key=b"k\xff", headers={"trace": b"t1"})
    desk.kafka.send(
        desk.topic,
        [(1, b"\xff\xfe"), (0, b""), (1, b"[1]"), (0, record(4, NOW + timedelta(days=9)))],
    )
    desk.kafka.send(desk.topic, [(0, None)], key=b"tombstone")
    source = desk.open(dead_letter_topic=f"{desk.topic}.dead")
    assert desk.read(source) == ["0", "1", "2"]
    assert desk.rejected == {"bad_time": 1, "not_json": 2, "empty": 2, "future": 1}
    found = letters(desk.kafka, f"{desk.topic}.dead")
    assert source.status().dead_letters == dict(desk.rejected)
    (one,) = [letter for letter in found if letter.value == bad]
    assert one.key == b"k\xff"
    headers = dict(one.headers)
    assert headers["trace"] == b"t1"
    assert headers["least-monitor.reason"] == b"bad_time"
    assert b"found `yesterday`" in headers["least-monitor.detail"]
    assert headers["least-monitor.topic"] == desk.topic.encode()
    assert (headers["least-monitor.partition"], headers["least-monitor.offset"]) == (b"1", b"3")
    origins = {
        (dict(r.headers)["least-monitor.partition"], dict(r.headers)["least-monitor.offset"])
        for r in found
    }
    assert origins == {
        (b"1", b"3"),
        (b"1", b"4"),
        (b"0", b"0"),
        (b"1", b"5"),
        (b"0", b"1"),
        (b"0", b"2"),
    }
    (tombstone,) = [letter for letter in found if letter.key == b"tombstone"]
    assert tombstone.value is None


def test_reading_waits_while_dead_letters_cannot_be_written(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.edge.kafka.connection.REQUEST_MS", 2000)
    desk.kafka.create(desk.topic, 1)
    desk.kafka.send(desk.topic, [(0, record(1)), (0, b"?"), (0, record(2))])
    source = desk.open(dead_letter_topic=f"{desk.topic}.dead")
    with pytest.raises(SourceAwayError, match=r"cannot be written to topic `.*\.dead`.*exist"):
        desk.until(source, lambda: False)
    assert desk.position is None, "nothing was handed over"
    desk.kafka.create(f"{desk.topic}.dead", 1)
    assert desk.read(source) == ["1", "2"]
    assert [letter.value for letter in letters(desk.kafka, f"{desk.topic}.dead")] == [b"?"]


def test_a_stream_gone_bad_pauses_and_goes_on_once_it_is_sound_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.edge.kafka.sampling.SAMPLE_RECORDS", 150)
    desk.kafka.create(desk.topic, 2)
    desk.kafka.send(desk.topic, [(i % 2, record(i)) for i in range(300)])
    source = desk.open(max_rejected_ratio=0.2, recheck="100ms")
    assert len(desk.read(source)) == 300
    # A release renames the field of the time; every tenth sender does not have it yet.
    broken = [record(i) if i % 10 == 0 else b'{"time": 1}' for i in range(300, 700)]
    desk.kafka.send(desk.topic, [(i % 2, value) for i, value in enumerate(broken)])
    desk.until(source, lambda: source.status().flow is Flow.PAUSED)
    said = source.status().detail
    assert "cannot be understood" in said
    assert "bad_time" in said
    assert "column `at` holds no time" in said
    held = desk.position
    for _ in range(3):
        time.sleep(0.12)
        assert [len(b.events) for b in source.batches(desk.position)] in ([], [0])
    assert desk.position == held, "nothing is taken in meanwhile"
    # The release is taken back. What lay between is read through, the good rows of it count.
    desk.kafka.send(desk.topic, [(i % 2, record(i)) for i in range(700, 900)])
    numbers: list[str] = []
    deadline = time.monotonic() + 20
    while len(numbers) < 240 and time.monotonic() < deadline:
        for batch in source.batches(desk.position):
            desk.position = json.loads(json.dumps(batch.position))
            numbers += desk.numbers(batch)
            for one in batch.rejected:
                desk.rejected[one.reason] += one.count
    wanted = [*range(300, 700, 10), *range(700, 900)]
    assert sorted(map(int, numbers)) == wanted
    assert sum(desk.rejected.values()) == 360
    # It judges again from here on.
    desk.kafka.send(desk.topic, [(0, b"rubbish")] * 300)
    desk.until(source, lambda: source.status().flow is Flow.PAUSED)


def test_kafka_once_stays_paused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """`once` makes one pass: whether the newest are sound has to be seen within it."""
    monkeypatch.setattr("monitor.edge.kafka.sampling.SAMPLE_RECORDS", 150)
    desk.kafka.create(desk.topic, 1)
    values = [record(i) for i in range(300)] + [b"?"] * 400 + [record(i) for i in range(300, 600)]
    desk.kafka.send(desk.topic, [(0, value) for value in values])
    source = desk.open(max_rejected_ratio=0.2, recheck="1h")
    assert len(desk.read(source)) == 600
    assert source.status().flow is not Flow.PAUSED


def test_a_wrong_configuration_is_mended_without_losing_a_record(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 2)
    desk.kafka.send(desk.topic, [(i % 2, record(i)) for i in range(200)])
    wrong = desk.open()
    text = (desk.folder / "monitor.toml").read_text().replace('time = "at"', 'time = "when"')
    (desk.folder / "monitor.toml").write_text(text)
    wrong.close()
    config_of = desk.config
    desk.config = lambda **settings: _renamed(config_of(**settings), desk.folder)  # type: ignore[method-assign]
    wrong = desk.open()
    desk.until(wrong, lambda: wrong.status().flow is Flow.PAUSED)
    assert desk.position is None
    wrong.close()
    desk.config = config_of  # type: ignore[method-assign]
    assert len(desk.read(desk.open())) == 200


def test_a_condition_that_leaves_out_every_record_loses_none(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 1)
    desk.kafka.send(desk.topic, [(0, record(i, kind="booking")) for i in range(150)])
    wrong = desk.open(where="kind == 'Booking'", recheck="50ms")
    desk.until(wrong, lambda: wrong.status().flow is Flow.PAUSED)
    assert "`source.where` leaves out every record so far; for example" in wrong.status().detail
    time.sleep(0.1)
    assert (list(wrong.batches(None)), wrong.status().flow) == ([], Flow.PAUSED)
    wrong.close()
    right = desk.open(where="kind == 'booking'")
    assert len(desk.read(right)) == 150
    # What is true once may be false for long.
    desk.kafka.send(desk.topic, [(0, record(i, kind="health")) for i in range(150, 400)])
    time.sleep(0.5)
    assert desk.read(right) == []
    assert desk.rejected == {"excluded": 250}


def _renamed(config: Any, folder: Path) -> Any:
    from monitor.config import load

    path = folder / "monitor.toml"
    path.write_text(path.read_text().replace('time = "at"', 'time = "when"'))
    return load(path, {})


def test_a_clock_that_falls_behind_loses_no_record(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 2)
    told = {"event_id": "id", "duplicates_within": "1h"}
    desk.kafka.send(desk.topic, [(i % 2, record(i)) for i in range(60)])
    source = desk.open(**told)
    assert len(desk.read(source)) == 60
    desk.now, held = NOW - timedelta(hours=6), desk.position
    for i in range(60, 66):  # as they are written, one by one
        desk.kafka.send(desk.topic, [(i % 2, record(i, NOW + timedelta(minutes=i)))])
        desk.until(source, lambda: source.status().flow is Flow.PAUSED)
        assert sum(p.lag for p in source.status().partitions) <= i - 59
    assert "newest record is of 2026-03-01 13:0" in source.status().detail
    assert "this machine's clock says 2026-03-01 06:00" in source.status().detail
    source.close()
    source = desk.open(**told)  # a restart under the wrong clock
    desk.until(source, lambda: source.status().flow is Flow.PAUSED)
    assert (desk.position, desk.rejected) == (held, {})
    desk.now = NOW + timedelta(hours=1)
    assert sorted(desk.read(source)) == [str(i) for i in range(60, 66)]
    assert desk.rejected == {}


def test_a_backlog_under_a_clock_that_is_behind_is_read_as_far_as_it_can_be_true(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "BATCH_RECORDS", 100)
    monkeypatch.setattr("monitor.edge.kafka.connection.POLL_RECORDS", 50)
    desk.kafka.create(desk.topic, 3)
    begin = NOW - timedelta(hours=20)
    times = [begin + timedelta(minutes=i) for i in range(1200)]
    # Partition 2 is ahead of the others by an hour, wherever one stops.
    desk.kafka.send(
        desk.topic,
        [(i % 3, record(i, at + timedelta(hours=i % 3 == 2))) for i, at in enumerate(times)],
    )
    source = desk.open(recheck="100ms")
    desk.now = NOW - timedelta(hours=8)
    numbers: list[str] = []

    def read_until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, source.status()
            for batch in source.batches(desk.position):
                desk.position = json.loads(json.dumps(batch.position))
                numbers.extend(desk.numbers(batch))
                for one in batch.rejected:
                    desk.rejected[one.reason] += one.count

    read_until(lambda: source.status().flow is Flow.PAUSED)
    assert 300 < len(numbers) < 850
    assert desk.rejected == {}
    desk.now = NOW + timedelta(hours=1)
    read_until(lambda: source.status().flow is Flow.READING)
    assert sorted(map(int, numbers)) == list(range(1200))
    assert desk.rejected == {}


def test_one_writer_whose_clock_is_ahead_does_not_hold_up_the_stream(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "BATCH_RECORDS", 40)
    desk.kafka.create(desk.topic, 5)
    ahead = NOW + timedelta(hours=5)
    # It writes to a partition of its own, and now and then there is a year that nobody meant.
    records = [(i % 5, record(i, ahead if i % 5 == 4 and i % 2 else None)) for i in range(400)]
    desk.kafka.send(desk.topic, [*records, (0, record(400, NOW + timedelta(days=900)))])
    source = desk.open()
    assert len(desk.read(source)) == 360
    assert desk.rejected == {"future": 41}
    # Alone at the end of the stream nobody knows whose clock is wrong, until others come.
    desk.kafka.send(desk.topic, [(4, record(401, ahead))])
    desk.until(source, lambda: source.status().flow is Flow.PAUSED)
    desk.kafka.send(desk.topic, [(0, record(402))])
    assert desk.read(source) == ["402"]
    assert desk.rejected == {"future": 42}


def test_a_few_bad_records_are_no_reason_to_pause() -> None:
    judging = judge.Judge(0.2)
    assert judging.too_bad(99, {"x": 99}) == "", "too few to tell"
    assert "99 of the last 100 records" in judging.too_bad(1, {})
    judging.forget()
    for _ in range(50):
        assert judging.too_bad(100, {"x": 20}) == ""
    assert judging.too_bad(100, {"x": 21}) != ""
    assert judging.too_bad(100, {"x": 20}) == "", "what is held back does not count"
    assert judge.Judge(1.0).too_bad(1000, {"x": 1000}) == ""
    assert not judging.recovered(99, 0)
    assert judging.recovered(100, 10)
    assert not judging.recovered(100, 11)


def test_a_broker_that_goes_away_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(polling, "ANSWER_MS", 1000)
    monkeypatch.setattr(beginnings, "ANSWER_MS", 1000)
    monkeypatch.setattr(source_module, "AWAY_SECONDS", 1.0)
    broker = Kafka(tmp_path / "broker")
    broker.start()
    desk = Desk(broker, tmp_path)
    dice = random.Random(5)
    try:
        broker.create(desk.topic, 3)
        written = 0
        numbers: list[str] = []
        stream = desk.open()
        for ends in (broker.kill,) if not SOAK else (broker.kill, broker.stop, broker.kill):
            broker.send(desk.topic, [(dice.randrange(3), record(written + i)) for i in range(500)])
            written += 500
            numbers += desk.read(stream)
            ends()
            with pytest.raises(SourceAwayError, match="cannot be read"):
                desk.until(stream, lambda: False)
            assert stream.status().flow is Flow.AWAY
            assert not stream.status().current, "silence says nothing now"
            broker.start()
            broker.send(desk.topic, [(dice.randrange(3), record(written + i)) for i in range(300)])
            written += 300
            deadline = time.monotonic() + 30
            while stream.status().flow is not Flow.READING and time.monotonic() < deadline:
                try:
                    numbers += desk.read(stream)
                except SourceAwayError:
                    time.sleep(0.1)
        assert sorted(map(int, numbers)) == list(range(written))
    finally:
        for one in desk.sources:
            one.close()
        broker.kill()

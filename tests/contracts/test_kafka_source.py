"""What every source promises, told of Apache Kafka; and what only a stream has to."""

from __future__ import annotations

import json
import time
from datetime import timedelta

import numpy as np
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from monitor.domain import utc
from monitor.edge.kafka import polling
from monitor.edge.kafka import source as source_module
from monitor.edge.kafka.buffer import Buffer
from monitor.edge.source import Flow, SourceAwayError
from tests.contracts.streams import NOW, Desk, record

pytestmark = [pytest.mark.service, pytest.mark.slow]


def test_all_partitions_are_read_whole_and_each_in_order(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 4)
    desk.kafka.send(desk.topic, [(i % 4, record(i)) for i in range(2000)])
    source = desk.open()
    numbers = desk.read(source)
    assert sorted(numbers, key=int) == [str(i) for i in range(2000)]
    for partition in range(4):
        mine = [n for n in numbers if int(n) % 4 == partition]
        assert mine == [str(i) for i in range(partition, 2000, 4)]
    status = source.status()
    assert [(p.partition, p.position, p.lag) for p in status.partitions] == [
        (i, 500, 0) for i in range(4)
    ]
    assert status.read_bytes > 2000 * 50
    desk.kafka.send(desk.topic, [(1, record(2000))])
    time.sleep(0.5)
    assert desk.read(source) == ["2000"]


def test_reading_again_from_any_position_gives_exactly_what_follows(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "BATCH_RECORDS", 100)
    monkeypatch.setattr("monitor.edge.kafka.connection.POLL_RECORDS", 70)
    desk.kafka.create(desk.topic, 3)
    desk.kafka.send(desk.topic, [(i % 3, record(i)) for i in range(900)])
    batches = desk.take(desk.open())
    assert len(batches) > 4
    told = [desk.numbers(batch) for batch in batches]
    everything = {number for some in told for number in some}
    for i in range(0, len(batches), max(1, len(batches) // 4)):
        desk.position = json.loads(json.dumps(batches[i].position))
        before = {number for some in told[: i + 1] for number in some}
        rest = desk.read(desk.open())
        assert len(rest) == len(set(rest))
        assert set(rest) | before == everything
        assert not set(rest) & before


def test_rows_whose_transaction_failed_are_handed_over_again(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 2)
    desk.kafka.send(desk.topic, [(i % 2, record(i)) for i in range(50)])
    source = desk.open()
    first: list[str] = []
    deadline = time.monotonic() + 20
    while len(first) < 50 and time.monotonic() < deadline:
        for batch in source.batches(None):  # nobody stores the position
            first = desk.numbers(batch)
    assert sorted(desk.read(source), key=int) == [str(i) for i in range(50)]


def test_a_partition_added_while_running_is_read_from_its_beginning(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 1)
    desk.kafka.send(desk.topic, [(0, record(i)) for i in range(10)])
    source = desk.open(start="end")
    assert desk.read(source) == []
    desk.kafka.send(desk.topic, [(0, record(10))])
    desk.until(source, lambda: source.status().partitions[0].lag > 0 or desk.position is not None)
    desk.read(source)
    desk.kafka.grow(desk.topic, 3)
    desk.kafka.send(desk.topic, [(2, record(i)) for i in range(20, 30)])
    seen: list[str] = []
    deadline = time.monotonic() + 20
    while len(seen) < 10 and time.monotonic() < deadline:
        seen += desk.read(source)
    assert seen == [str(i) for i in range(20, 30)]
    assert len(source.status().partitions) == 3


def test_a_store_without_position_begins_at_a_time_and_at_a_whole_slice(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 2)
    old = NOW - timedelta(days=3)
    stamps = [old + timedelta(hours=i) for i in range(72)]
    desk.kafka.send(
        desk.topic,
        [(i % 2, record(i, at=at), int(at.timestamp() * 1000)) for i, at in enumerate(stamps)],
    )
    late = record(99, at=old)  # written today about three days ago
    desk.kafka.send(desk.topic, [(0, late, int(NOW.timestamp() * 1000))])
    desk.now = NOW + timedelta(minutes=10)
    source = desk.open(start="1d")
    numbers = desk.read(source)
    assert sorted(map(int, numbers)) == [i for i, at in enumerate(stamps) if at >= stamps[48]]
    assert desk.rejected == {"before_start": 1}
    # The same after a restart, whatever `start` says then.
    desk.kafka.send(desk.topic, [(1, late, int(NOW.timestamp() * 1000)), (1, record(100, NOW))])
    assert desk.read(desk.open(start="beginning")) == ["100"]
    assert desk.rejected == {"before_start": 2}


def test_only_what_transactions_committed_is_read(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 1)
    producer = KafkaProducer(bootstrap_servers=desk.kafka.address, transactional_id=desk.topic)
    producer.init_transactions()
    for number, keep in ((1, True), (2, False), (3, True)):
        producer.begin_transaction()
        producer.send(desk.topic, record(number))
        producer.flush()
        producer.commit_transaction() if keep else producer.abort_transaction()
    producer.close()
    source = desk.open()
    assert desk.read(source) == ["1", "3"]
    assert source.status().partitions[0].lag == 0, "marks of transactions are no lag"


def test_the_watermark_waits_for_the_slowest_partition_but_not_for_a_silent_one(
    desk: Desk,
) -> None:
    desk.kafka.create(desk.topic, 3)
    at = NOW - timedelta(hours=1)
    rows = [(0, record(i, at + timedelta(minutes=i))) for i in range(50)]
    rows += [(1, record(i, at + timedelta(minutes=i))) for i in range(20)]
    stamped = [(p, v, int((NOW - timedelta(minutes=11)).timestamp() * 1000)) for p, v in rows]
    desk.kafka.send(desk.topic, stamped)
    source = desk.open(idle_after="10s")
    last = desk.take(source)[-1]
    # Partition 2 never had a record; partition 1 is read to its end, where events come 30 minutes
    # after their time: by now those of 30 minutes and `idle_after` ago have come.
    assert last.reached is not None
    assert utc(last.reached) == NOW - timedelta(minutes=30, seconds=10)
    assert [p.idle for p in source.status().partitions] == [False, False, True]
    # Silent for as long as it takes: nobody waits for it.
    source._active = {one: t - 11 for one, t in source._active.items()}
    (moved,) = source.batches(desk.position)
    assert utc(moved.reached) == at + timedelta(minutes=49)
    assert len(moved.events) == 0


def test_a_record_from_the_future_is_set_aside_and_moves_nothing(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 1)
    desk.kafka.send(
        desk.topic,
        [(0, record(1, NOW)), (0, record(2, NOW + timedelta(days=400))), (0, record(3, NOW))],
    )
    batches = desk.take(desk.open())
    assert [n for b in batches for n in desk.numbers(b)] == ["1", "3"]
    assert utc(batches[-1].reached) == NOW
    (rejected,) = batches[0].rejected
    assert (rejected.reason, rejected.where) == ("future", f"{desk.topic}[0]@1")


def test_an_event_told_twice_counts_once_also_across_a_restart(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 2)
    first = [(i % 2, record(i)) for i in range(40)]
    desk.kafka.send(desk.topic, [*first, *first[:10], (1, record(0))])
    source = desk.open(event_id="id", duplicates_within="1h")
    assert sorted(desk.read(source), key=int) == [str(i) for i in range(40)]
    assert desk.rejected == {"duplicate": 11}
    source.close()
    desk.kafka.send(desk.topic, [*first[20:], (0, record(77))])
    assert desk.read(desk.open(event_id="id", duplicates_within="1h")) == ["77"]
    assert desk.rejected == {"duplicate": 31}


def test_a_buffer_that_is_full_stops_the_reading_but_nothing_else(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 2)
    big = "x" * 2000
    desk.kafka.send(desk.topic, [(i % 2, record(i, more=big)) for i in range(5000)])
    source = desk.open(buffer_bytes=1 << 20)
    stream = source.batches(None)
    batch = next(stream)
    most = 0
    for _ in range(10):  # the consumer of the batches is busy with a fit
        time.sleep(0.1)
        most = max(most, source.status().buffered_bytes)
    # What one poll brings may come on top.
    assert most < (1 << 20) + 10_000 * 3000
    assert source.status().flow is Flow.CATCHING_UP
    desk.position = dict(batch.position)
    numbers = desk.numbers(batch) + [n for b in stream for n in desk.numbers(b)]
    desk.position = json.loads(json.dumps(source._handed))
    numbers += desk.read(source)
    assert sorted(map(int, numbers)) == list(range(5000))


def test_offsets_are_shown_in_kafka_for_lag_tools(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "SHOW_SECONDS", 0.1)
    desk.kafka.create(desk.topic, 2)
    desk.kafka.send(desk.topic, [(i % 2, record(i)) for i in range(30)])
    source = desk.open(group=f"group-of-{desk.topic}")
    desk.take(source)
    consumer = KafkaConsumer(
        bootstrap_servers=desk.kafka.address, group_id=f"group-of-{desk.topic}"
    )
    try:
        shown = [TopicPartition(desk.topic, p) for p in range(2)]
        desk.until(source, lambda: [consumer.committed(tp) for tp in shown] == [15, 15])
    finally:
        consumer.close()


def test_a_topic_that_is_missing_is_said_to_be(desk: Desk) -> None:
    source = desk.open()
    with pytest.raises(SourceAwayError, match=f"there is no topic `{desk.topic}`"):
        desk.until(source, lambda: False)
    assert source.status().flow is Flow.AWAY
    desk.kafka.create(desk.topic, 1)
    desk.kafka.send(desk.topic, [(0, record(1))])
    numbers: list[str] = []
    deadline = time.monotonic() + 20
    while not numbers and time.monotonic() < deadline:
        try:
            numbers = desk.read(source)
        except SourceAwayError:
            time.sleep(0.2)
    assert numbers == ["1"]


def test_records_deleted_before_they_were_read_are_counted_as_lost(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 1)
    desk.kafka.send(desk.topic, [(0, record(i)) for i in range(10)])
    source = desk.open()
    assert len(desk.read(source)) == 10
    source.close()
    desk.kafka.send(desk.topic, [(0, record(i)) for i in range(10, 20)])
    admin = desk.kafka.admin()
    admin.delete_records({TopicPartition(desk.topic, 0): 15})
    admin.close()
    assert desk.read(desk.open()) == [str(i) for i in range(15, 20)]
    assert desk.rejected == {"lost": 5}


def test_a_topic_made_anew_is_not_taken_for_the_old_one(desk: Desk) -> None:
    desk.kafka.create(desk.topic, 1)
    desk.kafka.send(desk.topic, [(0, record(i)) for i in range(10)])
    source = desk.open()
    desk.read(source)
    source.close()
    admin = desk.kafka.admin()
    admin.delete_topics([desk.topic])
    admin.close()
    time.sleep(0.5)
    desk.kafka.create(desk.topic, 1)
    desk.kafka.send(desk.topic, [(0, record(1))])
    source = desk.open()
    with pytest.raises(SourceAwayError, match=r"ends at offset 1, before 10.*store. url of its"):
        desk.until(source, lambda: False)


def test_partitions_far_apart_in_time_are_read_to_the_end_slowest_first(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "BATCH_RECORDS", 200)
    monkeypatch.setattr("monitor.edge.kafka.connection.POLL_RECORDS", 50)
    desk.kafka.create(desk.topic, 3)
    begin = NOW - timedelta(days=2)
    # The same two days: in partition 0 a record every two minutes, in 1 every twenty, in 2 all
    # of them at its end.
    rows = [(0, i, begin + timedelta(minutes=2 * i)) for i in range(1400)]
    rows += [(1, 2000 + i, begin + timedelta(minutes=20 * i)) for i in range(140)]
    rows += [(2, 3000 + i, NOW - timedelta(minutes=60 - i)) for i in range(60)]
    desk.kafka.send(
        desk.topic,
        [(p, record(i, at), int(at.timestamp() * 1000)) for p, i, at in rows],
    )
    source = desk.open()
    batches = desk.take(source)
    numbers = sorted(int(n) for batch in batches for n in desk.numbers(batch))
    assert numbers == sorted(i for _, i, _ in rows)
    reached = [b.reached for b in batches if b.reached is not None and not np.isnat(b.reached)]
    assert reached == sorted(reached)


def test_a_partition_that_gives_nothing_is_connected_to_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polling, "STALLED_SECONDS", 0.05)
    poller = object.__new__(polling.Poller)
    poller.buffer, poller._moved = Buffer(1), {}
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    poller._watch({one: 10, two: 10}, {one: 5, two: 10})
    time.sleep(0.06)
    poller._watch({one: 10, two: 10}, {one: 6, two: 10})
    poller._watch({one: 10, two: 10}, {one: 6, two: 10})
    time.sleep(0.06)
    with pytest.raises(TimeoutError, match="partition 0 of `t` has records behind offset 6"):
        poller._watch({one: 10, two: 10}, {one: 6, two: 10})

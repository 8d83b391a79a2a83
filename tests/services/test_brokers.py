"""The brokers of the other tests: what is relied on has to be true of them."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer, TopicPartition

from tests.services.brokers import Tansu

pytestmark = [pytest.mark.service, pytest.mark.slow]


def held(address: str, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    seen: list[bytes] = []
    while len(seen) < 3:
        for records in consumer.poll(timeout_ms=1000).values():
            seen += [record.value for record in records]
    consumer.close()
    return seen


def test_tansu_takes_and_gives_records(tansu: Tansu) -> None:
    tansu.create("t")
    tansu.send("t", [(0, b"a"), (0, b"b"), (0, b"c")])
    assert held(tansu.address, "t") == [b"a", b"b", b"c"]

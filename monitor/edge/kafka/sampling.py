"""A look at the newest records of a topic, without moving where it is read."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaError

from monitor.config import KafkaSettings
from monitor.edge.kafka.connection import connect
from monitor.edge.source import SourceAwayError

SAMPLE_RECORDS = 1_000

_SECONDS = 15.0


def newest_records(
    settings: KafkaSettings, records: int | None = None
) -> tuple[list[Any], dict[TopicPartition, int]]:
    """About `records` of the newest ones, evenly from all partitions, and where these end.

    Args:
        settings: of the source.
        records: `SAMPLE_RECORDS` if None.

    Raises:
        SourceAwayError: the topics cannot be read.
    """
    try:
        consumer = connect(settings)
    except (KafkaError, OSError) as error:
        raise SourceAwayError(f"Kafka cannot be read: {error}") from None
    try:
        partitions = [
            TopicPartition(topic, number)
            for topic in settings.topics
            for number in sorted(consumer.partitions_for_topic(topic) or ())
        ]
        if not partitions:
            raise SourceAwayError(f"there is no topic {', '.join(settings.topics)}")
        first, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        each = -(-(records or SAMPLE_RECORDS) // len(partitions))
        consumer.assign(partitions)
        for one in partitions:
            consumer.seek(one, max(first[one], end[one] - each))
        found: list[Any] = []
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            for one, some in consumer.poll(timeout_ms=500).items():
                found += [record for record in some if record.offset < end[one]]
            if all((consumer.position(one, timeout_ms=1000) or 0) >= end[one] for one in end):
                break
        return found, end
    except (KafkaError, OSError) as error:
        raise SourceAwayError(f"Kafka cannot be read: {error}") from None
    finally:
        with contextlib.suppress(Exception):
            consumer.close(autocommit=False, timeout_ms=1000)

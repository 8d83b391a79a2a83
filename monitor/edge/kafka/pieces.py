"""Records between the brokers and the decoder: some of one partition, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafka import TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

RECORD_OVERHEAD_BYTES = 250
"""Memory of a record besides its value."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it came, for the dead-letter topic and for people."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]

    @property
    def where(self) -> str:
        """For people."""
        return f"{self.topic}[{self.partition}]@{self.offset}"


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one partition, in order, as columns: objects by the hundred thousand would keep
    the garbage collector busy."""

    partition: TopicPartition
    offsets: Sequence[int]
    stamps: Sequence[int]
    """Kafka's timestamps, milliseconds since 1970."""
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Sequence[tuple[str, bytes]]]
    size_bytes: int
    again: bool = False
    """Already handed over by an earlier process: read only to know their ids."""

    def __len__(self) -> int:
        return len(self.offsets)

    def record(self, row: int) -> Record:
        """One of them."""
        return Record(
            self.partition.topic,
            self.partition.partition,
            self.offsets[row],
            self.stamps[row],
            self.keys[row],
            self.values[row],
            self.headers[row] or (),
        )

    @staticmethod
    def of(partition: TopicPartition, records: Sequence[Any], again: bool = False) -> Piece:
        """From kafka-python's ConsumerRecords."""
        columns = dict(zip(ConsumerRecord._fields, zip(*records, strict=True), strict=True))
        values = columns["value"]
        size = sum(columns["serialized_value_size"]) + RECORD_OVERHEAD_BYTES * len(records)
        headers = tuple([one or () for one in columns["headers"]])
        return Piece(
            partition,
            columns["offset"],
            columns["timestamp"],
            columns["key"],
            values,
            headers,
            size,
            again,
        )

"""The booking world as a topic of Apache Kafka, in step with the clock or as fast as it goes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from monitor.simulation.files import json_lines
from monitor.simulation.world import SLICE, World

_TICK_SECONDS = 0.5
_KEY = "agent_office"

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # failures are told once, by exceptions


class StreamError(Exception):
    """The topic cannot be written; the message says why."""


class Stream:
    """A topic that bookings are written to, keyed by office and stamped with their time.

    Args:
        servers: ``host:port`` of some brokers.
        topic: made if it is missing, keeping records for ever: simulated days may be long past.
        partitions: of a topic that is made.

    Raises:
        StreamError: no broker answers, or the topic cannot be made.
    """

    def __init__(self, servers: Sequence[str], topic: str, partitions: int) -> None:
        self._topic = topic
        try:
            admin = KafkaAdminClient(bootstrap_servers=list(servers), bootstrap_timeout_ms=10_000)
            try:
                new = NewTopic(topic, partitions, 1, topic_configs={"retention.ms": "-1"})
                admin.create_topics([new])
            except TopicAlreadyExistsError:
                pass
            finally:
                admin.close()
            self._producer = KafkaProducer(
                bootstrap_servers=list(servers),
                linger_ms=20,
                batch_size=1 << 17,
                bootstrap_timeout_ms=10_000,
            )
        except (KafkaError, OSError) as error:
            raise StreamError(f"no topic {topic!r} at {', '.join(servers)}: {error}") from None

    def send(self, bookings: pa.Table) -> None:
        """Write them all, in order.

        Raises:
            StreamError: the brokers did not take them.
        """
        micros = bookings.column("time").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        offices = bookings.column(_KEY).cast(pa.string()).to_pylist()
        lines = json_lines(bookings).splitlines()
        try:
            sent = None
            for line, office, at in zip(lines, offices, micros.to_pylist(), strict=True):
                sent = self._producer.send(
                    self._topic, line, key=office.encode(), timestamp_ms=at // 1000
                )
            self._producer.flush(60)
            if sent is not None:
                sent.get(60)
        except (KafkaError, OSError) as error:
            raise StreamError(f"topic {self._topic!r} cannot be written: {error}") from None

    def close(self) -> None:
        """Write what is left."""
        self._producer.close(timeout=10)


def stream(
    world: World,
    first: datetime,
    slices: int,
    to: Stream,
    speed: float | None,
    progress: Callable[[datetime, int], None],
) -> None:
    """Send `slices` half hours.

    Args:
        world: what happens.
        first: start of the first half hour.
        slices: how many.
        to: the topic.
        speed: this many times faster than life, a booking being sent once its time has come;
            None is as fast as it goes.
        progress: told the time reached and the rows sent since the last call.
    """
    began = time.monotonic()
    for number in range(slices):
        at = first + number * SLICE
        bookings = world.slice(at)
        if speed is None:
            to.send(bookings)
            progress(at + SLICE, len(bookings))
            continue
        for part, until in _portions(bookings, at, _TICK_SECONDS * speed):
            due = began + (until - first).total_seconds() / speed
            time.sleep(max(0.0, due - time.monotonic()))
            to.send(part)
            progress(until, len(part))


def _portions(
    bookings: pa.Table, at: datetime, seconds: float
) -> Iterable[tuple[pa.Table, datetime]]:
    """The half hour cut into portions of about `seconds`, each with its end."""
    count = max(1, round(SLICE.total_seconds() / seconds))
    micros = bookings.column("time").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    order = np.argsort(micros, kind="stable")
    bookings, micros = bookings.take(pa.array(order)), micros[order]
    ends = [at + SLICE * (i + 1) / count for i in range(count)]
    cuts = np.searchsorted(micros, [int(end.timestamp() * 1e6) for end in ends[:-1]])
    begins = [0, *cuts.tolist()]
    for begin, stop, end in zip(begins, [*begins[1:], len(micros)], ends, strict=True):
        yield bookings.slice(begin, stop - begin), end

"""Tells a clock of ours that is behind from records that are odd.

Records later than our clock allows are set aside, and the stream goes on. If it is our clock that
is wrong they would all be lost, so before any is set aside the newest records are asked, of those
that were not taken in yet: when more of them lie in the future than speak for our clock, reading
waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import numpy as np
import structlog
from kafka import TopicPartition

from monitor.config import Config, KafkaSettings
from monitor.domain import datetime64
from monitor.edge.json_records import RecordDecoder
from monitor.edge.judge import clocks_differ
from monitor.edge.kafka.places import Place
from monitor.edge.kafka.polling import Poller
from monitor.edge.kafka.sampling import newest_records
from monitor.edge.kafka.sorting import Looked
from monitor.vocabulary import Vocabulary

EACH = 10
"""Records of a partition that are asked, the last ones."""

ABSURD = timedelta(days=365)
"""No clock is off by so much that has agreed with events taken in before."""

_log = structlog.get_logger("kafka")


class Clocks:
    """Whether our clock and the records agree.

    Args:
        config: `source` is Kafka.
        now: the clock.

    Attributes:
        complaint: how they differ; empty while they agree.
    """

    def __init__(self, config: Config, now: Callable[[], datetime]) -> None:
        assert isinstance(config.source, KafkaSettings)
        self._config, self._settings, self._now = config, config.source, now
        self._ahead = config.settings.window.max_future
        self.complaint = ""
        self._asked = -1e9
        """When the brokers were last asked, monotonic."""
        self._sound_until: Mapping[TopicPartition, int] = {}
        """Where the newest records ended that spoke for our clock, when the brokers were asked."""

    def forget(self) -> None:
        """Reading begins anew."""
        self.complaint, self._asked, self._sound_until = "", -1e9, {}

    def agree(self, looked: Looked, poller: Poller, places: Mapping[TopicPartition, Place]) -> bool:
        """Whether what lies in the future of these may be set aside; if not, ask again later.

        Args:
            looked: the next to take in.
            poller: knows what comes behind them.
            places: where all partitions stand before them.

        Raises:
            SourceAwayError: the newest records cannot be had.
        """
        why = ""
        if self._settings.max_rejected_ratio < 1 and self._future(looked.decoded.events.at).any():
            if poller.view.at_end:
                why = self._difference(_at_hand(looked, poller), places)
            elif self._passed(places):
                waited = time.monotonic() - self._asked
                if self.complaint and waited < self._settings.recheck.total_seconds():
                    return False
                self._asked = time.monotonic()
                records, ends = newest_records(self._settings, EACH * max(1, len(places)))
                fresh = [
                    record.value
                    for record in records
                    if record.offset
                    >= places.get(TopicPartition(record.topic, record.partition), Place(0)).offset
                ]
                why = self._difference(fresh, places)
                self._sound_until = {} if why else ends
        if why and not self.complaint:
            _log.error("paused: nothing is taken in until the clocks agree; no record is skipped",
                       detail=why)  # fmt: skip
        elif self.complaint and not why:
            _log.warning("going on", was=self.complaint)
        self.complaint = why
        return not why

    def _passed(self, places: Mapping[TopicPartition, Place]) -> bool:
        """The newest records that were sound once are taken in: others are the newest now."""
        return all(
            places.get(one, Place(0)).offset >= end for one, end in self._sound_until.items()
        )

    def _difference(
        self, values: list[bytes | None], places: Mapping[TopicPartition, Place]
    ) -> str:
        """How our clock and the newest records differ; empty if they do not."""
        trial = RecordDecoder(self._config, Vocabulary(self._config.settings.schema))
        at = trial.decode(values).events.at
        limit = datetime64(self._now() + self._ahead)
        # What lies ahead of our clock, if not too far, does not speak for it.
        sound = int((at <= datetime64(self._now() + self._ahead / 2)).sum())
        latest = max((p.newest for p in places.values() if p.newest is not None), default=None)
        future = at[self._future(at)]
        if latest is not None and np.datetime64(latest, "us") <= limit:
            future = future[future <= limit + np.timedelta64(ABSURD)]
        if len(future) <= sound:
            return ""
        return clocks_differ("record", future.max(), self._now())

    def _future(self, at: np.ndarray) -> np.ndarray:
        future: np.ndarray = at > datetime64(self._now() + self._ahead)
        return future


def _at_hand(looked: Looked, poller: Poller) -> list[bytes | None]:
    """The last records of every partition that was read to its end."""
    newest = poller.buffer.newest(EACH)
    for piece in looked.pieces:
        behind = newest.get(piece.partition, [])
        newest[piece.partition] = [*piece.values[-EACH:], *behind][-EACH:]
    return [value for values in newest.values() for value in values]

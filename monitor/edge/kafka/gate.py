"""Closes when a stream is no longer the one that the configuration describes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime

import structlog
from kafka import TopicPartition

from monitor.config import Config, KafkaSettings
from monitor.domain import datetime64
from monitor.edge.json_records import RecordDecoder
from monitor.edge.judge import MIN_RECORDS, Judge
from monitor.edge.kafka.places import Place
from monitor.edge.kafka.sampling import newest_records
from monitor.edge.kafka.sorting import NOT_BAD, Taken
from monitor.vocabulary import Vocabulary

_log = structlog.get_logger("kafka")


class Gate:
    """Lets records pass while they are sound.

    Args:
        config: `source` is Kafka.
        now: the clock.

    Attributes:
        complaint: why it is closed; empty while it is open.
    """

    def __init__(self, config: Config, now: Callable[[], datetime]) -> None:
        assert isinstance(config.source, KafkaSettings)
        self._config, self._settings, self._now = config, config.source, now
        self._window = config.settings.window
        self._judge = Judge(self._settings.max_rejected_ratio)
        self.complaint = ""
        self._rechecked = 0.0
        self._fresh = False
        """Nothing was ever taken in."""
        self._pass_until: dict[TopicPartition, int] = {}
        """While closed, records up to here are let through, the stream being sound behind them."""

    def reopen(self, fresh: bool) -> None:
        """Judge afresh; `fresh` says that nothing was ever taken in."""
        self.complaint, self._pass_until, self._fresh = "", {}, fresh
        self._judge.forget()

    def may_pass(self, taken: Taken) -> bool:
        """Whether they may be taken in; if not, they are to be asked for again later."""
        if self._pass_until:
            places = taken.places
            if all(places.get(o, Place(0)).offset >= end for o, end in self._pass_until.items()):
                self._pass_until = {}
                self._judge.forget()
            return True
        if not self.complaint:
            reasons = Counter(fault.reason for fault in taken.bad())
            self._fresh = self._fresh and not len(taken.events)
            complaint = self._judge.too_bad(len(taken), reasons) or self._nothing_counts(taken)
            if not complaint:
                return True
            self.complaint = complaint + self._example(taken)
            self._rechecked = time.monotonic()
            _log.error(
                "paused. Nothing is taken in until the newest records are sound again; if the "
                "configuration is wrong, mend it and reload: no record is skipped",
                detail=self.complaint, limit=self._settings.max_rejected_ratio,
            )  # fmt: skip
            # A bad stretch that is over need not wait: the newest may be sound already.
            return self._recheck()
        if time.monotonic() - self._rechecked < self._settings.recheck.total_seconds():
            return False
        self._rechecked = time.monotonic()
        return self._recheck()

    def _nothing_counts(self, taken: Taken) -> str:
        excluded = sum(fault.reason == "excluded" for fault in taken.faults)
        if not self._fresh or excluded < MIN_RECORDS:
            return ""
        return "`source.where` leaves out every record so far"

    def _example(self, taken: Taken) -> str:
        for fault in taken.bad() or taken.faults:
            return f"; for example {taken.record(fault.row).where}: {fault.detail}"
        return ""

    def _recheck(self) -> bool:
        """Look at the newest records of the topics, far behind those that wait."""
        records, ends = newest_records(self._settings)
        trial = RecordDecoder(self._config, Vocabulary(self._config.settings.schema))
        decoded = trial.decode([record.value for record in records])
        limit = datetime64(self._now() + self._window.max_future)
        faults = [fault for fault in decoded.faults if fault.reason not in NOT_BAD]
        bad = len(faults) + int((decoded.events.at > limit).sum())
        nothing = self._fresh and not len(decoded.events)
        if nothing or not self._judge.recovered(len(records), bad):
            _log.warning("still paused", newest=len(records), bad=bad)
            return False
        _log.warning("going on: the newest records are sound again", newest=len(records), bad=bad)
        self.complaint, self._pass_until = "", ends
        self._judge.forget()
        return True

"""The store's offsets, shown in Kafka for lag tools. Nothing depends on it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import structlog
from kafka import TopicPartition
from kafka.errors import KafkaError, NoError
from kafka.structs import OffsetAndMetadata

from monitor.config import KafkaSettings
from monitor.edge.kafka.connection import connect_admin

MAX_REFUSALS = 6
"""A new cluster needs a moment until it takes offsets; later it is worth a line in the log."""

_log = structlog.get_logger("kafka")


class ShownOffsets:
    """Shows them as those of the group in the settings."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._admin: Any = None
        self._shown: Mapping[TopicPartition, int] = {}
        self._refusals = 0

    def show(self, offsets: Mapping[TopicPartition, int]) -> None:
        """If they have changed; a failure is told in the log when it lasts."""
        if not offsets or offsets == self._shown:
            return
        try:
            if self._admin is None:
                self._admin = connect_admin(self._settings)
            answers = self._admin.alter_group_offsets(
                self._settings.group,
                {one: OffsetAndMetadata(offset, "", -1) for one, offset in offsets.items()},
            )
            refused = [error for error in answers.values() if error is not NoError]
            if refused:
                raise refused[0]()
            self._shown = offsets
        except (KafkaError, OSError) as error:
            self._refusals += 1
            if self._refusals == MAX_REFUSALS:
                _log.warning(
                    "offsets cannot be shown in Kafka; lag tools will not see this group",
                    group=self._settings.group, error=repr(error),
                )  # fmt: skip

    def close(self) -> None:
        """Let go of the connection."""
        if self._admin is not None:
            with contextlib.suppress(Exception):
                self._admin.close()

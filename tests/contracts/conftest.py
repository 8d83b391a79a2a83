"""Fixtures of the contracts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.contracts.streams import Desk
    from tests.services.brokers import Kafka


@pytest.fixture
def desk(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A topic and its source, which looks about more often than in life."""
    from tests.contracts.streams import Desk

    monkeypatch.setattr("monitor.edge.kafka.polling.CHECK_SECONDS", 0.2)
    monkeypatch.setattr("monitor.edge.kafka.source.AWAY_SECONDS", 1.0)
    monkeypatch.setattr("monitor.edge.kafka.connection.METADATA_AGE_MS", 500)
    desk = Desk(kafka, tmp_path)
    yield desk
    for source in desk.sources:
        source.close()

"""The source that a configuration names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from monitor.config import Config, KafkaSettings
from monitor.edge.allocator import hand_back_at_once
from monitor.edge.files import STDIN, FileSource
from monitor.edge.holding import HoldingSource
from monitor.edge.source import Source
from monitor.vocabulary import Vocabulary


def open_source(config: Config, vocabulary: Vocabulary, now: Callable[[], datetime]) -> Source:
    """The configured source; it connects when it is first read.

    Args:
        config: checked.
        vocabulary: codes the values; it grows.
        now: the clock.
    """
    if isinstance(config.source, KafkaSettings):
        from monitor.edge.kafka import KafkaSource

        return KafkaSource(config, vocabulary, now)
    if STDIN in config.source.paths:
        return FileSource(config, vocabulary, now=now)  # a pipe cannot be read again
    # The one that holds judges instead, before anything is handed over.
    all_of_it = replace(config, source=replace(config.source, max_rejected_ratio=1.0))
    return HoldingSource(
        FileSource(all_of_it, vocabulary, now=now),
        config.source.max_rejected_ratio,
        config.settings.window.max_future,
        now,
    )


def prepare_process(config: Config) -> None:
    """Set up what belongs to the whole process, for a command that does nothing else but read."""
    hand_back_at_once()
    if isinstance(config.source, KafkaSettings):
        from monitor.edge.kafka import calm_the_collector

        calm_the_collector()


def described(config: Config) -> str:
    """What is read, for people."""
    if isinstance(config.source, KafkaSettings):
        topics = ", ".join(config.source.topics)
        return f"Kafka topic{'s' * (len(config.source.topics) > 1)} {topics}"
    return ", ".join(config.source.paths)

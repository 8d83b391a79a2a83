"""The source that a configuration names."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from monitor.config import Config, KafkaSettings
from monitor.edge.allocator import hand_back_at_once
from monitor.edge.files import FileSource
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
    return FileSource(config, vocabulary, now=now)


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

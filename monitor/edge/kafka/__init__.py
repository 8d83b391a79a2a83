"""Apache Kafka as a source: nothing lost, nothing counted twice, nobody waited for in vain."""

from monitor.edge.kafka.source import KafkaSource

__all__ = ["KafkaSource"]

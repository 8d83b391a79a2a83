"""How the source is, as Prometheus families."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from monitor.edge.metrics.shapes import counted, labelled, single
from monitor.edge.source import Flow, PartitionStatus, SourceStatus


def source_families(source: SourceStatus) -> Iterator[Metric]:
    """Its state; and lag, position and event time of every partition, if it has any."""
    yield labelled(
        "source_state",
        "1 for how the source is, 0 for the other ways.",
        ["state"],
        [([flow.value], float(flow is source.flow)) for flow in Flow],
    )
    if not source.partitions:
        return
    columns: dict[str, tuple[str, Callable[[PartitionStatus], float | None]]] = {
        "source_lag_records": ("Records that are there and not taken in.", lambda p: p.lag),
        "source_offset": ("Offset of the next record to take in.", lambda p: p.position),
        "source_newest_timestamp_seconds": (
            "Event time of the newest event taken in.",
            lambda p: None if p.newest is None else p.newest.timestamp(),
        ),
        "source_idle": ("1 if the partition is not waited for, else 0.", lambda p: p.idle),
    }
    for name, (text, value) in columns.items():
        rows = [
            ([one.topic, str(one.partition)], float(found))
            for one in source.partitions
            if (found := value(one)) is not None
        ]
        yield labelled(name, text, ["topic", "partition"], rows)
    yield counted("source_read_bytes", "Bytes of records read.", [], [([], source.read_bytes)])
    yield single(
        "source_buffer_bytes",
        "Memory of records that were read and wait to be taken in.",
        source.buffered_bytes,
    )
    yield counted(
        "dead_letters",
        "Records written to the dead-letter topic, by reason.",
        ["reason"],
        [([reason], count) for reason, count in sorted(source.dead_letters.items())],
    )

"""The simulated bookings in a topic, and what a store made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa

from monitor.config import Config
from monitor.edge.blobs import arrays_from_bytes, slice_from_bytes
from monitor.edge.kept_vocabulary import KeptVocabulary
from monitor.edge.store import Store
from monitor.simulation.files import json_lines
from monitor.simulation.world import World

SCHEMA = """
[schema]
time = "time"
zone = "UTC"
tiers = ["place", "airline", "fare_source"]
attributes = [
  { name = "agent_office", tier = "place" },
  { name = "departure_city", tier = "place" },
  { name = "arrival_city", tier = "place" },
  { name = "airline", tier = "airline" },
  { name = "fare_source", tier = "fare_source" },
]
error_code = "error_code"
outcomes = [
  { name = "reserve", when = 'failed_step == "reserve"' },
  { name = "pay", when = 'failed_step == "pay"' },
]
"""
ATTRIBUTES = (
    "agent_office", "departure_city", "arrival_city", "airline", "fare_source", "error_code",
)  # fmt: skip

Told = Counter[tuple[object, ...]]
"""(start of the slice, every attribute's value, every outcome) → rows."""


def values(bookings: pa.Table) -> list[bytes]:
    """One JSON object a booking."""
    return json_lines(bookings).splitlines()


def stamps(bookings: pa.Table) -> list[int]:
    """Event times in milliseconds, as producers stamp their records."""
    times = bookings.column("time").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return [int(time) // 1000 for time in times.to_pylist()]


def records(world: World, at: datetime, partitions: int) -> list[tuple[int, bytes, int]]:
    """The bookings of half an hour, each in the partition of its office."""
    bookings = world.slice(at)
    offices = bookings.column("agent_office").to_pylist()
    chosen = [crc32(office.encode()) % partitions for office in offices]
    return list(zip(chosen, values(bookings), stamps(bookings), strict=True))


def expected(tables: Iterable[pa.Table], slice_length: timedelta = timedelta(minutes=30)) -> Told:
    """What the store has to hold for these bookings."""
    told: Told = Counter()
    for table in tables:
        for row in table.to_pylist():
            start = row["time"].replace(second=0, microsecond=0)
            start -= timedelta(minutes=start.minute % (slice_length // timedelta(minutes=1)))
            told[
                (
                    np.datetime64(start.replace(tzinfo=None), "us").astype(str),
                    *(row[name] or "(missing)" for name in ATTRIBUTES),
                    row["failed_step"] == "reserve",
                    row["failed_step"] == "pay",
                )
            ] += 1
    return told


def stored(store: Store, config: Config) -> Told:
    """Every row of the store in words: diagnosed or still filling."""
    saved = store.load()
    vocabulary = KeptVocabulary(config.settings.schema, saved.state).vocabulary
    pieces = [
        (piece.start, piece.values, piece.failed, piece.weight)
        for piece in (slice_from_bytes(blob).slice for blob in saved.slices.values())
    ]
    filling = arrays_from_bytes(saved.state["filling"]) if "filling" in saved.state else {}
    for key in sorted({name.partition(".")[0] for name in filling}):
        arrays = (filling[f"{key}.{part}"] for part in ("values", "failed", "weight"))
        pieces.append((np.datetime64(int(key), "us"), *arrays))
    told: Told = Counter()
    for start, codes, failed, weight in pieces:
        for row, flags, count in zip(codes.tolist(), failed.tolist(), weight.tolist(), strict=True):
            words = [vocabulary.text(i, code) for i, code in enumerate(row)]
            told[(start.astype(str), *words, *flags)] += count
    return told


def configuration(source: str, folder: Path, more: str = "") -> Path:
    """A configuration over `source`, in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "monitor.toml"
    path.write_text(f"{source}\n{SCHEMA}\n{more}")
    return path

"""Digests in the store: made when a block of slices is over, anew when late rows changed it.

A commit makes one at most, the newest that is missing: so a store of an older release gets them one
by one, and no tick waits for more than one. What has none yet is answered from its slices.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from monitor.digests import Course, Pairs, digest
from monitor.edge.store import Store, StoreError
from monitor.evolution import Columns, Stored

BLOCK = timedelta(hours=6)
"""Of the slices that one digest sums up."""

COURSE = ""
"""In the place of an attribute: every value in every slice."""

_BATCH = 4096
"""Lines that are unpacked together."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def block_of(at: datetime) -> datetime:
    """Start of the block that a moment lies in."""
    return at - (at - _EPOCH) % BLOCK


@dataclass(frozen=True, slots=True)
class Due:
    """What a commit writes."""

    made: Mapping[tuple[datetime, str], bytes] = field(default_factory=dict)
    """Start of the block and attribute, or `COURSE` → the part of a digest."""
    stale: frozenset[datetime] = frozenset()
    """Blocks whose digests are no longer true."""


class Digesting:
    """Knows which blocks have a digest, and makes the others.

    Args:
        store: where slices and digests lie.
        read: decodes a stored slice.
        columns: what its columns are.
        kept: starts of the slices there are.
    """

    def __init__(
        self,
        store: Store,
        read: Callable[[bytes], Stored],
        columns: Columns,
        kept: Iterable[datetime],
    ) -> None:
        self._store, self._read, self._columns = store, read, columns
        self._missing = {block_of(start) for start in kept} - store.digested()
        self._due = Due()

    def due(
        self, written: Mapping[datetime, Stored], newest: datetime, oldest: datetime | None
    ) -> Due:
        """What goes with a commit.

        Args:
            written: slices that it writes.
            newest: start of the newest slice.
            oldest: start of the oldest that stays, if that is known.
        """
        touched = {block_of(start) for start in written}
        self._missing |= touched
        if oldest is not None:
            self._missing = {block for block in self._missing if block >= block_of(oldest)}
        over = [block for block in self._missing if block + BLOCK <= newest]
        made: dict[tuple[datetime, str], bytes] = {}
        if over:
            block = max(over)
            made = self._make(block, written)
        self._due = Due(made, frozenset(touched))
        return self._due

    def written(self) -> None:
        """The last `due` is in the store."""
        self._missing -= {block for block, _ in self._due.made}
        self._due = Due()

    def _make(
        self, block: datetime, written: Mapping[datetime, Stored]
    ) -> dict[tuple[datetime, str], bytes]:
        mine = {start: one for start, one in written.items() if block_of(start) == block}
        for start, blob in self._store.slices(block, block + BLOCK).items():
            if start not in mine:
                try:
                    mine[start] = self._read(blob)
                except StoreError:
                    continue  # it is set aside at the next start
        mine = {start: mine[start] for start in sorted(mine) if len(mine[start].slice.weight)}
        if not mine:
            self._missing.discard(block)
            return {}
        found = digest(list(mine.values()))
        parts = {(block, COURSE): course_to_bytes(found.course, list(mine), self._columns)}
        for name, pairs in zip(self._columns.attributes, found.pairs, strict=True):
            parts[block, name] = pairs_to_bytes(pairs, self._columns)
        return parts


@dataclass(frozen=True, slots=True)
class Part:
    """One outcome's share of a stored digest."""

    columns: Columns
    """Of the numbers below."""
    place: tuple[np.ndarray, ...]
    """Slot, attribute and code; or code, attribute and the other's code."""
    sums: np.ndarray  # (n, 3) rows, failures, expected failures
    starts: tuple[datetime, ...] = ()
    """Of the slots."""


def course_to_bytes(course: Course, starts: Iterable[datetime], columns: Columns) -> bytes:
    """As an Arrow file."""
    places: dict[str, np.ndarray] = {
        "slot": course.slot.astype(np.int16),
        "attribute": course.attribute.astype(np.int16),
        "code": course.code.astype(np.int32),
    }
    return _written(places, course.sums, columns, [start.isoformat() for start in starts])


def pairs_to_bytes(pairs: Pairs, columns: Columns) -> bytes:
    """As an Arrow file, in batches by code: a question unpacks one or two of them."""
    places: dict[str, np.ndarray] = {
        "code": pairs.code.astype(np.int32),
        "attribute": pairs.attribute.astype(np.int16),
        "other": pairs.other.astype(np.int32),
    }
    return _written(places, pairs.sums, columns, [])


def part_from_bytes(blob: bytes, outcome: str, code: int | None = None) -> Part | None:
    """What a part of a digest says of one outcome; only its columns are unpacked.

    Args:
        blob: as it was stored.
        outcome: its key in `Columns.outcomes`.
        code: of pairs, only those around this code have to be there: the others stay packed.

    Returns:
        None when it knows nothing of the outcome.

    Raises:
        StoreError: it is damaged.
    """
    try:
        with _opened(blob) as reader:
            schema = reader.schema
        columns = Columns.from_json(json.loads(schema.metadata[b"columns"]))
        if outcome not in columns.outcomes:
            return None
        o = columns.outcomes.index(outcome)
        wanted = [0, 1, 2, 3, schema.get_field_index(f"f{o}"), schema.get_field_index(f"e{o}")]
        with _opened(blob, pa.ipc.IpcReadOptions(included_fields=wanted)) as reader:
            codes = json.loads(schema.metadata.get(b"codes", b"[]"))
            if code is None or not codes:
                table = reader.read_all()
            else:
                # A code may begin in the batch before the one that it leads.
                first = max(bisect_left(codes, code) - 1, 0)
                batches = [reader.get_batch(i) for i in range(first, bisect_right(codes, code))]
                table = pa.Table.from_batches(batches, reader.get_batch(0).schema)
        starts = tuple(map(datetime.fromisoformat, json.loads(schema.metadata[b"starts"])))
        arrays = [column.to_numpy() for column in table.columns]
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"a stored digest cannot be read: {error}") from error
    sums = np.column_stack([arrays[3], arrays[4], arrays[5]]).astype(float)
    return Part(columns, tuple(arrays[:3]), sums, starts)


def _opened(
    blob: bytes, options: pa.ipc.IpcReadOptions | None = None
) -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
    """Digests made before batches could be read one by one are streams."""
    opened = pa.ipc.open_file if blob.startswith(b"ARROW1") else pa.ipc.open_stream
    return opened(blob, options=options)


def _written(
    places: Mapping[str, np.ndarray], sums: np.ndarray, columns: Columns, starts: list[str]
) -> bytes:
    outcomes = len(columns.outcomes)
    arrays = {name: pa.array(column) for name, column in places.items()}
    arrays["n"] = pa.array(sums[:, 0].astype(np.int64))
    for o in range(outcomes):
        arrays[f"f{o}"] = pa.array(sums[:, 1 + o].astype(np.int32))
        arrays[f"e{o}"] = pa.array(sums[:, 1 + outcomes + o].astype(np.float32))
    metadata = {"columns": json.dumps(columns.to_json()), "starts": json.dumps(starts)}
    if "other" in places:  # pairs
        metadata["codes"] = json.dumps(places["code"][::_BATCH].tolist())
    table = pa.table(arrays).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=_BATCH)
    return bytes(sink.getvalue())

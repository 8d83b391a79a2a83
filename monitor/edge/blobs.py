"""Slices and arrays ↔ compressed bytes for the store."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import datetime
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa

from monitor.domain import datetime64
from monitor.edge.store import StoreError
from monitor.encoding import Coded
from monitor.evolution import Columns, Stored
from monitor.slices import Slice


def slice_to_bytes(
    coded: Coded, columns: Columns | None = None, unknown: frozenset[int] = frozenset()
) -> bytes:
    """A scored slice as an Arrow stream; the schema's metadata have its start and its columns.

    Args:
        coded: scored.
        columns: what its columns are, so that another schema can read it.
        unknown: outcomes of which its rows say nothing: they get no name.
    """
    piece = coded.slice
    metadata = {"start": str(int(piece.start.astype(np.int64)))}
    if columns is not None:
        metadata["columns"] = json.dumps(columns.without(unknown).to_json())
    arrays: dict[str, pa.Array] = {}
    for a, column in enumerate(piece.values.T):
        arrays[f"v{a}"] = pa.array(column)
    for o, column in enumerate(piece.failed.T):
        arrays[f"f{o}"] = pa.array(column)
    for o, column in enumerate(coded.expected.T):
        arrays[f"e{o}"] = pa.array(column)
    arrays["n"] = pa.array(piece.weight)
    batch = pa.record_batch(arrays)
    batch = batch.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def slice_from_bytes(blob: bytes) -> Stored:
    """Inverse of `slice_to_bytes`, with the columns that it was written with.

    Raises:
        StoreError: the blob is damaged.
    """
    try:
        with pa.ipc.open_stream(blob) as reader:
            metadata = reader.schema.metadata
            start = np.datetime64(int(metadata[b"start"]), "us")
            table = reader.read_all()
        values, failed, expected = (
            np.column_stack([table[name].to_numpy() for name in _numbered(kind, table)])
            for kind in "vfe"
        )
        weight = table["n"].to_numpy()
        columns = (
            Columns.from_json(json.loads(metadata[b"columns"])) if b"columns" in metadata else None
        )
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"a stored slice cannot be read: {error}") from error
    return Stored(Slice(start, values, failed, weight), expected, columns)


def _numbered(kind: str, table: pa.Table) -> list[str]:
    """Names of the columns of one kind, by number."""
    return sorted((n for n in table.column_names if n[0] == kind), key=lambda name: int(name[1:]))


def slice_fault(blob: bytes, start: datetime) -> str:
    """What is wrong with a stored slice, whatever its schema; empty when nothing is.

    Args:
        blob: as stored.
        start: under which it is stored.
    """
    try:
        with pa.ipc.open_stream(blob) as reader:
            begins = np.datetime64(int(reader.schema.metadata[b"start"]), "us")
            table = reader.read_all()
        table.validate(full=True)
        weight = table["n"].to_numpy()
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        return f"it cannot be read: {error}"
    if begins != datetime64(start):
        return f"its rows are of {begins}"
    if len(weight) and weight.min() < 1:
        return "a row counts less than once"
    return ""


def arrays_to_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Named arrays, compressed."""
    sink = io.BytesIO()
    np.savez(sink, **arrays)  # type: ignore[arg-type]
    raw = sink.getvalue()
    return len(raw).to_bytes(8, "little") + bytes(pa.compress(raw, "zstd", asbytes=True))


def arrays_from_bytes(blob: bytes) -> dict[str, np.ndarray]:
    """Inverse of `arrays_to_bytes`.

    Raises:
        StoreError: the blob is damaged.
    """
    try:
        size = int.from_bytes(blob[:8], "little")
        raw = pa.decompress(blob[8:], size, "zstd", asbytes=True)
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (pa.ArrowException, OSError, ValueError, EOFError, MemoryError, BadZipFile) as error:
        # MemoryError: a damaged length, not a lack of memory
        raise StoreError(f"the stored state cannot be read ({error}); restore a backup") from error

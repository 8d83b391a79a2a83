"""The booking world as files that `least-monitor run` or `backtest` can read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from monitor.simulation.plan import Planned
from monitor.simulation.world import COLUMNS

FORMATS = ("parquet", "jsonl")


def write(bookings: pa.Table, start: datetime, directory: Path, format: str) -> Path:
    """Write one file named after the start of its period; it appears whole or not at all.

    Args:
        bookings: as from `World.slice`.
        start: of the period, in UTC.
        directory: must exist.
        format: one of `FORMATS`.
    """
    path = directory / f"bookings-{start:%Y%m%dT%H%M}Z.{format}"
    if format == "parquet":
        _appear(path, lambda draft: pq.write_table(bookings, draft, compression="zstd"))
    else:
        content = json_lines(bookings)
        _appear(path, lambda draft: draft.write_bytes(content))
    return path


def write_labels(incidents: Iterable[Planned], directory: Path) -> Path:
    """Write `labels.jsonl`, one incident a line."""
    path = directory / "labels.jsonl"
    content = b"".join(orjson.dumps(incident.label()) + b"\n" for incident in incidents)
    _appear(path, lambda draft: draft.write_bytes(content))
    return path


def json_lines(bookings: pa.Table) -> bytes:
    """One JSON object a line, built column by column; absent values are null.

    The world's texts hold nothing that JSON would escape.
    """
    times = pc.strftime(bookings.column("time"), "%Y-%m-%dT%H:%M:%SZ")
    parts: list[object] = ['{"time":"', times, '"']
    for name in COLUMNS[1:]:
        texts = bookings.column(name).cast(pa.string())
        quoted = pc.binary_join_element_wise('"', texts, '"', "")
        parts += [f',"{name}":', pc.fill_null(quoted, "null")]
    parts += ["}\n", ""]  # the last is the separator
    lines = pc.binary_join_element_wise(*parts)
    return "".join(lines.to_pylist()).encode()


def _appear(path: Path, write_to: Callable[[Path], object]) -> None:
    # A reader that lists the directory must never meet half a file; names with a leading
    # dot are left alone by globs.
    draft = path.with_name(f".{path.name}.tmp")
    try:
        write_to(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)

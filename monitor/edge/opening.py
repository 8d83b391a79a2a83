"""Which reader a log needs: by its name, else by its first bytes."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from pathlib import PurePath
from typing import BinaryIO

from monitor.config import FilesSettings
from monitor.edge.blocks import Log, State, UnreadableError
from monitor.edge.csv_files import CsvReader
from monitor.edge.json_lines import JsonLinesReader
from monitor.edge.parquet import ParquetReader
from monitor.edge.readers import Chunk, Reader

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_PACKED = {".gz", ".zst", ".zstd", ".bz2", ".lz4"}
_PARQUET_MAGIC = b"PAR1"


def open_reader(
    source: str | BinaryIO, settings: FilesSettings, needed: Collection[str], follow: bool
) -> Reader:
    """The reader of `source`, a path or an open stream.

    Args:
        settings: format and delimiter.
        needed: the columns to read.
        follow: the log may still grow.

    Raises:
        UnreadableError: it is broken, or empty and nothing will come.
    """
    log = Log(source, waits=follow)
    start = log.peek(64)
    named = isinstance(source, str) and _by_name(source)
    kind = settings.format if settings.format != "auto" else named or _by_content(start)
    if not start and (kind == "parquet" or not log.waits):
        raise UnreadableError(
            "empty_file", "is empty; if it is still being written, move it in when it is complete"
        )
    if kind == "parquet":
        if log.compression is not None:
            detail = f"is a Parquet file packed with {log.compression}; unpack it"
            raise UnreadableError("broken_file", detail)
        whole = source if isinstance(source, str) else io.BytesIO(start + source.read())
        return ParquetReader(log.name, whole, needed)
    if not start:
        return NothingYet()
    if start.startswith(_PARQUET_MAGIC):
        raise UnreadableError("wrong_format", f'is Parquet, not {kind}; set format = "parquet"')
    if kind == "jsonl":
        return JsonLinesReader(log, needed)
    return CsvReader(log, needed, settings.delimiter)


def _by_name(path: str) -> str | None:
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return _FORMATS.get(suffixes[-1]) if suffixes else None


def _by_content(start: bytes) -> str:
    if start.startswith(_PARQUET_MAGIC):
        return "parquet"
    return "jsonl" if start.lstrip().startswith((b"{", b"[")) else "csv"


class NothingYet:
    """A log that was created and not written to."""

    log = None

    def columns(self) -> None:
        """Unknown."""

    def optional(self) -> bool:
        """Nothing is asked of it."""
        return True

    def chunks(self, state: State) -> Iterator[Chunk]:
        """None."""
        return iter(())

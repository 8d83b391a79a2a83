"""Which reader a log needs: by its name, else by its first bytes."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from pathlib import PurePath
from typing import BinaryIO

from monitor.config import FilesSettings
from monitor.edge.blocks import Log, State
from monitor.edge.csv_files import CsvReader
from monitor.edge.json_lines import JsonLinesReader
from monitor.edge.json_text import JsonTextReader, is_json_text
from monitor.edge.line_patterns import PATTERNS, PatternReader, web_format, whole_line
from monitor.edge.parquet import ParquetReader
from monitor.edge.readers import Chunk, Reader
from monitor.edge.streams import SNIFFED_BYTES, UnreadableError
from monitor.edge.w3c import W3cReader, is_w3c

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
_ZIP_MAGIC = b"PK\x03\x04"
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257
_LINES_TRIED = 3
"""One of these is JSON if the log is: a service may begin with a line of its own."""


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
    log = Log(source, follow, settings.encoding)
    start = log.peek(SNIFFED_BYTES)
    kind = settings.format if settings.format != "auto" else _found_out(source, start, settings)
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
        return NothingYet(log)
    if start.startswith(_PARQUET_MAGIC):
        raise UnreadableError("wrong_format", f'is Parquet, not {kind}; set format = "parquet"')
    if start.startswith(_ZIP_MAGIC):
        detail = "is a ZIP archive or a spreadsheet; unpack it, or export it as CSV"
        raise UnreadableError("wrong_format", detail)
    if start[_TAR_MAGIC_AT:].startswith(_TAR_MAGIC):
        raise UnreadableError("wrong_format", "is a TAR archive; unpack it")
    if kind == "jsonl":
        return (JsonTextReader if is_json_text(start) else JsonLinesReader)(log, needed)
    if kind == "pattern":
        return PatternReader(log, needed, whole_line(settings.pattern or ""))
    if kind in PATTERNS:
        return PatternReader(log, needed, PATTERNS[kind], web=True)
    if kind == "w3c" or is_w3c(start):
        return W3cReader(log, needed, settings.delimiter)
    return CsvReader(log, needed, settings.delimiter)


def _found_out(source: str | BinaryIO, start: bytes, settings: FilesSettings) -> str:
    if settings.pattern is not None:
        return "pattern"
    named = _by_name(source) if isinstance(source, str) else None
    return named or _by_content(start)


def _by_name(path: str) -> str | None:
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return _FORMATS.get(suffixes[-1]) if suffixes else None


def _by_content(start: bytes) -> str:
    if start.startswith(_PARQUET_MAGIC):
        return "parquet"
    if is_json_text(start) or any(
        line.lstrip().startswith(b"{") for line in start.split(b"\n")[:_LINES_TRIED]
    ):
        return "jsonl"
    return web_format(start) or "csv"


class NothingYet:
    """A log that was created and not written to."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def columns(self) -> None:
        """Unknown."""

    def optional(self) -> bool:
        """Nothing is asked of it."""
        return True

    def chunks(self, state: State, size: int | None = None) -> Iterator[Chunk]:
        """None."""
        return iter(())

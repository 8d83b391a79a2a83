"""CSV logs: a header, and records."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator

from monitor.edge.blocks import Block, Log, State
from monitor.edge.csv_rows import CsvRows, Grammar
from monitor.edge.readers import Chunk, joined, left_out, once_each, without_columns
from monitor.edge.streams import UnreadableError

DELIMITERS = ",;\t|"

_MAX_HEADER_BYTES = 1 << 20
_SEPARATOR = re.compile(rb'(?:[ \t]*\r?\n)*"?sep=(.)"?[ \t]*(?:\r?\n|\Z)', re.IGNORECASE)
"""What Excel writes in front of the header; a line like it names the delimiter."""


class CsvReader:
    """One CSV log with a header.

    Args:
        log: its bytes.
        needed: the columns to read.
        delimiter: None finds it in the header, or in a line ``sep=;`` before it.
    """

    def __init__(self, log: Log, needed: Collection[str], delimiter: str | None) -> None:
        self.log, self.needed = log, needed
        head = log.peek(_MAX_HEADER_BYTES)
        if found := _SEPARATOR.match(head):
            delimiter = delimiter or found[1].decode("latin-1")
        start = found.end() if found else 0
        start += len(head[start:]) - len(head[start:].lstrip(b"\r\n"))
        if not log.waits and not head[start:].strip():
            raise UnreadableError("empty_file", "has no line but blank ones, so no header")
        first = head.find(b"\n", start)
        if first < 0 and len(head) >= _MAX_HEADER_BYTES:
            detail = f"first line is longer than {_MAX_HEADER_BYTES >> 20} MiB: no header"
            raise UnreadableError("bad_header", detail)
        line = head[start : first if first >= 0 else len(head)]
        self.delimiter = delimiter or max(DELIMITERS, key=line.decode("latin-1").count)
        # A quoted name may hold line ends too.
        whole = Grammar(self.delimiter, 1).any_row.match(head, start)
        end = whole.end() if whole and head[whole.end() - 1 : whole.end()] == b"\n" else first + 1
        complete = end > 0 or not log.waits
        body = (end or len(head)) if complete else 0
        try:
            text = head[start:body].decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            cure = 'convert the file, or write encoding = "cp1252" (or its own) in [source]'
            raise UnreadableError("bad_header", f"header is not UTF-8; {cure}") from None
        try:
            row = next(csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter), [])
        except csv.Error as error:
            raise UnreadableError("bad_header", f"header cannot be read: {error}") from None
        self.body = log.start + body
        self.body_line = head.count(b"\n", 0, body)
        # Files of one kind share their header, so that tells none from another.
        log.head_bytes += self.body
        names = [name.strip() for name in row]
        once_each(names, needed)
        self.rows = CsvRows(log.name, names, needed, self.delimiter)

    def columns(self) -> set[str] | None:
        """The names in the header; None while there is none."""
        return set(self.rows.names) or None

    def optional(self) -> bool:
        """Every row has every column."""
        return False

    def chunks(self, state: State, size: int | None = None) -> Iterator[Chunk]:
        """See `Reader`; the state also holds a later header, if one is in force."""
        if not self.rows.names:
            return
        offset, lines = self.log.stopped(state)
        if offset < self.body:
            offset, lines = self.body, self.body_line
        rows = (
            self._under(state["header"]) if "header" in state and offset > self.body else self.rows
        )
        for block in self.log.blocks(offset, lines, self.rows.cut, size):
            if block.too_long:
                chunk = left_out(self.log.name, block, self.needed)
            elif block.data.strip():
                chunk, rows = self._parse(block, rows)
            else:
                continue
            later = {} if rows is self.rows else {"header": list(rows.names)}
            yield Chunk(chunk.rows, chunk.locate, {**chunk.state, **later}, chunk.rejected)

    def _parse(self, block: Block, rows: CsvRows) -> tuple[Chunk, CsvRows]:
        """The rows of a block, and under which header it ends."""
        chunk = rows.parse(block)
        whole = set(rows.needed) == set(self.rows.needed)
        headers = list(rows.headers(block)) if rows.may_have_headers(chunk) else []
        if whole and not headers:
            return chunk, rows
        parts: list[Chunk] = []
        place, line = 0, block.line
        for start, end, names in [*headers, (len(block.data), len(block.data), [])]:
            piece = block.data[place:start]
            if piece.strip():
                parts.append(rows.parse(Block(piece, line, block.state)))
            line += block.data.count(b"\n", place, end)
            place = end
            if names and names != rows.names:
                rows = self._under(names)
                where = f"{self.log.name}:{line - 1}"
                parts += without_columns(names, self.needed, where, block.state)
        return joined(parts, block.state, self.rows.needed), rows

    def _under(self, names: list[str]) -> CsvRows:
        once_each(names, self.needed)
        return CsvRows(self.log.name, names, self.needed, self.delimiter)

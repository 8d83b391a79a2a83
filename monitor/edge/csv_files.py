"""CSV logs: Arrow splits the cells, all as text; the decoder reads numbers and times from them.

A record is a line, unless a quoted field really spans lines. A stray quotation mark, which to a
plain CSV parser opens a field that swallows every row up to the next one, costs its own line only.
"""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from monitor.edge.blocks import Block, Log, State, UnreadableError, whole_lines
from monitor.edge.readers import Chunk, Rejects
from monitor.edge.source import SourceError

DELIMITERS = ",;\t|"
MAX_RECORD_LINES = 100
"""Lines that one quoted field may span."""

_MAX_HEADER_BYTES = 1 << 20
_QUOTE, _NEWLINE = 34, 10


class CsvReader:
    """One CSV log with a header.

    Args:
        log: its bytes.
        needed: the columns to read.
        delimiter: None finds it in the header.
    """

    def __init__(self, log: Log, needed: Collection[str], delimiter: str | None) -> None:
        self.log = log
        head = log.peek(_MAX_HEADER_BYTES)
        start = len(head) - len(head.lstrip(b"\r\n"))
        end = head.find(b"\n", start)
        complete = end >= 0 or not log.waits
        self.body = (end + 1 if end >= 0 else len(head)) if complete else 0
        self.body_line = head.count(b"\n", 0, self.body)
        try:
            text = head[start : self.body].decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            raise UnreadableError("bad_header", "header is not UTF-8; convert the file") from None
        self.delimiter = delimiter or max(DELIMITERS, key=text.count)
        try:
            row = next(csv.reader(io.StringIO(text), delimiter=self.delimiter), [])
        except csv.Error as error:
            raise UnreadableError("bad_header", f"header cannot be read: {error}") from None
        self.names = [name.strip() for name in row]
        for name in needed:
            if self.names.count(name) > 1:
                raise SourceError(f"{log.name}: column `{name}` is there twice; rename one")
        self.needed = [name for name in self.names if name in needed]
        # Columns that nobody asked for may share names; Arrow must still tell them apart.
        self.unique = [n if n in self.needed else f"{i}:{n}" for i, n in enumerate(self.names)]

    def columns(self) -> set[str] | None:
        """The names in the header; None while there is none."""
        return set(self.names) or None

    def optional(self) -> bool:
        """Every row has every column."""
        return False

    def chunks(self, state: State) -> Iterator[Chunk]:
        """See `Reader`."""
        if not self.names:
            return
        offset, lines = self.log.stopped(state)
        if offset < self.body:
            offset, lines = self.body, self.body_line
        for block in self.log.blocks(offset, lines, self._whole):
            if block.data.strip():
                yield self._parse(block)

    def _whole(self, data: bytes) -> int:
        """Whole lines, less a quoted field at their end that the next bytes will close."""
        end = whole_lines(data)
        start = end
        for _ in range(MAX_RECORD_LINES):
            if not start:
                break
            start = data.rfind(b"\n", 0, start - 1) + 1
            line = data[start:end]
            if line.count(b'"', 0, line.find(b"\n")) % 2 and self._open(line):
                stray = self._are_rows(line.split(b"\n")[1:])
                return end if stray else start
        return end

    def _parse(self, block: Block) -> Chunk:
        rejects = Rejects(self.needed)
        layout = self._layout(block, rejects)
        if not _is_utf8(layout.data()):
            # Arrow shows rows of the wrong width as text, and gives up on those that are none.
            for number, record in layout.records():
                if not _is_utf8(record) and self._width(record) != len(self.names):
                    layout.drop(number, record, self._wrong_width(record), rejects)
        rows, invalid = self._split(layout, rejects)
        kept = functools.cache(lambda: np.delete(np.arange(rows.num_rows + len(invalid)), invalid))
        return Chunk(
            rows, lambda row: layout.where(int(kept()[row])), block.state, rejects.listed()
        )

    def _split(self, layout: _Layout, rejects: Rejects) -> tuple[pa.RecordBatch, list[int]]:
        """Cells of the needed columns as bytes; and the numbers of records of the wrong width."""
        data = layout.data()
        types = dict.fromkeys(self.needed, pa.binary())
        if not data.strip():
            return pa.RecordBatch.from_pylist([], pa.schema(list(types.items()))), []
        invalid: list[int] = []

        def skip(row: Any) -> str:
            record = _raw(row.text)
            rejects.add("bad_row", layout.where(row.number - 1), self._wrong_width(record), record)
            invalid.append(row.number - 1)
            return "skip"

        table = pa.csv.read_csv(
            pa.BufferReader(data),
            pa.csv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=self.unique
            ),
            pa.csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=skip
            ),
            pa.csv.ConvertOptions(
                column_types=types,
                include_columns=self.needed,
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
        rows = table.combine_chunks().to_batches()
        return rows[0] if rows else pa.RecordBatch.from_pylist([], table.schema), invalid

    def _wrong_width(self, record: bytes) -> str:
        width = self._width(record)
        return f"has {width} column{'s' * (width != 1)} where the header has {len(self.names)}"

    def _layout(self, block: Block, rejects: Rejects) -> _Layout:
        """The records of a block, without lines whose quotation never ends."""
        layout = _Layout(self.log.name, block)
        detail = "has a quotation mark that is never closed; double it or quote the field"
        for number in _odd_lines(block.data):
            line = layout.lines[number]
            if number in layout.inner or not self._open(line):
                continue
            end = self._closing(layout.lines, number)
            if end is None:
                layout.drop(number, line, detail, rejects)
            else:
                layout.inner |= set(range(number + 1, end + 1))
        return layout

    def _closing(self, lines: list[bytes], first: int) -> int | None:
        """The line that ends the quoted field opened in line `first`, if it is one field at all."""
        width = len(self.names)
        for last in range(first + 1, min(first + MAX_RECORD_LINES, len(lines))):
            record = b"\n".join(lines[first : last + 1])
            if self._open(record):
                continue
            if self._width(record) != width:
                return None
            return None if self._are_rows(lines[first + 1 : last + 1]) else last
        return None

    def _are_rows(self, lines: list[bytes]) -> bool:
        """True for whole rows: inside a field, they are rows that a stray mark swallowed."""
        filled = [line for line in lines if line.strip()]
        return bool(filled) and all(self._width(line) == len(self.names) for line in filled)

    def _open(self, text: bytes) -> bool:
        """True when `text` ends inside a quoted field."""
        return self._scan(text)[1]

    def _width(self, record: bytes) -> int:
        """Its number of fields; 0 if it is several rows."""
        return self._scan(record)[0]

    def _scan(self, record: bytes) -> tuple[int, bool]:
        """Fields, and whether the last is a quoted one that has not ended: as Arrow counts."""
        delimiter = self.delimiter.encode()
        record = record.removesuffix(b"\n").removesuffix(b"\r")
        if b'"' not in record:
            return 0 if b"\r" in record else record.count(delimiter) + 1, False
        inside, start, width, rows = False, True, 1, 1
        position = 0
        while position < len(record):
            byte = record[position : position + 1]
            if inside and byte == b'"':
                # A doubled mark stands for one mark; a single one ends the field.
                if record[position + 1 : position + 2] == b'"':
                    position += 1
                else:
                    inside = False
            elif not inside:
                inside = start and byte == b'"'
                width += byte == delimiter
                rows += byte in (b"\r", b"\n")
            start = not inside and byte == delimiter
            position += 1
        return width if rows == 1 else 0, inside


class _Layout:
    """How the lines of a block make up records."""

    def __init__(self, name: str, block: Block) -> None:
        self.name = name
        self.block = block
        self.inner: set[int] = set()
        """Lines, from 0, that go on with the record of the line before."""
        self.dropped: set[int] = set()

    @functools.cached_property
    def lines(self) -> list[bytes]:
        return self.block.data.split(b"\n")

    @functools.cached_property
    def starts(self) -> list[int]:
        """The first line of each record that is kept."""
        others = self.inner | self.dropped
        return [n for n, line in enumerate(self.lines) if n not in others and line.strip()]

    def records(self) -> Iterator[tuple[int, bytes]]:
        for number in self.starts.copy():
            end = number + 1
            while end in self.inner:
                end += 1
            yield number, b"\n".join(self.lines[number:end])

    def drop(self, number: int, record: bytes, detail: str, rejects: Rejects) -> None:
        rejects.add("bad_row", f"{self.name}:{self.block.line + number}", detail, record)
        self.dropped |= set(range(number, number + record.count(b"\n") + 1))
        vars(self).pop("starts", None)

    def data(self) -> bytes:
        if not self.dropped:
            return self.block.data
        return b"\n".join(line for n, line in enumerate(self.lines) if n not in self.dropped)

    def where(self, record: int) -> str:
        return f"{self.name}:{self.block.line + self.starts[min(record, len(self.starts) - 1)]}"


def _odd_lines(data: bytes) -> list[int]:
    """Numbers, from 0, of lines with an odd count of quotation marks: rare, and all that matter."""
    if b'"' not in data:
        return []
    text = np.frombuffer(data, np.uint8)
    ends = np.append(np.flatnonzero(text == _NEWLINE), len(text))
    marks = np.searchsorted(ends, np.flatnonzero(text == _QUOTE))
    odd: list[int] = np.flatnonzero(np.bincount(marks) % 2).tolist()
    return odd


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "replace")

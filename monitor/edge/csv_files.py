"""CSV logs: Arrow splits the cells, all as text; the decoder reads numbers and times from them.

A record is a line, unless a quoted field really spans lines. A stray quotation mark, which to a
plain CSV parser opens a field that swallows every row up to the next one, costs its own line only.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from monitor.edge.blocks import Block, Log, State, UnreadableError, filled_lines, whole_lines
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
        end = head.find(b"\n")
        complete = end >= 0 or not log.waits
        line = head[:end] if end >= 0 else head
        self.body = (end + 1 if end >= 0 else len(head)) if complete else 0
        try:
            text = line.decode("utf-8-sig").rstrip("\r") if complete else ""
        except UnicodeDecodeError:
            raise UnreadableError("bad_header", "header is not UTF-8; convert the file") from None
        self.delimiter = delimiter or max(DELIMITERS, key=text.count)
        row = next(csv.reader(io.StringIO(text), delimiter=self.delimiter), [])
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
            offset, lines = self.body, 1
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
        rejects = Rejects()
        data, origins = self._without_strays(block, rejects)

        def skip(row: Any) -> str:
            line = origins(row.number - 1)
            detail = f"has {row.actual_columns} columns where the header has {row.expected_columns}"
            rejects.add("bad_row", f"{self.log.name}:{line}", detail, _raw(row.text))
            invalid.append(row.number - 1)
            return "skip"

        invalid: list[int] = []
        types = dict.fromkeys(self.needed, pa.binary())
        if not data.strip():
            nothing = pa.RecordBatch.from_pylist([], pa.schema(list(types.items())))
            return Chunk(nothing, str, block.state, rejects.listed())
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
        batch = rows[0] if rows else pa.RecordBatch.from_pylist([], table.schema)

        def locate(row: int) -> str:
            kept = np.delete(np.arange(batch.num_rows + len(invalid)), invalid)
            return f"{self.log.name}:{origins(int(kept[row]))}"

        return Chunk(batch, locate, block.state, rejects.listed())

    def _without_strays(self, block: Block, rejects: Rejects) -> tuple[bytes, Any]:
        """The block without lines whose quotation never ends; and record → line number."""
        data = block.data
        strays: set[int] = set()
        inner: set[int] = set()
        odd = _odd_lines(data)
        lines = data.split(b"\n") if odd else []
        for number in odd:
            if number in inner or not self._open(lines[number]):
                continue
            end = self._closing(lines, number)
            if end is not None:
                inner |= set(range(number + 1, end + 1))
                continue
            strays.add(number)
            where = f"{self.log.name}:{block.line + number}"
            detail = "has a quotation mark that is never closed; double it or quote the field"
            rejects.add("bad_row", where, detail, lines[number])
        if strays:
            data = b"\n".join(line for i, line in enumerate(lines) if i not in strays)

        def origin(record: int) -> int:
            numbers = [n for n in filled_lines(block.data).tolist() if n not in strays | inner]
            return int(block.line + numbers[min(record, len(numbers) - 1)])

        return data, origin

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

    def _open(self, text: bytes) -> bool:
        """True when `text` ends inside a quoted field."""
        delimiter = self.delimiter.encode()[0]
        inside, start, i = False, True, 0
        while i < len(text):
            byte = text[i]
            if inside:
                if byte == _QUOTE:
                    if text[i + 1 : i + 2] == b'"':
                        i += 1
                    else:
                        inside = False
            elif byte == _QUOTE and start:
                inside = True
            start = not inside and byte in (delimiter, _NEWLINE)
            i += 1
        return inside

    def _are_rows(self, lines: list[bytes]) -> bool:
        """True for whole rows: inside a field, they are rows that a stray mark swallowed."""
        filled = [line for line in lines if line.strip()]
        return bool(filled) and all(self._width(line) == len(self.names) for line in filled)

    def _width(self, record: bytes) -> int:
        text = record.decode("utf-8", "replace")
        return len(next(csv.reader(io.StringIO(text), delimiter=self.delimiter), []))


def _odd_lines(data: bytes) -> list[int]:
    """Numbers, from 0, of lines with an odd count of quotation marks: rare, and all that matter."""
    if b'"' not in data:
        return []
    text = np.frombuffer(data, np.uint8)
    ends = np.append(np.flatnonzero(text == _NEWLINE), len(text))
    marks = np.searchsorted(ends, np.flatnonzero(text == _QUOTE))
    odd: list[int] = np.flatnonzero(np.bincount(marks) % 2).tolist()
    return odd


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "replace")

"""Records of CSV whose columns are known: Arrow splits the cells, all as text.

Which lines make up a record is decided as RFC 4180 says: a quoted field may hold line ends,
delimiters and doubled marks, and ends at a mark that is followed by a delimiter or a line end. A
mark that opens no such field is a stray one and costs its own line only; to a plain CSV parser it
opens a field that swallows every row up to the next mark.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from monitor.edge.blocks import Block, whole_lines
from monitor.edge.readers import Chunk, Rejects, no_rows

MAX_QUOTED_BYTES = 1 << 20
"""A record with quoted line ends may not be longer: its mark is taken for a stray one."""

MAX_HELD_ROWS = 16
"""A growing log that ends within a quoted field is waited for; but not if so many whole rows stand
in that field: then its mark is a stray one, and rows must not wait for ever."""

_QUOTE, _NEWLINE, _RETURN = 34, 10, 13


class CsvRows:
    """How to read the records of one header.

    Args:
        name: of the log, for people.
        names: all columns.
        needed: those to read, each of which is there once.
        delimiter: one character.
        empty: texts that stand for nothing.
    """

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        needed: Collection[str],
        delimiter: str,
        empty: Sequence[str] = ("",),
    ) -> None:
        self.name, self.names, self.delimiter, self.empty = name, names, delimiter, empty
        self.needed = [name for name in names if name in needed]
        # Columns that nobody asked for may share names; Arrow must still tell them apart.
        self.unique = [n if n in self.needed else f"{i}:{n}" for i, n in enumerate(names)]
        self.grammar = Grammar(delimiter, len(names))

    def cut(self, data: bytes, more: bool) -> int:
        """Whole lines, less a quoted field at their end that the next bytes will close."""
        end = whole_lines(data)
        if b'"' not in data:
            return end
        lines = _Lines(data[:end])
        for record in self._records(lines):
            if record.open:
                inner = lines.between(record.first + 1, record.first + 1 + MAX_HELD_ROWS)
                if more or len(inner) < MAX_HELD_ROWS or not self._are_rows(inner):
                    return lines.start(record.first)
        return end

    def parse(self, block: Block) -> Chunk:
        """Its rows; records that are none are told."""
        rejects = Rejects(self.needed)
        layout = self._layout(block, rejects)
        if not _is_utf8(layout.data()):
            # Arrow shows rows of the wrong width as text, and gives up on those that are none.
            for number, record in layout.records():
                if not _is_utf8(record) and self.grammar.width(record) != len(self.names):
                    layout.drop(number, record, self._wrong_width(record), rejects)
        rows, invalid = self._split(layout, rejects)
        kept = functools.cache(lambda: np.delete(np.arange(rows.num_rows + len(invalid)), invalid))
        return Chunk(
            rows, lambda row: layout.where(int(kept()[row])), block.state, rejects.listed()
        )

    def may_have_headers(self, chunk: Chunk) -> bool:
        """False if no row of a parsed block can be a header: cheap to find out, unlike which."""
        names = pa.array([name.encode() for name in self.names], pa.binary())
        columns = (chunk.rows.column(name) for name in self.needed[:2])
        return bool(chunk.rejected) or any(
            pc.any(pc.is_in(column.cast(pa.binary()), names)).as_py() for column in columns
        )

    def headers(self, block: Block) -> Iterator[tuple[int, int, list[str]]]:
        """Records that are headers, as logs have that were made of several files.

        More than half of their cells, and two at least, are names of this header's columns, and
        they have more than half of the columns that are read.

        Returns:
            Where each begins and ends in the bytes of the block, and its names, in order.
        """
        found = [m.start("line") for m in self.grammar.first_cells(self.names, block.data)]
        if not found:
            return
        lines = _Lines(block.data)
        inner = self._layout(block, Rejects(self.needed)).inner
        for start in found:
            line = lines.of(start)
            if line in inner:
                continue
            text = lines.text(line).decode("utf-8", "replace").rstrip("\r")
            names = [n.strip() for n in next(csv.reader([text], delimiter=self.delimiter), [])]
            known, read = (len({*names} & {*some}) for some in (self.names, self.needed))
            if known >= 2 and 2 * known > len(names) and 2 * read > len(self.needed):
                yield start, min(int(lines.ends[line]) + 1, len(block.data)), names

    def _split(self, layout: _Layout, rejects: Rejects) -> tuple[pa.RecordBatch, list[int]]:
        """Cells of the needed columns as bytes; and the numbers of records of the wrong width."""
        data = layout.data()
        types = dict.fromkeys(self.needed, pa.binary())
        if not data.strip():
            return no_rows(self.needed), []
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
                null_values=list(self.empty),
            ),
        )
        rows = table.combine_chunks().to_batches()
        return rows[0] if rows else pa.RecordBatch.from_pylist([], table.schema), invalid

    def _wrong_width(self, record: bytes) -> str:
        width = self.grammar.width(record)
        if not width:
            return "holds a line end that is not inside of quotation marks; quote the field"
        said = f"has {width} column{'s' * (width != 1)} where the header has {len(self.names)}"
        if width == len(self.names) + 1 and record.rstrip(b"\r\n").endswith(self.grammar.delimiter):
            said += f", for it ends in `{self.delimiter}`; end the header in it, too"
        return said

    def _layout(self, block: Block, rejects: Rejects) -> _Layout:
        """The records of a block, without lines whose quotation mark is a stray one."""
        layout = _Layout(self.name, block)
        lines = _Lines(block.data, block.line)
        for record in self._records(lines):
            if record.stray:
                line = lines.text(record.first)
                layout.drop(record.first, line, _stray(record, lines), rejects)
            elif record.wide:
                whole = b"\n".join(lines.between(record.first, record.last + 1))
                layout.drop(record.first, whole, self._wrong_width(whole), rejects)
            else:
                layout.inner |= set(range(record.first + 1, record.last + 1))
        return layout

    def _records(self, lines: _Lines) -> Iterator[_Record]:
        """Those in which quotation marks matter, in order; all others are a line each."""
        done = 0
        for first in lines.irregular(self.delimiter):
            if first < done or not (record := self._record(lines, first)):
                continue
            done = first + 1 if record.stray else record.last + 1
            yield record

    def _record(self, lines: _Lines, first: int) -> _Record | None:
        """What begins in this line; None if it ends there and Arrow can judge it."""
        start, data = lines.start(first), lines.data
        limit = start + MAX_QUOTED_BYTES
        for grammar in (self.grammar.row, self.grammar.any_row):
            found = grammar.match(data, start, limit)
            if found is None:
                continue
            last = lines.of(found.end() - 1)
            if last == first:
                return None
            if found.end() == limit < len(data):
                break  # it was only cut there
            # If of the wrong width, one of two things is wrong: are there rows in that field?
            wide = grammar is self.grammar.any_row
            stray = wide and self._are_rows(lines.between(first + 1, last + 1))
            return _Record(first, last, stray=stray, wide=wide and not stray)
        if self.grammar.closed(lines.text(first)):
            return None
        open_ = len(data) <= limit and bool(self.grammar.torn.fullmatch(data, start))
        last = lines.of(len(data) - 1) if open_ else first
        return _Record(first, last, stray=True, open=open_)

    def _are_rows(self, lines: Sequence[bytes]) -> bool:
        """True for whole rows."""
        filled = [line for line in lines if line.strip()]
        return bool(filled) and all(self.grammar.width(line) == len(self.names) for line in filled)


class _Record:
    """Lines that belong together."""

    __slots__ = ("first", "last", "open", "stray", "wide")

    def __init__(
        self, first: int, last: int, stray: bool = False, wide: bool = False, open: bool = False
    ) -> None:
        self.first, self.last = first, last
        self.stray = stray
        """A mark in the first line opens no field."""
        self.wide = wide
        """It has another number of fields than the header."""
        self.open = open
        """The bytes end within its quoted field."""


def _stray(record: _Record, lines: _Lines) -> str:
    cure = "double the mark, or quote the whole field"
    if record.open:
        return f"has a quotation mark that is never closed; {cure}"
    if record.last > record.first:
        return (
            f"opens a quotation that ends in line {lines.number + record.last}, but with the wrong "
            f"number of columns, and has whole rows inside; {cure}"
        )
    return (
        "has a quotation mark whose field does not end before a delimiter or a line end "
        f"(within {MAX_QUOTED_BYTES >> 20} MiB); {cure}"
    )


class Grammar:
    """RFC 4180 with one delimiter.

    Args:
        delimiter: one character.
        width: fields of a row.
    """

    def __init__(self, delimiter: str, width: int) -> None:
        self.delimiter = delimiter.encode()
        between = re.escape(self.delimiter)
        # Atomic groups: a possessive one matches wrongly in Python before 3.11.5 (gh-106052).
        quoted = rb'"(?>(?:[^"]++|"")*)"'
        field = rb"(?:" + quoted + rb"|(?!\")[^\r\n" + between + rb"]*+)"
        end = rb"(?:\r?\n|\r?\Z)"
        more = rb"(?:" + between + field + rb")"
        self.row = re.compile(field + more + b"{%d}" % max(width - 1, 0) + end)
        """A row of the right width."""
        self.any_row = re.compile(field + rb"(?>" + more + rb"*)" + end)
        self.torn = re.compile(rb"(?>(?:" + field + between + rb')*)"(?>(?:[^"]++|"")*)')
        """A row that ends within a quoted field."""

    def first_cells(self, names: Collection[str], data: bytes) -> Iterator[re.Match[bytes]]:
        """Lines that have one of `names` in their first or second cell."""
        between = re.escape(self.delimiter)
        words = rb"|".join(re.escape(name.encode()) for name in names if name)
        cell = (
            rb"(?:[^\n" + between + rb"]*" + between + rb')?[ \t]*"?(?:' + words + rb")[\"\r \t]*"
        )
        return re.finditer(rb"(?:\A|\n)(?P<line>" + cell + rb"(?:" + between + rb"|\n|\Z))", data)

    def closed(self, line: bytes) -> bool:
        """Arrow, which is more lenient, would see the line end outside of a quoted field."""
        return not self._scan(line)[1]

    def width(self, record: bytes) -> int:
        """Its number of fields; 0 if it is several rows."""
        return self._scan(record)[0]

    def _scan(self, record: bytes) -> tuple[int, bool]:
        """Fields, and whether the last is a quoted one that has not ended: as Arrow counts."""
        record = record.removesuffix(b"\n").removesuffix(b"\r")
        if b'"' not in record:
            return 0 if b"\r" in record else record.count(self.delimiter) + 1, False
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
                width += byte == self.delimiter
                rows += byte in (b"\r", b"\n")
            start = not inside and byte == self.delimiter
            position += 1
        return width if rows == 1 else 0, inside


class _Lines:
    """Where the lines of some bytes are, from 0."""

    def __init__(self, data: bytes, number: int = 1) -> None:
        self.data = data
        self.number = number

    @functools.cached_property
    def ends(self) -> np.ndarray:
        """Places of the line ends, the last of which may be the end of the bytes."""
        text = np.frombuffer(self.data, np.uint8)
        ends = np.flatnonzero(text == _NEWLINE)
        return ends if self.data.endswith(b"\n") else np.append(ends, len(text))

    def start(self, line: int) -> int:
        """Where it begins."""
        return int(self.ends[line - 1]) + 1 if line else 0

    def text(self, line: int) -> bytes:
        """The line, without its end."""
        return self.data[self.start(line) : int(self.ends[line])]

    def between(self, first: int, end: int) -> list[bytes]:
        """Some lines."""
        return [self.text(line) for line in range(first, min(end, len(self.ends)))]

    def of(self, place: int) -> int:
        """The line in which a byte stands."""
        return int(np.searchsorted(self.ends, place))

    def irregular(self, delimiter: str) -> list[int]:
        """Lines that may end inside of a quoted field, were their beginnings outside of one.

        In all others the marks open at the beginning of a field and close in the same line.
        """
        if b'"' not in self.data:
            return []
        text = np.frombuffer(self.data, np.uint8)
        marks = np.flatnonzero(text == _QUOTE)
        line = np.searchsorted(self.ends, marks)
        odd = np.flatnonzero(np.bincount(line) % 2)
        first = np.flatnonzero(np.diff(line, prepend=-1))
        within = np.arange(len(marks)) - np.repeat(first, np.diff(np.append(first, len(marks))))
        before = text[np.maximum(marks - 1, 0)]
        opens = (marks == 0) | np.isin(before, [ord(delimiter), _NEWLINE, _RETURN, _QUOTE])
        odd = np.union1d(odd, line[(within % 2 == 0) & ~opens])
        found: list[int] = odd.tolist()
        return found


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


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "replace")

"""JSON lines: Arrow reads what is sound; a block that isn't is taken apart line by line."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from monitor.edge.blocks import (
    Block,
    Log,
    State,
    filled_lines,
    whole_lines,
)
from monitor.edge.readers import Chunk, Rejects, left_out

SAMPLE_BYTES = 1 << 20
"""Read ahead to learn the columns and their types."""

MAX_DOTS = 4
"""In a name whose dots may be part of keys in every way; beyond, all of them or none are."""

_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Texts:
    """JSON values, one a line."""

    data: bytes
    state: State
    number: Callable[[int], int]
    """Line of `data`, from 0 → line of the log, from 1."""


class JsonLinesReader:
    """One log of JSON objects, one a line.

    Args:
        log: its bytes.
        needed: the fields to read; others are passed over.
    """

    def __init__(self, log: Log, needed: Collection[str]) -> None:
        self.log = log
        self.needed = tuple(sorted(needed))
        self.body, self.body_line = log.start, 0
        sample = [object_of(text) for text in self._sampled(log.peek(SAMPLE_BYTES))]
        rows: list[dict[str, Any]] = [row for row in sample if isinstance(row, dict)]
        self.names = {name for row in rows for name in names_in(row)}
        self.types: dict[str, pa.DataType | None] = {
            name: _type_of([field_of(row, name) for row in rows]) for name in self.needed
        }

    def columns(self) -> set[str] | None:
        """The fields of the first lines."""
        return self.names or None

    def optional(self) -> bool:
        """A line may leave out a field."""
        return True

    def chunks(self, state: State, size: int | None = None) -> Iterator[Chunk]:
        """See `Reader`."""
        offset, lines = self.log.stopped(state)
        if offset < self.body:
            offset, lines = self.body, self.body_line
        for block in self.log.blocks(offset, lines, self._whole, size):
            if block.too_long:
                yield left_out(self.log.name, block, self.needed)
                continue
            texts = self._texts(block)
            yield self._sound(texts) or self._taken_apart(texts)

    def _sampled(self, start: bytes) -> list[bytes]:
        """The first objects, to learn from."""
        return start.split(b"\n")[:1000]

    def _texts(self, block: Block) -> Texts:
        """The objects of a block, one a line, and where they stand."""
        return Texts(block.data, block.state, lambda line: block.line + line)

    def _whole(self, data: bytes, more: bool) -> int:
        """Whole lines; a last line without its end counts if it is a whole object already."""
        end = whole_lines(data)
        if more or end == len(data):
            return end
        return len(data) if isinstance(object_of(data[end:]), dict) else end

    def _sound(self, block: Texts) -> Chunk | None:
        """All lines at once; None if any of them has something wrong with it."""
        schema = self._schema()
        if schema is None:
            return None
        try:
            block.data.decode("utf-8")  # Arrow does not look
            table = pyarrow.json.read_json(
                pa.BufferReader(block.data),
                pyarrow.json.ReadOptions(use_threads=False, block_size=len(block.data) + 1),
                pyarrow.json.ParseOptions(
                    explicit_schema=schema, unexpected_field_behavior="ignore"
                ),
            )
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        lines = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
        if table.num_rows != lines and table.num_rows != len(filled_lines(block.data)):
            return None  # an object across lines, or two on one
        rows = table.combine_chunks().to_batches()
        batch = rows[0] if rows else pa.RecordBatch.from_pylist([], schema)

        def locate(row: int) -> str:
            return f"{self.log.name}:{block.number(int(filled_lines(block.data)[row]))}"

        columns = {name: self._joined(batch, name) for name in self.needed}
        return Chunk(pa.RecordBatch.from_pydict(columns), locate, block.state)

    def _joined(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """The field, however a line spells its dots: the first spelling that has a value."""
        found = []
        for first, *inner in spellings(name):
            if first in batch.schema.names:
                outer = batch.column(first)
                found.append(pc.struct_field(outer, inner) if inner else outer)
        filled = [column for column in found if column.null_count < len(column)] or found[:1]
        return pc.coalesce(*filled) if len(filled) > 1 else filled[0]

    def _schema(self) -> pa.Schema | None:
        """What Arrow shall read; None if a field has several types, or a field is also a table."""
        tree: dict[str, Any] = {}
        for name, kind in self.types.items():
            if kind is None or name.count(".") > MAX_DOTS:
                return None
            for *outer, last in spellings(name):
                place = tree
                for part in outer:
                    place = place.setdefault(part, {})
                    if not isinstance(place, dict):
                        return None
                if last in place:
                    return None
                place[last] = kind
        return pa.schema(_struct(tree))

    def _taken_apart(self, block: Texts) -> Chunk:
        rows: list[dict[str, Any]] = []
        numbers: list[int] = []
        tally = Rejects(self.needed)
        for place, line in enumerate(block.data.split(b"\n")):
            if not line.strip():
                continue
            number = block.number(place)
            row = object_of(line)
            if isinstance(row, dict):
                nested = [n for n in self.needed if isinstance(field_of(row, n), dict | list)]
                if not nested:
                    rows.append(row)
                    numbers.append(number)
                    continue
                reason, detail = (
                    "bad_value",
                    f"field `{nested[0]}` holds a list or a table; name a field with plain values",
                )
            else:
                reason, detail = "not_json", f"line is {row}; write one JSON object a line"
            tally.add(reason, f"{self.log.name}:{number}", detail, line)
        arrays = {}
        for name in self.needed:
            cells = [field_of(row, name) for row in rows]
            kind = _type_of(cells)
            # Later blocks are read in the light of this one: a column may begin with null or 1.
            if any(cell is not None for cell in cells):
                self.types[name] = _wider(self.types[name], kind)
            arrays[name] = pa.array(cells, kind) if kind is not None else _mixed(cells)

        def locate(row: int) -> str:
            return f"{self.log.name}:{numbers[row]}"

        return Chunk(pa.RecordBatch.from_pydict(arrays), locate, block.state, tally.listed())


def _struct(tree: dict[str, Any]) -> pa.StructType:
    return pa.struct(
        [(name, _struct(kind) if isinstance(kind, dict) else kind) for name, kind in tree.items()]
    )


def field_of(row: dict[str, Any], name: str) -> Any:
    """The field called `name`, or the one that its dots lead to; some may be part of a key.

    >>> field_of({"http": {"status.code": 503}}, "http.status.code")
    503
    """
    value = row.get(name)
    if value is not None or "." not in name:
        return value
    for first, *inner in spellings(name)[1:]:
        value = row.get(first)
        if value is None:
            continue
        for part in inner:
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


@functools.cache
def spellings(name: str) -> tuple[tuple[str, ...], ...]:
    """Every way in which a dotted name may lie in tables within tables, longest keys first.

    >>> spellings("a.b")
    (('a.b',), ('a', 'b'))
    """
    if "." not in name or name.count(".") > MAX_DOTS:
        whole = (name,)
        return (whole,) if "." not in name else (whole, tuple(name.split(".")))
    parts = name.split(".")
    ways: list[tuple[str, ...]] = [(name,)]
    for cut in range(len(parts) - 1, 0, -1):
        first = ".".join(parts[:cut])
        ways += [(first, *rest) for rest in spellings(".".join(parts[cut:]))]
    return tuple(ways)


def names_in(row: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Its fields, and those of tables in it by their dotted names."""
    for name, value in row.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from names_in(value, f"{prefix}{name}.")


_CONSTANTS = {"NaN": None, "Infinity": float("inf"), "-Infinity": float("-inf")}
"""What Python and JavaScript programs write as numbers, though JSON has no such."""


def object_of(line: bytes) -> dict[str, Any] | str:
    """The object of a line, or what the line is instead."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            return "not UTF-8"
        try:
            if not any(word in text for word in _CONSTANTS):
                return f"not JSON ({error})"
            row = json.loads(text, parse_constant=_CONSTANTS.get, parse_int=_whole)
        except (ValueError, RecursionError):
            return f"not JSON ({error})"
    return row if isinstance(row, dict) else f"a JSON {type(row).__name__}, not an object"


def _whole(digits: str) -> int | float:
    """As orjson has it: what 64 bits do not hold is a float."""
    number = int(digits)
    return number if -(2**63) <= number < 2**64 else float(digits)


def _type_of(cells: list[Any]) -> pa.DataType | None:
    """The Arrow type that all cells have; None if they have several."""
    match {type(cell) for cell in cells} - {type(None)}:
        case kinds if not kinds or kinds == {str}:
            return pa.string()
        case kinds if kinds == {bool}:
            return pa.bool_()
        case kinds if kinds == {int}:
            return pa.int64() if all(c is None or c in _INT64 for c in cells) else None
        case kinds if kinds <= {int, float}:
            exact = all(not isinstance(c, int) or abs(c) <= 2**53 for c in cells)
            return pa.float64() if exact else None
    return None


def _wider(one: pa.DataType | None, other: pa.DataType | None) -> pa.DataType | None:
    if one == other:
        return one
    numbers = {pa.int64(), pa.float64()}
    return pa.float64() if {one, other} <= numbers else other


def _mixed(cells: list[Any]) -> pa.Array:
    """Cells of several types as text, as JSON writes them."""
    texts = [c if c is None or isinstance(c, str) else orjson.dumps(c).decode() for c in cells]
    return pa.array(texts, pa.string())

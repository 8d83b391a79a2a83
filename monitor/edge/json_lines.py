"""JSON lines: Arrow reads what is sound; a block that isn't is taken apart line by line."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.json

from monitor.edge.blocks import (
    Block,
    Log,
    State,
    UnreadableError,
    filled_lines,
    whole_lines,
)
from monitor.edge.readers import Chunk, Rejects, flat

SAMPLE_BYTES = 1 << 20
"""Read ahead to learn the columns and their types."""

_INT64 = range(-(2**63), 2**63)


class JsonLinesReader:
    """One log of JSON objects, one a line.

    Args:
        log: its bytes.
        needed: the fields to read; others are passed over.
    """

    def __init__(self, log: Log, needed: Collection[str]) -> None:
        self.log = log
        self.needed = tuple(sorted(needed))
        sample = [object_of(line) for line in log.peek(SAMPLE_BYTES).split(b"\n")[:1000]]
        self.sample: list[dict[str, Any]] = [row for row in sample if isinstance(row, dict)]
        self.types: dict[str, pa.DataType | None] = {
            name: _type_of([field_of(row, name) for row in self.sample]) for name in self.needed
        }

    def columns(self) -> set[str] | None:
        """The fields of the first lines."""
        if self.log.peek(8).lstrip().startswith(b"["):
            detail = "is one JSON array; write one object a line, for example with `jq -c '.[]'`"
            raise UnreadableError("not_json_lines", detail)
        return {name for row in self.sample for name in _names(row)} if self.sample else None

    def optional(self) -> bool:
        """A line may leave out a field."""
        return True

    def chunks(self, state: State) -> Iterator[Chunk]:
        """See `Reader`."""
        for block in self.log.blocks(*self.log.stopped(state), self._whole):
            yield self._sound(block) or self._taken_apart(block)

    def _whole(self, data: bytes) -> int:
        """Whole lines; a last line without its end counts if it is a whole object already."""
        end = whole_lines(data)
        return len(data) if end < len(data) and isinstance(object_of(data[end:]), dict) else end

    def _sound(self, block: Block) -> Chunk | None:
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
            return f"{self.log.name}:{block.line + int(filled_lines(block.data)[row])}"

        return Chunk(flat(batch, self.needed), locate, block.state)

    def _schema(self) -> pa.Schema | None:
        """What Arrow shall read; None if a field has several types, or a field is also a table."""
        tree: dict[str, Any] = {}
        whole = {name for row in self.sample for name in row}
        for name, kind in self.types.items():
            *outer, last = [name] if name in whole else name.split(".")
            place = tree
            for part in outer:
                place = place.setdefault(part, {})
                if not isinstance(place, dict):
                    return None
            if kind is None or last in place:
                return None
            place[last] = kind
        return pa.schema(_struct(tree))

    def _taken_apart(self, block: Block) -> Chunk:
        rows: list[dict[str, Any]] = []
        numbers: list[int] = []
        tally = Rejects(self.needed)
        for number, line in enumerate(block.data.split(b"\n"), block.line):
            if not line.strip():
                continue
            row = object_of(line)
            if isinstance(row, dict):
                nested = [n for n in self.needed if isinstance(field_of(row, n), dict | list)]
                if not nested:
                    rows.append(row)
                    numbers.append(number)
                    continue
                reason, detail = "bad_value", f"field `{nested[0]}` holds a list or a table"
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
    """The field called `name`, or the one that its dots lead to."""
    if name in row or "." not in name:
        return row.get(name)
    value: Any = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _names(row: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in row.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from _names(value, f"{prefix}{name}.")


def object_of(line: bytes) -> dict[str, Any] | str:
    """The object of a line, or what the line is instead."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            return "not UTF-8"
        return f"not JSON ({error})"
    return row if isinstance(row, dict) else f"a JSON {type(row).__name__}, not an object"


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

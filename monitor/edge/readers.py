"""What every file format offers to the file source."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.domain import Rejected
from monitor.edge.blocks import MAX_RECORD_BYTES, Block, Log, State
from monitor.edge.decoding import LISTED, Locate
from monitor.edge.streams import UnreadableError

BATCH_ROWS = 1 << 17
"""Rows held at once."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of one file."""

    rows: pa.RecordBatch
    locate: Locate
    state: State
    """Reading again from here gives what follows."""
    rejected: tuple[Rejected, ...] = ()
    """Records that were no rows at all."""


class Rejects:
    """Lists the first of a chunk's rejected records and counts the others.

    Args:
        needed: the columns that are read; of others no value is kept.
    """

    def __init__(self, needed: Collection[str]) -> None:
        parts = [name.split(".") for name in needed]
        self._needed = {".".join(path[i:]) for path in parts for i in range(len(path))}
        self._listed: list[Rejected] = []
        self._counts: dict[str, int] = {}
        self._rest: dict[str, Rejected] = {}

    def add(self, reason: str, where: str, detail: str, raw: bytes) -> None:
        """One more."""
        self._counts[reason] = count = self._counts.get(reason, 0) + 1
        if count <= LISTED:
            self._listed.append(Rejected(reason, where, detail, 1, self.kept(raw[:200])))
        else:
            first = self._rest.get(reason) or Rejected(reason, f"{where} and after", detail)
            self._rest[reason] = replace(first, count=count - LISTED)

    def kept(self, raw: bytes) -> bytes:
        """Names and shape of the record, and the values of the columns that are read.

        The others are nobody's business here, broken or not: letters become x, digits 9.
        """
        pieces, end = [], 0
        for member in _MEMBER.finditer(raw):
            name, colon, value = member.groups()
            read = name[1:-1].decode(errors="replace") in self._needed
            pieces += [_masked(raw[end : member.start()]), name, colon]
            pieces.append(value if read else _masked(value))
            end = member.end()
        return b"".join((*pieces, _masked(raw[end:])))

    def listed(self) -> tuple[Rejected, ...]:
        """All of them, in order; the counted ones last."""
        return (*self._listed, *self._rest.values())


_MEMBER = re.compile(rb'("(?:[^"\\]|\\.)*")(\s*:\s*)("(?:[^"\\]|\\.)*"?|[^,{}\[\]"]*)')
"""Of JSON, as far as it goes."""


def _masked(raw: bytes) -> bytes:
    return re.sub(rb"[A-Za-z\x80-\xff]", b"x", re.sub(rb"[0-9]", b"9", raw))


def no_rows(needed: Iterable[str]) -> pa.RecordBatch:
    """Rows without rows, in the right shape."""
    return pa.RecordBatch.from_pydict({name: pa.array([], pa.string()) for name in needed})


def joined(parts: Sequence[Chunk], state: State, needed: Iterable[str]) -> Chunk:
    """The rows of one block, whose parts stand under headers of their own.

    Args:
        parts: in order; a column that the header of one does not have is missing there.
        state: behind all of them.
        needed: the columns to read.
    """
    if not parts:
        return Chunk(no_rows(needed), str, state)
    columns = {name: pa.concat_arrays([_bytes(p.rows, name) for p in parts]) for name in needed}
    rows = pa.RecordBatch.from_pydict(columns) if columns else no_rows(needed)
    starts = np.cumsum([0, *(part.rows.num_rows for part in parts)])

    def locate(row: int) -> str:
        part = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[part].locate(row - int(starts[part]))

    return Chunk(rows, locate, state, tuple(one for part in parts for one in part.rejected))


def _bytes(rows: pa.RecordBatch, name: str) -> pa.Array:
    if name not in rows.schema.names:
        return pa.nulls(rows.num_rows, pa.binary())
    return rows.column(name).cast(pa.binary())


def without_columns(
    names: Sequence[str], needed: Collection[str], where: str, state: State
) -> list[Chunk]:
    """What a header within a log does not have is told: the rows below count without it.

    Args:
        names: in the header.
        needed: the columns to read.
        where: it stands, for people.
        state: behind its block.
    """
    if not (lost := [f"`{name}`" for name in needed if name not in names]):
        return []
    detail = (
        f"is a header without column {', '.join(lost)}: nothing is known of it in the rows "
        "below; write files of different columns apart"
    )
    return [Chunk(no_rows(needed), str, state, (Rejected("bad_header", where, detail),))]


def left_out(name: str, block: Block, needed: Iterable[str]) -> Chunk:
    """The chunk of a block that is too long."""
    detail = f"line is longer than {MAX_RECORD_BYTES >> 20} MiB and was left out; break it up"
    told = Rejected("too_long", f"{name}:{block.line}", detail)
    return Chunk(no_rows(needed), str, block.state, (told,))


class DuplicateColumnError(UnreadableError):
    """A needed column is there twice: nobody can know which is meant."""

    def __init__(self, name: str) -> None:
        super().__init__("duplicate_column", f"column `{name}` is there twice; rename one")


def once_each(present: Sequence[str], needed: Iterable[str]) -> None:
    """Every needed column may be there once.

    Raises:
        DuplicateColumnError: one is not.
    """
    for name in needed:
        if present.count(name) > 1:
            raise DuplicateColumnError(name)


def listed_names(kind: pa.Schema | pa.StructType, prefix: str = "") -> list[str]:
    """All fields, those within fields by their dotted names, as often as they are there."""
    names = []
    for field in kind:
        names.append(prefix + field.name)
        if pa.types.is_struct(field.type):
            names += listed_names(field.type, f"{prefix}{field.name}.")
    return names


def flat(rows: pa.RecordBatch, needed: Iterable[str]) -> pa.RecordBatch:
    """Just the columns that are needed, fields within fields under their dotted names."""
    columns = {}
    for name in needed:
        if name in rows.schema.names:
            columns[name] = rows.column(name)
        else:
            outer, *inner = name.split(".")
            columns[name] = pc.struct_field(rows.column(outer), inner)
    return pa.RecordBatch.from_pydict({name: _common(c) for name, c in columns.items()})


def _common(column: pa.Array) -> pa.Array:
    """Views, for which Arrow has few functions yet, as what they view."""
    if pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    return column.cast(pa.binary()) if pa.types.is_binary_view(column.type) else column


class Reader(Protocol):
    """One open file."""

    @property
    def log(self) -> Log | None:
        """The bytes of a file that grows by lines, to know it again under another name."""
        ...

    def columns(self) -> set[str] | None:
        """The columns it has; None while it has no row to tell from.

        Raises:
            UnreadableError: it is broken.
        """
        ...

    def optional(self) -> bool:
        """True when a row may leave out a column that others have, as in JSON."""
        ...

    def chunks(self, state: State, size: int | None = None) -> Iterator[Chunk]:
        """The rows behind `state`.

        Args:
            size: bytes, roughly, of the chunks; a fit size if left out.

        Raises:
            UnreadableError: it breaks off.
        """
        ...

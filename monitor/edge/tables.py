"""One table, whole: attributes as labels, amounts as numbers; every complaint names its place."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.config import FilesSettings
from monitor.config.problems import did_you_mean
from monitor.edge.opening import open_reader
from monitor.edge.readers import Chunk
from monitor.edge.source import SourceError
from monitor.edge.streams import UnreadableError
from monitor.localization import Labels

STDIN = "-"
LISTED = 3


class TableError(SourceError):
    """The table cannot be used; the message names the file, the line, the field and the fix."""


@dataclass(frozen=True, slots=True)
class Table:
    """What was read."""

    name: str
    amounts: Mapping[str, np.ndarray]
    """Column → (rows,) float64, finite and not negative."""
    labels: Mapping[str, Labels]
    """The other columns."""
    locate: Callable[[int], str]
    """Row → file and line, for people."""

    def __len__(self) -> int:
        return next((len(column) for column in self.amounts.values()), 0)


def read_table(
    path: str, amounts: Sequence[str], attributes: Sequence[str] | None, other: Sequence[str] = ()
) -> Table:
    """Read a CSV, Parquet or JSON-lines file, possibly compressed; `-` is standard input.

    Args:
        path: the file.
        amounts: columns of numbers.
        attributes: columns of labels; None is all that are no amounts.
        other: columns of labels that are read beside them.

    Raises:
        TableError: it is no table, lacks a column, or a cell is no amount.
    """
    name = "standard input" if path == STDIN else path
    data = sys.stdin.buffer.read() if path == STDIN else None
    if data is None and not Path(path).is_file():
        raise TableError(f"{path}: there is no such file")

    def reader(needed: Sequence[str]):  # type: ignore[no-untyped-def]
        source = path if data is None else io.BytesIO(data)
        return open_reader(source, FilesSettings(), needed, follow=False)

    try:
        present = reader(()).columns() or set()
        # a JSON field that holds a table is read by its fields
        tables = {p.rpartition(".")[0] for p in present if p.rpartition(".")[0] in present}
        if attributes is None:
            attributes = sorted(present - tables - set(amounts) - set(other))
        needed = [*amounts, *attributes, *other]
        missing = [column for column in needed if column not in present]
        if missing:
            raise TableError(
                "\n".join(
                    f"{name}: no column `{m}`; {did_you_mean(m, sorted(present))}" for m in missing
                )
            )
        chunks = [chunk for chunk in reader(needed).chunks({}) if len(chunk.rows) or chunk.rejected]
    except UnreadableError as error:
        raise TableError(f"{name}: {error}") from None
    _refuse(chunks)
    if not sum(len(chunk.rows) for chunk in chunks):
        raise TableError(f"{name}: has a header but no rows")
    locate = _locator(chunks)
    return Table(
        name,
        {column: _amounts(column, chunks, locate) for column in amounts},
        {column: _labels(column, chunks, locate) for column in (*attributes, *other)},
        locate,
    )


def _refuse(chunks: Sequence[Chunk]) -> None:
    """A table is explained whole or not at all."""
    rejected = [one for chunk in chunks for one in chunk.rejected]
    if rejected:
        count = sum(one.count for one in rejected)
        lines = [f"{one.where}: {one.detail}" for one in rejected[:LISTED]]
        if count > LISTED:
            lines.append(f"and {count - LISTED} more rows that can't be read")
        raise TableError("\n".join(lines))


def _locator(chunks: Sequence[Chunk]) -> Callable[[int], str]:
    starts = np.cumsum([0, *(len(chunk.rows) for chunk in chunks)])

    def locate(row: int) -> str:
        at = int(np.searchsorted(starts, row, side="right")) - 1
        return chunks[at].locate(row - int(starts[at]))

    return locate


def _column(name: str, chunks: Sequence[Chunk]) -> list[pa.Array]:
    columns = [chunk.rows.column(name) for chunk in chunks]
    return [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in columns]


def _text(name: str, chunks: Sequence[Chunk], locate: Callable[[int], str]) -> pa.ChunkedArray:
    pieces = []
    row = 0
    for piece in _column(name, chunks):
        try:
            pieces.append(pc.cast(piece, pa.string()))
        except pa.ArrowException:
            for i, cell in enumerate(piece):
                try:
                    bytes(cell.as_py() or b"").decode("utf-8")
                except (UnicodeDecodeError, TypeError):
                    raise TableError(
                        f"{locate(row + i)}: field `{name}` is no text; convert it to UTF-8 text"
                    ) from None
            raise
        row += len(piece)
    return pa.chunked_array(pieces, pa.string())


def _labels(name: str, chunks: Sequence[Chunk], locate: Callable[[int], str]) -> Labels:
    """Codes in the order of the names; an empty or absent cell is the value ``""``."""
    text = pc.fill_null(_text(name, chunks, locate), "")
    coded = text.combine_chunks().dictionary_encode()
    names = np.asarray(coded.dictionary.to_pylist(), dtype=object)
    order = np.array(sorted(range(len(names)), key=lambda i: names[i]), np.int64)
    place = np.empty(len(names), np.int64)
    place[order] = np.arange(len(names))
    return Labels(tuple(names[order]), place[coded.indices.to_numpy(zero_copy_only=False)])


def _amounts(name: str, chunks: Sequence[Chunk], locate: Callable[[int], str]) -> np.ndarray:
    pieces = _column(name, chunks)
    if all(pa.types.is_integer(p.type) or pa.types.is_floating(p.type) for p in pieces):
        numbers = pa.chunked_array([pc.cast(p, pa.float64()) for p in pieces], pa.float64())
        shown = numbers
    else:
        shown = pc.utf8_trim_whitespace(_text(name, chunks, locate))
        try:
            numbers = pc.cast(pc.if_else(pc.equal(shown, ""), None, shown), pa.float64())
        except pa.ArrowException:
            row = next(i for i, cell in enumerate(shown) if not _is_number(cell.as_py()))
            raise TableError(
                f"{locate(row)}: field `{name}` is {shown[row].as_py()!r}, no number; write 12.5"
            ) from None
    values: np.ndarray = pc.fill_null(numbers, float("nan")).to_numpy()
    bad = ~np.isfinite(values) | (values < 0)
    if bad.any():
        row = int(np.argmax(bad))
        cell = shown[row].as_py()
        where = f"{locate(row)}: field `{name}`"
        more = f" ({int(bad.sum())} such rows)" if bad.sum() > 1 else ""
        if cell is None or cell == "":
            raise TableError(f"{where} is empty{more}; write 0 if nothing was counted")
        if values[row] < 0:
            raise TableError(f"{where} is {cell}{more}; amounts can't be negative")
        raise TableError(f"{where} is {cell}{more}; write a finite number, or leave the row out")
    return values


def _is_number(text: str | None) -> bool:
    if text is None or text == "":
        return True
    try:
        pc.cast(pa.scalar(text), pa.float64())
    except pa.ArrowException:
        return False
    return True

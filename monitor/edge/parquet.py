"""Parquet files: whole when they are complete, in row groups of bounded size."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from monitor.edge.blocks import State
from monitor.edge.readers import BATCH_ROWS, Chunk, flat, listed_names, once_each
from monitor.edge.streams import UnreadableError, unreadable

ROW_BYTES = 64
"""Taken for the size of a row where chunks are asked for in bytes."""


class ParquetReader:
    """One Parquet file.

    Args:
        name: for people.
        source: a path or a seekable file.
        needed: the columns to read; others stay on disk.
    """

    log = None

    def __init__(self, name: str, source: Any, needed: Collection[str]) -> None:
        self.name = name
        self.source = source
        self.needed = sorted(needed)
        try:
            self.schema = pq.read_schema(source)
        except (pa.ArrowException, OSError, EOFError) as error:
            found = unreadable(error)
            if found.passing:
                raise found from None
            raise UnreadableError(
                "broken_file",
                f"no complete Parquet file ({_first_line(error)}); write it elsewhere and move it "
                "in when it is complete",
            ) from None
        once_each(listed_names(self.schema), self.needed)

    def columns(self) -> set[str]:
        """The columns of its schema."""
        return set(listed_names(self.schema))

    def optional(self) -> bool:
        """Parquet's columns are there or they are not."""
        return False

    def chunks(self, state: State, size: int | None = None) -> Iterator[Chunk]:
        """Row groups behind `state`, cut to bounded batches."""
        rows_at_once = BATCH_ROWS if size is None else max(size // ROW_BYTES, 1)
        done = int(state.get("rows", 0))
        words = [
            field.name
            for field in self.schema
            if field.name in self.needed and pa.types.is_string(field.type)
        ]
        reached = 0
        try:
            # Text stays in the file's own dictionary: only distinct values are ever decoded.
            with pq.ParquetFile(self.source, read_dictionary=words) as file:
                groups, reached = _groups_behind(file, done)
                batches = file.iter_batches(rows_at_once, row_groups=groups, columns=self.needed)
                for batch in batches if size else _joined(batches):
                    first, reached = reached, reached + batch.num_rows
                    if reached <= done:
                        continue
                    if first < done:
                        batch, first = batch.slice(done - first), done
                    rows = flat(batch, self.needed)
                    _check_indices(rows)
                    yield Chunk(rows, self._locator(first), {"rows": reached})
        except (pa.ArrowException, OSError) as error:
            found = unreadable(error)
            if found.passing:
                raise found from None
            raise UnreadableError(
                "broken_file", f"breaks off behind row {reached}: {_first_line(error)}"
            ) from None

    def _locator(self, first: int) -> Any:
        return lambda row: f"{self.name}, row {first + row + 1}"


def _groups_behind(file: pq.ParquetFile, done: int) -> tuple[list[int], int]:
    """The row groups that hold rows behind `done`, and the rows before them."""
    before = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if before + rows > done:
            return list(range(group, file.num_row_groups)), before
        before += rows
    return [], before


def _check_indices(rows: pa.RecordBatch) -> None:
    """Damage that Arrow lets through: indices beyond their dictionary."""
    for column in rows.columns:
        if pa.types.is_dictionary(column.type):
            highest = pc.max(column.indices).as_py()
            if highest is not None and highest >= len(column.dictionary):
                raise pa.ArrowInvalid("a page is damaged")


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small row groups together: Arrow hands them out one by one."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= BATCH_ROWS // 2:
            yield _one(waiting)
            waiting = []
    if waiting:
        yield _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()[0]


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200]

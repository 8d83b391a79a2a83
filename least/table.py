"""A table from a file, as columns that can be fitted: numbers as they are, categories one-hot.

No column is dropped in silence: what is neither a number nor coded is refused by name, unless it is
left out by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

from least.columns import unique
from least.problem import MissingExtraError, ProblemError

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:
    raise MissingExtraError("reading tables", "pyarrow", "fit", error) from None

DELIMITERS = ",;\t|"
DECIMAL_COMMA = r"^\s*[+-]?\d+(,\d+)?([eE][+-]?\d+)?\s*$"
MAX_VALUES = 200
"""Values of a one-hot column: more would be more nodes than a graph can be read with."""

_MAX_HEADER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Coded:
    """A table of numbers."""

    nodes: pa.Table
    """Its columns are the graph's nodes; those of a one-hot column `town` are `town=Bergen` …"""
    of_column: dict[str, list[str]]
    """The nodes of each column of the file."""
    left_out: list[str]
    """Columns of the file that were not fitted, in its order."""
    notes: list[str] = field(default_factory=list)
    """How the file was read, where that was not a matter of course."""

    @property
    def one_hot(self) -> list[str]:
        """Columns that became several nodes."""
        return [column for column, nodes in self.of_column.items() if nodes != [column]]

    def exclusive(self) -> list[tuple[str, str]]:
        """Pairs of nodes between which no edge means anything: values of one column."""
        return [pair for column in self.one_hot for pair in permutations(self.of_column[column], 2)]

    def constant(self) -> list[str]:
        """Nodes that never vary."""
        ends = {name: pc.min_max(self.nodes[name]).as_py() for name in self.nodes.column_names}
        return [name for name, both in ends.items() if both["min"] == both["max"]]

    def edges(self, pairs: Iterable[str]) -> list[tuple[str, str]]:
        """CAUSE:EFFECT, by nodes or by columns of the file, as pairs of nodes.

        Raises:
            ProblemError: it names the pair.
        """
        found = []
        for pair in pairs:
            ends = [
                (self._nodes(pair[: colon.start()]), self._nodes(pair[colon.end() :]))
                for colon in re.finditer(":", pair)
            ]
            known = [(causes, effects) for causes, effects in ends if causes and effects]
            if not known:
                raise ProblemError(f"{pair!r} is not CAUSE:EFFECT with two column names")
            causes, effects = known[0]
            found += [(cause, effect) for cause in causes for effect in effects]
        return found

    def tiers(self, tiers: Iterable[str]) -> list[list[str]]:
        """Each a comma-separated list of columns or nodes, as lists of nodes.

        Raises:
            ProblemError: it names the unknown column.
        """
        found = []
        for tier in tiers:
            names = [name for name in tier.split(",") if name]
            unknown = [name for name in names if not self._nodes(name)]
            if unknown:
                raise ProblemError(f"--tier {tier!r}: no column {unknown[0]!r}")
            found.append([node for name in names for node in self._nodes(name)])
        return found

    def _nodes(self, name: str) -> list[str]:
        return self.of_column.get(name) or [name] * (name in self.nodes.column_names)


def read(
    path: Path,
    columns: Sequence[str] = (),
    leave_out: Sequence[str] = (),
    one_hot: Sequence[str] = (),
) -> Coded:
    """Read a Parquet or CSV file and code it.

    The delimiter of a CSV file is found in its header as the monitor finds it; a decimal comma by
    columns in which every number has one or is whole.

    Args:
        path: .parquet, .csv or .csv.gz.
        columns: to be fitted; all by default.
        leave_out: not to be fitted.
        one_hot: one node per value, whatever the type. Columns that the file itself declares to be
            categories (dictionaries) are coded so without being named.

    Raises:
        ProblemError: what is wrong, with the column's name and the cure.
    """
    data, notes = _read(path)
    names = data.column_names
    for name in (*columns, *leave_out, *one_hot):
        if name not in names:
            raise ProblemError(f"no column {name!r} in {path}: {', '.join(names)}")
    wanted = [name for name in (columns or names) if name not in leave_out]
    unique([name for name in names if name in wanted], f"{path}: ")
    refused: list[tuple[str, pa.ChunkedArray]] = []
    nodes: dict[str, pa.ChunkedArray] = {}
    of_column: dict[str, list[str]] = {}
    for name in wanted:
        column = data[name]
        if column.null_count:
            raise ProblemError(
                f"column {name!r} misses {column.null_count} values: fill or drop the rows, or "
                f"--leave-out {name!r}"
            )
        if name in one_hot or pa.types.is_dictionary(column.type):
            coded = _one_hot(name, column)
        elif _is_number(column.type):
            coded = {name: _floats(column)}
        else:
            refused.append((name, column))
            continue
        unique([*nodes, *coded])
        nodes.update(coded)
        of_column[name] = list(coded)
    if refused:
        raise ProblemError(_refusal(refused))
    if not nodes:
        raise ProblemError(f"{path} has no column to fit")
    left_out = [name for name in names if name not in wanted]
    return Coded(pa.table(nodes), of_column, left_out, notes)


def _read(path: Path) -> tuple[pa.Table, list[str]]:
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            return pq.ParquetFile(path).read(), []
        if path.name.endswith((".csv", ".csv.gz")):
            return _read_csv(path)
    except pa.ArrowInvalid as error:
        raise ProblemError(f"{path}: {error}") from None
    raise ProblemError(f"{path}: a table must be .parquet, .csv or .csv.gz")


def _read_csv(path: Path) -> tuple[pa.Table, list[str]]:
    from pyarrow.csv import ConvertOptions, ParseOptions, read_csv

    with pa.input_stream(str(path)) as stream:
        head = stream.read(_MAX_HEADER_BYTES)
    try:
        header = head.lstrip(b"\r\n").split(b"\n", 1)[0].decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ProblemError(f"{path}: the header is not UTF-8; convert the file") from None
    delimiter = max(DELIMITERS, key=header.count)
    parse = ParseOptions(delimiter=delimiter, newlines_in_values=True)
    data = read_csv(path, parse_options=parse)
    notes = [] if delimiter == "," else [f"columns parted by {_shown(delimiter)}"]
    if delimiter != "," and any(_has_decimal_commas(column) for column in data.columns):
        data = read_csv(
            path, parse_options=parse, convert_options=ConvertOptions(decimal_point=",")
        )
        notes.append("decimal commas")
    return data, notes


def _shown(delimiter: str) -> str:
    return {"\t": "tabs"}.get(delimiter, f"`{delimiter}`")


def _has_decimal_commas(column: pa.ChunkedArray) -> bool:
    if not _is_text(column.type):
        return False
    there = column.drop_null()
    fits = pc.match_substring_regex(there, DECIMAL_COMMA)
    return bool(
        len(there) and pc.all(fits).as_py() and pc.any(pc.match_substring(there, ",")).as_py()
    )


def _one_hot(name: str, column: pa.ChunkedArray) -> dict[str, pa.Array]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    words = column.cast(pa.string())
    values = sorted(words.unique().to_pylist())
    if len(values) > MAX_VALUES:
        raise ProblemError(
            f"column {name!r} holds {len(values):,} values, more than {MAX_VALUES}: group them, or "
            f"--leave-out {name!r}"
        )
    return {f"{name}={value}": _floats(pc.equal(words, value)) for value in values}


def _floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return column.cast(pa.float64(), safe=False)


def _refusal(refused: list[tuple[str, pa.ChunkedArray]]) -> str:
    told = []
    for name, column in refused:
        kind = str(column.type)
        if _is_text(column.type):
            kind = f"text, {pc.count_distinct(column).as_py():,} different"
        told.append(f"`{name}` ({kind})")
    return (
        f"column{'s' * (len(refused) > 1)} {', '.join(told)}: no numbers. --one-hot NAME makes a "
        "node of each value, --leave-out NAME leaves a column out"
    )


def _is_number(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
    )


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


__all__ = ["Coded", "read"]

"""Cells of any column type as text, number or flag; what resists is told apart, never guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_NO_NUMBER = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "\\N")
"""Ways to write "no number"; as an attribute's value, NA stays Namibia."""

_TRUE = ("true", "t", "yes", "y", "1")
_FALSE = ("false", "f", "no", "n", "0")


class WrongType(Exception):  # noqa: N818 - it is caught and explained by the decoder
    """A whole column that cannot be read as asked; the text is the type it has."""


def describe(cell: pa.Scalar) -> tuple[bytes, str]:
    """The first bytes of a cell, raw and for people."""
    if not cell.is_valid:
        return b"", "nothing"
    readings: list[Callable[[], Any]] = [
        cell.as_py,
        lambda: cell.cast(pa.binary()).as_py(),  # broken UTF-8
        lambda: cell.cast(pa.int64()).as_py(),  # a moment beyond Python's calendar
    ]
    value: Any = str(cell.type)
    for reading in readings:
        try:
            value = reading()
            break
        except (pa.ArrowException, ValueError, OverflowError):
            continue
    raw = value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
    shown = raw[:60].decode("utf-8", "replace")
    return raw[:200], f"`{shown}`" + (" …" if len(raw) > 60 else "")


def texts(values: pa.Array) -> tuple[list[str | None], np.ndarray]:
    """Python strings of (distinct) values, and the indices of those that have none.

    Whole floats are written without their point: a missing value elsewhere in a column of numbers
    must not turn agent 6 into agent 6.0. Blank text is missing.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return texts(values.dictionary_decode())
    if pa.types.is_null(kind):
        return [None] * len(values), np.empty(0, int)
    if pa.types.is_nested(kind):
        return [None] * len(values), np.flatnonzero(_valid(values))
    if pa.types.is_floating(kind):
        return [_float_text(v) for v in values.cast(pa.float64()).to_pylist()], np.empty(0, int)
    if pa.types.is_boolean(kind):
        return [None if v is None else str(v).lower() for v in values.to_pylist()], np.empty(0, int)
    if not _is_text(kind):
        values = values.cast(pa.string())
    try:
        words: list[str | None] = values.cast(pa.string()).to_pylist()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return _decoded(values.cast(pa.large_binary()).to_pylist())
    return [(w if w and not w.isspace() else None) for w in words], np.empty(0, int)


def _decoded(values: list[bytes | None]) -> tuple[list[str | None], np.ndarray]:
    words: list[str | None] = []
    broken = []
    for i, value in enumerate(values):
        try:
            words.append((value or b"").decode("utf-8") or None)
        except UnicodeDecodeError:
            words.append(None)
            broken.append(i)
    return words, np.array(broken, int)


def _float_text(value: float | None) -> str | None:
    if value is None or value != value:
        return None
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(value)


def numbers(column: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
    """A column as float64 with NaN as null, and the mask of cells that are not numbers."""
    column = plain(column)
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.float64()), None
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).cast(pa.float64()), None
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _nan_is_null(column.cast(pa.float64(), safe=False)), None
    if not _is_text(kind):
        raise WrongType(f"of type {kind}")
    words, wrong = strings(column)
    try:
        return _nan_is_null(words.cast(pa.float64())), wrong
    except pa.ArrowInvalid:
        pass
    good = pc.fill_null(pc.match_substring_regex(words, _NUMBER), False)
    nothing = pc.is_in(pc.utf8_trim_whitespace(words), value_set=pa.array(_NO_NUMBER))
    bad = _valid(words) & ~mask(good) & ~mask(nothing)
    if wrong is not None:
        bad |= wrong
    cells = pc.utf8_trim_whitespace(pc.if_else(good, words, pa.scalar(None, pa.string())))
    cells = pc.utf8_ltrim(cells, "+")
    return cells.cast(pa.float64()), bad if bad.any() else None


def words(column: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
    """A column as text, empty being missing, and the mask of cells that are not UTF-8."""
    if pa.types.is_nested(column.type):
        raise WrongType(f"of type {column.type}")
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values, broken = texts(encoded.dictionary)
    indices = encoded.indices
    wrong = None
    if len(broken):
        lookup = np.zeros(len(values) + 1, bool)
        lookup[broken] = True
        wrong = lookup[indices.cast(pa.int32()).fill_null(len(values)).to_numpy()]
    return pa.array(values, pa.string()).take(indices), wrong


def flags(column: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
    """A column as bool (numbers: not zero), and the mask of cells that are neither."""
    column = plain(column)
    if pa.types.is_boolean(column.type):
        return column, None
    if not _is_text(column.type):
        cells, wrong = numbers(column)
        return pc.not_equal(cells, 0.0), wrong
    words, wrong = strings(column)
    words = pc.utf8_lower(pc.utf8_trim_whitespace(words))
    true = pc.is_in(words, value_set=pa.array(_TRUE))
    known = pc.or_(true, pc.is_in(words, value_set=pa.array([*_FALSE, *_NO_NUMBER, "nan", "na"])))
    bad = _valid(words) & ~mask(known)
    if wrong is not None:
        bad |= wrong
    empty = pc.or_(pc.equal(words, ""), pc.invert(known))
    return pc.if_else(empty, pa.scalar(None, pa.bool_()), true), bad if bad.any() else None


def strings(column: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
    """A text or binary column as valid UTF-8, and the mask of cells that are not."""
    column = plain(column)
    try:
        # Straight from text to text Arrow would not look; by way of binary it checks every byte.
        return column.cast(pa.binary()).cast(pa.string()), None
    except pa.ArrowInvalid:
        words, broken = texts(column.cast(pa.binary()))
        wrong = np.zeros(len(column), bool)
        wrong[broken] = True
        return pa.array(words, pa.string()), wrong


def plain(column: pa.Array) -> pa.Array:
    """The column without dictionary encoding."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def mask(column: pa.Array) -> np.ndarray:
    """A bool column without nulls as numpy."""
    return np.asarray(column.to_numpy(zero_copy_only=False), bool)


def _valid(column: pa.Array) -> np.ndarray:
    return mask(column.is_valid())


def _nan_is_null(column: pa.Array) -> pa.Array:
    if not pc.any(pc.is_nan(column)).as_py():
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    more = (pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_string_view)
    return any(test(kind) for test in (*tests, *more))

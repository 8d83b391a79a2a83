"""Cells of any column type as text, number or flag; what resists is told apart, never guessed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.config import MISSING_WORDS, CellDefinition
from monitor.domain import whole_number

PLAIN = CellDefinition()
"""How cells are written when nobody says so."""

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_GROUPED = {
    ".": r"^[+-]?[1-9]\d{0,2}([,'’ \x{a0}\x{202f}]\d{3})+(\.\d*)?$",
    ",": r"^[+-]?([1-9]\d{0,2}([.'’ \x{a0}\x{202f}]\d{3})+|\d+)(,\d*)?$",
}
"""Numbers with groups of thousands, by the decimal mark that the configuration names."""

_NO_NUMBER = pa.array(sorted({*MISSING_WORDS, "", "na"}))
"""Ways to write "no number"; as an attribute's value, NA stays Namibia."""

_TRUE = ("true", "t", "yes", "y", "on")
_FALSE = ("false", "f", "no", "n", "off")

_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, and marks that turn the direction of writing."""


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
    shown = harmless(raw[:60].decode("utf-8", "replace"))
    return raw[:200], f"`{shown}`" + (" …" if len(raw) > 60 else "")


def harmless(text: str) -> str:
    """`text` with what could steer a terminal or a page written out.

    >>> harmless("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    if text.isascii() and text.isprintable():
        return text
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def texts(values: pa.Array) -> tuple[list[str | None], np.ndarray]:
    """Python strings of (distinct) values, and the indices of those that have none.

    Whole numbers are written without their point, also where they are text: a missing value
    elsewhere in a column of numbers must not turn agent 6 into agent 6.0. Blank text is missing.
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
    if not is_text(kind):
        values = values.cast(pa.string())
    try:
        words: list[str | None] = values.cast(pa.string()).to_pylist()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return _decoded(values.cast(pa.large_binary()).to_pylist())
    return [_value(word) for word in words], np.empty(0, int)


def _value(word: str | None) -> str | None:
    return whole_number(word) if word and not word.isspace() else None


def _decoded(values: list[bytes | None]) -> tuple[list[str | None], np.ndarray]:
    words: list[str | None] = []
    broken = []
    for i, value in enumerate(values):
        try:
            words.append(_value((value or b"").decode("utf-8")))
        except UnicodeDecodeError:
            words.append(None)
            broken.append(i)
    return words, np.array(broken, int)


def _float_text(value: float | None) -> str | None:
    if value is None or value != value:
        return None
    return str(int(value)) if abs(value) < 2**63 and value == int(value) else repr(value)


def numbers(
    column: pa.Array, written: CellDefinition = PLAIN
) -> tuple[pa.Array, np.ndarray | None]:
    """A column as float64 with NaN as null, and the mask of cells that are not numbers."""
    column = plain(column)
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.float64()), None
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).cast(pa.float64()), None
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _nan_is_null(column.cast(pa.float64(), safe=False)), None
    if not is_text(kind):
        raise WrongType(f"of type {kind}")
    words, wrong = strings(column)
    if written.decimal != ",":
        try:
            return _nan_is_null(words.cast(pa.float64())), wrong
        except pa.ArrowInvalid:
            pass
    words = pc.utf8_trim_whitespace(words)
    cells, bad = _text_numbers(words, written)
    bad &= ~mask(pc.is_in(pc.utf8_lower(words), value_set=_missing(written)))
    if wrong is not None:
        bad |= wrong
    return cells, bad if bad.any() else None


def _text_numbers(words: pa.Array, written: CellDefinition) -> tuple[pa.Array, np.ndarray]:
    """Trimmed text as numbers, and the mask of filled cells that are none."""
    good = mask(pc.fill_null(pc.match_substring_regex(words, _NUMBER), False))
    if written.decimal == ",":  # 1.234 is a thousand and more, 0.5 is not written so
        good &= mask(pc.fill_null(pc.match_substring_regex(words, r"^[^.]*$"), False))
    if written.decimal is not None and not (good | ~_valid(words)).all():
        grouped = pc.fill_null(pc.match_substring_regex(words, _GROUPED[written.decimal]), False)
        others = ".,".replace(written.decimal, "")
        ungrouped = pc.replace_substring_regex(words, rf"[{others}'’ \x{{a0}}\x{{202f}}]", "")
        ungrouped = pc.replace_substring(ungrouped, ",", ".")
        words = pc.if_else(grouped, ungrouped, words)
        good |= mask(grouped)
    bad = _valid(words) & ~good
    cells = pc.if_else(pa.array(good), words, pa.scalar(None, pa.string()))
    return pc.utf8_ltrim(cells, "+").cast(pa.float64()), bad


def comma_cure(cells: pa.Array) -> str | None:
    """What to write if the first of these cells is a number with a comma."""
    shown = describe(cells[0])[1].strip("`")
    if not re.fullmatch(r"[+-]?\d[\d., '’]*", shown) or "," not in shown:
        return None
    mark = "," if shown.rfind(",") > shown.rfind(".") else "."
    return f'if it is a number, say decimal = "{mark}" in [schema]'


def texts_present(values: list[str | None], written: CellDefinition = PLAIN) -> list[str | None]:
    """(Distinct) values, None for those that are a word for none."""
    missing = frozenset(written.missing)
    return [
        None if word is not None and word.strip().casefold() in missing else word for word in values
    ]


def words(column: pa.Array, written: CellDefinition = PLAIN) -> tuple[pa.Array, np.ndarray | None]:
    """A column as text, words for none being missing, and the mask of cells that are not UTF-8."""
    return _words(column, lambda values: texts_present(values, written))


def written_words(
    column: pa.Array, written: CellDefinition = PLAIN
) -> tuple[pa.Array, np.ndarray | None]:
    """A column as the text that it is, blank being missing, and the mask as of `words`."""
    return _words(column, lambda values: values)


def _words(
    column: pa.Array, present: Callable[[list[str | None]], list[str | None]]
) -> tuple[pa.Array, np.ndarray | None]:
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
    return pa.array(present(values), pa.string()).take(indices), wrong


def flags(column: pa.Array, written: CellDefinition = PLAIN) -> tuple[pa.Array, np.ndarray | None]:
    """A column as bool (numbers: not zero), and the mask of cells that are neither."""
    column = plain(column)
    if pa.types.is_boolean(column.type):
        return column, None
    if not is_text(column.type):
        cells, wrong = numbers(column)
        return pc.not_equal(cells, 0.0), wrong
    words, wrong = strings(column)
    words = pc.utf8_lower(pc.utf8_trim_whitespace(words))
    true = pc.is_in(words, value_set=pa.array(_TRUE))
    named = pc.or_(true, pc.is_in(words, value_set=pa.array(_FALSE)))
    none = pc.is_in(words, value_set=_missing(written))
    nothing = pa.scalar(None, pa.string())
    amounts, bad = _text_numbers(pc.if_else(pc.or_(named, none), nothing, words), written)
    if wrong is not None:
        bad |= wrong
    answer = pc.if_else(named, true, pc.not_equal(amounts, 0.0))
    return answer, bad if bad.any() else None


def _missing(written: CellDefinition) -> pa.Array:
    """Words that stand for no number: ours, and those of the configuration."""
    return pa.concat_arrays([_NO_NUMBER, pa.array(sorted(written.missing), pa.string())])


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


def is_text(kind: pa.DataType) -> bool:
    """Text or bytes."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    more = (pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_string_view)
    return any(test(kind) for test in (*tests, *more))

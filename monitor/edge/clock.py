"""Event times, however the log writes them, as UTC."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.config import TimeDefinition
from monitor.config.time_formats import parse_format
from monitor.edge.cells import WrongType, is_text, mask, numbers, plain, strings
from monitor.edge.source import SourceError

if TYPE_CHECKING:
    from monitor.edge.decoding import Complaints

UTC = pa.timestamp("us", "UTC")
NAIVE = pa.timestamp("us")

EARLIEST = np.datetime64("1970-01-01T00:00:01", "us")
"""Anything before is a field nobody filled in (0, 0001-01-01), not a time."""

LATEST = np.datetime64("9999-01-01", "us")
"""Beyond, arithmetic on times would overflow. The far future below it is the slicer's to judge."""

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SHAPE = (
    r"^\s*\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    r"([Tt ]([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d([.,]\d+)?)?)?"
    r"\s*([Zz]|UTC|GMT|UT|[+-]\d\d:?(\d\d)?)?)?\s*$"
)
_ZONED = r"[T ]\d\d.*(Z|[+-]\d\d:?(\d\d)?)\s*$"
_DIGITS = r"^\s*\d{9,20}(\.\d+)?\s*$"
_ENDS_IN_A_NAME = r"\d\s*[A-Z]{2,5}\s*$"

_NOT_BEFORE = 315_532_800
"""1980, in seconds: a number of ms, us or ns that lies before it counts another unit."""

_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def event_times(
    rows: pa.RecordBatch, definition: TimeDefinition, complaints: Complaints
) -> np.ndarray:
    """(n,) datetime64[us] in UTC; rows without a usable time are complained of.

    Raises:
        SourceError: the column carries no zone or no unit and the configuration has none either.
    """
    column = rows.column(definition.column)
    if definition.clock is not None:
        times, wrong = _date_and_clock(rows, definition)
    else:
        times, wrong = _column(column, definition)
    at: np.ndarray = times.cast(pa.int64()).fill_null(0).to_numpy().view("datetime64[us]")
    missing = ~mask(times.is_valid()) | wrong
    outside = (at < EARLIEST) | (at > LATEST)
    if definition.unit in ("ms", "us", "ns"):
        outside |= at < np.datetime64(_NOT_BEFORE, "s")
    outside &= ~missing
    if (missing | outside).any():
        _complain(rows, definition, missing, outside, complaints)
    return at


def _complain(
    rows: pa.RecordBatch,
    definition: TimeDefinition,
    missing: np.ndarray,
    outside: np.ndarray,
    complaints: Complaints,
) -> None:
    """Say of every row without a usable time what is wrong with it."""
    shown = rows.column(definition.columns[-1])
    if definition.clock is not None:
        names = f"column `{definition.column}` with `{definition.clock}`"
        detail = f"{names} holds no time, so the row is left out; mend the log or `schema.time`"
        complaints.add("bad_time", detail, missing, shown)
    else:
        for rows_so, detail in _reasons(plain(shown), definition, missing, outside):
            full = f"column `{definition.column}` {detail}"
            complaints.add("bad_time", full, rows_so, shown)
    complaints.add(
        "bad_time",
        f"column `{definition.column}` lies before 1970 or after 9998, so the row is left out; "
        "mend the log or `schema.time`",
        outside,
        shown,
    )
    complaints.add(
        "bad_time",
        f"column `{definition.column}` holds no time that is understood, so the row is left out; "
        + _wanted(definition),
        missing,
        shown,
    )


def _wanted(definition: TimeDefinition) -> str:
    if definition.unit is not None:
        return f"{_UNITS[definition.unit]} since 1970 are awaited; mend the log or `schema.time`"
    if definition.format is not None:
        return f"it does not follow `{definition.format}`; mend the log or `schema.time.format`"
    return "write ISO 8601, or say how it is written: `format` or `unit` in `schema.time`"


def _reasons(
    column: pa.Array, definition: TimeDefinition, missing: np.ndarray, outside: np.ndarray
) -> Iterator[tuple[np.ndarray, str]]:
    """Masks of rows among the bad ones whose fault is known, with what to do about it."""
    bad = missing | outside
    try:
        words = strings(column if is_text(column.type) else column.cast(pa.string()))[0]
    except (pa.ArrowException, WrongType):
        return
    words = pc.utf8_trim_whitespace(words)

    def like(pattern: str) -> np.ndarray:
        found: np.ndarray = bad & mask(
            pc.fill_null(pc.match_substring_regex(words, pattern), False)
        )
        return found

    yield (
        bad & mask(pc.fill_null(pc.equal(words, ""), True)),
        ("holds no time: it is empty, so the row is left out; mend the log or `schema.time`"),
    )
    if definition.format is None:
        digits = like(_DIGITS)
        known = digits.nonzero()[0]
        lengths = np.array([len(words[i].as_py().partition(".")[0]) for i in known.tolist()], int)
        for unit, low, high in (("s", 9, 10), ("ms", 12, 13), ("us", 15, 16), ("ns", 18, 19)):
            if unit == definition.unit:
                continue
            rows = np.zeros(len(bad), bool)
            rows[known[(lengths >= low) & (lengths <= high)]] = True
            given = f"not {_UNITS[definition.unit]}; say" if definition.unit else "but no unit; say"
            yield rows, f'looks like {_UNITS[unit]}, {given} unit = "{unit}" in [schema]'
        if definition.unit is None:
            yield digits, 'is a number; say what it counts: unit = "s" (or "ms", "us", "ns")'
    if definition.format is not None and "%p" not in definition.format:
        yield (
            like(r"(?i)\d\s*[ap]\.?m\.?\s*$"),
            "ends in AM or PM: write %I for the hour and %p behind the time in `format`",
        )
    shaped = like(_SHAPE)
    if definition.unit is not None:
        yield shaped, "is written out, no number; leave `unit` out of [schema]"
    elif definition.format is not None:
        yield (
            shaped,
            (
                f'does not follow format = "{definition.format}"; it is ISO 8601, '
                "which is read when `format` is left out"
            ),
        )
    elif definition.zone is None:
        zoned = like(_ZONED) | like(r"(z|UTC|GMT|UT)$")
        yield (
            shaped & ~zoned,
            (
                'carries no zone, as others do; add zone = "UTC" (or the zone of the log, such as '
                '"Europe/Lisbon") to [schema]'
            ),
        )
    if definition.unit is None and definition.format is None and is_text(column.type):
        yield (
            shaped & missing,
            "holds no time: there is no such day, so the row is left out; mend the log",
        )
    if definition.unit is None:
        named = like(_ENDS_IN_A_NAME) & ~like(r"(UTC|GMT|UT|AM|PM)$")
        yield (
            named,
            (
                "ends in the name of a zone that is not the same everywhere; write an offset "
                "such as +02:00, or UTC"
            ),
        )


def _column(column: pa.Array, definition: TimeDefinition) -> tuple[pa.Array, np.ndarray]:
    """UTC times (null where there is none) and the mask of cells that are wrong."""
    column = plain(column)
    kind, name = column.type, definition.column
    none_wrong = np.zeros(len(column), bool)
    if pa.types.is_null(kind):
        return pa.nulls(len(column), UTC), none_wrong
    if pa.types.is_timestamp(kind):
        bounded, wrong = _microseconds(column.cast(pa.int64()), _PER_SECOND[kind.unit])
        if kind.tz is not None:
            return bounded.cast(UTC), wrong
        return _localize(bounded.cast(NAIVE), definition), wrong
    if pa.types.is_date(kind):
        days = column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
        bounded, wrong = _microseconds(pc.multiply(days, 86_400), 1)
        return _localize(bounded.cast(NAIVE), definition), wrong
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _epoch(column, definition)
    if pa.types.is_boolean(kind) or pa.types.is_nested(kind) or pa.types.is_time(kind):
        raise SourceError(f"column `{name}` is of type {kind}, which is no time; see `schema.time`")
    try:
        words, broken = strings(column)
    except (pa.ArrowException, WrongType):
        raise SourceError(f"column `{name}` is of type {kind}, which is no time") from None
    wrong = none_wrong if broken is None else broken
    if definition.unit is not None:
        with contextlib.suppress(pa.ArrowInvalid):  # as float64, nanoseconds would be rounded
            whole, outside = _epoch(words.cast(pa.int64()), definition)
            return whole, outside | wrong
        cells, bad = numbers(words)
        times, outside = _epoch(cells, definition)
        return times, outside | wrong | (none_wrong if bad is None else bad)
    if definition.format is not None:
        return _formatted(words, definition), wrong
    return _iso(words, definition), wrong


def _microseconds(counts: pa.Array, per_second: int) -> tuple[pa.Array, np.ndarray]:
    """Counts of a unit as int64 microseconds; those beyond all calendars become null and wrong."""
    limit = 253_402_300_800 * per_second  # year 10000
    values = counts.fill_null(0).to_numpy()
    wrong = (values > limit) | (values < -limit)
    valid = mask(counts.is_valid()) & ~wrong
    # Python's floor division of seconds before 1970 is what the calendar wants too.
    factor = 1_000_000 // per_second
    scaled = np.where(valid, values, 0)
    scaled = scaled * factor if factor else scaled // (per_second // 1_000_000)
    return pa.array(scaled, pa.int64(), mask=~valid), wrong


def _epoch(column: pa.Array, definition: TimeDefinition) -> tuple[pa.Array, np.ndarray]:
    if definition.unit is None:
        raise SourceError(
            f"column `{definition.column}` holds numbers; say what they count: "
            'unit = "s" (or "ms", "us", "ns") in `schema.time`'
        )
    per_second = _PER_SECOND[definition.unit]
    if pa.types.is_signed_integer(column.type):
        times, wrong = _microseconds(column.cast(pa.int64()), per_second)
        return times.cast(UTC), wrong
    cells, _ = numbers(column)
    seconds = cells.fill_null(0.0).to_numpy() / per_second
    wrong = ~(np.abs(seconds) < 253_402_300_800)
    valid = mask(cells.is_valid()) & ~wrong
    micros = np.rint(np.where(valid, seconds, 0.0) * 1e6).astype(np.int64)
    return pa.array(micros, pa.int64(), mask=~valid).cast(UTC), wrong


def _localize(naive: pa.Array, definition: TimeDefinition) -> pa.Array:
    """Wall clock → UTC. A time that occurs twice is its first; one that is skipped, the jump."""
    if definition.zone is None:
        raise SourceError(
            f"column `{definition.column}` carries no time zone and the configuration gives none; "
            'add zone = "UTC" (or the zone of the log, such as "Europe/Lisbon") to [schema]'
        )
    try:
        return pc.assume_timezone(
            naive, definition.zone, ambiguous="earliest", nonexistent="latest"
        ).cast(UTC)
    except pa.ArrowInvalid as error:
        raise SourceError(
            f"time zone {definition.zone!r} cannot be used ({error}); "
            "install the system's time zone database (package tzdata)"
        ) from None


def _iso(words: pa.Array, definition: TimeDefinition) -> pa.Array:
    """ISO 8601 text; null where it is none."""
    for kind in (UTC, NAIVE):
        try:
            times = words.cast(kind)
        except pa.ArrowInvalid:
            continue
        return times if kind is UTC else _localize(times, definition)
    shaped = pc.fill_null(pc.match_substring_regex(words, _SHAPE), False)
    tidy = pc.utf8_trim_whitespace(pc.if_else(shaped, words, pa.scalar(None, pa.string())))
    tidy = pc.replace_substring_regex(tidy, r",(\d)", r".\1")
    tidy = pc.replace_substring_regex(tidy, r"(\.\d{6})\d+", r"\1")
    tidy = pc.replace_substring_regex(tidy, r"\s*([Zz]|UTC|GMT|UT)$", "Z")
    tidy = pc.replace_substring_regex(tidy, r"\s+([+-][\d:]*)$", r"\1")
    tidy = pc.replace_substring(tidy, "t", "T")
    zoned = pc.fill_null(pc.match_substring_regex(tidy, _ZONED), False)
    nothing = pa.scalar(None, pa.string())
    with_zone = _cast_each(pc.if_else(zoned, tidy, nothing), UTC)
    without = pc.if_else(zoned, nothing, tidy)
    if without.null_count == len(without):
        return with_zone
    if definition.zone is None and with_zone.null_count < len(with_zone):
        return with_zone  # a few stragglers without zone are bad rows, not a bad configuration
    return pc.coalesce(with_zone, _localize(_cast_each(without, NAIVE), definition))


def _formatted(words: pa.Array, definition: TimeDefinition) -> pa.Array:
    """Text in the configured format; null where it is in another."""
    assert definition.format is not None
    form = parse_format(definition.format)
    parts = pc.extract_regex(words, form.pattern)
    groups = {field.name: pc.struct_field(parts, field.name) for field in parts.type}
    heads = [groups[name] for name in "abc" if name in groups]
    read = pc.binary_join_element_wise(*heads, "") if len(heads) > 1 else heads[0]
    times = pc.strptime(read, format=form.text, unit="us", error_is_null=True).cast(pa.int64())
    if "f" in groups:
        fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(groups["f"], 6, "0"), 0, 6)
        times = pc.add(times, fraction.cast(pa.int64()))
    if not form.zoned:
        return _localize(times.cast(NAIVE), definition)
    zone = pc.replace_substring_regex(groups["z"], r"^([Zz]|UTC|GMT|UT)$", "+0000")
    zone = pc.utf8_rpad(pc.replace_substring(zone, ":", ""), 5, "0")
    hours = pc.utf8_slice_codeunits(zone, 0, 3)
    minutes = pc.utf8_slice_codeunits(zone, 3, 5)
    minutes = pc.add(
        pc.multiply(pc.utf8_ltrim(hours, "+").cast(pa.int64()), 60),
        pc.multiply(minutes.cast(pa.int64()), pc.if_else(pc.starts_with(zone, "-"), -1, 1)),
    )
    return pc.subtract(times, pc.multiply(minutes, 60_000_000)).cast(UTC)


def _cast_each(words: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast what can be cast; halve until the impossible (30 February) stands alone as null."""
    try:
        return words.cast(kind)
    except pa.ArrowInvalid:
        if len(words) == 1:
            return pa.nulls(1, kind)
        half = len(words) // 2
        return pa.concat_arrays([_cast_each(words[:half], kind), _cast_each(words[half:], kind)])


def _date_and_clock(
    rows: pa.RecordBatch, definition: TimeDefinition
) -> tuple[pa.Array, np.ndarray]:
    assert definition.clock is not None
    days, wrong = _dates(plain(rows.column(definition.column)), definition.column)
    seconds, bad = _clock_seconds(plain(rows.column(definition.clock)), definition)
    micros = pc.multiply(pc.add(pc.multiply(days, 86_400), seconds), 1_000_000)
    return _localize(micros.cast(NAIVE), definition), wrong | bad


def _dates(column: pa.Array, name: str) -> tuple[pa.Array, np.ndarray]:
    """Days since 1970 as int64."""
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        days = column.cast(pa.date32(), safe=False)
        wrong = np.zeros(len(column), bool)
    elif pa.types.is_null(kind):
        return pa.nulls(len(column), pa.int64()), np.zeros(len(column), bool)
    elif pa.types.is_nested(kind) or pa.types.is_boolean(kind):
        raise SourceError(f"column `{name}` is of type {kind}, which is no date")
    elif pa.types.is_integer(kind):
        return _dates(_compact_dates(column.cast(pa.string())), name)
    else:
        words, broken = strings(column)
        wrong = np.zeros(len(column), bool) if broken is None else broken
        try:
            days = words.cast(pa.date32())
        except pa.ArrowInvalid:
            shaped = pc.fill_null(pc.match_substring_regex(words, _SHAPE), False)
            tidy = pc.utf8_slice_codeunits(pc.utf8_trim_whitespace(words), 0, 10)
            tidy = pc.if_else(shaped, tidy, pa.scalar(None, pa.string()))
            days = _cast_each(tidy, pa.date32())
    counts = days.cast(pa.int32()).cast(pa.int64())
    # Days beyond all calendars must not overflow once they are microseconds.
    values = counts.fill_null(0).to_numpy()
    outside = np.abs(values) > 2_932_896
    kept = pa.array(np.where(outside, 0, values), mask=outside | ~mask(counts.is_valid()))
    return kept, wrong | outside


def _compact_dates(words: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(words, r"^(\d{4})(\d\d)(\d\d)$", r"\1-\2-\3")


def _clock_seconds(column: pa.Array, definition: TimeDefinition) -> tuple[pa.Array, np.ndarray]:
    """Seconds since midnight as int64; 24:00 is the midnight that follows."""
    kind = column.type
    none_wrong = np.zeros(len(column), bool)
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.int64()), none_wrong
    if pa.types.is_time(kind):
        return column.cast(pa.time32("s"), safe=False).cast(pa.int32()).cast(pa.int64()), none_wrong
    if definition.format == "HH:MM":
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            raise SourceError(
                f"column `{definition.clock}` holds numbers; if 515 means 05:15, "
                'write format = "HHMM" in `schema.time`'
            )
        words, broken = strings(column)
        pattern = r"^\s*(?P<h>\d{1,2}):(?P<m>\d\d)(?::(?P<s>\d\d)(?:\.\d+)?)?\s*$"
        parts = pc.extract_regex(words, pattern)
        hours, minutes, seconds = (pc.struct_field(parts, name) for name in ("h", "m", "s"))
        seconds = pc.if_else(pc.equal(seconds, ""), "0", seconds)
        amounts = [part.cast(pa.int64()) for part in (hours, minutes, seconds)]
    else:
        cells, broken = numbers(column)
        clock = cells.fill_null(-1.0).to_numpy()
        clock = np.where((clock == np.floor(clock)) & (np.abs(clock) < 10_000), clock, -1.0)
        whole = pa.array(clock.astype(np.int64), mask=clock < 0)
        hours = pc.divide(whole, 100)
        amounts = [hours, pc.subtract(whole, pc.multiply(hours, 100)), pa.scalar(0)]
    hours, minutes, seconds = amounts
    total = pc.add(pc.add(pc.multiply(hours, 3600), pc.multiply(minutes, 60)), seconds)
    fits = pc.and_(
        pc.less(minutes, 60), pc.and_(pc.less(seconds, 60), pc.less_equal(total, 86_400))
    )
    total = pc.if_else(fits, total, pa.scalar(None, pa.int64()))
    return total, none_wrong if broken is None else broken

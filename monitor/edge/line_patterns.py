"""Logs whose lines follow a pattern: those of web servers, or a regular expression of one's own.

The expressions are RE2's, which Arrow matches column by column: no line, however made, can make
one of them hang.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.edge.blocks import Block, Log, State, whole_lines
from monitor.edge.cells import mask
from monitor.edge.readers import Chunk, Rejects, left_out, no_rows

MAX_LINE_BYTES = 1 << 16
"""A longer line is not matched but told of."""

_QUOTED = r'(?:[^"\\]|\\.)*'
_COMMON = (
    r"^(?P<host>\S+) (?P<ident>\S+) (?P<user>.*?) \[(?P<time>[^\]]*)\] "
    rf'"(?P<request>(?P<method>[A-Z]+) (?P<path>\S+)(?: (?P<protocol>[A-Z]+/[\d.]+))?|{_QUOTED})" '
    r"(?P<status>\d{3}|-) (?P<bytes>\d+|-)"
)
PATTERNS = {
    "common": _COMMON + r"(?: .*)?$",
    "combined": _COMMON + rf' "(?P<referer>{_QUOTED})" "(?P<agent>{_QUOTED})"(?: .*)?$',
}
"""As Apache and nginx write them; fields of one's own may follow."""

_TIME = r"^(?P<clock>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d) (?P<sign>[+-])(?P<h>\d\d)(?P<m>\d\d)$"


def web_format(start: bytes) -> str | None:
    """`combined` or `common` if the first line is such a one."""
    line = pa.array([start.lstrip().split(b"\n")[0].rstrip(b"\r")], pa.binary())
    return next(
        (
            kind
            for kind in ("combined", "common")
            if pc.extract_regex(line, PATTERNS[kind])[0].is_valid
        ),
        None,
    )


class PatternReader:
    """One log of lines.

    Args:
        log: its bytes.
        needed: the columns to read.
        pattern: of RE2, with a named group for each column; it must match a whole line.
        web: the columns are those of web servers: ``-`` is missing, `time` a time.
    """

    def __init__(self, log: Log, needed: Collection[str], pattern: str, web: bool = False) -> None:
        self.log, self.pattern, self.web = log, pattern, web
        self.names = names_of(pattern)
        self.needed = sorted(set(needed) & set(self.names))

    def columns(self) -> set[str] | None:
        """The names of the groups."""
        return set(self.names)

    def optional(self) -> bool:
        """Every row has every column."""
        return False

    def chunks(self, state: State, size: int | None = None) -> Iterator[Chunk]:
        """See `Reader`."""
        for block in self.log.blocks(*self.log.stopped(state), whole_lines, size):
            if block.too_long:
                yield left_out(self.log.name, block, self.needed)
            else:
                yield self._matched(block)

    def _matched(self, block: Block) -> Chunk:
        name, rejects = self.log.name, Rejects(self.needed)
        lines = [line.rstrip(b"\r") for line in block.data.split(b"\n")]
        for number, line in enumerate(lines):
            if len(line) > MAX_LINE_BYTES:
                detail = f"line is longer than {MAX_LINE_BYTES >> 10} KiB and was not matched"
                rejects.add("too_long", f"{name}:{block.line + number}", detail, line)
                lines[number] = b""
        filled = np.array([n for n, line in enumerate(lines) if line.strip()], np.int64)
        if not len(filled):
            return Chunk(no_rows(self.needed), str, block.state, rejects.listed())
        texts = pa.array(lines, pa.binary()).take(pa.array(filled))
        found = pc.extract_regex(texts, self.pattern)
        matched = mask(found.is_valid())
        for number in filled[~matched].tolist():
            detail = "line does not match `source.pattern`"
            if self.web:
                detail = "line is not as web servers write it; is `source.format` right?"
            rejects.add("no_match", f"{name}:{block.line + number}", detail, lines[number])
        filled = filled[matched]
        found = found.filter(pa.array(matched))
        columns = {column: self._cells(found.field(column)) for column in self.needed}
        rows = pa.RecordBatch.from_pydict(columns) if columns else no_rows(())
        if self.web and "time" in columns:
            times = _web_times(columns["time"])
            good = mask(times.is_valid())
            for row in np.flatnonzero(~good).tolist():
                detail = "field `time` is no time; it is written as `10/Oct/2000:13:55:36 -0700`"
                where = f"{name}:{block.line + filled[row]}"
                rejects.add("bad_time", where, detail, lines[filled[row]])
            columns["time"] = times
            rows = pa.RecordBatch.from_pydict(columns).filter(pa.array(good))
            filled = filled[good]
        return Chunk(
            rows, lambda row: f"{name}:{block.line + filled[row]}", block.state, rejects.listed()
        )

    def _cells(self, cells: pa.Array) -> pa.Array:
        """A group that took no part is missing."""
        absent = pc.equal(cells, b"")
        if self.web:
            absent = pc.or_(absent, pc.equal(cells, b"-"))
        return pc.if_else(absent, None, cells)


def names_of(pattern: str) -> list[str]:
    """The columns that a pattern names.

    Raises:
        ValueError: it is none, with the reason.
    """
    try:
        found = pc.extract_regex(pa.array([], pa.string()), pattern)
    except pa.ArrowException as error:
        raise ValueError(str(error).removeprefix("Invalid regular expression: ")) from None
    return [field.name for field in found.type]


def whole_line(pattern: str) -> str:
    """The pattern, for whole lines only."""
    return rf"^(?:{pattern})$"


def _web_times(cells: pa.Array) -> pa.Array:
    """``10/Oct/2000:13:55:36 -0700`` as times; null where it is none."""
    parts = pc.extract_regex(pc.cast(cells, pa.string(), safe=False), _TIME)

    def group(name: str) -> pa.Array:
        texts = parts.field(name)
        return pc.if_else(pc.equal(texts, ""), None, texts)

    naive = pc.strptime(group("clock"), format="%d/%b/%Y:%H:%M:%S", unit="us", error_is_null=True)
    minutes = pc.add(pc.multiply(group("h").cast(pa.int64()), 60), group("m").cast(pa.int64()))
    east = pc.if_else(pc.equal(group("sign"), "+"), minutes, pc.negate(minutes))
    micros = pc.subtract(naive.cast(pa.int64()), pc.multiply(east, 60_000_000))
    return micros.cast(pa.timestamp("us", "UTC"))

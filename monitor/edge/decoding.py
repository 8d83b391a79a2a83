"""Columns of a log → Events, whatever file or stream they came from.

Work is done on whole columns; Python objects appear only for distinct values and for rows that
cannot be understood.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.config import CellDefinition, Config
from monitor.domain import MISSING, Events, Rejected
from monitor.edge.cells import (
    WrongType,
    comma_cure,
    describe,
    flags,
    harmless,
    mask,
    numbers,
    texts,
    texts_present,
    words,
    written_words,
)
from monitor.edge.clock import event_times
from monitor.expression import Expression, Kind
from monitor.vocabulary import Vocabulary

LISTED = 20
"""Rejected rows shown one by one, per batch and complaint; the others are counted."""

MAX_VALUE_LENGTH = 256
"""Characters of a value; what is longer is cut, with a digest to keep it apart from its like."""

Locate = Callable[[int], str]
"""Row of a batch → where it stands, for people."""


class Complaints:
    """What is wrong with rows of one batch: the first reason why a row cannot be used, and what
    could not be read of rows that can."""

    def __init__(self, rows: int, locate: Locate) -> None:
        self.bad = np.zeros(rows, bool)
        """Rows that are left out."""
        self.locate = locate
        self.faults: list[Complaint] = []
        """Why: every row once."""
        self.doubts: list[Complaint] = []
        """Of rows that are kept."""

    def add(self, reason: str, detail: str, rows: np.ndarray, values: pa.Array | None) -> None:
        """Leave out the rows of mask `rows`; `detail` names field and fix, `values` holds them."""
        fresh = np.flatnonzero(rows & ~self.bad)
        self.bad[fresh] = True
        if len(fresh):
            self.faults.append(Complaint(fresh, reason, detail, values))

    def doubt(self, reason: str, detail: str, rows: np.ndarray, values: pa.Array | None) -> None:
        """Tell of the rows of mask `rows`, which are kept."""
        kept = np.flatnonzero(rows & ~self.bad)
        if len(kept):
            self.doubts.append(Complaint(kept, reason, detail, values))

    def told(self) -> tuple[Rejected, ...]:
        """All of it, by row: the first ones are listed, the others counted."""
        listed: list[tuple[int, Rejected]] = []
        counted: list[Rejected] = []
        for one in (*self.faults, *self.doubts):
            if one.reason == "excluded":
                where = self.locate(int(one.rows[0]))
                counted.append(Rejected(one.reason, where, one.detail, len(one.rows)))
                continue
            for row in one.rows[:LISTED].tolist():
                full, raw = one.shown(row)
                listed.append((row, Rejected(one.reason, self.locate(row), full, 1, raw)))
            if len(one.rows) > LISTED:
                where = f"{self.locate(int(one.rows[LISTED]))} and after"
                rest = len(one.rows) - LISTED
                counted.append(Rejected(one.reason, where, one.detail, rest))
        listed.sort(key=lambda pair: pair[0])
        return (*(rejected for _, rejected in listed), *counted)


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that is wrong with some rows."""

    rows: np.ndarray  # (n,) int, ascending
    reason: str
    detail: str
    values: pa.Array | None
    """The column in which it stands, by row of the batch; None: it is wrong that nothing is."""

    def shown(self, row: int) -> tuple[str, bytes]:
        """The detail with what stands in `row`, and its first bytes."""
        if self.values is None:
            return self.detail, b""
        raw, shown = describe(self.values[row])
        return f"{self.detail}; found {shown}", raw


class Decoder:
    """Turns record batches into Events.

    Args:
        config: names the columns and their meaning.
        vocabulary: codes the values; it grows.
    """

    def __init__(self, config: Config, vocabulary: Vocabulary) -> None:
        self.time = config.time
        self.outcomes = config.outcomes
        self.where = config.source.where
        self.written = config.cells
        self.vocabulary = vocabulary
        self.attributes = tuple(zip(config.columns, config.settings.schema.attributes, strict=True))

    @property
    def required(self) -> dict[str, str]:
        """Every column needed, and what for."""
        needed = {column: f"attribute `{a.name}`" for column, a in self.attributes}
        for outcome in self.outcomes:
            needed |= dict.fromkeys(outcome.when.columns, f"outcome `{outcome.name}`")
        if self.where is not None:
            needed |= dict.fromkeys(self.where.columns, "`source.where`")
        return needed | dict.fromkeys(self.time.columns, "the event time")

    def nothing(self) -> Events:
        """No events, in the right shape."""
        return Events(
            np.empty(0, "datetime64[us]"),
            np.empty((0, len(self.attributes)), np.int32),
            np.empty((0, len(self.outcomes)), bool),
        )

    def decode(self, rows: pa.RecordBatch, locate: Locate) -> tuple[Events, tuple[Rejected, ...]]:
        """Events of `rows`, without those that cannot be understood.

        Raises:
            SourceError: the times carry no zone, or no unit, and the configuration gives none.
        """
        events, complaints = self.decode_all(rows, locate)
        if complaints.bad.any():
            events = events.take(~complaints.bad)
        return events, complaints.told()

    def times(self, rows: pa.RecordBatch) -> np.ndarray:
        """Event times of `rows`, (n,) datetime64[us], of those that have one.

        Raises:
            SourceError: see `decode`.
        """
        complaints = Complaints(rows.num_rows, str)
        at = event_times(rows, self.time, complaints)
        return at[~complaints.bad]

    def decode_all(self, rows: pa.RecordBatch, locate: Locate) -> tuple[Events, Complaints]:
        """One event a row, those that cannot be used among them, and which these are.

        Raises:
            SourceError: see `decode`.
        """
        complaints = Complaints(rows.num_rows, locate)
        if self.where is not None:
            self._exclude(self.where, rows, complaints)
        at = event_times(rows, self.time, complaints)
        read = _Reading(rows, self.written)
        failed, decided = self._judge(read)
        read.complain(complaints, ~decided)
        values = np.empty((rows.num_rows, len(self.attributes)), np.int32)
        for i, (column, _) in enumerate(self.attributes):
            values[:, i] = self._codes(i, column, rows.column(column), complaints)
        read.doubt(complaints)
        if not decided.all() and read.kinds & _MEASURED:
            columns = {c for outcome in self.outcomes for c in outcome.when.columns}
            names = ", ".join(f"`{name}`" for name in sorted(columns))
            plural = "no outcome can be judged" if len(self.outcomes) > 1 else "it cannot be judged"
            detail = (
                f"{plural} without a value in {names}, so the row counts as no failure; if it is "
                "no event, leave it out by `source.where`, if it is a failure, say is_null(…)"
            )
            complaints.doubt("undecided", detail, ~decided, None)
        return Events(at, values, failed), complaints

    def _exclude(self, where: Expression, rows: pa.RecordBatch, complaints: Complaints) -> None:
        """Leave out the rows for which `where` is not true."""
        read = _Reading(rows, self.written)
        answer = where(read)
        read.complain(complaints, ~mask(answer.is_valid()))
        out = ~mask(pc.fill_null(answer, False))
        complaints.add("excluded", f"not `{where.text}`, which `source.where` asks for", out, None)

    def _judge(self, read: _Reading) -> tuple[np.ndarray, np.ndarray]:
        """(n, outcomes) bool: failures; (n,) bool: rows of which any outcome can be decided."""
        failed = np.empty((read.rows.num_rows, len(self.outcomes)), bool)
        decided = np.zeros(read.rows.num_rows, bool)
        for i, outcome in enumerate(self.outcomes):
            answer = outcome.when(read)
            if answer.null_count:
                decided |= mask(answer.is_valid())
                answer = pc.fill_null(answer, False)
            else:
                decided[:] = True
            failed[:, i] = mask(answer)
        return failed, decided

    def _codes(
        self, attribute: int, name: str, column: pa.Array, complaints: Complaints
    ) -> np.ndarray:
        """(n,) int32 codes; only the distinct values become Python strings."""
        if pa.types.is_nested(column.type):
            detail = f"column `{name}` holds lists or tables; name a field with plain values"
            complaints.add("bad_value", detail, mask(column.is_valid()), column)
            return np.full(len(column), MISSING, np.int32)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        size = len(column.dictionary)
        indices = column.indices.cast(pa.int32()).fill_null(size).to_numpy()
        counted = indices[~complaints.bad] if complaints.bad.any() else indices
        used = np.flatnonzero(np.bincount(counted, minlength=size + 1)[:size])
        codes: np.ndarray = np.full(size + 1, MISSING, np.int32)
        values, broken = texts(column.dictionary.take(pa.array(used)))
        present = texts_present(values, self.written)
        codes[used] = self.vocabulary.encode(attribute, [_bounded(value) for value in present])
        if len(broken):
            wrong = np.zeros(size + 1, bool)
            wrong[used[broken]] = True
            detail = f"column `{name}` is not UTF-8; convert the file to UTF-8"
            complaints.add("bad_value", detail, wrong[indices], column)
        rows: np.ndarray = codes[indices]
        return rows


class _Reading:
    """Columns as expressions want them; cells that resist are missing, and remembered."""

    def __init__(self, rows: pa.RecordBatch, written: CellDefinition) -> None:
        self.rows, self.written = rows, written
        self._cells: dict[tuple[str, Kind], pa.Array] = {}
        self._unread: list[_Unread] = []

    @property
    def kinds(self) -> set[Kind]:
        """How columns were read so far."""
        return {kind for _, kind in self._cells}

    def __call__(self, name: str, kind: Kind) -> pa.Array:
        if (name, kind) not in self._cells:
            self._cells[name, kind] = self._read(name, kind)
        return self._cells[name, kind]

    def _read(self, name: str, kind: Kind) -> pa.Array:
        given, wanted = self.rows.column(name), _WANTED[kind]
        try:
            cells, wrong = _READ[kind](given, self.written)
        except WrongType as error:
            detail = f"column `{name}` is {error}, not {wanted}"
            every = mask(given.is_valid())
            self._unread.append(_Unread("value", detail, every, given, "name a field with one"))
            return pa.nulls(len(given), _EMPTY[kind])
        if wrong is not None:
            what = "text" if kind is Kind.WRITTEN else kind.value
            detail, cure = f"column `{name}` is not {wanted}", "mend the log or the condition"
            if kind is Kind.NUMBER and self.written.decimal is None:
                cure = comma_cure(given.take(pa.array(np.flatnonzero(wrong)[:1]))) or cure
            self._unread.append(_Unread(what, detail, wrong, given, cure))
        return cells

    def complain(self, complaints: Complaints, undecided: np.ndarray) -> None:
        """Leave out rows of mask `undecided` whose answer hangs on a cell that resists."""
        for one in self._unread:
            detail = f"{one.detail}; {one.cure}"
            complaints.add(f"bad_{one.what}", detail, one.wrong & undecided, one.given)

    def doubt(self, complaints: Complaints) -> None:
        """Tell of cells that resist in rows that are decided without them."""
        for one in self._unread:
            detail = f"{one.detail} and so missing; the row counts without it; {one.cure}"
            complaints.doubt(f"unread_{one.what}", detail, one.wrong, one.given)


@dataclass(frozen=True, slots=True)
class _Unread:
    """Cells of a column that are not what a condition wants."""

    what: str
    detail: str
    wrong: np.ndarray  # (n,) bool
    given: pa.Array
    cure: str


_MEASURED = {Kind.NUMBER, Kind.FLAG}
"""What every event has. A text may be there on failures only, such as the step that failed: where
conditions ask for texts alone, a row without them is a success like any other."""

_WANTED = {
    Kind.NUMBER: "a number",
    Kind.TEXT: "a text",
    Kind.WRITTEN: "a text",
    Kind.FLAG: "true or false",
}
_READ = {Kind.NUMBER: numbers, Kind.TEXT: words, Kind.WRITTEN: written_words, Kind.FLAG: flags}
_EMPTY = {
    Kind.NUMBER: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.WRITTEN: pa.string(),
    Kind.FLAG: pa.bool_(),
}


def _bounded(word: str | None) -> str | None:
    if word is None:
        return None
    word = harmless(word)
    if len(word) <= MAX_VALUE_LENGTH:
        return word
    digest = hashlib.sha256(word.encode()).hexdigest()[:10]
    return f"{word[: MAX_VALUE_LENGTH - 11]}…{digest}"

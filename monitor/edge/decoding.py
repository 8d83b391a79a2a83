"""Columns of a log → Events, whatever file or stream they came from.

Work is done on whole columns; Python objects appear only for distinct values and for rows that
cannot be understood.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from monitor.config import Config
from monitor.domain import MISSING, Events, Rejected
from monitor.edge.cells import WrongType, describe, flags, mask, numbers, texts, words
from monitor.edge.clock import event_times
from monitor.expression import Kind
from monitor.vocabulary import Vocabulary

LISTED = 20
"""Rejected rows shown one by one, per batch and complaint; the others are counted."""

MAX_VALUE_LENGTH = 256
"""Characters of a value; what is longer is cut, with a digest to keep it apart from its like."""

Locate = Callable[[int], str]
"""Row of a batch → where it stands, for people."""


class Complaints:
    """Rows of one batch that cannot be used, with the first reason found for each."""

    def __init__(self, rows: int, locate: Locate) -> None:
        self.bad = np.zeros(rows, bool)
        self.locate = locate
        self.rejected: list[Rejected] = []
        self.faults: list[tuple[np.ndarray, str, str]] = []
        """Rows with the reason and its detail: every row once."""

    def add(self, reason: str, detail: str, rows: np.ndarray, values: pa.Array) -> None:
        """Reject the rows of mask `rows`; `detail` names field and fix, `values` the offenders."""
        fresh = np.flatnonzero(rows & ~self.bad)
        self.bad[fresh] = True
        if len(fresh):
            self.faults.append((fresh, reason, detail))
        for row in fresh[:LISTED].tolist():
            raw, shown = describe(values[row])
            full = f"{detail}; found {shown}"
            self.rejected.append(Rejected(reason, self.locate(row), full, 1, raw))
        if len(fresh) > LISTED:
            where = f"{self.locate(int(fresh[LISTED]))} and after"
            self.rejected.append(Rejected(reason, where, detail, len(fresh) - LISTED))


class Decoder:
    """Turns record batches into Events.

    Args:
        config: names the columns and their meaning.
        vocabulary: codes the values; it grows.
    """

    def __init__(self, config: Config, vocabulary: Vocabulary) -> None:
        self.time = config.time
        self.outcomes = config.outcomes
        self.vocabulary = vocabulary
        self.attributes = tuple(zip(config.columns, config.settings.schema.attributes, strict=True))

    @property
    def required(self) -> dict[str, str]:
        """Every column needed, and what for."""
        needed = {column: f"attribute `{a.name}`" for column, a in self.attributes}
        for outcome in self.outcomes:
            needed |= dict.fromkeys(outcome.when.columns, f"outcome `{outcome.name}`")
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
        return events, tuple(complaints.rejected)

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
        at = event_times(rows, self.time, complaints)
        values = np.empty((rows.num_rows, len(self.attributes)), np.int32)
        for i, (column, _) in enumerate(self.attributes):
            values[:, i] = self._codes(i, column, rows.column(column), complaints)
        failed = np.empty((rows.num_rows, len(self.outcomes)), bool)
        read = _reader(rows, complaints)
        for i, outcome in enumerate(self.outcomes):
            failed[:, i] = mask(outcome.when(read))
        return Events(at, values, failed), complaints

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
        used = np.flatnonzero(np.bincount(indices, minlength=size + 1)[:size])
        codes: np.ndarray = np.full(size + 1, MISSING, np.int32)
        values, broken = texts(column.dictionary.take(pa.array(used)))
        codes[used] = self.vocabulary.encode(attribute, [_bounded(value) for value in values])
        if len(broken):
            wrong = np.zeros(size + 1, bool)
            wrong[used[broken]] = True
            detail = f"column `{name}` is not UTF-8; convert the file to UTF-8"
            complaints.add("bad_value", detail, wrong[indices], column)
        rows: np.ndarray = codes[indices]
        return rows


def _reader(rows: pa.RecordBatch, complaints: Complaints) -> Callable[[str, Kind], pa.Array]:
    """Columns as expressions want them; cells that resist are complained of once."""
    cache: dict[tuple[str, Kind], pa.Array] = {}
    read = {Kind.NUMBER: numbers, Kind.TEXT: words, Kind.FLAG: flags}

    def column(name: str, kind: Kind) -> pa.Array:
        if (name, kind) not in cache:
            given = rows.column(name)
            try:
                cells, wrong = read[kind](given)
            except WrongType as error:
                wanted = "a number" if kind is Kind.NUMBER else f"a {kind.value}"
                cells = pa.nulls(len(given), _EMPTY[kind])
                detail = f"column `{name}` is {error}, not {wanted}; change the outcome's `when`"
                complaints.add("bad_value", detail, np.ones(len(given), bool), given)
            else:
                if wrong is not None:
                    wanted = "true or false" if kind is Kind.FLAG else f"a {kind.value}"
                    complaints.add(
                        f"bad_{kind.value}",
                        f"column `{name}` is not {wanted}; mend the log or the outcome's `when`",
                        wrong,
                        given,
                    )
            cache[name, kind] = cells
        return cache[name, kind]

    return column


_EMPTY = {Kind.NUMBER: pa.float64(), Kind.TEXT: pa.string(), Kind.FLAG: pa.bool_()}


def _bounded(word: str | None) -> str | None:
    if word is None or len(word) <= MAX_VALUE_LENGTH:
        return word
    digest = hashlib.sha256(word.encode()).hexdigest()[:10]
    return f"{word[: MAX_VALUE_LENGTH - 11]}…{digest}"

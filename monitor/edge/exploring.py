"""What failed, by any attribute, within any filter and time: answered from what the store holds.

Little time is read row by row, and any filter will do. More is read from digests (`digesting`),
which know of every value in every slice and of pairs of values in six hours: so the time is rounded
to these, and of two conditions only their course is known. What would take too long is told.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from monitor.digests import summed
from monitor.domain import MISSING, Schema, utc
from monitor.edge.blobs import slice_from_bytes
from monitor.edge.digesting import BLOCK, COURSE, Part, block_of, part_from_bytes
from monitor.edge.kept_vocabulary import GROWTH, WHOLE, KeptVocabulary
from monitor.edge.store import Store, StoreError
from monitor.encoding import exposure
from monitor.evolution import Columns, Meaning, conform
from monitor.exhibits import Point
from monitor.vocabulary import MISSING_TEXT, Vocabulary

MOST_BYTES = 20 << 20
"""Of slices that are read row by row; some 0.3 s."""
_BYTES_A_SLICE = 150 << 10
"""What opening one costs, in bytes read."""
MOST_CONDITIONS = 8
SHOWN = 12
"""Values of an attribute in the answer."""

Condition = tuple[str, str]
"""Attribute and value."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked."""

    outcome: str
    conditions: tuple[Condition, ...]
    first: datetime
    end: datetime
    length: timedelta = timedelta(minutes=30)
    """Of a slice."""


@dataclass(frozen=True, slots=True)
class Count:
    """Some rows."""

    rows: int
    observed: int
    expected: float

    @property
    def excess(self) -> float:
        """Failures beyond the expected; negative where there were fewer."""
        return self.observed - self.expected

    @property
    def rate(self) -> float | None:
        """Failures a row."""
        return self.observed / self.rows if self.rows else None

    @property
    def expected_rate(self) -> float | None:
        """The same, as expected."""
        return self.expected / self.rows if self.rows else None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One attribute."""

    attribute: str
    is_code: bool
    """Only failures have it: its rates say nothing."""
    values: tuple[tuple[str, Count], ...]
    """Those with the largest excess first; at most `SHOWN`."""
    more: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known."""

    first: datetime
    end: datetime
    """As it was rounded."""
    length: timedelta
    """Of a point."""
    points: tuple[Point, ...]
    whole: Count
    breakdowns: tuple[Breakdown, ...]
    """The attribute with the largest excess in one value first."""
    rounded: bool
    """The time was rounded to what digests know."""
    trouble: str = ""
    """Why something is missing, and what to ask instead."""


@dataclass(frozen=True, slots=True)
class _Coded:
    """A question in the numbers of the store."""

    columns: Columns
    outcome: int
    conditions: tuple[tuple[int, int], ...]
    """Attribute and code."""


@dataclass(slots=True)
class _Sums:
    """What is added up: by slice, and by value of each attribute."""

    points: dict[datetime, np.ndarray] = field(default_factory=dict)
    values: dict[int, np.ndarray] = field(default_factory=dict)
    """Attribute → (codes + 1, 3), the place of a code being one behind it."""

    def point(self, start: datetime, sums: np.ndarray) -> None:
        self.points[start] = self.points.get(start, 0) + sums

    def add(self, a: int, codes: np.ndarray, sums: np.ndarray) -> None:
        """Rows, or cells, with their codes."""
        if not len(codes):
            return
        place = codes.astype(np.int64) + 1
        size = int(place.max()) + 1
        known = self.values.get(a)
        if known is None or len(known) < size:
            grown = np.zeros((size, 3))
            if known is not None:
                grown[: len(known)] = known
            known = self.values[a] = grown
        known[:size] += summed(place, sums, size)


class Explorer:
    """Answers questions from a store.

    Args:
        store: read only.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: tuple[object, Vocabulary] | None = None

    def ask(self, meaning: Meaning, question: Question, moment: object) -> Answer:
        """Add up what the question is about.

        Args:
            meaning: of the columns, as the monitor writes them now.
            question: its outcome and attributes are of the schema.
            moment: changes whenever new values may have come.
        """
        columns, schema = meaning.columns, meaning.schema
        o = schema.outcomes.index(question.outcome)
        vocabulary = self._vocabulary(schema, moment)
        asked: list[tuple[int, int]] = []
        for name, value in question.conditions:
            a = schema.names.index(name)
            code = MISSING if value == MISSING_TEXT else vocabulary.code(a, value)
            if code is None and value == vocabulary.text(a, 0):
                code = 0
            if code is None:
                return self._nothing(question, f"{name} has no value {value!r}")
            asked.append((a, code))
        length, coded, sums = question.length, _Coded(columns, o, tuple(asked)), _Sums()
        first, end, rounded, trouble = question.first, question.end, False, ""
        sizes = self._store.slice_sizes(first, end)
        if _cost(sizes.values()) <= MOST_BYTES:
            self._read_rows(first, end, coded, sums)
        else:
            first, end, rounded = block_of(first), block_of(end - length) + BLOCK, True
            trouble = self._read_blocks(first, end, coded, sums)
            if len(asked) == 2:
                length = BLOCK
        taken = {a for a, _ in asked}
        found = [
            _breakdown(a, schema.names[a], schema.attributes[a].is_code, values, vocabulary)
            for a, values in sums.values.items()
            if a not in taken
        ]
        found.sort(key=lambda b: (b.is_code, -b.values[0][1].excess if b.values else 0.0))
        points = tuple(
            Point(start, round(n), round(f), float(e))
            for start, (n, f, e) in sorted(sums.points.items())
        )
        whole = np.sum(list(sums.points.values()), axis=0) if sums.points else np.zeros(3)
        return Answer(
            first, end, length, points, _count(whole), tuple(found), rounded, trouble
        )  # fmt: skip

    def _nothing(self, question: Question, trouble: str) -> Answer:
        return Answer(
            question.first,
            question.end,
            timedelta(hours=1),
            (),
            Count(0, 0, 0.0),
            (),
            False,
            trouble,
        )

    def _vocabulary(self, schema: Schema, moment: object) -> Vocabulary:
        with self._lock:
            if self._known is None or self._known[0] != moment:
                state = {WHOLE: self._store.state(WHOLE) or b"{}"}
                number = 0
                while (blob := self._store.state(f"{GROWTH}{number}")) is not None:
                    state[f"{GROWTH}{number}"] = blob
                    number += 1
                self._known = moment, KeptVocabulary(schema, state).vocabulary
            return self._known[1]

    def _read_rows(
        self,
        first: datetime,
        end: datetime,
        coded: _Coded,
        sums: _Sums,
    ) -> None:
        want, o, asked = coded.columns, coded.outcome, coded.conditions
        for blob in self._store.slices(first, end).values():
            try:
                kept = slice_from_bytes(blob)
            except StoreError:
                continue  # it is set aside at the next start
            stored = conform(kept.slice, kept.expected, kept.columns or want, want)
            piece = stored.slice
            hit: np.ndarray | slice = slice(None)
            if asked:
                hit = np.logical_and.reduce([piece.values[:, a] == code for a, code in asked])
            weight = piece.weight[hit].astype(float)
            mine = np.column_stack(
                [
                    weight,
                    weight * piece.failed[hit, o],
                    exposure(piece)[hit] * stored.expected[hit, o],
                ]
            )
            sums.point(utc(piece.start), mine.sum(axis=0))
            for a, column in enumerate(piece.values.T):
                sums.add(a, column[hit], mine)

    def _read_blocks(
        self,
        first: datetime,
        end: datetime,
        coded: _Coded,
        sums: _Sums,
    ) -> str:
        """Returns what is missing, in words."""
        want, asked = coded.columns, coded.conditions
        if len(asked) > 2:
            return (
                "more than two conditions are answered row by row, and this time has too many rows "
                "for that: leave some out, or choose less time"
            )
        key = want.outcomes[coded.outcome]
        courses = self._store.digests(first, end, COURSE)
        pairs = self._store.digests(first, end, want.attributes[asked[0][0]]) if asked else {}
        sizes = self._store.slice_sizes(first, end)
        raw = [start for start in sizes if block_of(start) not in courses]
        trouble = ""
        if _cost(sizes[start] for start in raw) > MOST_BYTES:
            some, cost = [], 0
            for start in reversed(raw):  # the newest tell most
                cost += sizes[start] + _BYTES_A_SLICE
                if cost > MOST_BYTES:
                    break
                some.append(start)
            trouble = (
                f"{len(raw) - len(some)} slices of this time are not summed up yet (six hours are, "
                "at a time): ask again later, or for less time"
            )
            raw = some
        for block in sorted({block_of(start) for start in raw}):
            mine = [start for start in raw if block_of(start) == block]
            part = _Sums()
            self._read_rows(min(mine), max(mine) + timedelta(seconds=1), coded, part)
            for start, one in part.points.items():
                sums.point(block if len(asked) == 2 else start, one)
            if len(asked) < 2:
                for a, table in part.values.items():
                    found = np.flatnonzero(table.any(axis=1))
                    sums.add(a, found - 1, table[found])
        for block in sorted(courses):
            course = part_from_bytes(courses[block], key)
            beside = part_from_bytes(pairs[block], key, asked[0][1]) if block in pairs else None
            if course is not None:
                _add_block(block, course, beside, coded, sums)
        if len(asked) == 2:
            sums.values.clear()
            trouble = trouble or (
                "of two conditions over so much time only the course is known; for other values "
                "choose less time, or one condition"
            )
        return trouble


def _add_block(
    block: datetime,
    course: Part,
    pairs: Part | None,
    coded: _Coded,
    sums: _Sums,
) -> None:
    want, asked = coded.columns, coded.conditions
    slot, attribute, code = course.place
    have = course.columns.attributes
    if len(asked) < 2:
        mine = attribute == -1
        if asked:
            a, wanted = asked[0]
            name = want.attributes[a]
            mine = (
                (attribute == have.index(name)) & (code == wanted) if name in have else mine & False
            )
        by_slot = summed(slot[mine].astype(np.int64), course.sums[mine], len(course.starts))
        for start, one in zip(course.starts, by_slot, strict=True):
            sums.point(start, one)
    if not asked:
        order = np.argsort(attribute, kind="stable")
        edges = np.searchsorted(attribute[order], np.arange(len(have) + 1))
        for i, name in enumerate(have):
            rows = order[edges[i] : edges[i + 1]]
            if name in want.attributes:
                sums.add(want.attributes.index(name), code[rows], course.sums[rows])
        return
    if pairs is None:
        return
    mine_code, other_attribute, other = pairs.place
    low, high = np.searchsorted(mine_code, [asked[0][1], asked[0][1] + 1])
    other_attribute, other, cells = other_attribute[low:high], other[low:high], pairs.sums[low:high]
    for i, name in enumerate(pairs.columns.attributes):
        if name not in want.attributes:
            continue
        a, rows = want.attributes.index(name), other_attribute == i
        if len(asked) == 1:
            sums.add(a, other[rows], cells[rows])
        elif a == asked[1][0]:
            sums.point(block, cells[rows & (other == asked[1][1])].sum(axis=0))


def _cost(sizes: Iterable[int]) -> int:
    return sum(size + _BYTES_A_SLICE for size in sizes)


def _count(sums: np.ndarray) -> Count:
    return Count(round(sums[0]), round(sums[1]), float(sums[2]))


def _breakdown(
    a: int, name: str, is_code: bool, table: np.ndarray, vocabulary: Vocabulary
) -> Breakdown:
    present = np.flatnonzero(table[:, 0] + table[:, 2] > 0)
    order = present[np.lexsort((-table[present, 0], table[present, 2] - table[present, 1]))]
    if is_code:  # only what failed has one
        order = order[(order != MISSING + 1) & (table[order, 1] > 0)]
    values = tuple((vocabulary.text(a, int(p) - 1), _count(table[p])) for p in order[:SHOWN])
    return Breakdown(name, is_code, values, max(len(order) - SHOWN, 0))

"""JSON records of a stream → events, each by itself: what a record means does not depend on which
others it came with, so a restart that cuts the stream elsewhere counts the same rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from monitor.config import Config
from monitor.domain import Events
from monitor.edge.decoding import Decoder
from monitor.edge.json_lines import field_of, object_of
from monitor.edge.source import SourceError
from monitor.vocabulary import Vocabulary

MAX_RECORD_BYTES = 1 << 20
"""A longer record is none of a log; Kafka's own default limit is as long."""

_ARROW = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
_INT64 = range(-(2**63), 2**63)
_NOTHING = type(None)


@dataclass(frozen=True, slots=True)
class Fault:
    """A record that cannot be used."""

    row: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """What could not be read of records that are events all the same."""

    rows: np.ndarray  # (n,) int, ascending
    reason: str
    detail: str
    """Of the first."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Some records."""

    events: Events
    rows: np.ndarray  # (len(events),) int, ascending: the record behind each event
    ids: tuple[Hashable, ...] | None
    """Of each event, None where it has none; None without an id column."""
    faults: tuple[Fault, ...]
    """By row."""
    doubts: tuple[Doubt, ...] = ()
    """About events."""


class RecordDecoder:
    """Decodes records that are JSON objects.

    Args:
        config: names the columns and their meaning.
        vocabulary: codes the values; it grows.
        event_id: column that names an event.
        decoder: of columns; None makes one.
    """

    def __init__(
        self,
        config: Config,
        vocabulary: Vocabulary,
        event_id: str | None = None,
        decoder: Decoder | None = None,
    ) -> None:
        self._decoder = decoder or Decoder(config, vocabulary)
        self._event_id = event_id
        self.needed = tuple(sorted(self._decoder.required))

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Events of records, in their order; never raises for what a record holds."""
        objects, rows, faults = _objects(values)
        columns = {name: self._cells(objects, name) for name in self.needed}
        events: list[Events] = []
        sound: list[np.ndarray] = []
        doubts: list[Doubt] = []
        for members in _alike(columns, len(objects)):
            some = None if len(members) == len(objects) else members
            self._decode_alike(columns, some, rows, events, sound, faults, doubts)
        for name, nested in _nested(columns):
            detail = f"field `{name}` holds a list or a table; name a field with plain values"
            faults += [Fault(int(rows[i]), "bad_value", detail) for i in nested]
        good = np.concatenate(sound) if sound else np.empty(0, np.int64)
        order = np.argsort(good, kind="stable")
        merged = self._merged(events)
        if not (np.diff(good) > 0).all():
            merged, good = merged.take(order), good[order]
        ids = None
        if self._event_id is not None:
            at = {int(row): i for i, row in enumerate(rows)}
            cells = self._cells(objects, self._event_id)
            ids = tuple(_hashable(cells[at[row]]) for row in good.tolist())
        faults.sort(key=lambda fault: fault.row)
        return Decoded(merged, good, ids, tuple(faults), tuple(doubts))

    def nothing(self) -> Events:
        """No events, in the right shape."""
        return self._decoder.nothing()

    def _cells(self, objects: list[dict[str, Any]], name: str) -> list[Any]:
        if "." not in name:
            return [one.get(name) for one in objects]
        return [field_of(one, name) for one in objects]

    def _decode_alike(
        self,
        columns: dict[str, list[Any]],
        members: np.ndarray | None,
        rows: np.ndarray,
        events: list[Events],
        sound: list[np.ndarray],
        faults: list[Fault],
        doubts: list[Doubt],
    ) -> None:
        """Decode records whose cells have the same types, column by column."""
        mine = rows if members is None else rows[members]
        arrays = {}
        for name, cells in columns.items():
            picked = cells if members is None else [cells[i] for i in members.tolist()]
            arrays[name] = _array(picked)
        try:
            found, complaints = self._decoder.decode_all(
                pa.RecordBatch.from_pydict(arrays), lambda row: str(int(mine[row]))
            )
        except SourceError as error:
            # Of a file it would be the configuration's fault; here it may be one sender's.
            faults += [Fault(int(row), "bad_time", str(error)) for row in mine]
            return
        every = mine
        if complaints.bad.any():
            for one in complaints.faults:
                for row in one.rows.tolist():
                    faults.append(Fault(int(mine[row]), one.reason, one.shown(row)[0]))
            found = found.take(~complaints.bad)
            mine = mine[~complaints.bad]
        for one in complaints.doubts:
            detail, _ = one.shown(int(one.rows[0]))
            doubts.append(Doubt(every[one.rows], one.reason, detail))
        events.append(found)
        sound.append(mine)

    def _merged(self, parts: list[Events]) -> Events:
        if not parts:
            return self._decoder.nothing()
        if len(parts) == 1:
            return parts[0]
        return Events(
            np.concatenate([part.at for part in parts]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.failed for part in parts]),
        )


def _objects(
    values: Sequence[bytes | None],
) -> tuple[list[dict[str, Any]], np.ndarray, list[Fault]]:
    """The records that are objects, their rows, and what is wrong with the others."""
    if None not in values and max(map(len, values), default=0) <= MAX_RECORD_BYTES:  # type: ignore[arg-type]
        try:
            parsed: list[Any] = list(map(orjson.loads, values))  # type: ignore[arg-type]
        except orjson.JSONDecodeError:
            pass
        else:
            if set(map(type, parsed)) <= {dict}:
                return parsed, np.arange(len(parsed)), []
    objects: list[dict[str, Any]] = []
    rows: list[int] = []
    faults: list[Fault] = []
    for row, value in enumerate(values):
        if value is None or not value.strip():
            faults.append(Fault(row, "empty", "record has no value; write one JSON object"))
        elif len(value) > MAX_RECORD_BYTES:
            detail = (
                f"record has {len(value)} bytes, more than {MAX_RECORD_BYTES}: no record of a log"
            )
            faults.append(Fault(row, "too_large", detail))
        elif isinstance(found := object_of(value), str):
            detail = f"record is {found}; write one JSON object a record"
            faults.append(Fault(row, "not_json", detail))
        else:
            objects.append(found)
            rows.append(row)
    return objects, np.array(rows, np.int64), faults


def _kind(cell: Any) -> type:
    """The type that decides how a cell is read."""
    kind = type(cell)
    if kind is int and cell not in _INT64:
        return str
    return kind


def _alike(columns: dict[str, list[Any]], count: int) -> list[np.ndarray]:
    """Records in groups whose cells have one type a column, missing ones apart from that."""
    mixed = []
    for name, cells in columns.items():
        kinds = set(map(type, cells)) - {_NOTHING}
        if int in kinds and any(_kind(c) is str for c in cells):
            kinds.add(str)  # all may be too large, but that is rare enough to look closer
        if len(kinds) > 1 or kinds & {dict, list}:
            mixed.append(name)
    if not count:
        return []
    if not mixed:
        return [np.arange(count)]
    groups: dict[tuple[type, ...], list[int]] = {}
    for i in range(count):
        groups.setdefault(tuple(_kind(columns[name][i]) for name in mixed), []).append(i)
    # A missing cell fits every type, but apart it stays simple; nested ones fit none.
    return [np.array(m) for kinds, m in groups.items() if not {dict, list} & set(kinds)]


def _nested(columns: dict[str, list[Any]]) -> list[tuple[str, list[int]]]:
    """By field, the records that have a list or a table there; each record once."""
    found: list[tuple[str, list[int]]] = []
    seen: set[int] = set()
    for name, cells in columns.items():
        if {dict, list} & set(map(type, cells)):
            fresh = [i for i, c in enumerate(cells) if type(c) in (dict, list) and i not in seen]
            seen |= set(fresh)
            found.append((name, fresh))
    return found


def _array(cells: list[Any]) -> pa.Array:
    kinds = set(map(type, cells)) - {_NOTHING}
    if len(kinds) > 1 or int in kinds:
        # Texts and whole numbers beyond 64 bits stand together; all else was kept apart.
        kinds = set(map(_kind, cells)) - {_NOTHING}
        if kinds == {str}:
            cells = [str(cell) if type(cell) is int else cell for cell in cells]
    return pa.array(cells, _ARROW[kinds.pop() if kinds else str])


def _hashable(cell: Any) -> Hashable:
    """What is compared to know an event again; 7 and "7" are one id."""
    if cell is None:
        return None
    return cell if isinstance(cell, str) else orjson.dumps(cell).decode()

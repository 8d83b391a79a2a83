"""One monitor and its store: what a daemon or a replay has done is never done again.

Everything that a tick changed goes into the store in one transaction, so a process killed at any
instant goes on, when started again, exactly where its last commit stood.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from monitor.checkpoint import Snapshot, restore, snapshot, translated
from monitor.diagnosis import Monitor, Tick
from monitor.domain import (
    Change,
    Incident,
    Notification,
    Rejected,
    Settings,
    State,
    datetime64,
    utc,
)
from monitor.edge.blobs import (
    arrays_from_bytes,
    arrays_to_bytes,
    slice_from_bytes,
    slice_to_bytes,
)
from monitor.edge.context import new_before, seen_before, symptoms
from monitor.edge.digesting import Digesting, Due
from monitor.edge.documents import (
    diagnosis_document,
    diagnosis_from,
    dumps,
    incident_document,
    incident_from,
)
from monitor.edge.kept_vocabulary import KeptVocabulary
from monitor.edge.store import (
    KEPT_COURSE,
    KEPT_INCIDENTS,
    KEPT_SENT,
    LATEST_DIAGNOSIS,
    IncidentNotFoundError,
    Store,
    StoreError,
    Verdict,
    Work,
)
from monitor.encoding import Coded
from monitor.evolution import Meaning, Stored, conform, evolution
from monitor.exhibits import Exhibition, Material
from monitor.learning import LeastLearner
from monitor.slices import Slice, empty

MEMORY, SESSION, FILLING = "memory", "session", "filling"
FINGERPRINT, MEANING = "fingerprint", "meaning"


def fingerprint(settings: Settings) -> str:
    """Changes with the schema and the window, of which releases before `MEANING` knew no more."""
    schema = asdict(settings.schema)
    if not settings.schema.counted:
        del schema["counted"]  # stores older than this setting go on
    text = repr((schema, asdict(settings.window)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def written_under(state: Mapping[str, bytes], settings: Settings) -> Meaning | None:
    """What the stored numbers mean; None when they mean what they mean now, as far as is known.

    Raises:
        StoreError: the slices are of another length, or nobody knows what they mean.
    """
    if MEANING not in state:
        mine = fingerprint(settings).encode()
        if state.get(FINGERPRINT, mine) == mine:
            return None
        raise StoreError(
            "the store was written by an earlier release under another [schema] or [window]: start "
            "once with those of then, which writes them down, and change them after that"
        )
    try:
        before = Meaning.from_json(json.loads(state[MEANING]))
        length = before.window["slice_length"]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"the stored schema cannot be read ({error!r}); restore a backup"
        ) from error
    if length != str(settings.window.slice_length):
        raise StoreError(
            f"the store's slices are {length} long, not {settings.window.slice_length}: set "
            "`window.slice_length` back, or give this configuration a [store] url of its own"
        )
    return before


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where the store left off."""

    position: Mapping[str, object] | None
    last_slice: np.datetime64 | None
    """Start of the newest slice diagnosed."""
    filling: tuple[Slice, ...]
    """Slices that had begun to fill but were not closed."""


class Session:
    """A monitor with its store.

    Args:
        settings: of the tick.
        store: where to go on from, and where to write.
        notifiers: names in the outbox of every notification.
        keep: how long resolved incidents are kept, by the time of the events; None is for ever.
        example_columns: attributes whose values the pages may show in example rows.
        whens: outcome → its `when`; another one makes it another outcome.
        digests: sum the slices up in the store, for questions that somebody asks later.

    Attributes:
        evolution: how the schema differs from the one that the store was written under.

    Raises:
        StoreError: the store was written with other slices, or not even its schema is known.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        notifiers: tuple[str, ...] = (),
        keep: timedelta | None = KEPT_INCIDENTS,
        example_columns: Sequence[str] = (),
        whens: Mapping[str, str] | None = None,
        digests: bool = False,
    ) -> None:
        self.settings, self.store, self.notifiers = settings, store, notifiers
        self._keep = keep
        saved = store.load()
        session = json.loads(saved.state.get(SESSION, b"{}"))
        self._meaning = Meaning.of(settings, whens or {})
        self._before = written_under(saved.state, settings) or self._meaning
        self.evolution = evolution(self._before, self._meaning, settings.detection.learning)
        self._kept_vocabulary = KeptVocabulary(settings.schema, saved.state)
        self.vocabulary = self._kept_vocabulary.vocabulary
        self.monitor = Monitor(
            settings, self.vocabulary, LeastLearner(settings.schema, settings.learner)
        )
        self._written_meaning = MEANING in saved.state and self._before == self._meaning
        self._slices: dict[datetime, Coded] = {}
        self._incidents: dict[str, Incident] = {}
        self._news: list[Notification] = []
        self._rejected: list[Rejected] = []
        self._newest: Tick | None = None
        self._exhibition = Exhibition(settings, example_columns)
        self._material = Material()
        self._remembers_more = False
        self._heeded: set[str] = set()
        self.last_slice: np.datetime64 | None = None
        self.damaged: dict[datetime, str] = {}
        """Slices that could not be read, and why: they were set aside."""
        if session:
            self._restore(saved.state, saved.slices, saved.damaged, session)
        self._digesting = (
            Digesting(store, self._read, self._meaning.columns, saved.slices) if digests else None
        )
        # Rows may have come in before the first tick: they are behind the position.
        filling = arrays_from_bytes(saved.state[FILLING]) if FILLING in saved.state else {}
        self.resumed = Resumed(saved.position, self.last_slice, tuple(self._resume(filling)))

    def _restore(
        self,
        state: Mapping[str, bytes],
        slices: Mapping[datetime, bytes],
        damaged: Mapping[datetime, str],
        session: Mapping[str, Any],
    ) -> None:
        self.last_slice = np.datetime64(session["last_slice"], "us")
        incidents = tuple(incident_from(document) for document in session["incidents"])
        if self.evolution.told:
            self._remembers_more = True
            incidents = self._without_ended(incidents)
        memory = Snapshot(arrays_from_bytes(state[MEMORY]), session["document"], incidents)
        if self.evolution.refit:
            memory = translated(memory, self.monitor, self.evolution)
        restore(self.monitor, memory, self._whole(slices, damaged))
        newest = state.get(LATEST_DIAGNOSIS)
        edges = () if newest is None else diagnosis_from(json.loads(newest)).edges
        self._exhibition.restore(session.get("exhibition", {}), incidents, edges)

    def _without_ended(self, incidents: tuple[Incident, ...]) -> tuple[Incident, ...]:
        """Those that go on; the others end here, for nothing will be heard of them again."""
        assert self.last_slice is not None
        at = utc(self.last_slice) + self.settings.window.slice_length
        for incident in incidents:
            over = incident.state is State.RESOLVED and not incident.story_goes_on
            if self.evolution.ends(incident) and not over:
                end = replace(
                    incident,
                    state=State.RESOLVED,
                    resolved_at=incident.resolved_at or at,
                    updated_at=at,
                    story_goes_on=False,
                )
                self._incidents[end.id] = end
                if end.finding.method is self.settings.detection.report:
                    self._news.append(Notification(end, Change.RESOLVED, at))
        return tuple(i for i in incidents if not self.evolution.ends(i))

    def _read(self, blob: bytes) -> Stored:
        """A stored slice in today's columns."""
        kept = slice_from_bytes(blob)
        have = kept.columns or self._before.columns
        if (kept.slice.values.shape[1], kept.slice.failed.shape[1]) != have.width:
            raise StoreError("a stored slice has other columns than it says")
        read = conform(kept.slice, kept.expected, have, self._meaning.columns)
        if kept.columns is None and self.evolution.refit:
            # Its columns have no names yet, and only this start knows what they were.
            coded = Coded(read.slice, read.slice.values, read.expected)
            self._slices.setdefault(utc(read.slice.start), coded)
        return read

    def _resume(self, filling: Mapping[str, np.ndarray]) -> Iterator[Slice]:
        """Slices that had begun to fill, in today's columns."""
        before = self._before.columns
        for piece, unknown in _unpack(filling):
            have = before.without(unknown)
            kept = conform(piece, np.zeros(piece.failed.shape), have, self._meaning.columns)
            if kept.unknown:
                self.monitor.unknown[int(piece.start.astype(np.int64))] = kept.unknown
            yield kept.slice

    def _whole(
        self, slices: Mapping[datetime, bytes], damaged: Mapping[datetime, str]
    ) -> Iterable[Stored]:
        """The slices in order of time; in the place of a damaged one none of its rows.

        What happened then is unknown: nothing failed and nothing succeeded.
        """
        width = self._meaning.columns.width
        faults: dict[datetime, tuple[str, bytes]] = {}
        kept: list[Stored] = []
        for start in sorted({*slices, *damaged}):
            reason = damaged.get(start, "")
            if not reason:
                try:
                    kept.append(self._read(slices[start]))
                    continue
                except StoreError as error:
                    reason = str(error)
            nothing = empty(datetime64(start), *width)
            instead = Coded(nothing, nothing.values, np.zeros((0, width[1])))
            kept.append(Stored(nothing, instead.expected))
            faults[start] = reason, slice_to_bytes(instead, self._meaning.columns)
        if len(kept) > 1 and len(faults) == len(kept):
            # Not one of many can be read: that is no damage, but another program's work.
            raise StoreError(next(iter(faults.values()))[0])
        if faults:
            self.store.set_aside(faults)
            self.damaged = {start: reason for start, (reason, _) in faults.items()}
        return kept

    def tick(self, piece: Slice) -> Tick:
        """Diagnose the slice; what changed waits for the next `commit`.

        The tick is handed on without the slices it rewrote: whoever reads a long backlog keeps all
        ticks, and would keep all rows.
        """
        self._heed_verdicts()
        tick = self.monitor.tick(piece)
        self.last_slice = piece.start
        newest = replace(tick, rewritten=())
        self._newest, self._remembers_more = newest, True
        self._slices |= {utc(coded.slice.start): coded for coded in tick.rewritten}
        self._incidents |= {incident.id: incident for incident in tick.incidents}
        self._material.add(
            self._exhibition.gather(
                self.monitor.naming,
                tuple(self.monitor.window),
                tick.rewritten,
                tick.incidents,
                tick.diagnosis.edges,
                self._earlier,
            )
        )
        report = self.settings.detection.report
        self._news += [
            self._in_context(n, tick.incidents)
            for n in tick.news
            if n.incident.finding.method is report
        ]
        return newest

    def _in_context(self, news: Notification, known: tuple[Incident, ...]) -> Notification:
        """With what else is known of what opens.

        A store that is away says nothing of the past: the news itself is worth more.
        """
        if news.change not in (Change.OPENED, Change.REGRESSED):
            return news
        incident = news.incident
        context: dict[str, str] = {}
        if incident.part_of:
            context["symptoms"] = symptoms(incident, known)
        with suppress(StoreError):
            if before := seen_before(self.store, incident, self._incidents.values()):
                context["seen before"] = before.told(news.at)
        exhibit = self._material.exhibits.get(incident.id)
        if exhibit is not None and (new := new_before(exhibit)):
            context["just before"] = new
        return replace(news, context=tuple(context.items()))

    def _heed_verdicts(self) -> None:
        """What operators judged false was noise, and raises the bar; told once is enough.

        A store that is away is asked again before the next tick.
        """
        with suppress(StoreError):
            labels = self.store.labels()
            false = {i for i, verdict in labels.items() if verdict is Verdict.FALSE}
            for incident_id in sorted(false - self._heeded):
                with suppress(IncidentNotFoundError):  # forgotten meanwhile
                    self.monitor.acquit(self.store.incident(incident_id))
            self._heeded = false

    def _earlier(self, first: datetime, end: datetime) -> Iterator[Coded]:
        """Slices of the past as they were scored: not yet written, or out of the store.

        What cannot be read is left out: a picture is not worth a tick.
        """
        stored: Mapping[datetime, bytes] = {}
        with suppress(StoreError):
            stored = self.store.slices(first, end)
        waiting = {start for start in self._slices if first <= start < end}
        for start in sorted(stored.keys() | waiting):
            if start in waiting:
                yield self._slices[start]
                continue
            try:
                kept = self._read(stored[start])
            except StoreError:
                continue
            local = self.monitor.nodes.local(kept.slice.values, kept.slice.start)
            yield Coded(kept.slice, local, kept.expected)

    def fold(self, late: Slice) -> bool:
        """Fold late rows into their slice; written with the next `commit`, tick or no tick.

        Returns False when the slice is no longer kept.
        """
        if not self.monitor.fold(late):
            return False
        self._slices |= {utc(coded.slice.start): coded for coded in self.monitor.rewritten}
        self._material.add(
            self._exhibition.amend(
                self.monitor.naming, tuple(self.monitor.rewritten), self.monitor.incidents
            )
        )
        self.monitor.rewritten.clear()
        self._remembers_more = True
        return True

    def reject(self, rejected: Iterable[Rejected]) -> None:
        """Input set aside; counted with the next `commit`."""
        self._rejected += rejected

    def commit(
        self,
        position: Mapping[str, object] | None = None,
        filling: Iterable[Slice] = (),
    ) -> None:
        """Write all that changed since the last commit, in one transaction.

        Args:
            position: of the source; every row before it is in a slice or in `filling`.
            filling: slices not closed yet.

        Raises:
            StoreError: nothing was written; the changes still wait.
        """
        state: dict[str, bytes] = {}
        if not self._written_meaning:
            state[FINGERPRINT] = fingerprint(self.settings).encode()
            state[MEANING] = dumps(self._meaning.to_json())
        if self._remembers_more:
            now = snapshot(self.monitor)
            state[MEMORY] = arrays_to_bytes(now.arrays)
            state[SESSION] = dumps(
                {
                    "document": now.document,
                    "incidents": [incident_document(i) for i in now.incidents],
                    "last_slice": str(self.last_slice),
                    "exhibition": self._exhibition.to_json(),
                }
            )
        if self._newest is not None:
            state[LATEST_DIAGNOSIS] = dumps(diagnosis_document(self._newest.diagnosis))
        state |= self._kept_vocabulary.changes()
        if position is not None:
            state[FILLING] = arrays_to_bytes(_pack(filling, self.monitor.unknown))
        due = self._digests_due()
        self.store.commit(
            Work(
                digests=due.made,
                stale_digests=due.stale,
                slices={start: self._write(c) for start, c in self._slices.items()},
                drop_slices_before=self._oldest_kept(),
                position=position,
                state=state,
                incidents=tuple(self._incidents.values()),
                notifications=tuple(self._news),
                notifiers=self.notifiers,
                rejected=tuple(self._rejected),
                drop_sent_before=self._ago(KEPT_SENT),
                drop_incidents_before=None if self._keep is None else self._ago(self._keep),
                material=self._material,
                drop_course_before=self._ago(KEPT_COURSE),
            )
        )
        self._written_meaning = True
        if self._digesting is not None:
            self._digesting.written()
        self._kept_vocabulary.written()
        self._slices, self._incidents, self._news = {}, {}, []
        self._rejected, self._newest, self._remembers_more = [], None, False
        self._material = Material()

    def _digests_due(self) -> Due:
        if self._digesting is None or self.last_slice is None:
            return Due()
        written = {at: Stored(c.slice, c.expected) for at, c in self._slices.items()}
        return self._digesting.due(written, utc(self.last_slice), self._oldest_kept())

    def _write(self, coded: Coded) -> bytes:
        unknown = self.monitor.unknown.get(int(coded.slice.start.astype(np.int64)), frozenset())
        return slice_to_bytes(coded, self._meaning.columns, unknown)

    def _ago(self, length: timedelta) -> datetime | None:
        return None if self.last_slice is None else utc(self.last_slice) - length

    def _oldest_kept(self) -> datetime | None:
        """The history, and in any case both windows: a restart rebuilds them from slices."""
        history, window = self.monitor.history.taught, self.settings.window
        if self.last_slice is None or not history:
            return None
        windows = utc(self.last_slice) - (2 * window.slices - 1) * window.slice_length
        return min(utc(np.datetime64(history[0].start, "us")), windows)


def _pack(slices: Iterable[Slice], unknown: Mapping[int, frozenset[int]]) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for piece in slices:
        start = int(piece.start.astype(np.int64))
        key = str(start)
        if start in unknown:
            arrays[f"{key}.unknown"] = np.array(sorted(unknown[start]))
        arrays |= {
            f"{key}.values": piece.values,
            f"{key}.failed": piece.failed,
            f"{key}.weight": piece.weight,
        }
    return arrays


def _unpack(arrays: Mapping[str, np.ndarray]) -> Iterable[tuple[Slice, frozenset[int]]]:
    """Slices, and the outcomes of which each says nothing."""
    for key in sorted({name.partition(".")[0] for name in arrays}, key=int):
        piece = Slice(
            np.datetime64(int(key), "us"),
            arrays[f"{key}.values"],
            arrays[f"{key}.failed"],
            arrays[f"{key}.weight"],
        )
        yield piece, frozenset(np.asarray(arrays.get(f"{key}.unknown", ())).tolist())

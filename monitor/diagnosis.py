"""One tick: the stations in order, over a memory that any run can rebuild.

`Monitor.tick` takes the slice that closed and returns what is wrong. It reads no clock and opens
nothing: the same slices in the same order give the same findings, live and in a replay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from monitor.attribution import (
    Attribution,
    CodeModel,
    Selector,
    Settled,
    Suspect,
    attribute,
    began,
    looks,
    match,
)
from monitor.bar import Bar
from monitor.baseline import Baseline, History, Mask, Taught, teach
from monitor.codes import codes_in_excess
from monitor.counts import FLOOR, without_carriers
from monitor.departures import Departures
from monitor.dispersion import Dispersion
from monitor.domain import (
    Diagnosis,
    Edge,
    Finding,
    Incident,
    Method,
    Notification,
    OutcomeCount,
    Settings,
    State,
    utc,
)
from monitor.encoding import Coded, Encoding, GramSum, Nodes, exposure
from monitor.incidents import track
from monitor.learning import Learned, Learner
from monitor.naming import Naming
from monitor.paper import Failures, significant_paths
from monitor.slices import Slice, aggregate, merge
from monitor.stopwatch import Stopwatch
from monitor.vocabulary import Vocabulary
from monitor.window import QUANTUM, Horizons

REFIT_TURNS = 12  # fits, until it is an outcome's turn again


@dataclass(frozen=True, slots=True)
class Tick:
    """What a tick leaves behind."""

    diagnosis: Diagnosis
    incidents: tuple[Incident, ...]
    """All that are open or recently resolved."""
    news: tuple[Notification, ...]
    rewritten: tuple[Coded, ...]
    """Slices new or changed since the last tick, as scored: for the store."""


class Monitor:
    """The memory between ticks, and the tick itself.

    Args:
        settings: everything a tick depends on besides its data.
        vocabulary: texts behind the codes.
        learner: LEAST, or None to do without the graph (then only `excess` speaks).
    """

    def __init__(
        self, settings: Settings, vocabulary: Vocabulary, learner: Learner | None = None
    ) -> None:
        self.settings, self.vocabulary, self.learner = settings, vocabulary, learner
        schema, window, detection = settings.schema, settings.window, settings.detection
        self._codes = next((i for i, a in enumerate(schema.attributes) if a.is_code), None)
        attributes, outcomes = len(schema.attributes), len(schema.outcomes)
        self._cell_attributes = tuple(i for i, a in enumerate(schema.attributes) if not a.is_code)
        slots = round(timedelta(days=1) / window.slice_length)
        self._pace = window.slices_in(settings.learner.every)
        self._near = near = window.per_half_hour  # slices in half an hour
        self._counted = frozenset(
            o for o, name in enumerate(schema.outcomes) if name in schema.counted
        )
        self._zone, self._slots = ZoneInfo(window.zone), slots
        self.coded = frozenset(() if self._codes is None else (self._codes,))
        """Attributes that only failures have: of these, missing is no value."""
        self.nodes = Nodes(attributes, window, self.coded)
        self.naming = Naming(schema, vocabulary, self.nodes)
        self.history = History(detection.history, slots, window.length, detection.learning, near)
        self.tables = Horizons(self._cell_attributes, outcomes, detection.horizons)
        self.gram = GramSum(attributes, outcomes)
        self.window: deque[Coded] = deque()
        self.failures: deque[Failures] = deque()
        self.dispersion = Dispersion(
            outcomes, detection.horizons, counted=self._counted, half_hour=near
        )
        self.arrivals = np.zeros((outcomes, 1 + window.slices))
        """Failures seen by age of their slice, in slices: the log may tell of them late."""
        self.bar = Bar(outcomes, timedelta(weeks=1) / window.slice_length, 12 * near)
        self.baseline: Baseline | None = None
        self.judged: frozenset[int] = frozenset()
        """Outcomes that have learned long enough for a verdict."""
        self.unknown: dict[int, frozenset[int]] = {}
        """Start of a slice → outcomes of which its rows say nothing: they came into the schema, or
        changed their meaning, later."""
        self.masks: tuple[Mask, ...] = ()
        self.incidents: tuple[Incident, ...] = ()
        self.ticks = 0
        self.rewritten: list[Coded] = []
        """Older slices changed since the last tick."""
        self._late: list[Coded] = []
        """Rows folded into them since then."""
        self.edges: frozenset[tuple[str, str]] = frozenset()
        self._departures = Departures(schema, window)

    # --- the tick ---------------------------------------------------------------------------

    def tick(self, piece: Slice) -> Tick:
        """Take in the newest slice and diagnose the window that it ends."""
        clock = Stopwatch()
        settings = self.settings
        piece = self._said(piece)
        coded = self._take_in(piece)
        clock.lap("window")
        encoding = self.gram.encode(
            self.nodes, settings.window.min_count, settings.learner.max_nodes
        )
        clock.lap("encode")
        learned = self._learned(encoding)
        clock.lap("fit")
        names = self.naming.of(encoding)
        findings: list[Finding] = []
        unexplained: dict[str, float] = {}
        methods = {settings.detection.report, *settings.detection.compare}
        if self.baseline is not None and Method.EXCESS in methods:
            excess, unexplained, elevated = self._excess(encoding, learned, names)
            findings += excess
            busy, mute = self._busy(elevated), self.baseline.kept_empty
            self.dispersion.observe(self.tables, self.ticks, busy, mute)
        clock.lap("excess")
        truncated = False
        if Method.PAPER in methods and self.learner:
            paper = significant_paths(
                tuple(self.failures),
                encoding,
                learned.weights,
                self.window[0].slice.start,
                settings,
                self.naming,
                names,
            )
            doubtful = self._without_past()
            findings += [f for f in paper.findings if f.outcome not in doubtful]
            truncated = paper.truncated
        clock.lap("paper")
        at = utc(piece.start) + settings.window.slice_length
        gap = not len(piece.weight) and self._expects_traffic(piece)
        self.incidents, news = track(
            self.incidents,
            findings,
            at,
            settings.incidents,
            gap=gap,
            memory=settings.window.length,
        )
        self._remember_masks(findings)
        edges = tuple(
            Edge(names[i], names[j], float(learned.weights[i, j]))
            for i, j in np.argwhere(learned.weights != 0)
        )
        pairs = frozenset((edge.source, edge.target) for edge in edges)
        clock.lap("incidents")
        diagnosis = Diagnosis(
            at=at,
            rows=piece.rows,
            clean_rows=int(piece.weight[~piece.failed.any(axis=1)].sum()),
            outcomes=tuple(
                OutcomeCount(
                    name,
                    int(piece.weight[piece.failed[:, o]].sum()),
                    float(coded.exposure @ coded.expected[:, o]),
                )
                for o, name in enumerate(settings.schema.outcomes)
            ),
            learning=self.baseline is None,
            gap=gap,
            fit_status=learned.status,
            fit_steps=learned.steps,
            delta=learned.delta,
            nodes=len(encoding.number),
            rare_nodes=encoding.rare_nodes,
            edges=edges,
            edges_added=len(pairs - self.edges),
            edges_removed=len(self.edges - pairs),
            paths_truncated=truncated,
            findings=tuple(findings),
            unexplained=unexplained,
            seconds=clock.seconds,
            learning_outcomes=tuple(
                name for o, name in enumerate(settings.schema.outcomes) if o not in self.judged
            ),
            misfits=self._departures.seen(self.history.taught, self.unknown),
        )
        self.edges = pairs
        rewritten, self.rewritten, self._late = (*self.rewritten, coded), [], []
        return Tick(diagnosis, self.incidents, news, rewritten)

    def _learned(self, encoding: Encoding) -> Learned:
        """The graph: learned when it is due, and the last one in between."""
        if self.learner is None:
            return Learned.nothing(encoding)
        last = self.learner.recall(encoding) if self.ticks % self._pace else None
        return last or self.learner.learn(encoding)

    def _take_in(self, piece: Slice) -> Coded:
        """Count, code and score the slice; move the windows on by one."""
        self.nodes.observe(piece)
        self.ticks += 1
        if self.ticks % self._pace == 0:
            turns = max(REFIT_TURNS, len(self.settings.schema.outcomes))
            self._refit(self.ticks // self._pace % turns)
        coded = self._judge(piece)
        self.push(coded)
        self.history.add(self.lesson(coded.slice, coded.expected))
        self.arrivals[:, 0] += piece.weight @ piece.failed
        return coded

    def _judge(self, piece: Slice) -> Coded:
        """Code a slice and score its rows, carriers of counted outcomes appended."""
        local, slot = self.nodes.local(piece.values, piece.start), self.slot(piece)
        if self.baseline is None:
            shape = len(local), len(self.settings.schema.outcomes)
            return Coded(piece, local, np.full(shape, QUANTUM)).compact()
        expected = self.baseline.expected(local, slot, self.weekday(piece))
        whole, expected = self.baseline.usual.carried(
            piece, expected, self.baseline.day[:, slot], self.weekday(piece)
        )
        if whole is not piece:
            local = self.nodes.local(whole.values, piece.start)
        unknown = self.unknown.get(int(piece.start.astype(np.int64)))
        if unknown:
            expected[:, list(unknown)] = np.where(whole.weight > 0, QUANTUM, 0.0)[:, None]
        return Coded(whole, local, expected).compact()

    def _said(self, piece: Slice) -> Slice:
        """The slice without failures of outcomes of which some of its rows say nothing."""
        unknown = self.unknown.get(int(piece.start.astype(np.int64)))
        if not unknown:
            return piece
        failed = piece.failed.copy()
        failed[:, list(unknown)] = False
        return aggregate(piece.start, piece.values, failed, piece.weight)

    def _without_past(self) -> set[str]:
        """Outcomes of which T′ or T says nothing here and there: the two cannot be compared."""
        length = np.timedelta64(self.settings.window.slice_length)
        first = self.window[-1].slice.start - (len(self.failures) - 1) * length
        since = first.astype(np.int64)
        names = self.settings.schema.outcomes
        return {names[o] for start, all_ in self.unknown.items() if start >= since for o in all_}

    def _lessons(self, outcome: int) -> History:
        """The history, as far as it knows of an outcome."""
        starts = (start for start, outcomes in self.unknown.items() if outcome in outcomes)
        return self.history.without(frozenset(starts))

    def lesson(self, piece: Slice, expected: np.ndarray) -> Taught:
        """What a scored slice teaches."""
        total = exposure(piece) @ expected
        return teach(piece, self.slot(piece), self.weekday(piece), total, half_hour=self._near)

    def push(self, coded: Coded) -> None:
        """Move every window on by one slice, which is already scored.

        Behind a hole that was jumped over the windows begin anew: T is the latest 24 hours, not
        the latest slices that had rows.
        """
        sizes = self.nodes.sizes()
        step = np.timedelta64(self.settings.window.slice_length)
        if self.window and coded.slice.start - self.window[-1].slice.start > step:
            self._empty_windows()
        self.tables.push(coded, tuple(sizes[a] for a in self._cell_attributes))
        self.gram.push(coded, sizes)
        self.window.append(coded)
        self.failures.append(Failures.of(coded))
        if len(self.window) > self.settings.window.slices:
            self.gram.drop(self.window.popleft())
        if len(self.failures) > 2 * self.settings.window.slices:
            self.failures.popleft()

    def _empty_windows(self) -> None:
        schema = self.settings.schema
        attributes, outcomes = len(schema.attributes), len(schema.outcomes)
        self.tables = Horizons(self._cell_attributes, outcomes, self.settings.detection.horizons)
        self.gram = GramSum(attributes, outcomes)
        self.window.clear()
        self.failures.clear()

    def _refit(self, turn: int) -> None:
        """Fit the baseline: every outcome once it has learned, then one outcome a time in turn."""
        due, first = [], self.baseline is None
        for o in range(len(self.settings.schema.outcomes)):
            if o in self.judged and not first and o != turn:
                continue
            lessons = self._lessons(o)
            if lessons.span >= self.settings.detection.learning or (first and o in self.judged):
                due.append((o, lessons))
        if not due:
            return
        oldest = self.history.taught[0].start
        self.masks = tuple(mask for mask in self.masks if mask.last >= oldest)
        self.unknown = {start: o for start, o in self.unknown.items() if start >= oldest}
        skip = () if self._codes is None else (self._codes,)
        for o, lessons in due:
            self.baseline = lessons.fit(
                self.nodes.local,
                self.nodes.sizes(),
                skip,
                self.masks,
                self._codes,
                only=o,
                before=self.baseline,
                counted=self._counted,
            )
        new = frozenset(o for o, _ in due) - self.judged
        if new:
            self.judged |= new
            self._rescore(new)
        elif self.ticks % self._slots == 0:
            self.dispersion.refit()

    def _rescore(self, outcomes: frozenset[int]) -> None:
        """Slices taken in while outcomes learned are judged by their first baseline from now on.

        How they scattered around it is the first that is known of scatter. What is expected of
        the rows' other outcomes stays as it was.
        """
        assert self.baseline is not None
        others = sorted(self.judged - outcomes - self._counted)
        for i in range(-len(self.tables.slices), 0):
            old, piece = self.tables.slices[i], without_carriers(self.tables.slices[i].slice)
            new = self._judge(piece)
            new.expected[: len(piece.weight), others] = old.expected[old.slice.weight > 0][
                :, others
            ]
            self.tables.replace(i, new)
            self.window[i] = new
            self.history.taught[i] = self.lesson(new.slice, new.expected)
            self.rewritten.append(new)
        taught = list(self.history.taught)[-len(self.tables.slices) :]
        seen = np.array([lesson.failures.sum(axis=0) for lesson in taught])
        fair = np.array([lesson.expected for lesson in taught])
        self.dispersion.begin(self.tables, seen, fair, outcomes, self.baseline.kept_empty)

    def slot(self, piece: Slice) -> int:
        """Time of day of a slice, in slices since local midnight."""
        local = utc(piece.start).astimezone(self._zone)
        minute = local.hour * 60 + local.minute
        return int(minute * 60 // self.settings.window.slice_length.total_seconds()) % self._slots

    def weekday(self, piece: Slice) -> int:
        """Local day of the week of a slice; Monday is 0."""
        return utc(piece.start).astimezone(self._zone).weekday()

    def _expects_traffic(self, piece: Slice) -> bool:
        """True when this time of day usually has rows: then an empty slice is a gap.

        However long the gap is already: only what lay before it is usual.
        """
        slot, past = self.slot(piece), list(self.history.taught)
        while past and not len(past[-1].exposure):
            past.pop()
        # of the half hour that it lies in: a minute is empty by chance here and there
        near = self._near
        usual = [len(t.exposure) > 0 for t in past if t.slot // near == slot // near][-7 * near :]
        return len(usual) >= 2 * near and all(usual)

    def _busy(self, elevated: set[str]) -> np.ndarray:
        """Outcomes whose counts are no sample of quiet history."""
        names = self.settings.schema.outcomes
        busy = elevated | {name for o, name in enumerate(names) if o not in self.judged}
        busy |= {i.finding.outcome for i in self.incidents if i.finding.method is Method.EXCESS}
        return np.array([name in busy for name in names])

    # --- excess -----------------------------------------------------------------------------

    def _excess(
        self, encoding: Encoding, learned: Learned, names: list[str]
    ) -> tuple[list[Finding], dict[str, float], set[str]]:
        detection = self.settings.detection
        bars = self.bar.of(detection.false_alarms_per_week, looks(self.tables))
        peaks = np.full(bars.shape, -np.inf)
        findings: list[Finding] = []
        unexplained = dict.fromkeys(self.settings.schema.outcomes, 0.0)
        elevated: set[str] = set()
        for o in sorted(self.judged):
            outcome = self.settings.schema.outcomes[o]
            result: Attribution = attribute(
                o,
                self.tables,
                self.dispersion.of(o, self.tables.layout),
                bars[o],
                detection.min_failures,
                detection.max_causes,
                self._settled(outcome),
                FLOOR if o in self._counted else 0.0,
                self._barred(o),
                self.nodes.empty(),
                self._code_model(o),
                self._known(outcome),
                self._arrived(o),
            )
            peaks[o] = result.peaks
            unexplained[outcome] = result.unexplained
            if (result.peaks > bars[o]).any():
                elevated.add(outcome)
            findings += [
                self._finding(o, suspect, encoding, learned, names) for suspect in result.suspects
            ]
        self.bar.observe(peaks, self._busy(elevated))
        return findings, unexplained, elevated

    def acquit(self, incident: Incident) -> None:
        """An operator judged it false: what stood out then was noise, and raises the bar."""
        outcomes, length = self.settings.schema.outcomes, self.settings.window.slice_length
        finding = incident.finding
        if finding.method is not Method.EXCESS or finding.outcome not in outcomes:
            return
        if self.window:
            newest = utc(self.window[-1].slice.start) + length
            first, last = (
                round((newest - at) / length) for at in (incident.last_seen_at, incident.opened_at)
            )
            self.bar.acquit(outcomes.index(finding.outcome), first, last)

    def _barred(self, o: int) -> frozenset[int]:
        """Attributes that failure itself keeps empty: they cannot be its cause."""
        assert self.baseline is not None
        return frozenset(int(a) for a in np.flatnonzero(self.baseline.kept_empty[o]))

    def _arrived(self, o: int) -> np.ndarray:
        """Share of the failures of the last slices that the log has told by now, newest first."""
        seen = self.arrivals[o].copy()
        seen[0] += 1.0
        return np.asarray(seen.cumsum() / seen.sum())

    def _known(self, outcome: str) -> list[Selector]:
        """Causes that were told and are not over."""
        return [
            self.naming.numbers(self.naming.codes(incident.latest.cause))
            for incident in self.incidents
            if (incident.finding.outcome, incident.finding.method) == (outcome, Method.EXCESS)
            and incident.state is not State.RESOLVED
        ]

    def _settled(self, outcome: str) -> list[Settled]:
        """Causes that were told and are over, though their rows still lie in the window."""
        settled: dict[Selector, datetime] = {}
        for incident in self.incidents:
            finding = incident.finding
            if (finding.outcome, finding.method) != (outcome, Method.EXCESS):
                continue
            if incident.state is not State.RESOLVED or incident.merged_into is not None:
                continue
            for cause in incident.causes:
                selector = self.naming.numbers(self.naming.codes(cause))
                until = settled.get(selector, incident.last_seen_at)
                settled[selector] = max(until, incident.last_seen_at)
        return [
            Settled(selector, np.datetime64(until.replace(tzinfo=None), "us"))
            for selector, until in settled.items()
        ]

    def _finding(
        self, o: int, suspect: Suspect, encoding: Encoding, learned: Learned, names: list[str]
    ) -> Finding:
        span = self.settings.detection.horizons[suspect.horizon]
        observed, expected, rows = suspect.total(span)
        slices = self.tables.slices
        start = slices[began(suspect)].slice.start
        return Finding(
            method=Method.EXCESS,
            outcome=self.settings.schema.outcomes[o],
            cause=self.naming.cause(suspect.selector),
            path=self.naming.path(
                o,
                suspect.selector,
                encoding,
                learned.weights,
                names,
                self.settings.learner.max_path_length,
            ),
            score=suspect.score,
            p_value=suspect.p_value,
            q_value=suspect.q_value,
            observed=observed,
            expected=expected,
            rows=int(rows),
            horizon=span * self.settings.window.slice_length,
            began=utc(start),
            rate_before=expected / rows if rows else 0.0,
            rate_now=observed / rows if rows else 0.0,
            ended=suspect.ended,
            fresh=bool(suspect.observed[-1] > 0) or self._fresh_late(o, suspect.selector),
            chain=(self.naming.cause(suspect.selector),),
            codes=self._codes_in_excess(o, suspect, span),
            runners_up=tuple((self.naming.cause(c), score) for c, score in suspect.runners_up),
        )

    def _fresh_late(self, o: int, selector: Selector) -> bool:
        """Rows that came late since the last tick hold a failure of the cause."""
        return any((match(c.local, selector) & c.slice.failed[:, o]).any() for c in self._late)

    def _code_model(self, o: int) -> CodeModel | None:
        if self._codes is None or self.baseline is None or o in self._counted:
            return None  # what is counted has no usual codes
        known = self.baseline.codes[o]
        if not known.share.size:
            return None
        return CodeModel(self._codes, known.parent, known.share, known.failures)

    def _codes_in_excess(self, o: int, suspect: Suspect, span: int) -> tuple[str, ...]:
        model = self._code_model(o)
        if model is None:
            return ()
        codes = dict(suspect.selector).get(model.attribute)
        if codes is None:
            codes = codes_in_excess(o, self.tables, model, suspect, span)
        return tuple(self.naming.text(model.attribute, code) for code in codes)

    def _remember_masks(self, findings: Iterable[Finding]) -> None:
        """Rows of reported causes must not teach the baseline."""
        length = np.int64(self.settings.window.slice_length.total_seconds() * 1e6)
        masks = list(self.masks)
        for finding in findings:
            if finding.method is not Method.EXCESS:
                continue
            outcome = self.settings.schema.outcomes.index(finding.outcome)
            codes = self.naming.codes(finding.cause)
            last = int(self.window[-1].slice.start.astype(np.int64))
            span = int(finding.horizon / self.settings.window.slice_length)
            first = last - (span - 1) * int(length)
            for i, mask in enumerate(masks):
                if mask.outcome == outcome and mask.codes == codes and mask.last >= first - length:
                    masks[i] = Mask(outcome, codes, min(mask.first, first), last)
                    break
            else:
                masks.append(Mask(outcome, codes, first, last))
        self.masks = tuple(masks)

    def open_incidents(self) -> tuple[Incident, ...]:
        """Those of the reporting method that are not resolved."""
        report = self.settings.detection.report
        return tuple(
            i
            for i in self.incidents
            if i.state is not State.RESOLVED and i.finding.method is report
        )

    # --- late rows --------------------------------------------------------------------------

    def fold(self, late: Slice) -> bool:
        """Fold late rows into their slice, if it is still in the window.

        The next tick sees them. Returns False when the slice has left, or never was.
        """
        length = np.timedelta64(self.settings.window.slice_length)
        for index in range(-len(self.window), 0):
            old = self.window[index]
            if old.slice.start != late.start:
                continue
            self.nodes.observe(late, since=self.window[-1].slice.start + length)
            late = self._said(late)
            local = self.nodes.local(late.values, late.start)
            self._late.append(Coded(late, local, np.zeros(late.failed.shape)))
            self.arrivals[:, -index] += late.weight @ late.failed
            coded = self._judge(merge(without_carriers(old.slice), late))
            sizes = self.nodes.sizes()
            self.gram.replace(index, old, coded, sizes)
            if -index <= len(self.tables.slices):
                self.tables.replace(index, coded)
            self.window[index] = coded
            self.failures[index] = Failures.of(coded)
            self.history.taught[index] = self.lesson(coded.slice, coded.expected)
            self._departures.forget(self.history.taught[index].start)
            self.rewritten.append(coded)
            return True
        return False

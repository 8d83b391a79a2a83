"""One tick: the stations in order, over a memory that any run can rebuild.

`Monitor.tick` takes the slice that closed and returns what is wrong. It reads no clock and opens
nothing: the same slices in the same order give the same findings, live and in a replay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from zoneinfo import ZoneInfo

import numpy as np

from monitor.attribution import Attribution, Conditions, Suspect, attribute, began
from monitor.baseline import Baseline, History, Mask, teach
from monitor.dispersion import Dispersion
from monitor.domain import (
    OTHER,
    Cause,
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
from monitor.encoding import Coded, Encoding, GramSum, Nodes
from monitor.incidents import track
from monitor.learning import Learned, Learner
from monitor.paths import paths_into, strongest_path
from monitor.significance import poisson_score, q_values, two_sample_p_value
from monitor.slices import Slice, merge
from monitor.vocabulary import OTHER_TEXT, Vocabulary
from monitor.window import QUANTUM, Horizons

REFIT_TICKS = 12
BASE_THRESHOLD = 3.0
"""Nats that a finding must hold after the price of its search, at one false alarm a week."""


@dataclass(frozen=True, slots=True)
class Tick:
    """What a tick leaves behind."""

    diagnosis: Diagnosis
    incidents: tuple[Incident, ...]
    """All that are open or recently resolved."""
    news: tuple[Notification, ...]
    coded: Coded
    """The slice as scored, for the store."""


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
        self._zone, self._slots = ZoneInfo(window.zone), slots
        self.nodes = Nodes(attributes, window)
        self.history = History(detection.history, slots)
        self.tables = Horizons(self._cell_attributes, outcomes, detection.horizons)
        self.gram = GramSum(attributes, outcomes)
        self.window: deque[Coded] = deque()
        self.failures: deque[_Failures] = deque()
        self.dispersion = Dispersion(outcomes, detection.horizons)
        self.baseline: Baseline | None = None
        self.masks: tuple[Mask, ...] = ()
        self.incidents: tuple[Incident, ...] = ()
        self.ticks = 0
        self._edges: frozenset[tuple[str, str]] = frozenset()

    # --- the tick ---------------------------------------------------------------------------

    def tick(self, piece: Slice) -> Tick:
        """Take in the newest slice and diagnose the window that it ends."""
        clock = _Stopwatch()
        settings = self.settings
        coded = self._take_in(piece)
        clock.lap("window")
        learning = self.baseline is None
        encoding = self.gram.encode(
            self.nodes, settings.window.min_count, settings.learner.max_nodes
        )
        clock.lap("encode")
        learned = self.learner.learn(encoding) if self.learner else Learned.nothing(encoding)
        clock.lap("fit")
        names = self._names(encoding)
        findings: list[Finding] = []
        unexplained: dict[str, float] = {}
        methods = {settings.detection.report, *settings.detection.compare}
        if not learning and Method.EXCESS in methods:
            excess, unexplained = self._excess(encoding, learned, names)
            findings += excess
        clock.lap("excess")
        truncated = False
        if Method.PAPER in methods and self.learner:
            paper, truncated = self._paper(encoding, learned, names)
            findings += paper
        clock.lap("paper")
        at = utc(piece.start) + settings.window.slice_length
        gap = not len(piece.weight) and self._expects_traffic(piece)
        self.incidents, news = track(
            self.incidents,
            findings,
            at,
            settings.window.slice_length,
            settings.incidents,
            gap=gap,
            memory=settings.window.length,
        )
        self._remember_masks(findings)
        edges = tuple(
            Edge(names[i], names[j], float(learned.weights[i, j]))
            for i, j in zip(*np.nonzero(learned.weights), strict=True)
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
                    float(piece.weight @ coded.expected[:, o]),
                )
                for o, name in enumerate(settings.schema.outcomes)
            ),
            learning=learning,
            gap=gap,
            fit_status=learned.status,
            fit_steps=learned.steps,
            delta=learned.delta,
            nodes=len(encoding.number),
            rare_nodes=encoding.rare_nodes,
            edges=edges,
            edges_added=len(pairs - self._edges),
            edges_removed=len(self._edges - pairs),
            paths_truncated=truncated,
            findings=tuple(findings),
            unexplained=unexplained,
            seconds=clock.seconds,
        )
        self._edges = pairs
        return Tick(diagnosis, self.incidents, news, coded)

    def _take_in(self, piece: Slice) -> Coded:
        """Count, code and score the slice; move the windows on by one."""
        self.nodes.observe(piece)
        self.ticks += 1
        slot = self._slot(piece)
        if self.baseline is None or self.ticks % REFIT_TICKS == 0:
            self._refit()
        local = self.nodes.local(piece.values, piece.start)
        coded = Coded(piece, local, self._score(local, slot))
        self._push(coded)
        self.history.add(teach(piece, slot, piece.weight @ coded.expected))
        if self.baseline is not None:
            self.dispersion.observe(self.tables, self.ticks, self._busy())
        return coded

    def _score(self, local: np.ndarray, slot: int) -> np.ndarray:
        if self.baseline is None:
            return np.full((len(local), len(self.settings.schema.outcomes)), QUANTUM)
        return self.baseline.expected(local, slot)

    def _push(self, coded: Coded) -> None:
        sizes = self.nodes.sizes()
        self.tables.push(coded, tuple(sizes[a] for a in self._cell_attributes))
        self.gram.add(coded, sizes)
        self.window.append(coded)
        self.failures.append(_Failures.of(coded))
        if len(self.window) > self.settings.window.slices:
            self.gram.add(self.window.popleft(), sizes, -1)
        if len(self.failures) > 2 * self.settings.window.slices:
            self.failures.popleft()

    def _refit(self) -> None:
        first = self.baseline is None
        if self.history.span < self.settings.detection.learning:
            return
        oldest = self.history.taught[0].start
        self.masks = tuple(mask for mask in self.masks if mask.last >= oldest)
        skip = () if self._codes is None else (self._codes,)
        self.baseline = self.history.fit(
            self.nodes.local, self.nodes.sizes(), skip, self.masks, self._codes
        )
        if first:  # slices taken in while learning are judged from now on
            for i in range(-len(self.tables.slices), 0):
                old = self.tables.slices[i]
                self.tables.replace(
                    i, Coded(old.slice, old.local, self._score(old.local, self._slot(old.slice)))
                )
        else:
            self.dispersion.refit()

    def _slot(self, piece: Slice) -> int:
        local = utc(piece.start).astimezone(self._zone)
        minute = local.hour * 60 + local.minute
        return int(minute * 60 // self.settings.window.slice_length.total_seconds()) % self._slots

    def _expects_traffic(self, piece: Slice) -> bool:
        """True when this time of day usually has rows: then an empty slice is a gap."""
        slot = self._slot(piece)
        usual = [len(t.exposure) > 0 for t in self.history.taught if t.slot == slot][-8:-1]
        return len(usual) >= 2 and all(usual)

    def _busy(self) -> np.ndarray:
        open_outcomes = {
            i.finding.outcome for i in self.incidents if i.finding.method is Method.EXCESS
        }
        return np.array([name in open_outcomes for name in self.settings.schema.outcomes])

    # --- excess -----------------------------------------------------------------------------

    def _excess(
        self, encoding: Encoding, learned: Learned, names: list[str]
    ) -> tuple[list[Finding], dict[str, float]]:
        detection = self.settings.detection
        threshold = BASE_THRESHOLD - float(np.log(detection.false_alarms_per_week))
        findings: list[Finding] = []
        unexplained: dict[str, float] = {}
        for o, outcome in enumerate(self.settings.schema.outcomes):
            result: Attribution = attribute(
                o,
                self.tables,
                self.dispersion.of(o),
                threshold,
                detection.min_failures,
                detection.max_causes,
            )
            unexplained[outcome] = result.unexplained
            findings += [
                self._finding(o, suspect, encoding, learned, names) for suspect in result.suspects
            ]
        return findings, unexplained

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
            cause=self._cause(suspect.conditions),
            path=self._path(o, suspect.conditions, encoding, learned, names),
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
            chain=tuple(self._cause(c) for c in suspect.chain),
            codes=self._codes_in_excess(o, suspect, span),
            runners_up=tuple((self._cause(c), score) for c, score in suspect.runners_up),
        )

    def _codes_in_excess(self, o: int, suspect: Suspect, span: int) -> tuple[str, ...]:
        if self._codes is None or self.baseline is None:
            return ()
        column = self._codes
        share = self.baseline.codes[o]
        seen = np.zeros(max(self.nodes.sizes()[column], len(share)))
        pairs = list(zip(self.tables.slices, suspect.matches, strict=True))[-span:]
        for coded, hit in pairs:
            failed = hit & coded.slice.failed[:, o] & (coded.local[:, column] >= 0)
            seen += np.bincount(coded.local[failed, column], coded.slice.weight[failed], len(seen))
        total = seen.sum()
        fair = np.full(len(seen), 0.2 / max(len(seen), 1))
        fair[: len(share)] = share
        scores = [
            poisson_score(float(k), float(total * f)) for k, f in zip(seen, fair, strict=True)
        ]
        ranked = sorted(range(len(seen)), key=lambda c: -scores[c])
        return tuple(self._text(column, c) for c in ranked[:3] if scores[c] > 5 and seen[c] >= 3)

    def _remember_masks(self, findings: Iterable[Finding]) -> None:
        """Rows of reported causes must not teach the baseline."""
        length = np.int64(self.settings.window.slice_length.total_seconds() * 1e6)
        masks = list(self.masks)
        for finding in findings:
            if finding.method is not Method.EXCESS:
                continue
            outcome = self.settings.schema.outcomes.index(finding.outcome)
            conditions = self._conditions(finding.cause)
            last = int(self.window[-1].slice.start.astype(np.int64))
            span = int(finding.horizon / self.settings.window.slice_length)
            first = last - (span - 1) * int(length)
            for i, mask in enumerate(masks):
                if (
                    mask.outcome == outcome
                    and mask.conditions == conditions
                    and mask.last >= first - length
                ):
                    masks[i] = Mask(outcome, conditions, min(mask.first, first), last)
                    break
            else:
                masks.append(Mask(outcome, conditions, first, last))
        self.masks = tuple(masks)

    def _conditions(self, cause: Cause) -> tuple[tuple[int, int], ...]:
        names = self.settings.schema.names
        out = []
        for name, values in cause.selector:
            a = names.index(name)
            code = self.vocabulary.code(a, values[0])
            out.append((a, OTHER if code is None else code))
        return tuple(out)

    # --- paper ------------------------------------------------------------------------------

    def _paper(
        self, encoding: Encoding, learned: Learned, names: list[str]
    ) -> tuple[list[Finding], bool]:
        """Every path into an error node: its occurrences in T against those in T′."""
        settings, span = self.settings, self.settings.window.slices
        if len(self.failures) < 2 * span:
            return [], False
        recent = list(self.failures)
        rows_before = sum(f.rows for f in recent[:span])
        rows_now = sum(f.rows for f in recent[span:])
        truncated = False
        candidates: list[tuple[float, int, tuple[int, ...], float, float]] = []
        for o in range(len(settings.schema.outcomes)):
            found = paths_into(
                o, learned.weights, encoding,
                settings.learner.max_paths, settings.learner.max_path_length,
            )  # fmt: skip
            truncated |= found.truncated
            if not found.paths:
                continue
            wanted = self._wanted(found.paths, encoding)
            before = _occurrences(recent[:span], o, wanted)
            now = _occurrences(recent[span:], o, wanted)
            p = two_sample_p_value(now, before, rows_now, rows_before)
            candidates += [
                (float(p[i]), o, path, float(now[i]), float(before[i]))
                for i, path in enumerate(found.paths)
            ]
        if not candidates:
            return [], truncated
        q = q_values(np.array([c[0] for c in candidates]), len(candidates))
        best: dict[tuple[int, Cause], Finding] = {}
        for (p_value, o, path, now, before), q_value in zip(candidates, q, strict=True):
            if p_value >= settings.detection.paper_p_value:
                continue
            root = path[0]  # the tail of the path is the suspected root cause
            conditions = ((int(encoding.attribute[root]), int(encoding.number[root])),)
            cause = self._cause(conditions)
            finding = Finding(
                method=Method.PAPER,
                outcome=settings.schema.outcomes[o],
                cause=cause,
                path=tuple(names[node] for node in path),
                score=float(-np.log(max(p_value, 1e-300))),
                p_value=p_value,
                q_value=float(q_value),
                observed=now,
                expected=before,
                rows=int(encoding.gram[root, root]),
                horizon=settings.window.length,
                began=utc(self.window[0].slice.start),
                rate_before=before / max(rows_before, 1),
                rate_now=now / max(rows_now, 1),
            )
            known = best.get((o, cause))
            if known is None or finding.score > known.score:
                best[(o, cause)] = finding
        return sorted(best.values(), key=lambda f: -f.score), truncated

    def _wanted(self, paths: tuple[tuple[int, ...], ...], encoding: Encoding) -> np.ndarray:
        """(paths, attributes) the node number each path asks of an attribute; -2 is any."""
        wanted = np.full((len(paths), len(self.settings.schema.attributes)), -2)
        for i, path in enumerate(paths):
            for node in path[:-1]:
                wanted[i, encoding.attribute[node]] = encoding.number[node]
        return wanted

    # --- names ------------------------------------------------------------------------------

    def _text(self, attribute_index: int, number: int) -> str:
        code = self.nodes.codes[attribute_index][number]
        return OTHER_TEXT if code == OTHER else self.vocabulary.text(attribute_index, code)

    def _cause(self, conditions: Conditions) -> Cause:
        names = self.settings.schema.names
        return Cause.from_json({names[a]: [self._text(a, number)] for a, number in conditions})

    def _names(self, encoding: Encoding) -> list[str]:
        schema = self.settings.schema
        return [
            schema.outcomes[n] if a < 0 else f"{schema.names[a]}={self._text(int(a), int(n))}"
            for a, n in zip(encoding.attribute, encoding.number, strict=True)
        ]

    def _path(
        self,
        o: int,
        conditions: Conditions,
        encoding: Encoding,
        learned: Learned,
        names: list[str],
    ) -> tuple[str, ...]:
        """The cause's values, then the learned mediators, then the outcome."""
        schema = self.settings.schema
        own = sorted(conditions, key=lambda c: (schema.attributes[c[0]].tier, c[0]))
        labels = [f"{schema.names[a]}={self._text(a, n)}" for a, n in own]
        if not own:
            return ("everything", schema.outcomes[o])
        key = {
            (int(a), int(n)): i
            for i, (a, n) in enumerate(zip(encoding.attribute, encoding.number, strict=True))
        }
        last = key.get(own[-1])
        onward = strongest_path(
            () if last is None else (last,), o, learned.weights,
            self.settings.learner.max_path_length,
        )  # fmt: skip
        mediators = [names[node] for node in onward[1:-1] if names[node] not in labels]
        return (*labels, *mediators, schema.outcomes[o])

    def open_incidents(self) -> tuple[Incident, ...]:
        """Those not resolved."""
        return tuple(i for i in self.incidents if i.state is not State.RESOLVED)

    # --- late rows --------------------------------------------------------------------------

    def fold(self, late: Slice) -> bool:
        """Fold late rows into their slice, if it is still in the window.

        The next tick sees them. Returns False when the slice has left.
        """
        for index in range(-len(self.window), 0):
            old = self.window[index]
            if old.slice.start != late.start:
                continue
            merged = merge(old.slice, late)
            local = self.nodes.local(merged.values, merged.start)
            coded = Coded(merged, local, self._score(local, self._slot(merged)))
            sizes = self.nodes.sizes()
            self.gram.add(old, sizes, -1)
            self.gram.add(coded, sizes)
            self.tables.replace(index, coded)
            self.window[index] = coded
            self.failures[index] = _Failures.of(coded)
            return True
        return False


@dataclass(frozen=True, slots=True)
class _Failures:
    """The failed rows of a slice, per outcome: all that path occurrences need."""

    rows: int
    local: tuple[np.ndarray, ...]
    weight: tuple[np.ndarray, ...]

    @staticmethod
    def of(coded: Coded) -> _Failures:
        failed = coded.slice.failed.T
        return _Failures(
            coded.slice.rows,
            tuple(coded.local[hit] for hit in failed),
            tuple(coded.slice.weight[hit] for hit in failed),
        )


def _occurrences(failures: list[_Failures], o: int, wanted: np.ndarray) -> np.ndarray:
    """Failed rows in which every value of a path occurs, (paths,)."""
    local = np.concatenate([f.local[o] for f in failures])
    weight = np.concatenate([f.weight[o] for f in failures])
    hit = np.ones((len(local), len(wanted)), bool)
    for a in range(wanted.shape[1]):
        asked = wanted[:, a]
        if (asked == -2).all():
            continue
        hit &= (local[:, a][:, None] == asked[None, :]) | (asked == -2)[None, :]
    return np.asarray(weight @ hit.astype(float))


class _Stopwatch:
    """Wall time by stage: reported, never decided upon."""

    def __init__(self) -> None:
        self._last = perf_counter()
        self.seconds: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        now = perf_counter()
        self.seconds[stage] = now - self._last
        self._last = now

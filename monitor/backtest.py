"""A replay of a bounded input, tick by tick, that can be interrupted and goes on."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from monitor import __version__
from monitor.config import Config
from monitor.diagnosis import Tick
from monitor.domain import Incident, Method, Rejected, Settings, utc
from monitor.edge.documents import incident_summary
from monitor.edge.files import STDIN, FileSource
from monitor.edge.report import Backtest, Series
from monitor.edge.store import IncidentQuery, Store, open_store
from monitor.recording import Moment, Recorder
from monitor.replay import Input, gather
from monitor.scoring import Scores, read_labels, read_quiet_days, score
from monitor.session import Session
from monitor.vocabulary import Vocabulary

QUIET_DAYS = "quiet_days.csv"

COMMITTED = timedelta(days=1)
"""A killed replay loses at most so much of the log's time in work, and never a result."""


def replay(
    data: Input, session: Session, on_tick: Callable[[Tick], None] = lambda tick: None
) -> None:
    """Tick through every slice that the session has not seen yet.

    Args:
        data: the whole input.
        session: fresh, or restored from an interrupted run over the same input.
        on_tick: told of every tick.

    """
    window = session.settings.window
    at_once = window.slices_in(COMMITTED)
    if session.last_slice is None:
        session.reject(data.rejected)
    for ticks, piece in enumerate(data.slices(window, after=session.last_slice), 1):
        tick = session.tick(piece)
        if ticks % at_once == 0:
            session.commit()
        on_tick(tick)
    session.commit()


def run_key(settings: Settings, inputs: Sequence[Path], *more: object) -> str:
    """Names the state of a replay: the same run finds it again, any other one does not."""
    files = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in inputs]
    text = repr((__version__, settings, files, more))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def incidents_of(store: Store, method: Method) -> list[Incident]:
    """All incidents of a method, in the order they opened."""
    return sorted(
        store.incidents(IncidentQuery(method=method.value)), key=lambda i: (i.opened_at, i.id)
    )


def quiet_ticks(data: Input, settings: Settings, incidents: Iterable[Incident]) -> int:
    """Ticks at which none of the incidents was open."""
    spans = [(i.opened_at, i.resolved_at) for i in incidents]
    length: timedelta = settings.window.slice_length
    count = 0
    for piece in data.slices(settings.window):
        at: datetime = utc(piece.start) + length
        count += not any(start <= at and (end is None or at < end) for start, end in spans)
    return count


def report(
    data: Input,
    settings: Settings,
    incidents: dict[Method, list[Incident]],
    scores: dict[Method, Scores],
) -> dict[str, Any]:
    """The JSON document of a backtest: equal runs give equal bytes, so no clock is in it."""
    chosen = settings.detection.report
    mine = incidents[chosen]
    return {
        "version": __version__,
        "rows": data.rows,
        "rejected": data.rejected_rows,
        "ticks": data.count_slices(settings.window),
        "quiet_ticks": quiet_ticks(data, settings, mine),
        "incidents": [incident_summary(i) for method in incidents for i in incidents[method]],
        "scores": scores_document(scores[chosen]) if chosen in scores else None,
        "methods": {m.value: scores_document(s) for m, s in scores.items()},
    }


def scores_document(scores: Scores) -> dict[str, Any]:
    """Scores as JSON."""
    return {
        "recall_at_1": scores.recall_at_1,
        "recall_any": scores.recall_any,
        "exact": scores.exact,
        "mean_delay_ticks": scores.mean_delay_ticks,
        "false_alarms_per_week": scores.false_alarms_per_week,
        "precision": scores.precision,
        "quiet_days": scores.quiet_days,
        "quiet_days_alarmed": scores.quiet_days_alarmed,
        "cases": [
            {
                "id": case.label.id,
                "outcome": case.label.outcome,
                "right_first": case.right_first,
                "right_any": case.right_any,
                "reported": [i.id for i in case.reported],
            }
            for case in scores.cases
        ],
    }


class Progress(Protocol):
    """Told how far a backtest is."""

    def begin(self, ticks: int, done: int) -> None:
        """The input is read: so many ticks, some done by an earlier run."""
        ...

    def tick(self, tick: Tick) -> None:
        """One more tick."""
        ...


class Silent:
    """Progress for nobody."""

    def begin(self, ticks: int, done: int) -> None:
        """See `Progress`."""

    def tick(self, tick: Tick) -> None:
        """See `Progress`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished backtest."""

    document: dict[str, Any]
    incidents: dict[Method, list[Incident]]
    scores: dict[Method, Scores]
    """Empty without labels and quiet days."""
    rejected: tuple[str, ...]
    """Reasons, with the first example of each; also of rows that were kept in doubt."""
    told: Backtest
    """What the HTML report is made of."""


def run(
    config: Config,
    inputs: Sequence[str],
    *,
    now: datetime,
    state: Path,
    since: datetime | None = None,
    until: datetime | None = None,
    labels: Path | None = None,
    quiet_days: Path | None = None,
    fresh: bool = False,
    keep: Path | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Replay `inputs` under `config` and score the incidents of both methods.

    Args:
        config: checked.
        inputs: files or globs.
        now: the clock; bounds rows from the future.
        state: folder for the state of an interrupted run; empty again after a finished one.
        since, until: half-open range of event time.
        labels, quiet_days: the truth, if known; quiet days default to the file by the labels.
        fresh: forget an interrupted run.
        keep: leave the store in this file when done.
        progress: told of every tick.

    Raises:
        SourceError, StoreError, LabelError: each says what to mend.
    """
    progress = progress or Silent()
    settings = _with_both_methods(config.settings)
    zone, window = settings.window.zone, settings.window
    truth = read_labels(labels, zone) if labels else ()
    if quiet_days is None and labels is not None and (labels.parent / QUIET_DAYS).exists():
        quiet_days = labels.parent / QUIET_DAYS
    quiet = read_quiet_days(quiet_days) if quiet_days else ()
    probe = FileSource(config, Vocabulary(settings.schema), inputs, follow=False)
    files = [Path(path) for path in probe.files() if path != STDIN]
    path = state / f"backtest-{run_key(settings, files, config.reading, since, until)}.db"
    state.mkdir(parents=True, exist_ok=True)
    if fresh or len(files) < len(probe.files()):  # standard input cannot be read again
        _forget(path)
    store = open_store(f"sqlite:///{path}")
    try:
        columns = config.console.example_columns
        session = Session(settings, store, keep=None, example_columns=columns)
        told = None
        if session.last_slice is not None:
            told = utc(session.last_slice) + window.slice_length
        recorder = Recorder(path.with_suffix(".jsonl"), told)
        source = FileSource(config, session.vocabulary, inputs, follow=False)
        data = gather(source.batches(), settings.schema, window, now, since=since, until=until)
        if session.last_slice is None:
            session.commit()  # the vocabulary, so that a resumed run has the same codes
        progress.begin(data.count_slices(window), data.done(window, session.last_slice))

        def on_tick(tick: Tick) -> None:
            recorder.add(tick, session.monitor)
            progress.tick(tick)

        try:
            replay(data, session, on_tick)
        finally:
            recorder.close()
        methods = (settings.detection.report, *settings.detection.compare)
        incidents = {method: incidents_of(store, method) for method in methods}
    finally:
        store.close()
    path.with_suffix(".jsonl").unlink(missing_ok=True)
    if keep is not None:
        path.rename(keep)
    else:
        _forget(path)
    scores = {}
    if (truth or quiet) and data.rows:
        span = utc(data.starts[0]), utc(data.starts[-1]) + window.slice_length
        scores = {
            method: score(found, truth, quiet, zone, window.slice_length, span)
            for method, found in incidents.items()
        }
    examples: dict[str, str] = {}
    for one in data.rejected:
        if one.result in ("rejected", "kept"):
            shown = f"{one.result}: {one.reason}: {one.where}: {one.detail}"
            examples.setdefault(one.reason, shown)
    return Outcome(
        report(data, settings, incidents, scores),
        incidents,
        scores,
        tuple(examples.values()),
        Backtest(
            config=config,
            inputs=inputs,
            rows=data.rows,
            rejected=_by_reason(data.rejected),
            series=_series(recorder.moments, len(settings.schema.outcomes)),
            incidents=incidents,
            scores=scores,
            quiet_days=quiet,
        ),
    )


def _by_reason(rejected: Iterable[Rejected]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in rejected:
        if one.result == "rejected":
            counts[one.reason] += one.count
    return dict(sorted(counts.items()))


def _series(moments: Sequence[Moment], outcomes: int) -> Series:
    return Series(
        at=[m.at for m in moments],
        learning=[m.learning for m in moments],
        gap=[m.gap for m in moments],
        observed=[[m.observed[o] for m in moments] for o in range(outcomes)],
        expected=[[m.expected[o] for m in moments] for o in range(outcomes)],
        scores=[[m.scores[o] for m in moments] for o in range(outcomes)],
        p_values=[m.p_values for m in moments],
    )


def _with_both_methods(settings: Settings) -> Settings:
    detection = settings.detection
    others = tuple(method for method in Method if method is not detection.report)
    return replace(settings, detection=replace(detection, compare=others))


def _forget(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.with_suffix(".jsonl").unlink(missing_ok=True)

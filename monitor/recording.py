"""What every tick of a replay said, kept beside its state, for the report at the end.

One JSON line a tick: a replay that is interrupted and goes on has them all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

import numpy as np

from monitor.diagnosis import Monitor, Tick
from monitor.domain import Finding
from monitor.significance import spread_p_values

BINS = 20
"""Of the p-values."""

LEAST_EXPECTED = 1.0
"""Failures expected in a cell before its p-value says anything."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One tick."""

    at: datetime
    rows: int
    learning: bool
    gap: bool
    observed: tuple[int, ...]
    """By outcome."""
    expected: tuple[float, ...]
    scores: tuple[float, ...]
    """The best finding's, by outcome; 0 without a finding."""
    p_values: tuple[int, ...]
    """(BINS,) cells of the newest slice by their p-value; empty while learning."""


class Recorder:
    """Writes moments while a replay runs.

    Args:
        path: of the file; made anew, or gone on with.
        until: end of the newest slice of which the replay's state tells; None begins anew.
    """

    def __init__(self, path: Path, until: datetime | None) -> None:
        self.moments: list[Moment] = []
        if until is not None and path.exists():
            for line in path.read_text("utf-8").splitlines():
                try:
                    moment = _read(line)
                except (ValueError, TypeError):
                    break  # torn by a kill
                if moment.at <= until:
                    self.moments.append(moment)
        self._file: IO[str] = path.open("w", encoding="utf-8")
        for moment in self.moments:
            self._write(moment)

    def add(self, tick: Tick, monitor: Monitor) -> None:
        """One more tick; the monitor as it left it."""
        diagnosis, report = tick.diagnosis, monitor.settings.detection.report
        mine = [f for f in diagnosis.findings if f.method is report]
        moment = Moment(
            diagnosis.at,
            diagnosis.rows,
            diagnosis.learning,
            diagnosis.gap,
            tuple(count.observed for count in diagnosis.outcomes),
            tuple(round(count.expected, 4) for count in diagnosis.outcomes),
            tuple(_best(mine, count.outcome) for count in diagnosis.outcomes),
            () if diagnosis.learning else _p_values(monitor, len(self.moments)),
        )
        self.moments.append(moment)
        self._write(moment)

    def _write(self, moment: Moment) -> None:
        fields = (getattr(moment, name) for name in Moment.__slots__)
        row = [f.isoformat() if isinstance(f, datetime) else f for f in fields]
        self._file.write(json.dumps(row, separators=(",", ":")) + "\n")
        self._file.flush()

    def close(self) -> None:
        """No more will come."""
        self._file.close()


def _read(line: str) -> Moment:
    at, rows, learning, gap, *lists = json.loads(line)
    observed, expected, scores, p_values = map(tuple, lists)
    return Moment(
        datetime.fromisoformat(at), rows, learning, gap, observed, expected, scores, p_values
    )


def _best(findings: list[Finding], outcome: str) -> float:
    scores = [f.score for f in findings if f.outcome == outcome and f.fresh]
    return round(float(min(max(scores, default=0.0), 1e6)), 3)


def p_values(monitor: Monitor, o: int, h: int, rng: np.random.Generator) -> np.ndarray:
    """p-values of "everything" and of single values as a tick left them; uniform in quiet times.

    Args:
        monitor: which has a baseline.
        o, h: indices of the outcome and the horizon.
        rng: spreads whole numbers (`spread_p_values`).
    """
    tables = monitor.tables
    singles = tables.layout.singles
    expected, observed = tables.expected[h, o][:singles], tables.observed[h, o][:singles]
    cells = np.flatnonzero(expected >= LEAST_EXPECTED)
    if not len(cells):
        return np.zeros(0)
    order = np.minimum(tables.layout.block_of(cells), 1)
    scatter = monitor.dispersion.of(o, tables.layout)
    by_horizon = tables.expected[:, o][:, cells]
    size = scatter.sizes_of(by_horizon, cells, order, tables.layout.parents(cells))[h]
    return spread_p_values(observed[cells], expected[cells], size, rng)


def _p_values(monitor: Monitor, seed: int) -> tuple[int, ...]:
    """Of "everything" and of single values in the newest slice, over all outcomes."""
    counts, rng = np.zeros(BINS, np.int64), np.random.default_rng(seed)
    for o in range(len(monitor.settings.schema.outcomes)):
        counts += np.histogram(p_values(monitor, o, 0, rng), BINS, (0, 1))[0]
    return tuple(counts.tolist())

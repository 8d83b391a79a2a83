"""Are p-values on quiet data uniform? Collected while a replay runs, drawn as SVG.

How they are spread is told in `monitor.significance.spread_p_values`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from benchmarks._figure import COLOURS
from monitor.diagnosis import Monitor, Tick
from monitor.recording import BINS, p_values

SIZE, MARGIN = 320, 50


class Calibration:
    """Histograms of p-values, by horizon; each horizon is looked at once it has passed.

    Args:
        quiet: local days without any anomaly; None takes every tick.
        zone: of those days.
    """

    def __init__(self, quiet: Collection[date] | None, zone: str) -> None:
        self._quiet, self._zone = quiet, ZoneInfo(zone)
        self._rng = np.random.default_rng(0)
        self._ticks = 0
        self.counts: dict[str, np.ndarray] = {}
        """Horizon in hours → (BINS,)"""
        self.small: dict[str, list[int]] = {}
        """Horizon in hours → cells, and how many had p < 0.001."""

    def __call__(self, monitor: Monitor, tick: Tick) -> None:
        """Look at the tables as a tick left them."""
        self._ticks += 1
        if monitor.baseline is None or tick.diagnosis.learning:
            return
        length = monitor.settings.window.slice_length
        tables = monitor.tables
        for h, span in enumerate(tables.horizons):
            if self._ticks % max(span, 4) or not self._is_quiet(tick, span * length):
                continue
            for o in range(len(monitor.settings.schema.outcomes)):
                p = p_values(monitor, o, h, self._rng)
                if len(p):
                    self._add(f"{span * length / timedelta(hours=1):g} h", p)

    def _is_quiet(self, tick: Tick, span: timedelta) -> bool:
        if self._quiet is None:
            return True
        ends = tick.diagnosis.at
        days = {(ends - span).astimezone(self._zone).date()}
        days.add((ends - timedelta(seconds=1)).astimezone(self._zone).date())
        return all(day in self._quiet for day in days)

    def _add(self, name: str, p: np.ndarray) -> None:
        counts, _ = np.histogram(p, BINS, (0, 1))
        self.counts[name] = self.counts.get(name, np.zeros(BINS, np.int64)) + counts
        seen, small = self.small.get(name, [0, 0])
        self.small[name] = [seen + len(p), small + int((p < 1e-3).sum())]

    def document(self) -> dict[str, object]:
        """As JSON."""
        return {
            "counts": {name: counts.tolist() for name, counts in self.counts.items()},
            "small": self.small,
        }


def joined(documents: Collection[Mapping[str, dict[str, list[int]]]]) -> dict[str, np.ndarray]:
    """Histograms of several replays together."""
    out: dict[str, np.ndarray] = {}
    for document in documents:
        for name, counts in document["counts"].items():
            out[name] = out.get(name, np.zeros(BINS, np.int64)) + np.array(counts)
    return out


def distance(counts: np.ndarray) -> float:
    """Largest distance of the distribution from the uniform one, at the bins' edges."""
    share = np.cumsum(counts) / max(counts.sum(), 1)
    return float(np.abs(share - np.arange(1, BINS + 1) / BINS).max())


def picture(sets: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    """Distribution of p on quiet data against the uniform one (the diagonal); SVG text."""
    width = MARGIN + len(sets) * (SIZE + MARGIN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {SIZE + 3 * MARGIN}" '
        f'width="{width}" height="{SIZE + 3 * MARGIN}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for s, (title, by_horizon) in enumerate(sets.items()):
        left, top = MARGIN + s * (SIZE + MARGIN), MARGIN
        parts += [
            f'<text x="{left}" y="{top - 14}" font-size="13">{title}</text>',
            f'<rect x="{left}" y="{top}" width="{SIZE}" height="{SIZE}" fill="none" '
            'stroke="#999"/>',
            f'<path d="M{left} {top + SIZE}L{left + SIZE} {top}" stroke="#999" '
            'stroke-dasharray="4 3"/>',
            f'<text x="{left + SIZE / 2}" y="{top + SIZE + 16}" text-anchor="middle">p</text>',
        ]
        for i, (name, counts) in enumerate(by_horizon.items()):
            share = np.concatenate([[0.0], np.cumsum(counts) / max(counts.sum(), 1)])
            points = "L".join(
                f"{left + SIZE * x / BINS:.1f} {top + SIZE * (1 - y):.1f}"
                for x, y in enumerate(share)
            )
            colour = COLOURS[i % len(COLOURS)]
            parts += [
                f'<path d="M{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
                f'<text x="{left + 8 + (i % 3) * 104}" y="{top + SIZE + 36 + 16 * (i // 3)}" '
                f'fill="{colour}">{name}, D = {distance(counts):.3f}</text>',
            ]
    return "\n".join([*parts, "</svg>"]) + "\n"

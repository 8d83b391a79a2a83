"""How much a leaf scatters when nothing is wrong, read from the leaves themselves.

A leaf of volume m deviates by d = 2·(observed − expected)/(observed + expected), in [−2, 2], with
variance σ² + φ/m: a relative scatter of its own, and one that fades with volume as counts do.
Causes mostly pull to one side, so the quieter side speaks for the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

QUANTILES = ((0.5, 0.6745), (0.3, 0.3853))
"""Of |d|, and where the half-normal distribution has them: causes may fill up to half a side."""
LEAST_ON_A_SIDE = 20
LEAST_SCATTER = 0.01
WITHOUT_LEAVES = 0.1
FADING = 0.25
"""Below this share of σ², the part that fades with volume is put down to chance."""
CLIP = 3.0
UNIT_QUANTILE = 0.4549
"""Median of a squared standard normal."""


@dataclass(frozen=True, slots=True)
class Noise:
    """σ and φ."""

    scatter: float
    fading: float

    def of(self, volume: np.ndarray) -> np.ndarray:
        """Standard deviation of d for leaves of such volume."""
        spread: np.ndarray = np.sqrt(self.scatter**2 + self.fading / np.maximum(volume, 1e-300))
        return spread


def deviations(observed: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """d of every leaf (0 where nothing was seen nor expected), and its volume m."""
    volume = (observed + expected) / 2
    d: np.ndarray = np.where(
        volume > 0, (observed - expected) / np.where(volume > 0, volume, 1.0), 0.0
    )
    return d, volume


def measure(d: np.ndarray, volume: np.ndarray) -> Noise:
    """Noise of a table of which a part is in trouble."""
    if len(d) < 4 * LEAST_ON_A_SIDE:
        return Noise(_quiet_side(d), 0.0)
    big = volume >= np.median(volume)
    scatter, above = _quiet_side(d[big]), _quiet_side(d[~big])
    if above**2 - scatter**2 <= FADING * scatter**2:
        return Noise(_quiet_side(d), 0.0)
    return Noise(scatter, float((above**2 - scatter**2) / np.mean(1 / volume[~big])))


def remeasure(d: np.ndarray, noise: Noise, volume: np.ndarray) -> Noise:
    """σ anew, from leaves that no cause explains; outliers are clipped."""
    if len(d) < LEAST_ON_A_SIDE:
        return noise
    z = np.clip(d / noise.of(volume), -CLIP, CLIP)
    factor = float(np.sqrt(np.mean(z**2)))
    return Noise(max(noise.scatter * factor, LEAST_SCATTER), noise.fading * factor**2)


def _quiet_side(d: np.ndarray) -> float:
    sides = [side for side in (d[d > 0], -d[d < 0]) if len(side) >= LEAST_ON_A_SIDE]
    if not sides:
        middle = np.quantile(np.abs(d), QUANTILES[1][0]) / QUANTILES[1][1] if len(d) else 0.0
        return float(middle) if middle > LEAST_SCATTER else WITHOUT_LEAVES
    # where most leaves are exactly as expected, that is their noise
    if np.mean(d == 0) > 0.5:
        return LEAST_SCATTER
    scales = [np.quantile(side, q) / at for side in sides for q, at in QUANTILES]
    return float(max(min(scales), LEAST_SCATTER))


def relative_scatter(observed: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """Over-dispersion of counts: φ ≥ 1 and s, in variance = φ·E + s²·E².

    Both from medians, so that the leaves in trouble may be many.
    """
    level = observed.sum() / max(expected.sum(), 1e-9)
    fair = np.maximum(expected * level, 1e-9)
    seen = expected > 1
    if seen.sum() < 8:
        return 1.0, 0.0
    # A table may be in trouble in so many leaves that its own level isn't the usual one.
    z = min(
        float(np.median((observed - mean)[seen] ** 2 / np.maximum(mean[seen], 0.25)))
        for mean in (fair, expected)
    )
    large = expected > 20
    if large.sum() < LEAST_ON_A_SIDE:
        return max(1.0, z / UNIT_QUANTILE), 0.0
    centre = float(np.median(observed[large] / expected[large]))
    mean = np.maximum(expected[large] * centre, 1e-9)
    r = (observed[large] - mean) ** 2 / mean
    # var/mean = 1 + s²·mean; one bisection on s², on which the median depends monotonically
    low, high = 0.0, 4.0
    for _ in range(40):
        s2 = (low + high) / 2
        if np.median(r / (1 + s2 * mean)) > UNIT_QUANTILE:
            low = s2
        else:
            high = s2
    return 1.0, float(np.sqrt(high)) if high > 1e-6 else 0.0

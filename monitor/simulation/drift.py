"""How the world wanders: error rates and volume that drift without any incident.

Every attribute value and every step as a whole carries a log-multiplier that reverts to
its mean within hours, plus a part that is new in every slice. Together they make failures
over-dispersed by 10-20 % per half hour (30 % for some values), as in real logs; a detector
that believes in Poisson counts drowns in false alarms here, as it should.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

SLICES_PER_DAY = 48
_MEMORY_SLICES = 12.0  # e-folding time of the slow part: six hours
_SLOW_SHARE = 0.7  # of the variance
_TYPICAL, _RESTLESS, _RESTLESS_SHARE = 0.10, 0.30, 0.08
_OVERALL = 0.10
_VOLUME = 0.06


@dataclass(frozen=True, slots=True)
class Drift:
    """Log-multipliers of one day; any day can be computed alone.

    The process is a first-order autoregression whose memory is cut after two days, where
    e^-8 of it is left; so a day depends on its own noise and that of the two days before.
    """

    seed: int
    values: int
    steps: int

    def deviation(self) -> np.ndarray:
        """Standard deviation of the log-multiplier: (values + 1, steps); the last is overall."""
        rng = np.random.default_rng(np.random.SeedSequence((self.seed, 1)))
        spread = np.clip(rng.lognormal(np.log(_TYPICAL), 0.3, self.values), 0.05, 0.18)
        spread[rng.random(self.values) < _RESTLESS_SHARE] = _RESTLESS
        return np.repeat(np.append(spread, _OVERALL)[:, None], self.steps, axis=1)

    def rates(self, day: int) -> np.ndarray:
        """Multipliers of the failure rates of one day: (slices, values + 1, steps), mean 1."""
        return _rates(self, day)

    def volume(self, day: int) -> np.ndarray:
        """Multiplier of the traffic of one day: (slices,), mean 1."""
        shocks = [_shocks(self.seed, 3, d, (1,)) for d in (day - 2, day - 1, day)]
        return np.asarray(np.exp(_VOLUME * _slow(shocks)[:, 0] - _VOLUME**2 / 2))


def _shocks(seed: int, stream: int, day: int, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal noise of one day: (slices, *shape) float32."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, stream, day)))
    return rng.standard_normal((SLICES_PER_DAY, *shape), dtype=np.float32)


@lru_cache(maxsize=8)
def _rate_shocks(seed: int, day: int, values: int, steps: int) -> np.ndarray:
    # Two streams in one array: the slow part and the part that is new in every slice.
    return _shocks(seed, 2, day, (2, values, steps))


def _slow(shocks: list[np.ndarray]) -> np.ndarray:
    """Mean-reverting unit-variance noise of the last of three days."""
    keep = np.float32(np.exp(-1.0 / _MEMORY_SLICES))
    past = np.concatenate(shocks[:2])
    fade = keep ** np.arange(len(past) - 1, -1, -1, dtype=np.float32)
    state = np.tensordot(fade, past, axes=1)
    path = np.empty_like(shocks[2])
    for i, shock in enumerate(shocks[2]):
        state = keep * state + shock
        path[i] = state
    return np.asarray(np.sqrt(1 - keep**2) * path)


@lru_cache(maxsize=4)
def _rates(drift: Drift, day: int) -> np.ndarray:
    size = drift.values + 1
    shocks = [_rate_shocks(drift.seed, d, size, drift.steps) for d in (day - 2, day - 1, day)]
    slow = _slow([s[:, 0] for s in shocks])
    spread = drift.deviation().astype(np.float32)
    noise = np.sqrt(_SLOW_SHARE) * slow + np.sqrt(1 - _SLOW_SHARE) * shocks[2][:, 1]
    return np.asarray(np.exp(spread * noise - spread**2 / 2))

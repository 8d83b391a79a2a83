"""Encoding → graph: LEAST at every tick, warm-started from the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from monitor.encoding import Encoding


@dataclass(frozen=True, slots=True)
class Learned:
    """The graph of one tick."""

    weights: np.ndarray  # (d, d) in the encoding's order; W[i, j] is i → j
    status: str
    steps: int
    delta: float

    @staticmethod
    def nothing(encoding: Encoding) -> Learned:
        """No graph: used where only the counts are wanted."""
        d = len(encoding.number)
        return Learned(np.zeros((d, d), np.float32), "skipped", 0, 0.0)


class Learner(Protocol):
    """Learns a graph from a window."""

    def learn(self, encoding: Encoding) -> Learned:
        """The graph over the encoding's nodes."""
        ...

"""Encoding → graph: LEAST, warm-started from the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse.csgraph import connected_components

from monitor.domain import LearnerSettings, Schema
from monitor.encoding import Encoding, correlation


@dataclass(frozen=True, slots=True)
class Learned:
    """The graph of one tick."""

    weights: np.ndarray  # (d, d) in the encoding's order; W[i, j] is i → j; weak edges are zero
    status: str
    steps: int
    delta: float

    @staticmethod
    def nothing(encoding: Encoding) -> Learned:
        """No graph: used where only the counts are wanted."""
        d = len(encoding.number)
        return Learned(np.zeros((d, d), np.float32), "skipped", 0, 0.0)


class Learner(Protocol):
    """Learns a graph from a window, and remembers where it left off."""

    def learn(self, encoding: Encoding) -> Learned:
        """The graph over the encoding's nodes."""
        ...

    def recall(self, encoding: Encoding) -> Learned | None:
        """The last graph over these nodes, not learned anew; None: there is none yet."""
        ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything needed to go on from here."""
        ...

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Inverse of `to_arrays`."""
        ...


def allowed_edges(encoding: Encoding, schema: Schema, tiers: bool) -> np.ndarray:
    """(d, d) bool: within a tier or to a later one, never back; never between two values of one
    attribute; never out of an outcome. Without tiers only the last two hold.
    """
    attribute = encoding.attribute
    outcome = attribute < 0
    allowed = attribute[:, None] != attribute[None, :]
    allowed &= ~outcome[:, None]
    if tiers:
        of = np.array([a.tier for a in schema.attributes])
        tier = np.where(outcome, np.iinfo(np.int32).max, of[np.maximum(attribute, 0)])
        allowed &= tier[:, None] <= tier[None, :]
    return np.asarray(allowed)


def cut_cycles(weights: np.ndarray) -> np.ndarray:
    """The graph without the weakest edge of any cycle that is left in it.

    The paper raises one threshold for the whole graph until it is acyclic; a strong cycle among
    cities would then cost every weaker edge into the outcomes.
    """
    weights = weights.copy()
    while True:
        count, component = connected_components(weights != 0, directed=True, connection="strong")
        if count == len(weights):
            return weights
        size = np.bincount(component, minlength=count)
        for c in np.flatnonzero(size > 1):
            inside = np.flatnonzero(component == c)
            block = np.abs(weights[np.ix_(inside, inside)])
            block[block == 0] = np.inf
            i, j = np.unravel_index(int(np.argmin(block)), block.shape)
            weights[inside[i], inside[j]] = 0


class LeastLearner:
    """LEAST-TF on the window's correlation matrix.

    The last graph is the next one's start: between two fits nearly all slices are the same. It is
    remembered node by node, so that nodes may come and go.
    """

    def __init__(self, schema: Schema, settings: LearnerSettings) -> None:
        from least import dense, problem

        self._fit = dense.fit_gram
        self._schema, self._settings = schema, settings
        self._warm = problem.Options.monitor().but(
            l1=settings.l1, inner_steps=settings.warm_steps, learning_rate=settings.learning_rate
        )
        self._cold = self._warm.but(inner_steps=settings.cold_steps)
        self._key = np.empty(0, np.int64)
        self._weights = np.empty((0, 0), np.float32)
        self._status, self._delta = "skipped", 0.0

    def learn(self, encoding: Encoding) -> Learned:
        """See `Learner`. Edges weaker than the threshold, or that would close a cycle, are cut."""
        key = _keys(encoding)
        start, options = self._start(key)
        fit = self._fit(
            correlation(encoding.gram, encoding.rows),
            allowed_edges(encoding, self._schema, self._settings.tiers),
            start,
            options,
        )
        self._key, self._weights = key, fit.weights
        self._status, self._delta = fit.status.value, fit.delta
        return Learned(self._graph(fit.weights), self._status, fit.steps, fit.delta)

    def recall(self, encoding: Encoding) -> Learned | None:
        """See `Learner`. Nodes that are new since the fit have no edges; it took no steps."""
        if not len(self._key):
            return None
        weights = self._graph(self._last(_keys(encoding)))
        return Learned(weights, self._status, 0, self._delta)

    def _graph(self, weights: np.ndarray) -> np.ndarray:
        strong = np.abs(weights) > self._settings.threshold
        return cut_cycles(np.where(strong, weights, np.float32(0)))

    def _start(self, key: np.ndarray):  # type: ignore[no-untyped-def]
        return (self._last(key), self._warm) if len(self._key) else (None, self._cold)

    def _last(self, key: np.ndarray) -> np.ndarray:
        """The last weights between these nodes."""
        _, old, new = np.intersect1d(self._key, key, assume_unique=True, return_indices=True)
        weights = np.zeros((len(key), len(key)), np.float32)
        weights[np.ix_(new, new)] = self._weights[np.ix_(old, old)]
        return weights

    def to_arrays(self) -> dict[str, np.ndarray]:
        """See `Learner`."""
        return {
            "key": self._key,
            "weights": self._weights,
            "status": np.array(self._status),
            "delta": np.array(self._delta),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """See `Learner`."""
        self._key, self._weights = arrays["key"], arrays["weights"]
        if "status" in arrays:  # older stores went without: they learned at every tick
            self._status, self._delta = str(arrays["status"]), float(arrays["delta"])


def _keys(encoding: Encoding) -> np.ndarray:
    """One number per node that stays the same from tick to tick."""
    return np.asarray((encoding.attribute.astype(np.int64) + 1) << 32 | encoding.number)

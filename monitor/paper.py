"""The paper's own method: paths into an error node, more often in T than in T′.

Kept true to the paper, so that it can be compared: the occurrences of each path are counted in
both windows, a two-sample test gives a p-value, and the tail of a significant path is the root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.domain import Finding, Method, Settings, utc
from monitor.encoding import Coded, Encoding
from monitor.naming import Naming
from monitor.paths import paths_into
from monitor.significance import q_values, two_sample_p_value

ANY = -2
"""A path asks nothing of this attribute."""


@dataclass(frozen=True, slots=True)
class Failures:
    """The failed rows of a slice, per outcome: all that path occurrences need."""

    rows: int
    local: tuple[np.ndarray, ...]  # per outcome (f, attributes)
    weight: tuple[np.ndarray, ...]  # per outcome (f,)

    @staticmethod
    def of(coded: Coded) -> Failures:
        """The failed rows of a coded slice."""
        failed = coded.slice.failed.T
        return Failures(
            coded.slice.rows,
            tuple(coded.local[hit] for hit in failed),
            tuple(coded.slice.weight[hit] for hit in failed),
        )


@dataclass(frozen=True, slots=True)
class PaperVerdict:
    """What the paper's method says at one tick."""

    findings: tuple[Finding, ...]
    """The strongest path of every root and outcome, best first."""
    truncated: bool
    """There were more paths than the bound allows."""


def significant_paths(
    failures: Sequence[Failures],
    encoding: Encoding,
    weights: np.ndarray,
    window_start: np.datetime64,
    settings: Settings,
    naming: Naming,
    names: list[str],
) -> PaperVerdict:
    """Test every path into an outcome.

    Args:
        failures: of T′ then T, oldest first; fewer slices than that give no verdict.
        encoding: nodes of T.
        weights: (d, d) the learned graph over them.
        window_start: start of T.
        settings: bounds on paths, p-value threshold.
        naming, names: how nodes are called.
    """
    span = settings.window.slices
    if len(failures) < 2 * span:
        return PaperVerdict((), False)
    before, now = failures[:span], failures[span:]
    rows_before, rows_now = (sum(f.rows for f in part) for part in (before, now))
    truncated = False
    tested: list[tuple[float, int, tuple[int, ...], float, float]] = []
    for o in range(len(settings.schema.outcomes)):
        found = paths_into(
            o, weights, encoding, settings.learner.max_paths, settings.learner.max_path_length
        )
        truncated |= found.truncated
        if not found.paths:
            continue
        wanted = _wanted(found.paths, encoding, len(settings.schema.attributes))
        counts = _occurrences(now, o, wanted), _occurrences(before, o, wanted)
        p_values = two_sample_p_value(*counts, rows_now, rows_before)
        tested += [
            (float(p), o, path, float(k), float(k0))
            for p, path, k, k0 in zip(p_values, found.paths, *counts, strict=True)
        ]
    q = q_values(np.array([p for p, *_ in tested]), len(tested))
    best: dict[tuple[int, int], Finding] = {}
    for (p, o, path, k, k0), q_value in zip(tested, q, strict=True):
        if p >= settings.detection.paper_p_value:
            continue
        root = path[0]
        score = -float(np.log(max(p, 1e-300)))
        if (o, root) in best and score <= best[o, root].score:
            continue
        best[o, root] = Finding(
            method=Method.PAPER,
            outcome=settings.schema.outcomes[o],
            cause=naming.cause(((int(encoding.attribute[root]), (int(encoding.number[root]),)),)),
            path=tuple(names[node] for node in path),
            score=score,
            p_value=p,
            q_value=float(q_value),
            observed=k,
            expected=k0,
            rows=int(encoding.gram[root, root]),
            horizon=settings.window.length,
            began=utc(window_start),
            rate_before=k0 / max(rows_before, 1),
            rate_now=k / max(rows_now, 1),
        )
    return PaperVerdict(tuple(sorted(best.values(), key=lambda f: -f.score)), truncated)


def _wanted(paths: Sequence[tuple[int, ...]], encoding: Encoding, attributes: int) -> np.ndarray:
    """(paths, attributes) the node number that each path asks of an attribute, or ANY."""
    wanted = np.full((len(paths), attributes), ANY)
    for i, path in enumerate(paths):
        for node in path[:-1]:
            wanted[i, encoding.attribute[node]] = encoding.number[node]
    return wanted


def _occurrences(failures: Sequence[Failures], o: int, wanted: np.ndarray) -> np.ndarray:
    """Failed rows in which every value of a path occurs, (paths,)."""
    local = np.concatenate([f.local[o] for f in failures])
    weight = np.concatenate([f.weight[o] for f in failures])
    hit = np.ones((len(local), len(wanted)), bool)
    for a in range(wanted.shape[1]):
        asked = wanted[:, a]
        asking = np.flatnonzero(asked != ANY)
        if len(asking):
            hit[:, asking] &= local[:, a][:, None] == asked[asking][None, :]
    return np.asarray(weight @ hit.astype(float))

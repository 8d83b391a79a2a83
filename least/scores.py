"""How near a learned graph is to the true one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Scores:
    """Counts and rates of a learned directed graph against the true one.

    Definitions as in the NOTEARS benchmark. An edge learned against its direction is `reversed`,
    not `extra`. `f1` is directed; `skeleton_f1` ignores directions.
    """

    right: int
    """Learned edges that are true, direction included."""
    reversed: int
    """Learned edges whose opposite is true."""
    extra: int
    """Learned edges between nodes that are not neighbours."""
    missing: int
    """True edges learned in neither direction."""
    learned: int
    true: int
    shd: int
    """Structural Hamming distance: extra + missing + reversed, over pairs of nodes."""
    f1: float
    skeleton_f1: float
    fdr: float
    """(reversed + extra) / learned; 0 if nothing was learned."""
    tpr: float
    """right / true; 1 if there is nothing to find."""
    fpr: float
    """(reversed + extra) / pairs of nodes that are not neighbours (0 if there are none)."""


def score(learned: np.ndarray, true: np.ndarray) -> Scores:
    """Compare two graphs given by non-zero entries; diagonals are ignored.

    Args:
        learned: (d, d), weights or bool; threshold before calling.
        true: (d, d).

    >>> true = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> score(true.T, true).shd
    2
    """
    a, b = np.asarray(learned) != 0, np.asarray(true) != 0
    a, b = a & ~np.eye(len(a), dtype=bool), b & ~np.eye(len(b), dtype=bool)
    right = int((a & b).sum())
    flipped = int((a & ~b & b.T).sum())
    extra = int((a & ~b & ~b.T).sum())
    missing = int((b & ~a & ~a.T).sum())
    either, neighbours = np.triu(a | a.T), np.triu(b | b.T)
    both_ways = np.triu(a & a.T) & ~np.triu(b & b.T)
    pairs = len(a) * (len(a) - 1) // 2
    strangers = pairs - int(b.sum())
    wrong = flipped + extra
    shd = int((either ^ neighbours).sum()) + int(
        np.triu((a & ~b & b.T) | (a & ~b & b.T).T | (both_ways & neighbours)).sum()
    )
    return Scores(
        right=right,
        reversed=flipped,
        extra=extra,
        missing=missing,
        learned=int(a.sum()),
        true=int(b.sum()),
        shd=shd,
        f1=_f1(right, int(a.sum()), int(b.sum())),
        skeleton_f1=_f1(int((either & neighbours).sum()), int(either.sum()), int(neighbours.sum())),
        fdr=wrong / max(int(a.sum()), 1),
        tpr=right / b.sum() if b.any() else 1.0,
        fpr=wrong / strangers if strangers > 0 else 0.0,
    )


def auc(weights: np.ndarray, true: np.ndarray) -> float:
    """Area under the ROC curve of |W| as a ranking of the ordered pairs i ≠ j.

    The chance that a true edge outranks a pair without that edge, ties counting half; NaN if the
    true graph is empty or full.

    >>> auc(np.array([[0, 0.9], [0.1, 0]]), np.array([[0, 1], [0, 0]]))
    1.0
    """
    off = ~np.eye(len(true), dtype=bool)
    sizes, is_edge = np.abs(np.asarray(weights))[off], (np.asarray(true) != 0)[off]
    positives, negatives = int(is_edge.sum()), int((~is_edge).sum())
    if not positives or not negatives:
        return float("nan")
    _, place, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]  # ties share their mean rank, from 1
    above = float(ranks[is_edge].sum()) - positives * (positives + 1) / 2
    return above / (positives * negatives)


def _f1(right: int, learned: int, true: int) -> float:
    return 2 * right / (learned + true) if learned + true else 1.0

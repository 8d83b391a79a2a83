"""What LEAST-SP minimises: a support with small Gram blocks, from rows or from a whole Gram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from least.graphs import topological_rank
from least.problem import ProblemError
from least.screening import pursue, solve_chosen
from least.sparse_kernels import copy_blocks, fill_blocks, fill_from_gram

MOST_PARENTS = 400
"""Candidate parents per node: its Gram block has the square of this. The strongest stay."""


@dataclass(frozen=True, slots=True)
class Gram:
    """G = XᵀX / n of centred columns, where it fits into memory and the dense rows do not."""

    matrix: np.ndarray  # (d, d) float32
    rows: float

    @property
    def shape(self) -> tuple[int, int]:
        """(d, n), as of the variables it stands for."""
        return len(self.matrix), int(self.rows)

    def __len__(self) -> int:
        return len(self.matrix)


def gram_of_sparse(rows: Any, block: int = 2000) -> Gram:
    """The Gram matrix of a scipy.sparse X (n, d) whose columns are centred without filling X.

    Columns times columns in blocks: O(Σ entries of a row squared) time, 4·d² bytes.

    Raises:
        ProblemError: a number is not finite.
    """
    X = sp.csr_array(rows).astype(np.float32)
    if not np.isfinite(X.data).all():
        raise ProblemError("X holds a number that is not finite as float32")
    n, d = X.shape
    if n < 2 or d < 1:
        raise ProblemError(f"X must be (n ≥ 2, d ≥ 1), not {X.shape}")
    mean = np.asarray(X.sum(0, dtype=np.float64)).ravel() / n
    transposed = sp.csr_array(X.T)
    gram = np.empty((d, d), np.float32)
    for first in range(0, d, block):
        part = (transposed[first : first + block] @ X).toarray() / np.float32(n)
        gram[first : first + block] = part - np.outer(mean[first : first + block], mean)
    return Gram(gram, n)


def local_gram(variables: np.ndarray | Gram, nodes: np.ndarray) -> np.ndarray:
    """(k, k) float64 Gram matrix of a few variables."""
    if isinstance(variables, Gram):
        return np.asarray(variables.matrix[np.ix_(nodes, nodes)], float)
    rows = variables[nodes]
    return np.asarray(rows @ rows.T / variables.shape[1], float)


def _strength(variables: np.ndarray | Gram, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(s,) |correlation| of candidate edges, up to a factor per target."""
    if isinstance(variables, Gram):
        spread = np.sqrt(np.maximum(np.diag(variables.matrix), 1e-30))
        return np.asarray(np.abs(variables.matrix[sources, targets]) / spread[sources])
    product = np.abs(np.einsum("ij,ij->i", variables[sources], variables[targets]))
    return np.asarray(product / np.maximum(np.linalg.norm(variables[sources], axis=1), 1e-30))


@dataclass(frozen=True, slots=True)
class Problem:
    """The support in CSC order with each column's small Gram block."""

    d: int
    starts: np.ndarray  # (d+1,) int64; column q's edges are starts[q]:starts[q+1]
    rows: np.ndarray  # (s,) int32, source of each edge
    origin: np.ndarray  # (s,) position of each edge in the caller's arrays
    offsets: np.ndarray  # (d+1,) int64 into blocks
    blocks: np.ndarray  # Σ k² float32: G over the candidate parents of each column
    pull: np.ndarray  # (s,) float64: G[source, target]
    variance: np.ndarray  # (d,) G's diagonal
    variables: np.ndarray | Gram  # (d, n)

    @property
    def edges(self) -> int:
        """Candidate edges."""
        return len(self.rows)

    def columns(self) -> np.ndarray:
        """(s,) target of each edge."""
        return np.repeat(np.arange(self.d), np.diff(self.starts))

    @staticmethod
    def build(variables: np.ndarray | Gram, sources: np.ndarray, targets: np.ndarray) -> Problem:
        """Of edges in any order; a node's weakest beyond `MOST_PARENTS` are left out."""
        d, n = variables.shape
        if (np.asarray(sources) == np.asarray(targets)).any():
            raise ProblemError("the support holds an edge from a node to itself")
        origin = np.lexsort((sources, targets))
        rows, columns = np.asarray(sources)[origin], np.asarray(targets)[origin]
        if ((np.diff(rows) == 0) & (np.diff(columns) == 0)).any():
            raise ProblemError("the support holds an edge twice")
        counts = np.bincount(columns, minlength=d)
        if len(counts) and counts.max(initial=0) > MOST_PARENTS:
            strength = _strength(variables, rows, columns)
            by_strength = np.lexsort((-strength, columns))
            place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
            kept = np.sort(by_strength[place < MOST_PARENTS])
            origin, rows, columns = origin[kept], rows[kept], columns[kept]
            counts = np.minimum(counts, MOST_PARENTS)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(counts.astype(np.int64) ** 2)])
        blocks, pull = np.empty(offsets[-1], np.float32), np.empty(len(rows))
        rows = rows.astype(np.int32)
        if isinstance(variables, Gram):
            fill_from_gram(variables.matrix, starts, rows, offsets, blocks, pull)
            variance = np.diag(variables.matrix).astype(float)
        else:
            fill_blocks(variables, starts, rows, offsets, blocks, pull)
            variance = np.einsum("ij,ij->i", variables, variables, dtype=np.float64) / n
        return Problem(d, starts, rows, origin, offsets, blocks, pull, variance, variables)

    def keep(self, edges: np.ndarray) -> Problem:
        """The problem on part of its support."""
        counts = np.add.reduceat(np.append(edges, False).astype(np.int64), self.starts[:-1])
        counts[np.diff(self.starts) == 0] = 0
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(counts**2)])
        blocks = np.empty(offsets[-1], np.float32)
        copy_blocks(self.starts, self.offsets, self.blocks, edges, offsets, blocks)
        return Problem(
            self.d, starts, self.rows[edges], self.origin[edges], offsets, blocks,
            self.pull[edges], self.variance, self.variables,
        )  # fmt: skip


def refit_along(
    variables: np.ndarray | Gram,
    graph: Any,
    sources: np.ndarray,
    targets: np.ndarray,
    significance: float = 3.5,
) -> Any:
    """Forward selection for every node among the support's edges that agree with a graph's order.

    Args:
        variables: (d, n), or the Gram matrix of all columns.
        graph: acyclic; only its order is used.
        sources, targets: the support.

    Returns:
        csr_array, acyclic.
    """
    d, n = variables.shape
    rank = topological_rank(graph)
    agree = rank[sources] < rank[targets]
    by_target = np.lexsort((sources[agree], targets[agree]))
    parents, nodes = sources[agree][by_target], targets[agree][by_target]
    starts = np.concatenate([[0], np.cumsum(np.bincount(nodes, minlength=d))])
    kept = np.zeros(len(parents), bool)
    weights = np.zeros(len(parents))
    for q in np.flatnonzero(np.diff(starts)):
        mine = parents[starts[q] : starts[q + 1]]
        gram = local_gram(variables, np.concatenate([[q], mine]))
        chosen = np.empty(len(mine), np.int64)
        count, _ = pursue(gram, len(mine), significance**2 / n, chosen)
        if count:
            kept[starts[q] + chosen[:count]] = True
            weights[starts[q] + chosen[:count]] = solve_chosen(gram, chosen[:count])
    return sp.csr_array((weights[kept], (parents[kept], nodes[kept])), shape=(d, d))

"""Cycles and orders of sparse weighted graphs; nothing of size (d, d)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # its parts come when they are used


def strong_components(weights: Any) -> tuple[int, np.ndarray]:
    """How many sets of nodes that reach one another, and (d,) the set of each node."""
    count, component = scipy.sparse.csgraph.connected_components(
        weights, directed=True, connection="strong"
    )
    return int(count), component


def prune(weights: Any, threshold: float) -> tuple[Any, float]:
    """Cut |W| ≤ τ with the smallest τ ≥ `threshold` that leaves no cycle.

    Returns:
        csr_array and τ.
    """
    coordinates = scipy.sparse.coo_array(weights)
    sizes = np.abs(coordinates.data)
    levels = np.concatenate([[threshold], np.unique(sizes[sizes > threshold])])

    def cut(level: float) -> Any:
        keep = sizes > level
        return scipy.sparse.csr_array(
            (coordinates.data[keep], (coordinates.row[keep], coordinates.col[keep])),
            shape=coordinates.shape,
        )

    low, high = -1, len(levels) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if is_acyclic(cut(levels[middle])):
            high = middle
        else:
            low = middle
    return cut(levels[high]), float(levels[high])


def is_acyclic(weights: Any) -> bool:
    """Exact: every strongly connected component is a single node without a loop."""
    if weights.diagonal().any():
        return False
    count, _ = scipy.sparse.csgraph.connected_components(
        weights, directed=True, connection="strong"
    )
    return bool(count == weights.shape[0])


DENSE_COMPONENT = 1000
"""Nodes of a strongly connected component whose exponential is computed in full."""


def exponential_trace(squared: Any) -> float:
    """h = Tr e^S − d for a sparse S = W∘W, component by component: only cycles count.

    Exact for components of up to `DENSE_COMPONENT` nodes; of a larger one the terms of closed walks
    of up to four edges, Σ Tr(Sᵏ)/k!, which is a lower bound.
    """
    squared = scipy.sparse.csr_array(squared, dtype=float)
    squared.eliminate_zeros()
    _, component = scipy.sparse.csgraph.connected_components(
        squared, directed=True, connection="strong"
    )
    sizes = np.bincount(component)
    by_component = np.argsort(component, kind="stable")
    ends = np.cumsum(sizes)
    total = float(np.expm1(squared.diagonal()[sizes[component] == 1]).sum())
    for which in np.flatnonzero(sizes > 1):
        nodes = by_component[ends[which] - sizes[which] : ends[which]]
        part = squared[nodes][:, nodes]
        if len(nodes) <= DENSE_COMPONENT:
            total += float(np.trace(scipy.linalg.expm(part.toarray()))) - len(nodes)
        else:
            square, transposed = scipy.sparse.csr_array(part @ part), scipy.sparse.csr_array(part.T)
            total += float(part.diagonal().sum()) + float((part * transposed).sum()) / 2
            total += float((square * transposed).sum()) / 6
            total += float((square * scipy.sparse.csr_array(square.T)).sum()) / 24
    return total


def cut_cycles(weights: Any, share: float = 0.02) -> Any:
    """The graph without the weakest edges of its cycles.

    Where one threshold for the whole graph would cost every weaker edge, this takes the weakest
    `share` (at least one) of the edges inside each strongly connected component, again and again.
    """
    graph = scipy.sparse.coo_array(weights)
    row, col, data = graph.row, graph.col, graph.data
    while True:
        matrix = scipy.sparse.csr_array((data, (row, col)), shape=graph.shape)
        count, component = scipy.sparse.csgraph.connected_components(
            matrix, directed=True, connection="strong"
        )
        inside = np.flatnonzero(component[row] == component[col])
        if count == graph.shape[0] or not len(inside):
            return matrix
        ranked = inside[np.lexsort((np.abs(data[inside]), component[row[inside]]))]
        sizes = np.bincount(component[row[ranked]], minlength=count)
        place = np.arange(len(ranked)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        quota = np.maximum(np.ceil(share * sizes), 1)
        keep = np.ones(len(data), bool)
        keep[ranked[place < quota[component[row[ranked]]]]] = False
        row, col, data = row[keep], col[keep], data[keep]


def topological_rank(weights: Any) -> np.ndarray:
    """(d,) place of each node in an order with causes first; the graph must have no cycle."""
    graph = scipy.sparse.csr_array(weights)
    incoming = np.bincount(graph.indices, minlength=graph.shape[0])
    rank, placed = np.empty(graph.shape[0], np.int64), 0
    layer = np.flatnonzero(incoming == 0)
    while len(layer):
        rank[layer] = np.arange(placed, placed + len(layer))
        placed += len(layer)
        children = graph[layer].indices
        incoming -= np.bincount(children, minlength=graph.shape[0])
        touched = np.unique(children)
        layer = touched[incoming[touched] == 0]
    assert placed == graph.shape[0]
    return rank

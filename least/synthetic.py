"""Random graphs and samples of linear structural equation models, as in the NOTEARS benchmark."""

from __future__ import annotations

from typing import Literal

import numpy as np

Noise = Literal["gaussian", "exponential", "gumbel"]
GraphKind = Literal["ER", "SF"]


def random_graph(kind: GraphKind, nodes: int, degree: int, rng: np.random.Generator) -> np.ndarray:
    """A random acyclic graph with about `degree` edges per node.

    Args:
        kind: "ER", Erdős-Rényi with exactly min(degree·d, d(d−1)/2) edges; "SF", scale-free:
            every new node sends `degree` edges to older ones, preferring those with many incoming
            edges (Barabási-Albert with attractiveness in-degree + 1).

    Returns:
        (d, d) bool, labels shuffled; [i, j] is i → j.
    """
    edges = np.zeros((nodes, nodes), bool)
    if kind == "ER":
        above = np.triu_indices(nodes, 1)
        wanted = min(degree * nodes, len(above[0]))
        chosen = rng.choice(len(above[0]), wanted, replace=False)
        edges[above[0][chosen], above[1][chosen]] = True
    elif kind == "SF":
        attraction = np.ones(nodes)
        for new in range(1, nodes):
            odds = attraction[:new] / attraction[:new].sum()
            targets = rng.choice(new, min(degree, new), replace=False, p=odds)
            edges[new, targets] = True
            attraction[targets] += 1
    else:
        raise ValueError(f"unknown kind of graph {kind!r}: ER or SF")
    label = rng.permutation(nodes)
    shuffled = np.zeros_like(edges)
    shuffled[np.ix_(label, label)] = edges
    return shuffled


def random_weights(
    edges: np.ndarray, rng: np.random.Generator, low: float = 0.5, high: float = 2.0
) -> np.ndarray:
    """Weights with sizes from U[low, high] and random signs on the edges, 0 elsewhere."""
    sizes = rng.uniform(low, high, edges.shape) * rng.choice([-1.0, 1.0], edges.shape)
    return np.where(edges, sizes, 0.0)


def sample(
    weights: np.ndarray,
    rows: int,
    rng: np.random.Generator,
    noise: Noise = "gaussian",
    deviations: np.ndarray | float = 1.0,
) -> np.ndarray:
    """Rows of X = XW + E for an acyclic W.

    Args:
        weights: (d, d).
        noise: unit-scale noise: N(0, 1), Exp(1) or Gumbel(0, 1); not centred.
        deviations: multiplies the noise, a number or (d,).

    Returns:
        (rows, d).
    """
    d = len(weights)
    if noise == "gaussian":
        values = rng.standard_normal((rows, d))
    elif noise == "exponential":
        values = rng.standard_exponential((rows, d))
    elif noise == "gumbel":
        values = rng.gumbel(size=(rows, d))
    else:
        raise ValueError(f"unknown noise {noise!r}: gaussian, exponential or gumbel")
    values = values * deviations
    for j in topological_order(weights):
        parents = np.flatnonzero(weights[:, j])
        if len(parents):
            values[:, j] += values[:, parents] @ weights[parents, j]
    return values


def topological_order(edges: np.ndarray) -> np.ndarray:
    """Nodes with every parent before its children.

    Raises:
        ValueError: the graph has a cycle.
    """
    present = edges != 0
    incoming = present.sum(0)
    ready = list(np.flatnonzero(incoming == 0))
    order = []
    while ready:
        node = ready.pop()
        order.append(node)
        children = np.flatnonzero(present[node])
        incoming[children] -= 1
        ready += list(children[incoming[children] == 0])
    if len(order) < len(present):
        raise ValueError("the graph has a cycle")
    return np.array(order, dtype=np.intp)

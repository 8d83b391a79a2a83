"""Learned graph → paths into the outcomes, bounded in number and length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.encoding import Encoding


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths root … outcome as node indices of the encoding."""

    paths: tuple[tuple[int, ...], ...]
    truncated: bool
    """A bound on number or length bit: there are more."""


def paths_into(
    outcome: int, weights: np.ndarray, encoding: Encoding, max_paths: int, max_length: int
) -> Paths:
    """Follow the edges upward from `outcome` to nodes without parents, strongest first.

    A path names at most one value of an attribute, and every two nodes on it occur together in
    some row; others occur in no row at all.
    """
    attribute, gram = encoding.attribute, encoding.gram
    found: list[tuple[int, ...]] = []
    truncated = False
    parents: dict[int, np.ndarray] = {}
    stack: list[tuple[int, ...]] = [(outcome,)]
    visits = 0
    while stack:
        path = stack.pop()
        visits += 1
        if len(found) >= max_paths or visits > 20 * max_paths:
            truncated = True
            break
        head = path[0]
        if head not in parents:
            column = np.abs(weights[:, head])
            strong = np.flatnonzero(column)
            parents[head] = strong[np.argsort(column[strong], kind="stable")]
        taken = {int(attribute[node]) for node in path}
        onward = [
            int(p)
            for p in parents[head]
            if p not in path
            and attribute[p] not in taken
            and all(gram[p, node] > 0 for node in path)
        ]
        if not onward:
            if len(path) > 1:
                found.append(path)
            continue
        if len(path) >= max_length:
            truncated = True
            found.append(path)
            continue
        stack.extend((p, *path) for p in onward)  # weakest first, so the strongest is next
    return Paths(tuple(found), truncated)


def strongest_path(
    roots: tuple[int, ...], outcome: int, weights: np.ndarray, max_length: int
) -> tuple[int, ...]:
    """The path from any of `roots` to the outcome whose weakest link is strongest.

    Only edges that raise the failure count, and at most `max_length` nodes. Empty when there is
    none.
    """
    best: dict[int, tuple[float, tuple[int, ...]]] = {outcome: (np.inf, (outcome,))}
    frontier = [outcome]
    for _ in range(max_length - 1):
        # Paths grow by one node a round: a better way found meanwhile must not lengthen them.
        shorter, reached = dict(best), []
        for node in frontier:
            strength, path = shorter[node]
            for parent in (int(p) for p in np.flatnonzero(weights[:, node] > 0)):
                through = min(strength, float(weights[parent, node]))
                if through > best.get(parent, (0.0, ()))[0]:
                    best[parent] = (through, (parent, *path))
                    reached.append(parent)
        frontier = list(dict.fromkeys(reached))
    starts = [root for root in roots if root in best]
    if not starts:
        return ()
    return best[max(starts, key=lambda root: best[root][0])][1]

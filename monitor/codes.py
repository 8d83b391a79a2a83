"""Error codes as evidence: which code is in excess, and whether it has one value to blame.

A code appears on failures only, so it is no rival of an airline. Failures of a code beyond
what the traffic's fare sources usually give point at a cause that is too weak to be seen among all
failures. If half of that excess belongs to one value or pair, that is the root and the code
annotates it; otherwise the code itself is the root (a bad deployment).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from monitor.attribution import LEAVE_ONE_OUT, Scatter, Suspect
from monitor.encoding import Coded
from monitor.significance import excess_p_value, excess_score, poisson_score, q_values
from monitor.window import Horizons

COVER = 0.5
"""Share of a code's excess that one cell must hold to be the root."""
COMPOSITION = 3.0
"""Nats by which the cell must stand out within the code, after the price of its search."""
UNSEEN = 0.5
"""Failures that a code nobody has seen before is expected to have in a horizon."""


@dataclass(frozen=True, slots=True)
class CodeModel:
    """What the baseline knows about codes."""

    attribute: int
    """The error code's."""
    parent: int | None
    """The attribute whose values have codes of their own (a fare source), if any."""
    share: np.ndarray  # (parent nodes, codes) share of each code among an outcome's failures
    barred: frozenset[int] = frozenset()
    """Attributes that failure itself keeps empty: every code would have their missing value."""


def code_suspects(
    outcome: int,
    tables: Horizons,
    model: CodeModel,
    scatter: Scatter,
    explained: tuple[Suspect, ...],
    threshold: float,
    min_failures: int,
) -> list[Suspect]:
    """Codes in excess that no cause found so far explains, best first.

    Args:
        outcome: index.
        tables: the horizons.
        model: shares of the outcome's codes.
        scatter: over-dispersion of the outcome.
        explained: the causes found among all failures; their rows are left out.
        threshold: nats after the price of the search.
        min_failures: of a code in the horizon.
    """
    if any(not suspect.conditions for suspect in explained):
        return []  # everything fails already: no code adds to that
    slices = list(tables.slices)
    left = [_unexplained(i, outcome, tables, explained) for i in range(len(slices))]
    highest = max(
        int(c.local[r, model.attribute].max(initial=0)) for c, r in zip(slices, left, strict=True)
    )
    width = max(model.share.shape[1], highest + 1)
    observed = np.array(
        [_by_code(c, rows, model.attribute, width) for c, rows in zip(slices, left, strict=True)]
    )
    by_parent = np.array(
        [_expected(i, outcome, tables, model, explained) for i in range(len(slices))]
    )
    expected = np.zeros((len(slices), width))
    expected[:, : model.share.shape[1]] = by_parent @ model.share
    return _best(outcome, tables, model, scatter, observed, expected, left, threshold, min_failures)


def _best(
    outcome: int,
    tables: Horizons,
    model: CodeModel,
    scatter: Scatter,
    observed: np.ndarray,
    expected: np.ndarray,
    left: list[np.ndarray],
    threshold: float,
    min_failures: int,
) -> list[Suspect]:
    horizons = tables.horizons
    total = np.array([observed[-h:].sum(axis=0) for h in horizons])
    fair = np.array([np.maximum(expected[-h:].sum(axis=0), UNSEEN) for h in horizons])
    # a code must stand out from the others: where all rise together, everything fails
    others = total.sum(axis=1, keepdims=True) - total, fair.sum(axis=1, keepdims=True) - fair
    fair = fair * np.maximum((others[0] + LEAVE_ONE_OUT) / (others[1] + LEAVE_ONE_OUT), 1.0)
    size = scatter.sizes(fair, np.ones(fair.shape[1], int))
    price = np.log(3.0) + np.log(total.shape[1]) + np.log(len(horizons))
    score = excess_score(total, fair, size) - price
    score = np.where(total >= min_failures, score, -np.inf)
    score[:, 0] = -np.inf  # `other` is no code
    suspects = []
    for code in np.argsort(-score.max(axis=0))[:2]:
        h = int(np.argmax(score[:, code]))
        if score[h, code] <= threshold:
            break
        span = horizons[h]
        p = float(excess_p_value(total[h, code], fair[h, code], size[h, code]))
        root = _root(outcome, tables, model, int(code), span, left, total[h, code], fair[h, code])
        conditions = root or ((model.attribute, int(code)),)
        q = float(q_values(np.array([p]), total.size)[0])
        suspect = Suspect(
            conditions,
            h,
            float(score[h, code]),
            p,
            q,
            (conditions,),
            (),
            observed[:, code],
            np.maximum(expected[:, code], UNSEEN / horizons[-1]),
            np.array([float(c.slice.rows) for c in tables.slices]),
        )
        suspect.codes = (int(code),)
        suspects.append(suspect)
    return suspects


def _unexplained(
    index: int, outcome: int, tables: Horizons, explained: tuple[Suspect, ...]
) -> np.ndarray:
    """Indices of the failed rows of a slice that no cause explains."""
    rows = tables.failing(index, outcome)
    for suspect in explained:
        rows = rows[~suspect.matches[index][rows]]
    return rows


def _by_code(coded: Coded, rows: np.ndarray, attribute: int, width: int) -> np.ndarray:
    code = np.maximum(coded.local[rows, attribute], 0)
    return np.bincount(code, coded.slice.weight[rows], width)


def _expected(
    index: int,
    outcome: int,
    tables: Horizons,
    model: CodeModel,
    explained: tuple[Suspect, ...],
) -> np.ndarray:
    """Failures expected of each parent in one slice, without the rows explained, (parents,)."""
    parents = len(model.share)
    out: np.ndarray = tables.slice_expected(index, outcome, model.parent, parents)
    if explained:
        coded = tables.slices[index]
        rows = np.flatnonzero(np.any([s.matches[index] for s in explained], axis=0))
        gone = coded.exposure[rows] * coded.expected[rows, outcome]
        if model.parent is None:
            return np.asarray(out - gone.sum())
        node = coded.local[rows, model.parent]
        node = np.where((node < 0) | (node >= parents), 0, node)
        out = np.asarray(np.maximum(out - np.bincount(node, gone, parents), 0.0))
    return out


def _root(
    outcome: int,
    tables: Horizons,
    model: CodeModel,
    code: int,
    span: int,
    left: list[np.ndarray],
    observed: float,
    expected: float,
) -> tuple[tuple[int, int], ...]:
    """The cell that holds the code's excess; () when it is spread as usual."""
    layout = tables.layout
    cells = []
    weights = []
    for coded, rows in list(zip(tables.slices, left, strict=True))[-span:]:
        mine = rows[coded.local[rows, model.attribute] == code]
        if len(mine):
            found = layout.cells(coded.local[mine])[:, 1:]
            cells.append(found.ravel())
            weights.append(np.repeat(coded.slice.weight[mine], found.shape[1]))
    present, place = np.unique(np.concatenate(cells), return_inverse=True)
    counts = np.bincount(place, np.concatenate(weights))
    closed = [bool(model.barred & {layout.attributes[p] for p in b}) for b in layout.blocks]
    keep = (present < layout.size) & (counts >= COVER * (observed - expected))
    keep &= ~np.array(closed)[layout.block_of(present)]
    present, counts = present[keep], counts[keep]
    if not len(present):
        return ()
    h = tables.horizons.index(span)
    table = tables.expected[h, outcome]
    share = table[present] / max(float(table[0]), 1e-9)
    if model.parent is not None:
        share = np.maximum(share, _usual_parents(layout.conditions, present, table, model, code))
    block = layout.block_of(present)
    in_block = np.add.reduceat(table > 0, layout.starts)[block]
    best: tuple[tuple[int, int], ...] = ()
    best_score = COMPOSITION
    for cell, count, part, price in zip(present, counts, share, np.log(in_block), strict=True):
        fair = observed * min(float(part), 1.0)
        score = poisson_score(float(count), max(fair, 0.01)) - float(price)
        if score > best_score and count - fair >= COVER * (observed - expected):
            best, best_score = layout.conditions(int(cell)), score
    return best


def _usual_parents(
    conditions: Callable[[int], tuple[tuple[int, int], ...]],
    cells: np.ndarray,
    table: np.ndarray,
    model: CodeModel,
    code: int,
) -> np.ndarray:
    """A code that always belongs to one fare source does not accuse it."""
    if code >= model.share.shape[1]:
        return np.zeros(len(cells))
    usual = np.zeros(len(cells))
    weights = model.share[:, code]
    whole = weights.sum()
    for i, cell in enumerate(cells):
        named = dict(conditions(int(cell)))
        number = named.get(-1 if model.parent is None else model.parent, len(weights))
        if len(named) == 1 and number < len(weights) and whole > 0:
            usual[i] = weights[number] / whole
    return usual


def codes_in_excess(
    outcome: int, tables: Horizons, model: CodeModel, suspect: Suspect, span: int
) -> tuple[int, ...]:
    """Up to three codes that a cause's failures carry more often than failures usually do."""
    seen = np.zeros(model.share.shape[1])
    for coded, hit in list(zip(tables.slices, suspect.matches, strict=True))[-span:]:
        failed = np.flatnonzero(hit & coded.slice.failed[:, outcome])
        failed = failed[coded.local[failed, model.attribute] >= 0]
        width = int(coded.local[failed, model.attribute].max(initial=0)) + 1
        counts = _by_code(coded, failed, model.attribute, max(len(seen), width))
        seen = np.pad(seen, (0, len(counts) - len(seen))) + counts
    usual = np.pad(model.share.mean(axis=0), (0, len(seen) - model.share.shape[1]))
    fair = seen.sum() * np.maximum(usual, 1e-3)
    scores = [poisson_score(float(k), float(f)) for k, f in zip(seen, fair, strict=True)]
    ranked = sorted(range(1, len(seen)), key=lambda c: -scores[c])
    return tuple(c for c in ranked[:3] if scores[c] > 5 and seen[c] >= 3)

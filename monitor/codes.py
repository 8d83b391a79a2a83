"""Error codes that a cause's failures carry more often than failures usually do."""

from __future__ import annotations

import numpy as np

from monitor.attribution import CodeModel, Suspect
from monitor.encoding import Coded
from monitor.significance import poisson_score
from monitor.window import Horizons


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


def _by_code(coded: Coded, rows: np.ndarray, attribute: int, width: int) -> np.ndarray:
    code = np.maximum(coded.local[rows, attribute], 0)
    return np.bincount(code, coded.slice.weight[rows], width)

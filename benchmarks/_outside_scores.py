"""Asks gcastle and scikit-learn to score random graphs: `python -m benchmarks._outside_scores OUT`.

Their answers are kept in tests/least/recorded/outside_scores.json, so that the tests compare with
other people's code without installing torch, which gcastle asks for. See `_peers` for installing.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score


def main(out: Path) -> None:
    """Write the cases and the answers."""
    castle = importlib.util.find_spec("castle")
    if castle is None or castle.origin is None:
        raise ImportError("gcastle is not installed")
    # The file alone: the package imports torch.
    path = Path(castle.origin).parent / "metrics" / "evaluation.py"
    spec = importlib.util.spec_from_file_location("castle_evaluation", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rng = np.random.default_rng(0)
    cases = []
    for _ in range(60):
        d = int(rng.integers(3, 15))
        true = np.triu(rng.random((d, d)) < rng.uniform(0.1, 0.6), 1)
        near = true ^ np.triu(rng.random((d, d)) < 0.2, 1)
        place = np.argsort(np.arange(d) + rng.uniform(0, 3, d))  # a few neighbours change places
        learned = near[np.ix_(place, place)]
        if not true.any():
            continue
        weights = np.round(rng.random((d, d)) * 4) / 4 + true * 0.5  # ties are meant
        answer = module.MetricsDAG(learned.astype(int), true.astype(int)).metrics
        off = ~np.eye(d, dtype=bool)
        cases.append(
            {
                "d": d, "true": np.argwhere(true).tolist(),
                "learned": np.argwhere(learned).tolist(),
                "weights": weights.tolist(),
                "gcastle": {k: float(answer[k]) for k in ("fdr", "tpr", "fpr", "shd", "F1")},
                "auc": float(roc_auc_score(true[off], weights[off])),
            }
        )  # fmt: skip
    versions = {name: version(name) for name in ("gcastle", "scikit-learn")}
    out.write_text(json.dumps({"versions": versions, "cases": cases}) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

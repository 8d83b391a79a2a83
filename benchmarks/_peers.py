"""Other structure learners, run on the same data in the same process.

None is a dependency: `pip install --no-deps dagma gcastle CausalDisco tqdm scikit-learn joblib
threadpoolctl cloudpickle networkx matplotlib` into a folder on PYTHONPATH. What cannot be imported
is left out of the table, and said so.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np

Learner = Callable[[np.ndarray], np.ndarray]


def peers() -> tuple[dict[str, Learner], list[str]]:
    """Name → learner from (n, d) rows to weights, and what is missing with its reason."""
    found: dict[str, Learner] = {}
    missing = []
    for name, load in (("DAGMA", _dagma), ("NOTEARS", _notears), ("sortnregress", _sortnregress)):
        try:
            found[name] = load()
        except ImportError as error:
            missing.append(f"{name} ({error})")
    return found, missing


def _dagma() -> Learner:
    from dagma.linear import DagmaLinear

    def learn(rows: np.ndarray) -> np.ndarray:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return DagmaLinear(loss_type="l2").fit(rows, lambda1=0.02)

    return learn


def _notears() -> Learner:
    # gcastle's package imports torch for its other learners; this file needs only numpy and scipy.
    castle = importlib.util.find_spec("castle")
    if castle is None or castle.origin is None:
        raise ImportError("No module named 'castle'")
    path = Path(castle.origin).parent / "algorithms/gradient/notears/linear.py"
    spec = importlib.util.spec_from_file_location("castle_notears_linear", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if importlib.util.find_spec("torch") is None:
        # Its argument checks ask torch whether a GPU exists; NOTEARS itself never uses one.
        sys.modules["torch"] = types.ModuleType("torch")
    spec.loader.exec_module(module)
    if not hasattr(sys.modules["torch"], "Tensor"):
        del sys.modules["torch"]
    logging.getLogger().setLevel(logging.WARNING)

    def learn(rows: np.ndarray) -> np.ndarray:
        model = module.Notears(lambda1=0.1)
        model.learn(rows)
        return np.asarray(model.weight_causal_matrix, float)

    return learn


def _sortnregress() -> Learner:
    from CausalDisco.baselines import var_sort_regress

    return lambda rows: np.asarray(var_sort_regress(rows), float)

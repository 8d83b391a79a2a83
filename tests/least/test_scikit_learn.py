"""scikit-learn's own checks of an estimator, and what it does with names.

All checks of scikit-learn that fit an estimator without predict, transform or score are run; none
is expected to fail. `check_array_api_input` skips itself where SCIPY_ARRAY_API is not set: Least
takes numpy's arrays, not those of other array libraries.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_estimator,
)

from least import Least


@pytest.mark.filterwarnings("ignore:Estimator Least does not inherit")  # it needs no scikit-learn
@pytest.mark.parametrize("model", [Least(), Least("random", backend="sparse")], ids=str)
def test_scikit_learn_finds_nothing_amiss(model: Least) -> None:
    done = check_estimator(model, on_fail=None, on_skip=None)
    amiss = {d["check_name"]: d["exception"] for d in done if d["status"] == "failed"}
    assert amiss == {}
    skipped = {d["check_name"] for d in done if d["status"] != "passed"}
    assert skipped == {"check_array_api_input"}
    assert len(done) > 30


def test_names_of_columns_are_kept_as_scikit_learn_keeps_them() -> None:
    check_dataframe_column_names_consistency("Least", Least())


def test_it_is_cloned_put_into_a_pipeline_and_tuned() -> None:
    rng = np.random.default_rng(0)
    rain = rng.exponential(size=2000)
    rows = np.column_stack([rain, 1.2 * rain + 9 * rng.exponential(size=2000)])
    line = make_pipeline(StandardScaler(), Least("likelihood", noise="nongaussian", threshold=0.05))
    model = clone(line).fit(rows)[-1]
    assert [(e.source, e.target) for e in model.edges_] == [(0, 1)]
    found = [
        len(clone(line).set_params(**settings).fit(rows)[-1].edges_)
        for settings in ParameterGrid({"least__threshold": [0.05, 0.5]})
    ]
    assert found == [1, 0]

"""Columns by name: frames keep them, constraints speak of them, graphs are told in them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import networkx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from least import Least, NotFittedError, ProblemError
from least.synthetic import sample

NAMES = ["rain", "wet", "slippery"]


def weather() -> np.ndarray:
    weights = np.array([[0, 1.2, 0], [0, 0, 0.9], [0, 0, 0]])
    return sample(weights, 2000, np.random.default_rng(0))


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(weather(), columns=NAMES)


@pytest.mark.parametrize("kind", [pd.DataFrame, pa.Table.from_pandas])
def test_a_frame_says_as_much_as_its_numbers_and_keeps_its_names(
    kind: Callable[[Any], Any], frame: pd.DataFrame
) -> None:
    model = Least().fit(kind(frame))
    assert list(model.feature_names_in_) == NAMES
    assert model.weights_.tobytes() == Least().fit(weather()).weights_.tobytes()
    assert [e[:2] for e in model.edges_] == [("rain", "wet"), ("wet", "slippery")]
    assert model.edges_[0].weight == pytest.approx(1.2, abs=0.1)
    sparse = Least(backend="sparse").fit(kind(frame))
    assert [e[:2] for e in sparse.edges_] == [("rain", "wet"), ("wet", "slippery")]


def test_a_covariance_frame_keeps_its_names(frame: pd.DataFrame) -> None:
    model = Least(required=[("rain", "wet")]).fit_gram(frame.cov(), len(frame))
    assert [e[:2] for e in model.edges_] == [("rain", "wet"), ("wet", "slippery")]


def test_columns_without_names_are_numbers(frame: pd.DataFrame) -> None:
    model = Least().fit(frame)
    model.fit(frame.to_numpy())
    assert not hasattr(model, "feature_names_in_")
    assert [e[:2] for e in model.edges_] == [(0, 1), (1, 2)]
    assert [e[:2] for e in Least().fit(pd.DataFrame(weather())).edges_] == [(0, 1), (1, 2)]
    turned = Least(forbidden=[(0, 1)]).fit(weather())
    assert (0, 1) not in [e[:2] for e in turned.edges_]


def test_constraints_by_name_are_masks(frame: pd.DataFrame) -> None:
    allowed, required = np.ones((3, 3), bool), np.zeros((3, 3), bool)
    allowed[0, 1], required[0, 2] = False, True
    by_mask = Least(allowed=allowed, required=required).fit(frame)
    by_name = Least(forbidden=[("rain", "wet")], required=[("rain", "slippery")]).fit(frame)
    assert by_mask.weights_.tobytes() == by_name.weights_.tobytes()
    only = Least(allowed=[("rain", "wet")]).fit(frame)
    assert [e[:2] for e in only.edges_] == [("rain", "wet")]


def test_no_edge_runs_up_the_tiers(frame: pd.DataFrame) -> None:
    model = Least(tiers=[["slippery"], ["wet", "rain"]]).fit(frame)
    assert "slippery" not in {e.target for e in model.edges_}
    assert {e[:2] for e in model.edges_} >= {("slippery", "wet")}
    free = Least(tiers=[["slippery"], ["wet"]]).fit(frame)  # rain is in no tier: it may do anything
    assert ("wet", "slippery") not in [e[:2] for e in free.edges_]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            {"required": [("rain", "snow")]},
            "`required` speaks of 'snow'; the columns are rain",
        ),
        ({"required": [("rain", "wet"), ("wet", "rain")]}, "form a cycle: rain → wet → rain"),
        ({"required": [("wet", "wet")]}, "wet → wet is on the diagonal"),
        (
            {"required": [("rain", "wet")], "forbidden": [("rain", "wet")]},
            "the required edge rain → wet is not allowed",
        ),
        ({"forbidden": ["rain"]}, r"holds 'rain': a pair \(cause, effect\)"),
        ({"forbidden": [("rain", 3)]}, "column 3; there are 3, from 0"),
        ({"forbidden": [("rain", 0.5)]}, "0.5 is no name and no number"),
        ({"tiers": ["rain", "wet"]}, "each tier is a list of columns"),
        ({"tiers": [["rain"], ["rain"]]}, "`tiers` names rain twice"),
    ],
)
def test_what_constraints_cannot_mean_is_said_by_name(
    settings: dict[str, Any], complaint: str, frame: pd.DataFrame
) -> None:
    with pytest.raises(ProblemError, match=complaint):
        Least(**settings).fit(frame)


def test_names_in_constraints_need_named_columns() -> None:
    with pytest.raises(ProblemError, match="the columns have no names: fit a DataFrame"):
        Least(required=[("rain", "wet")]).fit(weather())


def test_what_is_no_number_is_named_by_column(frame: pd.DataFrame) -> None:
    with pytest.raises(ProblemError, match="column `town` must hold numbers, not"):
        Least().fit(frame.assign(town="Ä"))
    with pytest.raises(ProblemError, match=r"column `town` must hold numbers.*'Ä'"):
        Least().fit(frame.assign(town=pd.Series(["Ä"] * len(frame), dtype=object)))
    with pytest.raises(ProblemError, match=r"column `at` must hold numbers, not datetime64"):
        Least().fit(frame.assign(at=pd.Timestamp("2026-01-01")))
    with pytest.raises(ProblemError, match="column `wet`, row 7, is NaN"):
        Least().fit(frame.assign(wet=frame["wet"].mask(frame.index == 7)))
    with pytest.raises(ProblemError, match="column `wet`, row 7, is NaN"):
        Least().fit(frame.assign(wet=frame["wet"].mask(frame.index == 7).astype("Float64")))
    with pytest.raises(ProblemError, match="column `wet` is there twice; rename one"):
        Least().fit(frame.set_axis(["rain", "wet", "wet"], axis=1))
    with pytest.raises(ProblemError, match="only some columns have names of text, 2 has not"):
        Least().fit(frame.set_axis(["rain", "wet", 2], axis=1))


def test_decimals_and_integers_with_room_for_gaps_are_numbers() -> None:
    counts = np.random.default_rng(0).poisson(40, 500)
    prices = [Decimal(int(c)) / 4 for c in counts + np.random.default_rng(1).poisson(9, 500)]
    frame = pd.DataFrame({"count": pd.array(counts, "Int64"), "price": prices})
    plain = pd.DataFrame({"count": counts, "price": [float(p) for p in prices]})
    expected = Least().fit(plain).weights_
    assert Least().fit(frame).weights_.tobytes() == expected.tobytes()
    table = pa.table({"count": counts, "price": pa.array(prices, pa.decimal128(12, 2))})
    assert Least().fit(table).weights_.tobytes() == expected.tobytes()


def test_the_graph_goes_to_other_programs_by_name(frame: pd.DataFrame) -> None:
    model = Least().fit(frame.rename(columns={"wet": 'wet "street"'}))
    graph = model.to_networkx()
    assert networkx.is_directed_acyclic_graph(graph)
    assert set(graph) == {"rain", 'wet "street"', "slippery"}
    assert graph["rain"]['wet "street"']["weight"] == model.edges_[0].weight
    table = model.to_pandas()
    assert list(table) == ["source", "target", "weight"]
    assert table["source"].tolist() == ["rain", 'wet "street"']
    dot = model.to_dot()
    assert '"rain" -> "wet \\"street\\"" [label="1.19"' in dot
    lonely = Least().fit(np.random.default_rng(0).normal(size=(100, 2)))
    assert set(lonely.to_networkx()) == {0, 1}
    assert lonely.to_pandas().empty


def test_a_model_is_readable_before_and_after_its_fit(frame: pd.DataFrame) -> None:
    model = Least("likelihood", noise="any", allowed=np.ones((3, 3), bool), threshold=0.1)
    assert repr(model) == (
        "Least(start='likelihood', noise='any', threshold=0.1, allowed=<3×3 bool>)"
    )
    assert str(model) == repr(model)
    with pytest.raises(NotFittedError, match="call fit"):
        model.to_dot()
    assert not hasattr(model, "edges_")
    text = str(Least().fit(frame))
    assert "Least(): 3 columns, 2 edges\nsolved: acyclic" in text
    assert "rain → wet  1.19" in text
    assert len(repr(Least().fit(frame).fit_)) < 300  # not every weight and every step


WITHOUT = """
import builtins, sys
real = builtins.__import__
def without(name, *rest, **more):
    if name.split(".")[0] == {missing!r}:
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    return real(name, *rest, **more)
builtins.__import__ = without
import numpy as np
from least import Least, ProblemError
rows = np.random.default_rng(0).normal(size=(50, 3))
try:
    {call}
except ProblemError as error:
    assert isinstance(error, ImportError)
    print(error)
"""


@pytest.mark.parametrize(
    ("missing", "call", "cure"),
    [
        ("numba", "Least('likelihood').fit(rows)", "pip install numba (the extra [sparse]"),
        ("numba", "Least(backend='sparse').fit(rows)", "pip install numba (the extra [sparse]"),
        ("tensorflow", "Least().fit(rows)", "pip install tensorflow-cpu (the extra [dense]"),
        (
            "networkx",
            "Least(backend='sparse').fit(rows).to_networkx()",
            "to_networkx() needs networkx: pip install networkx",
        ),
        (
            "pandas",
            "Least(backend='sparse').fit(rows).to_pandas()",
            "to_pandas() needs pandas: pip install pandas",
        ),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(missing: str, call: str, cure: str) -> None:
    program = WITHOUT.format(missing=missing, call=call)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert cure in done.stdout

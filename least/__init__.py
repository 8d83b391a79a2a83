"""LEAST: a fast structure learner for linear Bayesian networks.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> cause = rng.normal(size=1000)
>>> effect = 2 * cause + rng.normal(size=1000)
>>> Least().fit(np.column_stack([cause, effect])).weights_.round(1)  # doctest: +SKIP
array([[0., 2.],
       [0., 0.]])
"""

from least.estimator import Least
from least.network import Edge
from least.problem import (
    Fit,
    MissingExtraError,
    NotFittedError,
    Options,
    ProblemError,
    Status,
)

__all__ = [
    "Edge",
    "Fit",
    "Least",
    "MissingExtraError",
    "NotFittedError",
    "Options",
    "ProblemError",
    "Status",
]

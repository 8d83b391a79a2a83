"""`least-monitor run` with a learner that learns nothing: starts in a second, without TensorFlow.

For tests of what surrounds the statistics: the store, leadership, delivery. Run it as
``python -m tests.services.light run -c CONFIG``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from monitor.encoding import Encoding
from monitor.learning import Learned


class NoLearner:
    """No graph; findings come from cells alone."""

    def __init__(self, *_: object) -> None: ...

    def learn(self, encoding: Encoding) -> Learned:
        return Learned.nothing(encoding)

    def recall(self, encoding: Encoding) -> Learned:
        return Learned.nothing(encoding)

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, arrays: dict[str, Any]) -> None: ...


@contextmanager
def without_least() -> Iterator[None]:
    """Sessions of this process do without LEAST, as long as it lasts."""
    with mock.patch("monitor.session.LeastLearner", NoLearner):
        yield


if __name__ == "__main__":
    from monitor.cli import main

    with without_least():
        main()
    assert "tensorflow" not in sys.modules

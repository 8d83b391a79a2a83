"""`least-monitor run` with a learner that learns nothing: starts in a second, without TensorFlow.

For tests of what surrounds the statistics: the store, leadership, delivery. Run it as
``python -m tests.services.light run -c CONFIG``.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from monitor.encoding import Encoding
from monitor.learning import Learned


class NoLearner:
    """No graph; findings come from cells alone."""

    def __init__(self, *_: object) -> None: ...

    def learn(self, encoding: Encoding) -> Learned:
        return Learned.nothing(encoding)

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, arrays: dict[str, Any]) -> None: ...


def install() -> None:
    """From here on sessions of this process do without LEAST."""
    import monitor.session

    monitor.session.LeastLearner = NoLearner  # type: ignore[misc, assignment]


if __name__ == "__main__":
    install()
    from monitor.cli import main

    main()
    assert "tensorflow" not in sys.modules

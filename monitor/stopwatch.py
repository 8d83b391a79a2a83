"""How long the stages of a tick take."""

from __future__ import annotations

from time import perf_counter


class Stopwatch:
    """Wall time by stage: reported, never decided upon."""

    def __init__(self) -> None:
        self._last = perf_counter()
        self.seconds: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        """The stage is over."""
        now = perf_counter()
        self.seconds[stage] = now - self._last
        self._last = now

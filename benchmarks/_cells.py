"""Finished measurements, one JSON line each, so that a long run goes on where it was stopped."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

Key = tuple[Any, ...]


class Cells:
    """A file of measurements by key; a line that was cut off in writing is measured again.

    Args:
        path: JSON lines; None keeps nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[Key, dict[str, Any]] = {}
        if path is not None and path.exists():
            for line in path.read_text("utf-8").splitlines():
                with contextlib.suppress(json.JSONDecodeError):
                    cell = json.loads(line)
                    self._known[tuple(cell["key"])] = cell

    def get(self, key: Key) -> dict[str, Any] | None:
        """What was measured under this key."""
        return self._known.get(key)

    def add(self, key: Key, values: dict[str, Any]) -> dict[str, Any]:
        """Keep a measurement, on disk at once."""
        cell = {"key": list(key), **values}
        self._known[key] = cell
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(cell) + "\n")
        return cell


def digest_of(*modules: str) -> str:
    """Of these modules of `least` in this checkout: results of other sources are not its own."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update((Path(__file__).parent.parent / "least" / f"{module}.py").read_bytes())
    return digest.hexdigest()[:12]


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after so many wall-clock seconds (main thread, POSIX)."""

    def expire(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"stopped after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

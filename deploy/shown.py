"""What a run of the images or the stand shows, one line each, with its time."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Seen = TypeVar("Seen")

ROOT = Path(__file__).parents[1]
PATIENCE_SECONDS = 600.0
"""A busy machine takes its time; how long it took is printed, and here it is only given up."""


class NotShownError(Exception):
    """Something did not happen in time, or a command failed; the message says what."""


@dataclass(slots=True)
class Shown:
    """Prints a line for each thing that holds.

    Attributes:
        since: when the thing that is timed next began.
    """

    since: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """What comes next is timed from here."""
        self.since = time.monotonic()

    def say(self, what: str) -> None:
        """It holds."""
        print(f"{time.monotonic() - self.since:7.1f} s  {what}", flush=True)
        self.begin()

    def once(self, what: str, look: Callable[[], Seen]) -> Seen:
        """Look until there is something to see; `what` may show it as ``{}``.

        Raises:
            NotShownError: not in `PATIENCE_SECONDS`.
        """
        deadline, why = time.monotonic() + PATIENCE_SECONDS, "nothing to see"
        while time.monotonic() < deadline:
            try:
                if seen := look():
                    self.say(what.format(seen))
                    return seen
            except (OSError, LookupError, ValueError) as error:
                why = repr(error)
            time.sleep(0.2)
        raise NotShownError(f"not within {PATIENCE_SECONDS:.0f} s: {what} ({why})")


def run(*command: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """What it prints.

    Raises:
        NotShownError: it fails.
    """
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    if done.returncode:
        said = (done.stdout + done.stderr)[-3000:]
        raise NotShownError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{said}")
    return done.stdout


def get(url: str, token: str | None = None) -> Any:
    """The JSON there, or its text.

    Raises:
        OSError: no answer, or one of 400 and above.
    """
    request = urllib.request.Request(url)
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=5) as answer:
        said = answer.read().decode()
    return json.loads(said) if said[:1] in "[{" else said


def status(url: str) -> tuple[int, str]:
    """Its code, and what is said.

    Raises:
        OSError: no answer.
    """
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metric(text: str, name: str) -> float:
    """The only sample of that name and labels.

    Raises:
        LookupError: there is none.
    """
    values: Sequence[float] = [
        float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"{name} ")
    ]
    return values[0]

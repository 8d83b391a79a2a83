"""Of several daemons on one store one leads: who, until when, and whether it still lives.

The lease is a row in the store, and its epoch a fencing token: every write of a leader looks,
inside its own transaction, whether the epoch is still its own. So it does not matter when a
process that was paused for minutes learns that another one leads: it can write nothing.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

LENGTH = timedelta(seconds=15)
"""A leader silent for so long is replaced; one whose process is seen to be gone, at once."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who leads, as the store has it."""

    owner: str
    """For people: host and process."""
    epoch: int
    """Grows with every change of leader."""
    mine: bool
    left: timedelta
    """Negative: over, and anybody may take it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One holder of leases: a store opened by a process."""

    owner: str
    token: str
    """``boot/namespace/process/began/random``: tells others on this machine whether it lives."""

    @staticmethod
    def new() -> Identity:
        """Of this process, and different at every call."""
        number = os.getpid()
        place = _place(number)
        owner = f"{socket.gethostname()}, process {number}"[:200]
        return Identity(owner, "/".join((*place, secrets.token_hex(8))))


def is_gone(token: str) -> bool:
    """Certain that the process behind the token has ended: it ran here, and is no more.

    A process on another machine, or in another container, is never certainly gone.
    """
    parts = token.split("/")
    if len(parts) != 5 or not parts[0]:
        return False
    return parts[:2] == list(_place(os.getpid())[:2]) and _began(parts[2]) != parts[3]


def _place(number: int) -> tuple[str, str, str, str]:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux: others wait until the lease is over
        return "", "", str(number), ""
    return boot, namespace, str(number), _began(str(number))


def _began(number: str) -> str:
    """When the process began, in ticks since boot; empty when it is no more."""
    try:
        stat = Path("/proc", number, "stat").read_text()
    except OSError:
        return ""
    # The name in brackets may hold anything, brackets too.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def leads(owner: str) -> str:
    """What to tell a second one that cannot wait."""
    return (
        f"another least-monitor leads on this store ({owner}) and writes to it. End that one "
        "first, or give each a [store] url of its own"
    )

"""Backtest reports in a folder: listed, and served so that they can do nothing but be read."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

MOST = 500
LARGEST = 64 << 20
"""Bytes of a report that is served."""

# A report is a file from somewhere: no script, no request, an origin of its own.
POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True)
class Report:
    """One file."""

    name: str
    size: int
    written: datetime


def listed(folder: Path) -> list[Report]:
    """The newest first; only plain files whose names end in ``.html``.

    Raises:
        OSError: the folder cannot be read.
    """
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            # What a link points to may lie anywhere.
            if entry.name.endswith(".html") and entry.is_file(follow_symlinks=False):
                facts = entry.stat(follow_symlinks=False)
                written = datetime.fromtimestamp(facts.st_mtime, UTC)
                found.append(Report(entry.name, facts.st_size, written))
    found.sort(key=lambda report: (report.written, report.name), reverse=True)
    return found[:MOST]


def read(folder: Path, name: str) -> bytes | None:
    """One report; None when the folder has none of this name.

    Raises:
        OSError: it cannot be read.
        ValueError: it is too large.
    """
    if name not in {report.name for report in listed(folder)}:
        return None
    # Between the look and the opening it may have been exchanged.
    handle = os.open(folder / name, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(f"{name} is larger than {LARGEST >> 20} MiB")
    return text

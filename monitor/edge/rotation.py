"""Logs that are renamed, moved or emptied between two looks: what was read of them is known again
by its bytes, so nothing is read twice, and what was written in between is looked for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.domain import Rejected
from monitor.edge.blocks import Log, State
from monitor.edge.merging import File
from monitor.edge.streams import UnreadableError

MAX_MOVED = 10
"""Rotated files outside of `source.paths` that are still watched: a service may write to the old
file for a while."""


MAX_LOOKED_INTO = 50
"""Files of a folder that are tried, the newest first."""


@dataclass(frozen=True, slots=True)
class Rotated:
    """What became of logs."""

    elsewhere: tuple[str, ...]
    """Files beside `source.paths` in which a log goes on."""
    replaced: tuple[Rejected, ...]
    """Logs that were found nowhere; their end may be lost."""
    copies: tuple[str, ...]
    """Files that hold nothing but what was, or will be, read of another log."""


def follow_rotated(
    files: Sequence[File], states: dict[str, State], encoding: str | None
) -> Rotated:
    """Move states to where their files are now.

    Args:
        files: those with news, looked into.
        states: by path; changed.
        encoding: of the files.
    """
    changed = [f.path for f in files if "bytes" in states.get(f.path, {}) and not _is(f, states)]
    vanished = [path for path in states if not os.path.exists(path)]
    known = {path: states[path] for path in [*changed, *vanished]}
    there = {path: state for path, state in states.items() if path not in known}
    unread = {file.path for file in files}
    placed: set[str] = set()
    copies: list[str] = []
    now: dict[str, State] = {}
    for file in files:
        log = file.reader.log if file.reader is not None else None
        if file.path in there or log is None:
            continue
        if old := next((old for old, state in known.items() if log.same(state)), None):
            now[file.path] = _unseen(known[old])
            placed.add(old)
        elif old := next((old for old, state in known.items() if log.begins(state)), None):
            # Copied before the last of it was read there: all of the copy was.
            now[file.path] = {**known[old], "seen": file.mark}
            copies.append(file.path)
        elif old := next((old for old, state in there.items() if log.begins(state)), None):
            # A copy of a log that is about to be emptied, or that somebody made to keep.
            if old in unread or not (log.longer_than(old) and log.same(there[old])):
                copies.append(file.path)
            else:
                now[file.path] = _unseen(there[old])
    elsewhere = []
    replaced = []
    others = {file.path for file in files} | set(states)
    for old in changed:
        state = states.pop(old)
        if old in placed or old in now:  # the place of the oldest goes to the next in turn
            continue
        if rest := _cut(old, files, state):
            now[old] = rest
            continue
        found = next(
            (path for path in _beside(old) if path not in others and _holds(path, state, encoding)),
            None,
        )
        if found is not None:
            states[found] = {**state, "moved": True}
            elsewhere.append(found)
            continue
        detail = (
            f"is another file now, or was emptied, and what was read of it ({state['bytes']} "
            "bytes) is nowhere beside it: what was written behind that is lost; let it be renamed "
            "in its folder, or name the rotated files in `source.paths` too"
        )
        replaced.append(Rejected("replaced", old, detail))
    states |= now
    moved = [path for path, state in states.items() if state.get("moved")]
    for path in moved[:-MAX_MOVED]:
        del states[path]
    return Rotated(tuple(elsewhere), tuple(replaced), tuple(copies))


def _unseen(state: State) -> State:
    """The place it names, but of another file."""
    return {key: value for key, value in state.items() if key != "seen"}


def _is(file: File, states: dict[str, State]) -> bool:
    """The file that was read under this path; what cannot be opened may be it."""
    if file.reader is None or file.reader.log is None:
        return True
    return file.reader.log.same(states[file.path])


def _cut(path: str, files: Sequence[File], state: State) -> State | None:
    """Where it goes on, if its first lines were cut off."""
    logs = (file.reader.log for file in files if file.path == path and file.reader is not None)
    log = next(logs, None)
    return log.cut(state) if log is not None else None


def _beside(path: str) -> list[str]:
    """Files of its folder, the newest first."""
    found = []
    with contextlib.suppress(OSError), os.scandir(os.path.dirname(path) or ".") as folder:
        for entry in folder:
            with contextlib.suppress(OSError):
                if entry.is_file():
                    found.append((-entry.stat().st_mtime_ns, entry.path))
    return [path for _, path in sorted(found)[:MAX_LOOKED_INTO]]


def _holds(path: str, state: State, encoding: str | None) -> bool:
    try:
        return Log(path, waits=True, encoding=encoding).same(state)
    except UnreadableError:
        return False

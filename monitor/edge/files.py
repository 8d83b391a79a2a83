"""Logs in files: Parquet, CSV, JSON and lines of other kinds, whole or growing."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

import numpy as np
import structlog

from monitor.config import Config, FilesSettings
from monitor.config.problems import did_you_mean
from monitor.domain import Batch, Rejected, datetime64
from monitor.edge.blocks import State
from monitor.edge.decoding import Decoder
from monitor.edge.merging import File, Merging, Piece
from monitor.edge.opening import open_reader
from monitor.edge.readers import DuplicateColumnError, Reader
from monitor.edge.rotation import follow_rotated
from monitor.edge.source import Flow, SourceAwayError, SourceError, SourceStatus
from monitor.edge.streams import UnreadableError
from monitor.vocabulary import Vocabulary

STDIN = "-"

MAX_VANISHED = 1000
"""Files that are no longer there, but whose positions are kept."""

MAX_READERS = 64
"""Files that were looked into and are kept so until it is their turn."""

PROBED_BYTES = 1 << 16
"""Read to learn when a log begins."""

MISSED_AFTER = timedelta(hours=1)
"""Between two files of a rotation there may be none for so long, and nothing is amiss."""

Mark = list[int] | None

MIN_ROWS_TO_JUDGE = 100
"""Rows before a high share of rejected ones stops the reading."""

_log = structlog.get_logger("files")


class FileSource:
    """The source over files, globs and standard input.

    Args:
        config: what the columns mean; `config.source` how the files are written.
        vocabulary: codes the values; it grows.
        paths: read these instead of `config.source.paths`.
        follow: files may still grow, so an unfinished last line waits for its end; None takes
            `config.source.follow`. A replay says False.
        stdin: what ``-`` reads.
        now: the clock; rows far in the future say nothing about how far a log has come.
    """

    def __init__(
        self,
        config: Config,
        vocabulary: Vocabulary,
        paths: Sequence[str] | None = None,
        *,
        follow: bool | None = None,
        stdin: BinaryIO | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        # A configuration for a stream replays files too.
        stream = FilesSettings(max_rejected_ratio=config.source.max_rejected_ratio)
        self.settings = config.source if isinstance(config.source, FilesSettings) else stream
        self.paths = tuple(self.settings.paths if paths is None else paths)
        self.follow = self.settings.follow if follow is None else follow
        self.stdin = stdin
        self.decoder = Decoder(config, vocabulary)
        self._now, self._max_future = now, config.settings.window.max_future
        self._finished: dict[str, tuple[Mark, State]] = {}
        self.unmatched: tuple[str, ...] = ()
        """Of `paths` those that matched no file when the files were last listed, and why."""
        self.links: tuple[str, ...] = ()
        """Names of files that were listed under another name."""
        self._told: set[str] = set()
        self._told_copies: set[str] = set()
        self._none_since: datetime | None = None
        self._nothing = ""
        """Why there is nothing to read; empty while there is."""
        self.optional_columns = {
            column for column, attribute in self.decoder.attributes if attribute.is_code
        } | {column for outcome in config.outcomes for column in outcome.when.columns}

    def files(self) -> list[str]:
        """The files there are now, by name.

        Raises:
            SourceError: no path is configured, or nothing is there and nothing is awaited.
        """
        if not self.paths:
            raise SourceError("no input: name files on the command line or in `source.paths`")
        found: dict[str, None] = {}
        unmatched: list[str] = []
        for path in self.paths:
            if path == STDIN:
                found[path] = None
                continue
            matches = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
            files = [match for match in matches if os.path.isfile(match)]
            if not files:
                unmatched.append(f"{path} {_why_none(path)}")
            found |= dict.fromkeys(files)
        self.unmatched = tuple(unmatched)
        if unmatched and not self.follow:
            raise SourceError("\n".join(unmatched))
        return self._once_each(list(found))

    def batches(self, after: Mapping[str, object] | None = None) -> Iterator[Batch]:
        """See `monitor.edge.source.Source`. What is new in several files is merged by time.

        Raises:
            SourceAwayError: there is no file, or one could not be read this time.
        """
        given = (after or {}).get("files", {})
        states: dict[str, State] = dict(given) if isinstance(given, dict) else {}
        listed = self.files()
        self._miss(listed, read_before=bool(states))
        moved = [p for p, s in states.items() if s.get("moved") and os.path.exists(p)]
        paths = list(dict.fromkeys([*listed, *moved]))
        news = [path for path in paths if self._has_news(path, states.get(path, {}))]
        files = [self._opened(path) for path in news]
        found = follow_rotated(files, states, self.settings.encoding)
        if found.replaced:
            yield Batch(self.decoder.nothing(), {"files": dict(states)}, found.replaced)
        self._tell_copies([*self.links, *found.copies])
        files = [file for file in files if file.path not in found.copies]
        files += [self._opened(path) for path in found.elsewhere]
        for file in files:
            file.identity = {k: v for k, v in states.get(file.path, {}).items() if k == "moved"}
        _forget_the_oldest(states, paths)
        if len(files) > MAX_READERS:
            for file in files:
                file.reader = None  # all together they would fill the memory
        tally = _Tally(self.settings.max_rejected_ratio)
        away: list[str] = []
        latest = datetime64(self._now() + self._max_future)
        try:
            for file, piece, reached in Merging(files, self, states, latest).pieces():
                if piece.passing:
                    away += [f"{one.where}: {one.detail}" for one in piece.rejected]
                    continue
                states[file.path] = {**piece.state, **file.identity}
                position = {"files": dict(states)}
                yield Batch(piece.events, position, piece.rejected, reached, file.path)
                tally.add(len(piece.events), piece.rejected)
                tally.check()
            tally.check()
        finally:
            for file in files:
                if file.done:
                    self._finished[file.path] = (file.mark, states.get(file.path, {}))
        if away:
            raise SourceAwayError("\n".join(f"{line}; it is tried again" for line in away))

    def status(self) -> SourceStatus:
        """A pass reads all there is, so silence is silence, unless there is no file at all."""
        return SourceStatus(Flow.AWAY, self._nothing) if self._nothing else SourceStatus()

    def close(self) -> None:
        """Nothing is held between two passes."""

    def _once_each(self, paths: list[str]) -> list[str]:
        """Without links to files that are there by their own name, or by another link."""
        files: dict[str, str] = {}
        for path in sorted(paths, key=os.path.islink):
            files.setdefault(path if path == STDIN else _inode(path), path)
        kept = set(files.values())
        self.links = tuple(path for path in paths if path not in kept)
        return [path for path in paths if path in kept]

    def _tell_copies(self, copies: Sequence[str]) -> None:
        """Tell once of every file that is left out."""
        for one in copies:
            if one not in self._told_copies:
                _log.warning("holds nothing but what another log holds: left out", path=one)
        self._told_copies |= set(copies)

    def _miss(self, listed: Sequence[str], read_before: bool) -> None:
        """Tell once of every path that matches nothing.

        Raises:
            SourceAwayError: none matches anything.
        """
        for one in self.unmatched:
            if one not in self._told:
                _log.warning("no such file yet; it is read as soon as it is there", path=one)
        self._told = set(self.unmatched)
        if listed:
            self._none_since, self._nothing = None, ""
            return
        now = self._now()
        self._none_since = self._none_since or now
        if not read_before or now - self._none_since > MISSED_AFTER:
            self._nothing = "; ".join(self.unmatched)
            raise SourceAwayError(f"{self._nothing}; it is tried again")

    def _has_news(self, path: str, state: State) -> bool:
        if path == STDIN:
            return path not in self._finished  # a pipe ends once
        mark = _fingerprint(path)
        # The same file is no news only to someone who has stored all of it: after a failed
        # transaction the daemon comes back with an older position.
        return mark != state.get("seen") and self._finished.get(path) != (mark, state)

    def _opened(self, path: str) -> File:
        """A file that was looked into, its columns checked."""
        file = File(path, _fingerprint(path))
        try:
            file.reader = self._reader(path)
            self._check_columns(path, file.reader)
        except DuplicateColumnError as error:
            if not self.follow:
                raise SourceError(f"{path}: {error}") from None
            file.trouble = error
        except UnreadableError as error:
            file.trouble = error
        return file

    def _reader(self, path: str) -> Reader:
        source = (self.stdin or sys.stdin.buffer) if path == STDIN else path
        return open_reader(source, self.settings, self.decoder.required, self.follow)

    def _check_columns(self, path: str, reader: Reader) -> None:
        """Every column that is needed must be there, before a single row is read."""
        present = reader.columns()
        if present is None:
            return
        missing = []
        for column, purpose in self.decoder.required.items():
            if column in present or (reader.optional() and column in self.optional_columns):
                continue
            missing.append(
                f"no column `{column}` for {purpose}; {did_you_mean(column, sorted(present))}"
            )
        if len(missing) == len(self.decoder.required) > 1:
            missing.append(
                "none of the columns is there: is the first line the header? If not, put one in "
                "front, or say how a line is made up: format or pattern in [source]"
            )
        if missing:
            raise SourceError("\n".join(f"{path}: {line}" for line in missing))

    def begins(self, file: File, state: State) -> np.datetime64 | None:
        """Event time of the first rows behind `state`; None if they have none."""
        try:
            reader = file.reader or self._reader(file.path)
            chunk = next(reader.chunks(state, PROBED_BYTES), None)
        except UnreadableError:
            return None  # told when it is read
        if chunk is None or not len(chunk.rows):
            return None
        try:
            times = self.decoder.times(chunk.rows)
        except SourceError as error:
            raise SourceError(f"{file.path}: {error}") from None
        return times.min() if len(times) else None

    def read(self, file: File, state: State) -> Iterator[Piece]:
        """What stands behind `state`; trouble is the last piece."""
        try:
            if file.trouble is not None:
                raise file.trouble
            reader = file.reader or self._reader(file.path)
            for chunk in reader.chunks(state):
                state = chunk.state
                events = self.decoder.nothing()
                rejected: tuple[Rejected, ...] = ()
                if len(chunk.rows):
                    try:
                        events, rejected = self.decoder.decode(chunk.rows, chunk.locate)
                    except SourceError as error:
                        raise SourceError(f"{file.path}: {error}") from None
                yield Piece(events, chunk.rejected + rejected, state)
        except UnreadableError as error:
            told = (Rejected(error.reason, file.path, str(error)),)
            passing = error.passing and error.reason != "vanished"
            if not error.passing:
                state = {**state, "seen": file.mark}
            yield Piece(self.decoder.nothing(), told, state, passing)


def _inode(path: str) -> str:
    """Which file it is, whatever its name."""
    try:
        status = os.stat(path)
    except OSError:
        return path
    return f"{status.st_dev} {status.st_ino}"


def _why_none(path: str) -> str:
    """Why a path matches no file, for people."""
    if os.path.isdir(path):
        return "is a folder; add /*"
    folder, missing = os.path.dirname(path), ""
    while folder and not os.path.isdir(folder):
        missing = "" if glob.has_magic(folder) else folder
        folder = os.path.dirname(folder)
    if folder and not os.access(folder, os.R_OK | os.X_OK, effective_ids=True):
        return f"matches no file: this user may not look into {folder}"
    return f"matches no file: there is no folder {missing}" if missing else "matches no file"


def _forget_the_oldest(states: dict[str, State], listed: Sequence[str]) -> None:
    """Drop files long gone: positions are stored with every batch and must not grow for ever.

    A file that has only just vanished may come back, when its disk does, or under another name.
    """
    there = set(listed)
    gone = [path for path in states if path not in there]
    for path in gone[: -MAX_VANISHED or None]:
        del states[path]


class _Tally:
    """Keeps the share of rejected rows in sight: a wrong configuration must not pass for data."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.rows = 0
        self.rejected = 0
        self.example = ""

    def add(self, rows: int, rejected: Sequence[Rejected]) -> None:
        self.rows += rows
        for one in rejected:
            if one.result == "rejected":
                self.rejected += one.count
                self.example = self.example or f"{one.where}: {one.detail}"

    def check(self) -> None:
        seen = self.rows + self.rejected
        if seen >= MIN_ROWS_TO_JUDGE and self.rejected > self.limit * seen:
            raise SourceError(
                f"{self.rejected} of {seen} rows cannot be understood, more than "
                f"`source.max_rejected_ratio` = {self.limit:g} allows; the first: {self.example}"
            )


def _fingerprint(path: str) -> Mark:
    """Changes whenever the file does."""
    if path == STDIN:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    # Not the time of modification: a file that was made readable is news too.
    return [status.st_size, status.st_ctime_ns]

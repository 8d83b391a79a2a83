"""Logs in files: Parquet, CSV and JSON lines, whole or growing."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from monitor.config import Config, FilesSettings
from monitor.config.problems import did_you_mean
from monitor.domain import Batch, Rejected
from monitor.edge.blocks import Log, State, UnreadableError
from monitor.edge.decoding import Decoder
from monitor.edge.opening import open_reader
from monitor.edge.readers import Reader
from monitor.edge.source import SourceError, SourceStatus
from monitor.vocabulary import Vocabulary

STDIN = "-"

MAX_VANISHED = 1000
"""Files that are no longer there, but whose positions are kept."""

Mark = list[int] | None

MIN_ROWS_TO_JUDGE = 100
"""Rows before a high share of rejected ones stops the reading."""


class FileSource:
    """The source over files, globs and standard input.

    Args:
        config: what the columns mean; `config.source` how the files are written.
        vocabulary: codes the values; it grows.
        paths: read these instead of `config.source.paths`.
        follow: files may still grow, so an unfinished last line waits for its end; None takes
            `config.source.follow`. A replay says False.
        stdin: what ``-`` reads.
    """

    def __init__(
        self,
        config: Config,
        vocabulary: Vocabulary,
        paths: Sequence[str] | None = None,
        *,
        follow: bool | None = None,
        stdin: BinaryIO | None = None,
    ) -> None:
        # A configuration for a stream replays files too.
        stream = FilesSettings(max_rejected_ratio=config.source.max_rejected_ratio)
        self.settings = config.source if isinstance(config.source, FilesSettings) else stream
        self.paths = tuple(self.settings.paths if paths is None else paths)
        self.follow = self.settings.follow if follow is None else follow
        self.stdin = stdin
        self.decoder = Decoder(config, vocabulary)
        self._finished: dict[str, tuple[Mark, State]] = {}
        self.optional_columns = {
            column for column, attribute in self.decoder.attributes if attribute.is_code
        } | {column for outcome in config.outcomes for column in outcome.when.columns}

    def files(self) -> list[str]:
        """The files there are now, in the order they are read: by name.

        Raises:
            SourceError: no path is configured, or nothing is there and nothing is awaited.
        """
        if not self.paths:
            raise SourceError("no input: name files on the command line or in `source.paths`")
        found: dict[str, None] = {}
        for path in self.paths:
            if path == STDIN:
                found[path] = None
                continue
            matches = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
            files = [match for match in matches if os.path.isfile(match)]
            if not files and not self.follow:
                what = "is a folder; add /*" if os.path.isdir(path) else "matches no file"
                raise SourceError(f"{path}: {what}")
            found |= dict.fromkeys(files)
        return list(found)

    def batches(self, after: Mapping[str, object] | None = None) -> Iterator[Batch]:
        """See `monitor.edge.source.Source`. Files are read one after the other, by name."""
        given = (after or {}).get("files", {})
        states: dict[str, State] = dict(given) if isinstance(given, dict) else {}
        news = [path for path in self.files() if self._has_news(path, states.get(path, {}))]
        opened = [(path, *self._open(path)) for path in news]
        states |= _renamed(opened, states)
        _forget_the_oldest(states)
        tally = _Tally(self.settings.max_rejected_ratio)
        for path, mark, reader in opened:
            yield from self._read(path, mark, reader, states, tally)
        tally.check()

    def status(self) -> SourceStatus:
        """A pass reads all there is, so silence is silence."""
        return SourceStatus()

    def close(self) -> None:
        """Nothing is held between two passes."""

    def _has_news(self, path: str, state: State) -> bool:
        if path == STDIN:
            return path not in self._finished  # a pipe ends once
        mark = _fingerprint(path)
        # The same file is no news only to someone who has stored all of it: after a failed
        # transaction the daemon comes back with an older position.
        return mark != state.get("seen") and self._finished.get(path) != (mark, state)

    def _open(self, path: str) -> tuple[Mark, Reader | UnreadableError]:
        """The reader of a file, its columns checked; or why it has none."""
        mark = _fingerprint(path)
        try:
            source = (self.stdin or sys.stdin.buffer) if path == STDIN else path
            reader = open_reader(source, self.settings, self.decoder.required, self.follow)
            self._check_columns(path, reader)
        except UnreadableError as error:
            return mark, error
        return mark, reader

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
        if missing:
            raise SourceError("\n".join(f"{path}: {line}" for line in missing))

    def _read(
        self,
        path: str,
        mark: Mark,
        reader: Reader | UnreadableError,
        states: dict[str, State],
        tally: _Tally,
    ) -> Iterator[Batch]:
        try:
            if isinstance(reader, UnreadableError):
                raise reader
            for chunk in reader.chunks(states.get(path, {})):
                states[path] = chunk.state
                try:
                    events, rejected = self.decoder.decode(chunk.rows, chunk.locate)
                except SourceError as error:
                    raise SourceError(f"{path}: {error}") from None
                rejected = chunk.rejected + rejected
                yield Batch(events, {"files": dict(states)}, rejected)
                tally.add(len(events), rejected)
                tally.check()
        except UnreadableError as error:
            states[path] = {**states.get(path, {}), "seen": mark}
            rejected = (Rejected(error.reason, path, str(error)),)
            yield Batch(self.decoder.nothing(), {"files": dict(states)}, rejected)
        self._finished[path] = (mark, states.get(path, {}))


def _renamed(
    opened: Sequence[tuple[str, Mark, Reader | UnreadableError]], states: Mapping[str, State]
) -> dict[str, State]:
    """States of files that are known under another name: a rotated log is not read twice."""
    found: dict[str, State] = {}
    for path, _, reader in opened:
        if path in states or isinstance(reader, UnreadableError) or reader.log is None:
            continue
        for old, state in states.items():
            if reader.log.same(state) and not _is_still(old, state):
                found[path] = state
    return found


def _forget_the_oldest(states: dict[str, State]) -> None:
    """Drop files long gone: positions are stored with every batch and must not grow for ever.

    A file that has only just vanished may come back, when its disk does, or under another name.
    """
    gone = [path for path in states if not os.path.exists(path)]
    for path in gone[: -MAX_VANISHED or None]:
        del states[path]


def _is_still(path: str, state: State) -> bool:
    try:
        return os.path.isfile(path) and Log(path, waits=True).same(state)
    except UnreadableError:
        return False


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

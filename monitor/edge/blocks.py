"""Bytes of a log in blocks of whole records: plain or compressed, on disk or from a pipe."""

from __future__ import annotations

import codecs
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from monitor.edge.streams import (
    SNIFFED_BYTES,
    MacLines,
    Reading,
    Rejoined,
    Transcoded,
    UnreadableError,
    compression_of,
    encoding_of,
    has_mac_lines,
    read_fully,
)

BLOCK_BYTES = 1 << 23
"""Read at once; with a log's usual lines some 50,000 rows."""

MAX_RECORD_BYTES = 1 << 26
"""A longer record is left out."""

HEAD_BYTES = 1024
"""At the beginning, and before the place reached, these tell a file from any other."""

CUT_BYTES = 1 << 24
"""So much of a log is searched for the place where reading stood, if its first lines are gone."""

_PIECES = (1 << 16, 256, 1)
"""Sizes in which the end of a torn archive is read."""

State = Mapping[str, Any]
"""How far one file has been read; JSON-able."""

Cut = Callable[[bytes, bool], int]
"""How many of the bytes are whole records; true if more bytes are at hand."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records; or one that is left out, because it is too long."""

    data: bytes
    line: int
    """Number of its first line, from 1."""
    state: State
    """Where the next block begins."""
    too_long: bool = False


class Log:
    """The bytes of one log, as UTF-8.

    Args:
        source: a path, or an open stream that is read once, from where it is.
        waits: the last record may still be written; leave it until its line end is there.
        encoding: of the text; None: what its byte order mark says, else UTF-8.
    """

    def __init__(self, source: str | BinaryIO, waits: bool, encoding: str | None = None) -> None:
        self.source = source
        self.name = source if isinstance(source, str) else "standard input"
        self.compression: str | None = None
        self.encoding: str | None = None
        self.head_bytes = HEAD_BYTES
        self._mac = False
        self._tail = b""
        self._inside = False
        self._sniffed = b""
        self._piped: Any = None if isinstance(source, str) else source
        self._pending = b""
        start = self._first(8)
        self.compression = compression_of(start)
        self.waits = waits and isinstance(source, str) and self.compression is None
        """A compressed file is closed by its writer, and a pipe by its end."""
        if self.compression is not None:
            self._layer(lambda s: pa.CompressedInputStream(pa.PythonFile(s, "r"), self.compression))
            start = self._first(8)
        self.encoding = encoding_of(start) or _named(encoding)
        if self.encoding is not None:
            self._layer(lambda s: Transcoded(s, str(self.encoding), True))
        start = self._first(SNIFFED_BYTES)
        self._mac = has_mac_lines(start)
        if self._mac:
            self._layer(MacLines)
            start = self._first(SNIFFED_BYTES)
        self._sniffed = b"" if self._piped is not None else start
        self.start = len(codecs.BOM_UTF8) * start.startswith(codecs.BOM_UTF8)
        """Where the text begins, behind a byte order mark."""

    def peek(self, size: int) -> bytes:
        """The first bytes of the text; they are read again later."""
        return self._first(self.start + size)[self.start :]

    def stopped(self, state: State) -> tuple[int, int]:
        """Bytes and lines done in an earlier pass; the start if it is another file by now."""
        offset, line = int(state.get("bytes", 0)), int(state.get("lines", 0))
        if not offset or self._piped is not None or not self.same(state):
            return self.start, 0
        if self._seekable and os.path.getsize(self.name) < offset:
            return self.start, 0  # cut short and written anew
        self._inside = bool(state.get("inside"))
        return offset, line

    def same(self, state: State) -> bool:
        """True if `state` is about this very file, under whatever name.

        It must begin as that one did, and go on so up to the place reached: many logs share a
        long header.
        """
        size, digest = state.get("head") or (0, "")
        if not size or _digest(self._first(int(size))) != digest:
            return False
        if "tail" not in state:
            return True  # written by an older version
        length, digest = state["tail"]
        try:
            with Reading():
                stream = self._stream()
                try:
                    self._skip(stream, int(state["bytes"]) - int(length))
                    return bool(_digest(read_fully(stream, int(length))) == digest)
                finally:
                    stream.close()
        except UnreadableError as error:
            if error.passing:
                raise
            return False

    def begins(self, state: State) -> bool:
        """True if it begins as the log that `state` is about, and that says enough: many logs
        have their first lines in common."""
        size, digest = state.get("head") or (0, "")
        return int(size) >= self.head_bytes and _digest(self._first(int(size))) == digest

    def cut(self, state: State) -> State | None:
        """Where in it reading goes on, if it is the log that `state` is about without its first
        lines; None if the last bytes that were read stand nowhere in it."""
        length, digest = state.get("tail") or (0, "")
        if length < HEAD_BYTES or not self._seekable or self._piped is not None:
            return None  # a few bytes may stand anywhere
        data = self._first(CUT_BYTES)
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))[::-1] + 1
        last = (int(end) for end in ends if end >= length)
        found = next((e for e in last if _digest(data[e - length : e]) == digest), None)
        if found is None:
            return None
        self._tail = data[found - length : found]
        return self._state(found, data.count(b"\n", 0, found))

    def longer_than(self, other: str) -> bool:
        """True if it holds more than another file, neither of them packed."""
        return self._seekable and os.path.getsize(self.name) > os.path.getsize(other)

    def blocks(self, offset: int, lines: int, cut: Cut, size: int | None = None) -> Iterator[Block]:
        """Whole records behind `offset`; `lines` lines lie before it.

        Args:
            size: bytes to read at once; `BLOCK_BYTES` if left out.

        Raises:
            UnreadableError: the file is broken; what stands before that was handed over.
        """
        with Reading():
            stream = self._piped if self._piped is not None else self._stream()
        rest = b"" if self._piped is None else self._pending[offset:]
        self._pending = b""
        skipping, self._inside, self._tail = self._inside, False, b""
        torn: UnreadableError | None = None
        try:
            if self._piped is None:
                with Reading():
                    before = min(offset, HEAD_BYTES)
                    self._skip(stream, offset - before)
                    self._tail = read_fully(stream, before)
            while True:
                try:
                    with Reading():
                        data = self._more(stream, size or BLOCK_BYTES)
                except UnreadableError as error:
                    torn, data = error, self._salvaged(offset + len(rest))
                more = bool(data) and torn is None
                if skipping:
                    end = data.find(b"\n") + 1
                    skipping = not end
                    offset, lines, data = (
                        offset + (end or len(data)),
                        lines + bool(end),
                        (data[end:] if end else b""),
                    )
                rest += data
                final = not more and torn is None and not self.waits
                end = len(rest) if final else cut(rest, more)
                if end:
                    block, rest = rest[:end], rest[end:]
                    offset += end
                    first, lines = lines + 1, lines + block.count(b"\n")
                    self._tail = (self._tail + block[-HEAD_BYTES:])[-HEAD_BYTES:]
                    yield Block(block, first, self._state(offset, lines))
                elif len(rest) > MAX_RECORD_BYTES:
                    offset += len(rest)
                    self._tail, rest, skipping = rest[-HEAD_BYTES:], b"", True
                    state = self._state(offset, lines)
                    yield Block(b"", lines + 1, state | {"inside": True} if state else {}, True)
                if torn is not None:
                    raise torn
                if not more:
                    break
        finally:
            if stream is not self._piped:
                stream.close()

    def _state(self, offset: int, lines: int) -> dict[str, Any]:
        if self._piped is not None:
            return {}
        head = self._first(min(offset, self.head_bytes))
        tail = self._tail
        return {
            "bytes": offset,
            "lines": lines,
            "head": [len(head), _digest(head)],
            "tail": [len(tail), _digest(tail)],
        }

    @property
    def _seekable(self) -> bool:
        return self.compression is None and self.encoding is None

    def _first(self, size: int) -> bytes:
        """The first bytes, whatever they are."""
        if self._piped is None:
            if size <= len(self._sniffed):
                return self._sniffed[:size]
            try:
                with Reading():
                    stream = self._stream()
                    try:
                        return read_fully(stream, size)
                    finally:
                        stream.close()
            except UnreadableError as error:
                # A torn archive is told of where it ends.
                if error.passing or not (found := self._salvaged(0)):
                    raise
                return found[:size]
        while len(self._pending) < size and b"\n" not in self._pending.lstrip():
            with Reading():
                data = self._more(self._piped, size)
            if not data:
                break
            self._pending += data
        return self._pending

    def _layer(self, layer: Callable[[Any], Any]) -> None:
        """Unpack or transcode a pipe, of which some was read already; files are opened so."""
        if self._piped is not None:
            self._piped = layer(Rejoined(self._pending, self._piped))
            self._pending = b""

    def _stream(self) -> Any:
        if self.compression is None:
            stream: Any = open(self.name, "rb", buffering=0)  # noqa: SIM115
        else:
            stream = pa.CompressedInputStream(pa.OSFile(self.name), self.compression)
        if self.encoding is not None:
            stream = Transcoded(stream, self.encoding, not self.waits)
        return MacLines(stream) if self._mac else stream

    def _more(self, stream: Any, size: int) -> bytes:
        """Some bytes; of a pipe what is there now, so that rows do not wait for others."""
        at_hand = getattr(stream, "read1", None) if self._piped is not None else None
        return bytes((at_hand or stream.read)(size))

    def _salvaged(self, offset: int) -> bytes:
        """What a torn archive still holds behind `offset`."""
        found = b""
        if self.compression is None or self._piped is not None:
            return found
        for piece in _PIECES:
            stream = self._stream()
            try:
                self._skip(stream, offset + len(found))
                while data := bytes(stream.read(piece)):
                    found += data
            except (OSError, EOFError, pa.ArrowException):
                continue
            finally:
                stream.close()
        return found

    def _skip(self, stream: Any, offset: int) -> None:
        if self._seekable:
            stream.seek(offset)
            return
        while offset > 0:
            skipped = len(stream.read(min(offset, BLOCK_BYTES)))
            if not skipped:
                return
            offset -= skipped


def _named(encoding: str | None) -> str | None:
    """The name of an encoding that is not UTF-8."""
    name = codecs.lookup(encoding).name if encoding else "utf-8"
    return None if name in ("utf-8", "utf-8-sig", "ascii") else name


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def filled_lines(data: bytes) -> np.ndarray:
    """Numbers, from 0, of the lines that are not blank."""
    return np.array([i for i, line in enumerate(data.split(b"\n")) if line.strip()], np.int64)


def whole_lines(data: bytes, more: bool = False) -> int:
    """The `Cut` of formats whose records are lines."""
    return data.rfind(b"\n") + 1

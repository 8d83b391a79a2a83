"""Bytes of a log in blocks of whole records: plain or compressed, on disk or from a pipe."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

BLOCK_BYTES = 1 << 23
"""Read at once; with a log's usual lines some 50,000 rows."""

MAX_RECORD_BYTES = 1 << 26
"""A record may not be longer: something without line ends is no log."""

HEAD_BYTES = 1024
"""Tells a file from another of the same name."""

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
    b"\x04\x22\x4d\x18": "lz4",
}

State = Mapping[str, Any]
"""How far one file has been read; JSON-able."""

Cut = Callable[[bytes], int]
"""How many of the bytes are whole records."""


class UnreadableError(Exception):
    """A file that cannot be read (further).

    Attributes:
        reason: the short word for `Rejected`.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records."""

    data: bytes
    line: int
    """Number of its first line, from 1."""
    state: State
    """Where the next block begins."""


class Log:
    """The bytes of one log.

    Args:
        source: a path, or an open stream that is read once, from where it is.
        waits: the last record may still be written; leave it until its line end is there.
    """

    def __init__(self, source: str | BinaryIO, waits: bool) -> None:
        self.source = source
        self.name = source if isinstance(source, str) else "standard input"
        self._pending = b""
        self._head = b""
        self.compression: str | None = None
        self._piped = None if isinstance(source, str) else source
        magic = self.peek(8)
        self.compression = next((kind for m, kind in _MAGIC.items() if magic.startswith(m)), None)
        if self._piped is not None and self.compression is not None:
            unread = _Rejoined(self._pending, self._piped)
            self._piped = pa.CompressedInputStream(pa.PythonFile(unread, "r"), self.compression)
            self._pending = b""
        self.waits = waits and isinstance(source, str) and self.compression is None
        """A compressed file is closed by its writer, and a pipe by its end."""

    def peek(self, size: int) -> bytes:
        """The first bytes, unpacked; they are read again later."""
        if self._piped is None:
            with _Reading(), self._stream() as stream:
                return bytes(stream.read(size))
        while len(self._pending) < size and b"\n" not in self._pending.lstrip():
            with _Reading():
                data = self._more(self._piped, size)
            if not data:
                break
            self._pending += data
        return self._pending

    def stopped(self, state: State) -> tuple[int, int]:
        """Bytes and lines done in an earlier pass; zero if this is not the same file any more."""
        offset, line = int(state.get("bytes", 0)), int(state.get("lines", 0))
        if not offset or self._piped is not None or not self.same(state):
            return 0, 0
        if self.compression is None and os.path.getsize(self.name) < offset:
            return 0, 0  # cut short and written anew
        return offset, line

    def same(self, state: State) -> bool:
        """True if `state` is about this very file, under whatever name."""
        size, digest = state.get("head") or (0, "")
        return bool(size) and _digest(self.peek(int(size))) == digest

    def blocks(self, offset: int, lines: int, cut: Cut) -> Iterator[Block]:
        """Whole records behind `offset`; `lines` lines lie before it.

        Raises:
            UnreadableError: the file is broken, or no log.
        """
        stream = self._piped or self._stream()
        if offset and self._piped is None:
            self._skip(stream, offset)
        rest = b"" if self._piped is None else self._pending[offset:]
        self._pending = b""
        try:
            while True:
                with _Reading():
                    data = self._more(stream, BLOCK_BYTES)
                rest += data
                end = len(rest) if not data and not self.waits else cut(rest)
                if end:
                    block, rest = rest[:end], rest[end:]
                    offset += end
                    first, lines = lines + 1, lines + block.count(b"\n")
                    yield Block(block, first, self._state(offset, lines))
                elif len(rest) > MAX_RECORD_BYTES:
                    detail = f"line {lines + 1} is longer than {MAX_RECORD_BYTES >> 20} MiB: no log"
                    raise UnreadableError("no_lines", detail)
                if not data:
                    break
        finally:
            if stream is not self._piped:
                stream.close()

    def _state(self, offset: int, lines: int) -> dict[str, Any]:
        if self._piped is not None:
            return {}
        if len(self._head) < min(offset, HEAD_BYTES):
            self._head = self.peek(min(offset, HEAD_BYTES))
        return {"bytes": offset, "lines": lines, "head": [len(self._head), _digest(self._head)]}

    def _stream(self) -> Any:
        if self.compression is None:
            return open(self.name, "rb", buffering=0)
        return pa.CompressedInputStream(pa.OSFile(self.name), self.compression)

    def _more(self, stream: Any, size: int) -> bytes:
        """Some bytes; of a pipe what is there now, so that rows do not wait for others."""
        at_hand = getattr(stream, "read1", None) if self._piped is not None else None
        return bytes((at_hand or stream.read)(size))

    def _skip(self, stream: Any, offset: int) -> None:
        if self.compression is None:
            stream.seek(offset)
            return
        with _Reading():
            while offset:
                skipped = len(stream.read(min(offset, BLOCK_BYTES)))
                if not skipped:
                    return
                offset -= skipped


class _Reading:
    """Turns what can go wrong while reading into `UnreadableError`."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError | EOFError | pa.ArrowException):
            text = str(error).split("\n")[0][:200]
            reason = "truncated" if "runcated" in text else "broken_file"
            raise UnreadableError(reason, f"cannot be read further: {text}") from None


class _Rejoined:
    """A stream whose first bytes were already taken."""

    closed = False

    def __init__(self, first: bytes, stream: Any) -> None:
        self.first = first
        self.stream = stream

    def read(self, size: int = -1) -> bytes:
        if self.first:
            taken, self.first = self.first[:size], self.first[size:] if size >= 0 else b""
            return taken
        return bytes(self.stream.read(size))

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def filled_lines(data: bytes) -> np.ndarray:
    """Numbers, from 0, of the lines that are not blank."""
    return np.array([i for i, line in enumerate(data.split(b"\n")) if line.strip()], np.int64)


def whole_lines(data: bytes) -> int:
    """The `Cut` of formats whose records are lines."""
    return data.rfind(b"\n") + 1

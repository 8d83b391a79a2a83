"""The bytes of a log as UTF-8 lines: unpacked, put into UTF-8, line ends of old Macs mended."""

from __future__ import annotations

import codecs
import errno
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa

SNIFFED_BYTES = 1 << 16
"""Looked at to find out how a log is written."""

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
    b"\x04\x22\x4d\x18": "lz4",
}

_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",  # before that of UTF-16, with which it begins
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}

_UNREADABLE = "least-monitor.unreadable"

# What is no text in its encoding becomes bytes that are none in UTF-8: its row is told of.
codecs.register_error(_UNREADABLE, lambda error: ("\udcff", getattr(error, "end", 0)))

_PERMANENT = {errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
"""Troubles of the file itself. Any other of the system (no descriptors left, a disk that is away)
may be over at the next look."""


class UnreadableError(Exception):
    """A file that cannot be read (further).

    Attributes:
        reason: the short word for `Rejected`.
        passing: not the file's fault, so it is tried again.
    """

    def __init__(self, reason: str, detail: str, *, passing: bool = False) -> None:
        super().__init__(detail)
        self.reason = reason
        self.passing = passing


class Reading:
    """Turns what can go wrong while reading into `UnreadableError`."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: object, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError | EOFError | pa.ArrowException):
            raise unreadable(error) from None


def unreadable(error: BaseException, says: str = "cannot be read further") -> UnreadableError:
    """What the error of a read means for the file."""
    text = str(error).strip().split("\n")[0][:200]
    number = getattr(error, "errno", None)
    if number == errno.ENOENT:
        return UnreadableError("vanished", "was removed before it was read", passing=True)
    if number is not None and number not in _PERMANENT:
        return UnreadableError("unreachable", f"cannot be read now: {text}", passing=True)
    reason = "truncated" if "runcated" in text else "broken_file"
    return UnreadableError(reason, f"{says}: {text}")


class Stream(Protocol):
    """Bytes in order."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; none at the end."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def compression_of(start: bytes) -> str | None:
    """What a log that begins so is packed with."""
    return next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)


def encoding_of(start: bytes) -> str | None:
    """The encoding that a byte order mark, or every other byte being zero, tells; None: UTF-8."""
    for mark, name in _MARKS.items():
        if start.startswith(mark):
            return name
    even, odd = start[::2], start[1::2]
    if len(start) >= 8 and not any(odd) and all(even):
        return "utf-16-le"
    return "utf-16-be" if len(start) >= 8 and not any(even) and all(odd) else None


def has_mac_lines(start: bytes) -> bool:
    """True if lines end with a carriage return alone, as on Macs before 2001."""
    return b"\n" not in start and b"\r" in start[:-1]


class Rejoined:
    """A stream whose first bytes were already taken."""

    closed = False

    def __init__(self, first: bytes, stream: Stream) -> None:
        self.first = first
        self.stream = stream

    def read(self, size: int = -1) -> bytes:
        """See `Stream`."""
        if self.first:
            taken, self.first = self.first[:size], self.first[size:] if size >= 0 else b""
            return taken
        # Of a pipe what is there now, so that rows do not wait for others.
        at_hand = getattr(self.stream, "read1", self.stream.read)
        return bytes(at_hand(size))

    def readable(self) -> bool:
        """As Arrow asks."""
        return True

    def close(self) -> None:
        """The pipe belongs to the process."""
        self.closed = True


class Transcoded:
    """A stream of another encoding as UTF-8.

    Args:
        stream: in `encoding`.
        whole: nothing will follow, so half a letter at the end is no letter.
    """

    def __init__(self, stream: Stream, encoding: str, whole: bool) -> None:
        self.stream = stream
        self.whole = whole
        self._decoder = codecs.getincrementaldecoder(encoding)(_UNREADABLE)
        self._ready = b""

    def read(self, size: int = -1) -> bytes:
        """See `Stream`."""
        while not self._ready:
            data = bytes(self.stream.read(size))
            text = self._decoder.decode(data, final=not data and self.whole)
            self._ready = text.encode("utf-8", "surrogatepass")
            if not data:
                break
        taken, self._ready = self._ready[:size], self._ready[size:]
        return taken

    def close(self) -> None:
        """See `Stream`."""
        self.stream.close()


class MacLines:
    """A stream whose lines end with a carriage return."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def read(self, size: int = -1) -> bytes:
        """See `Stream`."""
        return bytes(self.stream.read(size)).replace(b"\r", b"\n")

    def seek(self, offset: int) -> None:
        """Line ends keep their length, so places do."""
        self.stream.seek(offset)

    def close(self) -> None:
        """See `Stream`."""
        self.stream.close()


def read_fully(stream: Stream, size: int) -> bytes:
    """So many bytes, fewer only at the end."""
    parts = []
    while size > 0 and (data := bytes(stream.read(size))):
        parts.append(data)
        size -= len(data)
    return b"".join(parts)

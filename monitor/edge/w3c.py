"""W3C extended logs, as of IIS and CloudFront: lines that begin with ``#`` tell the columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from monitor.edge.blocks import Block, Log, State, whole_lines
from monitor.edge.csv_rows import CsvRows
from monitor.edge.readers import Chunk, joined, left_out, once_each, without_columns
from monitor.edge.streams import UnreadableError

_MAX_PREAMBLE_BYTES = 1 << 20
_DIRECTIVE = re.compile(rb"^#[^\n]*(?:\n|\Z)", re.MULTILINE)
_FIELDS = re.compile(rb"#Fields:[ \t]*([^\r\n]*)", re.IGNORECASE)
_OPENING = re.compile(rb"\s*#(Version|Fields|Software|Date|Remark|Start-Date):", re.IGNORECASE)


def is_w3c(start: bytes) -> bool:
    """True of the first bytes of such a log."""
    return bool(_OPENING.match(start))


class W3cReader:
    """One W3C extended log; ``-`` is a missing value.

    Args:
        log: its bytes.
        needed: the columns to read.
        delimiter: None: a tab if the first row has one, else a space.
    """

    def __init__(self, log: Log, needed: Collection[str], delimiter: str | None) -> None:
        self.log, self.needed = log, needed
        head = log.peek(_MAX_PREAMBLE_BYTES)
        whole = head[: head.rfind(b"\n") + 1] if log.waits else head
        found = _FIELDS.search(whole)
        if found is None and (not log.waits or len(head) >= _MAX_PREAMBLE_BYTES):
            detail = "has no line `#Fields:`, which names the columns of a W3C log; add one"
            raise UnreadableError("bad_header", detail)
        self.first = _names(found[1]) if found else []
        once_each(self.first, needed)
        row = next((one for one in whole.split(b"\n") if one.strip() and one[:1] != b"#"), b"")
        self.delimiter = delimiter or ("\t" if b"\t" in row else " ")
        log.head_bytes += found.end() if found else 0

    def columns(self) -> set[str] | None:
        """The names in the first header; None while there is none."""
        return set(self.first) or None

    def optional(self) -> bool:
        """A later header may leave out what an earlier one had, but not the first."""
        return False

    def chunks(self, state: State, size: int | None = None) -> Iterator[Chunk]:
        """See `Reader`; the state also holds the header that is in force."""
        offset, lines = self.log.stopped(state)
        names = list(state.get("fields", self.first)) if lines else self.first
        for block in self.log.blocks(offset, lines, whole_lines, size):
            if block.too_long:
                chunk = left_out(self.log.name, block, self.needed)
            else:
                chunk, names = self._parse(block, names)
            yield Chunk(chunk.rows, chunk.locate, {**chunk.state, "fields": names}, chunk.rejected)

    def _parse(self, block: Block, names: list[str]) -> tuple[Chunk, list[str]]:
        """The rows of all headers in a block, and the last of these."""
        parts: list[Chunk] = []
        place, line = 0, block.line
        for found in [*_DIRECTIVE.finditer(block.data), None]:
            end = len(block.data) if found is None else found.start()
            piece = block.data[place:end]
            if piece.strip():
                parts.append(self._rows(names).parse(Block(piece, line, block.state)))
            if found is None:
                break
            line += piece.count(b"\n") + 1
            place = found.end()
            if header := _FIELDS.match(found[0]):
                names = _names(header[1])
                once_each(names, self.needed)
                where = f"{self.log.name}:{line - 1}"
                parts += without_columns(names, self.needed, where, block.state)
        return joined(parts, block.state, self.needed), names

    def _rows(self, names: list[str]) -> CsvRows:
        return CsvRows(self.log.name, names, self.needed, self.delimiter, ("", "-"))


def _names(header: bytes) -> list[str]:
    return header.decode("utf-8", "replace").split()

"""JSON that is not one object a line: a whole array, or objects printed over many lines."""

from __future__ import annotations

import bisect
import re
from collections.abc import Collection

from monitor.edge.blocks import Block, Log
from monitor.edge.json_lines import SAMPLE_BYTES, JsonLinesReader, Texts

_OPENING = re.compile(rb"\s*(?:\[(?=\s*(?:\{|\]|\Z))|(?=\{\s*\n))")
_TOKEN = re.compile(rb'"(?>(?:[^"\\\n]++|\\[^\n])*)(?:"|\\?\Z|(?=\n))|[{}\[\]]')
"""A text ends with its line even if its mark is missing: damage goes no further."""

_BREAK = re.compile(rb"[\r\n]+")
_BETWEEN = b" \t\r\n,"


def is_json_text(start: bytes) -> bool:
    """True of the first bytes of such a log, and not of ``[INFO] started``."""
    return bool(_OPENING.match(start))


class JsonTextReader(JsonLinesReader):
    """One log of JSON objects that are parted by commas or nothing, wherever their lines end."""

    def __init__(self, log: Log, needed: Collection[str]) -> None:
        head = log.peek(SAMPLE_BYTES)
        found = _OPENING.match(head)
        begin = found.end() if found else 0
        self._bracket = begin
        super().__init__(log, needed)
        self.body = log.start + begin
        self.body_line = head.count(b"\n", 0, begin)

    def _sampled(self, start: bytes) -> list[bytes]:
        start = start[self._bracket :]
        return [_on_one_line(start[first:end]) for first, end in _values(start)[:1000]]

    def _whole(self, data: bytes, more: bool) -> int:
        """Whole values, and what parts them from the next."""
        spans = _values(data)
        end = spans[-1][1] if spans else 0
        while end < len(data) and data[end] in _BETWEEN:
            end += 1
        if not more and not data[end:].strip(_BETWEEN + b"]"):
            return len(data)
        return end if spans else 0

    def _texts(self, block: Block) -> Texts:
        data = block.data
        ends = [found.start() for found in re.finditer(rb"\n", data)]
        lines: list[bytes] = []
        numbers: list[int] = []

        def add(first: int, end: int) -> None:
            lines.append(_on_one_line(data[first:end]))
            numbers.append(block.line + bisect.bisect_left(ends, first))

        done = 0
        for first, end in [*_values(data), (len(data), len(data))]:
            # Between two values there is nothing but a comma; all else is told of.
            gap = data[done:first].strip(_BETWEEN + b"]")
            if gap:
                add(data.index(gap, done), first)
            if end > first:
                add(first, end)
            done = end
        return Texts(b"\n".join(lines), block.state, numbers.__getitem__)


def _values(data: bytes) -> list[tuple[int, int]]:
    """Where each object or list begins and ends that is complete."""
    found = []
    depth = first = 0
    for token in _TOKEN.finditer(data):
        mark = data[token.start()]
        if mark in b"{[":
            if not depth:
                first = token.start()
            depth += 1
        elif mark in b"}]" and depth:
            depth -= 1
            if not depth:
                found.append((first, token.end()))
    return found


def _on_one_line(text: bytes) -> bytes:
    """In JSON a line end is a space: within a text it would be written as ``\\n``."""
    return _BREAK.sub(b" ", text)

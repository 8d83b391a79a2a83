"""Where each key of a TOML document stands, so that a complaint can name the line."""

from __future__ import annotations

import bisect
import re

Location = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:\\.|[^"\\])*"|' + r"'[^']*'", re.DOTALL
)
_ATOM = re.compile(r"[^,\]}\n#]*")


def key_lines(text: str) -> dict[Location, int]:
    """Line (1-based) of every key, table and array item of a document that `tomllib` accepted.

    >>> key_lines('[a]\\nb = [\\n  {c = 1},\\n]')[("a", "b", 0, "c")]
    3
    """
    return _Scanner(text.replace("\r\n", "\n")).document()


class _Scanner:
    """Walks a valid document; it need not check, only keep step."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Location, int] = {}
        self.newlines = [i for i, letter in enumerate(text) if letter == "\n"]
        self.latest: dict[Location, int] = {}

    def document(self) -> dict[Location, int]:
        table: Location = ()
        while True:
            self.skip(_BLANK)
            if self.at >= len(self.text):
                return self.found
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)

    def header(self) -> Location:
        start = self.at
        repeated = self.text.startswith("[[", self.at)
        self.at += 2 if repeated else 1
        *parents, last = self.dotted()
        path: Location = ()
        for part in parents:
            path += (part,)
            path += (self.latest[path],) if path in self.latest else ()
        path += (last,)
        if repeated:
            self.mark(path, start)
            self.latest[path] = self.latest.get(path, -1) + 1
            path += (self.latest[path],)
        self.mark(path, start)
        self.at += 2 if repeated else 1
        return path

    def pair(self, table: Location) -> None:
        start = self.at
        path = table
        for part in self.dotted():
            path += (part,)
            self.mark(path, start)
        self.at = self.text.index("=", self.at) + 1
        self.value(path)

    def dotted(self) -> list[str]:
        parts: list[str] = []
        while True:
            self.spaces()
            quoted = _STRING.match(self.text, self.at)
            found = quoted or _BARE.match(self.text, self.at)
            assert found, "the document was accepted by tomllib"
            parts.append(found.group()[1:-1] if quoted else found.group())
            self.at = found.end()
            self.spaces()
            if self.text[self.at] != ".":
                return parts
            self.at += 1

    def value(self, path: Location) -> None:
        self.spaces()
        opening = self.text[self.at : self.at + 1]
        if opening == "[":
            self.items(path)
        elif opening == "{":
            self.inline(path)
        else:
            self.skip(_STRING if opening in ('"', "'") else _ATOM)

    def items(self, path: Location) -> None:
        self.at += 1
        index = 0
        while True:
            self.skip(_BLANK)
            if self.text[self.at] == "]":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self.mark((*path, index), self.at)
            self.value((*path, index))
            index += 1

    def inline(self, path: Location) -> None:
        self.at += 1
        while True:
            self.skip(_BLANK)
            if self.text[self.at] == "}":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self.pair(path)

    def spaces(self) -> None:
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1

    def skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.at)
        assert found, "the document was accepted by tomllib"
        self.at = found.end()

    def mark(self, path: Location, offset: int) -> None:
        self.found.setdefault(path, bisect.bisect_left(self.newlines, offset) + 1)

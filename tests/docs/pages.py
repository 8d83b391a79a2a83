"""A page of the documentation as a sequence of fenced blocks with what is to be done with each.

Directives are HTML comments, so neither GitHub nor the site shows them. Those before a block count
for that block; the others count for the page (see CONTRIBUTING.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

OF_A_BLOCK = {"file", "not run", "tested by", "varies", "exit", "beforehand"}
OF_A_PAGE = {"goes on from", "needs"}

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S
)
_COMMENT = re.compile(r"^ *<!-- (?P<key>[a-z][a-z ]*): (?P<value>(?:(?!-->).)*) -->$", re.M | re.S)
_DIRECTIVES_BEFORE = re.compile(r"(?:^ *<!-- [a-z][a-z ]*: (?:(?!-->).)* -->\n+)+\Z", re.M | re.S)
# Commands that hide from this test in an indented block or in a fence of another kind.
_INDENTED = re.compile(r"\n\n {4,}(?:\$ |least-monitor |least |make |curl |docker |kubectl |pip )")


class PageError(AssertionError):
    """A page breaks the rules, or shows what does not happen."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes:
        language: the word behind the fence; says what is done with the block.
        body: its lines, without the fence's indentation.
        line: of the page, of the fence, from 1.
        start, end: of the body in the page's text.
        directives: those right before it; `beforehand` may come several times.
    """

    language: str
    body: str
    line: int
    start: int
    end: int
    indent: str
    directives: tuple[tuple[str, str], ...]

    def directive(self, key: str) -> str | None:
        """Its value, or nothing."""
        return next((value for name, value in self.directives if name == key), None)

    @property
    def aside(self) -> str | None:
        """Why it is not acted on here, if it is not."""
        reason = self.directive("not run")
        where = self.directive("tested by")
        return reason if reason is not None else where and f"tested by {where}"


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown file with its blocks in order."""

    path: Path
    text: str
    blocks: tuple[Block, ...]
    goes_on_from: str | None
    needs: tuple[str, ...]

    @property
    def name(self) -> str:
        """The path from the root of the repository."""
        return self.path.relative_to(ROOT).as_posix()


def read_page(path: Path, text: str | None = None) -> Page:
    """The page with its blocks.

    Raises:
        PageError: a directive is misspelt, a block has no language, commands stand outside.
    """
    if text is None:
        text = path.read_text("utf-8")
    blocks = tuple(_blocks(path, text))
    outside = list(_COMMENT.finditer(text))
    page_keys = {m["key"]: m["value"] for m in outside if m["key"] in OF_A_PAGE}
    taken = sum(len(block.directives) for block in blocks)
    loose = [m["key"] for m in outside if m["key"] in OF_A_BLOCK]
    if len(loose) != taken:
        raise PageError(f"{path.name}: a directive among {loose} stands before no block")
    for directive in outside:
        key = directive["key"]
        if key not in OF_A_BLOCK | OF_A_PAGE:
            known = ", ".join(sorted(OF_A_BLOCK | OF_A_PAGE))
            raise PageError(f"{path.name}: unknown directive `{key}`; there are {known}")
    if hidden := _INDENTED.search(text):
        line = text.count("\n", 0, hidden.start()) + 3
        raise PageError(f"{path.name}:{line}: commands belong into a fenced `console` block")
    return Page(
        path,
        text,
        blocks,
        page_keys.get("goes on from"),
        tuple(word.strip() for word in page_keys.get("needs", "").split(",") if word.strip()),
    )


def _blocks(path: Path, text: str) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        before = _DIRECTIVES_BEFORE.search(text, 0, found.start())
        directives = tuple(
            (m["key"], m["value"])
            for m in _COMMENT.finditer(before[0] if before else "")
            if m["key"] in OF_A_BLOCK
        )
        indent, line = found["indent"], text.count("\n", 0, found.start()) + 1
        language = found["language"].split(" ")[0].strip()
        if not language:
            raise PageError(
                f"{path.name}:{line}: a fence without a language; say ```console, ```text …"
            )
        body = "".join(one.removeprefix(indent) for one in found["body"].splitlines(keepends=True))
        yield Block(
            language, body, line, found.start("body"), found.end("body"), indent, directives
        )


def all_pages() -> list[Path]:
    """Every page that a reader may take at its word."""
    return sorted(
        [
            ROOT / "README.md",
            ROOT / "CONTRIBUTING.md",
            ROOT / "SECURITY.md",
            ROOT / "dashboards" / "README.md",
            *(ROOT / "docs").rglob("*.md"),
        ]
    )

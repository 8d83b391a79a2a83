"""docs/benchmarks.md says what benchmarks/results holds."""

from __future__ import annotations

from pathlib import Path

from benchmarks._tables import DOCUMENT, TABLES, rendered


def test_the_documents_tables_are_those_of_the_results() -> None:
    text = DOCUMENT.read_text("utf-8")
    assert rendered(text) == text, "run `python -m benchmarks._tables`"
    unused = [name for name in TABLES if f"<!-- table {name} -->" not in text]
    assert unused == []


def test_every_picture_of_the_documents_is_there() -> None:
    folder = DOCUMENT.parent
    pictures = [
        folder / line.split("](")[1].rstrip(")")
        for path in folder.glob("*.md")
        for line in path.read_text("utf-8").splitlines()
        if line.startswith("![")
    ]
    assert [str(Path(p)) for p in pictures if not p.exists()] == []

"""Tables of figures in the documentation say what benchmarks/results holds."""

from __future__ import annotations

from pathlib import Path

from benchmarks._tables import DOCUMENTS, TABLES, rendered


def test_the_documents_tables_are_those_of_the_results() -> None:
    texts = [document.read_text("utf-8") for document in DOCUMENTS]
    assert [rendered(text) for text in texts] == texts, "run `python -m benchmarks._tables`"
    unused = [name for name in TABLES if f"<!-- table {name} -->" not in "".join(texts)]
    assert unused == []


def test_every_picture_of_the_documents_is_there() -> None:
    folder = DOCUMENTS[0].parent
    pictures = [
        folder / line.split("](")[1].rstrip(")")
        for path in folder.glob("*.md")
        for line in path.read_text("utf-8").splitlines()
        if line.startswith("![")
    ]
    assert [str(Path(p)) for p in pictures if not p.exists()] == []

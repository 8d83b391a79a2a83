"""The vocabulary in the store: written whole now and then, in between only what is new.

Written whole at every new value it would cost as much as all the values before. A *growth* holds
the values of one commit, with the number of codes that there were before. All is written whole once
the growths have become as large as it was, or very many.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from monitor.domain import Schema
from monitor.edge.documents import dumps
from monitor.vocabulary import Vocabulary

WHOLE = "vocabulary"
GROWTH = "vocabulary+"
"""Followed by a number. Those that the whole one has outgrown stay until they are overwritten."""

_MOST_GROWTHS = 1_000


class KeptVocabulary:
    """What of a vocabulary is in the store.

    Args:
        schema: the attributes.
        state: blobs of the store.

    Attributes:
        vocabulary: as it was stored.
    """

    def __init__(self, schema: Schema, state: Mapping[str, bytes]) -> None:
        self._names = [attribute.name for attribute in schema.attributes]
        whole = state.get(WHOLE)
        texts: dict[str, list[str]] = json.loads(whole or b"{}")
        self._whole_bytes = -1 if whole is None else len(whole)
        """-1: it has never been written."""
        self._growths = self._growth_bytes = 0
        while (blob := state.get(f"{GROWTH}{self._growths}")) is not None:
            if not _grown(texts, json.loads(blob)):
                break
            self._growths += 1
            self._growth_bytes += len(blob)
        self.vocabulary = Vocabulary.from_json(schema, texts)
        self._written = self._sizes()
        self._waiting: tuple[int, int, int, list[int]] | None = None

    def changes(self) -> dict[str, bytes]:
        """Blobs to write; `written` has to be called once they are."""
        sizes = self._sizes()
        if sizes == self._written and self._whole_bytes >= 0:
            return {}
        texts = self.vocabulary.to_json()
        fresh = {
            name: [before - 1, texts[name][before - 1 :]]
            for name, before, now in zip(self._names, self._written, sizes, strict=True)
            if now > before
        }
        growth = dumps(fresh)
        size = self._growth_bytes + len(growth)
        if size > self._whole_bytes or self._growths >= _MOST_GROWTHS:
            whole = dumps(texts)
            self._waiting = len(whole), 0, 0, sizes
            return {WHOLE: whole}
        self._waiting = self._whole_bytes, self._growths + 1, size, sizes
        return {f"{GROWTH}{self._growths}": growth}

    def written(self) -> None:
        """The last `changes` are in the store."""
        if self._waiting is not None:
            self._whole_bytes, self._growths, self._growth_bytes, self._written = self._waiting
            self._waiting = None

    def _sizes(self) -> list[int]:
        return [self.vocabulary.size(i) for i in range(len(self._names))]


def _grown(texts: dict[str, list[str]], growth: Mapping[str, tuple[int, list[str]]]) -> bool:
    """Add its values; False if it is one of before the whole was written."""
    if any(len(texts.get(name, ())) != before for name, (before, _) in growth.items()):
        return False
    for name, (_, more) in growth.items():
        texts.setdefault(name, []).extend(more)
    return True

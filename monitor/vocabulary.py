"""Attribute values ↔ small integers.

Values are coded at the door, in order of appearance; the codes never change.
A code becomes a *node* (a one-hot column of its own) once its value has enough
support; until then, and beyond the bound, it counts as `other`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from monitor.domain import MISSING, OTHER, Schema

OTHER_TEXT = "(other)"
MISSING_TEXT = "(missing)"


class Vocabulary:
    """Grow-only codes for the values of every attribute.

    Args:
        schema: the attributes.
        max_codes: distinct values per attribute that get a code; later ones are `OTHER`.
    """

    def __init__(self, schema: Schema, max_codes: int = 200_000) -> None:
        self.schema = schema
        self.max_codes = max_codes
        self._texts: list[list[str]] = [[OTHER_TEXT] for _ in schema.attributes]
        self._codes: list[dict[str, int]] = [{} for _ in schema.attributes]

    def encode(self, attribute: int, texts: Sequence[str | None]) -> np.ndarray:
        """Codes of `texts` (usually a batch's distinct values), adding unseen ones.

        Returns:
            (len(texts),) int32; None is MISSING.
        """
        known, names = self._codes[attribute], self._texts[attribute]
        codes = np.empty(len(texts), np.int32)
        for i, text in enumerate(texts):
            if text is None:
                codes[i] = MISSING
                continue
            code = known.get(text)
            if code is None:
                if len(names) > self.max_codes:
                    code = OTHER
                else:
                    code = len(names)
                    names.append(text)
                    known[text] = code
            codes[i] = code
        return codes

    def text(self, attribute: int, code: int) -> str:
        """The value behind a code; `(other)` for OTHER and `(missing)` for MISSING."""
        return MISSING_TEXT if code == MISSING else self._texts[attribute][code]

    def code(self, attribute: int, text: str) -> int | None:
        """The code of a value, or None if it was never seen."""
        return self._codes[attribute].get(text)

    def size(self, attribute: int) -> int:
        """Codes in use, `other` included."""
        return len(self._texts[attribute])

    def to_json(self) -> dict[str, list[str]]:
        """Everything needed to restore it: attribute → values in code order (without `other`)."""
        return {a.name: self._texts[i][1:] for i, a in enumerate(self.schema.attributes)}

    @staticmethod
    def from_json(
        schema: Schema, texts: dict[str, list[str]], max_codes: int = 200_000
    ) -> Vocabulary:
        """Inverse of `to_json`."""
        vocabulary = Vocabulary(schema, max_codes)
        for i, attribute in enumerate(schema.attributes):
            vocabulary._texts[i] += texts.get(attribute.name, [])
            vocabulary._codes[i] = {t: c for c, t in enumerate(vocabulary._texts[i]) if c}
        return vocabulary

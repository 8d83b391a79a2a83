"""Node numbers → the texts that people read."""

from __future__ import annotations

import numpy as np

from monitor.attribution import Selector
from monitor.baseline import Codes
from monitor.domain import MISSING, OTHER, Cause, Schema
from monitor.encoding import Encoding, Nodes
from monitor.paths import strongest_path
from monitor.vocabulary import MISSING_TEXT, OTHER_TEXT, Vocabulary


class Naming:
    """Names nodes, causes and paths."""

    def __init__(self, schema: Schema, vocabulary: Vocabulary, nodes: Nodes) -> None:
        self.schema, self.vocabulary, self.nodes = schema, vocabulary, nodes
        self._names = schema.names

    def text(self, attribute: int, number: int) -> str:
        """The value behind a node number."""
        code = self.nodes.codes[attribute][number]
        return OTHER_TEXT if code == OTHER else self.vocabulary.text(attribute, code)

    def cause(self, selector: Selector) -> Cause:
        """The same in words."""
        return Cause.from_json(
            {self._names[a]: [self.text(a, n) for n in numbers] for a, numbers in selector}
        )

    def codes(self, cause: Cause) -> Codes:
        """The same by code; codes outlive node numbers."""
        named = [(self._names.index(name), values) for name, values in cause.selector]
        return tuple((a, tuple(self._code(a, v) for v in values)) for a, values in named)

    def _code(self, attribute: int, text: str) -> int:
        if text == MISSING_TEXT:
            return MISSING
        code = self.vocabulary.code(attribute, text)
        return OTHER if code is None else code

    def numbers(self, codes: Codes) -> Selector:
        """The same by node number, as of now."""
        return tuple(
            (a, tuple(sorted({self.nodes.number(a, code) for code in values})))
            for a, values in codes
        )

    def of(self, encoding: Encoding) -> list[str]:
        """A name for every node of an encoding: ``attribute=value``, or the outcome's name."""
        return [
            self.schema.outcomes[n] if a < 0 else f"{self._names[a]}={self.text(int(a), int(n))}"
            for a, n in zip(encoding.attribute, encoding.number, strict=True)
        ]

    def path(
        self,
        outcome: int,
        selector: Selector,
        encoding: Encoding,
        weights: np.ndarray,
        names: list[str],
        max_length: int,
    ) -> tuple[str, ...]:
        """The cause's own values, the learned mediators, then the outcome."""
        if not selector:
            return ("everything", self.schema.outcomes[outcome])
        own = sorted(selector, key=lambda part: (self.schema.attributes[part[0]].tier, part[0]))
        labels = [
            f"{self._names[a]}={'|'.join(sorted(self.text(a, n) for n in numbers))}"
            for a, numbers in own
        ]
        a, numbers = own[-1]
        last = np.flatnonzero((encoding.attribute == a) & np.isin(encoding.number, numbers))
        onward = strongest_path(tuple(int(i) for i in last), outcome, weights, max_length)
        mediators = [names[node] for node in onward[1:-1] if names[node] not in labels]
        return (*labels, *mediators, self.schema.outcomes[outcome])

"""Node numbers → the texts that people read."""

from __future__ import annotations

import numpy as np

from monitor.attribution import Conditions
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

    def cause(self, conditions: Conditions) -> Cause:
        """The selector that these conditions are."""
        return Cause.from_json({self._names[a]: [self.text(a, n)] for a, n in conditions})

    def codes(self, cause: Cause) -> Conditions:
        """(attribute, code) pairs of a cause; codes outlive node numbers."""
        out = []
        for name, values in cause.selector:
            a = self._names.index(name)
            code = self.vocabulary.code(a, values[0])
            if values[0] == MISSING_TEXT:
                code = MISSING
            out.append((a, OTHER if code is None else code))
        return tuple(out)

    def of(self, encoding: Encoding) -> list[str]:
        """A name for every node of an encoding: ``attribute=value``, or the outcome's name."""
        return [
            self.schema.outcomes[n] if a < 0 else f"{self._names[a]}={self.text(int(a), int(n))}"
            for a, n in zip(encoding.attribute, encoding.number, strict=True)
        ]

    def path(
        self,
        outcome: int,
        conditions: Conditions,
        encoding: Encoding,
        weights: np.ndarray,
        names: list[str],
        max_length: int,
    ) -> tuple[str, ...]:
        """The cause's own values, the learned mediators, then the outcome."""
        if not conditions:
            return ("everything", self.schema.outcomes[outcome])
        own = sorted(conditions, key=lambda c: (self.schema.attributes[c[0]].tier, c[0]))
        labels = [f"{self._names[a]}={self.text(a, n)}" for a, n in own]
        a, n = own[-1]
        last = np.flatnonzero((encoding.attribute == a) & (encoding.number == n))
        onward = strongest_path(tuple(int(i) for i in last), outcome, weights, max_length)
        mediators = [names[node] for node in onward[1:-1] if names[node] not in labels]
        return (*labels, *mediators, self.schema.outcomes[outcome])

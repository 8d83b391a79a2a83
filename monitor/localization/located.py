"""What the search hands back: causes, each with its counts and where it is concentrated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from monitor.domain import Cause

Conditions = tuple[tuple[int, int], ...]
"""(attribute, code) pairs of a table; () is everything."""


class Rival(NamedTuple):
    """A cell that may stand in the place of a cause."""

    conditions: Conditions
    score: float
    """In nats after the price, as a cause's; all other causes are explained."""


@dataclass(slots=True)
class Found:
    """A cause as the search knows it."""

    conditions: Conditions
    score: float
    rows: np.ndarray
    """Leaves that it explains: its own, less those explained before."""
    sign: int
    """+1: more than expected; -1: less."""
    rivals: Sequence[Rival] = ()
    """What may stand in its place, best first."""


@dataclass(frozen=True, slots=True)
class Link:
    """One station of a chain: a cell and its sums."""

    cause: Cause
    observed: float
    expected: float


@dataclass(frozen=True, slots=True)
class Located:
    """A cause, and what speaks for it."""

    cause: Cause
    score: float
    """Nats of evidence after the price of the search."""
    observed: float
    expected: float
    leaves: int
    """How many rows of the table it covers."""
    share: float
    """Of all deviation that the causes explain together."""
    group: int
    """Causes of one number differ in one attribute's value only and deviate alike: one storm."""
    chain: tuple[Link, ...]
    """The cause, then the cells in which most of its deviation is concentrated."""

    @property
    def direction(self) -> str:
        """``up`` or ``down``."""
        return "up" if self.observed >= self.expected else "down"

    def to_json(self) -> dict[str, object]:
        """As in the document that `least-monitor localize --json` writes."""
        return {
            "cause": self.cause.to_json(),
            "score": round(self.score, 3),
            "observed": round(self.observed, 6),
            "expected": round(self.expected, 6),
            "direction": self.direction,
            "share": round(self.share, 4),
            "leaves": self.leaves,
            "group": self.group,
            "chain": [
                {
                    "cause": link.cause.to_json(),
                    "observed": round(link.observed, 6),
                    "expected": round(link.expected, 6),
                }
                for link in self.chain
            ],
        }


@dataclass(frozen=True, slots=True)
class Alternative:
    """What may stand in the place of a cause."""

    cause: Cause
    instead_of: Cause
    score: float
    """Nats of evidence that it would have, were the cause not named."""
    observed: float
    expected: float

    def to_json(self) -> dict[str, object]:
        """As in the document that `least-monitor localize --json` writes."""
        return {
            "cause": self.cause.to_json(),
            "instead_of": self.instead_of.to_json(),
            "score": round(self.score, 3),
            "observed": round(self.observed, 6),
            "expected": round(self.expected, 6),
        }


@dataclass(frozen=True, slots=True)
class Localization:
    """The causes in one table, best first."""

    causes: tuple[Located, ...]
    rivals: tuple[Alternative, ...]
    """What may stand in the place of each cause, the nearest first."""
    unexplained: float
    """Share of the table's deviation that no cause explains, in [0, 1]."""
    leaves: int
    model: str
    """``counts`` or ``amounts``: how leaves were taken to scatter."""

    def to_json(self) -> Mapping[str, object]:
        """The document that `least-monitor localize --json` writes."""
        return {
            "causes": [cause.to_json() for cause in self.causes],
            "rivals": [rival.to_json() for rival in self.rivals],
            "unexplained": round(self.unexplained, 4),
            "leaves": self.leaves,
            "model": self.model,
        }

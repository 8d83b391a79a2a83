"""What a fit is asked for and what it answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

import numpy as np

Optimizer = Literal["proximal", "adam"]


class ProblemError(ValueError):
    """The input cannot be fitted; the message says what to change."""


class NotFittedError(ProblemError, AttributeError):
    """Asked for a result before `fit`."""


class MissingExtraError(ProblemError, ImportError):
    """A library is not installed that only this part needs.

    Args:
        what: the part.
        library: as pip knows it.
        extra: the extra of this package that brings it, if there is one.
        error: what the import said.
    """

    def __init__(self, what: str, library: str, extra: str | None, error: ImportError) -> None:
        cure = f"pip install {library}"
        if extra is not None:
            cure += f" (the extra [{extra}] of this package)"
        super().__init__(f"{what} needs {library}: {cure}; the import said: {error}")


class Status(Enum):
    """How a fit ended."""

    CONVERGED = "converged"
    MAX_STEPS = "max_steps"
    NONFINITE = "nonfinite"


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of LEAST. The objective at every inner step is

    ½·tr((I−W)ᵀ G (I−W)) + λ·‖W‖₁ + ρ/2·δ(W)² + η·δ(W)

    with G = XᵀX/n. The paper prints the loss without the ½; `Options.paper` halves its λ, ρ and η
    instead, which is the same problem.
    """

    l1: float = 0.02
    """λ."""
    rho: float = 0.0
    """ρ at the first outer step."""
    rho_growth: float = 1.0
    """Factor on ρ after each outer step."""
    eta: float = 0.1
    """η, the multiplier, at the first outer step."""
    eta_growth: float = 1.0
    """Factor on η after each outer step, once η += ρ·δ is done: an annealing schedule if ρ = 0."""
    rounds: int = 5
    """k, similarity rounds of the bound."""
    row_weight: float = 0.9
    """α, rows against columns."""
    optimizer: Optimizer = "proximal"
    """`adam` is the paper's. `proximal` is accelerated proximal gradient with δ linearised in W∘W;
    it needs no learning rate and some ten times fewer steps."""
    inner_steps: int = 300
    outer_steps: int = 1
    learning_rate: float = 0.01
    """Adam's; ignored by `proximal`."""
    tolerance: float = 1e-4
    """Inner steps end when no weight moves further than this."""
    zero_below: float = 1e-6
    """θ: after every step smaller weights become exactly 0."""
    delta_tolerance: float = 1e-4
    """ε: outer steps end when the acyclicity measure falls to this."""
    terminate_on: Literal["delta", "h"] = "delta"
    """The measure compared with ε; `h` is Tr e^(W∘W) − d, O(d³) per outer step."""
    restart: bool = False
    """Draw a new random W at each outer step, as the paper prints (it costs accuracy)."""
    density: float = 1e-4
    """ζ, share of non-zeros in a random start."""
    batch: int | None = None
    """Rows drawn per inner step; None uses the Gram matrix. Adam only."""
    seed: int = 0
    dtype: Literal["float32", "float64"] = "float32"

    def __post_init__(self) -> None:
        counts = {"inner_steps": 1, "outer_steps": 1, "rounds": 0}
        for name, least in counts.items():
            if getattr(self, name) < least:
                raise ProblemError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name in ("l1", "rho", "eta", "tolerance", "zero_below", "delta_tolerance"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ProblemError(f"{name} must be a finite number of at least 0, not {value}")
        for name in ("rho_growth", "eta_growth", "learning_rate"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ProblemError(f"{name} must be a finite number above 0, not {value}")
        for name in ("row_weight", "density"):
            if not 0 <= getattr(self, name) <= 1:
                raise ProblemError(f"{name} must lie in [0, 1], not {getattr(self, name)}")
        choices = {
            "optimizer": ("proximal", "adam"),
            "terminate_on": ("delta", "h"),
            "dtype": ("float32", "float64"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ProblemError(f"{name} must be one of {allowed}, not {getattr(self, name)!r}")
        if self.batch is not None and self.batch < 1:
            raise ProblemError(f"batch must be at least 1, not {self.batch}")
        if self.batch is not None and self.optimizer != "adam":
            raise ProblemError("batches need optimizer='adam': the proximal step uses the Gram")

    def but(self, **changes: object) -> Options:
        """A copy with some settings changed.

        >>> Options().but(l1=0.1).l1
        0.1
        """
        return replace(self, **changes)  # type: ignore[arg-type]

    @staticmethod
    def paper() -> Options:
        """The paper's settings, literally (they miss the paper's own figures)."""
        return Options(
            l1=0.25, rho=0.5, eta=0.5, rho_growth=1.1, optimizer="adam", inner_steps=200,
            outer_steps=1000, learning_rate=0.01, zero_below=0.0, restart=True, tolerance=0.0,
        )  # fmt: skip

    @staticmethod
    def annealed() -> Options:
        """δ alone, its multiplier growing from 0.01 to 2.5 over eight warm stages."""
        return Options(
            l1=0.03, eta=0.01, eta_growth=2.2, rounds=20, inner_steps=300, outer_steps=8,
            delta_tolerance=0.0, density=0.0,
        )  # fmt: skip

    @staticmethod
    def annealed_adam() -> Options:
        """The same idea with the paper's optimiser: seven stages of 3,000 steps, to η = 3.3."""
        return Options(
            l1=0.03, eta=0.01, eta_growth=(1 / 0.3 / 0.01) ** (1 / 6), rounds=20,
            optimizer="adam", inner_steps=3000, outer_steps=7, learning_rate=1e-3,
            delta_tolerance=0.0, tolerance=0.0,
        )  # fmt: skip

    @staticmethod
    def monitor() -> Options:
        """A warm restart on a standardised Gram matrix that changed a little since the last fit."""
        return Options(inner_steps=20, outer_steps=1, tolerance=1e-3)


@dataclass(frozen=True, slots=True)
class OuterStep:
    """One line of a fit's history."""

    rho: float
    eta: float
    """ρ and η in force during this step."""
    delta: float
    loss: float
    """½·tr((I−W)ᵀ G (I−W)) + λ·‖W‖₁."""
    steps: int
    """Inner steps taken."""
    change: float
    """Largest move of a weight in the last inner step."""
    h: float | None = None
    """Tr e^(W∘W) − d, when it decides the end."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A learned graph and how it came about."""

    weights: np.ndarray = field(repr=False)
    """(d, d); W[i, j] is the edge i → j. Finite, also when the status is NONFINITE: the last
    finite W then."""
    status: Status
    steps: int
    """Inner steps of all outer steps."""
    delta: float
    """δ of `weights`; zero means acyclic as far as the bound sees."""
    history: tuple[OuterStep, ...] = field(repr=False)
    start: str = "zeros"
    """Where it began: `zeros`, `random`, `warm`, `given` or `ordering`."""
    threshold: float = 0.0
    """|W| up to this was cut from `weights` after the fit."""
    changed: int = 0
    """Edges that LEAST added to or took from its start, both cut at `threshold`."""

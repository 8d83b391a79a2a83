"""The outer loop of LEAST, shared by the dense and the sparse learner.

A backend minimises the inner objective at fixed ρ and η; this loop raises them until the learned
graph is acyclic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from least.problem import Options, OuterStep, Status

Weights = TypeVar("Weights")


@dataclass(frozen=True, slots=True)
class Inner(Generic[Weights]):
    """What a backend hands back after one inner minimisation."""

    weights: Weights
    delta: float
    loss: float
    steps: int
    change: float
    """Largest move of a weight in the last step; not finite when W stopped being so, and then
    `weights` is the last finite one."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Weights]):
    """Where the outer loop ended."""

    weights: Weights
    status: Status
    delta: float
    history: tuple[OuterStep, ...]

    @property
    def steps(self) -> int:
        """Inner steps of all outer steps."""
        return sum(step.steps for step in self.history)


def minimise(
    inner: Callable[[Weights, float, float, int], Inner[Weights]],
    start: Weights,
    options: Options,
    *,
    redraw: Callable[[int], Weights] | None = None,
    exponential: Callable[[Weights], float] | None = None,
) -> Outcome[Weights]:
    """Run outer steps until the acyclicity measure is at most ε or the schedule is over.

    CONVERGED means that the measure reached ε, or that the last inner problem of a finished
    schedule was solved to its tolerance.

    Args:
        inner: (W, ρ, η, outer step) → the minimiser it found.
        start: W₀.
        redraw: a new start for outer step i, used when `options.restart`.
        exponential: h(W), needed when `options.terminate_on` is "h".
    """
    rho, eta, weights = options.rho, options.eta, start
    history: list[OuterStep] = []
    status, delta = Status.MAX_STEPS, 0.0
    for i in range(options.outer_steps):
        if i and options.restart and redraw is not None:
            weights = redraw(i)
        result = inner(weights, rho, eta, i)
        weights, delta = result.weights, result.delta
        h = None
        if options.terminate_on == "h":
            assert exponential is not None
            h = exponential(weights)
        history.append(OuterStep(rho, eta, delta, result.loss, result.steps, result.change, h))
        if not result.change < float("inf"):
            status = Status.NONFINITE
            break
        if (delta if h is None else h) <= options.delta_tolerance:
            status = Status.CONVERGED
            break
        # The paper's lines 4-5; η's own growth makes the loop an annealing schedule when ρ is 0.
        eta = (eta + rho * delta) * options.eta_growth
        rho *= options.rho_growth
    else:
        if history[-1].change <= options.tolerance:
            status = Status.CONVERGED
    return Outcome(weights, status, delta, tuple(history))

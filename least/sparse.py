"""LEAST-SP: LEAST on a fixed sparse support, in O(k·s) per step.

W lives only on candidate edges (a screened or random support, CSC order). The constraint is the
factored δ on that support; the loss uses the Gram matrix of each node's few candidate parents, or
random batches of rows as in the paper. Equal to the dense learner on a full support.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from least.graphs import cut_cycles, exponential_trace, prune
from least.lagrangian import Inner, minimise
from least.peeling import peel
from least.problem import Options, OuterStep, ProblemError, Status
from least.screening import (
    both_directions,
    correlation_neighbours,
    gram_neighbours,
    pursuit_support,
    random_support,
)
from least.sparse_kernels import (
    adam_step,
    batch_gradient,
    bound_gradient,
    loss_gradient,
    proximal_step,
    step_lengths,
)
from least.sparse_problem import Gram, Problem, gram_of_sparse, refit_along

Support = Literal["pursuit", "correlation", "random"]


@dataclass(frozen=True, slots=True)
class SparseFit:
    """A learned sparse graph and how it came about; see `Fit` for the shared fields."""

    weights: Any = field(repr=False)
    """(d, d) scipy.sparse.csr_array; W[i, j] is i → j; acyclic."""
    status: Status
    steps: int
    delta: float
    """δ of LEAST's weights before the threshold."""
    history: tuple[OuterStep, ...] = field(repr=False)
    start: str
    threshold: float
    """τ: |W| up to this was cut; the smallest that leaves no cycle."""
    support: int
    """Candidate edges W could live on."""
    changed: int = 0
    """Edges in which the result differs from an ordering start."""


def fit(
    X: np.ndarray | Gram | Any,
    *,
    start: Literal["ordering", "random"] = "ordering",
    support: Support = "pursuit",
    neighbours: int = 50,
    sweeps: int = 2,
    options: Options | None = None,
    threshold: float = 0.3,
    refit: bool = True,
    progress: Callable[[str, int, int], None] | None = None,
) -> SparseFit:
    """Learn a sparse W from rows.

    Args:
        X: (n, d) finite numbers; centred here; kept as float32. Or a scipy.sparse matrix, or its
            `Gram`, for (n, d) too large to fill: "random" with a support by correlation then.
        start: "ordering" peels (equal noise variances; an error on standardised columns, where it
            would find no edge) and polishes with LEAST on the edges found;
            "random" is LEAST alone on the screened support.
        support: where W may live when the start is "random": edges kept by orthogonal matching
            pursuit, the top `neighbours` by correlation, or the paper's blind draw of density
            `options.density`.
        neighbours: candidates per node for "pursuit" and "correlation".
        sweeps: how often "pursuit" screens what its parents leave; each costs 4·d²·n.
        options: LEAST's; None takes a short polish or an annealed schedule.
        threshold: |W| up to this is no edge.
        refit: least squares along the learned order, on the support, with insignificant edges left
            out; False returns LEAST's own weights.
        progress: called with (stage, done, of).
    """
    variables = _variables(X)
    if isinstance(variables, Gram) and (start != "random" or support == "pursuit"):
        raise ProblemError(
            "sparse rows and Gram matrices need start='random', support='correlation' or 'random'"
        )
    d = len(variables)
    options = options or (POLISH if start == "ordering" else ANNEALED)
    if start == "ordering":
        assert not isinstance(variables, Gram)
        if _are_standardised(variables):
            raise ProblemError(
                "all columns have the same deviation, so the ordering start has nothing to go by: "
                "give columns in their own units or use start='random'"
            )
        found = peel(variables, progress=progress)
        initial: np.ndarray | None = found.weights
        sources, targets = found.sources, found.targets
    elif start == "random":
        sources, targets = _support(variables, support, neighbours, sweeps, options, progress)
        initial = None
    else:
        raise ProblemError(f"unknown start {start!r}: ordering or random")
    learned, outcome = fit_support(variables, sources, targets, initial, options, progress)
    if refit:
        learned = refit_along(variables, cut_cycles(learned), sources, targets)
    weights, tau = prune(learned, threshold)
    changed = 0
    if initial is not None:
        begun, _ = prune(sp.csr_array((initial, (sources, targets)), shape=(d, d)), threshold)
        changed = int(abs((begun != 0).astype(int) - (weights != 0).astype(int)).sum())
    return replace(outcome, weights=weights, start=start, threshold=tau, changed=changed)


def _variables(X: np.ndarray | Gram | Any) -> np.ndarray | Gram:
    """(d, n) float32, centred; checked."""
    if isinstance(X, Gram):
        return X
    if sp.issparse(X):
        return gram_of_sparse(X)
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[0] < 2 or X.shape[1] < 1:
        raise ProblemError(f"X must be (n ≥ 2, d ≥ 1), not {X.shape}")
    variables = np.ascontiguousarray(X.T, np.float32)
    if not np.isfinite(variables).all():
        raise ProblemError("X holds a number that is not finite as float32")
    mean = variables.mean(1, keepdims=True, dtype=np.float64)
    return np.asarray(variables - mean.astype(np.float32))


def _are_standardised(variables: np.ndarray) -> bool:
    """Deviations nearer to each other than samples of equal variances ever are."""
    deviations = variables.std(1, dtype=np.float64)
    deviations = deviations[deviations > 0]
    return len(deviations) > 2 and bool(np.ptp(deviations) <= 1e-4 * deviations.mean())


def fit_support(
    variables: np.ndarray | Gram,
    sources: np.ndarray,
    targets: np.ndarray,
    initial: np.ndarray | None = None,
    options: Options | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[Any, SparseFit]:
    """LEAST-SP itself, on a given support.

    Args:
        variables: (d, n) float32, centred, contiguous; or a `Gram` (no batches then).
        sources, targets: (s,) the candidate edges, each once, none i → i.
        initial: (s,) W₀ on them; None draws Glorot-uniform weights for a share ζ of them.
        options: `batch` takes that many random rows per step instead of the Gram blocks. Entries
            that are zero after an outer step leave the support, so that W stays sparse.

    Returns:
        W as csr_array before any threshold, and the record of the fit (its `weights` the same).
    """
    options = options or ANNEALED
    if options.batch is not None and isinstance(variables, Gram):
        raise ProblemError("batches need dense rows")
    problem = Problem.build(variables, sources, targets)
    if initial is None:
        rng = np.random.default_rng(options.seed)
        limit = np.sqrt(6 / (2 * problem.d))
        drawn = rng.uniform(-limit, limit, problem.edges) * (
            rng.random(problem.edges) < options.density
        )
    else:
        drawn = np.asarray(initial, float)[problem.origin]
    held = [problem]

    def inner(w: np.ndarray, rho: float, eta: float, stage: int) -> Inner[np.ndarray]:
        current = held[0]
        if progress is not None:
            progress("LEAST-SP", stage, options.outer_steps)
        w = w.copy()
        run = _proximal if options.optimizer == "proximal" else _adam
        delta, loss, steps, change = run(current, w, rho, eta, stage, options)
        if stage + 1 < options.outer_steps and (w == 0).any() and not options.restart:
            held[0] = current.keep(w != 0)
            w = w[w != 0]
        return Inner(w, delta, loss, steps, change)

    def exponential(w: np.ndarray) -> float:
        current = held[0]
        squared = sp.csr_array((w * w, (current.rows, current.columns())), shape=(current.d,) * 2)
        return exponential_trace(squared)

    outcome = minimise(inner, drawn, options, exponential=exponential)
    final = held[0]
    weights = sp.csr_array(
        (outcome.weights, (final.rows, final.columns())), shape=(final.d, final.d)
    )
    weights.eliminate_zeros()
    record = SparseFit(
        weights, outcome.status, outcome.steps, outcome.delta, outcome.history,
        start="random" if initial is None else "given", threshold=0.0, support=problem.edges,
    )  # fmt: skip
    return weights, record


POLISH = Options(eta=1.0, inner_steps=10, dtype="float64")
"""After an ordering start."""

ANNEALED = Options(
    l1=0.03, eta=0.01, eta_growth=2.2, outer_steps=16, inner_steps=100, density=0.0,
    delta_tolerance=0.0, tolerance=1e-4, dtype="float64",
)  # fmt: skip
"""LEAST alone: W = 0, then a multiplier that grows from 0.01 to 1,400."""


def _support(
    variables: np.ndarray | Gram,
    kind: Support,
    neighbours: int,
    sweeps: int,
    options: Options,
    progress: Callable[[str, int, int], None] | None,
) -> tuple[np.ndarray, np.ndarray]:
    d = len(variables)
    if d == 1:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if kind == "random":
        return random_support(d, options.density, np.random.default_rng(options.seed))
    if kind not in ("pursuit", "correlation"):
        raise ProblemError(f"unknown support {kind!r}: pursuit, correlation or random")
    if kind == "pursuit":
        assert not isinstance(variables, Gram)
        found = pursuit_support(variables, neighbours, sweeps=sweeps, progress=progress)
        return both_directions(*found, d)
    if isinstance(variables, Gram):
        near = gram_neighbours(variables.matrix, neighbours)
    else:
        near = correlation_neighbours(variables, neighbours)
    return both_directions(np.repeat(np.arange(d), near.shape[1]), near.ravel().astype(np.int64), d)


Report = tuple[float, float, int, float]
"""δ, loss, steps, last change."""


def _proximal(
    problem: Problem, w: np.ndarray, rho: float, eta: float, stage: int, options: Options
) -> Report:
    """The dense learner's proximal step on the support; changes `w` in place."""
    lengths = np.empty(problem.d)
    step_lengths(problem.starts, problem.offsets, problem.blocks, lengths)
    y, ridge = w.copy(), np.zeros_like(w)
    gradient, slope, momentum, change, taken = np.empty_like(w), np.empty_like(w), 1.0, np.inf, 0
    for taken in range(1, options.inner_steps + 1):
        delta = bound_gradient(
            problem.starts, problem.rows, w, options.rounds, options.row_weight, slope
        )
        loss_gradient(problem.starts, problem.offsets, problem.blocks, problem.pull, y, gradient)
        change, momentum = proximal_step(
            problem.starts, w, y, gradient, slope, ridge, lengths, options.l1,
            rho * delta + eta, options.zero_below, momentum, taken == 1,
        )  # fmt: skip
        if not np.isfinite(change) or change <= options.tolerance:
            break
    return _report(problem, w, options, taken, change)


def _adam(
    problem: Problem, w: np.ndarray, rho: float, eta: float, stage: int, options: Options
) -> Report:
    """The paper's optimiser on the support, with Gram blocks or batches; changes `w` in place."""
    mean, spread = np.zeros_like(w), np.zeros_like(w)
    gradient, slope, change, taken = np.empty_like(w), np.empty_like(w), np.inf, 0
    rng = np.random.default_rng([options.seed, stage])
    for taken in range(1, options.inner_steps + 1):
        delta = bound_gradient(
            problem.starts, problem.rows, w, options.rounds, options.row_weight, slope
        )
        if options.batch is None:
            loss_gradient(
                problem.starts, problem.offsets, problem.blocks, problem.pull, w, gradient
            )
        else:
            assert isinstance(problem.variables, np.ndarray)
            picked = rng.integers(0, problem.variables.shape[1], options.batch)
            batch = np.ascontiguousarray(problem.variables[:, picked])
            batch_gradient(batch, problem.starts, problem.rows, w, gradient)
        change = adam_step(
            w, gradient, slope, mean, spread, taken, options.learning_rate, options.l1,
            rho * delta + eta, options.zero_below,
        )  # fmt: skip
        if not np.isfinite(change) or change <= options.tolerance:
            break
    return _report(problem, w, options, taken, change)


def _report(problem: Problem, w: np.ndarray, options: Options, taken: int, change: float) -> Report:
    slope, gradient = np.empty_like(w), np.empty_like(w)
    delta = bound_gradient(
        problem.starts, problem.rows, w, options.rounds, options.row_weight, slope
    )
    loss_gradient(problem.starts, problem.offsets, problem.blocks, problem.pull, w, gradient)
    # ½·tr((I−W)ᵀG(I−W)) = ½·Σ G_qq − Σ w·pull + ½·Σ w·(Gw), and the gradient is Gw − pull.
    with np.errstate(over="ignore", invalid="ignore"):  # a NONFINITE fit may stand far outside
        loss = 0.5 * problem.variance.sum() + 0.5 * float(w @ (gradient - problem.pull))
        loss += options.l1 * float(np.abs(w).sum())
    return delta, loss, taken, float(change)

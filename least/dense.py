"""LEAST-TF: the dense learner, in one compiled TensorFlow function per kind, reused for ever.

Importing this module starts TensorFlow on `LEAST_THREADS` threads (default 1) with deterministic
kernels, unless the process has already started it: then its settings stay. Two runs with equal
thread counts agree byte for byte. Never fork a process that has imported this module.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # as fast here, and rounds the same everywhere

import numpy as np

from least.acyclicity import MAX_LOG_RATIO, exponential_acyclicity
from least.lagrangian import Inner, minimise
from least.problem import Fit, MissingExtraError, Options, ProblemError

try:
    import tensorflow as tf
except ImportError as error:
    raise MissingExtraError("backend='tf'", "tensorflow-cpu", "dense", error) from None

SCALE_FLOOR = {"float32": 1e-9, "float64": 1e-12}
"""Smallest entry of u relative to its largest (see acyclicity.SCALE_FLOOR)."""

JIT_LIMIT = 256
"""Largest padded size that XLA compiles; above, its matrix products are slower than Eigen's
(d = 760: 288 ms against 215 ms for 20 steps on one thread), below it fuses the many small
operations (d = 127: 4.5 ms against 7.5 ms)."""

PAD = 64
"""XLA compiles one program per size, so sizes are rounded up to multiples of this."""


def _start_tensorflow() -> None:
    threads = int(os.environ.get("LEAST_THREADS", "1"))
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # the process started TensorFlow before us, with its own settings
        return
    tf.config.experimental.enable_op_determinism()


_start_tensorflow()

Tensor = Any


def bound(squared: Tensor, rounds: int, row_weight: Tensor) -> tuple[Tensor, list[Any]]:
    """δ of S = W∘W in TensorFlow, and the tape that `bound_gradient` needs.

    The same arithmetic as `acyclicity.bound_gradient`; differentiable by TensorFlow too.
    """
    dtype = squared.dtype
    floor = tf.constant(SCALE_FLOOR[dtype.name], dtype)
    limit = tf.constant(MAX_LOG_RATIO, dtype)
    zero, one = tf.constant(0, dtype), tf.constant(1, dtype)
    u = tf.ones_like(squared[:, 0])
    tape, b = [], u
    for j in range(rounds + 1):
        inverse = tf.math.divide_no_nan(one, u)
        su = tf.linalg.matvec(squared, u)
        sv = tf.linalg.matvec(squared, inverse, transpose_a=True)
        r, c = inverse * su, u * sv
        live = (r > 0) & (c > 0)
        log_r, log_c = tf.math.log(tf.where(live, r, one)), tf.math.log(tf.where(live, c, one))
        b = tf.where(live, tf.exp(row_weight * log_r + (1 - row_weight) * log_c), zero)
        ratio = tf.clip_by_value(log_c - log_r, -limit, limit)
        x = tf.where(live, row_weight * tf.exp((1 - row_weight) * ratio), zero)
        y = tf.where(live, (1 - row_weight) * tf.exp(-row_weight * ratio), zero)
        grown = u * b
        scale = tf.stop_gradient(tf.reduce_max(grown))  # δ does not depend on the scale of u
        scale = tf.where(scale > 0, scale, one)
        floored = (grown > 0) & (grown / scale < floor)
        tape.append((u, inverse, su, sv, b, x, y, scale, floored))
        if j < rounds:
            u = tf.where(floored, floor, grown / scale)
    return tf.reduce_sum(b), tape


def bound_gradient(squared: Tensor, tape: list[Any]) -> Tensor:
    """∂δ/∂S, (d, d), by hand: 2(k+1) outer products in one matrix product."""
    u = tape[-1][0]
    b_bar, u_bar = tf.ones_like(u), tf.zeros_like(u)
    left, right = [], []
    for j in range(len(tape) - 1, -1, -1):
        u, inverse, su, sv, _, x, y, _, _ = tape[j]
        r_bar, c_bar = b_bar * x, b_bar * y
        vr, uc = inverse * r_bar, u * c_bar
        left += [vr, inverse]
        right += [u, uc]
        if j == 0:
            break
        inverse_bar = r_bar * su + tf.linalg.matvec(squared, uc)
        u_bar += tf.linalg.matvec(squared, vr, transpose_a=True) + c_bar * sv
        u_bar -= inverse_bar * inverse * inverse
        u_before, _, _, _, b_before, _, _, scale, floored = tape[j - 1]
        u_bar = tf.where(floored, tf.zeros_like(u_bar), u_bar / scale)
        b_bar, u_bar = u_bar * u_before, u_bar * b_before
    return tf.matmul(tf.stack(left), tf.stack(right), transpose_a=True)


def _row_steps(gram: Tensor) -> Tensor:
    """Step lengths t (d, 1) for which proximal steps on the loss descend: diag(1/t) ⪰ G.

    G is scaled to unit diagonal; its largest eigenvalue is at most ‖G⁴‖_F^¼, which costs two
    matrix products and, unlike power iteration, never falls short.
    """
    one = tf.ones([], gram.dtype)
    diagonal = tf.linalg.diag_part(gram)
    diagonal = tf.where(diagonal > 0, diagonal, one)
    scale = tf.math.rsqrt(diagonal)
    scaled = gram * scale[:, None] * scale[None, :]
    size = tf.maximum(tf.reduce_max(tf.reduce_sum(tf.abs(scaled), 1)), one)
    square = tf.matmul(scaled / size, scaled / size)
    largest = size * tf.norm(tf.matmul(square, square)) ** 0.25
    return (1 / (diagonal * tf.maximum(largest, 0.5)))[:, None]


def _soft(values: Tensor, by: Tensor) -> Tensor:
    return tf.sign(values) * tf.nn.relu(tf.abs(values) - by)


def _proximal(
    gram: Tensor, mask: Tensor, start: Tensor, scalars: Tensor, steps: Tensor, rounds: int
) -> tuple[Tensor, Tensor]:
    """Accelerated proximal gradient.

    δ is linear in S = W∘W to first order, so its part of the objective becomes Σ D ∘ W∘W with
    D = (ρδ+η)·∂δ/∂S: a weighted ridge whose proximal map divides, however steep D is (it is
    unbounded where a node has almost no incoming weight). Negative entries of D, which would
    reward an edge for making the bound look smaller, count as 0. Half of the previous D is kept,
    which stops two-step oscillations; momentum restarts when it points uphill.
    """
    l1, rho, eta, row_weight, _, theta, tolerance = tf.unstack(scalars)
    zero, one = tf.constant(0, gram.dtype), tf.constant(1, gram.dtype)
    half = tf.constant(0.5, gram.dtype)
    step = _row_steps(gram)

    def go_on(i: Tensor, *state: Tensor) -> Tensor:
        return (i < steps) & (state[-1] > tolerance)

    def body(i: Tensor, w: Tensor, y: Tensor, ridge: Tensor, t: Tensor, _: Tensor) -> Any:
        squared = w * w
        delta, tape = bound(squared, rounds, row_weight)
        fresh = (rho * delta + eta) * tf.nn.relu(bound_gradient(squared, tape))
        ridge = tf.where(i > 0, half * (ridge + fresh), fresh)
        z = y - step * (tf.matmul(gram, y) - gram)
        new = _soft(z, step * l1) / (1 + 2 * step * ridge) * mask
        new = tf.where(tf.abs(new) > theta, new, zero)
        move = new - w
        t_next = half * (1 + tf.sqrt(1 + 4 * t * t))
        uphill = tf.reduce_sum((y - new) * move) > 0
        y = new + tf.where(uphill, zero, (t - 1) / t_next) * move
        return i + 1, *_keep_finite(w, new, y, ridge, tf.where(uphill, one, t_next))

    zeros = tf.zeros_like(start)
    infinite = tf.constant(np.inf, gram.dtype)
    taken, w, _, _, _, change = tf.while_loop(
        go_on, body, [tf.constant(0), start, start, zeros, one, infinite]
    )
    return w, _report(gram, w, l1, row_weight, rounds, taken, change)


def _keep_finite(w: Tensor, new: Tensor, y: Tensor, ridge: Tensor, t: Tensor) -> Any:
    """The next state; W stays and the change is NaN, which ends the loop, if it left the reals."""
    change = tf.reduce_max(tf.abs(new - w))
    finite = tf.math.is_finite(tf.reduce_sum(new)) & tf.math.is_finite(tf.reduce_sum(ridge))
    return (
        tf.where(finite, new, w),
        y,
        ridge,
        t,
        tf.where(finite, change, tf.constant(np.nan, w.dtype)),
    )


def _adam_loop(
    gradient_at: Callable[[Tensor, Tensor], Tensor],
    mask: Tensor,
    start: Tensor,
    scalars: Tensor,
    steps: Tensor,
    rounds: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The paper's optimiser with L1 as a proximal step; `gradient_at(W, i)` is the loss's."""
    l1, rho, eta, row_weight, rate, theta, tolerance = tf.unstack(scalars)
    dtype = start.dtype
    zero = tf.constant(0, dtype)
    keep1, keep2, tiny = (tf.constant(x, dtype) for x in (0.9, 0.999, 1e-8))

    def go_on(i: Tensor, *state: Tensor) -> Tensor:
        return (i < steps) & (state[-1] > tolerance)

    def body(i: Tensor, w: Tensor, m: Tensor, v: Tensor, _: Tensor) -> Any:
        squared = w * w
        delta, tape = bound(squared, rounds, row_weight)
        # The paper prints (ρ + δ)·∇δ; differentiating ρ/2·δ² + η·δ gives (ρδ + η)·∇δ.
        pull = 2 * (rho * delta + eta) * bound_gradient(squared, tape) * w
        gradient = (gradient_at(w, i) + pull) * mask
        m = keep1 * m + (1 - keep1) * gradient
        v = keep2 * v + (1 - keep2) * gradient * gradient
        count = tf.cast(i + 1, dtype)
        spread = tf.sqrt(v / (1 - keep2**count)) + tiny
        new = w - rate * (m / (1 - keep1**count)) / spread
        new = _soft(new, rate * l1 / spread) * mask
        new = tf.where(tf.abs(new) > theta, new, zero)
        w, _, m, v, change = _keep_finite(w, new, w, m, v)
        return i + 1, w, m, v, change

    zeros = tf.zeros_like(start)
    taken, w, _, _, change = tf.while_loop(
        go_on, body, [tf.constant(0), start, zeros, zeros, tf.constant(np.inf, dtype)]
    )
    return w, taken, change


def _adam(
    gram: Tensor, mask: Tensor, start: Tensor, scalars: Tensor, steps: Tensor, rounds: int
) -> tuple[Tensor, Tensor]:
    w, taken, change = _adam_loop(
        lambda w, _: tf.matmul(gram, w) - gram, mask, start, scalars, steps, rounds
    )
    return w, _report(gram, w, scalars[0], scalars[3], rounds, taken, change)


def _batches(
    gram: Tensor,
    mask: Tensor,
    start: Tensor,
    scalars: Tensor,
    steps: Tensor,
    rounds: int,
    samples: Tensor,
    batch: Tensor,
    seed: Tensor,
) -> tuple[Tensor, Tensor]:
    """Adam with the loss's gradient from `batch` random rows per step (the paper's line 5)."""
    rows = tf.shape(samples)[0]
    share = tf.cast(batch, gram.dtype)

    def gradient_at(w: Tensor, i: Tensor) -> Tensor:
        picked = tf.random.stateless_uniform(
            batch[None], seed + tf.stack([0, i]), 0, rows, tf.int32
        )
        x = tf.gather(samples, picked)
        return tf.matmul(x, tf.matmul(x, w) - x, transpose_a=True) / share

    w, taken, change = _adam_loop(gradient_at, mask, start, scalars, steps, rounds)
    return w, _report(gram, w, scalars[0], scalars[3], rounds, taken, change)


def _report(
    gram: Tensor,
    w: Tensor,
    l1: Tensor,
    row_weight: Tensor,
    rounds: int,
    taken: Tensor,
    change: Tensor,
) -> Tensor:
    """(δ, loss, steps, change) as one vector."""
    delta, _ = bound(w * w, rounds, row_weight)
    rest = tf.linalg.diag(tf.ones_like(w[:, 0])) - w
    loss = 0.5 * tf.reduce_sum(rest * tf.matmul(gram, rest)) + l1 * tf.reduce_sum(tf.abs(w))
    return tf.stack([delta, loss, tf.cast(taken, w.dtype), change])


_KINDS: dict[str, Callable[..., Any]] = {"proximal": _proximal, "adam": _adam, "batches": _batches}


@cache
def _compiled(kind: str, dtype: str, rounds: int, jit: bool) -> Callable[..., Any]:
    """The one function of its kind; a new function per fit would never give its memory back."""
    body = _KINDS[kind]
    matrix, number = tf.TensorSpec([None, None], dtype), tf.TensorSpec([], tf.int32)
    signature = [matrix, matrix, matrix, tf.TensorSpec([7], dtype), number]
    if kind == "batches":
        signature += [matrix, number, tf.TensorSpec([2], tf.int32)]

    def run(*arguments: Tensor) -> Any:
        return body(*arguments[:5], rounds, *arguments[5:])

    return tf.function(run, input_signature=signature, jit_compile=jit)  # type: ignore[no-any-return]


def fit_gram(
    gram: np.ndarray,
    allowed: np.ndarray | None = None,
    start: np.ndarray | None = None,
    options: Options | None = None,
    *,
    samples: np.ndarray | None = None,
) -> Fit:
    """Learn W from G = XᵀX/n. The lean call: no standardising, no start of its own, no pruning.

    Args:
        gram: (d, d), symmetric; usually a correlation matrix.
        allowed: (d, d) bool, True where an edge i → j may exist; None allows all but the diagonal,
            which is never allowed.
        start: (d, d) W₀, usually the last fit's weights; None is zero. Entries that are not
            allowed are dropped.
        options: see `Options`; `Options.monitor()` suits a warm restart.
        samples: (n, d) centred X, read only when `options.batch` asks for batches.

    Returns:
        A `Fit` whose weights are neither thresholded nor made acyclic.

    Raises:
        ProblemError: shapes disagree or a number is not finite.
    """
    options = options or Options()
    d = _checked_size(gram, allowed, start)
    kind = options.optimizer if options.batch is None else "batches"
    jit = d <= JIT_LIMIT and options.rounds <= 20 and kind != "batches"
    size = -(-d // PAD) * PAD if jit else d
    dtype = np.dtype(options.dtype)
    whole = _padded(gram, size, dtype)
    if not np.isfinite(whole).all():
        raise ProblemError("the Gram matrix exceeds float32: rescale columns or use float64")
    mask = np.zeros((size, size), dtype)
    mask[:d, :d] = 1 if allowed is None else allowed
    np.fill_diagonal(mask, 0)
    weights = mask * 0 if start is None else _padded(start, size, dtype) * mask

    run = _compiled(kind, options.dtype, options.rounds, jit)
    steps = np.int32(options.inner_steps)
    problem: list[Any] = [whole, mask]
    extra: list[Any] = []
    if options.batch is not None:
        if samples is None:
            raise ProblemError("batches need rows: call Least(...).fit(X)")
        extra = [tf.constant(samples.astype(dtype)), np.int32(options.batch)]
    if options.outer_steps > 1:  # hand them to TensorFlow once, not at every outer step
        problem = [tf.constant(matrix) for matrix in problem]

    def inner(w: Any, rho: float, eta: float, stage: int) -> Inner[Any]:
        scalars = np.array(
            [options.l1, rho, eta, options.row_weight, options.learning_rate,
             options.zero_below, options.tolerance], dtype,
        )  # fmt: skip
        seed = [np.array([options.seed, stage * options.inner_steps], np.int32)] if extra else []
        w, report = run(*problem, w, scalars, steps, *extra, *seed)
        delta, loss, taken, change = (float(x) for x in report.numpy())
        return Inner(w, delta, loss, int(taken), change)

    def redraw(stage: int) -> np.ndarray:
        rng = np.random.default_rng([options.seed, stage])
        return _padded(glorot(d, options.density, rng), size, dtype) * mask

    def exponential(w: Any) -> float:
        return exponential_acyclicity(w.numpy()[:d, :d])

    outcome = minimise(inner, weights, options, redraw=redraw, exponential=exponential)
    return Fit(
        np.ascontiguousarray(np.asarray(outcome.weights)[:d, :d]),
        outcome.status,
        outcome.steps,
        outcome.delta,
        outcome.history,
        start="zeros" if start is None else "given",
    )


def glorot(d: int, density: float, rng: np.random.Generator) -> np.ndarray:
    """The paper's start: a share `density` of the entries from U[−√(6/2d), √(6/2d)].

    At the paper's density of 1e-4 and d = 100 that is a single weight.
    """
    limit = np.sqrt(6 / (2 * d))
    weights = rng.uniform(-limit, limit, (d, d)) * (rng.random((d, d)) < density)
    np.fill_diagonal(weights, 0)
    return weights


def _padded(matrix: np.ndarray, size: int, dtype: np.dtype[Any]) -> np.ndarray:
    whole = np.zeros((size, size), dtype)
    with np.errstate(over="ignore"):  # the caller checks for infinity
        whole[: len(matrix), : len(matrix)] = matrix
    return whole


def _checked_size(gram: np.ndarray, allowed: np.ndarray | None, start: np.ndarray | None) -> int:
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not len(gram):
        raise ProblemError(f"the Gram matrix must be square and not empty, not {gram.shape}")
    for name, matrix in (("Gram matrix", gram), ("edge mask", allowed), ("start", start)):
        if matrix is None:
            continue
        if matrix.shape != gram.shape:
            raise ProblemError(f"the {name} is {matrix.shape}, the Gram matrix {gram.shape}")
        if not np.isfinite(matrix).all():
            raise ProblemError(f"the {name} holds a number that is not finite")
    return len(gram)

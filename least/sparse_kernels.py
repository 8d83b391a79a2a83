"""The inner loops of LEAST-SP, compiled by numba.

A support is in CSC order: the edges into column q are `starts[q]:starts[q + 1]`, `rows` holds their
sources, and `blocks[offsets[q]:]` the Gram matrix of those sources, row by row.
"""

from __future__ import annotations

import numpy as np

from least.acyclicity import MAX_LOG_RATIO, SCALE_FLOOR
from least.compiled import numba


@numba.njit(cache=True)
def bound_gradient(
    starts: np.ndarray,
    rows: np.ndarray,
    w: np.ndarray,
    rounds: int,
    row_weight: float,
    gradient: np.ndarray,
) -> float:
    """δ(W) on a support in CSC order; fills `gradient` with ∂δ/∂S of every edge.

    The same arithmetic as `acyclicity.bound_gradient`: 4(k+1) sparse products, O(k·s).
    """
    d, k = len(starts) - 1, rounds
    us, vs = np.empty((k + 1, d)), np.empty((k + 1, d))
    su, sv = np.empty((k + 1, d)), np.empty((k + 1, d))
    bs, xs, ys = np.empty((k + 1, d)), np.empty((k + 1, d)), np.empty((k + 1, d))
    scales, floored = np.ones(k + 1), np.zeros((k + 1, d), np.bool_)
    squared = w * w
    us[0, :] = 1.0
    for j in range(k + 1):
        for i in range(d):
            vs[j, i] = 1.0 / us[j, i] if us[j, i] > 0 else 0.0
        both_products(starts, rows, squared, us[j], vs[j], su[j], sv[j])
        largest = 0.0
        for i in range(d):
            r, c = vs[j, i] * su[j, i], us[j, i] * sv[j, i]
            if r > 0 and c > 0:
                log_r, log_c = np.log(r), np.log(c)
                bs[j, i] = np.exp(row_weight * log_r + (1 - row_weight) * log_c)
                ratio = min(max(log_c - log_r, -MAX_LOG_RATIO), MAX_LOG_RATIO)
                xs[j, i] = row_weight * np.exp((1 - row_weight) * ratio)
                ys[j, i] = (1 - row_weight) * np.exp(-row_weight * ratio)
            else:
                bs[j, i] = xs[j, i] = ys[j, i] = 0.0
            largest = max(largest, us[j, i] * bs[j, i])
        if j < k:
            scales[j] = largest if largest > 0 else 1.0
            for i in range(d):
                grown = us[j, i] * bs[j, i] / scales[j]
                floored[j, i] = 0 < grown < SCALE_FLOOR
                us[j + 1, i] = SCALE_FLOOR if floored[j, i] else grown
    left, right = np.empty((d, 2 * (k + 1))), np.empty((d, 2 * (k + 1)))
    b_bar, u_bar = np.ones(d), np.zeros(d)
    uc, vr, s1, s2 = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for j in range(k, -1, -1):
        for i in range(d):
            vr[i] = vs[j, i] * b_bar[i] * xs[j, i]
            uc[i] = us[j, i] * b_bar[i] * ys[j, i]
            left[i, 2 * j], right[i, 2 * j] = vr[i], us[j, i]
            left[i, 2 * j + 1], right[i, 2 * j + 1] = vs[j, i], uc[i]
        if j == 0:
            break
        both_products(starts, rows, squared, uc, vr, s1, s2)
        for i in range(d):
            v_bar = b_bar[i] * xs[j, i] * su[j, i] + s1[i]
            total = u_bar[i] + s2[i] + b_bar[i] * ys[j, i] * sv[j, i] - v_bar * vs[j, i] ** 2
            total = 0.0 if floored[j - 1, i] else total / scales[j - 1]
            b_bar[i], u_bar[i] = total * us[j - 1, i], total * bs[j - 1, i]
    for q in range(d):
        for t in range(starts[q], starts[q + 1]):
            total = 0.0
            for z in range(2 * (k + 1)):
                total += left[rows[t], z] * right[q, z]
            gradient[t] = total
    return float(bs[k].sum())


@numba.njit(cache=True)
def both_products(
    starts: np.ndarray,
    rows: np.ndarray,
    values: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    forward: np.ndarray,
    backward: np.ndarray,
) -> None:
    """forward = S a and backward = Sᵀ b in one pass."""
    forward[:] = 0.0
    for q in range(len(starts) - 1):
        total = 0.0
        for t in range(starts[q], starts[q + 1]):
            forward[rows[t]] += values[t] * a[q]
            total += values[t] * b[rows[t]]
        backward[q] = total


@numba.njit(cache=True)
def fill_from_gram(
    gram: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    offsets: np.ndarray,
    blocks: np.ndarray,
    pull: np.ndarray,
) -> None:
    """`fill_blocks` where the whole Gram matrix is at hand."""
    for q in range(len(starts) - 1):
        place = offsets[q]
        for a in range(starts[q], starts[q + 1]):
            pull[a] = gram[rows[a], q]
            for b in range(starts[q], starts[q + 1]):
                blocks[place] = gram[rows[a], rows[b]]
                place += 1


@numba.njit(cache=True)
def fill_blocks(
    variables: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    offsets: np.ndarray,
    blocks: np.ndarray,
    pull: np.ndarray,
) -> None:
    """Compute every column's Gram block, and `pull`, G[source, target] of every edge."""
    n = variables.shape[1]
    for q in range(len(starts) - 1):
        count = starts[q + 1] - starts[q]
        if count == 0:
            continue
        own = np.empty((count, n), np.float32)
        for a in range(count):
            own[a] = variables[rows[starts[q] + a]]
        inner = np.dot(own, own.T) / n
        outer = np.dot(own, variables[q]) / n
        for a in range(count):
            pull[starts[q] + a] = outer[a]
            for b in range(count):
                blocks[offsets[q] + a * count + b] = inner[a, b]


@numba.njit(cache=True)
def copy_blocks(
    starts: np.ndarray,
    offsets: np.ndarray,
    blocks: np.ndarray,
    keep: np.ndarray,
    new_offsets: np.ndarray,
    new_blocks: np.ndarray,
) -> None:
    """Take over the entries of old blocks whose edges are kept."""
    for q in range(len(starts) - 1):
        count, place = starts[q + 1] - starts[q], new_offsets[q]
        for a in range(count):
            for b in range(count):
                if keep[starts[q] + a] and keep[starts[q] + b]:
                    new_blocks[place] = blocks[offsets[q] + a * count + b]
                    place += 1


@numba.njit(cache=True)
def step_lengths(
    starts: np.ndarray, offsets: np.ndarray, blocks: np.ndarray, lengths: np.ndarray
) -> None:
    """1 / (largest absolute row sum of the block): never too long."""
    for q in range(len(starts) - 1):
        count = starts[q + 1] - starts[q]
        largest = 0.0
        for a in range(count):
            total = 0.0
            for b in range(count):
                total += abs(blocks[offsets[q] + a * count + b])
            largest = max(largest, total)
        lengths[q] = 1.0 / largest if largest > 0 else 1.0


@numba.njit(cache=True)
def loss_gradient(
    starts: np.ndarray,
    offsets: np.ndarray,
    blocks: np.ndarray,
    pull: np.ndarray,
    w: np.ndarray,
    gradient: np.ndarray,
) -> None:
    """∂/∂W of ½·tr((I−W)ᵀ G (I−W)) on the support: G w − pull, column by column."""
    for q in range(len(starts) - 1):
        first, count = starts[q], starts[q + 1] - starts[q]
        for a in range(count):
            total = -pull[first + a]
            for b in range(count):
                total += blocks[offsets[q] + a * count + b] * w[first + b]
            gradient[first + a] = total


@numba.njit(cache=True, fastmath=True)
def batch_gradient(
    batch: np.ndarray, starts: np.ndarray, rows: np.ndarray, w: np.ndarray, gradient: np.ndarray
) -> None:
    """The same gradient from a batch of rows, transposed: (d, B) float32."""
    size = batch.shape[1]
    left = np.empty(size, np.float32)
    for q in range(len(starts) - 1):
        left[:] = batch[q]
        for t in range(starts[q], starts[q + 1]):
            weight = np.float32(w[t])
            if weight != 0:
                for i in range(size):
                    left[i] -= weight * batch[rows[t], i]
        for t in range(starts[q], starts[q + 1]):
            total = np.float32(0)
            for i in range(size):
                total += batch[rows[t], i] * left[i]
            gradient[t] = -total / size


@numba.njit(cache=True)
def proximal_step(
    starts: np.ndarray,
    w: np.ndarray,
    y: np.ndarray,
    gradient: np.ndarray,
    slope: np.ndarray,
    ridge: np.ndarray,
    lengths: np.ndarray,
    l1: float,
    pressure: float,
    theta: float,
    momentum: float,
    first: bool,
) -> tuple[float, float]:
    """One step in place; see `dense._proximal`. Returns the largest move and the next momentum."""
    uphill, change, finite = 0.0, 0.0, True
    following = 0.5 * (1 + np.sqrt(1 + 4 * momentum * momentum))
    new = np.empty_like(w)
    for q in range(len(starts) - 1):
        step = lengths[q]
        for t in range(starts[q], starts[q + 1]):
            fresh = pressure * max(slope[t], 0.0)
            ridge[t] = fresh if first else 0.5 * (ridge[t] + fresh)
            z = y[t] - step * gradient[t]
            size = abs(z) - step * l1
            value = np.sign(z) * size / (1 + 2 * step * ridge[t]) if size > 0 else 0.0
            new[t] = value if abs(value) > theta else 0.0
            finite &= bool(np.isfinite(new[t]))
            uphill += (y[t] - new[t]) * (new[t] - w[t])
            change = max(change, abs(new[t] - w[t]))
    if not finite:
        return np.nan, momentum
    pace = 0.0 if uphill > 0 else (momentum - 1) / following
    for t in range(len(w)):
        y[t] = new[t] + pace * (new[t] - w[t])
        w[t] = new[t]
    return change, 1.0 if uphill > 0 else following


@numba.njit(cache=True)
def adam_step(
    w: np.ndarray,
    gradient: np.ndarray,
    slope: np.ndarray,
    mean: np.ndarray,
    spread: np.ndarray,
    count: int,
    rate: float,
    l1: float,
    pressure: float,
    theta: float,
) -> float:
    """One step in place; NaN, and W untouched, if it would leave the reals."""
    correct1, correct2 = 1 - 0.9**count, 1 - 0.999**count
    change = 0.0
    new = np.empty_like(w)
    for t in range(len(w)):
        g = gradient[t] + 2 * pressure * slope[t] * w[t]
        mean[t] = 0.9 * mean[t] + 0.1 * g
        spread[t] = 0.999 * spread[t] + 0.001 * g * g
        scale = np.sqrt(spread[t] / correct2) + 1e-8
        z = w[t] - rate * (mean[t] / correct1) / scale
        size = abs(z) - rate * l1 / scale
        new[t] = np.sign(z) * size if size > 0 and size > theta else 0.0
        if not np.isfinite(z):
            return np.nan
        change = max(change, abs(new[t] - w[t]))
    w[:] = new
    return change

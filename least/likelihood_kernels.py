"""The inner loops of the order search, compiled by numba; see `likelihood` for what they mean.

Arrays of a state: `parents`, `coefficients` (d, most) with the first `counts[j]` entries of row j
in use; `left` (d,) residual variances; `scores` (d,). The Gram matrix has unit diagonal.
"""

from __future__ import annotations

import numpy as np

from least.compiled import numba

SMALLEST = 1e-10
"""Share of a variance that counts as zero: a collinear candidate, a residual of nothing."""


@numba.njit(cache=True)
def _grow_shrink(
    gram: np.ndarray,
    n: float,
    node: int,
    candidates: np.ndarray,
    m: int,
    may: np.ndarray,
    must: np.ndarray,
    price: float,
    parents: np.ndarray,
    coefficients: np.ndarray,
) -> tuple[int, float]:
    """Parents of `node` among `candidates[:m]`: fills `parents`, `coefficients`."""
    most = len(parents)
    names = np.empty(m, np.int64)
    gradient, spread = np.empty(m), np.empty(m)
    count = 0
    for i in range(m):
        c = candidates[i]
        if may[c, node]:
            names[count] = c
            gradient[count] = gram[c, node]
            spread[count] = gram[c, c]
            count += 1
    m = count
    factor = np.empty((m, most))
    used = np.zeros(m, np.bool_)
    floor = SMALLEST * max(gram[node, node], 1e-290)
    left, t = max(gram[node, node], floor), 0
    while t < most and left > floor:
        best, best_gain = -1, 0.0
        for i in range(m):
            if not used[i] and spread[i] > 1e-7 * gram[names[i], names[i]]:
                gain = gradient[i] * gradient[i] / spread[i]
                if must[names[i], node]:
                    gain += 1e30
                if gain > best_gain:
                    best, best_gain = i, gain
        if best < 0:
            break
        gain = gradient[best] * gradient[best] / spread[best]
        after = max(left - gain, floor)
        if best_gain < 1e30 and n * np.log(left / after) < price:
            break
        used[best] = True
        parents[t] = names[best]
        deviation = np.sqrt(spread[best])
        pull = gradient[best] / deviation
        for i in range(m):
            if not used[i]:
                value = gram[names[best], names[i]]
                for u in range(t):
                    value -= factor[best, u] * factor[i, u]
                value /= deviation
                factor[i, t] = value
                gradient[i] -= value * pull
                spread[i] -= value * value
        factor[best, t] = deviation
        left = after
        t += 1
    while t > 0:
        inner, pull_all = np.empty((t, t)), np.empty(t)
        for u in range(t):
            pull_all[u] = gram[parents[u], node]
            for v in range(t):
                inner[u, v] = gram[parents[u], parents[v]]
            inner[u, u] += 1e-12
        inverse = np.linalg.inv(inner)
        worst, worst_loss = -1, price
        left = gram[node, node]
        for u in range(t):
            value = 0.0
            for v in range(t):
                value += inverse[u, v] * pull_all[v]
            coefficients[u] = value
            left -= value * pull_all[u]
        left = max(left, floor)
        if t > 1:
            for u in range(t):
                if not must[parents[u], node]:
                    loss = n * np.log(1 + coefficients[u] ** 2 / inverse[u, u] / left)
                    if loss < worst_loss:
                        worst, worst_loss = u, loss
        if worst < 0:
            break
        for u in range(worst, t - 1):
            parents[u] = parents[u + 1]
        t -= 1
    return t, left


@numba.njit(cache=True)
def _entropy(
    data: np.ndarray, node: int, parents: np.ndarray, coefficients: np.ndarray, t: int, left: float
) -> float:
    """Entropy of the standardised residual less that of a Gaussian; at most 0."""
    n = data.shape[1]
    scale = 1 / np.sqrt(left)
    first = second = 0.0
    for i in range(n):
        value = data[node, i]
        for u in range(t):
            value -= coefficients[u] * data[parents[u], i]
        value *= scale
        size = abs(value)
        first += size + np.log1p(np.exp(-2 * size)) - 0.6931471805599453
        second += value * np.exp(-value * value / 2)
    return float(-79.047 * (first / n - 0.37457) ** 2 - 7.4129 * (second / n) ** 2)


@numba.njit(cache=True)
def _node_score(
    n: float,
    data: np.ndarray,
    node: int,
    parents: np.ndarray,
    coefficients: np.ndarray,
    t: int,
    left: float,
    price: float,
    log_scale: float,
    centre: float,
    scatter: float,
) -> float:
    result = n * np.log(left) + price * t
    if data.shape[1] > 1:
        result += 2 * n * _entropy(data, node, parents, coefficients, t, left)
    if scatter > 0 and left > 10 * SMALLEST:
        result += (np.log(left) + log_scale - centre) ** 2 / scatter
    return float(result)


@numba.njit(cache=True)
def _could_explain(
    gram: np.ndarray,
    precision: np.ndarray,
    n: float,
    new: int,
    node: int,
    parents: np.ndarray,
    coefficients: np.ndarray,
    t: int,
    left: float,
    price: float,
) -> bool:
    """False when `new` cannot bring `price` beside the parents, whatever is left of it."""
    rest = gram[new, node]
    for u in range(t):
        rest -= coefficients[u] * gram[new, parents[u]]
    gain = rest * rest * precision[new]
    if gain >= left:
        return True
    return bool(-n * np.log(1 - gain / left) >= price)


@numba.njit(cache=True)
def _prior(left: np.ndarray, logs: np.ndarray, n: float, similar: bool) -> tuple[float, float]:
    """Centre and scatter of the log-variances of nodes that keep any; 0 where nothing is known.

    Even equal variances scatter by 2/n as estimated.
    """
    if not similar:
        return 0.0, 0.0
    values = (np.log(left) + logs)[left > 10 * SMALLEST]
    if len(values) == 0:
        return 0.0, 0.0
    centre = np.median(values)
    return centre, max(np.mean((values - centre) ** 2), 2 / n)


@numba.njit(cache=True)
def _total(
    n: float,
    data: np.ndarray,
    parents: np.ndarray,
    coefficients: np.ndarray,
    counts: np.ndarray,
    left: np.ndarray,
    price: float,
    logs: np.ndarray,
    centre: float,
    scatter: float,
    scores: np.ndarray,
) -> float:
    """Fill `scores`; their sum with the scatter's own price, so that orders compare."""
    for j in range(len(left)):
        scores[j] = _node_score(
            n, data, j, parents[j], coefficients[j], counts[j], left[j], price, logs[j],
            centre, scatter,
        )  # fmt: skip
    return float(scores.sum() + (len(left) * np.log(scatter) if scatter > 0 else 0.0))


@numba.njit(cache=True)
def search(
    gram: np.ndarray,
    precision: np.ndarray,
    n: float,
    data: np.ndarray,
    may: np.ndarray,
    must: np.ndarray,
    price: float,
    logs: np.ndarray,
    similar: bool,
    order: np.ndarray,
    parents: np.ndarray,
    counts: np.ndarray,
    coefficients: np.ndarray,
    left: np.ndarray,
    scores: np.ndarray,
    most_sweeps: int,
) -> tuple[float, int, int]:
    """Improve `order` in place; the total score, sweeps and moves."""
    d = len(order)
    most = parents.shape[1]
    for p in range(d):
        v = order[p]
        counts[v], left[v] = _grow_shrink(
            gram, n, v, order, p, may, must, price, parents[v], coefficients[v]
        )
    centre, scatter = _prior(left, logs, n, similar)
    others = np.empty(d - 1, np.int64) if d > 1 else np.empty(0, np.int64)
    with_v, without_v = np.empty(d), np.empty(d)
    own = np.empty(d)
    prefix = np.empty(d, np.int64)
    trial, weights = np.empty(most, np.int64), np.empty(most)
    moves, sweep = 0, 0
    total = _total(
        n, data, parents, coefficients, counts, left, price, logs, centre, scatter, scores
    )
    while sweep < most_sweeps:
        sweep += 1
        moved = False
        for v in order.copy():
            here = 0
            m = 0
            for p in range(d):
                if order[p] == v:
                    here = p
                else:
                    others[m] = order[p]
                    m += 1
            low, high = 0, m
            for p in range(m):
                if must[others[p], v]:
                    low = p + 1
                if must[v, others[p]]:
                    high = min(high, p)
            if low == high:
                continue
            # Each other node with v before it, and without.
            for p in range(m):
                k = others[p]
                with_v[p] = without_v[p] = scores[k]
                if p < low or p >= high:
                    continue
                if p < here:
                    if may[v, k] and _could_explain(
                        gram,
                        precision,
                        n,
                        v,
                        k,
                        parents[k],
                        coefficients[k],
                        counts[k],
                        left[k],
                        price,
                    ):
                        prefix[:p] = others[:p]
                        prefix[p] = v
                        t, rest = _grow_shrink(
                            gram, n, k, prefix, p + 1, may, must, price, trial, weights
                        )
                        with_v[p] = _node_score(
                            n, data, k, trial, weights, t, rest, price, logs[k], centre, scatter
                        )
                else:
                    uses = False
                    for u in range(counts[k]):
                        uses |= parents[k, u] == v
                    if uses:
                        t, rest = _grow_shrink(
                            gram, n, k, others, p, may, must, price, trial, weights
                        )
                        without_v[p] = _node_score(
                            n, data, k, trial, weights, t, rest, price, logs[k], centre, scatter
                        )
            # v itself behind each prefix.
            t, rest = _grow_shrink(gram, n, v, others, low, may, must, price, trial, weights)
            own[low] = _node_score(
                n, data, v, trial, weights, t, rest, price, logs[v], centre, scatter
            )
            for p in range(low, high):
                own[p + 1] = own[p]
                k = others[p]
                if may[k, v] and _could_explain(
                    gram, precision, n, k, v, trial, weights, t, rest, price
                ):
                    t, rest = _grow_shrink(
                        gram, n, v, others, p + 1, may, must, price, trial, weights
                    )
                    own[p + 1] = _node_score(
                        n, data, v, trial, weights, t, rest, price, logs[v], centre, scatter
                    )
            after = 0.0
            for p in range(low, high):
                after += with_v[p]
            before, best, best_score, now = 0.0, here, np.inf, np.inf
            for p in range(low, high + 1):
                value = own[p] + before + after
                if p == here:
                    now = value
                if value < best_score:
                    best, best_score = p, value
                if p < high:
                    before += without_v[p]
                    after -= with_v[p]
            if best == here or best_score > now - 1e-6:
                continue
            moved = True
            moves += 1
            order[:best] = others[:best]
            order[best] = v
            order[best + 1 :] = others[best:]
            for p in range(min(best, here), max(best, here) + 1):
                k = order[p]
                counts[k], left[k] = _grow_shrink(
                    gram, n, k, order, p, may, must, price, parents[k], coefficients[k]
                )
                scores[k] = _node_score(
                    n,
                    data,
                    k,
                    parents[k],
                    coefficients[k],
                    counts[k],
                    left[k],
                    price,
                    logs[k],
                    centre,
                    scatter,
                )
        old = scatter
        centre, scatter = _prior(left, logs, n, similar)
        total = _total(
            n, data, parents, coefficients, counts, left, price, logs, centre, scatter, scores
        )
        if not moved and abs(scatter - old) <= 1e-3 * old:
            break
    return total, sweep, moves

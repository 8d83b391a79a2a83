"""`Least`: the public face, with scikit-learn manners."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from least.acyclicity import acyclic_threshold
from least.columns import names_of, numbers_of
from least.constraints import Column, Edges, edge_masks
from least.graphs import cut_cycles, topological_rank
from least.network import Edge, as_dot, as_networkx, as_pandas, edges_of, meaning
from least.ordering import conditional_variance_order, regress_along
from least.problem import Fit, NotFittedError, Options, ProblemError
from least.synthetic import topological_order

Noise = Literal["similar", "any", "nongaussian"]
NOISES = ("similar", "any", "nongaussian")
Start = Literal["ordering", "likelihood", "random", "warm"]

SHOWN = 20
"""Edges that `print` shows."""

AFTER_ORDERING = Options(eta=1.0, inner_steps=20)
"""LEAST's settings after an ordering start: a short polish."""


class Least:
    """Structure learner for linear Bayesian networks: X = XW + noise, W[i, j] is i → j.

    A fit has four steps, and `fit_` tells what each did: a start; LEAST from that start; a
    threshold, raised until the graph has no cycle; and (`refit`) least squares along the learned
    order with insignificant edges pruned. With `start="ordering"` the start alone is a full
    solution that assumes equal noise variances, with `start="likelihood"` one that assumes only
    what `noise` says: LEAST's result replaces it only where the same likelihood is better, and
    `fit_.changed` counts the edges in which they differ.

    Args:
        start: "ordering", conditional variances; "likelihood", an order search by likelihood (needs
            numba); "random", LEAST alone; "warm", the weights of the last fit (zero at first); or a
            (d, d) array.
        noise: for "likelihood": "similar" (Gaussian, variances about one another; the default),
            "any" (Gaussian, whatever variances; standardised columns) or "nongaussian" (whatever
            variances, any scale; `fit` only). LEAST then runs on columns divided by their noise's
            deviation, which makes its loss the right one.
        options: LEAST's settings; None takes `AFTER_ORDERING` or `Options.annealed()` by the start.
        threshold: |W| up to this is no edge.
        refit: False returns LEAST's own weights.
        significance: standard errors that an edge needs to survive the refit.
        standardise: divide columns by their deviations first. It destroys what "ordering" uses.
        allowed: only these edges may exist: a (d, d) bool mask, or pairs (cause, effect) of
            columns, by name where they have names, else by number; None allows all.
        required: edges that must exist, likewise; acyclic and allowed.
        forbidden: edges that cannot exist, likewise.
        tiers: lists of columns, earliest first: no edge runs from a later list to an earlier one.
            Columns in none of them are free.
        backend: "tf", dense; or "sparse", LEAST-SP for thousands of columns (starts "ordering" and
            "random", no constraints; from scipy.sparse rows or a Gram matrix "random" only;
            `weights_` is a scipy.sparse.csr_array).

    Attributes:
        weights_: (d, d) float, acyclic.
        fit_: `Fit` (or `SparseFit`) with status, δ, history, threshold and start.
        n_features_in_: d.
        feature_names_in_: (d,) the names of a DataFrame's columns; only where they had names.
        order_: (d,) a topological order of the learned graph, as numbers of columns.
    """

    def __init__(
        self,
        start: Start | np.ndarray = "ordering",
        *,
        noise: Noise | None = None,
        options: Options | None = None,
        threshold: float = 0.3,
        refit: bool = True,
        significance: float = 3.5,
        standardise: bool = False,
        allowed: Edges | None = None,
        required: Edges | None = None,
        forbidden: Edges | None = None,
        tiers: Sequence[Iterable[Column]] | None = None,
        backend: Literal["tf", "sparse"] = "tf",
    ) -> None:
        self.start = start
        self.noise = noise
        self.options = options
        self.threshold = threshold
        self.refit = refit
        self.significance = significance
        self.standardise = standardise
        self.allowed = allowed
        self.required = required
        self.forbidden = forbidden
        self.tiers = tiers
        self.backend = backend

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **params: Any) -> Least:
        """Change constructor arguments; unknown names are an error."""
        known = self._parameters()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"Least has no parameter {name!r}; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    @property
    def edges_(self) -> list[Edge]:
        """(source, target, weight) of every edge, strongest first."""
        names = self._labels()
        return edges_of(self.weights_, names)

    def to_pandas(self) -> Any:
        """The edges as a pandas.DataFrame: source, target, weight; strongest first."""
        return as_pandas(self.edges_)

    def to_networkx(self) -> Any:
        """The graph as a networkx.DiGraph; edges have `weight`."""
        return as_networkx(self.edges_, self._labels())

    def to_dot(self) -> str:
        """The graph for Graphviz: `graphviz.Source(model.to_dot())`, or `dot -Tsvg`."""
        return as_dot(self.edges_, self._labels())

    def __repr__(self) -> str:
        usual = inspect.signature(type(self).__init__).parameters
        given = []
        for name, value in self.get_params().items():
            if isinstance(value, np.ndarray):
                given.append(f"{name}=<{'×'.join(map(str, value.shape))} {value.dtype}>")
            elif value is not usual[name].default and value != usual[name].default:
                given.append(f"{name}={value!r}")
        return f"Least({', '.join(given)})"

    def __str__(self) -> str:
        if not hasattr(self, "weights_"):
            return repr(self)
        edges, d = self.edges_, self.n_features_in_
        lines = [f"{self!r}: {d} columns, {len(edges)} edges", meaning(self.fit_)]
        lines += [f"  {e.source} → {e.target}  {e.weight:.3g}" for e in edges[:SHOWN]]
        if len(edges) > SHOWN:
            lines.append(f"  … and {len(edges) - SHOWN} weaker ones: see edges_")
        return "\n".join(lines)

    def fit(self, X: Any, y: None = None) -> Least:
        """Learn from rows.

        Args:
            X: (n, d) finite numbers, n ≥ 2: an array; a DataFrame of pandas or polars or an Arrow
                table, whose columns keep their names; scipy.sparse for the sparse backend. Columns
                are centred here. Constant columns keep no edges; integers, decimals and bool are
                taken as float64 (counts cannot overflow).
            y: ignored, for scikit-learn.

        Raises:
            ProblemError: it names the column and the row.
        """
        if hasattr(X, "tocsr"):  # scipy.sparse
            if self.backend != "sparse":
                raise ProblemError("sparse rows need backend='sparse'")
            return self._named(None)._fit_sparse(X)
        X, names = numbers_of(X)
        self._named(names)
        if self.backend == "sparse":
            return self._fit_sparse(X)
        X -= X.mean(0)
        return self._fit(X.T @ X / len(X), len(X), X)

    def fit_gram(self, gram: Any, rows: float) -> Least:
        """Learn from G = XᵀX / n of centred columns.

        Args:
            gram: (d, d) covariance matrix, an array or a DataFrame (`frame.cov()`). Accumulate it
                in float64: float32 sums stop growing at 1.6e7 rows of ones.
            rows: n, for the significance of edges.
        """
        self._named(names_of(gram))
        gram = np.asarray(gram, float)
        if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not len(gram):
            raise ProblemError(f"the Gram matrix must be square and not empty, not {gram.shape}")
        if not np.isfinite(gram).all():
            raise ProblemError("the Gram matrix holds a number that is not finite")
        size = np.abs(gram).max(initial=0)
        if np.abs(gram - gram.T).max(initial=0) > 1e-6 * size or (np.diag(gram) < 0).any():
            raise ProblemError("the Gram matrix must be symmetric with a non-negative diagonal")
        if not rows >= 2:
            raise ProblemError(f"rows must be at least 2, not {rows}")
        if self.backend == "sparse":
            from least.sparse_problem import Gram

            return self._fit_sparse(Gram(gram.astype(np.float32), float(rows)))
        if self.options is not None and self.options.batch is not None:
            raise ProblemError("batches need rows: call fit(X)")
        return self._fit(gram, rows, None)

    def _fit(self, gram: np.ndarray, rows: float, X: np.ndarray | None) -> Least:
        if self.backend != "tf":
            raise ProblemError(f"unknown backend {self.backend!r}: tf or sparse")
        d = len(gram)
        allowed, required = edge_masks(
            d, self.allowed, self.required, self.forbidden, self.tiers, self._names
        )
        scale = np.sqrt(np.diag(gram))
        # A column whose variance is rounding error of its neighbours' scale is constant.
        constant = scale <= 1e-12 * scale.max(initial=0)
        if constant.any():
            allowed = allowed & ~constant[:, None] & ~constant[None, :]
        if self.standardise:
            scale = np.where(constant, 1, scale)
            gram = gram / np.outer(scale, scale)
            X = None if X is None else X / scale
        fit, order = self._learn(gram, rows, X, allowed, required)
        self.n_features_in_ = d
        self.fit_: Any = fit
        self.weights_: Any = fit.weights
        self.order_ = order
        return self

    def _fit_sparse(self, X: Any) -> Least:
        from least import sparse

        whole = isinstance(X, np.ndarray)
        constraints = (self.allowed, self.required, self.forbidden, self.tiers)
        if any(one is not None for one in constraints):
            raise ProblemError(
                "the sparse backend takes no edge masks and no other constraints: use backend='tf'"
            )
        if not (isinstance(self.start, str) and self.start in ("ordering", "random")):
            raise ProblemError("the sparse backend starts from 'ordering' or 'random'")
        if not whole and (self.start != "random" or self.standardise):
            raise ProblemError(
                "sparse rows and Gram matrices need start='random' and standardise=False"
            )
        if self.standardise:
            spread = X.std(0)
            X = (X - X.mean(0)) / np.where(spread > 1e-12 * spread.max(initial=0), spread, 1)
        fit = sparse.fit(
            X, start="ordering" if self.start == "ordering" else "random",
            support="pursuit" if whole else "correlation", options=self.options,
            threshold=self.threshold, refit=self.refit,
        )  # fmt: skip
        self.n_features_in_ = X.shape[1]
        self.fit_ = fit
        self.weights_ = fit.weights
        self.order_ = np.argsort(topological_rank(fit.weights))
        return self

    def _learn(
        self,
        gram: np.ndarray,
        rows: float,
        X: np.ndarray | None,
        allowed: np.ndarray,
        required: np.ndarray,
    ) -> tuple[Fit, np.ndarray]:
        from least import dense  # TensorFlow starts here, not at import of the library

        d = len(gram)
        free = allowed.sum() == d * (d - 1)
        refit = _Refit(gram, rows, None if free else allowed, required, self.significance)
        options = self.options
        initial: np.ndarray | None = None
        order = np.arange(d)
        units = np.ones(d)  # of the columns that LEAST sees
        criterion: Callable[[np.ndarray, np.ndarray], float] = refit.information
        named = self.start if isinstance(self.start, str) else "given"
        if self.noise is not None and named != "likelihood":
            raise ProblemError(f"noise={self.noise!r} needs start='likelihood', not {named!r}")
        if named == "given":
            initial = np.asarray(self.start, float)
        elif named == "ordering":
            order, _ = conditional_variance_order(gram, required if required.any() else None)
            initial = refit.along(order)
            options = options or AFTER_ORDERING
        elif named == "likelihood":
            search = self._order_search(gram, rows, X, None if free else allowed, required)
            found = search.best(seed=(options or Options()).seed)
            order, units = found.order, np.sqrt(np.maximum(found.variances, 1e-300))
            units = np.where(units > 1e-6 * units.max(initial=0), units, units.max(initial=0))
            initial = refit.along(order)
            options = options or AFTER_ORDERING

            def criterion(weights: np.ndarray, order: np.ndarray) -> float:
                score: float = search.of(order).score
                return score

        elif named == "warm":
            initial = getattr(self, "_raw", None)
            if initial is not None and initial.shape != gram.shape:
                raise ProblemError(f"the last fit had {len(initial)} columns, this one has {d}")
        elif named == "random":
            seed = (options or Options()).seed
            density = (options or Options()).density
            initial = dense.glorot(d, density, np.random.default_rng(seed))
        else:
            raise ProblemError(
                f"unknown start {named!r}: ordering, likelihood, random, warm or an array"
            )
        options = options or Options.annealed()

        exchange = units[:, None] / units[None, :]
        fit = dense.fit_gram(
            gram / np.outer(units, units), allowed,
            None if initial is None else initial * exchange,
            options, samples=None if X is None else X / units,
        )  # fmt: skip
        fit = replace(fit, weights=fit.weights / exchange)
        self._raw = fit.weights
        begun, begun_tau = prune(
            np.zeros((d, d)) if initial is None else initial, self.threshold, required
        )
        weights, tau = prune(fit.weights, self.threshold, required)
        ordered = named in ("ordering", "likelihood")
        if self.refit and ordered and _agrees(weights, order):
            weights, tau = begun, begun_tau  # a refit along the same order is the start itself
        elif self.refit:
            # An order needs no strong edges; one threshold for the whole graph would waste them.
            sizes = np.where(required, np.inf, np.abs(fit.weights * exchange))
            learned = np.argsort(topological_rank(cut_cycles(sizes, share=0.05)))
            weights, tau = prune(refit.along(learned), self.threshold, required)
            if ordered and criterion(begun, order) <= criterion(weights, learned):
                weights, tau = begun, begun_tau
        changed = int(((begun != 0) != (weights != 0)).sum())
        fit = replace(fit, weights=weights, start=named, threshold=tau, changed=changed)
        return fit, topological_order((weights != 0) | required)

    def _order_search(
        self,
        gram: np.ndarray,
        rows: float,
        X: np.ndarray | None,
        allowed: np.ndarray | None,
        required: np.ndarray,
    ) -> Any:
        noise = self.noise or "similar"
        if noise not in NOISES:
            raise ProblemError(f"unknown noise {noise!r}: {', '.join(NOISES)}")
        if noise == "nongaussian" and X is None:
            raise ProblemError("noise='nongaussian' needs rows: call fit(X)")
        from least.likelihood import OrderSearch  # numba starts here

        return OrderSearch(
            gram, rows, noise, X, allowed=allowed, required=required,
            significance=self.significance,
        )  # fmt: skip

    def _named(self, names: list[str] | None) -> Least:
        self._names = names
        if names is not None:
            self.feature_names_in_ = np.array(names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def _labels(self) -> list[Any]:
        if not hasattr(self, "weights_"):
            raise NotFittedError("this Least is not fitted yet: call fit(X)")
        return list(range(self.n_features_in_)) if self._names is None else self._names

    @classmethod
    def _parameters(cls) -> list[str]:
        return [p for p in inspect.signature(cls.__init__).parameters if p != "self"]

    def __sklearn_tags__(self) -> Any:
        """Asked for by scikit-learn alone, which is there then."""
        from sklearn.utils import Tags, TargetTags

        tags = Tags(estimator_type=None, target_tags=TargetTags(required=False))
        tags.input_tags.sparse = self.backend == "sparse" and str(self.start) == "random"
        return tags


def _agrees(weights: np.ndarray, order: np.ndarray) -> bool:
    """True when every edge runs forward in the order."""
    place = np.argsort(order)
    sources, targets = np.nonzero(weights)
    return bool((place[sources] < place[targets]).all())


class _Refit:
    """Least squares along an order, under one problem's masks."""

    def __init__(
        self,
        gram: np.ndarray,
        rows: float,
        allowed: np.ndarray | None,
        required: np.ndarray,
        significance: float,
    ) -> None:
        self.gram = gram
        self.rows = rows
        self.allowed = allowed
        self.required = required
        self.significance = significance

    def along(self, order: np.ndarray) -> np.ndarray:
        return regress_along(
            self.gram, order, self.rows, allowed=self.allowed, required=self.required,
            significance=self.significance,
        )  # fmt: skip

    def information(self, weights: np.ndarray, order: np.ndarray) -> float:
        """BIC under equal noise variances: n·d·ln(mean residual variance) + edges·ln n."""
        rest = np.eye(len(weights)) - weights
        left = float(np.sum(rest * (self.gram @ rest))) / len(weights)
        edges = int((weights != 0).sum())
        return float(
            self.rows * len(weights) * np.log(max(left, 1e-300)) + edges * np.log(self.rows)
        )


def prune(weights: np.ndarray, threshold: float, required: np.ndarray) -> tuple[np.ndarray, float]:
    """Cut |W| ≤ τ with the smallest τ ≥ `threshold` that leaves no cycle; required edges stay.

    Returns:
        The cut weights and τ.
    """
    sizes = np.where(required, np.inf, np.abs(weights))
    tau = acyclic_threshold(sizes, threshold)
    return np.where(sizes > tau, weights, 0.0), tau


__all__ = ["Least", "prune"]

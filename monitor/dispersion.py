"""How much the counts of quiet cells scatter, remembered per outcome, order, horizon and volume.

Beside what all cells of an order have in common, a single value may be more restless than the
others; it is believed to be so as far as its own history shows, and never to be calmer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from monitor.attribution import VOLUMES, Scatter
from monitor.significance import scatter
from monitor.window import Horizons, Layout

PRIOR = 0.4
PRIOR_CELLS = (40.0, 100.0, 200.0)
"""How many cells the prior is worth, by order: everything has one cell a snapshot."""
SNAPSHOT_TICKS = 12
"""Half hours, or longer slices, that snapshots of single values and pairs are at least apart."""
CELLS_PER_SNAPSHOT = 64
KEPT = 2048
ORDERS = 3
LEAST_EXPECTED = 0.3
"""Of cells with fewer failures expected, scatter cannot be seen."""
LARGE_CELLS = 50.0
"""How many cells with large counts the scatter of all cells is worth."""
PRIOR_OWN = 4.0
"""Observations of a value that the scatter of all values is worth, if they lie hours apart."""
APART = 0.2
"""By about so much scatter values differ: the calmer all of them seem, the less that says of one.
Small counts seem calm whatever lies behind them."""
LEAST_SHOWN = 5.0
"""Failures that a cell must expect to show its scatter at once: small counts take weeks."""
SHOWN = 4
"""Times its length that history must last to show how a horizon scatters: it fits itself."""
DOUBT = 2.0
"""Standard errors by which a value may be more restless yet than its own history shows."""
OUTLIER = 9.0
"""Of its usual variance a squared deviation counts at most so often: it may be an incident."""
MEMORY_TICKS = 2688.0
"""e-folding time of what single values showed: eight weeks of half hours."""


def _period(span: int, half_hour: int) -> int:
    """Ticks between snapshots of values and pairs of one horizon.

    They hardly overlap, and no period divides a day: every time of day has its turn.
    """
    return max(span, SNAPSHOT_TICKS * half_hour) + half_hour


def _whole_period(span: int, half_hour: int) -> int:
    """Ticks between snapshots of everything: one cell, so all that do not overlap."""
    return span if span < SNAPSHOT_TICKS * half_hour else span + half_hour


def _none(mute: np.ndarray | None, tables: Horizons, outcomes: int) -> np.ndarray:
    if mute is None:
        return np.zeros((outcomes, 1 + max(tables.layout.attributes)), bool)
    return mute


class Dispersion:
    """Samples of (observed, expected) from quiet history, and the scatter fitted to them.

    Args:
        outcomes: how many.
        horizons: in slices; longer ones scatter differently from shorter ones.
        capacity: samples kept per outcome, order and horizon; the oldest leave first.
        counted: outcomes whose failures are counted: they come in blocks, so a large count says
            nothing of how large counts scatter otherwise.
        half_hour: slices in one.
    """

    def __init__(
        self,
        outcomes: int,
        horizons: tuple[int, ...],
        capacity: int = KEPT,
        counted: frozenset[int] = frozenset(),
        half_hour: int = 1,
    ) -> None:
        self._horizons, self._counted, self._half_hour = horizons, counted, half_hour
        shape = (outcomes, len(horizons), ORDERS)
        self._samples = np.zeros((*shape, capacity, 2), np.float32)
        self._count = np.zeros(shape, np.int64)
        self._fitted = np.full((*shape, len(VOLUMES)), PRIOR)
        self._own: dict[int, np.ndarray] = {}
        """Attribute → (3, outcomes, horizons, nodes): weights, weighted excess variances, and
        weighted logarithms of the failures expected."""
        self._ratio: dict[int, np.ndarray] = {}
        """Attribute → (2, outcomes, horizons, nodes): a value's variance over the usual one, and
        its standard error."""

    def observe(
        self, tables: Horizons, ticks: int, busy: np.ndarray, mute: np.ndarray | None = None
    ) -> None:
        """Take a snapshot of the tables, of every horizon that has passed since its last one.

        Args:
            tables: the latest slices.
            ticks: slices seen so far.
            busy: (outcomes,) True where an incident's rows lie in the window: not quiet.
            mute: (outcomes, attributes) True where failure keeps an attribute empty: its values
                have no multiplier, so how far they are from the expected is no scatter.
        """
        mute = _none(mute, tables, len(busy))
        for h, span in enumerate(self._horizons):
            whole = ticks % _whole_period(span, self._half_hour) == 0
            cells_too = ticks % _period(span, self._half_hour) == 0
            for o in (int(o) for o in np.flatnonzero(~busy)):
                observed, expected = tables.observed[h, o], tables.expected[h, o]
                if whole and expected[0] > LEAST_EXPECTED:
                    self._append((o, h, 0), np.array([[observed[0], expected[0]]]))
                if whole:
                    self._watch(o, h, tables.layout, observed, expected)
                if cells_too:
                    self._sample(o, h, tables.layout, observed, expected, mute[o])

    def begin(
        self,
        tables: Horizons,
        observed: np.ndarray,
        expected: np.ndarray,
        outcomes: frozenset[int] | None = None,
        mute: np.ndarray | None = None,
    ) -> None:
        """See how counts scattered in the slices that taught the first baseline.

        Otherwise the first day after learning would believe the prior, which is too careful for
        busy streams.

        Args:
            tables: the latest slices, by the first baseline.
            observed, expected: (slices, outcomes) failures, oldest first.
            outcomes: whose first baseline it is; None is all.
            mute: as `observe` takes it.
        """
        mute = _none(mute, tables, expected.shape[1])
        if outcomes is None:
            outcomes = frozenset(range(expected.shape[1]))
        for h, span in enumerate(self._horizons):
            for end in range(len(observed), span - 1, -span):
                fair = expected[end - span : end].sum(axis=0)
                seen = observed[end - span : end].sum(axis=0)
                for o in outcomes.intersection(np.flatnonzero(fair > LEAST_EXPECTED).tolist()):
                    self._append((o, h, 0), np.array([[seen[o], fair[o]]]))
        rated, longest = outcomes - self._counted, len(observed) // SHOWN
        for o, h, i, by_cell, fair_by_cell in self._large(tables, longest, rated):
            if i % max(SNAPSHOT_TICKS * self._half_hour // (2 * self._horizons[h]), 1) == 0:
                self._sample(o, h, tables.layout, by_cell, fair_by_cell, mute[o])
        self.refit()
        for o, h, _, by_cell, fair_by_cell in self._large(tables, longest, rated):
            self._watch(o, h, tables.layout, by_cell, fair_by_cell)
        self.refit()

    def _large(
        self, tables: Horizons, longest: int, outcomes: frozenset[int]
    ) -> Iterator[tuple[int, int, int, np.ndarray, np.ndarray]]:
        """Past windows of the horizons up to `longest` slices, of some outcomes.

        Yields:
            Outcome, horizon, number of the window, and its tables, in which only cells that expect
            enough to show their scatter at once expect anything.
        """
        for h, span in enumerate(self._horizons):
            for i, (observed, expected) in enumerate(tables.past(span) if span <= longest else ()):
                for o in sorted(outcomes):
                    fair = np.where(expected[o] < LEAST_SHOWN, 0.0, expected[o])
                    yield o, h, i, observed[o], fair

    def _sample(
        self,
        o: int,
        h: int,
        layout: Layout,
        observed: np.ndarray,
        expected: np.ndarray,
        mute: np.ndarray,
    ) -> None:
        """Take single values and pairs of every size into the samples."""
        told = [not any(mute[layout.attributes[p]] for p in block) for block in layout.blocks]
        order_of = np.repeat(
            np.where(told, [len(block) for block in layout.blocks], ORDERS),
            np.diff((*layout.starts, layout.size)),
        )
        for order in range(1, ORDERS):
            cells = np.flatnonzero((order_of == order) & (expected > LEAST_EXPECTED))
            if len(cells) > CELLS_PER_SNAPSHOT:
                # by size, not by number: numbers follow the order in which values came
                by_size = np.lexsort((observed[cells], expected[cells]))
                step = len(cells) / CELLS_PER_SNAPSHOT
                cells = cells[by_size][(np.arange(CELLS_PER_SNAPSHOT) * step).astype(int)]
            self._append((o, h, order), np.column_stack([observed[cells], expected[cells]]))

    def _append(self, key: tuple[int, int, int], pairs: np.ndarray) -> None:
        capacity = self._samples.shape[3]
        at = (self._count[key] + np.arange(len(pairs))) % capacity
        self._samples[key][at] = pairs
        self._count[key] += len(pairs)

    def _watch(
        self, o: int, h: int, layout: Layout, observed: np.ndarray, expected: np.ndarray
    ) -> None:
        """Remember of every single value how far it was from the expected."""
        period = _whole_period(self._horizons[h], self._half_hour)
        fade = np.exp(-period / (MEMORY_TICKS * self._half_hour))
        for position, attribute in enumerate(layout.attributes):
            start, room = layout.starts[1 + position], layout.room[position]
            own = self._room(attribute, room)[:, o, h]
            own *= fade
            e = expected[start : start + room]
            seen = np.flatnonzero(e > LEAST_EXPECTED)
            if not len(seen):
                continue
            e = e[seen]
            deviation = (observed[start + seen] - e) ** 2 / e**2
            # by what is known of the value: by the usual, every day of a restless one is an outlier
            variance = 1 / e + self._usual(o, e[None], h)[0] * self._shown(attribute, o, h, seen)
            excess = np.minimum(deviation, OUTLIER * variance) - 1 / e
            weight = 0.5 / variance**2
            own[0, seen] += weight
            own[1, seen] += weight * excess
            own[2, seen] += weight * np.log(e)

    def _shown(self, attribute: int, o: int, h: int, nodes: np.ndarray) -> np.ndarray:
        """Variance of some values over the usual one, as far as they have shown it."""
        out, ratio = np.ones(len(nodes)), self._ratio.get(attribute)
        if ratio is not None:
            known = nodes < ratio.shape[3]
            out[known] = ratio[0, o, h, nodes[known]]
        return out

    def _usual(self, o: int, expected: np.ndarray, h: int | None = None) -> np.ndarray:
        """s² of single values in general: of one horizon, or of all, (horizons, values)."""
        fitted = self._fitted[o] if h is None else self._fitted[o, h : h + 1]
        return 1 / Scatter(fitted).sizes(expected, np.ones(expected.shape[1], int))

    def _room(self, attribute: int, nodes: int) -> np.ndarray:
        known = self._own.get(attribute)
        outcomes, horizons, _ = self._count.shape
        if known is None:
            known = np.zeros((3, outcomes, horizons, nodes))
        elif known.shape[3] < nodes:
            wider = np.zeros((3, outcomes, horizons, nodes))
            wider[..., : known.shape[3]] = known
            known = wider
        self._own[attribute] = known
        return known

    def refit(self) -> None:
        """Fit the scatter anew from the samples kept."""
        capacity = self._samples.shape[3]
        large = np.sqrt(np.prod(VOLUMES))
        for key in np.ndindex(*self._count.shape):
            samples = self._samples[key][: min(int(self._count[key]), capacity)].astype(float)
            observed, expected = samples.T
            every = scatter(observed, expected, PRIOR, PRIOR_CELLS[key[2]])
            some = (expected >= large) & (key[0] not in self._counted)
            self._fitted[(*key, 0)] = every
            self._fitted[(*key, 1)] = scatter(
                observed[some], expected[some], every, LARGE_CELLS, truncated=True
            )
        apart = np.array(
            [
                _period(span, self._half_hour) / _whole_period(span, self._half_hour)
                for span in self._horizons
            ]
        )
        # neighbours are alike: a dozen half hours in a row say less than a dozen days
        worth = PRIOR_OWN * np.sqrt(apart)[:, None]
        for attribute, (weight, excess, logs) in self._own.items():
            volume = np.exp(logs / np.maximum(weight, 1e-12))
            usual = np.array([self._usual(o, volume[o]) for o in range(len(volume))])
            prior = worth * 0.5 / np.maximum(usual, APART**2) ** 2
            # Upward only: a value that has been calm so far may have its first storm tomorrow.
            ratio = (prior * usual + excess) / (prior + weight) / usual
            error = 1 / np.sqrt(prior + weight) / usual
            self._ratio[attribute] = np.array([np.maximum(ratio, 1.0), error])

    def of(self, outcome: int, layout: Layout | None = None) -> Scatter:
        """The scatter of an outcome.

        Args:
            layout: of the tables it will be asked about; without it single values have no say.
        """
        if layout is None:
            return Scatter(self._fitted[outcome])
        own = np.ones((len(self._horizons), layout.singles))
        error = np.zeros(own.shape)
        for position, attribute in enumerate(layout.attributes):
            ratio = self._ratio.get(attribute)
            if ratio is None:
                continue
            start = layout.starts[1 + position]
            width = min(ratio.shape[3], layout.room[position])
            own[:, start : start + width] = ratio[0, outcome][:, :width]
            error[:, start : start + width] = ratio[1, outcome][:, :width]
        doubt = 0.0 if outcome in self._counted else DOUBT
        return Scatter(self._fitted[outcome], own, doubt * error)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything needed to restore it."""
        arrays: dict[str, np.ndarray] = {
            "samples": self._samples,
            "count": self._count,
            "fitted": self._fitted,
            "spans": np.array(self._horizons),
        }
        arrays |= {f"own{a}": own for a, own in self._own.items()}
        return arrays | {f"ratio{a}": ratio for a, ratio in self._ratio.items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Inverse of `to_arrays`; nothing where the shapes or the horizons have changed."""
        if arrays["fitted"].shape != self._fitted.shape:
            return  # other horizons, or written before volumes were told apart: gathered anew
        # Older stores do not tell; since then the usual horizons of short slices are others.
        unknown = self._horizons if self._half_hour == 1 else ()
        if tuple(arrays.get("spans", unknown)) != self._horizons:
            return
        self._samples = arrays["samples"].copy()
        self._count = arrays["count"].copy()
        self._fitted = arrays["fitted"].copy()
        for prefix, into in (("own", self._own), ("ratio", self._ratio)):
            into.clear()
            for name, array in arrays.items():
                if name.startswith(prefix):
                    into[int(name.removeprefix(prefix))] = array.copy()

"""What went wrong, in four formulas; every constant of the search stands here.

Notation: O failures observed, E expected, of a *cell* (rows that share some values) or of a *leaf*
(rows that no candidate tells apart, within a *band* of time); κ the size of a negative binomial, of
variance E + E²/κ; θ how many times as often as expected the rows of a cause fail.

1. *Expected* (`monitor.baseline`): E of a row is base × time of day × a multiplier per value;
   missing is a value.
2. *Whether*: a cell stands out by Λ(O, E, κ) = O·ln(O/E) − (O+κ)·ln((O+κ)/(E+κ)) nats, less the
   price of having looked for it, against a bar. What else is known to fail is expected here.
3. *What*: of all sets of causes C that stand out, the one that maximises

       J(C) = Σ over leaves [ln L(O | E·Πθ_c) − ln L(O | E)] − Σ price(c)

   where c runs over the causes that hold the leaf, and ln L is negative binomial with the spread
   of an effect over its leaves. "Everything" is the cause that holds every leaf. Told are those
   of C that stand out. θ is one number per cause and band, at least 1; a cause may as
   well add a share of all its rows to what fails (all rows of an error code are those that may come
   to carry it). Steps: add, swap, drop. Where failures are
   counted, what comes in bulk is one act and no sample of its parts: its cause is the value that
   stands out most, and all that failed there is its own.
4. *Until when*: a cause is over when its newest slices prefer θ = 1 over half of its excess.

The price of a candidate is what it takes to name it: ln of the kinds of cells, of the attributes
that make one, of its values, of the horizons; k of n values cost ln n + ln C(n, k).

Sources: the score is the log-likelihood ratio of Kulldorff's scan statistic (1997), over-dispersed;
J is a two-part code (Rissanen 1978), searched as in stepwise regression.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Constants:
    """What the search takes as given."""

    spread: float = 0.3
    """Relative scatter of an effect over the parts of what it hits; between what the leaves of
    simulated outages (0.1) and those of storms over real flights (0.5) show."""
    leaf_spread: float = 0.15
    """The same between neighbouring leaves: mostly chance, so mostly Poisson."""
    least_ratio: float = 1.5
    """Observed over expected that operators would call an anomaly."""
    smoothing: float = 2.0
    """Failures added to both sides when the rest of the traffic is compared."""
    interesting: float = 3.0
    """Nats, before the price, from which a cell is worth a place among the candidates: one chance
    in twenty."""
    near: float = 3.0
    """Nats by which a candidate may fall short of its price: another cause may hide as much."""
    candidates: int = 40
    """Cells weighed against each other at most: they fit the bits of a word."""
    threes: int = 12
    """Of them, cells of three values."""
    members: int = 2
    """Failures of a value that may be one of several: one failure alone says nothing of it."""
    unseen: float = 0.5
    """Failures that a code nobody has seen is expected to have in a window: its first one is no
    surprise."""
    tried: int = 6
    """Candidates of the highest gain that are fitted together with all others at each step."""
    sweeps: int = 5
    """Rounds of fitting all causes together; more change the third digit."""
    gone: float = 3.0
    """Nats by which newest slices must prefer that a cause is over: twenty to one."""


CONSTANTS = Constants()


def log_likelihood(observed: np.ndarray, mean: np.ndarray, size: float) -> np.ndarray:
    """ln of a negative binomial, less what does not depend on its mean."""
    mean = np.maximum(mean, 1e-9)
    return np.asarray(observed * np.log(mean) - (observed + size) * np.log(mean + size))

"""Causes in a table of amounts: each leaf tells for itself how far it is off.

Leaves of one cause deviate alike, quiet ones scatter around none. So a cell's score is a sum
over its leaves of ln p(d | deviation g) − ln p(d | noise): leaves that don't share in the
deviation speak against the cell, and the best-scoring cell is as specific as the data ask. The
remainder rule needs no further threshold here: a parent wins when what it adds deviates too, a
child when what it leaves out doesn't.

Why this is not the search of `monitor.attribution`: there, a leaf's likelihood is that of a number
of failures, which scatters by chance alone and grows certain with size. An amount has no such
chance: a quiet leaf is off by a share of itself, with tails, and how far is read from the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import lgamma, log, pi

import numpy as np

from monitor.localization.cuboids import Cuboid, Lattice
from monitor.localization.leaves import Leaves
from monitor.localization.located import Found
from monitor.localization.noise import Noise, deviations, measure, remeasure

_FINE = np.round(np.arange(-2.0, 2.01, 0.1), 1)
_COARSE = np.array([-1.6, -1.2, -0.8, -0.4, 0.4, 0.8, 1.2, 1.6])
UNEVEN = 0.35
"""Spread of the deviations in a cause that hits its leaves unevenly."""
GRID = np.concatenate([_FINE, _COARSE])
SPREAD = np.concatenate([np.zeros(len(_FINE)), np.full(len(_COARSE), UNEVEN)])
TAIL = 20.0
"""Degrees of freedom of the noise: a little heavier in the tails than a normal distribution."""
STRANGER = 0.003
"""Share of a cause's leaves that behave as if they weren't part of it."""
FREAKS = 0.01
"""Quiet leaves of a table that are off by anything: rarer than any cause."""
LEAST_SPREAD = 0.05
FLOOR = -60.0
CHOICE_OF_DEVIATION = log(5.0)
CHOICE_OF_SPREAD = 2.0
SIBLING = 1.0
"""Price, beside its place, of a further value of a cause that was found: same attributes, alike."""
ALIKE = 0.25
THRESHOLD = 2.0
"""Nats that a cause must have left after its price."""
OTHER_WAY = 3.0
"""Nats asked of a cause that goes against the first one's direction."""
PASSES = 2
SAME_NOISE = 0.03
SAME_CELLS = 0.25
EVERYTHING = 0.95
"""Share of the leaves on one side of none that makes it "everything"."""
LEAST_FOR_EVERYTHING = 10


@dataclass(slots=True)
class _Board:
    """The cells of one cuboid, with their sums for every deviation and their scores."""

    cuboid: Cuboid
    sums: np.ndarray  # (cells, deviations)
    scores: np.ndarray  # (cells,)
    best: np.ndarray  # (cells,) the deviation that gives it
    seen: list[int] = field(default_factory=list)


def find(leaves: Leaves, signs: tuple[int, ...], limit: int, max_order: int | None) -> list[Found]:
    """Causes, in the order they were found.

    Args:
        leaves: the table.
        signs: +1 looks for more than expected, -1 for less.
        limit: at most so many.
        max_order: most conditions of a cause; None is as many as the table allows.
    """
    expected = leaves.expected
    whole = _everything(leaves, signs)
    if whole is not None:
        # what stands out is sought against the level of the others
        live = (leaves.observed > 0) & (expected > 0)
        expected = expected * float(np.median(leaves.observed[live] / expected[live]))
    d, volume = deviations(leaves.observed, expected)
    live = volume > 0
    noise = measure(d[live], volume[live])
    found: list[Found] = []
    lattice = None
    for _ in range(PASSES):
        search = _Search(leaves, d, volume, noise, signs, max_order, lattice)
        found = search.run(limit - (whole is not None))
        if search.uneven:
            # Several even causes may tell it better than one that hits its leaves unevenly.
            other = _Search(leaves, d, volume, noise, signs, max_order, search.lattice, even=True)
            also = other.run(limit - (whole is not None))
            if sum(f.score for f in also) >= sum(f.score for f in found):
                search, found = other, also
        quiet = live & ~search.explained
        again = remeasure(d[quiet], noise, volume[quiet])
        if abs(again.scatter / noise.scatter - 1) < SAME_NOISE:
            break
        # the bounds are loose, so a little other noise does not change which cells are worth it
        near = abs(again.scatter / noise.scatter - 1) < SAME_CELLS
        lattice = search.lattice if near else None
        noise = again
    return found if whole is None else [whole, *found]


def _everything(leaves: Leaves, signs: tuple[int, ...]) -> Found | None:
    """All leaves off to one side: a cause without conditions."""
    d, volume = deviations(leaves.observed, leaves.expected)
    d = d[volume > 0]
    for sign in signs:
        if len(d) >= LEAST_FOR_EVERYTHING and np.mean(np.sign(d) == sign) >= EVERYTHING:
            away = float(np.mean(np.sign(d) == sign))
            score = len(d) * (log(2.0) - _entropy(away)) - log(len(d))
            if score > 0:
                return Found((), score, np.arange(len(leaves)), sign)
    return None


def _entropy(share: float) -> float:
    parts = [p for p in (share, 1 - share) if p > 0]
    return -sum(p * log(p) for p in parts)


class _Search:
    """One pass at a given noise."""

    def __init__(
        self,
        leaves: Leaves,
        d: np.ndarray,
        volume: np.ndarray,
        noise: Noise,
        signs: tuple[int, ...],
        max_order: int | None,
        lattice: Lattice | None,
        *,
        even: bool = False,
    ) -> None:
        self.uneven = False
        """A cause was found that hits its leaves unevenly."""
        self.explained = np.zeros(len(leaves), bool)
        # an uneven cause that lies as near as the noise reaches would only be more noise
        least = np.where(SPREAD > 0, 2 * noise.scatter, max(noise.scatter, 0.1) - 1e-9)
        kept = (np.abs(GRID) >= least) & np.isin(np.sign(GRID), signs)
        if even:
            kept &= SPREAD == 0
        self.grid, self.spread = GRID[kept], SPREAD[kept]
        self.gains = _gains(d, volume, noise, self.grid, self.spread)
        self.lattice = lattice or self._lattice(leaves, signs, max_order)
        self.sign = 0
        self.boards = [self._board(cuboid) for cuboid in self.lattice]

    def _lattice(self, leaves: Leaves, signs: tuple[int, ...], max_order: int | None) -> Lattice:
        sides = [self.gains[:, np.sign(self.grid) == s] for s in signs]
        gain = np.stack([np.maximum(s.max(axis=1, initial=0.0), 0.0) for s in sides], axis=1)
        return Lattice(leaves, gain, np.ones(len(leaves)), lambda count: count > 0, max_order)

    def run(self, limit: int) -> list[Found]:
        """Take the best cell, put its leaves aside, look again."""
        found: list[Found] = []
        while len(found) < limit and len(self.grid):
            best = max(
                (float(board.scores.max()) for board in self.boards if len(board.scores)),
                default=0.0,
            )
            if best <= THRESHOLD:
                break
            board = next(  # the first of equals, so that rounding decides nothing
                b for b in self.boards if len(b.scores) and b.scores.max() >= best - 1e-9
            )
            cell = int(np.argmax(board.scores >= best - 1e-9))
            rows = np.flatnonzero((board.cuboid.cell_of == cell) & ~self.explained)
            deviation = int(board.best[cell])
            conditions = self.lattice.conditions(board.cuboid, cell)
            sign = int(np.sign(self.grid[deviation]))
            self.uneven |= bool(self.spread[deviation] > 0)
            cause = Found(conditions, float(board.scores[cell]), rows, sign)
            cause.rivals = self.lattice.rivals(cause, [(b.cuboid, b.scores) for b in self.boards])
            found.append(cause)
            self._explain(rows, board, deviation, sign)
        return found

    def _board(self, cuboid: Cuboid) -> _Board:
        board = _Board(cuboid, cuboid.sums(self.gains), np.zeros(0), np.zeros(0, int))
        board.scores = np.zeros(len(cuboid.first))
        board.best = np.zeros(len(cuboid.first), np.int64)
        self._score(board, np.arange(len(cuboid.first)))
        return board

    def _score(self, board: _Board, cells: np.ndarray) -> None:
        if not len(cells) or not len(self.grid):
            return
        scores = board.sums[cells] - self._price(board)
        board.best[cells] = scores.argmax(axis=1)
        board.scores[cells] = scores.max(axis=1)

    def _price(self, board: _Board) -> np.ndarray:
        """What a cell pays, by deviation: its place, its cuboid, the deviation."""
        cuboid = board.cuboid
        whole = cuboid.place + cuboid.choices + CHOICE_OF_DEVIATION
        price = np.where(self.spread > 0, whole + CHOICE_OF_SPREAD, whole)
        for deviation in board.seen:
            near = np.abs(self.grid - self.grid[deviation]) < ALIKE
            price[near] = cuboid.place + SIBLING
        if self.sign:
            price = price + np.where(np.sign(self.grid) == self.sign, 0.0, OTHER_WAY)
        return price

    def _explain(self, rows: np.ndarray, board: _Board, deviation: int, sign: int) -> None:
        self.explained[rows] = True
        first = not self.sign
        self.sign = self.sign or sign
        board.seen.append(deviation)
        gone = -self.gains[rows]
        for other in self.boards:
            cell = other.cuboid.cell_of[rows]
            touched = np.unique(cell[cell >= 0])
            if len(touched):
                # an emptied cell keeps no dust of rounding
                change = other.cuboid.sums(gone, rows)
                other.sums[touched] += change[touched]
            if first or other is board:
                touched = np.arange(len(other.scores))
            self._score(other, touched)


def _gains(
    d: np.ndarray, volume: np.ndarray, noise: Noise, grid: np.ndarray, uneven: np.ndarray
) -> np.ndarray:
    """(n, grid): what each leaf adds to the score of a cell that deviates so."""
    live = np.flatnonzero(volume > 0)
    spread = noise.of(volume[live])
    scale = lgamma((TAIL + 1) / 2) - lgamma(TAIL / 2) - 0.5 * log(TAIL * pi)
    quiet = np.exp(scale - (TAIL + 1) / 2 * np.log1p((d[live] / spread) ** 2 / TAIL)) / spread
    width = np.maximum(np.hypot(spread[:, None], uneven), LEAST_SPREAD).astype(np.float32)
    height = (1 - STRANGER) / np.sqrt(2 * pi) / (quiet + FREAKS / 4 / len(d))
    # single precision: half the time, and far below what a nat is worth
    z = (d[live, None] - grid).astype(np.float32) / width
    z = np.exp(np.maximum(-0.5 * z**2, FLOOR, dtype=np.float32))
    # uneven as it may be, no cause pulls to both sides
    z[(d[live, None] * np.sign(grid) < -2 * spread[:, None]) & (uneven > 0)] = 0.0
    gains = np.zeros((len(d), len(grid)))
    gains[live] = np.log(height[:, None].astype(np.float32) / width * z + np.float32(STRANGER))
    return gains

"""What an incident's page shows beside the verdict: its course, its part of the graph, examples.

Nothing here decides anything. It is gathered at the tick that knows it, because the slices, the
graph and the baseline of that hour are gone when somebody looks a month later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from monitor.domain import (
    MISSING,
    OTHER,
    Cause,
    Edge,
    Incident,
    Settings,
    State,
    datetime64,
    utc,
)
from monitor.encoding import Coded
from monitor.naming import Naming
from monitor.vocabulary import MISSING_TEXT, OTHER_TEXT

MOST_NODES = 16
"""Nodes in the picture of one incident."""
MOST_CHANGES = 20
"""Edges that came, and edges that went, told of one incident."""
MOST_EXAMPLES = 10
MOST_NEW = 5
"""Values, and links, that were new just before an incident."""
JUST_BEFORE = timedelta(hours=2)
"""So long before an incident began, what is new may have to do with it."""
MOST_GONE = 2000
"""Edges remembered after they went; the newest."""
_MOST_HOPS = 4


@dataclass(frozen=True, slots=True)
class Point:
    """One slice of a cause."""

    start: datetime
    rows: int
    observed: int
    """Failures."""
    expected: float
    """Failures that the baseline expected of these rows when they arrived."""


@dataclass(frozen=True, slots=True)
class Link:
    """A learned edge, and since when it is there without a break."""

    source: str
    target: str
    weight: float
    since: datetime | None
    """End of the slice at whose tick it appeared; None: before anybody looked."""


@dataclass(frozen=True, slots=True)
class Gone:
    """An edge that the graph has lost."""

    source: str
    target: str
    weight: float
    """The last it had."""
    at: datetime


@dataclass(frozen=True, slots=True)
class NewValue:
    """A value that the log did not have, or hardly had, before."""

    node: str
    """``attribute=value``."""
    at: datetime
    """Start of the slice in which it became frequent enough to be a node."""


@dataclass(frozen=True, slots=True)
class Example:
    """Failing rows that agree in the columns shown."""

    values: tuple[str, ...]
    rows: int
    newest: datetime
    """Start of the last slice that has one."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """An incident as the tick saw it at which its score was highest."""

    at: datetime
    links: tuple[Link, ...] = ()
    """The learned edges between the cause and the outcome."""
    came: tuple[Link, ...] = ()
    """Edges at these nodes that appeared within the window T, strongest first."""
    went: tuple[Gone, ...] = ()
    """Edges at these nodes that were lost within T."""
    columns: tuple[str, ...] = ()
    """Attributes that the configuration allows to be shown in examples."""
    examples: tuple[Example, ...] = ()
    new_values: tuple[NewValue, ...] = ()
    """Values that came just before it began, those of attributes with few values first."""
    new_links: tuple[Link, ...] = ()
    """Of `came`, the edges at the cause's own values that appeared just before it began."""


@dataclass(slots=True)
class Material:
    """What some ticks gathered and nobody has stored yet."""

    series: dict[str, dict[datetime, Point]] = field(default_factory=dict)
    """Incident → slice → point."""
    anew: set[str] = field(default_factory=set)
    """Incidents whose older points tell of another cause."""
    totals: dict[str, dict[datetime, Point]] = field(default_factory=dict)
    """Outcome → slice → point, of all rows."""
    exhibits: dict[str, Exhibit] = field(default_factory=dict)

    def add(self, later: Material) -> None:
        """Take in what a later tick gathered."""
        for name in later.anew:
            self.series.pop(name, None)
        self.anew |= later.anew
        for mine, theirs in ((self.series, later.series), (self.totals, later.totals)):
            for name, points in theirs.items():
                mine.setdefault(name, {}).update(points)
        self.exhibits |= later.exhibits


class Exhibition:
    """Gathers tick by tick; remembers the age of edges and which causes it follows.

    Args:
        settings: of the tick.
        columns: attributes whose values may be shown in examples; others never are.
    """

    def __init__(self, settings: Settings, columns: Sequence[str] = ()) -> None:
        self._settings = settings
        names = settings.schema.names
        self._columns = tuple((names.index(c), c) for c in columns if c in names)
        self._since: dict[tuple[str, str], datetime | None] | None = None
        self._weights: dict[tuple[str, str], float] = {}
        self._gone: dict[tuple[str, str], Gone] = {}
        self._followed: dict[str, Cause] = {}

    def gather(
        self,
        naming: Naming,
        window: Sequence[Coded],
        rewritten: Iterable[Coded],
        incidents: Iterable[Incident],
        edges: Sequence[Edge],
        earlier: Callable[[datetime, datetime], Iterable[Coded]],
    ) -> Material:
        """What this tick has to show.

        Args:
            naming: texts behind codes.
            window: slices of T, oldest first; the newest is that of the tick.
            rewritten: slices new or changed since the last tick.
            incidents: all that the tick knows.
            edges: the learned graph.
            earlier: slices that start in [from, to), for the reference window of a new incident.
        """
        start = utc(window[-1].slice.start)
        at = start + self._settings.window.slice_length
        self._age(edges, at)
        changed = list(rewritten)
        material = self._totals(changed)
        live = [i for i in incidents if i.state is not State.RESOLVED or i.updated_at == at]
        reference: list[Coded] | None = None
        for incident in live:
            cause, o = incident.finding.cause, self._outcome(incident)
            whole = self._followed.get(incident.id) != cause
            slices = changed
            if whole:
                if reference is None:
                    first = utc(window[0].slice.start)
                    reference = list(earlier(first - self._settings.window.length, first))
                slices = [*reference, *window]
                material.anew.add(incident.id)
            material.series[incident.id] = _points(slices, _asked(cause, naming), o)
            if incident.finding == incident.latest and incident.last_seen_at == at:
                material.exhibits[incident.id] = self._exhibit(incident, naming, window, edges, at)
        self._followed = {i.id: i.finding.cause for i in live if i.state is not State.RESOLVED}
        return material

    def amend(
        self, naming: Naming, changed: Sequence[Coded], incidents: Iterable[Incident]
    ) -> Material:
        """The points of older slices into which late rows were folded.

        Args:
            naming: texts behind codes.
            changed: these slices, anew.
            incidents: all that the last tick knew.
        """
        material = self._totals(changed)
        for incident in incidents:
            cause = self._followed.get(incident.id)
            if cause is not None:
                asked, o = _asked(cause, naming), self._outcome(incident)
                material.series[incident.id] = _points(changed, asked, o)
        return material

    def _totals(self, changed: Sequence[Coded]) -> Material:
        outcomes = self._settings.schema.outcomes
        return Material(totals={name: _points(changed, None, o) for o, name in enumerate(outcomes)})

    def _outcome(self, incident: Incident) -> int:
        return self._settings.schema.outcomes.index(incident.finding.outcome)

    # --- the graph --------------------------------------------------------------------------

    def _age(self, edges: Sequence[Edge], at: datetime) -> None:
        now = {(edge.source, edge.target): edge.weight for edge in edges}
        known = self._since
        if known is None:
            self._since = dict.fromkeys(now)
        else:
            self._since = {pair: known.get(pair, at) for pair in now}
            for pair in known.keys() - now.keys():
                self._gone[pair] = Gone(*pair, self._weights.get(pair, 0.0), at)
        oldest = at - self._settings.window.length
        kept = [g for p, g in self._gone.items() if p not in now and g.at > oldest]
        kept.sort(key=lambda g: (g.at, g.source, g.target))
        self._gone = {(g.source, g.target): g for g in kept[-MOST_GONE:]}
        self._weights = now

    def _exhibit(
        self,
        incident: Incident,
        naming: Naming,
        window: Sequence[Coded],
        edges: Sequence[Edge],
        at: datetime,
    ) -> Exhibit:
        finding = incident.finding
        roots = {f"{name}={value}" for name, values in finding.cause.selector for value in values}
        nodes = neighbourhood(roots, finding.path, edges)
        since = self._since or {}
        fresh = at - self._settings.window.length
        links = [Link(e.source, e.target, e.weight, since[e.source, e.target]) for e in edges]
        near = [link for link in links if link.source in nodes or link.target in nodes]
        came = [link for link in near if link.since is not None and link.since > fresh]
        went = [g for g in self._gone.values() if g.source in nodes or g.target in nodes]
        came.sort(key=_strongest)
        went.sort(key=_strongest)
        eve = finding.began - JUST_BEFORE
        mine = [c for c in came if roots & {c.source, c.target}]
        new_links = [c for c in mine if c.since is not None and eve < c.since <= finding.began]
        return Exhibit(
            at=at,
            links=tuple(n for n in near if n.source in nodes and n.target in nodes),
            came=tuple(came[:MOST_CHANGES]),
            went=tuple(went[:MOST_CHANGES]),
            columns=tuple(name for _, name in self._columns),
            examples=self._examples(incident, naming, window),
            new_values=self._new_values(eve, finding.began, naming),
            new_links=tuple(new_links[:MOST_NEW]),
        )

    def _new_values(self, eve: datetime, began: datetime, naming: Naming) -> tuple[NewValue, ...]:
        """Attributes with few values first: a new release says more than a new customer."""
        attributes = [
            (len(naming.nodes.codes[a]), a)
            for a, attribute in enumerate(self._settings.schema.attributes)
            if not attribute.is_code  # a new code is a symptom
        ]
        names, text = naming.schema.names, naming.vocabulary.text
        found = [
            NewValue(f"{names[a]}={text(a, code)}", utc(at))
            for _, a in sorted(attributes)
            for code, at in naming.nodes.born(a, datetime64(eve), datetime64(began))
        ]
        return tuple(found[:MOST_NEW])

    def _examples(
        self, incident: Incident, naming: Naming, window: Sequence[Coded]
    ) -> tuple[Example, ...]:
        if not self._columns:
            return ()
        o, asked = self._outcome(incident), _asked(incident.finding.cause, naming)
        span = round(incident.finding.horizon / self._settings.window.slice_length)
        shown = [a for a, _ in self._columns]
        counts: dict[tuple[int, ...], tuple[int, datetime]] = {}
        for coded in window[-max(span, 1) :]:
            piece = coded.slice
            hit = _rows(coded, asked) & piece.failed[:, o] & (piece.weight > 0)
            if not hit.any():
                continue
            distinct, place = np.unique(piece.values[hit][:, shown], axis=0, return_inverse=True)
            rows = np.bincount(place.ravel(), piece.weight[hit], len(distinct)).astype(int)
            for codes, more in zip(distinct.tolist(), rows.tolist(), strict=True):
                before, _ = counts.get(tuple(codes), (0, utc(piece.start)))
                counts[tuple(codes)] = before + more, utc(piece.start)
        best = sorted(counts.items(), key=lambda item: (-item[1][0], item[0]))[:MOST_EXAMPLES]
        text = naming.vocabulary.text
        return tuple(
            Example(tuple(text(a, c) for a, c in zip(shown, codes, strict=True)), rows, newest)
            for codes, (rows, newest) in best
        )

    # --- between two runs -------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """What a restart needs beside the open incidents."""
        since = self._since
        return {
            "since": None
            if since is None
            else [[s, t, at and at.isoformat()] for (s, t), at in sorted(since.items())],
            "gone": [[g.source, g.target, g.weight, g.at.isoformat()] for g in self._gone.values()],
        }

    def restore(
        self, saved: Mapping[str, Any], incidents: Iterable[Incident], edges: Sequence[Edge]
    ) -> None:
        """Go on from `to_json`.

        Args:
            saved: empty when an older release wrote the store.
            incidents: those that were followed.
            edges: the graph of the last tick.
        """
        since = saved.get("since")
        if since is not None:
            self._since = {
                (s, t): None if at is None else datetime.fromisoformat(at) for s, t, at in since
            }
        gone = [Gone(s, t, w, datetime.fromisoformat(at)) for s, t, w, at in saved.get("gone", ())]
        self._gone = {(g.source, g.target): g for g in gone}
        self._weights = {(edge.source, edge.target): edge.weight for edge in edges}
        if saved:
            self._followed = {
                i.id: i.finding.cause for i in incidents if i.state is not State.RESOLVED
            }


def _strongest(change: Link | Gone) -> tuple[float, str, str]:
    return -abs(change.weight), change.source, change.target


def neighbourhood(roots: set[str], path: Sequence[str], edges: Sequence[Edge]) -> set[str]:
    """The nodes to draw: the path, and what else lies between the roots and the outcome.

    Args:
        roots: nodes of the cause.
        path: root … outcome.
        edges: the learned graph.

    Returns:
        At most `MOST_NODES`, those on the strongest connections first.
    """
    if not path:
        return set()
    nodes = [*dict.fromkeys([path[-1], *path, *sorted(roots)])][:MOST_NODES]
    down = _reach({r for r in roots if r in nodes}, edges, forward=True)
    up = _reach({path[-1]}, edges, forward=False)
    between = (down.keys() & up.keys()) - set(nodes)
    ranked = sorted(between, key=lambda name: (-min(down[name], up[name]), name))
    return {*nodes, *ranked[: MOST_NODES - len(nodes)]}


def _reach(starts: set[str], edges: Sequence[Edge], forward: bool) -> dict[str, float]:
    """Node → the weakest edge on its strongest way from `starts`, in a few hops."""
    found: dict[str, float] = {}
    wave = dict.fromkeys(starts, float("inf"))
    for _ in range(_MOST_HOPS):
        following: dict[str, float] = {}
        for edge in edges:
            one, other = (edge.source, edge.target) if forward else (edge.target, edge.source)
            if one in wave and other not in starts:
                strength = min(wave[one], abs(edge.weight))
                if strength > max(found.get(other, 0.0), following.get(other, 0.0)):
                    following[other] = strength
        found |= following
        wave = following
    return found


# --- rows of a cause ----------------------------------------------------------------------------

_Asked = list[tuple[int, np.ndarray, bool]]
"""Attribute, codes of its values, and whether rare values (`(other)`) are among them."""


def _asked(cause: Cause, naming: Naming) -> _Asked:
    asked: _Asked = []
    for name, values in cause.selector:
        a = naming.schema.names.index(name)
        codes = [
            MISSING if value == MISSING_TEXT else naming.vocabulary.code(a, value)
            for value in values
        ]
        known = np.array([c for c in codes if c is not None and c != OTHER], np.int64)
        asked.append((a, known, OTHER_TEXT in values or len(known) < len(values)))
    return asked


def _rows(coded: Coded, asked: _Asked | None) -> np.ndarray:
    """(m,) rows that the cause selects; None is everything."""
    hit = np.ones(len(coded.slice.weight), bool)
    for a, codes, others in asked or ():
        column = coded.slice.values[:, a]
        mine = column == codes[0] if len(codes) == 1 else np.isin(column, codes)
        if others:
            mine = mine | ((coded.local[:, a] == OTHER) & (column != MISSING))
        hit &= mine
    return hit


def _points(slices: Iterable[Coded], asked: _Asked | None, o: int) -> dict[datetime, Point]:
    points = (point(coded, asked, o) for coded in slices)
    return {p.start: p for p in points}


def point(coded: Coded, asked: _Asked | None, o: int) -> Point:
    """Rows, failures and expected failures of one outcome among the cause's rows of a slice."""
    piece, hit = coded.slice, _rows(coded, asked)
    return Point(
        start=utc(piece.start),
        rows=int(piece.weight[hit].sum()),
        observed=int(piece.weight[hit & piece.failed[:, o]].sum()),
        expected=float(coded.exposure[hit] @ coded.expected[hit, o]),
    )

"""A store written under one schema, read under another: what still means the same is kept.

Stored rows name their columns, so they are read by name: an attribute that is new is missing in
them, one that is gone is left out, and of an outcome that is new, or whose `when` has changed,
they say nothing. Such an outcome learns from its own start, while the others go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np

from monitor.domain import MISSING, Attribute, Incident, Schema, Settings
from monitor.slices import Slice
from monitor.window import QUANTUM

_SUPPORT = ("min_count", "max_values")


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of stored rows are."""

    attributes: tuple[str, ...]
    outcomes: tuple[str, ...]
    """Name and `when` of each: under another `when` it is another outcome."""

    @property
    def width(self) -> tuple[int, int]:
        """Attributes and outcomes."""
        return len(self.attributes), len(self.outcomes)

    def without(self, unknown: frozenset[int]) -> Columns:
        """The same; outcomes of which the rows say nothing lose their names."""
        named = ("" if o in unknown else name for o, name in enumerate(self.outcomes))
        return Columns(self.attributes, tuple(named))

    def to_json(self) -> list[list[str]]:
        """Inverse of `from_json`."""
        return [list(self.attributes), list(self.outcomes)]

    @staticmethod
    def from_json(document: Any) -> Columns:
        """Raises ValueError or TypeError where that is none."""
        attributes, outcomes = document
        return Columns(tuple(attributes), tuple(outcomes))


@dataclass(frozen=True, slots=True)
class Stored:
    """A slice as it was scored on arrival."""

    slice: Slice
    expected: np.ndarray  # (m, outcomes)
    columns: Columns | None = None
    """None: it was written before slices named their columns."""
    unknown: frozenset[int] = frozenset()
    """Outcomes of which its rows say nothing."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The settings that say what stored numbers mean."""

    schema: Schema
    whens: Mapping[str, str]
    """Outcome → its `when`; what is left out is known by name only."""
    window: Mapping[str, str]
    """Setting → value, as texts."""

    @staticmethod
    def of(settings: Settings, whens: Mapping[str, str]) -> Meaning:
        """That of the settings."""
        return Meaning(
            settings.schema,
            {name: " ".join(text.split()) for name, text in whens.items()},
            {name: str(value) for name, value in asdict(settings.window).items()},
        )

    @property
    def columns(self) -> Columns:
        """Of the rows that are written under these settings."""
        return Columns(
            self.schema.names,
            tuple(f"{o}: {self.whens[o]}" if o in self.whens else o for o in self.schema.outcomes),
        )

    def to_json(self) -> dict[str, Any]:
        """Inverse of `from_json`."""
        return {
            "schema": asdict(self.schema),
            "whens": dict(self.whens),
            "window": dict(self.window),
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Meaning:
        """What an earlier start of the monitor wrote down."""
        schema = document["schema"]
        return Meaning(
            Schema(
                tuple(Attribute(**attribute) for attribute in schema["attributes"]),
                tuple(schema["outcomes"]),
                tuple(schema["counted"]),
            ),
            document["whens"],
            document["window"],
        )


@dataclass(frozen=True, slots=True)
class Evolution:
    """From one meaning to another."""

    attributes: tuple[int | None, ...] = ()
    """For each attribute where it was; None: it is new."""
    outcomes: tuple[int | None, ...] = ()
    """Likewise; None: it is new, or another one by its `when`."""
    anew: frozenset[int] = frozenset()
    """Outcomes that must be judged anew, though their failures may be known."""
    refit: bool = False
    """The fitted baseline means something else."""
    told: tuple[str, ...] = ()
    """What changes, and what it costs, in sentences."""
    gone: frozenset[str] = field(default_factory=frozenset)
    """Names of attributes and outcomes whose incidents cannot go on."""

    def ends(self, incident: Incident) -> bool:
        """True when an incident is about something that is no longer there."""
        named = {name for cause in incident.causes for name, _ in cause.selector}
        return not self.gone.isdisjoint(named | {incident.finding.outcome})


def evolution(before: Meaning, after: Meaning, learning: timedelta) -> Evolution:
    """What changes from one start of the monitor to the next.

    Args:
        before: when the store was written.
        after: as configured now.
        learning: history that an outcome needs before its first verdict.
    """
    old, new = before.schema, after.schema
    old_keys, new_keys = before.columns.outcomes, after.columns.outcomes
    told: list[str] = []
    gone: set[str] = set()
    wait = f"there is no verdict on it before it has learned for {learning}"
    for name in new.names:
        if name not in old.names:
            told.append(f"attribute `{name}` is new: missing in the history, until rows carry it")
    for name in old.names:
        if name not in new.names:
            told.append(f"attribute `{name}` is gone: the history forgets it, rows alike are one")
            gone.add(name)
    for name, key in zip(new.outcomes, new_keys, strict=True):
        if name not in old.outcomes:
            told.append(f"outcome `{name}` is new: {wait}; the others go on")
        elif key not in old_keys:
            told.append(
                f"outcome `{name}` means something else (`when` was {before.whens.get(name)}, "
                f"is {after.whens.get(name)}): {wait}; the others go on"
            )
            gone.add(name)
        elif (name in old.counted) != (name in new.counted):
            told.append(f"outcome `{name}` is judged otherwise: by the history it has")
    for name in old.outcomes:
        if name not in new.outcomes:
            told.append(f"outcome `{name}` is gone: so is what was learned of it")
            gone.add(name)
    roles = {a.name: (a.tier, a.is_code) for a in old.attributes}
    for attribute in new.attributes:
        if roles.get(attribute.name, role := (attribute.tier, attribute.is_code)) != role:
            told.append(f"attribute `{attribute.name}` has another tier or role: nothing is lost")
    told += [
        f"`window.{name}` was {before.window[name]}, is {value}: "
        + ("values told apart stay so" if name in _SUPPORT else "nothing is lost")
        for name, value in after.window.items()
        if before.window.get(name, value) != value
    ]
    same_schema = old == new and old_keys == new_keys
    return Evolution(
        tuple(old.names.index(n) if n in old.names else None for n in new.names),
        tuple(old_keys.index(k) if k in old_keys else None for k in new_keys),
        frozenset(
            o
            for o, (name, key) in enumerate(zip(new.outcomes, new_keys, strict=True))
            if key not in old_keys or (name in old.counted) != (name in new.counted)
        ),
        not same_schema or before.window.get("zone") != after.window.get("zone"),
        tuple(told),
        frozenset(gone),
    )


def conform(piece: Slice, expected: np.ndarray, have: Columns, want: Columns) -> Stored:
    """A stored slice as rows of other columns.

    Rows that differed in a lost column only become one; their expectations add up.

    Args:
        piece: as stored.
        expected: (m, outcomes) failures per event.
        have: what its columns are.
        want: what they are to be.
    """
    unknown = frozenset(o for o, key in enumerate(want.outcomes) if key not in have.outcomes)
    if have == want:
        return Stored(piece, expected, want)
    rows, carriers = len(piece.weight), piece.weight == 0
    values = np.full((rows, len(want.attributes)), MISSING, np.int32)
    for a, name in enumerate(want.attributes):
        if name in have.attributes:
            values[:, a] = piece.values[:, have.attributes.index(name)]
    failed = np.zeros((rows, len(want.outcomes)), bool)
    fair = np.zeros((rows, len(want.outcomes)))
    fair[~carriers] = QUANTUM
    for o, key in enumerate(want.outcomes):
        if o not in unknown:
            failed[:, o] = piece.failed[:, have.outcomes.index(key)]
            fair[:, o] = expected[:, have.outcomes.index(key)]
    kept = ~carriers | fair.any(axis=1)  # the carriers of an outcome that is gone go with it
    out = Slice(piece.start, values[kept], failed[kept], piece.weight[kept])
    if {*have.attributes, *have.outcomes} <= {*want.attributes, *want.outcomes, ""}:
        return Stored(out, fair[kept], want, unknown)
    out, fair = _merged(out, fair[kept])
    return Stored(out, fair, want, unknown)


def _merged(piece: Slice, expected: np.ndarray) -> tuple[Slice, np.ndarray]:
    """Equal rows as one, in their fixed order; carriers stay behind them."""
    if not len(piece.weight):
        return piece, expected
    parts = [piece.weight == 0, piece.values, piece.failed[:, ::-1]]  # sorted as by `aggregate`
    key = np.column_stack(parts).astype(np.int64)
    _, first, place = np.unique(key, axis=0, return_index=True, return_inverse=True)
    place = place.ravel()
    weight = np.bincount(place, piece.weight, len(first)).astype(np.int64)
    exposure = np.maximum(piece.weight, 1)
    total = np.column_stack(
        [np.bincount(place, exposure * column, len(first)) for column in expected.T]
    )
    fair = np.round(total / np.maximum(weight, 1)[:, None] / QUANTUM) * QUANTUM
    fair[weight > 0] = np.maximum(fair[weight > 0], QUANTUM)
    return Slice(piece.start, piece.values[first], piece.failed[first], weight), fair


def evolved(
    arrays: Mapping[str, np.ndarray], fresh: Mapping[str, np.ndarray], change: Evolution
) -> dict[str, np.ndarray]:
    """The arrays of a snapshot, for a monitor of another schema.

    Which values are nodes is kept, and how their failures scatter. The baseline is left out, for
    the history fits it anew, and so is the learner's start.

    Args:
        arrays: of the snapshot.
        fresh: of a monitor that has seen nothing.
        change: from one to the other.
    """
    out = dict(fresh)
    old_of = {a: old for a, old in enumerate(change.attributes) if old is not None}
    for a, old in old_of.items():
        for part in ("counts", "codes", "since"):
            out[f"nodes.{part}{a}"] = arrays[f"nodes.{part}{old}"]
    if "nodes.missing" in arrays:
        out["nodes.missing"] = fresh["nodes.missing"].copy()
        out["nodes.missing"][:, list(old_of)] = arrays["nodes.missing"][:, list(old_of.values())]
    stays = {
        o: old for o, old in enumerate(change.outcomes) if old is not None and o not in change.anew
    }
    known, old_outcomes = list(stays), list(stays.values())
    if arrays.get("arrivals", fresh["arrivals"]).shape[1:] == fresh["arrivals"].shape[1:]:
        out["arrivals"] = fresh["arrivals"].copy()
        out["arrivals"][known] = arrays.get("arrivals", fresh["arrivals"])[old_outcomes]
    scatter = {part: arrays[f"dispersion.{part}"] for part in ("samples", "count", "fitted")}
    spans = arrays.get("dispersion.spans")
    if scatter["fitted"].shape[1:] != fresh["dispersion.fitted"].shape[1:] or (
        spans is not None and (spans != fresh["dispersion.spans"]).any()
    ):
        return out  # other horizons: gathered anew
    if spans is None:
        del out["dispersion.spans"]
    for part, before in scatter.items():
        out[f"dispersion.{part}"] = fresh[f"dispersion.{part}"].copy()
        out[f"dispersion.{part}"][known] = before[old_outcomes]
    for part in ("own", "ratio"):
        for a, old in old_of.items():
            name = f"dispersion.{part}{old}"
            if name in arrays:
                before = arrays[name]
                after = np.zeros((len(before), len(change.outcomes), *before.shape[2:]))
                if part == "ratio":
                    after[0] = 1.0  # no more restless than the others
                after[:, known] = before[:, old_outcomes]
                out[f"dispersion.{part}{a}"] = after
    return out


def translated_masks(masks: Iterable[list[Any]], change: Evolution) -> list[list[Any]]:
    """Masks of a snapshot by the new positions; what is about something gone is left out."""
    attributes = {old: a for a, old in enumerate(change.attributes) if old is not None}
    outcomes = {old: o for o, old in enumerate(change.outcomes) if old is not None}
    return [
        [outcomes[outcome], [[attributes[a], code] for a, code in conditions], first, last]
        for outcome, conditions, first, last in masks
        if outcome in outcomes and all(a in attributes for a, _ in conditions)
    ]

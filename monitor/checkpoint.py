"""The monitor's memory ↔ plain arrays and a plain document, so that a restart goes on exactly.

Running sums are not stored: they are exact, so adding the stored slices again gives them back
to the last bit. What cannot be rebuilt from slices is: which value became a node when, the fitted
baseline, the scatter samples, the warm start, masks and incidents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from monitor.baseline import Baseline, CodeShares, Mask
from monitor.counts import Usual
from monitor.diagnosis import Monitor
from monitor.domain import Incident
from monitor.encoding import Coded, Nodes
from monitor.evolution import Evolution, Stored, evolved, translated_masks
from monitor.naming import Naming


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The part of the memory that slices do not hold."""

    arrays: Mapping[str, np.ndarray]
    document: Mapping[str, Any]
    """JSON-able."""
    incidents: tuple[Incident, ...]
    """Open or recently resolved."""


def snapshot(monitor: Monitor) -> Snapshot:
    """What must be stored with the slices after a tick."""
    arrays: dict[str, np.ndarray] = {}
    _put(arrays, "nodes", monitor.nodes.to_arrays())
    _put(arrays, "dispersion", monitor.dispersion.to_arrays())
    _put(arrays, "bar", monitor.bar.to_arrays())
    arrays["arrivals"] = monitor.arrivals
    if monitor.learner is not None:
        _put(arrays, "learner", monitor.learner.to_arrays())
    baseline = monitor.baseline
    if baseline is not None:
        arrays |= {
            "baseline.base": baseline.base,
            "baseline.day": baseline.day,
            "baseline.week": baseline.week,
            "baseline.kept_empty": baseline.kept_empty,
            "baseline.usual.outcome": baseline.usual.outcome,
            "baseline.usual.values": baseline.usual.values,
            "baseline.usual.mean": baseline.usual.mean,
            "baseline.usual.week": baseline.usual.week,
            "baseline.fitted_at": np.array(baseline.fitted_at),
        }
        for o, codes in enumerate(baseline.codes):
            arrays[f"baseline.codes{o}"] = codes.share
            arrays[f"baseline.code_failures{o}"] = codes.failures
            arrays[f"baseline.parent{o}"] = np.array(-1 if codes.parent is None else codes.parent)
        for a, multiplier in enumerate(baseline.multipliers):
            arrays[f"baseline.multipliers{a}"] = multiplier
    document = {
        "ticks": monitor.ticks,
        "masks": [
            [m.outcome, [[a, list(codes)] for a, codes in m.codes], m.first, m.last]
            for m in monitor.masks
        ],
        "edges": sorted(list(edge) for edge in monitor.edges),
        "judged": sorted(monitor.judged),
    }
    return Snapshot(arrays, document, monitor.incidents)


def translated(saved: Snapshot, monitor: Monitor, change: Evolution) -> Snapshot:
    """A snapshot as a monitor of another schema would have left it.

    Args:
        saved: of another schema.
        monitor: just built with the new settings.
        change: from one to the other.
    """
    judged = _judged(saved)
    document = {
        **saved.document,
        "masks": translated_masks(saved.document["masks"], change),
        "judged": [
            o for o, old in enumerate(change.outcomes) if old in judged and o not in change.anew
        ],
    }
    arrays = evolved(saved.arrays, snapshot(monitor).arrays, change)
    return Snapshot(arrays, document, saved.incidents)


def restore(monitor: Monitor, saved: Snapshot, slices: Iterable[Stored]) -> None:
    """Bring a fresh monitor to where the snapshot was taken.

    Args:
        monitor: just built with the same settings and the restored vocabulary.
        saved: the last snapshot.
        slices: every stored slice, oldest first.
    """
    settings = monitor.settings
    attributes = len(settings.schema.attributes)
    monitor.nodes = Nodes.from_arrays(
        _get(saved.arrays, "nodes"), attributes, settings.window, monitor.coded
    )
    monitor.naming = Naming(settings.schema, monitor.vocabulary, monitor.nodes)
    monitor.dispersion.restore(_get(saved.arrays, "dispersion"))
    monitor.bar.restore(_get(saved.arrays, "bar"))
    arrivals = saved.arrays.get("arrivals")
    if arrivals is not None and arrivals.shape == monitor.arrivals.shape:
        monitor.arrivals = arrivals.copy()
    if monitor.learner is not None:
        monitor.learner.restore(_get(saved.arrays, "learner"))
    fitted = _get(saved.arrays, "baseline")
    if fitted:
        monitor.baseline = Baseline(
            fitted["base"],
            fitted["day"],
            fitted.get("week", np.ones((len(fitted["base"]), 7, fitted["day"].shape[1]))),
            tuple(fitted[f"multipliers{a}"] for a in range(attributes)),
            tuple(_codes(fitted, o) for o in range(len(fitted["base"]))),
            Usual(
                fitted["usual.outcome"],
                fitted["usual.values"],
                fitted["usual.mean"],
                fitted["usual.week"],
            )
            if "usual.mean" in fitted  # stores older than counted outcomes have none
            else Usual.none(len(fitted["base"]), attributes),
            int(fitted["fitted_at"]),
            fitted.get("kept_empty", np.zeros((len(fitted["base"]), attributes), bool)),
        )
    monitor.judged = _judged(saved)
    monitor.ticks = int(saved.document["ticks"])
    monitor.masks = tuple(
        Mask(outcome, tuple((a, _values(codes)) for a, codes in named), first, last)
        for outcome, named, first, last in saved.document["masks"]
    )
    monitor.edges = frozenset((source, target) for source, target in saved.document["edges"])
    monitor.incidents = saved.incidents
    stored = list(slices)
    recent = max(2 * settings.window.slices, settings.detection.horizons[-1])
    for i, one in enumerate(stored):
        piece = one.slice
        if one.unknown:
            monitor.unknown[int(piece.start.astype(np.int64))] = one.unknown
        monitor.history.add(monitor.lesson(piece, one.expected))
        if len(stored) - i <= recent:
            local = monitor.nodes.local(piece.values, piece.start)
            monitor.push(Coded(piece, local, one.expected).compact())


def _judged(saved: Snapshot) -> frozenset[int]:
    """Outcomes that had a baseline; in stores older than this field all, or none."""
    everything = range(len(saved.arrays.get("baseline.base", ())))
    return frozenset(saved.document.get("judged", everything))


def _codes(fitted: Mapping[str, np.ndarray], o: int) -> CodeShares:
    """Stores older than one parent an outcome, and what is known of it, learn their codes anew."""
    if f"code_failures{o}" not in fitted:
        return CodeShares.none()
    parent = int(fitted[f"parent{o}"])
    return CodeShares(
        None if parent < 0 else parent, fitted[f"codes{o}"], fitted[f"code_failures{o}"]
    )


def _values(codes: int | list[int]) -> tuple[int, ...]:
    """Stores of version 0.1 have one code an attribute."""
    return (codes,) if isinstance(codes, int) else tuple(codes)


def _put(arrays: dict[str, np.ndarray], prefix: str, part: Mapping[str, np.ndarray]) -> None:
    arrays |= {f"{prefix}.{name}": array for name, array in part.items()}


def _get(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    start = prefix + "."
    return {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}

"""Families with our prefix, in one call each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

PREFIX = "least_monitor"


def single(name: str, text: str, value: float) -> Metric:
    """A gauge without labels."""
    family = GaugeMetricFamily(f"{PREFIX}_{name}", text)
    family.add_metric([], value)
    return family


def labelled(
    name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    """A gauge with labels: (values of the labels, value) a series."""
    family = GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def counted(
    name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    """A counter with labels; `_total` is added to its name."""
    family = CounterMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family

"""The bookings' configuration, in slices of a benchmark's choice."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from monitor.config import Config, load
from monitor.config.durations import format_duration
from monitor.domain import HALF_HOUR

CONFIG = Path("examples/bookings/monitor.toml")


def configured(slice_length: timedelta = HALF_HOUR) -> Config:
    """The example with slices of that length."""
    return load(CONFIG, {"LEAST_MONITOR__WINDOW__SLICE_LENGTH": format_duration(slice_length)})

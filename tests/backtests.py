"""Backtests that never ran, to draw reports of."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from monitor.config import Config, load
from monitor.domain import Cause, Incident, Method, State
from monitor.edge.report import Backtest, Series
from monitor.scoring import Label, score
from tests.samples import finding

START = datetime(2026, 3, 2, tzinfo=UTC)
STEP = timedelta(minutes=30)
FOUND = finding(chain=(Cause(), Cause.of(airline="AC")), codes=("E17",),
                runners_up=((Cause.of(office="BKK"), 60.0),))  # fmt: skip


def configuration(folder: Path) -> Config:
    """Of two outcomes by airline, in Bangkok's days."""
    path = folder / "monitor.toml"
    path.write_text(
        '[schema]\ntime = { column = "at", zone = "Asia/Bangkok" }\nattributes = ["airline"]\n'
        'outcomes = ["reserve", "pay"]\n[store]\nurl = "postgresql://u:s3cret@db/x"\n'
    )
    return load(path, {})


def incident(name: str, hours: float, **changes: object) -> Incident:
    at = START + timedelta(hours=hours)
    usual = Incident(name, State.RESOLVED, at, at, at, FOUND, FOUND, resolved_at=at + 3 * STEP,
                     causes=(FOUND.cause,))  # fmt: skip
    return replace(usual, **changes)


def series(ticks: int, spike: int | None = None) -> Series:
    observed = [5] * ticks
    if spike is not None:
        observed[spike] = 900
    return Series(
        at=[START + (i + 1) * STEP for i in range(ticks)],
        learning=[i < 10 for i in range(ticks)],
        gap=[False] * ticks,
        observed=[observed, [1] * ticks],
        expected=[[5.5] * ticks, [1.0] * ticks],
        scores=[[0.0 if i % 50 else 9.0 for i in range(ticks)], [0.0] * ticks],
        p_values=[() if i < 10 else (2,) * 20 for i in range(ticks)],
    )


def backtest(config: Config, incidents: list[Incident], labels: tuple[Label, ...] = (),
             ticks: int = 200, quiet: tuple[date, ...] = ()) -> Backtest:  # fmt: skip
    scores = {}
    if labels or quiet:
        span = (START, START + ticks * STEP)
        scores = {Method.EXCESS: score(incidents, labels, quiet, "Asia/Bangkok", STEP, span)}
    return Backtest(config, ["logs.parquet"], 12345, {"bad_time": 3}, series(ticks, ticks // 2),
                    {Method.EXCESS: incidents, Method.PAPER: []}, scores, quiet)  # fmt: skip

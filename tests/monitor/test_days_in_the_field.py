"""Days from the field, as people hear of them; in `field`, a folder a kind."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.config import load
from monitor.domain import Change
from monitor.edge.metrics import Metrics
from monitor.edge.store.memory import MemoryStore
from monitor.pipeline import Pipeline

pytestmark = pytest.mark.usefixtures("no_learner")

FIELD = Path(__file__).parent / "field"
Told = tuple[datetime, Change, str, str]
"""When, what is told, of which incident, and what it names."""


def heard(kind: str) -> list[Told]:
    """What is told of a log, read at once."""
    config = load(FIELD / kind / "monitor.toml", {})
    pipeline = Pipeline(config, MemoryStore(), Metrics(), (), lambda: datetime.now(UTC))
    return told(pipeline)


def told(pipeline: Pipeline) -> list[Told]:
    return [
        (n.at, n.change, n.incident.id, str(n.incident.finding.cause))
        for tick in pipeline.poll()
        for n in tick.news
    ]


def test_failures_logged_late(tmp_path: Path) -> None:
    """Half of `cart` fails from ten to six, and a failing row is written 100 minutes later."""
    kind = FIELD / "failures-logged-late"
    header, *rows = gzip.decompress((kind / "arrivals.csv.gz").read_bytes()).splitlines(True)
    (tmp_path / "monitor.toml").write_bytes((kind / "monitor.toml").read_bytes())
    log = tmp_path / "log.csv"
    log.write_bytes(header)
    pipeline = Pipeline(
        load(tmp_path / "monitor.toml", {}), MemoryStore(), Metrics(), (), lambda: datetime.now(UTC)
    )
    heard: list[Told] = []
    for hour in range(9, 24):
        until = f"2026-03-05T{hour:02}:59".encode()
        arrived = [row for row in rows if row.split(b",")[5] <= until]
        rows = rows[len(arrived) :]
        with log.open("ab") as file:
            file.writelines(arrived)
        heard += told(pipeline)
    opened = [one for one in heard if one[1] is Change.OPENED]
    assert [cause for *_, cause in opened] == ["upstream=cart"]
    assert opened[0][0].hour <= 14


@pytest.mark.slow
def test_slow_leak_resolved() -> None:
    """From two per cent to twelve in three days, where it stays: one incident, open throughout."""
    said = heard("slow-leak-resolved")
    assert {(name, cause) for *_, name, cause in said} == {(said[0][2], "upstream=search")}
    assert said[0][0].day in (9, 10)
    assert all(change is not Change.RESOLVED for _, change, *_ in said)


@pytest.mark.slow
def test_weekly_rhythm() -> None:
    """On four Sundays (8, 15, 22, 29) some fail at night: from the third on that is as usual."""
    opened = [at.day for at, change, *_ in heard("weekly-rhythm") if change is Change.OPENED]
    assert set(opened) == {8, 15}

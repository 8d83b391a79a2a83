"""Real days in, incidents out: New York's flights of 2013, replayed by the installed command.

What each replay reports is recorded beside this file; `pytest tests/replay --update` rewrites the
records, and the diff is reviewed like code. What must hold whatever the tuning is asserted here.
"""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FLIGHTS = ROOT / "data" / "flights"
NEW_YORK = ZoneInfo("America/New_York")
SEED = 20130416
COMMAND = Path(sys.executable).with_name("least-monitor")


def start(folder: Path, name: str, since: str, until: str) -> subprocess.Popen[bytes]:
    """A backtest under way: at half-hour ticks, LEAST relearned at every one of them."""
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [
                str(COMMAND), "backtest", "-c", str(ROOT / "examples/flights/monitor.toml"),
                str(FLIGHTS / "nyc2013.parquet"), "--from", since, "--to", until,
                "--labels", str(FLIGHTS / "anomalies_public.jsonl"),
                "--json", str(folder / f"{name}.json"), "--state", str(folder / name),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"LEAST_THREADS": "1"},
        )  # fmt: skip


def finish(folder: Path, name: str, process: subprocess.Popen[bytes]) -> bytes:
    """The bytes of its report."""
    try:
        code = process.wait(900)
    finally:
        process.kill()
    assert code == 0, (folder / f"{name}.log").read_text()
    assert not list((folder / name).iterdir()), "a finished backtest leaves no state behind"
    return (folder / f"{name}.json").read_bytes()


@pytest.fixture(scope="module")
def replays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Both stretches, side by side."""
    folder = tmp_path_factory.mktemp("replays")
    running = {
        "february": start(folder, "february", "2013-01-01", "2013-02-12"),
        "april": start(folder, "april", "2013-03-10", "2013-04-18"),
    }
    return {name: json.loads(finish(folder, name, p)) for name, p in running.items()}


def reported(replay: dict[str, Any]) -> list[dict[str, Any]]:
    """Incidents of the method that notifies."""
    return [i for i in replay["incidents"] if i["method"] == "excess"]


def local_days(incident: dict[str, Any]) -> set[str]:
    """New York days on which it opened or worsened; a tick at midnight ends the day before."""
    moments = [incident["opened_at"], *incident["worsened_at"]]
    ticks = [datetime.fromisoformat(m) - timedelta(minutes=30) for m in moments]
    return {str(tick.astimezone(NEW_YORK).date()) for tick in ticks}


def on(replay: dict[str, Any], *days: str) -> list[dict[str, Any]]:
    return [i for i in reported(replay) if local_days(i) & set(days)]


@pytest.mark.parametrize("name", ["february", "april"])
def test_the_replay_reports_what_is_recorded(
    replays: dict[str, dict[str, Any]], name: str, request: pytest.FixtureRequest
) -> None:
    told = [
        {key: i[key] for key in ("opened_at", "resolved_at", "outcome", "cause")}
        for i in reported(replays[name])
    ]
    recorded = HERE / "recorded" / f"{name}.json"
    if request.config.getoption("--update"):
        lines = ",\n".join(json.dumps(one) for one in told)
        recorded.write_text(f"[\n{lines}\n]\n")
    assert told == json.loads(recorded.read_text()), "if this is meant: pytest --update"


def test_the_blizzard_of_february_shuts_everything(replays: dict[str, dict[str, Any]]) -> None:
    storm = on(replays["february"], "2013-02-08", "2013-02-09")
    cancelled = [i for i in storm if i["outcome"] == "cancelled"]
    assert {} in [i["cause"] for i in cancelled]
    (case,) = (c for c in replays["february"]["scores"]["cases"] if c["id"] == "nyc-nemo")
    assert case["right_first"]


def test_the_three_days_before_the_blizzard_are_silent(replays: dict[str, dict[str, Any]]) -> None:
    days = ("2013-02-05", "2013-02-06", "2013-02-07")
    with (FLIGHTS / "quiet_days.csv").open() as file:
        quiet = {row["date"] for row in csv.DictReader(file) if row["dataset"] == "nyc2013"}
    assert quiet.issuperset(days)
    assert on(replays["february"], *days) == []


def test_the_reservation_system_of_american_fails_in_april(
    replays: dict[str, dict[str, Any]],
) -> None:
    causes = [i["cause"] for i in on(replays["april"], "2013-04-16") if i["outcome"] == "cancelled"]
    # MQ flies for American, and reserves with it.
    assert any(c.keys() == {"carrier"} and {"AA", "MQ"}.issuperset(c["carrier"]) for c in causes)


def test_every_row_and_every_half_hour_is_accounted_for(replays: dict[str, dict[str, Any]]) -> None:
    for replay in replays.values():
        assert replay["rejected"] == 0
        assert replay["rows"] > 30_000
        assert 0 < replay["quiet_ticks"] < replay["ticks"]
    assert datetime(2013, 4, 18, tzinfo=UTC) - datetime(2013, 3, 10, tzinfo=UTC) == timedelta(39)
    assert 38 * 48 < replays["april"]["ticks"] <= 39 * 48


def committed(folder: Path) -> int:
    """Slices that a running backtest has stored so far."""
    for path in folder.glob("backtest-*.db"):
        try:
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
                (count,) = connection.execute("select count(*) from slices").fetchone()
                return int(count)
        except sqlite3.OperationalError:
            break  # not created yet
        finally:
            if "connection" in locals():
                connection.close()
    return 0


def test_twice_and_interrupted_it_writes_the_same_bytes(tmp_path: Path) -> None:
    span = ("2013-04-01", "2013-04-21")
    chance = random.Random(SEED)
    one = start(tmp_path, "one", *span)
    killed = start(tmp_path, "killed", *span)
    wanted = chance.randrange(48, 700)
    deadline = time.monotonic() + 600
    while committed(tmp_path / "killed") < wanted:
        assert killed.poll() is None, (tmp_path / "killed.log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(chance.uniform(0, 1))  # somewhere between two commits
    killed.send_signal(signal.SIGKILL)
    assert killed.wait(10) == -signal.SIGKILL
    assert not (tmp_path / "killed.json").exists()
    done = committed(tmp_path / "killed")
    assert wanted <= done < 960, "interrupted in the middle"

    resumed = start(tmp_path, "killed", *span)
    first = finish(tmp_path, "one", one)
    other = start(tmp_path, "other", *span)
    assert finish(tmp_path, "killed", resumed) == first
    assert finish(tmp_path, "other", other) == first
    assert len(json.loads(first)["incidents"]) > 3

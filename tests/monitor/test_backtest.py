"""`backtest` and `once` from end to end, in this process, without waiting for LEAST."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from monitor.backtest import Outcome, Silent, run
from monitor.cli import app
from monitor.config import load
from monitor.diagnosis import Tick
from monitor.domain import Method
from monitor.edge.documents import dumps
from monitor.edge.store import IncidentQuery, open_store

pytestmark = pytest.mark.usefixtures("no_learner")

START = datetime(2026, 3, 2, tzinfo=UTC)
HALF_HOUR = timedelta(minutes=30)
NOW = START + timedelta(days=30)
AIRLINES = ["AC", "MU", "LH"]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with a configuration and two days of logs; MU fails on the second evening."""
    (tmp_path / "monitor.toml").write_text(
        """
        [source]
        paths = ["log-*.jsonl"]
        [schema]
        time = "at"
        attributes = ["airline", "office"]
        outcomes = [{ name = "pay", when = "failed == 1" }]
        [window]
        length = "6h"
        [detection]
        history = "2d"
        learning = "12h"
        """
    )
    rng = np.random.default_rng(4)
    with (tmp_path / "log-a.jsonl").open("w") as log:
        for number in range(96):
            for _ in range(60):
                airline = AIRLINES[rng.choice(3, p=[0.5, 0.3, 0.2])]
                failing = airline == "MU" and 84 <= number < 90
                row = {
                    "at": (START + (number + rng.random()) * HALF_HOUR).isoformat(),
                    "airline": airline,
                    "office": f"O{rng.integers(4)}",
                    "failed": int(rng.random() < (0.7 if failing else 0.02)),
                }
                log.write(json.dumps(row) + "\n")
        log.write("{broken\n")
        log.write(json.dumps({"at": "2099-01-01T00:00:00Z", "airline": "AC"}) + "\n")
    label = {
        "id": "outage", "start": (START + 84 * HALF_HOUR).isoformat(),
        "end": (START + 92 * HALF_HOUR).isoformat(), "outcome": "pay",
        "accept": [{"airline": ["MU"]}],
    }  # fmt: skip
    (tmp_path / "labels.jsonl").write_text(json.dumps(label) + "\n")
    (tmp_path / "quiet_days.csv").write_text("date\n2026-03-02\n")
    return tmp_path


def replayed(desk: Path, **more: Any) -> Outcome:
    usual: dict[str, Any] = {"now": NOW, "state": desk / "state", "labels": desk / "labels.jsonl"}
    return run(load(desk / "monitor.toml", {}), [str(desk / "log-a.jsonl")], **usual | more)


def test_a_replay_is_scored_against_labels_and_quiet_days(desk: Path) -> None:
    outcome = replayed(desk)
    document = outcome.document
    assert (document["rows"], document["rejected"], document["ticks"]) == (96 * 60, 2, 96)
    assert sorted(line.split(": ")[:2] for line in outcome.rejected) == [
        ["kept", "undecided"],
        ["rejected", "future"],
        ["rejected", "not_json"],
    ]
    scores = document["scores"]
    assert scores["recall_at_1"] == scores["recall_any"] == scores["exact"] == 1
    assert scores["quiet_days"] == 1
    assert scores["quiet_days_alarmed"] == 0
    assert scores["cases"][0]["id"] == "outage"
    assert set(document["methods"]) == {"excess", "paper"}
    (found,) = document["incidents"]
    assert found["cause"] == {"airline": ["MU"]}
    assert 0 < document["quiet_ticks"] < 96
    assert list((desk / "state").iterdir()) == []


class Interrupted(Silent):
    """Breaks off at a tick, and notes what it is told."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.ticks, self.begun = at, 0, (-1, -1)

    def begin(self, ticks: int, done: int) -> None:
        self.begun = (ticks, done)

    def tick(self, tick: Tick) -> None:
        self.ticks += 1
        if self.ticks == self.at:
            raise KeyboardInterrupt


def test_an_interrupted_replay_goes_on_and_ends_the_same(desk: Path) -> None:
    untouched = replayed(desk)
    whole = dumps(untouched.document)
    first = Interrupted(70)
    with pytest.raises(KeyboardInterrupt):
        replayed(desk, progress=first)
    assert first.begun == (96, 0)
    second = Interrupted()
    resumed = replayed(desk, progress=second)
    assert dumps(resumed.document) == whole
    # The report has the ticks before the interruption, each once.
    assert resumed.told.series == untouched.told.series
    assert second.begun == (96, 48)
    assert second.ticks == 48


def test_a_fresh_replay_forgets_the_interrupted_one(desk: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        replayed(desk, progress=Interrupted(70))
    again = Interrupted()
    replayed(desk, progress=again, fresh=True)
    assert again.begun == (96, 0)


def test_a_log_that_changed_is_replayed_from_the_start(desk: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        replayed(desk, progress=Interrupted(70))
    with (desk / "log-a.jsonl").open("a") as log:
        log.write(json.dumps({"at": START.isoformat(), "airline": "AC", "failed": 0}) + "\n")
    again = Interrupted()
    replayed(desk, progress=again)
    assert again.begun == (96, 0)


def test_years_later_the_first_incident_is_still_told(desk: Path) -> None:
    """A running monitor forgets resolved incidents in time; a replay is asked about all of them."""
    before = replayed(desk)
    later = START + timedelta(days=900)
    row = {"airline": "AC", "office": "O1", "failed": 0}
    with (desk / "log-a.jsonl").open("a") as log:
        for n in range(40):
            log.write(json.dumps({"at": (later + n * HALF_HOUR / 4).isoformat(), **row}) + "\n")
    after = replayed(desk, now=later + timedelta(days=1))
    assert before.incidents[Method.EXCESS]
    assert [i.id for i in after.incidents[Method.EXCESS]] == [
        i.id for i in before.incidents[Method.EXCESS]
    ]


def test_the_store_can_be_kept_for_the_console(desk: Path) -> None:
    outcome = replayed(desk, keep=desk / "kept.db")
    store = open_store(f"sqlite:///{desk / 'kept.db'}", create=False)
    assert store.incidents(IncidentQuery(method="excess")) == outcome.incidents[Method.EXCESS]
    store.close()


def test_only_the_asked_days_are_replayed(desk: Path) -> None:
    day = START + timedelta(days=1)
    outcome = replayed(desk, since=day, labels=None)
    assert outcome.document["ticks"] == 48
    assert outcome.document["scores"] is None


def command(desk: Path, *arguments: str):
    return CliRunner().invoke(app, [arguments[0], "-c", str(desk / "monitor.toml"), *arguments[1:]])


def test_the_command_prints_a_summary_and_writes_json(desk: Path) -> None:
    out = desk / "out.json"
    done = command(
        desk, "backtest", str(desk / "log-a.jsonl"), "--labels", str(desk / "labels.jsonl"),
        "--json", str(out), "--state", str(desk / "state"), "--html", str(desk / "report.html"),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "recall@1" in done.output
    assert "airline=MU" in done.output
    learned = sum(replayed(desk).told.series.learning)
    assert f"no verdict at the first {learned} ticks" in done.output
    document = json.loads(out.read_bytes())
    assert document["incidents"][0]["cause"] == {"airline": ["MU"]}
    assert out.read_bytes() == dumps(replayed(desk).document) + b"\n"
    page = (desk / "report.html").read_text()
    assert "names what label outage accepts" in page
    assert "p-values of" in page


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["log-b.jsonl"], 1, "matches no file"),
        (["log-a.jsonl", "--from", "yesterday"], 2, "is no date"),
        (["log-a.jsonl", "--labels", "quiet_days.csv"], 1, "quiet_days.csv:1: not a label"),
    ],
    ids=["no file", "no date", "no labels"],
)
def test_what_cannot_be_replayed_is_said(
    desk: Path, arguments: list[str], code: int, says: str
) -> None:
    files = [str(desk / a) if "." in a else a for a in arguments]
    done = command(desk, "backtest", *files, "--state", str(desk / "state"))
    assert done.exit_code == code
    assert says in " ".join(done.output.split())


def test_once_takes_in_what_is_new_and_ends(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)
    first = command(desk, "once")
    assert first.exit_code == 0, first.output
    assert "95 ticks" in first.output
    assert "0 ticks" in command(desk, "once").output


def test_a_log_format_nobody_knows_is_a_mistake_of_usage(desk: Path) -> None:
    done = command(desk, "run", "--log-format", "xml")
    assert done.exit_code == 2
    assert "human" in done.output

"""Configurations that are sound and fit nothing: `check` tells each with its cure."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from monitor.cli import app

Row = dict[str, Any]

CONFIG = {
    "source": '[source]\npaths = ["log.jsonl"]\n',
    "time": 'time = "at"\n',
    "tiers": 'tiers = ["traveller", "offer", "fare"]\n',
    "attributes": """attributes = [
  { name = "office", tier = "traveller" }, { name = "airline", tier = "offer" },
  { name = "fare", tier = "fare" },
]
""",
    "outcomes": 'outcomes = [{ name = "failed", when = "status >= 500" }]\n',
}


def bookings(now: datetime) -> list[Row]:
    """A day until now: who is refused a seat never learns a fare, and 6 % fail later."""
    chance = random.Random(7)
    rows = []
    for i in range(1200):
        refused = chance.random() < 0.03
        failed = refused or chance.random() < 0.06
        rows.append(
            {
                "at": (now - timedelta(minutes=1.2 * (1200 - i))).isoformat(),
                "office": chance.choice(["BKK", "SEL", "FRA"]),
                "airline": chance.choice(["AC", "LH", "KE"]),
                "fare": None if refused else chance.choice(["F1", "F2", "F3"]),
                "status": 503 if failed else 200,
                "code": "E7" if failed else None,
                "booking": f"B{i:06}",
                "site": "web",
                "result": "error" if failed else "ok",
                "http": {"status": 503 if failed else 200, "agentName": f"a{i % 3}"},
                "seconds": 0.2 + 3 * failed,
                "done": not failed,
                "trace": [i],
                "half": f"{now:%m/%d/%Y} {i // 60 % 12:02}:{i % 60:02}:00 {'AP'[i % 2]}M",
                "day_first": f"0{3 + i // 600}.{now:%m.%Y} {i // 60 % 10:02}:{i % 60:02}",
                "day": f"{now - timedelta(days=i // 200):%Y-%m-%d}",
                "word": ["FAIL ", "fail", "FAIL"][i % 3] if failed else "ok",
                "channel": ["web", "Web", "app"][i % 3],
                **({"old_name": f"n{i % 3}"} if i < 700 else {}),
            }
        )
    return rows


@dataclass(frozen=True)
class Wrong:
    """One mistake, and what is said of it."""

    said: str
    parts: dict[str, str] = field(default_factory=dict)
    """Of the configuration, instead of the right ones."""
    log: str = "jsonl"
    exit_code: int = 0


def attribute(column: str, more: str = "") -> dict[str, str]:
    entry = f'{{ column = "{column}", name = "{column.replace(".", "_")}"{more} }}'
    return {"tiers": "", "attributes": f'attributes = ["airline", {entry}]\n'}


def outcome(when: str) -> dict[str, str]:
    return {"outcomes": f"outcomes = [{{ name = 'failed', when = '{when}' }}]\n"}


def time(entry: str) -> dict[str, str]:
    return {"time": f"time = {entry}\n"}


def source(paths: str, more: str = "") -> dict[str, str]:
    return {"source": f"[source]\npaths = [{paths!r}]\n{more}"}


CSV = source("log.csv")
WRONG = {
    "column of an outcome misspelt": Wrong(
        "no `stauts`; did you mean `status`", outcome("stauts >= 500")
    ),
    "column of an outcome nested": Wrong(
        "did you mean `http.status`", outcome("http.state >= 500")
    ),
    "column of an outcome in capitals": Wrong("did you mean `status`", outcome("Status >= 500")),
    "attribute nested deeper": Wrong(
        "no column `agentName` for attribute `agentName`; did you mean `http.agentName`",
        attribute("agentName"),
        exit_code=78,
    ),
    "attribute spelt otherwise": Wrong(
        "did you mean `http.agentName`", attribute("http.agent_name"), exit_code=78
    ),
    "attribute in capitals": Wrong("did you mean `office`", attribute("Office"), exit_code=78),
    "attribute that does not exist": Wrong(
        "no column `shop` for attribute `shop`; known are", attribute("shop"), exit_code=78
    ),
    "column in a CSV misspelt": Wrong(
        "no column `ofice` for attribute `ofice`; did you mean `office`",
        CSV | attribute("ofice"),
        "csv",
        78,
    ),
    "attribute is an id": Wrong(
        "`booking` is almost unique to each row: it cannot be a cause; leave it out",
        attribute("booking"),
    ),
    "attribute is constant": Wrong(
        "`site` always has the same value: it can explain nothing", attribute("site")
    ),
    "attribute is a list": Wrong(
        "field `trace` holds a list or a table", attribute("trace"), exit_code=78
    ),
    "attribute follows from the outcome": Wrong(
        "`result` follows from outcome `failed`", attribute("result")
    ),
    "attribute is the outcome's column": Wrong(
        "outcome `failed` is computed from attribute `status`", attribute("status")
    ),
    "attribute is the outcome's twin": Wrong(
        "`seconds` follows from outcome `failed`", attribute("seconds")
    ),
    "error code as an attribute": Wrong(
        "`code` is there on `failed` only: it tells what failed, not why; "
        "name it as `schema.error_code`",
        attribute("code"),
    ),
    "attribute is empty on failures": Wrong(
        "`fare` is missing in 100% of the rows with `refused`",
        {
            "outcomes": "outcomes = [{ name = 'refused', "
            "when = 'status >= 500 and is_null(fare)' }]\n"
        },
    ),
    "tiers swapped": Wrong(
        "attribute `fare` is missing in failed rows that have `office`, and never the other way",
        {"tiers": 'tiers = ["fare", "offer", "traveller"]\n'},
    ),
    "outcome is always true": Wrong(
        "`failed` happens in every row; is its `when` right? (`status` holds 200, 503)",
        outcome("status >= 200"),
    ),
    "outcome is turned round": Wrong(
        "`failed` happens in most rows; is its `when` turned round? (`status` holds 200, 503)",
        outcome("status < 500"),
    ),
    "outcome never happens": Wrong(
        "`failed` never happens; is its `when` right? (`status` holds 200, 503)",
        outcome("status >= 600"),
    ),
    "outcome compares with another word": Wrong(
        "`failed` never happens; is its `when` right? (`result` holds ok, error)",
        outcome('result == "failed"'),
    ),
    "outcome compares with words in capitals": Wrong(
        "(`result` holds ok, error)", outcome('result == "ERROR"')
    ),
    "outcome compares a word with a number": Wrong(
        "column `result` is not a number; mend the log or the condition; found `ok`",
        outcome("result >= 500"),
        exit_code=78,
    ),
    "outcome compares a flag with a word": Wrong(
        "(`done` holds true, false)", outcome('done == "no"')
    ),
    "time in the wrong unit": Wrong(
        'column `stamp` looks like seconds, not milliseconds; say unit = "s" in [schema]',
        CSV | time('{ column = "stamp", unit = "ms" }'),
        "csv",
        78,
    ),
    "time in too small a unit": Wrong(
        'column `millis` looks like milliseconds, not seconds; say unit = "ms" in [schema]',
        CSV | time('{ column = "millis", unit = "s" }'),
        "csv",
        78,
    ),
    "time in the wrong zone": Wrong(
        "is the zone of the event time right?",
        CSV | time('{ column = "local", zone = "America/New_York" }'),
        "csv",
    ),
    "time is no time": Wrong("column `office` holds no time", time('"office"'), exit_code=78),
    "time in another form": Wrong(
        "it is ISO 8601, which is read when `format` is left out",
        time('{ column = "at", format = "%d.%m.%Y" , zone = "UTC" }'),
        exit_code=78,
    ),
    "wrong delimiter": Wrong(
        "no column `at` for the event time", source("log.csv", 'delimiter = ";"\n'), "csv", 78
    ),
    "wrong format": Wrong("line is not JSON", source("log.csv", 'format = "jsonl"\n'), "csv", 78),
    "am and pm not asked for": Wrong(
        "ends in AM or PM: write %I for the hour and %p",
        CSV | time('{ column = "half", format = "%m/%d/%Y %H:%M:%S", zone = "UTC" }'),
        "csv",
        78,
    ),
    "half of the day left out": Wrong(
        "has %I and no %p", time('{ column = "half", format = "%d.%m.%Y %I:%M" }'), exit_code=78
    ),
    "half of a day of 24 hours": Wrong(
        "has %p and no %I", time('{ column = "half", format = "%d.%m.%Y %H:%M %p" }'), exit_code=78
    ),
    "days for months": Wrong(
        "are days and months the wrong way round",
        time('{ column = "day_first", format = "%m.%d.%Y %H:%M", zone = "UTC" }'),
    ),
    "a day for a time": Wrong(
        "event times are whole multiples of 1d apart",
        time('{ column = "day", zone = "UTC" }'),
    ),
    "a text missed by a blank or a capital": Wrong(
        "compares `word` with `FAIL`, but it also holds `FAIL ` (31 rows), `fail` (32",
        outcome('word == "FAIL"'),
    ),
    "texts of a list missed": Wrong(
        "compares `word` with `FAIL`, `Lost`, but it also holds `FAIL ` (31 rows), `fail` (32",
        outcome('word in ("FAIL", "Lost")'),
    ),
    "one value in two spellings": Wrong(
        "differ in capitals, blanks or zeros alone, such as `web` and `Web`", attribute("channel")
    ),
    "an attribute that is renamed halfway": Wrong(
        "attribute `old_name` has no value after", attribute("old_name")
    ),
    "a path beside another that matches nothing": Wrong(
        "logs/*.jsonl matches no file",
        {"source": "[source]\npaths = ['log.jsonl', 'logs/*.jsonl']\n"},
    ),
    "a link beside its file": Wrong("linked.jsonl is a link to another file", source("*.jsonl")),
    "a condition for events that is never true": Wrong(
        "`source.where` leaves out every row: the configuration does not fit",
        source("log.jsonl", "where = \"site == 'Web'\"\n"),
        exit_code=78,
    ),
    "two outcomes that are one": Wrong(
        "outcome `down` happens in the same rows as `failed`",
        {
            "outcomes": "outcomes = [{ name = 'failed', when = 'status >= 500' }, "
            "{ name = 'down', when = 'status > 400' }]\n"
        },
    ),
    "wrong glob": Wrong("logs/*.jsonl matches no file", source("logs/*.jsonl")),
    "a folder": Wrong("matches no file", source("logs")),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_configuration_is_told_with_its_cure(name: str, tmp_path: Path) -> None:
    wrong = WRONG[name]
    now = datetime.now(UTC).replace(microsecond=0)
    write(tmp_path, bookings(now), wrong.log)
    result = checked(tmp_path, wrong.parts)
    said = " ".join(result.output.split())
    assert wrong.said in said
    assert result.exit_code == wrong.exit_code


def test_the_right_configuration_is_told_nothing_but_what_is_so(tmp_path: Path) -> None:
    write(tmp_path, bookings(datetime.now(UTC)), "jsonl")
    result = checked(tmp_path, {})
    assert result.exit_code == 0
    looks = [line for line in result.output.splitlines() if line.startswith("look:")]
    assert looks == []


def checked(folder: Path, parts: dict[str, str]) -> Any:
    config = folder / "monitor.toml"
    whole = CONFIG | parts
    keys = ("time", "tiers", "attributes", "outcomes")
    config.write_text(whole["source"] + "[schema]\n" + "".join(whole[key] for key in keys))
    return CliRunner().invoke(app, ["check", "-c", str(config)])


def write(folder: Path, rows: list[Row], kind: str) -> None:
    (folder / "linked.jsonl").symlink_to("log.jsonl")
    if kind == "jsonl":
        (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    with (folder / "log.csv").open("w") as log:
        flat = [
            row
            | {
                "stamp": int(datetime.fromisoformat(row["at"]).timestamp()),
                "millis": int(datetime.fromisoformat(row["at"]).timestamp() * 1000),
                "local": row["at"][:19],
            }
            for row in rows
        ]
        out = csv.DictWriter(log, list(flat[0]))
        out.writeheader()
        out.writerows(flat)

"""`least-monitor check`, as an operator and as a program meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from monitor.cli import app
from tests.services.brokers import Tansu

ROOT = Path(__file__).parents[2]

CONFIG = """
[source]
paths = ["log*"]
[schema]
time = "at"
attributes = ["region", "agent"]
outcomes = [{ name = "failed", when = "status >= 500" }, { name = "slow", when = "seconds > 2" }]
"""

HEADER = "at,region,agent,status,seconds\n"


def check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "monitor.toml"
    path.write_text(CONFIG)
    return path


def log(folder: Path, rows: list[str]) -> Path:
    path = folder / "log.csv"
    path.write_text(HEADER + "".join(f"2024-03-01T{row}\n" for row in rows))
    return path


def test_a_sound_configuration_shows_what_the_log_holds(config: Path, tmp_path: Path) -> None:
    rows = [
        f"{i // 60:02}:{i % 60:02}Z,r{i % 3},a{i % 2},{500 if i % 10 == 0 else 200},{i % 5}"
        for i in range(600)
    ]
    log(tmp_path, [*rows, "99:00Z,r0,a0,200,1"])
    result = check("-c", config)
    assert result.exit_code == 0, result.output
    said = result.output
    assert f"{config}: sound" in said
    assert "600 rows, 2024-03-01 00:00 to 2024-03-01 09:59 (UTC)" in said
    assert "r0 33%" in said
    assert "10.000%" in said
    assert "rejected: 1 × bad_time, 0.17% of all records" in said
    assert "20 slices of 30m, 0 of them empty, 30 rows in each of the others" in said
    assert "no verdict: `detection.learning` wants" in said
    assert "log.csv:602: column `at` holds no time" in said
    assert "look:" not in said


def test_programs_get_the_same_as_json(config: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    log(tmp_path, [f"00:00Z,r{i % 3},,200,1" for i in range(150)]).rename(other)
    result = check("-c", config, other, "--json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report["ok"] is True
    assert report["rows"] == 150
    assert report["attributes"][0] == {
        "name": "region",
        "tier": 0,
        "values": 3,
        "frequent": 3,
        "missing": 0,
        "top": [["r0", 50], ["r1", 50], ["r2", 50]],
    }
    assert report["outcomes"][0] == {"name": "failed", "failures": 0, "rate": 0.0}
    assert report["outlook"] == {
        "slices": 1,
        "empty_slices": 0,
        "rows_per_slice": 150.0,
        "nodes": 5,
        "verdicts": 0,
    }
    assert report["rejected_ratio"] == 0.0
    assert report["oddities"] == [
        "all events have the same time: is the column of the event time the right one?",
        "attribute `agent` never has a value; is its column the right one?",
        "outcome `failed` never happens; is its `when` right? (`status` holds 200)",
        "outcome `slow` never happens; is its `when` right? (`seconds` holds 1)",
    ]


def test_a_wrong_configuration_ends_with_78_and_all_its_problems(
    config: Path, tmp_path: Path
) -> None:
    config.write_text(CONFIG.replace("agent", "region") + "[windw]\n")
    result = check("-c", config)
    assert result.exit_code == 78
    assert result.stdout == ""
    assert "attribute `region` is listed twice" in result.stderr
    assert "windw: unknown key; did you mean `window`?" in result.stderr
    assert result.stderr.endswith("2 problems in the configuration\n")
    result = check("-c", config, "--json")
    assert result.exit_code == 78
    problems = json.loads(result.stdout)["problems"]
    assert problems[1] == {
        "where": f"{config}:8",
        "key": "windw",
        "message": "unknown key",
        "fix": "did you mean `window`?",
    }


def test_a_log_that_does_not_fit_ends_with_78(config: Path, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("at,Region,agent,status\n")
    result = check("-c", config)
    assert result.exit_code == 78
    assert "no column `region` for attribute `region`; did you mean `Region`?" in result.stderr
    assert "no column `seconds` for outcome `slow`" in result.stderr
    report = json.loads(check("-c", config, "--json").stdout)
    assert [problem["message"].split(": ")[1] for problem in report["problems"]] == [
        "no column `region` for attribute `region`; did you mean `Region`?",
        "no column `seconds` for outcome `slow`; known are `Region`, `agent`, `at`, `status`",
    ]


def test_without_any_input_the_configuration_alone_is_judged(config: Path) -> None:
    result = check("-c", config)
    assert result.exit_code == 0
    assert f"No input yet: {config.parent}/log* matches no file." in result.output
    assert check("-c", config, "nowhere.csv").exit_code == 78
    assert json.loads(check("-c", config, "--json").stdout) == {
        "ok": True,
        "problems": [],
        "changes": [],
    }


def test_a_path_that_matches_nothing_beside_others_is_pointed_out(
    config: Path, tmp_path: Path
) -> None:
    config.write_text(CONFIG.replace('["log*"]', '["log*", "logs/*.csv"]'))
    log(tmp_path, [f"00:{i % 60:02}Z,r{i % 3},a{i % 4},200,{i % 4}" for i in range(200)])
    result = check("-c", config)
    assert result.exit_code == 0, result.output
    folder = config.parent / "logs"
    assert f"look: {folder}/*.csv matches no file: there is no folder {folder}" in result.output


def test_an_outcome_that_gives_itself_away_is_pointed_out(config: Path, tmp_path: Path) -> None:
    config.write_text(CONFIG.replace("status >= 500", "agent == 'a1'"))
    log(tmp_path, [f"00:{i % 60:02}Z,r{i % 3},a{i % 4},200,{i % 4}" for i in range(200)])
    result = check("-c", config)
    assert "outcome `failed` is computed from attribute `agent`" in " ".join(result.output.split())


def test_what_is_odd_about_a_log_is_pointed_out(config: Path, tmp_path: Path) -> None:
    config.write_text(CONFIG + '[window]\nmax_values = 1\nlength = "1h"\n')
    log(tmp_path, [f"{i // 60:02}:{i % 60:02}Z,r{i},a{i % 2},500,3" for i in range(300)])
    report = json.loads(check("-c", config, "--json").stdout)
    assert [oddity.split(";")[0] for oddity in report["oddities"]] == [
        "about 60 rows a window: too few to judge single values",
        "attribute `region` is almost unique to each row: it cannot be a cause",
        "attribute `agent` has 2 frequent values, more than `window.max_values` = 1",
        "outcome `failed` happens in every row",
        "outcome `slow` happens in every row",
    ]
    log(tmp_path, ["00:00Z,r,a,500,3"])
    report = json.loads(check("-c", config, "--json").stdout)
    assert report["oddities"] == ["only 1 row: too few to tell what is odd"]


def test_only_the_head_of_a_long_log_is_read() -> None:
    flights = ROOT / "examples" / "flights" / "monitor.toml"
    report = json.loads(check("-c", flights, "--rows", "1000", "--json").stdout)
    assert 1000 <= report["rows"] < 336_776


@pytest.mark.parametrize(
    ("example", "rows", "outcome", "rate"),
    [
        ("flights/monitor.toml", 336_776, "cancelled", 0.02451),
        ("flights/houston.toml", 227_483, "late60", 0.04687),
        ("flights/pnw.toml", 162_029, "diverted", 0.00274),
        ("hotel/monitor.toml", 119_390, "canceled", 0.36031),
    ],
)
def test_the_examples_fit_the_data_in_the_box(
    example: str, rows: int, outcome: str, rate: float
) -> None:
    result = check("-c", ROOT / "examples" / example, "--json")
    report = json.loads(result.stdout)
    assert report["rows"] == rows
    rates = {one["name"]: one["rate"] for one in report["outcomes"]}
    assert rates[outcome] == pytest.approx(rate, abs=1e-5)


def test_terminal_codes_in_check(config: Path, tmp_path: Path) -> None:
    """Values of strangers must not clear the screen, or forge a line."""
    strange = "\x1b[2J\x1b[31mr\x9b1,a\x07"
    log(tmp_path, [f"{i // 60:02}:{i % 60:02}Z,{strange},200,3" for i in range(9)])
    for form in ((), ("--json",)):
        said = check("-c", config, *form).output
        assert "[2J" in said
        assert not {"\x1b", "\x07", "\x9b"} & set(said)


def test_files_are_looked_into_from_both_ends(config: Path, tmp_path: Path) -> None:
    for number in range(9):
        rows = [f"2024-03-0{number + 1}T00:{i:02}Z,r{number},a{i % 2},500,1\n" for i in range(60)]
        (tmp_path / f"log{number}.csv").write_text(HEADER + "".join(rows))
    report = json.loads(check("-c", config, "--rows", "150", "--json").stdout)
    assert report["rows"] == 150
    top = dict(report["attributes"][0]["top"])
    assert top == {"r0": 60, "r8": 60, "r1": 15}
    assert (report["first"][:10], report["last"][:10]) == ("2024-03-01", "2024-03-09")


def test_what_a_change_costs_is_told_before_it_is_made(config: Path, tmp_path: Path) -> None:
    store = tmp_path / "kept.db"
    with_store = CONFIG + f'[store]\nurl = "sqlite:///{store}"\n'
    log(tmp_path, [f"{i // 60:02}:{i % 60:02}Z,r{i % 3},a{i % 2},200,{i % 5}" for i in range(600)])
    config.write_text(with_store)
    assert "change:" not in check("-c", config).output
    assert not store.exists()
    assert CliRunner().invoke(app, ["once", "-c", str(config)]).exit_code == 0
    assert "change:" not in check("-c", config).output

    before = store.read_bytes()
    config.write_text(
        with_store.replace('["region", "agent"]', '["region", "status"]')
        .replace("seconds > 2", "seconds > 3")
        .replace("[store]", "[window]\nmin_count = 5\n[store]")
    )
    said = check("-c", config).output
    assert "change: attribute `status` is new: missing in the history, until rows carry it" in said
    assert "change: attribute `agent` is gone" in said
    assert "outcome `slow` means something else (`when` was seconds > 2, is seconds > 3)" in said
    assert "there is no verdict on it before it has learned for 2 days" in said
    assert "`window.min_count` was 10, is 5" in said
    assert len(json.loads(check("-c", config, "--json").stdout)["changes"]) == 4
    assert store.read_bytes() == before, "looking changes nothing"
    away = "postgresql+psycopg://monitor@127.0.0.1:1/monitor"
    config.write_text(with_store.replace(f"sqlite:///{store}", away))
    result = check("-c", config)
    assert result.exit_code == 0, "a configuration can be checked where its store is not"
    assert "change: not known, for the store cannot be read" in result.output

    config.write_text(with_store + '[window]\nslice_length = "1h"\n')
    result = check("-c", config)
    assert result.exit_code == 78
    assert "the store's slices are 0:30:00 long, not 1:00:00" in result.output


def test_a_stream_is_looked_into_at_its_newest_records(tansu: Tansu, tmp_path: Path) -> None:
    config = tmp_path / "monitor.toml"
    config.write_text(
        f'[source]\nkind = "kafka"\nbootstrap_servers = ["{tansu.address}"]\ntopics = "visits"\n'
        '[schema]\ntime = "at"\nattributes = ["region", "shop"]\n'
        "outcomes = [{ name = 'failed', when = 'state >= 500' }]\n"
    )
    tansu.create("visits", 2)
    records = [
        json.dumps(
            {"at": f"2026-03-01T00:{i // 60:02}:{i % 60:02}Z", "region": f"r{i % 3}",
             "http": {"state": 200}, "Shop": "s"}
        ).encode()
        for i in range(600)
    ]  # fmt: skip
    tansu.send("visits", [(i % 2, record) for i, record in enumerate(records)])
    for last in ((0, b"no json"), (1, records[-1])):  # by itself: tansu tells the end by batches
        tansu.send("visits", [last])
    result = check("-c", config, "--rows", "2000")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "601 rows" in said
    assert "rejected: 1 × not_json" in said
    assert "`shop` never has a value" in said
    assert "(there is no `shop`; did you mean `Shop`?)" in said
    assert "`failed` never happens" in said
    assert "(there is no `state`; did you mean `http.state`?)" in said
    tansu.create("rubbish", 1)
    tansu.send("rubbish", [(0, b"no json")] * 20)
    config.write_text(config.read_text().replace("visits", "rubbish"))
    result = check("-c", config)
    assert result.exit_code == 78
    assert "nothing of it can be understood" in result.output

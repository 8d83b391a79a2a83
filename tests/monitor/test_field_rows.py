"""Logs from the field whose cells are not what one thinks; in `field`, a folder a kind."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from monitor.cli import app
from monitor.config import Config, ConfigError, load
from monitor.domain import Rejected
from monitor.edge.files import FileSource
from monitor.edge.json_records import RecordDecoder
from monitor.edge.source import SourceError
from monitor.vocabulary import Vocabulary

FIELD = Path(__file__).parent / "field"
AT = "2026-03-02T00:00:00Z"


class Told:
    """What comes of the input of a configuration, read to its end."""

    def __init__(self, config: Config) -> None:
        vocabulary = Vocabulary(config.settings.schema)
        self.rows: list[tuple[Any, ...]] = []
        """Time, the values, and whether each outcome happened."""
        self.told: list[Rejected] = []
        for batch in FileSource(config, vocabulary, follow=False).batches():
            events = batch.events
            self.told += batch.rejected
            for at, codes, failed in zip(events.at, events.values, events.failed, strict=True):
                values = [vocabulary.text(i, int(code)) for i, code in enumerate(codes)]
                self.rows.append((str(at), *values, *map(bool, failed)))

    @property
    def failed(self) -> list[bool]:
        return [row[-1] for row in self.rows]

    @property
    def counts(self) -> Counter[str]:
        counted: Counter[str] = Counter()
        for one in self.told:
            counted[one.reason] += one.count
        return counted


def config(folder: Path, schema: str = "", source: str = "", when: str = "status >= 500") -> Config:
    (folder / "monitor.toml").write_text(
        f"""
        [source]
        paths = ["log*"]
        max_rejected_ratio = 1
        {source}
        [schema]
        time = "at"
        attributes = ["region"]
        outcomes = [{{ name = "failed", when = '{when}' }}]
        {schema}
        """
    )
    return load(folder / "monitor.toml", {})


def read(folder: Path, kind: str, rows: list[dict[str, Any]], **how: str) -> Told:
    """`rows` as a log of a kind."""
    rows = [{"at": AT, "region": "north", "status": "200"} | row for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    match kind:
        case "csv":
            lines = [names, *([str(row.get(name, "")) for name in names] for row in rows)]
            quoted = (",".join(f'"{cell}"' for cell in line) + "\n" for line in lines)
            (folder / "log.csv").write_text("".join(quoted))
        case "jsonl":
            (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        case "parquet":
            pq.write_table(pa.Table.from_pylist(rows), folder / "log.parquet")
    return Told(config(folder, **how))


KINDS = pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])


# dash-drops-failures


def test_dash_drops_failures(tmp_path: Path) -> None:
    shutil.copytree(FIELD / "dash-drops-failures", tmp_path, dirs_exist_ok=True)
    told = Told(load(tmp_path / "monitor.toml", {}))
    assert not told.told
    log = gzip.decompress((tmp_path / "log.csv.gz").read_bytes())
    assert log.count(b",-\n") + log.count(b",-,") > 300  # on the failures, every one
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(log.replace(b",-", b",")))
    assert told.rows == Told(load(tmp_path / "monitor.toml", {})).rows
    assert sum(told.failed) > 360


WORDS = ["-", "--", "?", "n/a", "N/A", "(null)", "#N/A", "null", "NULL", "None", "nan", " - ", ""]


@KINDS
@pytest.mark.parametrize(
    ("when", "failed"),
    [
        ("status >= 500 or took > 2", [True, False, True]),
        ("coalesce(took, 99) > 2", [True, True, True]),
        ('took != "-" and took > 2', [False, False, True]),
        ("not is_null(took) and took > 2", [False, False, True]),
        ("is_null(took)", [True, True, False]),
        ('took == ""', [True, True, False]),
    ],
)
def test_words_for_none_are_missing(
    kind: str, when: str, failed: list[bool], tmp_path: Path
) -> None:
    for number, word in enumerate(WORDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows = [
            {"status": "503", "took": word, "region": word},
            {"status": "200", "took": word},
            {"status": "200", "took": "3.5"},
        ]
        told = read(folder, kind, rows, when=when)
        assert told.failed == failed, word
        assert [row[1] for row in told.rows] == ["(missing)", "north", "north"], word
        assert set(told.counts) <= {"undecided"}, word


def test_which_words_stand_for_none_can_be_said(tmp_path: Path) -> None:
    rows = [{"region": "Unknown"}, {"region": "-"}, {"region": "none"}]
    told = read(tmp_path, "csv", rows, schema='missing = ["unknown"]')
    assert [row[1] for row in told.rows] == ["(missing)", "-", "none"]


@KINDS
def test_a_cell_beside_the_point_is_told_and_the_row_is_kept(kind: str, tmp_path: Path) -> None:
    rows = [{"status": "502", "took": "0.1, 0.2"}, {"took": "0.3, 0.4"}, {"took": "0.1"}]
    told = read(tmp_path, kind, rows, when="status >= 500 or took > 2")
    assert told.failed == [True, False]  # of the second nobody knows
    assert told.counts == {"unread_number": 1, "bad_number": 1}
    first, second = told.told
    assert (first.reason, first.result) == ("unread_number", "kept")
    assert (second.reason, second.result) == ("bad_number", "rejected")
    assert first.where.rstrip("0123456789").endswith((".csv:", ".jsonl:", "row "))
    assert "`took` is not a number" in first.detail
    assert "found `0.1, 0.2`" in first.detail


def test_another_outcome_is_no_reason_to_lose_a_failure(tmp_path: Path) -> None:
    schema = "error_code = 'code'"
    rows = [{"status": "502", "took": "fast", "code": "E1"}]
    read(tmp_path, "csv", rows, schema=schema)
    path = tmp_path / "monitor.toml"
    two = 'outcomes = [{ name = "slow", when = "took > 2" }, '
    path.write_text(path.read_text().replace("outcomes = [", two))
    told = Told(load(path, {}))
    assert [row[-2:] for row in told.rows] == [(False, True)]
    assert told.counts == {"unread_number": 1}


def test_stream_records_are_read_alike(tmp_path: Path) -> None:
    settings = config(tmp_path, source='where = "kind != 5"', when="status >= 500 or took > 2")
    records = [
        {"at": AT, "status": 502, "took": "0.1, 0.2", "region": "n/a", "kind": 1},
        {"at": AT, "status": 200, "took": "0.1, 0.2", "kind": 1},
        {"at": "never", "status": 200, "kind": 5},
        {"at": AT, "region": 7.0, "kind": 1},
        {"at": AT, "region": 7, "status": 200, "took": 1, "kind": 1},
    ]
    vocabulary = Vocabulary(settings.settings.schema)
    decoded = RecordDecoder(settings, vocabulary).decode([json.dumps(r).encode() for r in records])
    assert decoded.rows.tolist() == [0, 3, 4]
    assert decoded.events.failed[:, 0].tolist() == [True, False, False]
    codes = decoded.events.values[:, 0].tolist()
    assert [vocabulary.text(0, code) for code in codes] == ["(missing)", "7", "7"]
    assert [(f.row, f.reason) for f in decoded.faults] == [(1, "bad_number"), (2, "excluded")]
    doubts = {d.reason: d.rows.tolist() for d in decoded.doubts}
    assert doubts == {"unread_number": [0], "undecided": [3]}


# flag-as-number-text


@pytest.mark.parametrize(("name", "failures"), [("retries", 33), ("pandas", 30)])
def test_flag_as_number_text(name: str, failures: int) -> None:
    told = Told(load(FIELD / "flag-as-number-text" / f"{name}.toml", {}))
    assert sum(told.failed) == failures
    assert set(told.counts) <= {"undecided"}


@KINDS
def test_a_flag_is_any_number_that_is_not_zero(kind: str, tmp_path: Path) -> None:
    words = ["2", "1.0", "true", "Yes", "-1", "1e-3", "0.0", "0", "-0", "00", "false", "off"]
    told = read(tmp_path, kind, [{"gone": word} for word in [*words, "", "-"]], when="gone")
    assert told.failed == [True] * 6 + [False] * 8
    assert told.counts == {"undecided": 2}


# Numbers


@pytest.mark.parametrize(
    ("decimal", "cells"),
    [
        ('decimal = ","', ["2500,5", "2.500,5", "2 500", "2.500", "2’500,0", "1.234.567"]),
        ('decimal = "."', ["2500.5", "2,500.5", "2 500", "2,500", "1,234,567", "+2'500."]),
    ],
)
def test_decimal_marks_and_thousands_are_read_as_the_configuration_says(
    decimal: str, cells: list[str], tmp_path: Path
) -> None:
    rows = [{"took": cell} for cell in [*cells, "0,5" if "," in decimal else "0.5"]]
    told = read(tmp_path, "csv", rows, schema=decimal, when="took >= 2500")
    assert told.failed == [True] * len(cells) + [False]


def test_a_comma_is_never_guessed_at(tmp_path: Path) -> None:
    rows = [{"took": "1,5"}, {"took": "1,234"}, {"took": "1,234.5"}]
    told = read(tmp_path, "csv", rows, when="took > 1")
    assert told.counts == {"bad_number": 3}
    assert 'say decimal = "," in [schema]' in told.told[0].detail
    told = read(tmp_path, "csv", [{"took": "0.5"}], schema='decimal = ","', when="took > 1")
    assert told.counts == {"bad_number": 1}


def test_one_number_is_one_value_however_it_is_spelt(tmp_path: Path) -> None:
    for kind, values in (("csv", ["7", "7.0"]), ("jsonl", [7, 7.0, "7"]), ("parquet", [7.0])):
        folder = tmp_path / kind
        folder.mkdir()
        told = read(folder, kind, [{"region": value} for value in values])
        assert {row[1] for row in told.rows} == {"7"}
    versions = ["4.1", "4.10", "07", "007.0"]
    told = read(tmp_path, "csv", [{"region": value} for value in versions])
    assert [row[1] for row in told.rows] == versions


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_large_whole_numbers_are_exact(kind: str, tmp_path: Path) -> None:
    large = [2**53, 2**53 + 1, 2**53 + 2]
    rows = [{"region": value, "order": value} for value in large]
    told = read(tmp_path, kind, rows, when=f"order == {2**53 + 1}")
    assert [row[1] for row in told.rows] == [str(value) for value in large]
    assert told.failed == [False, True, False]


# Names and values


def test_dots_in_keys_and_tables_in_tables_are_one_name(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"http.code.family": 503},
        {"http": {"code": {"family": 503}}},
        {"http": {"code.family": 503}},
        {"http.code": {"family": 503}},
        {"http": {"code": {"family": 200}}, "other": {"family": 503}},
    ]
    for order in (rows, rows[::-1], rows[:1] * 1500 + rows):
        told = read(tmp_path, "jsonl", order, when="http.code.family >= 500")
        assert sum(told.failed) == len(order) - 1
        assert not told.told


def test_control_characters_are_shown_harmlessly(tmp_path: Path) -> None:
    rows = [{"region": "\x1b[31mred\u202e", "status": "\x1b[2J"}, {"region": "Zürich 😀"}]
    told = read(tmp_path, "jsonl", rows)
    assert "found `\\x1b[2J`" in told.told[0].detail
    told = read(tmp_path, "jsonl", [rows[0] | {"status": "200"}, rows[1]])
    assert [row[1] for row in told.rows] == ["\\x1b[31mred\\u202e", "Zürich 😀"]


# strptime-fractions


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("kibana", "2026-03-02T00:02:48.286000"),
        ("us", "2026-03-02T05:02:48.286000"),
        ("bigquery", "2026-03-02T00:02:48.286717"),
    ],
)
def test_strptime_fractions(name: str, first: str) -> None:
    told = Told(load(FIELD / "strptime-fractions" / f"{name}.toml", {}))
    assert not told.told
    assert len(told.rows) == 200
    assert told.rows[0][0] == first


@pytest.mark.parametrize(
    ("form", "cell", "expected"),
    [
        ("%Y-%m-%d %H:%M:%S.%f", "2026-03-02 10:00:00.5", "10:00:00.500000"),
        ("%Y-%m-%d %H:%M:%S.%f", "2026-03-02 10:00:00", "10:00:00.000000"),
        ("%Y-%m-%d %H:%M:%S,%f", "2026-03-02 10:00:00,123456789", "10:00:00.123456"),
        ("%Y-%m-%d %H:%M:%S.%f %Z", "2026-03-02 10:00:00.25 UTC", "10:00:00.250000"),
        ("%Y-%m-%dT%H:%M:%S.%f%z", "2026-03-02T10:00:00.25-01:30", "11:30:00.250000"),
        ("%Y-%m-%dT%H:%M:%S.%f%z", "2026-03-02T10:00:00Z", "10:00:00.000000"),
        ("%Y-%m-%dT%H:%M:%S.%fZ", "2026-03-02T10:00:00.5Z", "10:00:00.500000"),
        ("%d/%b/%Y:%H:%M:%S %z", "02/Mar/2026:10:00:00 +0200", "08:00:00.000000"),
        ("%d.%m.%Y %H:%M:%S.%f", "02.03.2026 10:00:00.5", "10:00:00.500000"),
        ("%m/%d/%Y %I:%M:%S.%f %p", "03/02/2026 10:00:00.5 PM", "22:00:00.500000"),
    ],
)
def test_formats_with_fractions_and_zones(
    form: str, cell: str, expected: str, tmp_path: Path
) -> None:
    settings = config(tmp_path, schema='zone = "UTC"')
    path = tmp_path / "monitor.toml"
    path.write_text(
        path.read_text().replace('time = "at"', f'time = {{ column = "at", format = "{form}" }}')
    )
    (tmp_path / "log.csv").write_text(f'at,region,status\n"{cell}",n,200\n"never",n,200\n')
    assert settings.time.format is None
    told = Told(load(path, {}))
    assert [row[0] for row in told.rows] == [f"2026-03-02T{expected}"]
    assert told.counts == {"bad_time": 1}
    assert f"does not follow `{form}`" in told.told[0].detail


@pytest.mark.parametrize(
    "cell",
    ["2026-03-02 10:00:00.5 UTC", "2026-03-02T10:00:00,5Z", "2026-03-02T10:00:00.5z",
     "2026-03-02 10:00:00.5 GMT", "2026-03-02t10:00:00.500Z", "2026-03-02 11:00:00.5 +01:00"],
)  # fmt: skip
def test_times_that_carry_their_zone_need_no_format(cell: str, tmp_path: Path) -> None:
    told = read(tmp_path, "csv", [{"at": cell}])
    assert [row[0] for row in told.rows] == ["2026-03-02T10:00:00.500000"]


# time-messages


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("epoch", 'looks like seconds, but no unit; say unit = "s"'),
        ("ms", 'looks like milliseconds, not seconds; say unit = "ms"'),
        ("mixed", 'carries no zone, as others do; add zone = "UTC"'),
    ],
)
def test_time_messages(name: str, said: str) -> None:
    with pytest.raises(SourceError) as caught:
        Told(load(FIELD / "time-messages" / f"{name}.toml", {}))
    assert said in str(caught.value)
    assert f"{name}.csv:2: column `at`" in str(caught.value)


def test_a_java_pattern_is_refused_with_what_it_means() -> None:
    with pytest.raises(ConfigError) as caught:
        load(FIELD / "time-messages" / "java-format.toml", {})
    (problem,) = caught.value.problems
    assert problem.key == "schema.time.format"
    assert problem.fix == 'write format = "%Y-%m-%d %H:%M:%S"'


@pytest.mark.parametrize(
    ("form", "fix"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", 'write format = "%Y-%m-%dT%H:%M:%S.%f%z"'),
        ("dd/MMM/yyyy:HH:mm:ss Z", 'write format = "%d/%b/%Y:%H:%M:%S %z"'),
        ("MM/dd/yyyy hh:mm:ss a", 'write format = "%m/%d/%Y %I:%M:%S %p"'),
        ("YYYY-MM-DD HH24:MI:SS", 'write format = "%Y-%m-%d %H:%M:%S"'),
        ("iso8601", "leave it out for ISO 8601"),
        ("%Y-%m-%d %Q", "known are %Y"),
        ("%s", 'write unit = "s"'),
        ("%b %d %H:%M:%S", "have the log write whole times"),
    ],
)
def test_what_is_no_format_is_found_before_a_row_is_read(
    form: str, fix: str, tmp_path: Path
) -> None:
    config(tmp_path)
    path = tmp_path / "monitor.toml"
    path.write_text(
        path.read_text().replace('time = "at"', f'time = {{ column = "at", format = "{form}" }}')
    )
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert fix in caught.value.problems[0].fix


@pytest.mark.parametrize(
    ("schema", "cell", "said"),
    [
        ('unit = "ms"', "1772409768", 'looks like seconds, not milliseconds; say unit = "s"'),
        ('unit = "s"', "1772409768286717", 'looks like microseconds, not seconds; say unit = "us"'),
        ('unit = "s"', "2026-03-02T00:00:00Z", "is written out, no number; leave `unit` out"),
        ("", "2026-03-02 10:00:00 CEST", "ends in the name of a zone"),
        ("", "1772409768.5", 'looks like seconds, but no unit; say unit = "s"'),
        ("", "yesterday", "holds no time that is understood, so the row is left out; write ISO"),
        ("", "", "holds no time: it is empty"),
        ("", "2026-02-30T00:00:00Z", "holds no time: there is no such day"),
    ],
)
def test_what_is_wrong_with_a_time_is_said(
    schema: str, cell: str, said: str, tmp_path: Path
) -> None:
    told = read(tmp_path, "csv", [{"at": cell}, {}], schema=schema)
    assert said in told.told[0].detail


# Which rows count


@KINDS
def test_where_keeps_rows_out_and_counts_them_apart(kind: str, tmp_path: Path) -> None:
    rows = [
        {"path": "/health", "at": "never"},
        {"path": "/pay", "status": "503"},
        {"path": "/health", "status": "503", "region": "probe"},
        {"path": "/pay", "status": "200"},
    ]
    told = read(tmp_path, kind, rows, source="""where = 'path != "/health"'""")
    assert [row[1:] for row in told.rows] == [("north", True), ("north", False)]
    assert told.counts == {"excluded": 2}
    assert [one.result for one in told.told] == ["excluded"]


def test_where_is_checked_with_the_rest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, source='where = "path = 1"')
    assert caught.value.problems[0].key == "source.where"
    with pytest.raises(SourceError, match=r"no column `path` for `source\.where`"):
        read(tmp_path, "csv", [{}], source='where = "path == 1"')


@KINDS
def test_a_record_without_any_outcome_is_no_success_in_silence(kind: str, tmp_path: Path) -> None:
    told = read(tmp_path, kind, [{"status": "503"}, {"status": None if kind != "csv" else ""}])
    assert told.failed == [True, False]
    assert told.counts == {"undecided": 1}
    assert "without a value in `status`" in told.told[0].detail


def test_check_tells_what_was_kept_and_what_was_left_out(tmp_path: Path) -> None:
    rows = [{"path": "/pay", "status": "502", "took": "0.1, 0.2"}, {"path": "/health"}]
    read(
        tmp_path, "csv", rows, when="status >= 500 or took > 2",
        source="""where = 'path == "/pay"'""",
    )  # fmt: skip
    done = CliRunner().invoke(app, ["check", "-c", str(tmp_path / "monitor.toml")])
    assert done.exit_code == 0, done.output
    assert "kept: 1 × unread_number, 100.00% of the rows" in done.output
    assert "log.csv:2: column `took` is not a number" in done.output
    assert 'excluded: 1, 50.00% of all records, not `path == "/pay"`' in done.output


def test_the_first_row_is_quoted_with_its_own_reason(tmp_path: Path) -> None:
    rows = [{"status": "oops"}, {"at": "never"}] * 80
    read(tmp_path, "csv", rows)
    path = tmp_path / "monitor.toml"
    path.write_text(path.read_text().replace("max_rejected_ratio = 1", ""))
    with pytest.raises(SourceError, match=r"log.csv:2: column `status` is not a number.*`oops`"):
        Told(load(path, {}))

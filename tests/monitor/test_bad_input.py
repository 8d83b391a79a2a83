"""Input that is broken in every way we could think of: named and counted; the rest is kept."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.config import Config, load
from monitor.domain import Batch, Rejected
from monitor.edge import blocks
from monitor.edge.decoding import LISTED, Decoder
from monitor.edge.files import FileSource
from monitor.edge.json_records import RecordDecoder
from monitor.edge.source import SourceError
from monitor.vocabulary import Vocabulary

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


def config(folder: Path, time: str = '"at"', **more: str) -> Config:
    """A small configuration; `more` are further lines of [schema] or [source]."""
    schema = "\n".join(f"{key} = {value}" for key, value in more.items() if key != "source")
    (folder / "monitor.toml").write_text(
        f"""
        [source]
        paths = ["log*"]
        {more.get("source", "")}
        [schema]
        time = {time}
        attributes = ["region"]
        outcomes = [{{ name = "failed", when = "status >= 500" }}]
        {schema}
        """
    )
    return load(folder / "monitor.toml", {})


class Told:
    """What came out of a pass."""

    def __init__(self, settings: Config, follow: bool = False) -> None:
        self.vocabulary = Vocabulary(settings.settings.schema)
        self.source = FileSource(settings, self.vocabulary, follow=follow)
        self.batches: list[Batch] = list(self.source.batches())

    @property
    def times(self) -> list[str]:
        return [str(at) for batch in self.batches for at in batch.events.at]

    @property
    def regions(self) -> list[str]:
        codes = [int(c) for batch in self.batches for c in batch.events.values[:, 0]]
        return [self.vocabulary.text(0, code) for code in codes]

    @property
    def failed(self) -> list[bool]:
        return [bool(f) for batch in self.batches for f in batch.events.failed[:, 0]]

    @property
    def rejected(self) -> list[Rejected]:
        return [one for one in self.told if one.result == "rejected"]

    @property
    def kept(self) -> list[Rejected]:
        return [one for one in self.told if one.result == "kept"]

    @property
    def told(self) -> list[Rejected]:
        return [rejected for batch in self.batches for rejected in batch.rejected]

    @property
    def count(self) -> int:
        return sum(rejected.count for rejected in self.rejected)


def parquet(path: Path, **columns: Any) -> None:
    rows = max(len(column) for column in columns.values())
    given = {
        "at": pa.array([NOON] * rows, pa.timestamp("us", "UTC")),
        "region": ["north"] * rows,
        "status": [200] * rows,
    }
    pq.write_table(pa.table(given | columns), path)


def lines(path: Path, *rows: dict[str, Any] | str | bytes) -> None:
    ready = []
    for row in rows:
        if isinstance(row, dict):
            whole = {"at": NOON.isoformat(), "region": "north", "status": 200} | row
            row = json.dumps({k: v for k, v in whole.items() if v != "left out"})
        ready.append(row if isinstance(row, bytes) else row.encode())
    path.write_bytes(b"".join(row + b"\n" for row in ready))


# The input as a whole


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_a_missing_column_is_found_before_a_row_is_read(kind: str, tmp_path: Path) -> None:
    good, bad = tmp_path / f"log1.{kind}", tmp_path / f"log2.{kind}"
    if kind == "parquet":
        parquet(good, status=[200])
        pq.write_table(pq.read_table(good).rename_columns(["at", "Region", "status"]), bad)
    elif kind == "csv":
        good.write_text("at,region,status\n2024-03-01T12:00Z,north,200\n")
        bad.write_text("at,Region,status\n2024-03-01T12:00Z,north,200\n")
    else:
        lines(good, {})
        lines(bad, {"region": "left out", "Region": "north"})
    source = FileSource(config(tmp_path), Vocabulary(config(tmp_path).settings.schema))
    with pytest.raises(SourceError) as caught:
        next(source.batches())
    assert str(caught.value) == (
        f"{bad}: no column `region` for attribute `region`; did you mean `Region`?"
    )


def test_every_missing_column_is_named_with_its_purpose(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("when,area\n1,2\n")
    with pytest.raises(SourceError) as caught:
        Told(config(tmp_path))
    said = str(caught.value)
    assert "no column `at` for the event time" in said
    assert "no column `region` for attribute `region`" in said
    assert "no column `status` for outcome `failed`; known are `" in said


def test_fields_that_only_failures_carry_may_be_absent_from_json(tmp_path: Path) -> None:
    lines(tmp_path / "log.jsonl", {"status": "left out"}, {"status": 503, "code": "E1"})
    told = Told(config(tmp_path, error_code='"code"'))
    assert told.failed == [False, True]
    assert told.batches[0].events.values[:, 1].tolist() == [-1, 1]


@pytest.mark.parametrize("naive", [datetime(2024, 3, 1, 12), date(2024, 3, 1), "2024-03-01 12:00"])
def test_times_without_a_zone_stop_everything_with_the_cure(naive: Any, tmp_path: Path) -> None:
    parquet(tmp_path / "log.parquet", at=[naive])
    with pytest.raises(SourceError, match=r'log.parquet: column `at` carries no.*zone = "UTC"'):
        Told(config(tmp_path))


def test_numbers_without_a_unit_stop_everything_with_the_cure(tmp_path: Path) -> None:
    parquet(tmp_path / "log.parquet", at=[1_700_000_000])
    with pytest.raises(SourceError, match='holds numbers; say what they count: unit = "s"'):
        Told(config(tmp_path))


@pytest.mark.parametrize("wrong", [[True], [[1]], [{"a": 1}], [time(12)]])
def test_a_column_that_is_no_time_stops_everything(wrong: list[Any], tmp_path: Path) -> None:
    parquet(tmp_path / "log.parquet", at=wrong)
    with pytest.raises(SourceError, match="which is no time"):
        Told(config(tmp_path))


def test_a_wrong_configuration_does_not_pass_for_bad_data(tmp_path: Path) -> None:
    parquet(tmp_path / "log.parquet", status=["fine"] * 30 + ["200"] * 70)
    with pytest.raises(SourceError, match=r"30 of 100 rows cannot be .*max_rejected_ratio` = 0.2"):
        Told(config(tmp_path))
    told = Told(config(tmp_path, source="max_rejected_ratio = 0.3"))
    assert (len(told.failed), told.count) == (70, 30)


def test_no_input_and_nothing_awaited(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="matches no file"):
        Told(config(tmp_path))
    vocabulary = Vocabulary(config(tmp_path).settings.schema)
    with pytest.raises(SourceError, match="no input: name files"):
        list(FileSource(config(tmp_path), vocabulary, []).batches())
    with pytest.raises(SourceError, match="is a folder"):
        list(FileSource(config(tmp_path), vocabulary, [str(tmp_path)], follow=False).batches())


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("at,region,status,region\n2024-03-01T12:00Z,a,200,b\n")
    with pytest.raises(SourceError, match="column `region` is there twice; rename one"):
        Told(config(tmp_path))


def test_columns_nobody_asked_for_may_share_a_name(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("x,at,region,x,status\n1,2024-03-01T12:00Z,a,2,200\n")
    assert Told(config(tmp_path)).regions == ["a"]


# Headers within


ROW = "2024-03-01T12:00Z,{},200,y\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("size", [1 << 20, 300], ids=["one block", "many blocks"])
def test_a_header_within_a_log_says_how_the_rows_below_it_are_made_up(
    end: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files were put one behind the other: the same header is no row, another one counts."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    head = "at,region,status,zone\n"
    same = head + ROW.format("a") * 20
    other = "status,zone,at,region\n" + "503,y,2024-03-01T12:00Z,b\n" * 20
    wider = "zone,more,region,at,status\n" + "y,1,c,2024-03-01T12:00Z,200\n" * 20
    (tmp_path / "log.csv").write_bytes((same * 2 + other + wider).replace("\n", end).encode())
    told = Told(config(tmp_path))
    assert told.regions == ["a"] * 40 + ["b"] * 20 + ["c"] * 20
    assert told.failed == [False] * 40 + [True] * 20 + [False] * 20
    assert told.told == []


def test_a_log_that_grows_goes_on_under_its_latest_header(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("at,region,status\nstatus,region,at\n503,a,2024-03-01T12:00Z\n")
    told = Told(config(tmp_path), follow=True)
    with log.open("a") as file:
        file.write("503,b,2024-03-01T12:00Z\n")
    told.batches += told.source.batches(told.batches[-1].position)
    assert (told.regions, told.failed) == (["a", "b"], [True, True])


def test_a_later_header_without_a_column_is_told(tmp_path: Path) -> None:
    rows = "at,region,status,zone\n" + ROW.format("a") + "at,site,status,zone\n" + ROW.format("b")
    (tmp_path / "log.csv").write_text(rows)
    told = Told(config(tmp_path, source="max_rejected_ratio = 1"))
    assert told.regions == ["a", "(missing)"]
    (rejected,) = told.rejected
    assert (rejected.reason, rejected.where) == ("bad_header", f"{tmp_path / 'log.csv'}:3")
    assert "without column `region`" in rejected.detail
    (tmp_path / "log.csv").write_text(
        "#Version: 1.0\n#Fields: at region status\n"
        "2024-03-01T12:00Z a 200\n#Fields: at status\n2024-03-01T12:00Z 200\n"
    )
    told = Told(config(tmp_path, source="max_rejected_ratio = 1\nformat = 'w3c'"))
    assert told.regions == ["a", "(missing)"]
    assert [one.where for one in told.rejected] == [f"{tmp_path / 'log.csv'}:4"]


def test_a_header_in_a_quoted_field_is_a_text(tmp_path: Path) -> None:
    quoted = '2024-03-01T12:00Z,a,200,"\nregion,at,status,zone\n"\n'
    (tmp_path / "log.csv").write_text("at,region,status,zone\n" + quoted + ROW.format("b"))
    told = Told(config(tmp_path))
    assert (told.regions, told.told) == (["a", "b"], [])


@pytest.mark.parametrize("cells", ["at,b", "region,b", "at,status", "zone,at"])
def test_a_value_that_is_called_like_a_column_is_no_header(cells: str, tmp_path: Path) -> None:
    first, second = cells.split(",")
    rows = f"region,at,status,site,zone,lane\n{first},2024-03-01T12:00Z,200,{second},,\n"
    (tmp_path / "log.csv").write_text(rows)
    assert Told(config(tmp_path)).regions == [first]


def test_a_log_without_a_header_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(ROW.format("a") * 3)
    with pytest.raises(SourceError, match="is the first line the header"):
        Told(config(tmp_path))


def test_a_delimiter_at_the_end_of_rows_only_is_told_with_its_cure(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("at,region,status\n" + "2024-03-01T12:00Z,a,200,\n" * 200)
    with pytest.raises(SourceError, match="for it ends in `,`; end the header in it, too"):
        Told(config(tmp_path))


# Files


@pytest.mark.parametrize("name", ["log0.parquet", "log0.csv", "log0.jsonl", "log0.jsonl.gz"])
def test_an_empty_file_is_named_and_the_others_go_on(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
    parquet(tmp_path / "log1.parquet", status=[200, 500])
    told = Told(config(tmp_path))
    assert told.failed == [False, True]
    (rejected,) = told.rejected
    assert (rejected.reason, rejected.where) == ("empty_file", str(tmp_path / name))


def test_an_archive_or_a_spreadsheet_is_told(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "log.xlsx", "w") as archive:
        archive.writestr("log.csv", "at,region,status\n")
    (rejected,) = Told(config(tmp_path)).rejected
    assert rejected.reason == "wrong_format"
    assert "is a ZIP archive or a spreadsheet; unpack it" in rejected.detail


@pytest.mark.parametrize("field", ["region", "beside"])
def test_numbers_that_json_does_not_have_cost_no_row(field: str, tmp_path: Path) -> None:
    """As Python writes them: `NaN` is a missing value, wherever it stands."""
    lines(tmp_path / "log.jsonl", {field: float("nan"), "status": 503}, {"more": float("inf")})
    told = Told(config(tmp_path))
    assert told.rejected == []
    assert told.failed == [True, False]
    row = {"at": NOON.isoformat(), "region": "north", "status": 503, field: float("nan")}
    decoded = RecordDecoder(config(tmp_path), told.vocabulary).decode([json.dumps(row).encode()])
    assert not decoded.faults


def test_a_log_of_blank_lines_is_empty(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("\n\r\n  \n")
    (rejected,) = Told(config(tmp_path)).rejected
    assert rejected.reason == "empty_file"


def test_a_log_that_was_only_just_created_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(b"")
    assert Told(config(tmp_path), follow=True).batches == []


def test_blank_lines_before_a_header_are_passed_over(tmp_path: Path) -> None:
    rows = "2024-03-01T12:00Z,a,200\nnever,b,200\n"
    (tmp_path / "log.csv").write_text("\n\r\nat,region,status\n" + rows)
    told = Told(config(tmp_path))
    assert told.regions == ["a"]
    assert told.rejected[0].where == f"{tmp_path / 'log.csv'}:5"


def test_a_header_without_rows_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("at,region,status\n")
    told = Told(config(tmp_path))
    assert (told.failed, told.rejected) == ([], [])


@pytest.mark.parametrize("keep", [0.5, 0.99])
def test_a_torn_parquet_file_is_named_once_and_read_when_whole(keep: float, tmp_path: Path) -> None:
    parquet(tmp_path / "whole", status=[500] * 1000)
    data = (tmp_path / "whole").read_bytes()
    (tmp_path / "log0.parquet").write_bytes(data[: int(len(data) * keep)])
    parquet(tmp_path / "log1.parquet", status=[200])
    told = Told(config(tmp_path), follow=True)
    assert told.failed == [False]
    (rejected,) = told.rejected
    assert rejected.reason == "broken_file"
    assert rejected.where == str(tmp_path / "log0.parquet")
    assert "no complete Parquet file" in rejected.detail
    position = told.batches[-1].position
    assert list(told.source.batches(position)) == []
    (tmp_path / "log0.parquet").write_bytes(data)
    (batch,) = told.source.batches(position)
    assert batch.events.failed.sum() == 1000


def test_parquet_with_a_damaged_page_keeps_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    parquet(path, status=list(range(1000)))
    data = bytearray(path.read_bytes())
    data[len(data) // 3 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 3)
    path.write_bytes(bytes(data))
    (rejected,) = Told(config(tmp_path)).rejected
    assert rejected.reason == "broken_file"


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_torn_archive_gives_what_it_has_and_goes_on_when_whole(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 12)
    dice = np.random.default_rng(3)
    lines(tmp_path / "whole", *({"region": f"r{i}"} for i in dice.integers(0, 10**9, 5000)))
    data = (tmp_path / "whole").read_bytes()
    packed = gzip.compress(data) if suffix == "gz" else pa.compress(data, "zstd", asbytes=True)
    path = tmp_path / f"log.jsonl.{suffix}"
    path.write_bytes(packed[: len(packed) // 2])
    told = Told(config(tmp_path), follow=True)
    assert [rejected.reason for rejected in told.rejected] == ["truncated"]
    some = len(told.regions)
    assert some < 5000
    path.write_bytes(packed)
    rest = list(told.source.batches(told.batches[-1].position))
    assert some + sum(len(batch.events) for batch in rest) == 5000


def test_files_that_are_not_what_they_say(tmp_path: Path) -> None:
    parquet(tmp_path / "log.jsonl", status=[200])
    (tmp_path / "log.parquet").write_text("at,region,status\n")
    (tmp_path / "log_packed.csv.gz").write_bytes(b"\x1f\x8b" + b"no gzip after all" * 9)
    said = {Path(r.where).name: (r.reason, r.detail) for r in Told(config(tmp_path)).rejected}
    assert said["log.jsonl"][0] == "wrong_format"
    assert said["log.parquet"][0] == "broken_file"
    assert said["log_packed.csv.gz"][0] == "broken_file"


def test_something_without_line_ends_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(blocks, "MAX_RECORD_BYTES", 1 << 12)
    with (tmp_path / "log.csv").open("w") as file:
        file.write("at,region,status\n" + "x" * 20_000)
    (rejected,) = Told(config(tmp_path), follow=True).rejected
    assert (rejected.reason, rejected.where) == ("too_long", f"{tmp_path / 'log.csv'}:2")


# Rows


def test_one_percent_of_broken_json_leaves_the_rest_counted_exactly(tmp_path: Path) -> None:
    dice = np.random.default_rng(11)
    broken = ['{"at": "2024', "null", "[1]", "}", '{"at": 1} {"at": 2}', "\xff", '"text"']
    rows: list[dict[str, Any] | str] = []
    for i in range(20_000):
        rows.append({"region": f"r{i % 7}", "status": int(dice.choice([200, 500]))})
    bad = sorted(dice.choice(20_000, 200, replace=False).tolist())
    for n, i in enumerate(bad):
        rows[i] = broken[n % len(broken)]
    good = [row for row in rows if isinstance(row, dict)]
    lines(tmp_path / "log.jsonl", *rows)
    told = Told(config(tmp_path))
    assert told.regions == [row["region"] for row in good]
    assert told.failed == [row["status"] == 500 for row in good]
    assert told.count == 200
    assert {r.reason for r in told.rejected} == {"not_json"}
    one_by_one = [r for r in told.rejected if r.count == 1]
    assert len(one_by_one) == LISTED
    assert [r.where for r in one_by_one] == [
        f"{tmp_path / 'log.jsonl'}:{i + 1}" for i in bad[:LISTED]
    ]
    assert one_by_one[0].raw == b'{"at": "2024'


def test_json_whose_types_waver_is_read_all_the_same(tmp_path: Path) -> None:
    lines(
        tmp_path / "log.jsonl",
        {"region": 5, "status": 200},
        {"region": "5", "status": "500"},
        {"region": True, "status": 500.5},
        {"region": None, "status": None},
        {"region": 10**30, "status": 10**30},
        {"region": ["a"], "status": 500},
        {"region": 1.5, "status": "broken"},
    )
    told = Told(config(tmp_path))
    assert told.regions == ["5", "5", "true", "(missing)", "1e+30"]
    assert told.failed == [False, True, True, False, True]
    reasons = {r.where.split(":")[-1]: (r.reason, r.detail) for r in told.rejected}
    nested = "field `region` holds a list or a table; name a field with plain values"
    assert reasons["6"] == ("bad_value", nested)
    assert reasons["7"][0] == "bad_number"
    assert "column `status` is not a number" in reasons["7"][1]
    assert reasons["7"][1].endswith("found `broken`")


def test_unparsable_times_are_named_with_line_field_and_value(tmp_path: Path) -> None:
    good = ["2024-03-01T12:00:00Z", "2024-03-01 13:00:00+01:00", "2024-03-01T12:00:00.123456789Z"]
    bad = ["yesterday", "2024-02-30T12:00:00Z", "2024-13-01T00:00:00Z", "", "24-03-01", "0"]
    text = "".join(f"{at},north,200\n" for at in [*bad, *good])
    (tmp_path / "log.csv").write_text("at,region,status\n" + text)
    told = Told(config(tmp_path))
    noon = "2024-03-01T12:00:00.000000"
    assert told.times == [noon, noon, "2024-03-01T12:00:00.123456"]
    assert [r.where for r in told.rejected] == [
        f"{tmp_path / 'log.csv'}:{line}" for line in range(2, 8)
    ]
    assert {r.reason for r in told.rejected} == {"bad_time"}
    assert "column `at` holds no time" in told.rejected[0].detail
    assert told.rejected[0].detail.endswith("found `yesterday`")


def test_a_few_times_without_a_zone_are_bad_rows_not_a_bad_configuration(tmp_path: Path) -> None:
    rows = [{"at": "2024-03-01T12:00:00Z"}] * 9 + [{"at": "2024-03-01T12:00:00"}]
    lines(tmp_path / "log.jsonl", *rows)
    told = Told(config(tmp_path))
    assert (len(told.times), told.count) == (9, 1)


def test_moments_at_the_ends_of_time_do_not_overflow(tmp_path: Path) -> None:
    years = [1, 1677, 1969, 1970, 1971, 2099, 2263, 9998, 9999]
    at = np.array([f"{y:04}-06-01T00:00" for y in years], "datetime64[ms]")
    parquet(tmp_path / "log.parquet", at=pa.array(at, pa.timestamp("ms", "UTC")))
    told = Told(config(tmp_path))
    # The far future is for the slicer to judge, which knows what time it is.
    assert [t[:4] for t in told.times] == ["1970", "1971", "2099", "2263", "9998"]
    assert told.count == 4
    assert "before 1970 or after 9998" in told.rejected[0].detail


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_numbers_beyond_all_calendars_are_rejected_not_wrapped(unit: str, tmp_path: Path) -> None:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    noon = int(NOON.timestamp()) * per_second
    (tmp_path / "log1.csv").write_text(
        "at,region,status\n"
        + "".join(f"{n},x,200\n" for n in [noon, 2**63 - 1, -(2**63), 10**40, "inf", "nan", 0])
    )
    parquet(tmp_path / "log2.parquet", at=[noon, 2**63 - 1, -(2**63), None, 0])
    parquet(tmp_path / "log3.parquet", at=[float(noon), 1e300, float("nan"), float("inf")])
    told = Told(config(tmp_path, unit=f'"{unit}"'))
    assert told.times[0] == "2024-03-01T12:00:00.000000"
    # As nanoseconds the largest number is a time, and the slicer's to judge.
    assert {t[:19] for t in told.times} <= {told.times[0][:19], "2262-04-11T23:47:16"}
    assert len(told.times) + told.count == 16


def test_the_clock_of_a_zone_jumps_and_repeats(tmp_path: Path) -> None:
    local = [
        datetime(2013, 3, 10, 1, 59),  # the last minute before the jump
        datetime(2013, 3, 10, 2, 30),  # skipped: taken as the jump itself
        datetime(2013, 3, 10, 3, 0),
        datetime(2013, 11, 3, 1, 30),  # happens twice: taken as the first
        datetime(2013, 11, 3, 2, 0),
    ]
    parquet(tmp_path / "log.parquet", at=pa.array(local, pa.timestamp("us")))
    told = Told(config(tmp_path, zone='"America/New_York"'))
    assert [t[5:16] for t in told.times] == [
        "03-10T06:59",
        "03-10T07:00",
        "03-10T07:00",
        "11-03T05:30",
        "11-03T07:00",
    ]


@pytest.mark.parametrize(
    ("clock", "format", "expected"),
    [
        ([515, 5, 2359, 2400, 1275, -1, None, 9999], "HHMM", ["05:15", "00:05", "23:59", "00:00"]),
        (["0515", "5", "2359", "2400", "12:75", "x", "", "12.5"], "HHMM", None),
        (["05:15", "0:05:00", "23:59", "24:00", "12:75", "x", None, "1:2"], "HH:MM", None),
        ([time(5, 15), time(0, 5), time(23, 59), time(0), None, None, None, None], "HHMM", None),
    ],
)
def test_a_clock_beside_a_date(
    clock: list[Any], format: str, expected: list[str] | None, tmp_path: Path
) -> None:
    parquet(tmp_path / "log.parquet", day=[date(2024, 3, 1)] * 8, clock=clock)
    table = f'{{ date = "day", clock = "clock", format = "{format}", zone = "UTC" }}'
    told = Told(config(tmp_path, table))
    assert [t[11:16] for t in told.times] == (expected or ["05:15", "00:05", "23:59", "00:00"])
    assert told.count == 4


@pytest.mark.parametrize("day", ["2024-03-01", 20240301, date(2024, 3, 1)])
def test_a_date_in_any_dress(day: Any, tmp_path: Path) -> None:
    parquet(tmp_path / "log.parquet", day=[day, None], clock=[1200, 1200])
    table = '{ date = "day", clock = "clock", zone = "UTC" }'
    told = Told(config(tmp_path, table))
    assert (told.times, told.count) == (["2024-03-01T12:00:00.000000"], 1)


def test_dates_as_text_are_read_cell_by_cell_when_some_are_wrong(tmp_path: Path) -> None:
    days = ["2024-03-01", " 2024-03-01 00:00", "2024-02-30", "soon", None]
    parquet(tmp_path / "log.parquet", day=days, clock=["12:00"] * 5)
    table = '{ date = "day", clock = "clock", format = "HH:MM", zone = "UTC" }'
    told = Told(config(tmp_path, table))
    assert told.times == ["2024-03-01T12:00:00.000000"] * 2
    assert told.count == 3


def test_a_date_beyond_all_calendars_does_not_overflow(tmp_path: Path) -> None:
    days = pa.array([2**31 - 1, -(2**31), 19783], pa.int32()).cast(pa.date32())
    parquet(tmp_path / "log.parquet", day=days, clock=[1200] * 3)
    told = Told(config(tmp_path, '{ date = "day", clock = "clock", zone = "UTC" }'))
    assert (told.times, told.count) == (["2024-03-01T12:00:00.000000"], 2)


def test_a_clock_of_numbers_is_not_taken_for_text(tmp_path: Path) -> None:
    parquet(tmp_path / "log.parquet", day=[date(2024, 3, 1)], clock=[515])
    with pytest.raises(SourceError, match='if 515 means 05:15, write format = "HHMM"'):
        Told(config(tmp_path, '{ date="day", clock="clock", format="HH:MM", zone="UTC" }'))


def test_a_column_without_any_value(tmp_path: Path) -> None:
    parquet(tmp_path / "log.parquet", at=pa.nulls(3), status=pa.nulls(3), region=pa.nulls(3))
    assert Told(config(tmp_path, zone='"UTC"')).count == 3


def test_flags_in_every_spelling(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "at,region,status,gone\n"
        + "".join(
            f"2024-03-01T12:00Z,x,200,{word}\n"
            for word in ["yes", "TRUE", " 1", "n", "0", "False", "", "NA", "perhaps"]
        )
    )
    path = tmp_path / "monitor.toml"
    config(tmp_path)
    path.write_text(path.read_text().replace("status >= 500", "gone"))
    told = Told(load(path, {}))
    assert told.failed == [True] * 3 + [False] * 5
    assert [r.reason for r in told.rejected] == ["bad_flag"]
    assert [r.reason for r in told.kept] == ["undecided"] * 2


def test_numbers_and_texts_of_other_types(tmp_path: Path) -> None:
    status = pa.array(["503", "200"]).dictionary_encode()
    parquet(tmp_path / "log1.parquet", status=status)
    parquet(tmp_path / "log2.parquet", status=[True, False])
    parquet(tmp_path / "log3.parquet", status=pa.array([b"503", b"5\xff3"]))
    parquet(tmp_path / "log4.parquet", status=[date(2024, 3, 1)])
    told = Told(config(tmp_path))
    assert told.failed == [True, False, False, False, True]
    assert [r.reason for r in told.rejected] == ["bad_number", "bad_value"]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()],
    ids=str,
)
def test_text_in_every_shape_that_arrow_has(kind: pa.DataType, tmp_path: Path) -> None:
    def column(*words: str | None) -> pa.Array:
        cells = words if "str" in str(kind) else [w and w.encode() for w in words]
        return pa.array(cells, kind)

    parquet(
        tmp_path / "log.parquet",
        at=column("2024-03-01T12:00:00Z", "2024-03-01", None),
        region=column("Łódź", None, "x"),
        status=column("503", "200", "200"),
    )
    told = Told(config(tmp_path, zone='"UTC"'))
    assert told.times == ["2024-03-01T12:00:00.000000", "2024-03-01T00:00:00.000000"]
    assert (told.regions, told.failed, told.count) == (["Łódź", "(missing)"], [True, False], 1)


def test_a_format_of_ones_own(tmp_path: Path) -> None:
    words = ["01/Mar/2024:13:00:00 +0100", "01/Mar/2024", "rubbish"]
    parquet(tmp_path / "log.parquet", at=words)
    told = Told(config(tmp_path, '{ column = "at", format = "%d/%b/%Y:%H:%M:%S %z" }'))
    assert (told.times, told.count) == (["2024-03-01T12:00:00.000000"], 2)


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_broken_utf8_costs_its_own_row_only(kind: str, tmp_path: Path) -> None:
    regions = [b"north", b"caf\xe9", "Łódź".encode(), b""]
    if kind == "csv":
        rows = b"".join(b"2024-03-01T12:00Z," + r + b",200\n" for r in regions)
        (tmp_path / "log.csv").write_bytes(b"at,region,status\n" + rows)
    elif kind == "parquet":
        broken = pa.array(regions, pa.binary()).view(pa.string())
        parquet(tmp_path / "log.parquet", region=broken)
    else:
        row = b'{"at": "2024-03-01T12:00Z", "status": 200, "region": "%b"}'
        lines(tmp_path / "log.jsonl", *(row % region for region in regions))
    told = Told(config(tmp_path))
    assert told.regions == ["north", "Łódź", "(missing)"]
    (rejected,) = told.rejected
    assert "UTF-8" in rejected.detail
    assert rejected.where.endswith(":3" if kind == "csv" else "2")


def test_rows_of_the_wrong_width_and_stray_quotes_cost_their_own_line_only(tmp_path: Path) -> None:
    at = "2024-03-01T12:00Z"
    (tmp_path / "log.csv").write_text(
        "at,region,status\r\n"
        f"{at},a,200\r\n"
        f"{at},too,many,200\r\n"
        f'{at},"never closed,200\r\n'
        f"{at},b,500\r\n"
        "\r\n"
        f'{at},"say ""c""",200\r\n'
        f'{at},"on two\nlines",500\r\n'
        f'{at},5" pipe,200\r\n'
        f"{at}\r\n"
        f"{at},d,oops\r\n"
        f'{at},"e",500'
    )
    told = Told(config(tmp_path))
    assert told.regions == ["a", "b", 'say "c"', "on two\\nlines", '5" pipe', "e"]
    assert told.failed == [False, True, False, True, False, True]
    assert {(r.reason, int(r.where.split(":")[-1])) for r in told.rejected} == {
        ("bad_row", 3),
        ("bad_row", 4),
        ("bad_row", 11),
        ("bad_number", 12),
    }


def test_a_row_that_is_neither_wide_enough_nor_utf8_costs_itself_only(tmp_path: Path) -> None:
    at = b"2024-03-01T12:00Z"
    rows = [b"%b,a,200" % at, b"%b,caf\xe9" % at, b'%b,"b,c",500' % at, b"%b,\xff,200" % at]
    (tmp_path / "log.csv").write_bytes(b"at,region,status\n" + b"\n".join(rows) + b"\n")
    told = Told(config(tmp_path))
    assert told.regions == ["a", "b,c"]
    assert [(r.reason, r.where.split(":")[-1]) for r in told.rejected] == [
        ("bad_row", "3"),
        ("bad_value", "5"),
    ]


def test_a_moment_that_no_calendar_holds_is_shown_all_the_same(tmp_path: Path) -> None:
    parquet(tmp_path / "log.parquet", at=pa.array([2**62], pa.timestamp("us", "UTC")))
    (rejected,) = Told(config(tmp_path)).rejected
    assert str(2**62) in rejected.detail


def test_wrong_types_in_a_column_are_told_by_row(tmp_path: Path) -> None:
    status = ["200", " 503 ", "5e2", "+500", "abc", "NA", "", None, "1_000", "٣"]
    parquet(tmp_path / "log.parquet", status=status)
    told = Told(config(tmp_path))
    assert told.failed == [False, True, True, True, False, False, False]
    assert [r.where.split()[-1] for r in told.rejected] == ["5", "9", "10"]


def test_a_column_of_lists_is_refused_row_by_row_until_the_limit(tmp_path: Path) -> None:
    parquet(tmp_path / "log.parquet", status=[[500], [200]])
    told = Told(config(tmp_path))
    assert told.count == 2
    assert "name a field with one" in told.rejected[0].detail


def test_values_keep_their_text_whatever_their_type(tmp_path: Path) -> None:
    for i, (values, expected) in enumerate(
        [
            (pa.array([6.0, 6.5, float("nan"), None]), ["6", "6.5", "(missing)", "(missing)"]),
            (pa.array([True, None]), ["true", "(missing)"]),
            (pa.array([2**64 - 1, 0], pa.uint64()), ["18446744073709551615", "0"]),
            (pa.array(["", "  ", "NA", "NO"]), ["(missing)", "(missing)", "NA", "NO"]),
            (pa.array(["x", None, "x"]).dictionary_encode(), ["x", "(missing)", "x"]),
            (pa.array([date(2024, 3, 1)]), ["2024-03-01"]),
            (pa.array([None, None]), ["(missing)", "(missing)"]),
        ]
    ):
        folder = tmp_path / str(i)
        folder.mkdir()
        parquet(folder / "log.parquet", region=values)
        assert Told(config(folder)).regions == expected


def test_long_values_are_cut_and_stay_apart(tmp_path: Path) -> None:
    parquet(tmp_path / "log.parquet", region=["x" * 1000 + "a", "x" * 1000 + "b", "x" * 1000 + "a"])
    first, second, third = Told(config(tmp_path)).regions
    assert first == third != second
    assert len(first) == len(second) == 256


def test_fifty_thousand_values_of_one_attribute(tmp_path: Path) -> None:
    regions = [f"user-{i}" for i in range(50_000)] * 4
    parquet(tmp_path / "log.parquet", region=regions)
    told = Told(config(tmp_path))
    assert told.regions == regions
    assert told.vocabulary.size(0) == 50_001


def test_unsorted_input_is_read_in_its_own_order(tmp_path: Path) -> None:
    at = [NOON + timedelta(hours=h) for h in (5, -3, 0, 9, 1)]
    parquet(tmp_path / "log.parquet", at=pa.array(at, pa.timestamp("us", "UTC")))
    told = Told(config(tmp_path))
    assert told.times == [f"{t:%Y-%m-%dT%H:%M:%S}.000000" for t in at]


def test_rejected_rows_beyond_the_first_are_counted_not_listed(tmp_path: Path) -> None:
    parquet(tmp_path / "log.parquet", status=["x"] * 50 + ["200"] * 950)
    rejected = Told(config(tmp_path)).rejected
    assert [r.count for r in rejected] == [1] * LISTED + [50 - LISTED]
    assert rejected[-1].where == f"{tmp_path / 'log.parquet'}, row {LISTED + 1} and after"


_CELLS = st.one_of(
    st.none(), st.text(max_size=8), st.integers(), st.floats(), st.booleans(), st.just([1])
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.fixed_dictionaries({"at": _CELLS, "region": _CELLS, "status": _CELLS})))
def test_no_json_row_is_lost_or_counted_twice(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    good = {"at": NOON.isoformat(), "region": "good", "status": 200}
    text = "".join(json.dumps(row, allow_nan=True) + "\n" for row in [*rows, good])
    settings_ = config(folder, unit='"s"', source="max_rejected_ratio = 1")
    (folder / "log.jsonl").write_text(text)
    told = Told(settings_)
    assert len(told.times) + told.count == len(rows) + 1


def test_a_decoder_needs_no_file(tmp_path: Path) -> None:
    settings_ = config(tmp_path)
    decoder = Decoder(settings_, Vocabulary(settings_.settings.schema))
    out = io.BytesIO()
    pq.write_table(pa.table({"at": [NOON], "region": ["x"], "status": [500]}), out)
    batch = pq.read_table(io.BytesIO(out.getvalue())).to_batches()[0]
    events, rejected = decoder.decode(batch, lambda row: f"topic 0, offset {row}")
    assert (len(events), rejected) == (1, ())

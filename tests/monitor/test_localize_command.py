"""`least-monitor localize`, as an analyst meets it."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from monitor.cli import app

AMOUNTS = ["--observed", "real", "--expected", "predict"]
COUNTS = ["--errors", "failed", "--total", "tries", "--window", "when"]


def run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["localize", *map(str, arguments)], input=stdin)


def sales() -> dict[str, list]:
    """City c2 sells 40 % of what was expected."""
    rng = np.random.default_rng(0)
    city, product = (x.ravel() for x in np.meshgrid(range(8), range(12), indexing="ij"))
    predict = rng.weibull(0.8, len(city)) * 100 + 1
    real = predict * (1 + rng.normal(0, 0.05, len(city))) * np.where(city == 2, 0.4, 1)
    return {
        "city": [f"c{i}" for i in city],
        "product": [f"p{i}" for i in product],
        "real": real.tolist(),
        "predict": predict.tolist(),
    }


def csv_of(columns: dict[str, list]) -> str:
    rows = zip(*columns.values(), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"


def two_windows(before: str, now: str) -> dict[str, list]:
    """Airline a1 fails ten times as often now."""
    rng = np.random.default_rng(1)
    rows: dict[str, list] = {"when": [], "airline": [], "office": [], "tries": [], "failed": []}
    for when in (before, now):
        for airline in range(6):
            for office in range(10):
                rate = 0.2 if when == now and airline == 1 else 0.02
                values = (when, f"a{airline}", f"o{office}", 200, int(rng.binomial(200, rate)))
                for name, value in zip(rows, values, strict=True):
                    rows[name].append(value)
    return rows


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "sales.csv"
    path.write_text(csv_of(sales()))
    return path


def test_json_has_the_documented_shape(table: Path) -> None:
    done = run(table, *AMOUNTS, "--json", "-")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document.keys() >= {"causes", "unexplained"}
    (cause,) = document["causes"]
    assert cause["cause"] == {"city": ["c2"]}
    assert cause["direction"] == "down"
    assert cause["observed"] == pytest.approx(0.4 * cause["expected"], rel=0.05)
    assert cause["chain"][0]["cause"] == cause["cause"]
    assert 0 <= document["unexplained"] < 0.3
    for rival in document["rivals"]:
        assert rival.keys() == {"cause", "instead_of", "score", "observed", "expected"}
        assert rival["instead_of"] == cause["cause"]


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "parquet", "stdin"])
def test_every_format_gives_the_same_answer(table: Path, tmp_path: Path, kind: str) -> None:
    columns = sales()
    path: str | Path = tmp_path / f"table.{kind}"
    stdin = None
    match kind:
        case "csv":
            path = table
        case "csv.gz":
            Path(path).write_bytes(gzip.compress(table.read_bytes()))
        case "jsonl":
            rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values()))  # noqa: B905
            Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
        case "parquet":
            pq.write_table(pa.table(columns), path)
        case "stdin":
            path, stdin = "-", table.read_bytes()
    done = run(path, *AMOUNTS, "--json", "-", stdin=stdin)
    assert done.exit_code == 0, done.output
    assert done.stdout == run(table, *AMOUNTS, "--json", "-").stdout


def test_people_see_a_table_and_programs_a_file(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run(table, *AMOUNTS, "--json", out)
    assert "city=c2" in done.stdout
    assert "left unexplained" in done.stdout
    assert json.loads(out.read_text())["causes"][0]["cause"] == {"city": ["c2"]}


def test_only_the_chosen_attributes_and_direction_count(table: Path) -> None:
    done = run(table, *AMOUNTS, "--attributes", "product", "--json", "-")
    assert json.loads(done.stdout)["causes"] == []
    up = run(table, *AMOUNTS, "--direction", "up", "--json", "-")
    assert json.loads(up.stdout)["causes"] == []


@pytest.mark.parametrize(
    ("before", "now", "more"),
    [
        ("1", "10", []),
        ("9", "10", []),
        ("2026-01-01T10:00", "2026-01-01T10:30", []),
        ("prev", "cur", []),
        ("x", "a", ["--now", "a"]),
    ],
)
def test_the_latest_window_is_explained(
    tmp_path: Path, before: str, now: str, more: list[str]
) -> None:
    path = tmp_path / "windows.csv"
    path.write_text(csv_of(two_windows(before, now)))
    done = run(path, *COUNTS, *more, "--json", "-")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert [c["cause"] for c in document["causes"]] == [{"airline": ["a1"]}]
    assert document["model"] == "counts"


def test_rows_may_be_weighted_and_times_are_no_attribute(tmp_path: Path) -> None:
    columns = two_windows("prev", "cur")
    rows = ["ts,when,airline,office,error,weight"]
    for when, airline, office, tries, failed in zip(*columns.values(), strict=True):
        ts = 0 if when == "prev" else 86400
        rows.append(f"{ts},{when},{airline},{office},1,{failed}")
        rows.append(f"{ts},{when},{airline},{office},0,{tries - failed}")
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(rows) + "\n")
    done = run(path, "--errors", "error", "--weight", "weight", "--window", "when", "--json", "-")
    assert done.exit_code == 0, done.output
    assert [c["cause"] for c in json.loads(done.stdout)["causes"]] == [{"airline": ["a1"]}]
    assert "column `ts` is left out" in done.stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("city,real\nA,1\n", "no column `predict`; known are `city`, `real`"),
        ("city,real,predic\nA,1,1\n", "no column `predict`; did you mean `predic`?"),
        ("city,real,predict\nA,1,1\nB,-2,1\n", ":3: field `real` is -2; amounts can't be negative"),
        ("city,real,predict\nA,1,nan\n", ":2: field `predict` is nan; write a finite number"),
        ("city,real,predict\nA,1,inf\n", ":2: field `predict` is inf; write a finite number"),
        ("city,real,predict\nA,many,1\n", ":2: field `real` is 'many', no number; write 12.5"),
        ("city,real,predict\nA,,1\n", ":2: field `real` is empty; write 0 if nothing"),
        ("city,real,predict\nA,1\n", ":2:"),
        ("city,real,predict\n", "has a header but no rows"),
        ("real,predict\n1,1\n", "no column beside the amounts"),
        ("city,real,predict\nA,1,0\n", "column `predict` is 0 in every row"),
        ("", "is empty"),
    ],
)
def test_a_bad_table_is_refused_with_place_field_and_fix(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    done = run(path, *AMOUNTS)
    assert done.exit_code == 1
    assert f"{path}" in done.stderr
    assert complaint in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"failed": 201}, ":2: `failed` is 201, more than `tries`, 200"),
        ({"tries": -1}, ":2: field `tries` is -1; amounts can't be negative"),
        ({"when": "noon"}, "which value of `when` is now"),
    ],
)
def test_bad_windows_are_refused(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    columns = two_windows("1", "2")
    for name, value in change.items():
        columns[name][0] = value
    path = tmp_path / "bad.csv"
    path.write_text(csv_of(columns))
    done = run(path, *COUNTS)
    assert done.exit_code == 1
    assert complaint in done.stderr


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    done = run(tmp_path / "none.csv", *AMOUNTS)
    assert done.exit_code == 1
    assert "there is no such file" in done.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "either --observed and --expected"),
        (["--observed", "real"], "--observed also needs --expected"),
        (["--errors", "e", "--total", "t"], "--errors also needs --window"),
        ([*AMOUNTS, "--errors", "e"], "either --observed and --expected"),
        (["--observed", "real", "--expected", "real"], "one column is named for two purposes"),
        ([*AMOUNTS, "--direction", "sideways"], "choose up, down, both"),
        ([*AMOUNTS, "--now", "3"], "--now belongs to --window"),
    ],
)
def test_a_command_that_makes_no_sense_ends_with_two(
    table: Path, options: list[str], complaint: str
) -> None:
    done = run(table, *options)
    assert done.exit_code == 2
    assert complaint in " ".join(done.stderr.replace("│", " ").split())

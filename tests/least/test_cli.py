"""`least fit`: from a table to a graph file."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from least.cli import app

TABLES = Path(__file__).parent / "tables"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rain = rng.normal(size=2000)
    wet = 1.2 * rain + rng.normal(size=2000)
    path = tmp_path / "weather.parquet"
    town = ["Ä"] * 2000
    pq.write_table(pa.table({"rain <mm>": rain, "wet": wet, "town": town}), path)
    return path


@pytest.fixture
def weather(table: Path) -> list[str]:
    """The table without its column of text."""
    return [str(table), "--leave-out", "town"]


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["fit", *map(str, arguments)])
    return result.exit_code, result.output


def test_rain_makes_wet_in_every_format(weather: list[str], tmp_path: Path) -> None:
    code, output = run(*weather, "-o", tmp_path / "g.json")
    assert code == 0, output
    assert "2 nodes, 1 edges, 2000 rows" in output
    assert "solved: acyclic, and the ordering start is a full solution by itself" in output
    assert output.endswith("left out: town\n")
    document = json.loads((tmp_path / "g.json").read_text())
    (edge,) = document["edges"]
    assert (edge["source"], edge["target"]) == ("rain <mm>", "wet")
    assert edge["weight"] == pytest.approx(1.2, abs=0.1)
    assert document["fit"]["start"] == "ordering"

    assert run(*weather, "-o", tmp_path / "g.csv")[0] == 0
    rows = list(csv.DictReader((tmp_path / "g.csv").read_text().splitlines()))
    assert [(row["source"], row["target"]) for row in rows] == [("rain <mm>", "wet")]

    assert run(*weather, "-o", tmp_path / "g.graphml")[0] == 0
    root = ElementTree.parse(tmp_path / "g.graphml").getroot()
    space = {"g": "http://graphml.graphdrawing.org/xmlns"}
    names = {
        node.get("id"): node.find("g:data", space).text
        for node in root.iterfind(".//g:node", space)
    }
    (edge,) = root.iterfind(".//g:edge", space)
    assert names[edge.get("source")] == "rain <mm>"

    assert run(*weather, "-o", tmp_path / "g.dot")[0] == 0
    assert '"rain <mm>" -> "wet" [label="1.18"' in (tmp_path / "g.dot").read_text()


def test_the_likelihood_turns_no_edge_that_the_ordering_had_right(
    weather: list[str], tmp_path: Path
) -> None:
    code, output = run(*weather, "-o", tmp_path / "g.json", "--start", "likelihood")
    assert code == 0, output
    document = json.loads((tmp_path / "g.json").read_text())
    assert [(e["source"], e["target"]) for e in document["edges"]] == [("rain <mm>", "wet")]
    assert document["fit"]["start"] == "likelihood"


def test_the_sparse_backend_writes_the_same_graph(weather: list[str], tmp_path: Path) -> None:
    graphs = []
    for backend in ("tf", "sparse"):
        code, output = run(*weather, "-o", tmp_path / "g.json", "--backend", backend)
        assert code == 0, output
        graphs.append(json.loads((tmp_path / "g.json").read_text())["edges"])
    (dense,), (sparse,) = graphs
    assert (dense["source"], dense["target"]) == (sparse["source"], sparse["target"])
    assert dense["weight"] == pytest.approx(sparse["weight"], rel=1e-3)
    options = ["--backend", "sparse", "--forbid", "wet:rain <mm>"]
    code, output = run(*weather, "-o", tmp_path / "g.json", *options)
    assert code == 1
    assert "takes no edge masks" in output


def test_a_forbidden_edge_is_turned_or_left_out(weather: list[str], tmp_path: Path) -> None:
    code, _ = run(*weather, "-o", tmp_path / "g.json", "--forbid", "rain <mm>:wet")
    assert code == 0
    edges = json.loads((tmp_path / "g.json").read_text())["edges"]
    assert ("rain <mm>", "wet") not in [(e["source"], e["target"]) for e in edges]


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        ([], 1, "column `town` (text, 1 different): no numbers. --one-hot NAME makes a node"),
        (["--columns", "wet,town"], 1, "--leave-out NAME leaves a column out"),
        (["--columns", "nope"], 1, "no column 'nope'"),
        (["--leave-out", "town", "--forbid", "wet"], 1, "CAUSE:EFFECT"),
        (["--leave-out", "town", "--tier", "wet,town"], 1, "no column 'town'"),
        (["--start", "likelihood", "--noise", "pink"], 2, "choose similar, any or nongaussian"),
        (["--start", "magic"], 2, "choose ordering, likelihood or random"),
    ],
)
def test_what_cannot_be_fitted_is_explained(
    table: Path, tmp_path: Path, options: list[str], code: int, complaint: str
) -> None:
    result, output = run(table, "-o", tmp_path / "g.json", *options)
    assert result == code
    assert complaint in " ".join(output.split())


def test_missing_values_a_broken_file_and_an_odd_suffix(tmp_path: Path) -> None:
    (tmp_path / "holes.csv").write_text("a,b\n1,2\n,3\n4,5\n")
    assert "'a' misses 1 values" in run(tmp_path / "holes.csv", "-o", tmp_path / "g.json")[1]
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    code, output = run(tmp_path / "broken.parquet", "-o", tmp_path / "g.json")
    assert code == 1
    assert "broken.parquet" in output
    assert run(tmp_path / "holes.csv", "-o", tmp_path / "g.png")[0] == 2
    assert run(tmp_path / "none.csv", "-o", tmp_path / "g.json")[0] == 1


def test_least_columns_left_out_as_decimals(tmp_path: Path) -> None:
    code, output = run(TABLES / "decimal.parquet", "-o", tmp_path / "g.csv")
    assert code == 0, output
    assert "2 nodes, 1 edges, 500 rows" in output
    (edge,) = csv.DictReader((tmp_path / "g.csv").read_text().splitlines())
    assert {edge["source"], edge["target"]} == {"orders", "amount"}


def test_least_columns_left_out_for_semicolons(tmp_path: Path) -> None:
    code, output = run(TABLES / "comma.csv", "-o", tmp_path / "g.csv")
    assert code == 0, output
    assert "2 nodes, 1 edges" in output
    assert "read with: columns parted by `;`, decimal commas" in output
    text = (TABLES / "comma.csv").read_text().replace(",", ".").replace(";", ",")
    (tmp_path / "point.csv").write_text(text)
    code, output = run(tmp_path / "point.csv", "-o", tmp_path / "p.csv")
    assert "read with" not in output
    assert (tmp_path / "p.csv").read_text() == (tmp_path / "g.csv").read_text()
    (tmp_path / "tabs.csv").write_text(text.replace(",", "\t"))
    assert "parted by tabs\n" in run(tmp_path / "tabs.csv", "-o", tmp_path / "p.csv")[1]


@pytest.mark.parametrize(
    ("name", "column", "others"),
    [("twice.csv", "flag", "orders"), ("twice.parquet", "country", "sold,forecast")],
)
def test_a_column_that_is_there_twice_is_named(
    name: str, column: str, others: str, tmp_path: Path
) -> None:
    code, output = run(TABLES / name, "-o", tmp_path / "g.json")
    assert code == 1
    assert f"{name}: column `{column}` is there twice; rename one" in output
    assert run(TABLES / name, "-o", tmp_path / "g.json", "--columns", others)[0] == 0


def test_categories_become_nodes_that_keep_their_tier(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    town = rng.choice(["Bergen", "Oslo", "Tromsø"], 3000, p=[0.5, 0.3, 0.2])
    rain = 3.0 * (town == "Bergen") + rng.normal(size=3000)
    wet = 1.2 * rain + rng.normal(size=3000)
    table = pa.table({"town": town, "rain": rain, "wet": wet, "month": [7] * 3000})
    pq.write_table(table, tmp_path / "t.parquet")
    tiers = ["--tier", "town", "--tier", "rain", "--tier", "wet"]
    code, output = run(
        tmp_path / "t.parquet", "-o", tmp_path / "g.json", "--one-hot", "town", *tiers
    )
    assert code == 0, output
    assert "one-hot: town (3 values)\nconstant, so without edges: month\n" in output
    document = json.loads((tmp_path / "g.json").read_text())
    assert document["nodes"] == ["town=Bergen", "town=Oslo", "town=Tromsø", "rain", "wet", "month"]
    edges = {(e["source"], e["target"]): e["weight"] for e in document["edges"]}
    assert edges["rain", "wet"] == pytest.approx(1.2, abs=0.1)
    # The three add up to one: what Bergen brings may stand as what the others lack.
    assert {cause for cause, effect in edges if effect == "rain"} <= set(document["nodes"][:3])
    assert not [e for e in edges if e[1].startswith("town=")]

    declared = table.set_column(0, "town", table["town"].dictionary_encode())
    pq.write_table(declared, tmp_path / "d.parquet")
    code, output = run(tmp_path / "d.parquet", "-o", tmp_path / "d.json", *tiers)
    assert code == 0, output
    assert (tmp_path / "d.json").read_text() == (tmp_path / "g.json").read_text()

    forbidden = ["--one-hot", "town", "--forbid", "town:rain", "--forbid", "town=Oslo:wet"]
    code, output = run(tmp_path / "t.parquet", "-o", tmp_path / "g.json", *forbidden, *tiers)
    assert code == 0, output
    edges = json.loads((tmp_path / "g.json").read_text())["edges"]
    assert not [e for e in edges if e["target"] == "rain"]


def test_a_column_of_a_thousand_values_is_no_category(tmp_path: Path) -> None:
    rows = "".join(f"ticket {i},{i % 7}\n" for i in range(1000))
    (tmp_path / "t.csv").write_text("ticket,day\n" + rows)
    code, output = run(tmp_path / "t.csv", "-o", tmp_path / "g.json", "--one-hot", "ticket")
    assert code == 1
    assert "column 'ticket' holds 1,000 values, more than 200: group them" in output

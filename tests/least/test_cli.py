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


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rain = rng.normal(size=2000)
    wet = 1.2 * rain + rng.normal(size=2000)
    path = tmp_path / "weather.parquet"
    town = ["Ä"] * 2000
    pq.write_table(pa.table({"rain <mm>": rain, "wet": wet, "town": town}), path)
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["fit", *map(str, arguments)])
    return result.exit_code, result.output


def test_rain_makes_wet_in_every_format(table: Path, tmp_path: Path) -> None:
    code, output = run(table, "-o", tmp_path / "g.json")
    assert code == 0, output
    assert "2 nodes, 1 edges, 2000 rows" in output
    document = json.loads((tmp_path / "g.json").read_text())
    (edge,) = document["edges"]
    assert (edge["source"], edge["target"]) == ("rain <mm>", "wet")
    assert edge["weight"] == pytest.approx(1.2, abs=0.1)
    assert document["fit"]["start"] == "ordering"

    assert run(table, "-o", tmp_path / "g.csv")[0] == 0
    rows = list(csv.DictReader((tmp_path / "g.csv").read_text().splitlines()))
    assert [(row["source"], row["target"]) for row in rows] == [("rain <mm>", "wet")]

    assert run(table, "-o", tmp_path / "g.graphml")[0] == 0
    root = ElementTree.parse(tmp_path / "g.graphml").getroot()
    space = {"g": "http://graphml.graphdrawing.org/xmlns"}
    names = {
        node.get("id"): node.find("g:data", space).text
        for node in root.iterfind(".//g:node", space)
    }
    (edge,) = root.iterfind(".//g:edge", space)
    assert names[edge.get("source")] == "rain <mm>"


def test_the_likelihood_turns_no_edge_that_the_ordering_had_right(
    table: Path, tmp_path: Path
) -> None:
    code, output = run(table, "-o", tmp_path / "g.json", "--start", "likelihood")
    assert code == 0, output
    document = json.loads((tmp_path / "g.json").read_text())
    assert [(e["source"], e["target"]) for e in document["edges"]] == [("rain <mm>", "wet")]
    assert document["fit"]["start"] == "likelihood"


def test_the_sparse_backend_writes_the_same_graph(table: Path, tmp_path: Path) -> None:
    graphs = []
    for backend in ("tf", "sparse"):
        code, output = run(table, "-o", tmp_path / "g.json", "--backend", backend)
        assert code == 0, output
        graphs.append(json.loads((tmp_path / "g.json").read_text())["edges"])
    (dense,), (sparse,) = graphs
    assert (dense["source"], dense["target"]) == (sparse["source"], sparse["target"])
    assert dense["weight"] == pytest.approx(sparse["weight"], rel=1e-3)
    options = ["--backend", "sparse", "--forbid", "wet:rain <mm>"]
    code, output = run(table, "-o", tmp_path / "g.json", *options)
    assert code == 1
    assert "takes no edge masks" in output


def test_a_forbidden_edge_is_turned_or_left_out(table: Path, tmp_path: Path) -> None:
    code, _ = run(table, "-o", tmp_path / "g.json", "--forbid", "rain <mm>:wet")
    assert code == 0
    edges = json.loads((tmp_path / "g.json").read_text())["edges"]
    assert ("rain <mm>", "wet") not in [(e["source"], e["target"]) for e in edges]


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        (["--columns", "wet,town"], 1, "encode it as numbers"),
        (["--columns", "nope"], 1, "no column 'nope'"),
        (["--forbid", "wet"], 1, "CAUSE:EFFECT"),
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

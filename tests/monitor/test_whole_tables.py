"""Tables are whole: at 80 columns, in a pipe, and in a terminal that is far too narrow."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks._report import machine, publish

LONG = "the_carrier_with_a_name_that_is_longer_than_some_terminals_are_wide_and_has_no_blank"


def in_a_terminal(*command: str | Path, columns: int) -> str:
    """What the command writes to a terminal of that width, without its colours."""
    here, there = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb"}
    program = subprocess.Popen([*map(str, command)], stdout=there, env=environment)
    os.close(there)
    said = b""
    try:
        while piece := os.read(here, 1 << 16):
            said += piece
    except OSError:  # Linux says so at the end
        pass
    os.close(here)
    assert program.wait(timeout=60) == 0
    return said.decode()


def in_a_pipe(*command: str | Path) -> str:
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=True, timeout=60
    ).stdout


@pytest.fixture
def sold(tmp_path: Path) -> Path:
    """One carrier sells half of what was expected."""
    rows = [
        f"{carrier},shop {shop},{(0.5 if carrier == LONG else 1) * (100 + shop)},{100 + shop}"
        for carrier in ("A", "B", "C", LONG)
        for shop in range(12)
    ]
    path = tmp_path / "sold.csv"
    path.write_text("carrier,shop,sold,forecast\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize(
    "shown",
    [
        in_a_pipe,
        lambda *command: in_a_terminal(*command, columns=80),
        lambda *command: in_a_terminal(*command, columns=20),
    ],
)
def test_a_cause_is_never_cut(shown: Callable[..., str], sold: Path) -> None:
    program = Path(sys.executable).parent / "least-monitor"
    said = shown(program, "localize", sold, "--observed", "sold", "--expected", "forecast")
    assert f"carrier={LONG}" in said
    assert "…" not in said


def test_the_table_of_a_benchmark_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    fields = ("F1", "F1 stdev", "SHD", "skeleton F1", "FDR", "TPR", "FPR", "AUC", "CPU seconds")
    row = {"graph": "ER-2", "noise": "exponential", "method": "LEAST, likelihood nongaussian"}
    row |= {name: 0.123 + i for i, name in enumerate(fields)}
    row |= {f"beside a peer {i}": 0.987 for i in range(8)}
    publish("wide", [row], machine(), None)
    said = capsys.readouterr().out
    assert "…" not in said
    (line,) = [line for line in said.splitlines() if "nongaussian" in line]
    assert line.split()[-8:] == ["0.987"] * 8

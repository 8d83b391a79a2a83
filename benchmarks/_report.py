"""What every benchmark prints and writes: its rows, the machine and the versions."""

from __future__ import annotations

import argparse
import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from monitor.commands.tables import print_whole

PACKAGES = (
    "numpy",
    "scipy",
    "tensorflow-cpu",
    "pyarrow",
    "numba",
    "kafka-python",
    "dagma",
    "gcastle",
)


def machine() -> dict[str, Any]:
    """Processor, cores and memory of this machine, and the versions that matter."""
    model = platform.processor() or "unknown"
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [x for x in info.read_text().splitlines() if x.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": versions,
    }


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, metavar="OUT", help="write rows, machine, versions")
    return parser


def publish(
    title: str, rows: list[dict[str, Any]], where: dict[str, Any], out: Path | None
) -> None:
    """Print the rows as a table, and write them with the machine if asked."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in rows[0]:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    # In a pipe a row is a line, however long.
    console = Console(width=None if Console().is_terminal else 10_000)
    print_whole(console, table)
    versions = ", ".join(f"{k} {v}" for k, v in where["versions"].items())
    console.print(
        f"{where['processor']}, {where['cores']} cores, load {where['load_before']} at the start; "
        f"{versions}"
    )
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({**where, "rows": rows}, indent=1) + "\n", "utf-8")

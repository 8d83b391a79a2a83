"""Pages written from the code: metrics, alerts, the library's interface, the commands.

`python -m tests.docs.references` writes them; a test compares.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, metadata
from types import ModuleType
from typing import Any

import typer
import yaml
from typer.testing import CliRunner

from monitor.cli import app
from monitor.edge.metrics import Metrics
from tests.docs.pages import ROOT
from tests.services.test_rules_and_dashboards import tick

_WRITTEN = "<!-- Written by `python -m tests.docs.references`; change the code, not this file. -->"

LIBRARY = (
    "least",
    "least.constraints",
    "least.network",
    "least.table",
    "least.problem",
    "least.dense",
    "least.sparse",
    "least.sparse_problem",
    "least.acyclicity",
    "least.graphs",
    "least.ordering",
    "least.likelihood",
    "least.peeling",
    "least.screening",
    "least.synthetic",
    "least.scores",
)


def metrics() -> str:
    """Every family that the daemon exports, with type, labels and meaning."""
    exported = Metrics(false_alarms_per_week=3)
    exported.started(datetime(2026, 1, 5, tzinfo=UTC))
    tick(exported, datetime(2026, 1, 5, tzinfo=UTC))
    rows = []
    for family in sorted(exported.registry.collect(), key=lambda f: f.name):
        if not family.name.startswith("least_monitor"):
            continue
        name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = sorted({key for sample in family.samples for key in sample.labels} - {"le"})
        rows.append(
            f"| `{name}` | {family.type} | {', '.join(f'`{one}`' for one in labels) or '–'} "
            f"| {_cell(family.documentation)} |"
        )
    return _page(
        "Metrics",
        "`/metrics`, for Prometheus. Times are Unix seconds; instead of an age there is the time\n"
        "of the last event. Labels of nodes, edges and paths are short ids that stay the same\n"
        "across restarts; only the strongest are shown, so the number of series has a bound.\n"
        "Beyond loopback scraping asks for the token (`authorization` in Prometheus).\n"
        "[Alerts](alerts.md) are made of them.",
        "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n" + "\n".join(rows),
    )


def alerts() -> str:
    """Every rule, with what it asks and for how long."""
    document = yaml.safe_load((ROOT / "rules" / "least-monitor.rules.yml").read_text())
    parts = []
    for group in document["groups"]:
        for rule in group["rules"]:
            if "alert" not in rule:
                continue
            name, annotations = rule["alert"], rule["annotations"]
            wait = f", for {rule['for']}" if "for" in rule else ""
            parts.append(
                f"## {name}\n\n**{rule['labels']['severity']}**{wait} · "
                f"[runbook](runbooks/{name}.md)\n\n{annotations['description']}\n\n"
                f"```promql\n{rule['expr'].strip()}\n```"
            )
    recordings = [
        f"| `{rule['record']}` | `{_cell(rule['expr'])}` |"
        for group in document["groups"]
        for rule in group["rules"]
        if "record" in rule
    ]
    return _page(
        "Alerts",
        "The rules in `rules/least-monitor.rules.yml`. *page* wakes somebody, *ticket* waits for\n"
        "the morning. Each has a runbook, and a test in which it fires. They look for the job\n"
        "`least-monitor` and are about the monitor and the log as a whole; incidents come by\n"
        "[notifications](notifications.md).",
        *parts,
        "## Recordings\n\n| Name | Expression |\n|---|---|\n" + "\n".join(recordings),
    )


def library() -> str:
    """Signatures and docstrings of what `least` offers."""
    parts = []
    for name in LIBRARY:
        module = importlib.import_module(name)
        entries = list(_public(module))
        if entries:
            parts.append(f"## `{name}`\n\n{_prose(module)}")
            parts += entries
    return _page(
        "The library's interface",
        "Every public class and function of `least`, from its docstrings.\n"
        "The [tutorial](least.md) comes first. d is the number of columns, n of rows; W[i, j] is\n"
        "the edge i → j.",
        *parts,
    )


def commands() -> str:
    """What `--help` says, for every command."""
    group: Any = typer.main.get_command(app)
    parts = []
    for words in _leaves(group, ()):
        call = ["least-monitor", *words, "--help"]
        said = CliRunner().invoke(app, call[1:], env={"COLUMNS": "100"}, prog_name=call[0]).output
        lines = "".join(f"{line.rstrip()}\n" for line in said.splitlines())
        parts.append(f"## `{' '.join(words)}`\n\n```console\n$ {' '.join(call)}\n{lines}```")
    return _page(
        "Commands",
        "Exit codes: 0 success, 1 failure, 2 wrong usage, 78 bad configuration. `-c` names the "
        "configuration; commands that only look into the store also take `--store URL`.",
        *parts,
    )


def licences() -> str:
    """What each deployed package says of its licence."""
    rows = []
    pins = re.findall(
        r"^([\w.-]+)(?:\[.*?\])?==(\S+)", (ROOT / "requirements.txt").read_text(), re.M
    )
    for name, version in pins:
        try:
            said = metadata(name)
        except PackageNotFoundError:
            rows.append(f"| {name} | {version} | not for this platform |")
            continue
        classified = [
            one.split(" :: ")[-1]
            for one in said.get_all("Classifier") or ()
            if one.startswith("License ::") and one != "License :: OSI Approved"
        ]
        words = said.get("License-Expression") or ", ".join(classified)
        words = words or (said.get("License") or "see its licence file").splitlines()[0]
        rows.append(f"| {name} | {version} | {_cell(words)} |")
    return _page(
        "Licences",
        "least-monitor is under Apache-2.0; data in `data/` is under the licences that its\n"
        "folders name. What is deployed with it, and what each package says of itself:",
        "| Package | Version | Licence |\n|---|---|---|\n" + "\n".join(rows),
    )


REFERENCES: dict[str, Callable[[], str]] = {
    "metrics.md": metrics,
    "alerts.md": alerts,
    "least-api.md": library,
    "commands.md": commands,
    "licences.md": licences,
}


def _page(title: str, introduction: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", _WRITTEN, introduction, *parts]) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _leaves(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        if hasattr(inner, "commands"):
            yield from _leaves(inner, (*words, name))
        else:
            yield (*words, name)


def _public(module: ModuleType) -> Iterator[str]:
    """Its classes and functions, each once: where it is exported or else where it is defined."""
    exported = getattr(module, "__all__", None)
    names = exported or [name for name in vars(module) if not name.startswith("_")]
    for name in names:
        thing = getattr(module, name)
        mine = getattr(thing, "__module__", "") == module.__name__
        if not (inspect.isclass(thing) or inspect.isfunction(thing)) or not (mine or exported):
            continue
        yield f"### `{name}`\n\n{_code(name, thing)}\n\n{_prose(thing)}"
        if inspect.isclass(thing):
            for method, inner in vars(thing).items():
                if inspect.isfunction(inner) and not method.startswith("_") and inner.__doc__:
                    yield f"**`{name}.{method}`**\n\n{_code(method, inner)}\n\n{_prose(inner)}"


def _code(name: str, thing: Any) -> str:
    try:
        signature = str(inspect.signature(thing))
    except ValueError:
        signature = "(…)"
    signature = re.sub(r"<(factory)>", "…", signature).replace("np.ndarray", "ndarray")
    head = f"class {name}" if inspect.isclass(thing) else name
    return f"`{head}{signature}`"


def _prose(thing: Any) -> str:
    """The docstring as Markdown: sections become lists, examples blocks that are run."""
    text = inspect.getdoc(thing) or ""
    blocks = []
    for block in re.split(r"\n\n", text):
        heading = re.match(r"(Args|Attributes|Returns|Raises|Source|Yields):(.*)", block)
        if block.startswith(">>>"):
            where = inspect.getmodule(thing)
            used = sorted(n for n in vars(where) if not n.startswith("_") and _word(n, block))
            bare = "np." in block and "import numpy" not in block
            imports = [">>> import numpy as np"] if bare else []
            used = [n for n in used if n not in ("np", "annotations")]
            if where is not None and used:
                imports.append(f">>> from {where.__name__} import {', '.join(used)}")
            blocks.append("```python\n" + "\n".join([*imports, block]) + "\n```")
        elif heading and heading[1] in ("Args", "Attributes", "Raises"):
            blocks.append(f"*{heading[1]}*\n\n" + "\n".join(_items(block)))
        elif heading:
            blocks.append(f"*{heading[1]}:*{block.removeprefix(heading[1] + ':')}")
        else:
            blocks.append(block)
    return "\n\n".join(
        block if block.startswith("```") else re.sub(r"``([^`]*)``", r"`\1`", block)
        for block in blocks
    )


def _word(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _items(block: str) -> Iterator[str]:
    for line in block.splitlines()[1:]:
        item = re.match(r" {4}(\S[^:]*): (.*)", line)
        yield f"- `{item[1]}`: {item[2]}" if item else f"  {line.strip()}"


def main() -> None:
    """Write all of them."""
    for name, write in REFERENCES.items():
        (ROOT / "docs" / name).write_text(write(), "utf-8")


if __name__ == "__main__":
    main()

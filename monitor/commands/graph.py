"""`least-monitor graph`: the network that the newest tick has learned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.commands.stored import (
    ApiOption,
    JsonOption,
    StoreConfigOption,
    StoreOption,
    TokenOption,
    open_stored,
)
from monitor.commands.tables import print_whole
from monitor.commands.terminal import say, wide_terminal

if TYPE_CHECKING:
    from monitor.domain import Diagnosis, Edge


def graph(
    config: StoreConfigOption = None,
    store: StoreOption = None,
    api: ApiOption = None,
    token_file: TokenOption = None,
    top: Annotated[int, typer.Option(min=1, help="Rows of the table.")] = 40,
    as_json: JsonOption = False,
    as_dot: Annotated[
        bool, typer.Option("--dot", help="For Graphviz: `… --dot | dot -Tsvg`.")
    ] = False,
) -> None:
    """Show the learned edges of the newest tick, the strongest first."""
    if as_json and as_dot:
        raise typer.BadParameter("give --json or --dot, not both")
    with open_stored(config, store, api, token_file) as opened:
        from monitor.edge.documents import diagnosis_document, diagnosis_from, dumps, loads
        from monitor.edge.store import LATEST_DIAGNOSIS, StoreError

        saved = opened.store.state(LATEST_DIAGNOSIS)
        if saved is None:
            raise StoreError("no tick yet: there is no graph before the first")
        diagnosis = diagnosis_from(loads(saved))
        edges = sorted(diagnosis.edges, key=lambda e: (-abs(e.weight), e.source, e.target))
        if as_json:
            document = diagnosis_document(diagnosis)
            wanted = ("at", "nodes", "delta", "fit_status", "edges")
            say(dumps({name: document[name] for name in wanted}).decode())
        elif as_dot:
            say(dot(edges, [count.outcome for count in diagnosis.outcomes]))
        else:
            _show(diagnosis, edges[:top])


def dot(edges: Sequence[Edge], outcomes: Sequence[str]) -> str:
    """The graph in Graphviz' language; outcomes are boxes."""
    lines = ["digraph least {", "  rankdir=LR;", "  node [shape=ellipse];"]
    shown = {name for edge in edges for name in (edge.source, edge.target)}
    lines += [f"  {_quoted(name)} [shape=box];" for name in outcomes if name in shown]
    lines += [
        f"  {_quoted(e.source)} -> {_quoted(e.target)} "
        f'[label="{e.weight:.2f}", penwidth={0.5 + 3 * min(abs(e.weight), 1):.2f}];'
        for e in edges
    ]
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    clean = re.sub(r"[^\S ]|[\x00-\x1f]", " ", text)
    return '"' + clean.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _show(diagnosis: Diagnosis, edges: Sequence[Edge]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from monitor.edge.wording import time_text

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("from")
    table.add_column("to")
    table.add_column("weight", justify="right")
    for edge in edges:
        table.add_row(Text(edge.source), Text(edge.target), f"{edge.weight:.3f}")
    console = wide_terminal()
    print_whole(console, table)
    console.print(
        f"{len(edges)} of {len(diagnosis.edges)} edges between {diagnosis.nodes} nodes at "
        f"{time_text(diagnosis.at)}; fit {diagnosis.fit_status.replace('_', ' ')} "
        f"after {diagnosis.fit_steps} steps, δ = {diagnosis.delta:.2g}"
    )

"""`least-monitor localize`: name the causes in one table of leaves, without a daemon."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monitor.commands.failure import mendable
from monitor.commands.tables import print_whole
from monitor.commands.terminal import say, wide_terminal

if TYPE_CHECKING:
    from monitor.edge.tables import Table
    from monitor.localization import Leaves, Localization, Located

BEFORE = {"before", "prev", "previous", "past", "baseline", "reference", "old", "normal"}
NOW = {"now", "after", "cur", "current", "present", "new", "anomaly", "test"}


def localize(
    table: Annotated[
        str,
        typer.Argument(metavar="TABLE", help="CSV, Parquet or JSON lines; `-` is standard input."),
    ],
    observed: Annotated[
        str | None, typer.Option(metavar="COL", help="Amounts that were seen.", show_default=False)
    ] = None,
    expected: Annotated[
        str | None, typer.Option(metavar="COL", help="Amounts expected.", show_default=False)
    ] = None,
    errors: Annotated[
        str | None, typer.Option(metavar="COL", help="Failures counted.", show_default=False)
    ] = None,
    total: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Attempts, of which --errors failed.", show_default=False),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="Each row stands for so many; --errors is then 0 or 1.",
            show_default=False,
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="COL", help="Tells now from before; the latest is now.", show_default=False
        ),
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(metavar="VALUE", help="Of --window, if not the latest.", show_default=False),
    ] = None,
    attributes: Annotated[
        str | None,
        typer.Option(metavar="COL,…", help="Where to look for causes; default: all other columns."),
    ] = None,
    direction: Annotated[
        str | None,
        typer.Option(
            metavar="up|down|both", help="Default: both; up with --errors.", show_default=False
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="auto|counts|amounts",
            help="How leaves scatter: thin counts, or amounts that each tell for themselves.",
        ),
    ] = "auto",
    max_causes: Annotated[int, typer.Option(min=1, help="Name at most so many.")] = 20,
    depth: Annotated[
        int | None,
        typer.Option(min=1, help="Most conditions of a cause; default: as the table allows."),
    ] = None,
    json_path: Annotated[
        str | None,
        typer.Option("--json", metavar="OUT", help="Write JSON there; `-` is standard output."),
    ] = None,
) -> None:
    """Name the causes in one table: which values deviate from what was expected, best first.

    Either --observed and --expected, or --errors, --total and --window.
    """
    if weight is not None and total is not None:
        raise typer.BadParameter("give --total or --weight, not both")
    counted = {"weight": weight} if weight is not None else {"total": total}
    windows = _usage({"observed": observed, "expected": expected},
                     {"errors": errors, **counted, "window": window})  # fmt: skip
    chosen = direction or ("up" if windows else "both")
    _one_of("--direction", chosen, ("up", "down", "both"))
    _one_of("--model", model, ("auto", "counts", "amounts"))
    if now is not None and not windows:
        raise typer.BadParameter("--now belongs to --window")
    names = [n.strip() for n in attributes.split(",") if n.strip()] if attributes else None
    with mendable():
        from monitor.edge.tables import read_table
        from monitor.localization import Direction, Model
        from monitor.localization import localize as name_causes

        if windows:
            counts = total or weight
            assert errors is not None
            assert counts is not None
            assert window is not None
            data = read_table(table, [errors, counts], names, [window])
            if weight is not None:
                data = _weighted(data, errors, weight)
            leaves = _of_windows(data, errors, counts, window, now, by_hand=names is not None)
        else:
            assert observed is not None
            assert expected is not None
            data = read_table(table, [observed, expected], names)
            leaves = _of_amounts(data, observed, expected)
        result = name_causes(leaves, Direction(chosen), Model(model), max_causes, depth)
    if json_path == "-":
        say(json.dumps(result.to_json(), ensure_ascii=False, indent=1))
        return
    _show(result)
    if json_path is not None:
        text = json.dumps(result.to_json(), ensure_ascii=False, indent=1)
        with mendable():
            Path(json_path).write_text(text + "\n", "utf-8")


def _usage(amounts: dict[str, str | None], windows: dict[str, str | None]) -> bool:
    """True for two windows; says what is missing from the command."""
    given = [[n for n, v in form.items() if v is not None] for form in (amounts, windows)]
    if all(given) or not any(given):
        raise typer.BadParameter(
            "give either --observed and --expected, or --errors, --total and --window"
        )
    form = windows if given[1] else amounts
    missing = [f"--{n}" for n, v in form.items() if v is None]
    if missing:
        raise typer.BadParameter(
            f"--{(given[1] or given[0])[0]} also needs {' and '.join(missing)}"
        )
    columns = [v for v in form.values() if v is not None]
    if len(set(columns)) < len(columns):
        raise typer.BadParameter("one column is named for two purposes")
    return bool(given[1])


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise typer.BadParameter(f"{option} is {value!r}; choose {', '.join(known)}")


def _of_amounts(data: Table, observed: str, expected: str) -> Leaves:
    from monitor.edge.tables import TableError
    from monitor.localization import leaves

    if not data.labels:
        raise TableError(f"{data.name}: no column beside the amounts to look for causes in")
    if not data.amounts[expected].any():
        raise TableError(f"{data.name}: column `{expected}` is 0 in every row; nothing to compare")
    return leaves(data.labels, data.amounts[observed], data.amounts[expected])


def _weighted(data: Table, errors: str, weight: str) -> Table:
    from dataclasses import replace

    from monitor.edge.tables import TableError

    share, rows = data.amounts[errors], data.amounts[weight]
    if (share > 1).any():
        row = int((share > 1).argmax())
        raise TableError(
            f"{data.locate(row)}: `{errors}` is {share[row]:g}; with --weight it is 0 or 1 a row"
        )
    return replace(data, amounts={errors: share * rows, weight: rows})


def _of_windows(
    data: Table, errors: str, total: str, window: str, now: str | None, by_hand: bool
) -> Leaves:
    from monitor.edge.tables import TableError
    from monitor.localization import leaves_of_windows, tell_the_window

    over = data.amounts[errors] > data.amounts[total]
    if over.any():
        row = int(over.argmax())
        raise TableError(
            f"{data.locate(row)}: `{errors}` is {data.amounts[errors][row]:g}, more than "
            f"`{total}`, {data.amounts[total][row]:g}; the total counts failures too"
        )
    column = data.labels[window]
    current = _current(data.name, window, column.names, now)
    is_now = column.codes == column.names.index(current)
    labels = {name: values for name, values in data.labels.items() if name != window}
    if not by_hand:
        for name in tell_the_window(labels, is_now):
            say(
                f"column `{name}` is left out: none of its values is there both before and now",
                err=True,
            )
            del labels[name]
    if not labels:
        raise TableError(f"{data.name}: no column beside the counts to look for causes in")
    return leaves_of_windows(labels, data.amounts[errors], data.amounts[total], is_now)


def _current(name: str, column: str, values: tuple[str, ...], now: str | None) -> str:
    """The window to be explained."""
    from monitor.edge.tables import TableError

    shown = ", ".join(repr(v) for v in values[:5]) + (", …" if len(values) > 5 else "")
    if now is not None:
        if now not in values:
            raise TableError(f"{name}: no row has `{column}` = {now!r}; there are {shown}")
        current = now
    elif all(_number(v) is not None for v in values):
        current = max(values, key=lambda v: _number(v) or 0.0)
    elif all(re.match(r"\d{4}-\d\d-\d\d", v) for v in values):
        current = max(values)
    else:
        known = [v for v in values if v.lower() in NOW]
        others = [v for v in values if v.lower() in BEFORE]
        if len(known) != 1 or len(others) + 1 != len(values):
            raise TableError(f"{name}: which value of `{column}` is now ({shown})? say --now VALUE")
        current = known[0]
    if len(values) < 2:
        raise TableError(f"{name}: `{column}` has one value only; rows from before are needed too")
    return current


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _show(result: Localization) -> None:
    from rich import box
    from rich.table import Table as Sheet

    console = wide_terminal()
    if not result.causes:
        console.print(f"no cause stands out among {result.leaves:,} leaves")
        return
    sheet = Sheet(title=f"causes among {result.leaves:,} leaves", title_justify="left",
                  box=box.SIMPLE_HEAD)  # fmt: skip
    sheet.add_column("cause")
    for name in ("observed", "expected", "ratio", "score", "share"):
        sheet.add_column(name, justify="right")
    for cause in result.causes:
        sheet.add_row(*_cells(cause))
        for link in cause.chain[1:]:
            ratio = f"{link.observed / link.expected:.2f}" if link.expected else "new"
            sheet.add_row(
                f"  concentrated in {link.cause}", f"{link.observed:,.6g}",
                f"{link.expected:,.6g}", ratio, "", "", style="dim",
            )  # fmt: skip
    print_whole(console, sheet)
    for storm in _storms(result):
        console.print(f"alike: {storm}")
    console.print(f"left unexplained: {result.unexplained:.0%} of the deviation")


def _cells(cause: Located) -> tuple[Any, ...]:
    ratio = f"{cause.observed / cause.expected:.2f}" if cause.expected else "new"
    return (
        str(cause.cause), f"{cause.observed:,.6g}", f"{cause.expected:,.6g}", ratio,
        f"{cause.score:.1f}", f"{cause.share:.0%}",
    )  # fmt: skip


def _storms(result: Localization) -> list[str]:
    """Groups of causes as one selector each."""
    from monitor.domain import Cause

    groups: dict[int, list[Located]] = {}
    for cause in result.causes:
        groups.setdefault(cause.group, []).append(cause)
    return [
        str(
            Cause.from_json(
                {
                    name: sorted({m.cause.to_json()[name][0] for m in members})
                    for name in members[0].cause.to_json()
                }
            )
        )
        for members in groups.values()
        if len(members) > 1
    ]

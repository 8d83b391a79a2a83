"""The command line: `least fit TABLE -o GRAPH`.

Exit codes: 0 success, 1 the data cannot be fitted, 2 wrong usage.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from least.network import FORMATS, as_json, meaning
from least.problem import MissingExtraError, ProblemError

try:
    import typer
except ImportError as error:
    raise MissingExtraError("the command `least`", "typer", "fit", error) from None

if TYPE_CHECKING:
    from least.table import Coded

app = typer.Typer(
    name="least",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Learns the structure of a linear Bayesian network from a table.",
)


STARTS = ("ordering", "likelihood", "random")
NOISES = ("similar", "any", "nongaussian")


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


@app.callback()
def _main() -> None:
    pass


@app.command()
def fit(
    table: Annotated[Path, typer.Argument(help="Parquet or CSV, one column per variable.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Graph as .json, .graphml, .dot or .csv.")
    ],
    columns: Annotated[
        str, typer.Option(help="Comma-separated columns; all of them by default.")
    ] = "",
    leave_out: Annotated[
        list[str] | None, typer.Option(help="A column that is not fitted; repeatable.")
    ] = None,
    one_hot: Annotated[
        list[str] | None,
        typer.Option(
            help="A column of which each value becomes a node, NAME=VALUE; repeatable. Declared "
            "categories of Parquet files are coded so anyway."
        ),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            help="ordering (assumes equal noise variances), likelihood (see --noise) or random "
            "(LEAST alone)."
        ),
    ] = "ordering",
    noise: Annotated[
        str,
        typer.Option(
            help="For --start likelihood: similar (variances about one another), any (columns of "
            "unlike scales) or nongaussian."
        ),
    ] = "similar",
    threshold: Annotated[float, typer.Option(help="Weights up to this are no edge.")] = 0.3,
    backend: Annotated[
        str, typer.Option(help="tf, dense; or sparse, for thousands of columns.")
    ] = "tf",
    standardise: Annotated[bool, typer.Option(help="Divide columns by their deviations.")] = False,
    forbid: Annotated[
        list[str] | None, typer.Option(help="An edge CAUSE:EFFECT that cannot exist; repeatable.")
    ] = None,
    require: Annotated[
        list[str] | None, typer.Option(help="An edge CAUSE:EFFECT that must exist; repeatable.")
    ] = None,
    tier: Annotated[
        list[str] | None,
        typer.Option(
            help="Comma-separated columns; repeatable, earliest first: no edge runs from a later "
            "tier to an earlier one."
        ),
    ] = None,
) -> None:
    """Fit TABLE and write the learned graph; a summary goes to standard output."""
    formats = (".json", *FORMATS)
    if output.suffix not in formats:
        raise typer.BadParameter(f"{output}: choose {_either(formats)}", param_hint="-o")
    if start not in STARTS:
        raise typer.BadParameter(f"{start}: choose {_either(STARTS)}", param_hint="--start")
    if backend not in ("tf", "sparse"):
        raise typer.BadParameter(f"{backend}: choose tf or sparse", param_hint="--backend")
    if noise not in NOISES:
        raise typer.BadParameter(f"{noise}: choose {_either(NOISES)}", param_hint="--noise")
    try:
        from least.estimator import Least  # TensorFlow only starts inside fit
        from least.table import read

        coded = read(table, [c for c in columns.split(",") if c], leave_out or (), one_hot or ())
        forbidden = [*coded.exclusive(), *coded.edges(forbid or ())]
        model = Least(
            start,  # type: ignore[arg-type]
            noise=noise if start == "likelihood" else None,  # type: ignore[arg-type]
            threshold=threshold,
            standardise=standardise,
            backend=backend,  # type: ignore[arg-type]
            forbidden=forbidden or None,
            required=coded.edges(require) if require else None,
            tiers=coded.tiers(tier) if tier else None,
        ).fit(coded.nodes)
    except (ProblemError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    edges, nodes = model.edges_, coded.nodes.column_names
    write = FORMATS.get(output.suffix)
    text = as_json(edges, nodes, model.fit_) if write is None else write(edges, nodes)
    output.write_text(text, "utf-8")
    typer.echo(
        f"{len(nodes)} nodes, {len(edges)} edges, {coded.nodes.num_rows} rows; "
        f"threshold {model.fit_.threshold:.3g} → {output}"
    )
    typer.echo(meaning(model.fit_))
    for line in _read_how(coded):
        typer.echo(line)


def _read_how(coded: Coded) -> list[str]:
    """What of the file is not as it stands there."""
    said = [
        ("read with", coded.notes),
        ("one-hot", [f"{c} ({len(coded.of_column[c])} values)" for c in coded.one_hot]),
        ("left out", coded.left_out),
        ("constant, so without edges", coded.constant()),
    ]
    return [f"{what}: {', '.join(which)}" for what, which in said if which]


def main() -> None:
    """Entry point of the installed command."""
    app()

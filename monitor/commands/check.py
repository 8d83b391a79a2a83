"""`least-monitor check`: is the configuration sound, and does it fit the log?"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monitor.commands.configuration import BAD_CONFIGURATION, ConfigOption, read_configuration
from monitor.commands.tables import print_whole
from monitor.commands.terminal import say, terminal

if TYPE_CHECKING:
    from monitor.config import Config
    from monitor.domain import Misfit
    from monitor.edge.sample import Sample
    from monitor.survey import Outlook, Survey


def check(
    config: ConfigOption,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INPUT]...",
            help="Files or globs to look into; `-` is standard input. "
            "Left out: the source of the configuration.",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Look at so many rows: of files the first and the last, of a stream the newest. "
            "Left out: 1,000,000 of files, 20,000 of a stream.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")] = False,
) -> None:
    """Check a configuration whole, and show what it makes of a log.

    With a store at hand it also tells what a change of the configuration will cost.
    Ends with 78 if the configuration is wrong or does not fit the log.
    """
    from monitor.config import ConfigError, load

    if not as_json:
        settings = read_configuration(config)
        _look_for_people(settings, inputs or (), rows)
        return
    try:
        report = _look_for_programs(load(config, os.environ), inputs or (), rows)
    except ConfigError as error:
        report = {"ok": False, "problems": [dataclasses.asdict(p) for p in error.problems]}
    say(json.dumps(report, indent=2, ensure_ascii=False))
    if not report["ok"]:
        raise typer.Exit(BAD_CONFIGURATION)


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen."""

    found: Survey | None
    """None where there is nothing yet."""
    why_not: str
    oddities: tuple[str, ...]
    changes: tuple[str, ...]
    """Against the store at hand."""

    @property
    def unreadable(self) -> bool:
        """There is input, and nothing of it counts."""
        found = self.found
        return found is not None and not found.rows and bool(found.rejected or found.excluded)


def _look(config: Config, inputs: Sequence[str], rows: int | None) -> Look:
    """At a sample of the source, and at the store.

    Raises:
        SourceError: the input does not fit the configuration, or is away.
        StoreError: the store cannot be opened, or the configuration cannot go on with it.
        UnusableError: a notifier cannot be made; its templates are rendered for that.
    """
    from monitor.commands.changes import changes
    from monitor.edge.notifiers.making import make_notifiers
    from monitor.edge.sample import Sample
    from monitor.survey import survey
    from monitor.vocabulary import Vocabulary

    for notifier in make_notifiers(config, None):
        notifier.close()
    settings = config.settings
    vocabulary = Vocabulary(settings.schema)
    sample = Sample(config, vocabulary, inputs, rows)
    told = tuple(changes(config))
    why_not = sample.nothing_yet()
    if why_not:
        return Look(None, why_not, (), told)
    found = survey(
        sample.batches(),
        settings.schema,
        vocabulary,
        settings.window,
        datetime.now(UTC),
        settings.detection.learning,
    )
    near = _near_misses(config, sample)
    times = (found.strange_times,) if found.strange_times else ()
    cured = (_with_cure(config, sample, misfit) for misfit in found.misfits)
    return Look(found, "", (*sample.left_out, *_giveaways(config), *near, *times, *cured), told)


def _with_cure(config: Config, sample: Sample, misfit: Misfit) -> str:
    """What is odd, and what the log has instead."""
    from monitor.config.problems import did_you_mean

    names = config.settings.schema.names
    if misfit.subject in names and misfit.kind == "never":
        column = config.columns[names.index(misfit.subject)]
        if column in sample.fields or not sample.fields:
            return misfit.text
        near = did_you_mean(column, sorted(sample.fields))
        return f"{misfit.text} (there is no `{column}`; {near})"
    held = []
    for outcome in config.outcomes:
        if outcome.name != misfit.subject or misfit.kind not in ("never", "always", "mostly"):
            continue
        for column in sorted(outcome.when.columns):
            if column in sample.fields or not sample.fields:
                held.append(f"`{column}` holds {sample.decoder.held(column)}")
            else:
                near = did_you_mean(column, sorted(sample.fields))
                held.append(f"there is no `{column}`; {near}")
    return " ".join([misfit.text, *([f"({'; '.join(held)})"] if held else [])])


def _near_misses(config: Config, sample: Sample) -> Iterator[str]:
    """Texts that a condition misses by a blank or a capital."""
    for outcome in config.outcomes:
        for column, texts in sorted(outcome.when.texts.items()):
            missed = sample.decoder.near(column, texts)
            if missed:
                listed = ", ".join(f"`{word}` ({n:,} rows)" for word, n in sorted(missed.items()))
                wanted = ", ".join(f"`{text}`" for text in sorted(texts))
                yield (
                    f"outcome `{outcome.name}` compares `{column}` with {wanted}, but it also "
                    f"holds {listed}: texts are compared letter by letter; name them in `when`, "
                    "too"
                )


def _look_for_people(config: Config, inputs: Sequence[str], rows: int | None) -> None:
    from monitor.edge.notifiers.making import UnusableError
    from monitor.edge.source import SourceError
    from monitor.edge.store import StoreError

    try:
        look = _look(config, inputs, rows)
    except (SourceError, StoreError, UnusableError) as error:
        say(str(error), err=True)
        raise typer.Exit(BAD_CONFIGURATION) from None
    say(f"{config.path}: sound")
    for change in look.changes:
        say(f"change: {change}")
    if look.found is None:
        say(f"No input yet: {look.why_not}.")
        say("Name a file to see what the configuration makes of it.")
        return
    _show(config, look.found, look.oddities)
    if look.unreadable:
        understood = "nothing of it can be understood"
        why = understood if look.found.rejected else "`source.where` leaves out every row"
        say(f"{why}: the configuration does not fit", err=True)
        raise typer.Exit(BAD_CONFIGURATION)


def _look_for_programs(config: Config, inputs: Sequence[str], rows: int | None) -> dict[str, Any]:
    from monitor.edge.notifiers.making import UnusableError
    from monitor.edge.source import SourceError
    from monitor.edge.store import StoreError

    try:
        look = _look(config, inputs, rows)
    except (SourceError, StoreError, UnusableError) as error:
        problems = [
            {"where": str(config.path), "key": "", "message": line, "fix": ""}
            for line in str(error).split("\n")
        ]
        return {"ok": False, "problems": problems}
    found = look.found
    report: dict[str, Any] = {"ok": True, "problems": [], "changes": list(look.changes)}
    if found is None:
        return report
    if look.unreadable:
        report["ok"] = False
        report["problems"] = [
            {"where": one.where, "key": "", "message": one.detail, "fix": ""}
            for one in found.examples
        ]
    return report | {
        "rows": found.rows,
        "first": found.first and found.first.isoformat(),
        "last": found.last and found.last.isoformat(),
        "attributes": [dataclasses.asdict(attribute) for attribute in found.attributes],
        "outcomes": [
            dataclasses.asdict(outcome) | {"rate": outcome.failures / max(found.rows, 1)}
            for outcome in found.outcomes
        ],
        "rejected": found.rejected,
        "rejected_ratio": _rejected_ratio(found),
        "excluded": found.excluded,
        "kept": found.kept,
        "outlook": found.outlook and dataclasses.asdict(found.outlook),
        "examples": [
            {"reason": one.reason, "where": one.where, "detail": one.detail}
            for one in found.examples
        ],
        "oddities": list(look.oddities),
    }


def _rejected_ratio(found: Survey) -> float:
    rejected = sum(found.rejected.values())
    return rejected / max(found.rows + rejected, 1)


def _outlook(config: Config, outlook: Outlook) -> str:
    """What the monitor could do with such a log."""
    from monitor.config.durations import format_duration as duration
    from monitor.edge.wording import number

    settings = config.settings
    length, learning = settings.window.slice_length, settings.detection.learning
    text = (
        f"{outlook.slices:,} slice{'s' * (outlook.slices != 1)} of {duration(length)}, "
        f"{outlook.empty_slices:,} of them empty, {number(outlook.rows_per_slice)} "
        f"row{'s' * (outlook.rows_per_slice != 1)} in each of the others; "
        f"a graph of up to {outlook.nodes:,} nodes; "
    )
    if not outlook.verdicts:
        missing = learning - outlook.slices * length
        return (
            f"{text}no verdict: `detection.learning` wants {duration(learning)} of history, "
            f"{duration(missing)} more than this"
            if missing
            else f"{text}no verdict: all of this is `detection.learning`"
        )
    return f"{text}verdicts at {outlook.verdicts:,} ticks, after {duration(learning)} of history"


def _giveaways(config: Config) -> list[str]:
    """Outcomes that are computed from an attribute: it will "explain" them, always."""
    names = dict(zip(config.columns, config.settings.schema.names, strict=True))
    return [
        f"outcome `{outcome.name}` is computed from attribute `{names[column]}`, "
        "which will then always seem to be the cause"
        for outcome in config.outcomes
        for column in outcome.when.columns
        if column in names
    ]


def _show(config: Config, found: Survey, oddities: Sequence[str]) -> None:
    from rich.markup import escape
    from rich.table import Table

    console = terminal()
    rows = max(found.rows, 1)
    zone = config.settings.window.zone
    span = ""
    if found.first and found.last:
        from zoneinfo import ZoneInfo

        first, last = (t.astimezone(ZoneInfo(zone)) for t in (found.first, found.last))
        span = f", {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} ({zone})"
    console.print(f"{found.rows:,} row{'s' * (found.rows != 1)}{span}")

    table = Table("attribute", "tier", title_justify="left")
    for heading in ("values", "frequent", "missing"):
        table.add_column(heading, justify="right")
    table.add_column("most frequent")
    for attribute in found.attributes:
        filled = max(found.rows - attribute.missing, 1)
        top = ", ".join(f"{text[:24]} {count / filled:.0%}" for text, count in attribute.top)
        table.add_row(
            attribute.name,
            config.tier_names[attribute.tier],
            f"{attribute.values:,}",
            f"{attribute.frequent:,}",
            f"{attribute.missing / rows:.1%}",
            escape(top),
        )
    print_whole(console, table)

    table = Table("outcome")
    table.add_column("failures", justify="right")
    table.add_column("rate", justify="right")
    table.add_column("when")
    for outcome, definition in zip(found.outcomes, config.outcomes, strict=True):
        rate = f"{outcome.failures / rows:.3%}"
        table.add_row(outcome.name, f"{outcome.failures:,}", rate, escape(definition.when.text))
    print_whole(console, table)

    if found.outlook is not None:
        console.print(_outlook(config, found.outlook), soft_wrap=True)
    rejected = sum(found.rejected.values())
    for reason, count in found.rejected.items():
        example = next(one for one in found.examples if one.reason == reason)
        share = f"{count / (found.rows + rejected):.2%} of all records"
        console.print(
            f"[yellow]rejected:[/] {count:,} × {reason}, {share}, for example", soft_wrap=True
        )
        console.print(f"  {escape(example.where)}: {escape(example.detail)}", soft_wrap=True)
    for reason, count in found.kept.items():
        example = next(one for one in found.examples if one.reason == reason)
        share = f"{count / rows:.2%} of the rows"
        console.print(
            f"[yellow]kept:[/] {count:,} × {reason}, {share}, for example", soft_wrap=True
        )
        console.print(f"  {escape(example.where)}: {escape(example.detail)}", soft_wrap=True)
    if found.excluded and config.source.where is not None:
        share = f"{found.excluded / (found.excluded + found.rows + rejected):.2%} of all records"
        where = escape(config.source.where.text)
        console.print(
            f"excluded: {found.excluded:,}, {share}, not `{where}` (`source.where`)", soft_wrap=True
        )
    for oddity in oddities:
        console.print(f"[yellow]look:[/] {escape(oddity)}", soft_wrap=True)

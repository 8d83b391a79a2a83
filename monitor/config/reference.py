"""`docs/configuration.md`, written from the code so that neither can lag behind the other."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from monitor.config.durations import format_duration
from monitor.config.notifier_sections import (
    AlertmanagerSection,
    AppriseSection,
    EmailSection,
    LogSection,
    NotifierSection,
    WebhookSection,
)
from monitor.config.sections import (
    AttributeTable,
    ConsoleSection,
    DetectionSection,
    Document,
    HeartbeatSection,
    HttpSection,
    IncidentsSection,
    LearnerSection,
    MaintenanceSection,
    OutcomeTable,
    SchemaSection,
    StoreSection,
    TimeTable,
    WindowSection,
)
from monitor.config.sources import FilesSection, KafkaSection

_INTRODUCTION = """\
# Configuration

<!-- Written by `python -m monitor.config.reference`; change the code, not this file. -->

One TOML file. `least-monitor check -c FILE` reads it whole and lists everything that is wrong with
it, by line, with the cure; then it shows what the configuration makes of your log. Every command
that takes `-c` does the same check first and ends with exit code 78 if something is wrong.

```toml
[source]
paths = ["/var/log/shop/*.jsonl.gz"]

[schema]
time = "at"
zone = "UTC"
tiers = ["client", "backend"]
attributes = [
  { name = "region", tier = "client" },
  { name = "app_version", tier = "client" },
  { name = "upstream", tier = "backend" },
]
outcomes = [
  { name = "failed", when = "status >= 500" },
  { name = "slow", when = "coalesce(total_seconds, timeout_seconds) > 2" },
]
error_code = "error"
```

- **Durations** are texts with a unit: `"500ms"`, `"30m"`, `"1h30m"`, `"28d"`, `"2w"`. A bare number
  has no unit and is refused.
- **The environment** overrides any key: `LEAST_MONITOR__WINDOW__LENGTH=12h`,
  `LEAST_MONITOR__DETECTION__HORIZONS='[1, 4]'`, `LEAST_MONITOR__NOTIFIERS__0__URL=…`.
- **Secrets** are read from files (`…_file`), never from this file.
- **Relative paths** start at the folder of this file.
- **Columns** within tables (JSON objects, Parquet structs) are named by dots: `client.geo.region`.
"""

_CONDITIONS = """\
## Conditions: `when`

A condition over the columns of the log, in Python's grammar with SQL's meaning.

| Form | Example |
|---|---|
| comparison | `status >= 500`, `0 < delay <= 60`, `step == "pay"` |
| list | `status in ("timeout", "refused")`, `code not in (0, 200)` |
| and, or, not | `status >= 500 and not is_null(error)` |
| arithmetic | `(finished - started) / 1000 > 2.5` |
| first that is there | `coalesce(arr_delay, dep_delay) >= 60` |
| missing | `is_null(error)`, `error is null`, `error is not null` |
| a flag | `cancelled`: true, or a number that is not zero, or `yes` |
| a field within a field | `http.response.status >= 500` |
| a name with spaces | `col("HTTP status") >= 500` |

A column is read as its partner asks: as a number beside a number, as text beside text. Two bare
columns are compared as text by `==` and as numbers by `<`.

**Missing.** An empty cell and the words of `schema.missing` (`-`, `n/a`, `null` …) are no number
and no flag, `is_null()` holds for them and `coalesce()` passes over them. A comparison with a text
sees what is written: `took != "-" and took > 2`. A comparison with `""` asks `is_null()`.

**Undecided.** A comparison with a missing value is neither true nor false, and what is known
decides: `status >= 500 or took > 2` is true by its first part whatever `took` is. Where a
condition stays undecided, the row has no failure of that outcome. If that goes for all outcomes,
nothing is known of the row: it is counted as `undecided`, with file and line. Conditions that
compare texts alone, such as `failed_step == "pay"`, are exempt: such a text is often there on
failures only.

**Unreadable.** A cell that is no number where one is needed (`fast`, `0.1, 0.2`) counts as
missing, but is told. The row is kept (`unread_number`) when any outcome is decided without it, and
set aside (`bad_number`) when none is; the same holds for flags.

**Numbers as text** have a decimal point and nothing else, unless `schema.decimal` says more; a
comma is never guessed at. Whole numbers beyond 2⁵³ are compared exactly by `==` and `!=`; in a list
they are rounded. As values of an attribute 7 and 7.0 are one, 4.1 and 4.10 are two.
"""

_INPUT = """\
## What happens to bad input

| Trouble | What happens |
|---|---|
| a column is missing, a time carries no zone and the configuration gives none | nothing is read; the message names the column, its purpose and the cure |
| a row cannot be understood (no time, not JSON, not UTF-8, wrong width, a cell on which every outcome hangs) | the row is set aside and counted by reason, the first ones with file, line and field; all others are kept |
| a cell cannot be read, but the row can be judged without it; or no outcome has a value to judge it by | the row is kept and counted as `unread_…` or `undecided`, the first ones with file, line and field |
| `source.where` is not true | the row is no event; it is counted as `excluded` |
| more than `source.max_rejected_ratio` of the rows (of at least 100), or all of them, cannot be understood | reading stops before them: that is a wrong configuration, not bad data. Nothing is lost: it goes on there when that is mended, or when sound rows follow |
| a file is empty, torn or not what its name says | that file is set aside with the reason and read when it changes; the others go on |
| the last line of a growing file is not finished | it waits for its end |
| no path matches a file, or none has for an hour | not ready, with the paths; silence is no gap in traffic then. One of several that matches nothing is told in the log, and by `check` |
| a log is rotated, copied or emptied | it is known again by its bytes; no line is read twice ([rotation](web-server-logs.md#rotation)) |
| a value has control characters | they are written out: `\\x1b` |
| a value is longer than 256 characters | it is cut, with a digest that keeps it apart from its like |
| a wall clock time happens twice, or is skipped, when the clocks change | the first of the two; the moment of the jump |
"""  # noqa: E501 - a row of a table is a line

TABLES: tuple[tuple[str, str, type[BaseModel]], ...] = (
    ('[source] kind = "files"', "", FilesSection),
    ('[source] kind = "kafka"', "See [Kafka](kafka.md).", KafkaSection),
    ("[schema]", "", SchemaSection),
    ("schema.time", "A text is short for `{ column = … }`.", TimeTable),
    ("schema.attributes", "", AttributeTable),
    ("schema.outcomes", "", OutcomeTable),
    ("[window]", "", WindowSection),
    ("[learner]", "", LearnerSection),
    ("[detection]", "", DetectionSection),
    ("[incidents]", "", IncidentsSection),
    ("[store]", "", StoreSection),
    ("[[notifiers]]", "Every kind has these.", NotifierSection),
    ('[[notifiers]] kind = "log"', "Without any notifier there is this one.", LogSection),
    ('[[notifiers]] kind = "webhook"', "", WebhookSection),
    ('[[notifiers]] kind = "alertmanager"', "", AlertmanagerSection),
    ('[[notifiers]] kind = "email"', "", EmailSection),
    ('[[notifiers]] kind = "apprise"', "", AppriseSection),
    ("[heartbeat]", "", HeartbeatSection),
    ("[[maintenance]]", "Either `start` and `end`, or `at` and `length`.", MaintenanceSection),
    ("[http]", "", HttpSection),
    ("[console]", "See [Console](console.md).", ConsoleSection),
)


def configuration_reference() -> str:
    """The whole document, as Markdown."""
    parts = [_INTRODUCTION, "## Top level", "\n".join(_rows(Document, only={"seed"}))]
    for title, note, section in TABLES:
        purpose = (section.__doc__ or "").strip().split("\n")[0]
        parts.append(f"## `{title}`\n\n{_sentence(purpose)}{' ' + note if note else ''}")
        parts.append("\n".join(_rows(section)))
        if section is OutcomeTable:
            parts.append(_CONDITIONS.strip())
    parts.append(_INPUT.strip())
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."


def _rows(section: type[BaseModel], only: set[str] | None = None) -> Iterator[str]:
    yield "| Key | Type | Default | Meaning |"
    yield "|---|---|---|---|"
    shared = NotifierSection.model_fields if section is not NotifierSection else {}
    for name, field in section.model_fields.items():
        if issubclass(section, NotifierSection) and name in shared:
            continue
        if only is None or name in only:
            meaning = _sentence(field.description or "").replace("|", "\\|")
            yield f"| `{name}` | {_type(field)} | {_default(field)} | {meaning} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    match value:
        case None:
            return "–"
        case timedelta():
            return f'`"{format_duration(value)}"`'
        case Enum():
            return f'`"{value.value}"`'
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            return f'`"{value}"`'
    return f"`{value}`"


def _type(field: FieldInfo) -> str:
    return _type_name(field.annotation)


def _type_name(annotation: Any) -> str:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type_name(inner[0])
    if origin is Literal:
        return " or ".join(f'`"{choice}"`' for choice in inner)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_type_name(one) for one in inner if one is not type(None))
    if origin is dict:
        return f"table of {_type_name(inner[1])}"
    if origin is list:
        return f"list of {_type_name(inner[0])}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f'`"{one.value}"`' for one in annotation)
    if annotation in (TimeTable, AttributeTable, OutcomeTable):
        return "text or table"
    if annotation is datetime:
        return "time"
    names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    return names.get(annotation, "duration")


if __name__ == "__main__":
    print(configuration_reference(), end="")

"""Where events come from: the source's sections, and what no single key of them can tell."""

from __future__ import annotations

import os
import re
import ssl
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from monitor.config.durations import parse_duration
from monitor.config.fields import NO_TIME, Duration, Section, Texts
from monitor.config.lines import Location
from monitor.config.model import (
    FilesSettings,
    KafkaSettings,
    SaslMechanism,
    SaslSettings,
    TlsSettings,
)
from monitor.config.problems import Complaints
from monitor.domain import bounded
from monitor.expression import Expression, ExpressionError, compile_expression

_files = FilesSettings()
_kafka = KafkaSettings((), ())

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/@]+):(\d{1,5})")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")

MIN_BUFFER_BYTES = 1 << 20


class FilesSection(Section):
    """Logs on disk or standard input."""

    kind: Literal["files"] = Field(default="files", description="`files`, also when left out.")
    paths: Texts = Field(
        default_factory=list,
        description="Files or globs, relative to this file; `-` is standard input. "
        "Commands that take INPUT use that instead.",
    )
    where: str | None = Field(
        default=None,
        description="Only rows for which this condition is true are events, for example "
        '`path != "/health"`. It is written as a `when`; the others are counted as `excluded`.',
    )
    format: Literal["auto", "parquet", "csv", "jsonl", "w3c", "common", "combined"] = Field(
        default=_files.format,
        description="`auto` goes by name and first bytes. `.gz`, `.zst`, `.bz2` are unpacked. "
        "`jsonl` also reads one JSON array; `w3c` is what IIS and CloudFront write, `common` and "
        "`combined` what Apache and nginx write.",
    )
    pattern: str | None = Field(
        default=_files.pattern,
        min_length=1,
        description="A regular expression (RE2) that matches whole lines, instead of a format; "
        "each named group `(?P<name>…)` is a column.",
    )
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = Field(
        default=_files.delimiter, description="Of CSV; found out from the header when left out."
    )
    encoding: str | None = Field(
        default=_files.encoding,
        min_length=1,
        description="Of text, such as `cp1252` or `utf-16-le`; left out, what a byte order mark "
        "says, else UTF-8.",
    )
    follow: bool = Field(
        default=_files.follow,
        description="Files may grow and new ones appear while the daemon runs.",
    )
    poll: Duration = Field(
        default=_files.poll, gt=NO_TIME, description="How often to look for new rows and files."
    )
    max_rejected_ratio: float = Field(
        default=_files.max_rejected_ratio,
        ge=0,
        le=1,
        description="Stop when more than this share of the rows cannot be understood.",
    )


class KafkaSection(Section):
    """Topics of Apache Kafka; every record is one JSON object."""

    kind: Literal["kafka"] = Field(description="`kafka`")
    bootstrap_servers: Annotated[Texts, Field(min_length=1)] = Field(
        description='Brokers to begin with: `["kafka1:9092", "kafka2:9092"]`.'
    )
    topics: Annotated[Texts, Field(min_length=1)] = Field(
        description="Read whole, all partitions, also those added later."
    )
    where: str | None = Field(
        default=None,
        description="Only rows for which this condition is true are events, for example "
        '`path != "/health"`. It is written as a `when`; the others are counted as `excluded`.',
    )
    group: str = Field(
        default=_kafka.group,
        min_length=1,
        description="Consumer group under which the stored offsets are shown in Kafka, for lag "
        "tools. Nothing is read by it: offsets live in the store.",
    )
    start: str = Field(
        default="2d",
        description="Where a store without a position begins: a duration (so long ago), an ISO "
        "time with zone, `beginning` or `end`.",
    )
    dead_letter_topic: str | None = Field(
        default=None,
        description="Records that cannot be understood are written here, with the reason and "
        "their origin as headers. Left out, they are only counted.",
    )
    max_rejected_ratio: float = Field(
        default=_kafka.max_rejected_ratio,
        ge=0,
        le=1,
        description="Pause when more than this share of the records cannot be understood; "
        "1 never pauses.",
    )
    recheck: Duration = Field(
        default=_kafka.recheck,
        gt=NO_TIME,
        description="How often a paused source looks whether the newest records are sound again.",
    )
    event_id: str | None = Field(
        default=_kafka.event_id,
        min_length=1,
        description="Column that names an event; repetitions are left out and counted.",
    )
    duplicates_within: Duration = Field(
        default=_kafka.duplicates_within,
        gt=NO_TIME,
        description="How far apart, by the records' timestamps, repetitions are known as such.",
    )
    idle_after: Duration = Field(
        default=_kafka.idle_after,
        gt=NO_TIME,
        description="A partition read to its end and silent for so long is not waited for.",
    )
    buffer_bytes: int = Field(
        default=_kafka.buffer_bytes,
        ge=MIN_BUFFER_BYTES,
        description="Memory for records that were read and not yet taken in; a full one stops "
        "the reading.",
    )
    poll: Duration = Field(
        default=_kafka.poll, gt=NO_TIME, description="How often to take in what has come."
    )
    tls: bool = Field(default=False, description="Encrypt the connections.")
    tls_ca_file: str | None = Field(
        default=None, description="Whom to trust (PEM); left out, whom the system trusts."
    )
    tls_certificate_file: str | None = Field(
        default=None, description="Our own certificate (PEM), where brokers ask for one."
    )
    tls_key_file: str | None = Field(default=None, description="Its key (PEM), not encrypted.")
    sasl_mechanism: SaslMechanism | None = Field(
        default=None, description="How to sign in; left out: don't."
    )
    sasl_user: str | None = Field(default=None, min_length=1, description="Who signs in.")
    sasl_password_file: str | None = Field(
        default=None, description="A file that holds the password of `sasl_user`."
    )


SOURCE_SECTIONS: dict[str, type[Section]] = {"files": FilesSection, "kafka": KafkaSection}
"""By `kind`."""


def _kind(value: Any) -> Any:
    return value.get("kind", "files") if isinstance(value, dict) else getattr(value, "kind", None)


Source = Annotated[
    Annotated[FilesSection, Tag("files")] | Annotated[KafkaSection, Tag("kafka")],
    Discriminator(_kind),
]


def source(
    section: FilesSection | KafkaSection, base: Path, complaints: Complaints
) -> FilesSettings | KafkaSettings:
    """What the section means.

    Args:
        section: parsed.
        base: where relative paths start.
        complaints: takes what is wrong.
    """
    if isinstance(section, FilesSection):
        return _files_settings(section, base, complaints)
    return _kafka_settings(section, base, complaints)


def _files_settings(section: FilesSection, base: Path, complaints: Complaints) -> FilesSettings:
    if any(not path for path in section.paths):
        complaints.add(("source", "paths"), "holds an empty text", "remove it")
    paths = tuple(p if p == "-" else os.path.normpath(base / p) for p in section.paths)
    if section.encoding is not None:
        _encoding(section.encoding, complaints)
    if section.pattern is not None:
        _pattern(section, section.pattern, complaints)
    values = dict(section) | {"paths": paths, "where": _where(section.where, complaints)}
    values.pop("kind")
    return FilesSettings(**values)


def _where(text: str | None, complaints: Complaints) -> Expression | None:
    if text is None:
        return None
    try:
        return compile_expression(text)
    except ExpressionError as error:
        complaints.add(("source", "where"), f"`{text[:200]}`: {error}")
        return None


def _encoding(name: str, complaints: Complaints) -> None:
    try:
        "".encode(name)  # what is no encoding of text is refused too
    except (LookupError, ValueError):
        here: Location = ("source", "encoding")
        fix = "write a name such as `cp1252`, `latin-1` or `utf-16-le`"
        complaints.add(here, f"{name!r} is no encoding of text", fix)


def _pattern(section: FilesSection, pattern: str, complaints: Complaints) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    here: Location = ("source", "pattern")
    if section.format != "auto":
        complaints.add(here, "stands beside `format`", "remove one of them")
    try:
        found = pc.extract_regex(pa.array([], pa.string()), pattern)
    except pa.ArrowException as error:
        text = str(error).removeprefix("Invalid regular expression: ")
        fix = "it is RE2: no look-around or back-reference; write `(?:…)` for groups without a name"
        complaints.add(here, f"is no regular expression: {text}", fix)
    else:
        if not found.type.num_fields:
            complaints.add(here, "names no column", "write a group: (?P<status>\\d+)")


def _kafka_settings(section: KafkaSection, base: Path, complaints: Complaints) -> KafkaSettings:
    for i, server in enumerate(section.bootstrap_servers):
        found = _ADDRESS.fullmatch(server)
        if not found or not 0 < int(found[2]) < 65536:
            here: Location = ("source", "bootstrap_servers", i)
            complaints.add(here, f"{server!r} is no address", 'write "host:9092"')
    for i, topic in enumerate(section.topics):
        _topic(topic, ("source", "topics", i), complaints)
        if topic in section.topics[:i]:
            complaints.add(("source", "topics", i), f"`{topic}` is listed twice", "remove one")
    dead = section.dead_letter_topic
    if dead is not None:
        _topic(dead, ("source", "dead_letter_topic"), complaints)
        if dead in section.topics:
            complaints.add(
                ("source", "dead_letter_topic"),
                f"`{dead}` is read too: rejected records would come back for ever",
                "give dead letters a topic of their own",
            )
    return KafkaSettings(
        servers=tuple(section.bootstrap_servers),
        topics=tuple(section.topics),
        where=_where(section.where, complaints),
        group=section.group,
        start=_start(section.start, complaints),
        dead_letter_topic=dead,
        max_rejected_ratio=section.max_rejected_ratio,
        recheck=section.recheck,
        event_id=section.event_id,
        duplicates_within=section.duplicates_within,
        idle_after=section.idle_after,
        buffer_bytes=section.buffer_bytes,
        poll=section.poll,
        tls=_tls(section, base, complaints),
        sasl=_sasl(section, base, complaints),
    )


def _topic(name: str, location: Location, complaints: Complaints) -> None:
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        complaints.add(
            location, f"{name!r} is no topic", "use letters, digits, `.`, `_` and `-`, at most 249"
        )


def _start(text: str, complaints: Complaints) -> timedelta | datetime | Literal["beginning", "end"]:
    if text == "beginning":
        return "beginning"
    if text == "end":
        return "end"
    try:
        return parse_duration(text)
    except PydanticCustomError:
        pass
    here, fix = ("source", "start"), '`beginning`, `end`, "2d" or "2026-01-05T00:00Z"'
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        complaints.add(here, f"{text!r} is neither a duration nor a time", f"write {fix}")
        return "beginning"
    if at.tzinfo is None:
        complaints.add(here, f"{text!r} names no time zone", f"write {text}Z for UTC")
        return "beginning"
    try:
        return bounded(at)
    except ValueError as error:
        complaints.add(here, f"{text!r} {error}", f"write {fix}")
        return "beginning"


def _tls(section: KafkaSection, base: Path, complaints: Complaints) -> TlsSettings | None:
    keys = ("tls_ca_file", "tls_certificate_file", "tls_key_file")
    given = {key: getattr(section, key) for key in keys if getattr(section, key) is not None}
    if not section.tls:
        for key in given:
            complaints.add(("source", key), "has no meaning without `tls`", "add tls = true")
        return None
    paths = {key: os.path.normpath(base / path) for key, path in given.items()}
    missing = False
    for key, path in paths.items():
        try:
            with open(path, "rb") as file:
                file.read(1)
        except OSError as error:
            fix = "relative paths start at this file"
            complaints.add(("source", key), f"cannot be used: {error.strerror}", fix)
            missing = True
    settings = TlsSettings(*(paths.get(key) for key in keys))
    if settings.key_file and not settings.certificate_file:
        complaints.add(("source", "tls_key_file"), "has no `tls_certificate_file` beside it")
    elif not missing:
        _try_tls(settings, complaints)
    return settings


def _try_tls(settings: TlsSettings, complaints: Complaints) -> None:
    """Load the files as a connection will: broken ones are found before start."""
    if settings.ca_file:
        try:
            ssl.create_default_context(cafile=settings.ca_file)
        except (ssl.SSLError, OSError) as error:
            here = ("source", "tls_ca_file")
            complaints.add(here, f"holds no certificate: {error}", "write it as PEM")
    if settings.certificate_file:
        try:
            # Without a password the key must not ask for one on a terminal.
            ssl.create_default_context().load_cert_chain(
                settings.certificate_file, settings.key_file, password=lambda: b""
            )
        except (ssl.SSLError, OSError, ValueError) as error:
            here = ("source", "tls_certificate_file")
            complaints.add(here, f"does not fit its key: {error}", "write both as PEM, unencrypted")


def _sasl(section: KafkaSection, base: Path, complaints: Complaints) -> SaslSettings | None:
    password = complaints.secret(section.sasl_password_file, ("source", "sasl_password_file"), base)
    if section.sasl_mechanism is None:
        for key in ("sasl_user", "sasl_password_file"):
            if getattr(section, key) is not None:
                complaints.add(
                    ("source", key),
                    "has no meaning without `sasl_mechanism`",
                    'add sasl_mechanism = "SCRAM-SHA-512"',
                )
        return None
    for key in ("sasl_user", "sasl_password_file"):
        if getattr(section, key) is None:
            here: Location = ("source", "sasl_mechanism")
            complaints.add(here, f"needs `{key}`", f'write {key} = "…"')
    return SaslSettings(section.sasl_mechanism, section.sasl_user or "", password or "")

"""One TOML file in, a Config or every complaint at once."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.config import (
    AlertmanagerNotifier,
    Config,
    ConfigError,
    EmailNotifier,
    KafkaSettings,
    LogNotifier,
    WebhookNotifier,
    load,
)
from monitor.config.durations import format_duration, parse_duration
from monitor.config.lines import key_lines
from monitor.config.model import SaslSettings, TlsSettings
from monitor.domain import (
    Attribute,
    DetectionSettings,
    IncidentSettings,
    LearnerSettings,
    Method,
    WindowSettings,
)

EXAMPLES = Path(__file__).parents[2] / "examples"

MINIMAL = """
[schema]
time = "at"
attributes = ["region"]
outcomes = ["failed"]
"""


def read(text: str, folder: Path, **environ: str) -> Config:
    path = folder / "monitor.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, {f"LEAST_MONITOR__{key}": value for key, value in environ.items()})


def complaints(text: str, folder: Path, **environ: str) -> list[str]:
    """The problems, with the folder cut away."""
    with pytest.raises(ConfigError) as caught:
        read(text, folder, **environ)
    return [str(problem).replace(f"{folder}/", "") for problem in caught.value.problems]


def with_line(line: str, section: str = "schema") -> str:
    """The minimal file with one line more in a section."""
    return MINIMAL + line if section == "schema" else f"{MINIMAL}[{section}]\n{line}"


def kafka(line: str = "", servers: str = "kafka:9092", topics: str = "bookings") -> str:
    """The minimal file over Kafka, with one line more."""
    fixed = f'kind = "kafka"\nbootstrap_servers = "{servers}"\ntopics = "{topics}"\n'
    return with_line(fixed + line, "source")


def test_kafka_as_a_source(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    config = read(
        kafka(
            'start = "2026-01-05T01:00+01:00"\nevent_id = "id"\ntls = true\nrecheck = "5s"\n'
            'sasl_mechanism = "PLAIN"\nsasl_user = "m"\nsasl_password_file = "password"'
        ),
        tmp_path,
    )
    assert config.source == KafkaSettings(
        servers=("kafka:9092",),
        topics=("bookings",),
        start=datetime(2026, 1, 5, tzinfo=UTC),
        event_id="id",
        recheck=timedelta(seconds=5),
        tls=TlsSettings(),
        sasl=SaslSettings("PLAIN", "m", "s3cret"),
    )
    assert "s3cret" not in repr(config)
    assert read(kafka(), tmp_path).source == KafkaSettings(("kafka:9092",), ("bookings",))
    source = read(kafka(), tmp_path, SOURCE__START="end").source
    assert isinstance(source, KafkaSettings)
    assert source.start == "end"


def test_a_short_file_gets_every_default_from_the_domain(tmp_path: Path) -> None:
    config = read(MINIMAL, tmp_path)
    assert config.settings.schema.attributes == (Attribute("region", 0),)
    assert config.settings.schema.outcomes == ("failed",)
    assert config.settings.window == WindowSettings()
    assert config.settings.learner == LearnerSettings()
    assert config.settings.detection == DetectionSettings()
    assert config.settings.incidents == IncidentSettings()
    assert config.notifiers == (LogNotifier("human"),)
    assert (config.http.host, config.http.port) == ("127.0.0.1", 9469)
    assert config.store.url == "sqlite:///least-monitor.db"


def test_a_relative_store_lies_beside_the_file_wherever_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    text = MINIMAL + '[store]\nurl = "sqlite:///state/x.db?timeout=3"\n'
    assert read(text, tmp_path).store.url == f"sqlite:///{tmp_path}/state/x.db?timeout=3"
    for absolute in (
        "sqlite:////var/x.db",
        "sqlite:///:memory:",
        "postgresql+psycopg://db/monitor",
    ):
        text = MINIMAL + f'[store]\nurl = "{absolute}"\n'
        assert read(text, tmp_path).store.url == absolute
    # Where it used to be, there is a history: it is not begun anew without a word.
    (elsewhere / "x.db").touch()
    with pytest.raises(
        ConfigError, match=f"{elsewhere}/x.db is: relative paths start at this file"
    ):
        read(MINIMAL + '[store]\nurl = "sqlite:///x.db"\n', tmp_path)
    (tmp_path / "x.db").touch()
    assert read(MINIMAL + '[store]\nurl = "sqlite:///x.db"\n', tmp_path).store.url.endswith("/x.db")


def test_a_full_file_is_read_as_written(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hush\n")
    config = read(
        """
        seed = 7
        [source]
        kind = "files"
        paths = ["logs/*.jsonl", "/var/log/x.csv"]
        format = "csv"
        delimiter = ";"
        follow = false
        poll = "1m30s"
        max_rejected_ratio = 0.01
        [schema]
        time = { column = "ts", unit = "ms" }
        tiers = ["place", "airline"]
        attributes = [
          { name = "city", tier = "place" },
          { name = "carrier", tier = "airline", column = "op_carrier" },
        ]
        outcomes = [{ name = "late", when = "delay >= 60" }]
        error_code = "code"
        [window]
        slice_length = "15m"
        length = "12h"
        zone = "Asia/Tokyo"
        [learner]
        tiers = "free"
        l1 = 0
        [detection]
        report = "paper"
        compare = ["excess"]
        horizons = [1, 48]
        [incidents]
        [store]
        url = "postgresql+psycopg://user@db/monitor"
        [[notifiers]]
        kind = "log"
        format = "json"
        [[notifiers]]
        kind = "webhook"
        url = "https://example.org/hook"
        secret_file = "key"
        timeout = "3s"
        [[notifiers]]
        kind = "alertmanager"
        urls = ["http://am-1:9093", "https://am-2/prefix/"]
        labels = { severity = "page", team = "Zürich" }
        runbook_url = "https://wiki.example.org/root-cause"
        timeout = "4s"
        [[notifiers]]
        kind = "email"
        host = "mail.example.org"
        security = "tls"
        sender = "monitor@example.org"
        recipients = ["ops@example.org", "lead@example.org"]
        user = "monitor"
        password_file = "key"
        timeout = "5s"
        [http]
        host = "::1"
        port = 0
        public_url = "https://monitor.example.org/least"
        """,
        tmp_path,
    )
    assert config.source.paths == (str(tmp_path / "logs/*.jsonl"), "/var/log/x.csv")
    assert config.source.poll == timedelta(seconds=90)
    assert config.settings.schema.attributes == (
        Attribute("city", 0),
        Attribute("carrier", 1),
        Attribute("code", 2, is_code=True),
    )
    assert config.columns == ("city", "op_carrier", "code")
    assert config.tier_names == ("place", "airline", "error_code")
    assert config.time.unit == "ms"
    assert config.settings.window.zone == "Asia/Tokyo"
    assert config.settings.window.slices == 48
    assert config.settings.learner.tiers is False
    assert config.settings.detection.report is Method.PAPER
    assert config.settings.detection.compare == (Method.EXCESS,)
    assert config.settings.seed == 7
    assert config.notifiers == (
        LogNotifier("json"),
        WebhookNotifier("https://example.org/hook", "hush", timedelta(seconds=3)),
        AlertmanagerNotifier(
            ("http://am-1:9093", "https://am-2/prefix/"),
            {"severity": "page", "team": "Zürich"},
            "https://wiki.example.org/root-cause",
            timedelta(seconds=4),
        ),
        EmailNotifier(
            host="mail.example.org",
            port=465,
            security="tls",
            sender="monitor@example.org",
            recipients=("ops@example.org", "lead@example.org"),
            user="monitor",
            password="hush",
            timeout=timedelta(seconds=5),
        ),
    )
    assert config.http.public_url == "https://monitor.example.org/least"
    assert "hush" not in repr(config)


def test_everything_wrong_is_said_at_once_by_line(tmp_path: Path) -> None:
    text = """\
[source]
paths = [1]
[schema]
time = "at"
attributes = [
  { name = "region", teir = 1 },
  { name = "agent", tier = "channel" },
  "region",
]
outcomes = [
  { name = "failed", when = "status >> 500" },
  { name = "failed", when = "status >= 500" },
]
[windw]
length = "24h"
[window]
slice_length = 30
length = "1d"
[[notifiers]]
kind = "pigeon"
"""
    found = complaints(text, tmp_path)
    assert [line.split(": ")[0] for line in found] == [
        f"monitor.toml:{line}" for line in (2, 6, 7, 8, 11, 12, 14, 17, 19)
    ]
    said = "\n".join(found)
    assert "schema.attributes[0].teir: unknown key; did you mean `tier`?" in said
    assert "schema.attributes[1].tier: there is no tier 'channel'" in said
    assert "attribute `region` is listed twice, first in line 6" in said
    assert "outcome `failed` is listed twice, first in line 11" in said
    assert "windw: unknown key; did you mean `window`?" in said
    assert "window.slice_length: 30 is not a duration; write a text with a unit" in said
    assert "unknown kind 'pigeon'" in said
    assert "`status >> 500`" in said


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (with_line('zone = "Amerika/New_York"'), "did you mean `America/New_York`?"),
        (
            with_line('atributes = ["x"]'),
            "schema.atributes: unknown key; did you mean `attributes`",
        ),
        (with_line('error_code = "region"'), "`region` is an attribute too"),
        (with_line('tiers = ["a", "a"]'), "tier `a` is listed twice"),
        (with_line("slice_length_minutes = 30", "window"), 'write `slice_length = "…"`'),
        (with_line('slice_length = "7m"', "window"), "7m does not divide the window of 1d"),
        (with_line('slice_length = "5h"\nlength = "10h"', "window"), "does not divide a day"),
        (with_line('length = "0s"', "window"), "it must be more than 0"),
        (with_line('length = "half an hour"', "window"), "is not a duration"),
        (with_line('zone = "Mars/Olympus"', "window"), "there is no time zone 'Mars/Olympus'"),
        (with_line("horizons = [4, 2]", "detection"), "must ascend; write [2, 4]"),
        (with_line("horizons = [1, 49]", "detection"), "longer than the window, which has 48"),
        (with_line("horizons = [0]", "detection"), "horizons[0]: is 0; it must be at least 1"),
        (with_line('history = "1h"\nlearning = "1h"', "detection"), "shorter than `window.length`"),
        (with_line('learning = "60d"', "detection"), "longer than `detection.history`"),
        (with_line('report = "magic"', "detection"), "allowed are 'excess' or 'paper'"),
        (with_line('compare = ["excess"]', "detection"), "`excess` is what `report` shows"),
        (with_line("false_alarms_per_week = -1", "detection"), "it must be more than 0"),
        (with_line('port = "9469"', "http"), 'must be a whole number, not "9469"'),
        (with_line("port = 70000", "http"), "it must be at most 65535"),
        (with_line('host = "0.0.0.0"', "http"), "open to others; add `token_file`"),
        (with_line('token_file = "nowhere"', "http"), "No such file"),
        (with_line('url = "mysql://x"', "store"), "is no store we know"),
        (with_line('kind = "kafak"', "source"), "unknown kind 'kafak'; did you mean `kafka`?"),
        (with_line('kind = "kafka"', "source"), 'source.topics: is missing; write topics = ["b'),
        (with_line('topics = "t"', "source"), "source.topics: unknown key"),
        (kafka('paths = ["x"]'), "source.paths: unknown key"),
        (kafka("topic = 't'"), "source.topic: unknown key; did you mean `topics`?"),
        (kafka(servers="kafka"), "source.bootstrap_servers[0]: 'kafka' is no address; write"),
        (kafka(servers="kafka:99999"), "is no address"),
        (kafka(topics="a b"), "source.topics[0]: 'a b' is no topic; use letters"),
        (kafka('dead_letter_topic = "bookings"'), "would come back for ever; give dead letters"),
        (kafka('start = "soon"'), "source.start: 'soon' is neither a duration nor a time; write"),
        (kafka('start = "2026-01-05T00:00"'), "names no time zone; write 2026-01-05T00:00Z"),
        (kafka('sasl_mechanism = "PLAIN"'), "source.sasl_mechanism: needs `sasl_user`; write sasl"),
        (kafka('sasl_mechanism = "MD5"'), 'source.sasl_mechanism: cannot be "MD5"; allowed are'),
        (kafka('sasl_user = "x"'), "source.sasl_user: has no meaning without `sasl_mechanism`"),
        (kafka('tls_ca_file = "x"'), "source.tls_ca_file: has no meaning without `tls`; add tls"),
        (kafka('tls = true\ntls_ca_file = "x"'), "source.tls_ca_file: cannot be used: No such"),
        (kafka('tls = true\ntls_ca_file = "monitor.toml"'), "holds no certificate: "),
        (kafka("buffer_bytes = 1"), "source.buffer_bytes: is 1; it must be at least 1048576"),
        (with_line("max_rejected_ratio = 2", "source"), "it must be at most 1"),
        (MINIMAL + "[[notifiers]]\nurl='x'", "has no `kind`"),
        (MINIMAL + "[[notifiers]]\nkind='webhook'\nurl='ftp://x'", "is no address"),
        (MINIMAL + "[[notifiers]]\nkind='webhook'\nurll='http://x'", "did you mean `url`?"),
        (MINIMAL + "[[notifiers]]\nkind='log'\nformat='xml'", "notifiers[0].format: cannot be"),
        ("", "schema: is missing; add a [schema] section"),
        ("[schema]\nattributes=['x']\noutcomes=['y']", "schema.time: is missing"),
        ("schema = 5", "schema: must be a table, not 5"),
        (MINIMAL.replace('"at"', "{ zone = 'UTC' }"), "schema.time: names no column"),
        (MINIMAL.replace('"at"', "{ date = 'd', clock = 'c' }"), "carry no zone"),
        (MINIMAL.replace('"at"', "{ column = 'd', clock = 'c' }"), "keep one way"),
        (
            MINIMAL.replace('"at"', "{ date='d', clock='c', zone='UTC', format='AM' }"),
            "write HHMM or HH:MM",
        ),
        (
            MINIMAL.replace('"at"', "{ column='at', zone='UTC' }") + 'zone = "UTC"',
            "schema.zone: is given twice",
        ),
        (
            MINIMAL.replace('"at"', "{ date='d', clock='c', zone='UTC', unit='s' }"),
            "has no meaning beside `clock`",
        ),
        (
            MINIMAL.replace('"at"', "{ column='at', unit='s', format='%Y' }"),
            "keep `format` or `unit`",
        ),
        (with_line('url = "sqlite://"\nurl_file = "x"', "store"), "and `url_file` too; keep one"),
        (with_line('paths = [""]', "source"), "holds an empty text"),
        (with_line('host = "monitor.example"', "http"), "open to others"),
        (with_line("follow = 1", "source"), "must be true or false, not 1"),
        (with_line("max_rejected_ratio = -1", "source"), "it must be at least 0"),
        (with_line("paper_p_value = 1", "detection"), "it must be less than 1"),
        (with_line('l1 = "much"', "learner"), 'must be a number, not "much"'),
        (with_line("tiers = {}", "schema"), "must be a list, not a table"),
        (with_line("error_code = []", "schema"), "must be a text, not a list; put it in quotes"),
        (MINIMAL.replace('["region"]', "[]"), "schema.attributes: is empty; list at least one"),
        (MINIMAL.replace('"region"', '"my region"'), "'my region' is not a name"),
        (MINIMAL.replace('"failed"', "{ name = 'x', when = '1 < 2' }"), "reads no column"),
        (MINIMAL.replace('"failed"', "{ name = 'x' }"), "schema.outcomes[0].when: is missing"),
        (MINIMAL.replace('"region"', "{ name = 'x', tier = -1 }"), "there is no tier -1"),
        ("[schema\ntime = 1", "monitor.toml:1: is not TOML"),
    ],
)
def test_each_mistake_is_named_with_its_key_and_its_cure(
    text: str, complaint: str, tmp_path: Path
) -> None:
    said = "\n".join(complaints(text, tmp_path))
    assert complaint in said
    assert said.startswith("monitor.toml")


def alertmanager(line: str = "", urls: str = '"http://am:9093"') -> str:
    return f'{MINIMAL}[[notifiers]]\nkind = "alertmanager"\nurls = {urls}\n{line}\n'


def email(line: str = "", recipients: str = '"ops@example.org"') -> str:
    return (
        f'{MINIMAL}[[notifiers]]\nkind = "email"\nhost = "mail.example.org"\n'
        f'sender = "monitor@example.org"\nrecipients = {recipients}\n{line}\n'
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (alertmanager(urls="[]"), "notifiers[0].urls: is empty; list at least one"),
        (alertmanager(urls='["am:9093"]'), "notifiers[0].urls[0]: 'am:9093' is no address"),
        (alertmanager(urls='"http://am:port"'), "is no address; write http://host:port"),
        (alertmanager(urls='"http://am:99999"'), "is no address; write http://host:port"),
        (alertmanager(urls='"http://am /x"'), "is no address"),
        (alertmanager(urls='"http://am?x=1"'), "has a `?` or `#`"),
        (alertmanager(urls='"http://me:secret@am"'), "carries a user, which would show in logs"),
        (alertmanager(urls='"http://am/api/v2/alerts"'), "end it before /api/v2/alerts"),
        (alertmanager(urls='["http://am", "http://am"]'), "urls[1]: http://am is listed twice"),
        (alertmanager('labels = { "a-b" = "c" }'), "'a-b' is no label name of Prometheus"),
        (alertmanager('labels = { "7x" = "c" }'), "'7x' is no label name of Prometheus"),
        (alertmanager('labels = { __x = "c" }'), "'__x' is no label name of Prometheus"),
        (alertmanager('labels = { incident = "c" }'), "labels.incident: is set by least-monitor"),
        (alertmanager('labels = { team = "" }'), "labels.team: is empty"),
        (alertmanager("labels = { tier = 1 }"), "labels.tier: must be a text, not 1"),
        (alertmanager('runbook_url = "wiki"'), "runbook_url: 'wiki' is no address"),
        (alertmanager('url = "http://am"'), "did you mean `urls`?"),
        (MINIMAL + "[[notifiers]]\nkind='alertmanager'", "notifiers[0].urls: is missing; write"),
        (MINIMAL + "[[notifiers]]\nkind='alertmanger'", "did you mean `alertmanager`?"),
        (email(recipients="[]"), "notifiers[0].recipients: is empty; list at least one"),
        (email(recipients='["ops"]'), "recipients[0]: 'ops' is no mail address"),
        (email(recipients='"Ops <ops@example.org>"'), "write it bare: ops@example.org"),
        (email(recipients='"a@b.org\\nBcc: c@d.org"'), "is no mail address"),
        (email("port = 0"), "notifiers[0].port: is 0; it must be at least 1"),
        (email('security = "ssl"'), "allowed are 'starttls', 'tls' or 'none'"),
        (email('user = "me"'), "notifiers[0].user: has no password; add `password_file`"),
        (email('password_file = "nowhere"\nuser = "me"'), "password_file: cannot be used: No such"),
        (email('password_file = "nowhere"'), "password_file: belongs to nobody; add `user`"),
        (email('user = "me"\nsecurity = "none"'), "would send the password in the clear"),
        (email('password = "hush"'), "did you mean `password_file`?"),
        (with_line('public_url = "monitor.example.org"', "http"), "is no address"),
        (with_line('public_url = "https://a/#top"', "http"), "has a `?` or `#`"),
    ],
)
def test_a_notifier_that_could_not_tell_is_refused(
    text: str, complaint: str, tmp_path: Path
) -> None:
    said = "\n".join(complaints(text, tmp_path))
    assert complaint in said
    assert said.startswith("monitor.toml")


@pytest.mark.parametrize(("security", "port"), [("starttls", 587), ("tls", 465), ("none", 25)])
def test_mail_goes_to_the_port_that_is_usual_for_its_security(
    security: str, port: int, tmp_path: Path
) -> None:
    (made,) = read(email(f'security = "{security}"'), tmp_path).notifiers
    assert isinstance(made, EmailNotifier)
    assert (made.port, made.recipients) == (port, ("ops@example.org",))
    (moved,) = read(email(f'port = 2525\nsecurity = "{security}"'), tmp_path).notifiers
    assert isinstance(moved, EmailNotifier)
    assert moved.port == 2525


def test_a_relay_on_this_machine_may_be_signed_in_to_without_encryption(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hush")
    text = email('user = "me"\npassword_file = "key"\nsecurity = "none"')
    (made,) = read(text.replace("mail.example.org", "127.0.0.1"), tmp_path).notifiers
    assert isinstance(made, EmailNotifier)
    assert (made.user, made.password) == ("me", "hush")


def test_the_horizons_follow_a_window_of_fewer_slices(tmp_path: Path) -> None:
    config = read(with_line('slice_length = "1h"', "window"), tmp_path)
    assert config.settings.detection.horizons == (1, 2, 4, 12, 24)


def test_the_rhythm_is_that_of_the_log_unless_told_otherwise(tmp_path: Path) -> None:
    zoned = with_line('zone = "Europe/Lisbon"')
    assert read(zoned, tmp_path).settings.window.zone == "Europe/Lisbon"
    assert read(zoned + '\n[window]\nzone = "UTC"', tmp_path).settings.window.zone == "UTC"


def test_a_change_in_what_rows_mean_is_told_from_other_changes(tmp_path: Path) -> None:
    before = read(MINIMAL, tmp_path).reading
    assert read(with_line("port = 1", "http"), tmp_path).reading == before
    changes = [
        MINIMAL.replace('"failed"', '{ name = "failed", when = "not failed" }'),
        MINIMAL.replace('"region"', '{ name = "region", column = "area" }'),
        with_line('zone = "UTC"'),
    ]
    readings = {read(text, tmp_path).reading for text in changes}
    assert len(readings | {before}) == 4


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    config = read(
        MINIMAL + "[[notifiers]]\nkind = 'webhook'\nurl = 'http://a'\n[http]\nport = 1",
        tmp_path,
        HTTP__PORT="2",
        WINDOW__LENGTH="12h",
        DETECTION__HORIZONS="[1, 3]",
        NOTIFIERS__0__URL="http://b",
        LEARNER__TIERS="false",
        SEED="3",
        SCHEMA__TIME="ts",
    )
    assert config.http.port == 2
    assert config.settings.window.length == timedelta(hours=12)
    assert config.settings.detection.horizons == (1, 3)
    assert config.notifiers == (WebhookNotifier("http://b"),)
    assert config.settings.learner.tiers is False
    assert config.settings.seed == 3
    assert config.time.column == "ts"


def test_a_mistake_in_the_environment_is_laid_at_its_door(tmp_path: Path) -> None:
    (said,) = complaints(MINIMAL, tmp_path, HTTP__PROT="1")
    assert said == (
        "environment LEAST_MONITOR__HTTP__PROT: http.prot: unknown key; did you mean `port`?"
    )
    said = "\n".join(complaints(MINIMAL, tmp_path, SEED__X="1", WINDOW__LENGTH="5"))
    assert "LEAST_MONITOR__SEED__X" in said
    assert "LEAST_MONITOR__WINDOW__LENGTH: window.length: 5 is not a duration" in said


def test_secrets_come_from_files_and_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("open sesame\n")
    (tmp_path / "url").write_text("postgresql://me:password@db/x\n")
    config = read(
        with_line('host = "0.0.0.0"\ntoken_file = "token"\n[store]\nurl_file = "url"', "http"),
        tmp_path,
    )
    assert config.http.token == "open sesame"
    assert config.store.url == "postgresql://me:password@db/x"
    assert "sesame" not in repr(config)
    assert "password" not in repr(config)


def test_an_empty_secret_is_no_secret(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    assert "is empty" in complaints(with_line('token_file = "token"', "http"), tmp_path)[0]


def test_files_that_are_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist; give the path"):
        load(tmp_path / "nothing.toml", {})
    (tmp_path / "huge.toml").write_bytes(b"#" * 5_000_000)
    with pytest.raises(ConfigError, match="too large"):
        load(tmp_path / "huge.toml", {})
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, {})
    (tmp_path / "latin.toml").write_bytes(b"[source]\npaths = ['caf\xe9']")
    with pytest.raises(ConfigError, match=r"latin.toml:2: is not UTF-8; save"):
        load(tmp_path / "latin.toml", {})


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/*.toml")), ids=lambda p: p.stem)
def test_every_example_is_sound(path: Path) -> None:
    config = load(path, {})
    assert config.settings.schema.attributes
    source = config.source
    assert source.topics if isinstance(source, KafkaSettings) else source.paths


def test_a_configuration_is_read_without_the_heavy_libraries() -> None:
    code = (
        "import sys, monitor.config as c, pathlib;"
        f"c.load(pathlib.Path({str(EXAMPLES / 'flights' / 'monitor.toml')!r}), {{}});"
        "print([m for m in ('pyarrow', 'scipy', 'tensorflow', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@given(st.integers(min_value=1, max_value=10**10))
def test_a_duration_reads_back_as_written(milliseconds: int) -> None:
    length = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(length)) == length


_keys = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
_values = st.recursive(
    st.sampled_from(["1", "-2.5", "true", '"a # b"', "'[]'", '"""x\ny"""', "2024-01-01", '"\\""']),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[\n" + ", # c\n".join(items) + "\n]"),
    ),
    max_leaves=6,
)


@given(st.dictionaries(_keys, st.dictionaries(_keys, _values, max_size=4), max_size=4))
def test_every_key_is_found_on_its_line(document: dict[str, dict[str, str]]) -> None:
    text, where = "", {}
    for table, pairs in document.items():
        text += f"\n[{table}] # a comment = [\n"
        where[table,] = text.count("\n")
        for key, value in pairs.items():
            where[table, key] = text.count("\n") + 1
            text += f"{key} = {value}\n"
    tomllib.loads(text)
    found = key_lines(text)
    assert {key: found[key] for key in where} == where


def test_keys_inside_lists_tables_and_repeated_tables_are_found() -> None:
    text = """
top = 1
[a.b]
c.d = { e = 1, "f g" = [1,
  2] }
[[n]]
x = 1
[[n]]
x = 2
[n.sub]
y = 3
"""
    found = key_lines(text)
    assert found["top",] == 2
    assert found["a", "b", "c", "d", "e"] == 4
    assert found["a", "b", "c", "d", "f g", 1] == 5
    assert found["n", 0, "x"] == 7
    assert found["n", 1, "x"] == 9
    assert found["n", 1, "sub", "y"] == 11


def test_the_console_shows_attributes_that_exist_and_a_folder_that_is_there(tmp_path: Path) -> None:
    wrong = MINIMAL + '[console]\nexample_columns = ["regoin"]\nreports = "reports"\n'
    assert complaints(wrong, tmp_path) == [
        "monitor.toml:7: console.example_columns[0]: there is no attribute 'regoin'; "
        "did you mean `region`?",
        f"monitor.toml:8: console.reports: {tmp_path}/reports is no folder; "
        "make it, or leave this out".replace(f"{tmp_path}/", ""),
    ]
    (tmp_path / "reports").mkdir()
    console = read(wrong.replace("regoin", "region"), tmp_path).console
    assert (console.example_columns, console.reports) == (("region",), tmp_path / "reports")
    assert read(MINIMAL, tmp_path).console.example_columns == ()

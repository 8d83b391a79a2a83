"""Messages in the operators' words and in every channel's markup; hostile values in both."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.config import TEMPLATE_VARIABLES, ConfigError, HeartbeatSettings, Template, Templates
from monitor.config import load as load_config
from monitor.domain import Cause, Change, Notification, Severity
from monitor.edge.heartbeat import AGAIN, Heartbeat
from monitor.edge.notifiers import DeliveryError
from monitor.edge.notifiers.alertmanager import AlertmanagerNotifier
from monitor.edge.notifiers.chat import AppriseNotifier
from monitor.edge.notifiers.making import UnusableError, make_notifiers
from monitor.edge.notifiers.templates import Wording, WordingError, variables
from monitor.edge.notifiers.webhook import SIGNATURE, WebhookNotifier
from tests.contracts.receivers import (
    FINDING,
    INCIDENT,
    NOON,
    OPENED,
    RESOLVED,
    Clock,
    mailbox,
    receiver,
)
from tests.contracts.test_notifiers import by_mail

HOSTILE = (
    "<!channel> <http://evil|click> *b* [x](http://evil) @everyone "
    "<script>alert(1)</script> &amp; `c`\r\nBcc: thief@example.com\x1b[2J{{7*7}}"
)


def hostile() -> Notification:
    nasty = replace(
        FINDING,
        outcome=f"pay{HOSTILE}",
        cause=Cause.of(airline=HOSTILE),
        path=(f"airline={HOSTILE}", "pay"),
        codes=(HOSTILE,),
    )
    return Notification(replace(INCIDENT, finding=nasty, latest=nasty), Change.OPENED, NOON)


# Templates


def wording(console_url: str | None = "http://console", **sources: str) -> Wording:
    made = {key: Template(f"{key}.j2", source) for key, source in sources.items()}
    return Wording(Templates(**made), console_url)


def test_operators_can_change_the_words() -> None:
    words = wording(
        title="[{{ severity | upper }}] {{ outcome }}: {{ cause }}",
        text="{{ failures | number }} of {{ rows | number }}, {{ rate_now | percent }}\n"
        "{% for part in parts %}{{ part.link }}{% endfor %} since {{ since }} by {{ path[0] }}",
    )
    assert words.title([OPENED]) == "[INFO] reserve: airline AC"
    assert words.text([OPENED]) == (
        "440 of 2,100, 21 %\nhttp://console/incidents/a1b2 since 2026-03-01 11:30 UTC by airline=AC"
    )


def test_a_template_knows_what_the_manual_says() -> None:
    assert variables([OPENED], "http://c").keys() == {*TEMPLATE_VARIABLES}
    assert variables([OPENED, RESOLVED]).keys() == {*TEMPLATE_VARIABLES}


def test_a_template_cannot_reach_into_the_machine() -> None:
    for attack in (
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ parts.append(1) }}",
        "{% for i in range(10000000) %}x{% endfor %}",
        "{{ nothing_of_that_name }}",
        "{{ headline | no_such_filter }}",
    ):
        with pytest.raises(WordingError, match=r"text\.j2"):
            wording(text=attack).check([OPENED])


def test_a_template_that_fails_in_the_night_does_not_swallow_the_message() -> None:
    words = wording(text="{{ codes[0] }}", title="{{ codes[0] }}")
    silent = replace(FINDING, codes=())
    bare = replace(OPENED, incident=replace(INCIDENT, finding=silent, latest=silent))
    assert words.title([OPENED]) == "E17"
    assert words.title([bare]) == "reserve is failing: airline AC"
    assert words.text([bare]).startswith("reserve is failing")


def test_values_are_escaped_in_the_operators_page_and_cannot_break_the_title() -> None:
    words = wording(html="<b>{{ cause }}</b>", title="{{ cause }}\nsecond", text="{{ cause }}")
    page = words.html([hostile()])
    assert page is not None
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    title = words.title([hostile()])
    assert "\n" not in title
    assert "\r" not in title
    assert "{{7*7}}" in title, "values are not templates"


CONFIG = """
[schema]
time = "at"
zone = "UTC"
attributes = ["airline"]
outcomes = ["pay"]
"""


def config(folder: Path, text: str) -> Any:
    (folder / "monitor.toml").write_text(CONFIG + text)
    return load_config(folder / "monitor.toml", {})


def test_a_wrong_template_is_found_before_the_start(tmp_path: Path) -> None:
    (tmp_path / "torn.j2").write_text("{{ outcome }}\n{% if %}")
    (tmp_path / "wrong.j2").write_text("{{ outcomes }}")
    (tmp_path / "fails.j2").write_text("{{ codes[7].upper() }}")
    mail = '[[notifiers]]\nkind = "email"\nhost = "m"\nsender = "a@b"\nrecipients = "c@d"\n'
    with pytest.raises(ConfigError) as caught:
        config(
            tmp_path,
            mail
            + 'title_template = "wrong.j2"\ntext_template = "torn.j2"\nhtml_template = "no.j2"\n',
        )
    problems = [str(problem) for problem in caught.value.problems]
    assert len(problems) == 3
    assert any("torn.j2:2" in p for p in problems)
    assert any(
        "names 'outcomes', which no message has; did you mean `outcome`?" in p for p in problems
    )
    assert any("html_template: cannot be used: No such file" in p for p in problems)
    with pytest.raises(UnusableError, match=r"1-email: template .*fails\.j2"):
        make_notifiers(config(tmp_path, mail + 'text_template = "fails.j2"\n'), None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('match = ["airlin=AC"]', "no incident has a `airlin`; did you mean `airline`?"),
        ('match = ["outcome=paid"]', "there is no outcome 'paid'; known are `pay`"),
        ('match = ["airline"]', "is no matcher; write name=value"),
        ('severity = "high"', 'cannot be "high"'),
        ("most_per_hour = 0", "it must be at least 1"),
        ('urls_file = "keys"', "cannot be used: No such file"),
        ('urls = ["hooks.slack.com/x"]', "URL 1 is none of Apprise's"),
        ("", "names no service"),
    ],
)
def test_a_wrong_route_is_found_before_the_start(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, f'[[notifiers]]\nkind = "apprise"\n{text}\n')
    assert complaint in str(caught.value)


def test_a_secret_of_alertmanager_does_not_travel_in_the_clear(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hush\n")
    section = '[[notifiers]]\nkind = "alertmanager"\ntoken_file = "token"\n'
    with pytest.raises(ConfigError, match="in the clear; use https://"):
        config(tmp_path, section + 'urls = "http://am:9093"\n')
    (notifier,) = config(tmp_path, section + 'urls = "https://am:9093"\n').notifiers
    assert notifier.token == "hush"
    assert "hush" not in repr(notifier)


# Alertmanager and webhook


def test_alertmanager_behind_a_proxy_gets_a_password_or_a_token() -> None:
    with receiver() as hook:
        for secrets in ({"user": "u", "password": "p"}, {"token": "t"}):
            notifier = AlertmanagerNotifier([hook.url], **secrets)  # type: ignore[arg-type]
            notifier.send(OPENED)
            notifier.close()
    assert [h["Authorization"] for h, _ in hook.requests] == ["Basic dTpw", "Bearer t"]


def test_a_signature_is_right_by_another_reckoning() -> None:
    with receiver() as hook:
        notifier = WebhookNotifier(hook.url, "secret", now=Clock())
        notifier.send(hostile())
        notifier.close()
    ((headers, body),) = hook.requests
    # RFC 2104 by hand, with nothing but a hash.
    at, given = (part.split("=")[1] for part in headers[SIGNATURE].split(","))
    key = b"secret".ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in key) + at.encode() + b"." + body).digest()
    outer = hashlib.sha256(bytes(b ^ 0x5C for b in key) + inner).hexdigest()
    assert hmac.compare_digest(outer, given)
    assert int(at) == int(NOON.timestamp())
    assert json.loads(body)["incident"]["finding"]["cause"] == {"airline": [HOSTILE]}


def test_a_webhook_that_wants_bundles_gets_the_others_as_parts() -> None:
    with receiver() as hook:
        notifier = WebhookNotifier(hook.url, "secret")
        notifier.send_together([OPENED, hostile(), RESOLVED])
        notifier.close()
    ((_, body),) = hook.requests
    document = json.loads(body)
    assert document["change"] == "opened"
    assert [part["change"] for part in document["parts"]] == ["opened", "resolved"]


# Apprise


def local(hook_url: str) -> str:
    return hook_url.replace("http://", "json://")


def test_apprise_posts_what_matters_and_marks_the_end_as_success() -> None:
    with receiver() as hook:
        hook.answers += [(200, {}, "")] * 3
        notifier = AppriseNotifier([local(hook.url)], console_url="http://console")
        notifier.send(OPENED)
        notifier.send(RESOLVED)
        critical = replace(OPENED, incident=replace(INCIDENT, severity=Severity.CRITICAL))
        notifier.send_together([critical, RESOLVED])
        notifier.close()
    opened, resolved, bundle = (json.loads(body) for _, body in hook.requests)
    assert opened["title"] == "reserve is failing: airline AC"
    assert "http://console/incidents/a1b2" in opened["message"]
    assert opened["message"].count("reserve is failing") == 0, "the title is said once"
    assert (opened["type"], resolved["type"], bundle["type"]) == ("info", "success", "failure")


def test_a_falsy_result_is_a_failed_send_and_those_who_have_it_are_not_told_again() -> None:
    with receiver() as up, receiver() as down:
        up.answers.append((200, {}, ""))
        down.answers += [(500, {}, ""), (200, {}, "")]
        notifier = AppriseNotifier([local(up.url), local(down.url)])
        with pytest.raises(DeliveryError, match=r"json \(URL 2\)") as caught:
            notifier.send(OPENED)
        assert not caught.value.permanent
        assert str(down.url) not in str(caught.value)
        notifier.send(OPENED)
        notifier.close()
    assert (len(up.requests), len(down.requests)) == (1, 2)


def test_a_service_that_is_away_is_a_failed_send() -> None:
    with receiver() as hook:
        pass
    notifier = AppriseNotifier([local(hook.url)], timeout=timedelta(seconds=1))
    with pytest.raises(DeliveryError):
        notifier.send(OPENED)


def test_an_url_that_apprise_does_not_know_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match=r"URL 1, carrier-pigeon://…$"):
        AppriseNotifier(["carrier-pigeon://secret@loft"])


def intercepted(
    monkeypatch: pytest.MonkeyPatch, plugin: str, code: int = 200
) -> list[dict[str, Any]]:
    """What a plugin would send to its service on the internet."""
    import importlib

    sent: list[dict[str, Any]] = []

    class Answer:
        status_code = code
        content = b"ok"
        text = "ok"

    def post(url: str, data: Any = None, **_: Any) -> Answer:
        sent.append({"url": url, **json.loads(data)})
        return Answer()

    module = importlib.import_module(f"apprise.plugins.{plugin}")
    monkeypatch.setattr(module.requests, "post", post)
    monkeypatch.setattr(module.requests, "request", lambda _method, *a, **k: post(*a, **k))
    return sent


def test_slack_shows_hostile_values_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = intercepted(monkeypatch, "slack")
    url = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#alerts"
    AppriseNotifier([url], console_url="http://console").send(hostile())
    said = json.dumps(sent, ensure_ascii=False)
    assert "&lt;!channel&gt;" in said
    for markup in ("<!channel>", "<http://evil|click>", "\\r", "\\u001b"):
        assert markup not in said
    assert "http://console/incidents/a1b2" in said


def test_markdown_and_mentions_mean_nothing_where_they_come_from_the_log() -> None:
    with receiver() as hook:
        hook.answers.append((200, {}, ""))
        url = hook.url.replace("http://", "mmost://").replace(
            "/hook", "/3ccdd113474722377935511fc85d3dd4"
        )
        notifier = AppriseNotifier([url], console_url="http://con_sole_")
        notifier.send(hostile())
    said = json.loads(hook.requests[0][1])["text"]
    assert "\\[x\\]\\(http://evil\\)" in said
    assert "@everyone" not in said
    assert "<" not in said
    assert "http://con_sole_/incidents/a1b2" in said, "our own address stays one"


def test_pagerduty_keeps_one_incident_of_its_own_for_each_story(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = intercepted(monkeypatch, "pagerduty", 202)
    notifier = AppriseNotifier(["pagerduty://integration@key"], console_url="http://console")
    other = replace(OPENED, incident=replace(INCIDENT, id="c3", severity=Severity.CRITICAL))
    notifier.send_together([OPENED, other])
    part = replace(INCIDENT, id="d4", part_of="c3", finding=replace(FINDING, outcome="pay"))
    notifier.send(replace(OPENED, incident=part))
    notifier.send(RESOLVED)
    assert [(s["event_action"], s["dedup_key"]) for s in sent] == [
        ("trigger", "a1b2"),
        ("trigger", "c3"),
        ("trigger", "c3"),
        ("resolve", "a1b2"),
    ]
    assert sent[1]["payload"]["severity"] == "critical"
    assert "airline AC" in sent[0]["payload"]["summary"]


def test_a_mail_in_the_operators_words_carries_hostile_values_as_they_are() -> None:
    words = wording(
        title="{{ cause }}",
        text="{{ cause }}",
        html="<p title='x'>{{ cause }}</p>{{ parts|length }}",
    )
    with mailbox() as box:
        by_mail(box, wording=words).send(hostile())
    (mail,) = box.mails
    assert mail["Bcc"] is None
    assert "<script>" not in mail.get_body(("html",)).get_content()
    assert mail["Subject"].startswith("airline <!channel>")


# The heartbeat


def test_every_tick_pings_and_a_failure_is_told_once_in_a_while() -> None:
    clock = Clock()
    with receiver() as hook:
        heart = Heartbeat(HeartbeatSettings(hook.url + "?k=v"), clock)
        steps = (heart.begins, lambda: heart.done("tick"), lambda: heart.fails("store: disk full"))
        for step in steps:
            step()
            seen = len(hook.requests)
            while len(hook.requests) == seen:
                pass
        heart.fails("store: disk full")
        clock.now += AGAIN
        heart.fails("store: disk full")
        heart.stop()
        paths = [body for _, body in hook.requests]
    assert paths == [b"", b"tick", b"store: disk full", b"store: disk full"]


def test_a_heartbeat_that_does_not_arrive_stops_nothing() -> None:
    with receiver() as hook:
        pass
    heart = Heartbeat(HeartbeatSettings(hook.url, timeout=timedelta(seconds=1)))
    heart.begins()
    heart.done()
    heart.stop()


def test_the_transcript_of_a_mail_in_the_manual_is_true(request: pytest.FixtureRequest) -> None:
    with mailbox() as box:
        by_mail(box, console_url="https://monitor.example.com").send(OPENED)
    text = box.mails[0].as_string()
    # What a mail server adds, and what is drawn anew for every mail.
    boundary = re.search(r'boundary="([^"]+)"', text)
    assert boundary is not None
    text = text.replace(boundary[1], "=-=").replace("\r\n", "\n")
    text = re.sub(r"^(X-Peer|X-MailFrom|X-RcptTo):.*\n", "", text, flags=re.M)
    transcript = Path(__file__).parents[2] / "docs" / "pictures" / "mail.txt"
    if request.config.getoption("--update"):
        transcript.write_text(text)
    assert text == transcript.read_text()

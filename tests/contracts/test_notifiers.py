"""What every notifier owes, and the outbox that drives them. Receivers are real servers."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.domain import Cause, Change, Notification
from monitor.edge import documents
from monitor.edge.metrics import Metrics
from monitor.edge.notifiers import DeliveryError, Notifier
from monitor.edge.notifiers.alertmanager import HOLD, REPEAT_RESOLVED, AlertmanagerNotifier
from monitor.edge.notifiers.email import EmailNotifier
from monitor.edge.notifiers.lane import MOST_ATTEMPTS, pause_after
from monitor.edge.notifiers.log import LogNotifier
from monitor.edge.notifiers.message import headline, plain_text
from monitor.edge.notifiers.outbox import Outbox
from monitor.edge.notifiers.webhook import SIGNATURE, WebhookNotifier, check_signature
from monitor.edge.store import Work
from tests.contracts.receivers import (
    ENDED,
    FINDING,
    HALF_HOUR,
    INCIDENT,
    NOON,
    OPENED,
    RESOLVED,
    Clock,
    Mailbox,
    Receiver,
    Told,
    mailbox,
    receiver,
    stored,
)


def by_mail(box: Mailbox, **changes: object) -> EmailNotifier:
    settings: dict[str, object] = {
        "host": "127.0.0.1",
        "port": box.port,
        "sender": "monitor@example.com",
        "recipients": ["ops@example.com", "lead@example.com"],
        "security": "none",
        "console_url": "http://console",
    }
    return EmailNotifier(**{**settings, **changes})


@dataclass
class Inbox:
    """A notifier and what has arrived through it, as text."""

    notifier: Notifier
    read: object

    def text(self) -> str:
        return self.read()  # type: ignore[operator]


@pytest.fixture(params=["log", "json", "webhook", "alertmanager", "email"])
def inbox(request: pytest.FixtureRequest) -> Iterator[Inbox]:
    if request.param == "email":
        with mailbox() as box:
            yield Inbox(
                by_mail(box),
                lambda: "\n".join(m.get_body(("plain",)).get_content().strip() for m in box.mails),
            )
    elif request.param in ("webhook", "alertmanager"):
        with receiver() as hook:
            notifier: Notifier = (
                WebhookNotifier(hook.url, "secret", console_url="http://console")
                if request.param == "webhook"
                else AlertmanagerNotifier([hook.url], console_url="http://console", now=Clock())
            )
            yield Inbox(notifier, lambda: "\n".join(body.decode() for _, body in hook.requests))
            notifier.close()
    else:
        stream = io.StringIO()
        shape = "human" if request.param == "log" else "json"
        yield Inbox(LogNotifier(shape, stream, "http://console"), stream.getvalue)


# Every notifier


def test_a_message_names_the_failure_its_cause_and_where_to_look(inbox: Inbox) -> None:
    inbox.notifier.send(OPENED)
    text = inbox.text()
    for word in ("reserve", "AC", "fare_source=3", "440", "23.2", "a1b2"):
        assert word in text
    assert "http://console/incidents/a1b2" in text


def test_every_change_can_be_told(inbox: Inbox) -> None:
    for change in Change:
        inbox.notifier.send(replace(OPENED, change=change))
    assert inbox.text().lower().count("a1b2") >= len(Change)


def test_the_same_notification_may_come_twice(inbox: Inbox) -> None:
    inbox.notifier.send(OPENED)
    once = inbox.text()
    inbox.notifier.send(OPENED)
    assert inbox.text().strip() == f"{once.strip()}\n{once.strip()}"


# Log


def test_people_read_what_matters_first() -> None:
    assert headline(OPENED) == "reserve is failing: airline AC"
    assert plain_text(OPENED, "http://console/incidents/a1b2").splitlines() == [
        "reserve is failing: airline AC",
        "  severity  info",
        "  since     2026-03-01 11:30 UTC",
        "  failures  440 of 2,100 in 1 h, 23.2 expected",
        "  rate      1.1 % before, 21 % now",
        "  path      airline=AC → fare_source=3 → reserve",
        "  evidence  112 nats, p 2e-40, q 0.002",
        "  codes     E17",
        "  incident  a1b2",
        "  link      http://console/incidents/a1b2",
    ]
    assert headline(RESOLVED) == "reserve works again: airline AC"
    assert "  lasted    2 h 30 min" in plain_text(RESOLVED).splitlines()


def test_the_log_for_programs_is_one_object_a_line() -> None:
    stream = io.StringIO()
    log = LogNotifier("json", stream)
    log.send(OPENED)
    log.send(RESOLVED)
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["change"], first["cause"], first["at"]) == (
        "opened",
        {"airline": ["AC"]},
        "2026-03-01T12:00:00Z",
    )
    assert second["resolved_at"] == "2026-03-01T14:30:00Z"


def test_values_of_the_watched_log_cannot_forge_lines_or_drive_the_terminal() -> None:
    nasty = replace(FINDING, cause=Cause.of(airline="X\nOPENED   all is well\x1b[2J [bold]"))
    stream = io.StringIO()
    LogNotifier("human", stream).send(
        Notification(replace(INCIDENT, finding=nasty, latest=nasty), Change.OPENED, NOON)
    )
    assert "\x1b" not in stream.getvalue()
    assert "[bold]" in stream.getvalue()
    assert sum(line.startswith("OPENED") for line in stream.getvalue().splitlines()) == 1


def test_a_closed_pipe_is_a_temporary_failure() -> None:
    stream = io.StringIO()
    stream.close()
    with pytest.raises(DeliveryError) as caught:
        LogNotifier("human", stream).send(OPENED)
    assert not caught.value.permanent


# Webhook


def test_a_receiver_can_check_who_wrote_and_when() -> None:
    with receiver() as hook:
        notifier = WebhookNotifier(hook.url, "secret", now=lambda: NOON)
        notifier.send(OPENED)
        notifier.close()
    headers, body = hook.requests[0]
    signature = headers[SIGNATURE]
    assert check_signature("secret", signature, body, NOON)
    assert not check_signature("other", signature, body, NOON)
    assert not check_signature("secret", signature, body + b" ", NOON)
    assert not check_signature("secret", signature, body, NOON + timedelta(hours=1))
    for nonsense in ("", "t=1", "t=x,v1=y", signature.replace("t=", "t=9")):
        assert not check_signature("secret", nonsense, body, NOON)
    document = json.loads(body)
    assert document["version"] == 1
    assert documents.notification_from(document) == OPENED


def test_the_check_that_the_manual_shows_is_right() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", manual, flags=re.DOTALL)
    shown: dict[str, Any] = {}
    exec(code, shown)
    with receiver() as hook:
        notifier = WebhookNotifier(hook.url, "secret")
        notifier.send(OPENED)
        notifier.close()
    headers, body = hook.requests[0]
    assert shown["genuine"]("secret", headers[SIGNATURE], body)
    assert not shown["genuine"]("other", headers[SIGNATURE], body)
    assert not shown["genuine"]("secret", headers[SIGNATURE], body + b" ")
    old = re.sub("t=[0-9]+", "t=1", headers[SIGNATURE])
    assert not shown["genuine"]("secret", old, body)


def test_attempts_at_one_notification_share_a_key_and_others_do_not() -> None:
    with receiver() as hook:
        notifier = WebhookNotifier(hook.url)
        for notification in (OPENED, OPENED, RESOLVED):
            notifier.send(notification)
        notifier.close()
    keys = [headers["Idempotency-Key"] for headers, _ in hook.requests]
    assert keys[0] == keys[1] != keys[2]
    assert SIGNATURE not in hook.requests[0][0]


@pytest.mark.parametrize(
    ("code", "permanent"),
    [(301, True), (400, True), (404, True), (408, False), (429, False), (500, False), (503, False)],
)
def test_answers_say_whether_trying_again_can_help(code: int, permanent: bool) -> None:
    with receiver() as hook:
        hook.answers.append((code, {"Location": "/elsewhere"}, "no such hook"))
        notifier = WebhookNotifier(hook.url)
        with pytest.raises(DeliveryError, match=rf"{code}.*no such hook") as caught:
            notifier.send(OPENED)
        notifier.close()
    assert caught.value.permanent is permanent
    assert len(hook.requests) == 1


@pytest.mark.parametrize(
    ("header", "pause"),
    [
        ("120", timedelta(seconds=120)),
        ("Sun, 01 Mar 2026 12:01:00 GMT", timedelta(minutes=1)),
        ("99999999999", timedelta(hours=1)),
        ("soon", None),
    ],
)
def test_the_pause_that_a_receiver_asks_for_is_kept(header: str, pause: timedelta | None) -> None:
    with receiver() as hook:
        hook.answers.append((429, {"Retry-After": header}, ""))
        notifier = WebhookNotifier(hook.url, now=lambda: NOON)
        with pytest.raises(DeliveryError) as caught:
            notifier.send(OPENED)
        notifier.close()
    assert caught.value.retry_after == pause


def test_a_receiver_that_is_away_or_slow_is_a_temporary_failure() -> None:
    with receiver() as hook:
        hook.delay_seconds = 0.3
        slow = WebhookNotifier(hook.url, timeout=timedelta(seconds=0.05))
        with pytest.raises(DeliveryError, match=r"timed out|Timeout") as caught:
            slow.send(OPENED)
        slow.close()
        assert not caught.value.permanent
    away = WebhookNotifier(hook.url)
    with pytest.raises(DeliveryError) as caught:
        away.send(OPENED)
    away.close()
    assert not caught.value.permanent


def test_an_address_that_cannot_be_is_a_permanent_failure() -> None:
    notifier = WebhookNotifier("gopher://x")
    with pytest.raises(DeliveryError) as caught:
        notifier.send(OPENED)
    notifier.close()
    assert caught.value.permanent


# Alertmanager


def alerts(hook: Receiver) -> list[list[dict[str, object]]]:
    return [json.loads(body) for _, body in hook.requests]


def test_an_alert_keeps_its_labels_and_start_while_more_becomes_known() -> None:
    refined = replace(FINDING, cause=Cause.of(airline="AC", office="BKK"))
    clock = Clock()
    with receiver() as hook:
        notifier = AlertmanagerNotifier([hook.url + "/"], {"team": "booking"}, now=clock)
        notifier.send(OPENED)
        clock.now += HALF_HOUR
        finer = replace(INCIDENT, finding=refined, latest=refined)
        notifier.send(Notification(finer, Change.REFINED, clock.now))
        notifier.close()
    (first,), (second,) = alerts(hook)
    assert first["labels"] == second["labels"]
    assert first["labels"] == {
        "alertname": "RootCauseIncident",
        "incident": "a1b2",
        "story": "a1b2",
        "outcome": "reserve",
        "team": "booking",
    }
    assert first["startsAt"] == second["startsAt"] == "2026-03-01T12:00:00Z"
    assert second["endsAt"] == documents.time_text(clock.now + HOLD)
    assert first["annotations"] != second["annotations"]


def test_open_alerts_are_kept_alive_and_resolved_ones_repeated_for_a_while() -> None:
    clock = Clock()
    store = stored(OPENED, to=("alertmanager",))
    with receiver() as hook:
        notifier = AlertmanagerNotifier([hook.url], now=clock)
        outbox = Outbox(store, [notifier], now=clock)
        outbox.deliver()
        for _ in range(3):
            outbox.refresh()
            outbox.refresh()  # too early: not a minute has passed
            clock.now += timedelta(minutes=1)
        opened = alerts(hook)
        store.commit(
            Work(incidents=(ENDED,), notifications=(RESOLVED,), notifiers=("alertmanager",))
        )
        outbox.deliver()
        ended_at = documents.time_text(clock.now)
        for _ in range(60):
            outbox.refresh()
            clock.now += timedelta(minutes=1)
        notifier.close()
    assert [a["endsAt"] for (a,) in opened] == [
        documents.time_text(NOON + HOLD + timedelta(minutes=m)) for m in (0, 0, 1, 2)
    ]
    ended = alerts(hook)[4:]
    assert {a["endsAt"] for (a,) in ended} == {ended_at}
    assert len(ended) == 1 + REPEAT_RESOLVED // timedelta(minutes=1)


def test_one_alertmanager_of_a_cluster_is_enough() -> None:
    with receiver() as up, receiver() as down:
        down.answers += [(500, {}, "")] * 2
        notifier = AlertmanagerNotifier([down.url, up.url])
        notifier.send(OPENED)
        up.answers.append((503, {}, ""))
        with pytest.raises(DeliveryError, match=r"500.*503") as caught:
            notifier.send(OPENED)
        notifier.close()
    assert not caught.value.permanent


def test_an_alert_never_ends_before_it_starts() -> None:
    clock = Clock(NOON - timedelta(hours=1))  # the log's clock runs ahead of ours
    with receiver() as hook:
        notifier = AlertmanagerNotifier([hook.url], now=clock)
        notifier.send(replace(RESOLVED, at=NOON))
        notifier.close()
    ((alert,),) = alerts(hook)
    assert str(alert["endsAt"]) > str(alert["startsAt"])


# Email


def test_a_mail_has_text_a_picture_of_the_path_and_a_thread() -> None:
    with mailbox() as box:
        notifier = by_mail(box)
        notifier.send(OPENED)
        notifier.send(RESOLVED)
    opened, resolved = box.mails
    assert opened["Subject"] == "reserve is failing: airline AC"
    assert opened["To"] == "ops@example.com, lead@example.com"
    html = opened.get_body(("html",)).get_content()
    assert 'aria-label="airline=AC, then fare_source=3, then reserve"' in html
    assert 'href="http://console/incidents/a1b2"' in html
    assert opened["Message-ID"] == "<a1b2@example.com>"
    assert resolved["In-Reply-To"] == opened["Message-ID"] != resolved["Message-ID"]


def test_the_watched_log_cannot_write_headers_or_markup() -> None:
    attack = "X\r\nBcc: thief@example.com\r\n\r\n<script>alert(1)</script>"
    nasty = replace(FINDING, outcome=attack, cause=Cause.of(x=attack), path=(f"x={attack}", attack))
    with mailbox() as box:
        by_mail(box).send(
            Notification(replace(INCIDENT, finding=nasty, latest=nasty), Change.OPENED, NOON)
        )
    (mail,) = box.mails
    assert mail["Bcc"] is None
    assert "<script>" not in mail.get_body(("html",)).get_content()
    body = mail.get_body(("plain",)).get_content()
    assert not any(line.startswith("Bcc") for line in body.splitlines())


@pytest.mark.parametrize(("answer", "permanent"), [("550 no", True), ("451 later", False)])
def test_a_mail_server_says_whether_trying_again_can_help(answer: str, permanent: bool) -> None:
    with mailbox() as box:
        box.answer = answer
        with pytest.raises(DeliveryError, match=answer[:3]) as caught:
            by_mail(box).send(OPENED)
        box.answer = "250 OK"
        box.refuse = dict.fromkeys(["ops@example.com", "lead@example.com"], answer)
        with pytest.raises(DeliveryError, match="every recipient") as refused:
            by_mail(box).send(OPENED)
    assert caught.value.permanent is refused.value.permanent is permanent


def test_one_refused_recipient_does_not_make_the_others_get_it_twice() -> None:
    with mailbox() as box:
        box.refuse = {"ops@example.com": "550 gone"}
        by_mail(box).send(OPENED)
    assert len(box.mails) == 1


def test_a_password_does_not_travel_in_the_clear() -> None:
    with mailbox() as box:
        with pytest.raises(DeliveryError, match="STARTTLS") as caught:
            by_mail(box, security="starttls", username="u", password="p").send(OPENED)
        assert caught.value.permanent
        assert box.mails == []


def test_a_mail_server_that_is_away_is_a_temporary_failure() -> None:
    with mailbox() as box:
        pass
    with pytest.raises(DeliveryError) as caught:
        by_mail(box).send(OPENED)
    assert not caught.value.permanent


# Outbox


def test_the_outbox_delivers_in_order_and_once() -> None:
    told = Told()
    outbox = Outbox(stored(OPENED, RESOLVED), [told])
    assert outbox.deliver() == 2
    assert outbox.deliver() == 0
    assert [n.change for n in told.seen] == [Change.OPENED, Change.RESOLVED]


def test_the_outbox_tries_again_later_and_later() -> None:
    clock = Clock()
    told = Told(failures=[DeliveryError("away")] * 3)
    outbox = Outbox(stored(OPENED), [told], now=clock)
    waited = []
    for _ in range(100):
        outbox.deliver()
        if told.seen:
            break
        waited.append(told.attempts)
        clock.now += timedelta(seconds=5)
    # 5 s, 10 s and 20 s between the attempts.
    assert waited == [1, 2, 2, 3, 3, 3, 3]


def test_the_outbox_keeps_the_pause_that_the_receiver_wants() -> None:
    clock = Clock()
    told = Told(failures=[DeliveryError("slow down", retry_after=timedelta(minutes=10))])
    outbox = Outbox(stored(OPENED), [told], now=clock)
    outbox.deliver()
    clock.now += timedelta(minutes=9)
    assert outbox.deliver() == 0
    clock.now += timedelta(minutes=1)
    assert outbox.deliver() == 1


def test_what_cannot_arrive_is_parked_where_people_see_it() -> None:
    store = stored(OPENED, RESOLVED, to=("told", "gone"))
    told = Told(failures=[DeliveryError("404 no such hook", permanent=True)])
    metrics = Metrics()
    Outbox(store, [told], metrics).deliver()
    assert [n.change for n in told.seen] == [Change.RESOLVED]
    assert {(i.notifier, i.error) for i in store.parked()} == {
        ("told", "404 no such hook"),
        ("gone", "no notifier 'gone' is configured any more"),
    }
    sample = metrics.registry.get_sample_value
    sent = {"notifier": "told", "result": "sent"}
    assert sample("least_monitor_notifications_total", sent) == 1
    parked = {"notifier": "gone", "status": "parked"}
    assert sample("least_monitor_outbox_notifications", parked) == 2


def test_nothing_is_retried_for_ever() -> None:
    clock = Clock()
    told = Told(failures=[DeliveryError("away")] * 1000)
    store = stored(OPENED)
    outbox = Outbox(store, [told], now=clock)
    for _ in range(100):
        outbox.deliver()
        clock.now += pause_after(100)
    assert told.attempts == MOST_ATTEMPTS
    assert [i.error for i in store.parked()] == ["away"]


def test_a_dead_receiver_costs_one_attempt_a_round_and_holds_up_nobody() -> None:
    many = [Notification(replace(INCIDENT, id=f"i{n}"), Change.OPENED, NOON) for n in range(20)]
    dead = Told("dead", failures=[DeliveryError("away")] * 1000)
    told = Told()
    Outbox(stored(*many, to=("dead", "told")), [dead, told]).deliver()
    assert dead.attempts == 1
    assert len(told.seen) == 20


def test_the_worker_delivers_on_its_own_and_stops_when_told() -> None:
    told = Told()
    store = stored(OPENED)
    outbox = Outbox(store, [told], interval=timedelta(hours=1))
    outbox.start()
    deadline = time.monotonic() + 5
    while not told.seen and time.monotonic() < deadline:
        time.sleep(0.005)
    later = replace(RESOLVED, incident=ENDED)
    store.commit(Work(incidents=(ENDED,), notifications=(later,), notifiers=outbox.names))
    outbox.wake()
    while len(told.seen) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert outbox.alive
    outbox.stop()
    assert told.seen == [OPENED, later]

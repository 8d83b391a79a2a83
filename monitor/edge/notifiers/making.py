"""The notifiers that a configuration names."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from monitor.config import (
    AlertmanagerNotifier,
    AppriseNotifier,
    Config,
    EmailNotifier,
    LogNotifier,
    Route,
    Templates,
    WebhookNotifier,
)
from monitor.config import Notifier as Configured
from monitor.domain import (
    Cause,
    Change,
    Finding,
    Incident,
    Method,
    Notification,
    Severity,
    State,
)
from monitor.edge.notifiers import Notifier
from monitor.edge.notifiers.templates import Wording, WordingError

_KINDS: dict[type, str] = {
    LogNotifier: "log",
    WebhookNotifier: "webhook",
    AlertmanagerNotifier: "alertmanager",
    EmailNotifier: "email",
    AppriseNotifier: "apprise",
}


class UnusableError(Exception):
    """A notifier cannot be made as configured; the message says why."""


def names(config: Config) -> list[str]:
    """Of the notifiers, by their place and kind: ``1-email``."""
    return [f"{i}-{_KINDS[type(one)]}" for i, one in enumerate(config.notifiers, 1)]


def routes(config: Config) -> dict[str, Route]:
    """Name → what goes through the notifier."""
    return dict(zip(names(config), (one.route for one in config.notifiers), strict=True))


def make_notifiers(config: Config, console_url: str | None) -> list[Notifier]:
    """All of them, in order.

    Args:
        config: checked.
        console_url: the server's own address, for links; `http.public_url` goes before it.

    Raises:
        UnusableError: a template fails on a made-up incident, or Apprise refuses a URL.
    """
    console_url = config.http.public_url or console_url
    return [
        _make(one, name, console_url)
        for one, name in zip(config.notifiers, names(config), strict=True)
    ]


def _make(one: Configured, name: str, console_url: str | None) -> Notifier:
    from monitor.edge.notifiers import alertmanager, chat, email, log, webhook

    match one:
        case LogNotifier():
            return log.LogNotifier(one.format, console_url=console_url, name=name)
        case WebhookNotifier():
            return webhook.WebhookNotifier(
                one.url, one.secret, one.timeout, console_url=console_url, name=name
            )
        case AlertmanagerNotifier():
            return alertmanager.AlertmanagerNotifier(
                one.urls,
                one.labels,
                one.timeout,
                runbook_url=one.runbook_url,
                name=name,
                user=one.user,
                password=one.password,
                token=one.token,
                wording=_wording(one.templates, name, console_url),
            )
        case EmailNotifier():
            return email.EmailNotifier(
                one.host,
                one.port,
                one.sender,
                one.recipients,
                one.security,
                one.user,
                one.password,
                one.timeout,
                name=name,
                wording=_wording(one.templates, name, console_url),
            )
        case AppriseNotifier():
            wording = _wording(one.templates, name, console_url)
            try:
                return chat.AppriseNotifier(
                    one.urls, one.timeout, console_url, name=name, wording=wording
                )
            except ValueError as error:
                raise UnusableError(f"notifier {name}: {error}") from error


def _wording(templates: Templates, name: str, console_url: str | None) -> Wording:
    opened, resolved = made_up(datetime(2026, 3, 1, 12, tzinfo=UTC))
    samples: Iterable[tuple[Notification, ...]] = ((opened,), (resolved,), (opened, resolved))
    try:
        wording = Wording(templates, console_url)
        for sample in samples:
            wording.check(sample)
    except WordingError as error:
        raise UnusableError(f"notifier {name}: {error}") from error
    return wording


def made_up(now: datetime) -> tuple[Notification, Notification]:
    """An incident that nobody can take for a real one, opened and resolved."""
    from dataclasses import replace

    at = now.replace(second=0, microsecond=0)
    finding = Finding(
        method=Method.EXCESS,
        outcome="TEST",
        cause=Cause.of(notifier="test"),
        path=("notifier=test", "TEST"),
        score=50.0,
        p_value=1e-12,
        q_value=0.001,
        observed=120,
        expected=10.0,
        rows=1000,
        horizon=timedelta(minutes=30),
        began=at - timedelta(minutes=30),
        rate_before=0.01,
        rate_now=0.12,
    )
    opened = Incident(
        id=f"test-{at:%Y%m%dT%H%M}",
        state=State.OPEN,
        opened_at=at,
        updated_at=at,
        last_seen_at=at,
        finding=finding,
        latest=finding,
        causes=(finding.cause,),
        severity=Severity.WARNING,
    )
    ended = replace(opened, state=State.RESOLVED, resolved_at=at)
    return (Notification(opened, Change.OPENED, at), Notification(ended, Change.RESOLVED, at))

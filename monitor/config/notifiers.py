"""The notifiers' sections against what their receivers take."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from urllib.parse import urlsplit

from monitor.config.lines import Location
from monitor.config.model import (
    AlertmanagerNotifier,
    EmailNotifier,
    LogNotifier,
    Notifier,
    WebhookNotifier,
)
from monitor.config.problems import Complaints
from monitor.config.sections import (
    AlertmanagerSection,
    Document,
    EmailSection,
    LogSection,
    WebhookSection,
)

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
"""Prometheus' data model; what it calls UTF-8 names needs a newer Alertmanager than many run."""

_OWN_LABELS = ("alertname", "incident", "outcome")
"""They make the identity of an alert."""

_PORTS = {"starttls": 587, "tls": 465, "none": 25}


def notifiers(document: Document, base: Path, complaints: Complaints) -> tuple[Notifier, ...]:
    """All that are configured; the log when none is.

    Args:
        document: parsed.
        base: where relative paths of secrets start.
        complaints: takes what is wrong.
    """
    made: list[Notifier] = []
    for i, section in enumerate(document.notifiers):
        here = ("notifiers", i)
        match section:
            case LogSection():
                made.append(LogNotifier(section.format))
            case WebhookSection():
                secret = complaints.secret(section.secret_file, (*here, "secret_file"), base)
                made.append(WebhookNotifier(section.url, secret, section.timeout))
            case AlertmanagerSection():
                made.append(_alertmanager(section, here, complaints))
            case EmailSection():
                made.append(_email(section, here, base, complaints))
    return tuple(made) or (LogNotifier(),)


def _alertmanager(
    section: AlertmanagerSection, here: Location, complaints: Complaints
) -> AlertmanagerNotifier:
    for i, url in enumerate(section.urls):
        base_address(url, (*here, "urls", i), complaints)
        if "/api/v" in url:
            complaints.add(
                (*here, "urls", i), "goes on after the address", "end it before /api/v2/alerts"
            )
        if url in section.urls[:i]:
            complaints.add((*here, "urls", i), f"{url} is listed twice", "remove one")
    for name, value in section.labels.items():
        at = (*here, "labels", name)
        if name in _OWN_LABELS:
            complaints.add(at, "is set by least-monitor itself", "give yours another name")
        elif name.startswith("__") or not _LABEL_NAME.fullmatch(name):
            complaints.add(
                at,
                f"{name!r} is no label name of Prometheus",
                "use letters, digits and `_`, a letter first",
            )
        if not value:
            complaints.add(at, "is empty, and so no label to Alertmanager", "remove it")
    return AlertmanagerNotifier(
        tuple(section.urls), dict(section.labels), section.runbook_url, section.timeout
    )


def _email(
    section: EmailSection, here: Location, base: Path, complaints: Complaints
) -> EmailNotifier:
    password = complaints.secret(section.password_file, (*here, "password_file"), base)
    if section.password_file and not section.user:
        complaints.add((*here, "password_file"), "belongs to nobody", "add `user`")
    elif section.user and not section.password_file:
        complaints.add((*here, "user"), "has no password", "add `password_file`")
    if section.user and section.security == "none" and not is_loopback(section.host):
        complaints.add(
            (*here, "security"),
            "would send the password in the clear",
            'write security = "starttls" or "tls"',
        )
    return EmailNotifier(
        host=section.host,
        sender=section.sender,
        recipients=tuple(dict.fromkeys(section.recipients)),
        port=section.port or _PORTS[section.security],
        security=section.security,
        user=section.user,
        password=password,
        timeout=section.timeout,
    )


def base_address(url: str, location: Location, complaints: Complaints) -> None:
    """Complain about a URL to which no path can be added, or that carries a password."""
    try:
        parts = urlsplit(url)
        sound = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        complaints.add(location, f"{url!r} is no address", "write http://host:port")
        return
    if not sound:
        complaints.add(location, f"{url!r} is no address", "write http://host:port")
    elif parts.username is not None:
        complaints.add(
            location, "carries a user, which would show in logs", "leave out all before the @"
        )
    elif parts.query or parts.fragment:
        complaints.add(location, "has a `?` or `#`", "paths are added to it: leave them out")


def is_loopback(host: str) -> bool:
    """Only this machine reaches it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

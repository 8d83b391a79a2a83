"""The notifiers' sections against what their receivers take."""

from __future__ import annotations

import importlib.util
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from jinja2 import TemplateSyntaxError, meta
from jinja2.sandbox import SandboxedEnvironment

from monitor.config.lines import Location
from monitor.config.model import (
    GROUPS_BY,
    TEMPLATE_VARIABLES,
    AlertmanagerNotifier,
    AppriseNotifier,
    EmailNotifier,
    LogNotifier,
    Notifier,
    Route,
    Template,
    Templates,
    WebhookNotifier,
)
from monitor.config.notifier_sections import (
    AlertmanagerSection,
    AppriseSection,
    EmailSection,
    LogSection,
    NotifierSection,
    TemplatedSection,
    WebhookSection,
)
from monitor.config.problems import Complaints, did_you_mean
from monitor.config.sections import Document
from monitor.domain import Change, Severity
from monitor.matching import OWN_NAMES, Matcher, MatcherError

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
"""Prometheus' data model; what it calls UTF-8 names needs a newer Alertmanager than many run."""

_OWN_LABELS = ("alertname", "incident", "outcome")
"""They make the identity of an alert."""

_APPRISE = re.compile(r"[a-z][a-z0-9+.-]*://.+", re.IGNORECASE)

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
        route = _route(section, here, document, complaints)
        match section:
            case LogSection():
                made.append(LogNotifier(section.format, route))
            case WebhookSection():
                secret = complaints.secret(section.secret_file, (*here, "secret_file"), base)
                made.append(WebhookNotifier(section.url, secret, section.timeout, route))
            case AlertmanagerSection():
                notifier = _alertmanager(section, here, base, complaints)
                made.append(replace(notifier, route=route))
            case EmailSection():
                made.append(replace(_email(section, here, base, complaints), route=route))
            case AppriseSection():
                made.append(replace(_apprise(section, here, base, complaints), route=route))
    return tuple(made) or (LogNotifier(),)


def matchers(
    texts: Sequence[str], here: Location, document: Document, complaints: Complaints
) -> tuple[Matcher, ...]:
    """Parsed; a name that no incident can have is complained about."""
    schema = document.schema_
    known = [*OWN_NAMES, *(a.name for a in schema.attributes)]
    if schema.error_code:
        known.append(schema.error_code)
    found = []
    for i, text in enumerate(texts):
        try:
            matcher = Matcher.parse(text)
        except MatcherError as error:
            complaints.add((*here, i), str(error))
            continue
        if matcher.name not in known:
            complaints.add(
                (*here, i), f"no incident has a `{matcher.name}`", did_you_mean(matcher.name, known)
            )
        elif matcher.name == "outcome" and matcher.operator in ("=", "!="):
            outcomes = [outcome.name for outcome in schema.outcomes]
            if matcher.value not in outcomes:
                complaints.add(
                    (*here, i),
                    f"there is no outcome {matcher.value!r}",
                    did_you_mean(matcher.value, outcomes),
                )
        found.append(matcher)
    return tuple(found)


def _route(
    section: NotifierSection, here: Location, document: Document, complaints: Complaints
) -> Route:
    kind = str(getattr(section, "kind", "log"))
    return Route(
        matchers=matchers(section.match, (*here, "match"), document, complaints),
        severity=Severity(section.severity),
        changes=frozenset(map(Change, section.changes)) or frozenset(Change),
        group_by=section.group_by or GROUPS_BY[kind],
        most_per_hour=section.most_per_hour,
    )


def _templates(
    section: TemplatedSection, here: Location, base: Path, complaints: Complaints
) -> Templates:
    def template(key: str) -> Template | None:
        path = getattr(section, key, None)
        if path is None:
            return None
        try:
            source = Path(base / path).read_text("utf-8")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            complaints.add(
                (*here, key), f"cannot be used: {reason}", "relative paths start at this file"
            )
            return None
        try:
            # No program of the operator's is run here; rendering happens in the same sandbox.
            parsed = SandboxedEnvironment().parse(source)
        except TemplateSyntaxError as error:
            complaints.add((*here, key), f"{path}:{error.lineno}: {error.message}")
            return None
        for name in sorted(meta.find_undeclared_variables(parsed) - {*TEMPLATE_VARIABLES}):
            complaints.add(
                (*here, key),
                f"{path} names {name!r}, which no message has",
                did_you_mean(name, TEMPLATE_VARIABLES),
            )
        return Template(str(base / path), source)

    return Templates(*map(template, ("title_template", "text_template", "html_template")))


def _apprise(
    section: AppriseSection, here: Location, base: Path, complaints: Complaints
) -> AppriseNotifier:
    secret = complaints.secret(section.urls_file, (*here, "urls_file"), base) or ""
    lines = (line.strip() for line in secret.splitlines())
    urls = [*section.urls, *(line for line in lines if line and not line.startswith("#"))]
    if not section.urls and not section.urls_file:
        complaints.add(here, "names no service", "give `urls` or `urls_file`")
    if importlib.util.find_spec("apprise") is None:
        complaints.add(
            (*here, "kind"),
            "needs the package Apprise, which is not installed",
            "install least-monitor[apprise]",
        )
    for i, url in enumerate(urls):
        if not _APPRISE.match(url):
            written = i < len(section.urls)
            complaints.add(
                (*here, "urls", i) if written else (*here, "urls_file"),
                # Not its text: it may hold a key.
                f"URL {i + 1} is none of Apprise's",
                "it looks like slack://…, msteams://… or pagerduty://…",
            )
    return AppriseNotifier(
        tuple(dict.fromkeys(urls)),
        section.timeout,
        templates=_templates(section, here, base, complaints),
    )


def _alertmanager(
    section: AlertmanagerSection, here: Location, base: Path, complaints: Complaints
) -> AlertmanagerNotifier:
    password = _password(section, here, base, complaints)
    token = complaints.secret(section.token_file, (*here, "token_file"), base)
    if section.token_file and section.user:
        complaints.add((*here, "token_file"), "is given, and `user` too", "keep one")
    if section.token_file or section.user:
        for i, url in enumerate(section.urls):
            if urlsplit(url).scheme == "http" and not is_loopback(urlsplit(url).hostname or ""):
                complaints.add(
                    (*here, "urls", i), "would send the secret in the clear", "use https://"
                )
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
        tuple(section.urls),
        dict(section.labels),
        section.runbook_url,
        section.timeout,
        user=section.user,
        password=password,
        token=token,
        templates=_templates(section, here, base, complaints),
    )


def _password(
    section: AlertmanagerSection | EmailSection, here: Location, base: Path, complaints: Complaints
) -> str | None:
    password = complaints.secret(section.password_file, (*here, "password_file"), base)
    if section.password_file and not section.user:
        complaints.add((*here, "password_file"), "belongs to nobody", "add `user`")
    elif section.user and not section.password_file:
        complaints.add((*here, "user"), "has no password", "add `password_file`")
    return password


def _email(
    section: EmailSection, here: Location, base: Path, complaints: Complaints
) -> EmailNotifier:
    password = _password(section, here, base, complaints)
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
        templates=_templates(section, here, base, complaints),
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

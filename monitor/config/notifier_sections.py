"""The notifiers' sections as pydantic sees them: what each takes, and what all share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from monitor.config.fields import NO_TIME, Duration, Section, Texts, Url, one_or_many
from monitor.config.model import (
    GROUPS_BY,
    AlertmanagerNotifier,
    AppriseNotifier,
    EmailNotifier,
    Grouping,
    LogNotifier,
    Security,
    WebhookNotifier,
)

MailAddress = Annotated[str, Field(pattern=r"^[^\s@<>,;:]+@[^\s@<>,;:]+$")]

SeverityName = Literal["info", "warning", "critical"]
ChangeName = Literal["opened", "regressed", "worsened", "refined", "merged", "resolved"]

_webhook = WebhookNotifier("http://x")
_alertmanager = AlertmanagerNotifier(())
_email = EmailNotifier("", "", ())
_apprise = AppriseNotifier(())


class NotifierSection(Section):
    """What every notifier can leave out, and how it bundles the rest."""

    match: Texts = Field(
        default_factory=list,
        description="Only incidents that meet all of these: "
        '`["outcome=pay", "airline=~"A.*""]` (see notifications).',
    )
    severity: SeverityName = Field(
        default="info", description="Only incidents of at least this severity."
    )
    changes: list[ChangeName] = Field(
        default_factory=list, description="Only these changes; none is all."
    )
    group_by: Grouping | None = Field(
        default=None,
        description="What of one tick goes into one message: a `story`, everything of an `outcome` "
        "with the stories that it is part of, the whole `tick`, or `none`: one message for each "
        "incident. Left out: "
        + ", ".join(f"`{by}` for {kind}" for kind, by in GROUPS_BY.items())
        + ".",
    )
    most_per_hour: int | None = Field(
        default=None,
        ge=1,
        description="Messages in an hour; what exceeds them waits, and comes as one message.",
    )


class TemplatedSection(NotifierSection):
    """A notifier whose words can be changed."""

    title_template: str | None = Field(
        default=None, description="A file with the Jinja template of the title (see notifications)."
    )
    text_template: str | None = Field(
        default=None, description="A file with the template of the text."
    )


class LogSection(NotifierSection):
    """Incidents as log lines."""

    kind: Literal["log"] = Field(description="`log`")
    format: Literal["human", "json"] = Field(
        default=LogNotifier().format, description="Shape of a line."
    )


class WebhookSection(NotifierSection):
    """Incidents as HTTP posts."""

    kind: Literal["webhook"] = Field(description="`webhook`")
    url: Url = Field(description="Where to post.")
    secret_file: str | None = Field(
        default=None, description="A file that holds the key of the HMAC-SHA256 signature."
    )
    timeout: Duration = Field(default=_webhook.timeout, gt=NO_TIME, description="Of one delivery.")


class AlertmanagerSection(TemplatedSection):
    """Incidents as alerts of Prometheus' Alertmanager."""

    kind: Literal["alertmanager"] = Field(description="`alertmanager`")
    urls: Annotated[list[Url], Field(min_length=1), BeforeValidator(one_or_many)] = Field(
        description="Of every member of one cluster, for example `http://alertmanager:9093`; "
        "all are told, one that takes it is enough."
    )
    labels: dict[str, str] = Field(
        default_factory=dict,
        description='Added to every alert, for routing: `{ severity = "page" }`.',
    )
    runbook_url: Url | None = Field(
        default=None, description="What to do; the annotation of that name."
    )
    user: str | None = Field(
        default=None, min_length=1, description="Sign in by HTTP Basic as this one."
    )
    password_file: str | None = Field(
        default=None, description="A file that holds the password of `user`."
    )
    token_file: str | None = Field(
        default=None, description="A file that holds a bearer token, instead of a user."
    )
    timeout: Duration = Field(
        default=_alertmanager.timeout, gt=NO_TIME, description="Of one delivery to one of them."
    )


class EmailSection(TemplatedSection):
    """Incidents as mails, through one SMTP server."""

    kind: Literal["email"] = Field(description="`email`")
    host: str = Field(min_length=1, pattern=r"^\S+$", description="Of the server.")
    port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Of the server; left out, 587 for `starttls`, 465 for `tls`, 25 for `none`.",
    )
    security: Security = Field(
        default=_email.security,
        description="`starttls` refuses to go on without; `tls` is encrypted from the start.",
    )
    sender: MailAddress = Field(description="Address in From.")
    recipients: Annotated[list[MailAddress], Field(min_length=1), BeforeValidator(one_or_many)] = (
        Field(description="Addresses in To.")
    )
    user: str | None = Field(
        default=None, min_length=1, description="Sign in as this one; left out: don't."
    )
    password_file: str | None = Field(
        default=None, description="A file that holds the password of `user`."
    )
    timeout: Duration = Field(
        default=_email.timeout, gt=NO_TIME, description="Of one step of the conversation."
    )
    html_template: str | None = Field(
        default=None, description="A file with the template of the HTML body."
    )


class AppriseSection(TemplatedSection):
    """Incidents to Slack, Teams, PagerDuty and the other services that Apprise knows."""

    kind: Literal["apprise"] = Field(description="`apprise`; needs `least-monitor[apprise]`")
    urls: Texts = Field(
        default_factory=list,
        description="[Apprise URLs](https://github.com/caronc/apprise/wiki) that hold no secret.",
    )
    urls_file: str | None = Field(
        default=None, description="A file with Apprise URLs, one a line; `#` begins a comment."
    )
    timeout: Duration = Field(default=_apprise.timeout, gt=NO_TIME, description="Of one delivery.")


NOTIFIER_SECTIONS: dict[str, type[Section]] = {
    "log": LogSection,
    "webhook": WebhookSection,
    "alertmanager": AlertmanagerSection,
    "email": EmailSection,
    "apprise": AppriseSection,
}
"""By `kind`."""

Notifier = Annotated[
    LogSection | WebhookSection | AlertmanagerSection | EmailSection | AppriseSection,
    Field(discriminator="kind"),
]

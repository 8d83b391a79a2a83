"""Incident changes by mail: text and HTML, one thread of mails per story."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Literal

import structlog
from jinja2 import Environment, PackageLoader, StrictUndefined

from monitor.domain import Change, Notification, Severity
from monitor.edge.notifiers import DeliveryError
from monitor.edge.notifiers.message import (
    MOST_PARTS,
    details,
    leading,
    listed,
    one_line,
    part,
    together_details,
    worst,
)
from monitor.edge.notifiers.templates import Wording
from monitor.edge.notifiers.webhook import delivery_id

_RED, _GREEN = "#b3261e", "#1e6b3c"
_LONGEST_SUBJECT = 200
_MOST_REFERENCES = 20

_log = structlog.get_logger("email")


class EmailNotifier:
    """Sends through one SMTP server.

    Args:
        host: of the server.
        port: of the server; 587 for ``starttls``, 465 for ``tls`` are usual.
        sender: address in From.
        recipients: addresses in To.
        security: ``starttls`` (refuses to go on without), ``tls`` from the start, or ``none``.
        username: None sends without signing in.
        password: of the user.
        timeout: of one step of the conversation.
        console_url: where people reach the console; for the link.
        name: for the outbox.
        wording: the operators' own words.
    """

    states_only = False

    def __init__(
        self,
        host: str,
        port: int,
        sender: str,
        recipients: Sequence[str],
        security: Literal["starttls", "tls", "none"] = "starttls",
        username: str | None = None,
        password: str | None = None,
        timeout: timedelta = timedelta(seconds=20),
        console_url: str | None = None,
        name: str = "email",
        wording: Wording | None = None,
    ) -> None:
        self.name = name
        self._host, self._port = host, port
        self._sender = sender
        self._recipients = list(recipients)
        self._security = security
        self._username, self._password = username, password
        self._timeout = timeout.total_seconds()
        self._wording = wording or Wording(console_url=console_url)
        self._pages = Environment(
            loader=PackageLoader("monitor.edge.notifiers", package_path="."),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
        )

    def message(self, *notifications: Notification) -> EmailMessage:
        """The mail. Its Message-ID is the same at every attempt, so servers may drop doubles."""
        title = self._wording.title(notifications)
        mail = EmailMessage(policy=policy.SMTP)
        mail["From"] = self._sender
        mail["To"] = ", ".join(self._recipients)
        mail["Subject"] = title[:_LONGEST_SUBJECT]
        mail["Date"] = format_datetime(max(n.at for n in notifications))
        domain = Address(addr_spec=self._sender).domain or "localhost"
        stories = dict.fromkeys(n.incident.story for n in notifications)
        threads = [f"<{one_line(story)}@{domain}>" for story in stories]
        begins = any(n.change is Change.OPENED and not n.incident.part_of for n in notifications)
        if len(threads) == 1 and begins:
            mail["Message-ID"] = threads[0]
        else:
            mail["Message-ID"] = f"<{delivery_id(*notifications)}@{domain}>"
            if len(threads) == 1:
                mail["In-Reply-To"] = threads[0]
            mail["References"] = " ".join(threads[:_MOST_REFERENCES])
        # Keeps holiday answers from coming back.
        mail["Auto-Submitted"] = "auto-generated"
        if worst(notifications) is Severity.CRITICAL and leading(notifications) is Change.OPENED:
            mail["Importance"] = "high"
        mail.set_content(self._wording.text(notifications) + "\n", cte="quoted-printable")
        html = self._wording.html(notifications) or self._page(notifications, title)
        mail.add_alternative(html, subtype="html")
        return mail

    def _page(self, notifications: Sequence[Notification], title: str) -> str:
        first, change = notifications[0], leading(notifications)
        together = len(notifications) > 1
        facts = together_details(notifications) if together else details(first)
        return self._pages.get_template("mail.html").render(
            headline=title,
            change=change.value,
            severity=worst(notifications).value,
            colour=_GREEN if change in (Change.RESOLVED, Change.MERGED) else _RED,
            path=[] if together else [one_line(node) for node in first.incident.finding.path],
            facts=[fact for fact in facts if fact[0] not in ("path", "severity")],
            parts=[
                (n.change.value, one_line(n.incident.finding.outcome), part(n), self._link(n))
                for n in (listed(notifications) if together else ())
            ],
            more=max(0, len(notifications) - MOST_PARTS) if together else 0,
            link=None if together else self._link(first),
        )

    def _link(self, notification: Notification) -> str | None:
        return self._wording.link(notification.incident)

    def send(self, notification: Notification) -> None:
        """See `Notifier`. Codes 5xx and a refused sign-in are permanent."""
        self._send(self.message(notification))

    def send_together(self, notifications: Sequence[Notification]) -> None:
        """See `Bundling`."""
        self._send(self.message(*notifications))

    def _send(self, mail: EmailMessage) -> None:
        try:
            with ExitStack() as stack:
                server = stack.enter_context(self._connect())
                if self._username is not None:
                    server.login(self._username, self._password or "")
                refused = server.send_message(mail, self._sender, self._recipients)
        except smtplib.SMTPRecipientsRefused as error:
            answers = {code for code, _ in error.recipients.values()}
            raise DeliveryError(
                f"{self._host} refuses every recipient: {_refusals(error.recipients)}",
                permanent=all(code >= 500 for code in answers),
            ) from error
        except smtplib.SMTPResponseException as error:
            answer = _text(error.smtp_error)
            raise DeliveryError(
                f"{self._host} answers {error.smtp_code}: {answer}",
                permanent=error.smtp_code >= 500,
            ) from error
        except smtplib.SMTPNotSupportedError as error:
            raise DeliveryError(f"{self._host}: {error}", permanent=True) from error
        except (smtplib.SMTPException, OSError) as error:
            raise DeliveryError(
                f"{self._host} port {self._port}: {error or type(error).__name__}"
            ) from error
        if refused:
            # Some got it: sending again would reach them twice.
            _log.error("mail refused for some", recipients=_refusals(refused))

    def _connect(self) -> smtplib.SMTP:
        context = ssl.create_default_context()
        if self._security == "tls":
            return smtplib.SMTP_SSL(self._host, self._port, timeout=self._timeout, context=context)
        server = smtplib.SMTP(self._host, self._port, timeout=self._timeout)
        if self._security == "starttls":
            try:
                server.starttls(context=context)
            except BaseException:
                server.close()
                raise
        return server

    def close(self) -> None:
        """Nothing stays open between mails."""


def _text(answer: bytes | str) -> str:
    return one_line(answer.decode(errors="replace") if isinstance(answer, bytes) else answer)


def _refusals(recipients: dict[str, tuple[int, bytes]]) -> str:
    return ", ".join(f"{who} ({code} {_text(why)})" for who, (code, why) in recipients.items())

"""Incident changes by mail: text and HTML, one thread of mails per incident."""

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

from monitor.domain import Change, Notification
from monitor.edge.notifiers import DeliveryError, link_to
from monitor.edge.notifiers.message import details, headline, one_line, plain_text
from monitor.edge.notifiers.webhook import delivery_id

_RED, _GREEN = "#b3261e", "#1e6b3c"
_LONGEST_SUBJECT = 200

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
    """

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
    ) -> None:
        self.name = name
        self._host, self._port = host, port
        self._sender = sender
        self._recipients = list(recipients)
        self._security = security
        self._username, self._password = username, password
        self._timeout = timeout.total_seconds()
        self._console_url = console_url
        self._pages = Environment(
            loader=PackageLoader("monitor.edge.notifiers", package_path="."),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
        )

    def message(self, notification: Notification) -> EmailMessage:
        """The mail. Its Message-ID is the same at every attempt, so servers may drop doubles."""
        incident, link = notification.incident, link_to(notification.incident, self._console_url)
        title = headline(notification)
        mail = EmailMessage(policy=policy.SMTP)
        mail["From"] = self._sender
        mail["To"] = ", ".join(self._recipients)
        mail["Subject"] = title[:_LONGEST_SUBJECT]
        mail["Date"] = format_datetime(notification.at)
        domain = Address(addr_spec=self._sender).domain or "localhost"
        thread = f"<{one_line(incident.id)}@{domain}>"
        if notification.change is Change.OPENED:
            mail["Message-ID"] = thread
        else:
            mail["Message-ID"] = f"<{delivery_id(notification)}@{domain}>"
            mail["In-Reply-To"] = mail["References"] = thread
        # Keeps holiday answers from coming back.
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(plain_text(notification, link) + "\n")
        html = self._pages.get_template("mail.html").render(
            headline=title,
            change=notification.change.value,
            colour=_GREEN if notification.change is Change.RESOLVED else _RED,
            path=[one_line(node) for node in incident.finding.path],
            facts=[fact for fact in details(notification) if fact[0] != "path"],
            link=link,
        )
        mail.add_alternative(html, subtype="html")
        return mail

    def send(self, notification: Notification) -> None:
        """See `Notifier`. Codes 5xx and a refused sign-in are permanent."""
        mail = self.message(notification)
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

"""Incident changes to Slack, Teams, PagerDuty and whatever else Apprise knows (an extra).

Apprise tells of a failure by a falsy result, not by an exception, and does not say whether
trying again can help; so every failure is taken for a temporary one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from monitor.domain import Change, Notification, Severity
from monitor.edge.notifiers import DeliveryError
from monitor.edge.notifiers.message import leading, one_line, part, worst
from monitor.edge.notifiers.templates import Wording
from monitor.edge.notifiers.webhook import delivery_id

_CLOSING = (Change.RESOLVED, Change.MERGED)
_KEYED = ("pagerduty",)
"""Services that keep an incident open under a key of ours, until we end it."""

_MARKED_UP = frozenset(
    {
        "discord",
        "guilded",
        "mmost",
        "mmosts",
        "msteams",
        "rocket",
        "rockets",
        "webexteams",
        "workflow",
        "workflows",
        "wxteams",
        "zulip",
    }
)
"""Services that read Markdown and mentions even in what they are given as plain text. Slack,
Telegram and mail are escaped by Apprise."""

_SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "\\`*_[]()#~|>"} | {"<": "‹", "@": "@\N{ZERO WIDTH SPACE}"}
)
_REMEMBERED = 100


class AppriseNotifier:
    """Tells every URL; those that took a message are not told again when another fails.

    Args:
        urls: Apprise's, e.g. ``slack://…``; they hold secrets and are never shown whole.
        timeout: of one step of a delivery.
        console_url: where people reach the console; for the link.
        name: for the outbox.
        wording: the operators' own words.

    Raises:
        ValueError: Apprise does not know a URL.
        ModuleNotFoundError: the extra is not installed.
    """

    states_only = False

    def __init__(
        self,
        urls: Sequence[str],
        timeout: timedelta = timedelta(seconds=20),
        console_url: str | None = None,
        name: str = "apprise",
        wording: Wording | None = None,
    ) -> None:
        import apprise

        self.name = name
        self._wording = wording or Wording(console_url=console_url)
        self._timeout = timeout.total_seconds()
        self._urls = list(urls)
        self._asset = apprise.AppriseAsset(
            app_id="least-monitor",
            app_desc="root causes",
            app_url=console_url or "",
            image_url_mask="",
            async_mode=False,
        )
        self._instantiate = apprise.Apprise.instantiate
        self._types = {
            Severity.INFO: apprise.NotifyType.INFO,
            Severity.WARNING: apprise.NotifyType.WARNING,
            Severity.CRITICAL: apprise.NotifyType.FAILURE,
        }
        self._over, self._plain = apprise.NotifyType.SUCCESS, apprise.NotifyFormat.TEXT
        self._taken: OrderedDict[str, set[int]] = OrderedDict()
        """Message → the URLs that have it."""
        for number, url in enumerate(self._urls, 1):
            if self._service(url) is None:
                raise ValueError(f"Apprise does not understand URL {number}, {_scheme(url)}://…")

    def send(self, notification: Notification) -> None:
        """See `Notifier`."""
        self.send_together((notification,))

    def send_together(self, notifications: Sequence[Notification]) -> None:
        """See `Bundling`. Services with keys get each story by itself."""
        key = delivery_id(*notifications)
        taken = self._taken.setdefault(key, set())
        while len(self._taken) > _REMEMBERED:
            self._taken.popitem(last=False)
        refused = []
        for index, url in enumerate(self._urls):
            if index in taken:
                continue
            tell = self._tell_each if _scheme(url) in _KEYED else self._tell
            if tell(url, notifications):
                taken.add(index)
            else:
                refused.append(f"{_scheme(url)} (URL {index + 1})")
        if refused:
            raise DeliveryError(
                f"Apprise could not deliver to {', '.join(refused)}; its log says why"
            )
        del self._taken[key]

    def _tell(self, url: str, notifications: Sequence[Notification]) -> bool:
        escape: Callable[[str], str] | None = None
        if _scheme(url) in _MARKED_UP:
            escape = escaped
        title = self._wording.title(notifications, escape)
        text = self._wording.text(notifications, escape)
        # Our text begins with the title.
        text = text.removeprefix(title).lstrip("\n") or text
        return self._notify(url, title, text, self._type(notifications))

    def _tell_each(self, url: str, notifications: Sequence[Notification]) -> bool:
        arrived = True
        stories: dict[str, list[Notification]] = {}
        for one in notifications:
            stories.setdefault(one.incident.story, []).append(one)
        for story, parts in stories.items():
            action = "resolve" if leading(parts) in _CLOSING else "trigger"
            joint = "&" if "?" in url else "?"
            keyed = f"{url}{joint}dedup={quote(story, safe='')}&action={action}"
            link = self._wording.link(parts[0].incident)
            lines = [
                f"{one_line(n.incident.finding.outcome)}, {part(n)}" if len(parts) > 1 else part(n)
                for n in parts
            ]
            text = "\n".join([*lines, *([link] if link else [])])
            title = self._wording.title(parts)
            arrived = self._notify(keyed, title, text, self._type(parts)) and arrived
        return arrived

    def _type(self, notifications: Sequence[Notification]) -> Any:
        if leading(notifications) in _CLOSING:
            return self._over
        return self._types[worst(notifications)]

    def _notify(self, url: str, title: str, text: str, kind: Any) -> bool:
        service = self._service(url)
        assert service is not None
        told = service.notify(body=text, title=title, notify_type=kind, body_format=self._plain)
        return bool(told)

    def _service(self, url: str) -> Any:
        service = self._instantiate(url, asset=self._asset, suppress_exceptions=True)
        if service:
            service.socket_connect_timeout = service.socket_read_timeout = self._timeout
        return service or None

    def close(self) -> None:
        """Nothing stays open between messages."""


def escaped(text: str) -> str:
    r"""A value as plain words for services that read Markdown and mentions.

    >>> escaped("[x](http://y) *all*")
    '\\[x\\]\\(http://y\\) \\*all\\*'
    """
    return one_line(text).translate(_SPECIAL)


def _scheme(url: str) -> str:
    return url.partition("://")[0].lower()

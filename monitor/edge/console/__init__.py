"""The console: a few pages rendered here, that need neither JavaScript nor the internet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import resources
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from monitor import __version__
from monitor.domain import Incident, State
from monitor.edge.console.picture import draw
from monitor.edge.status import Status
from monitor.edge.store import Audit, OutboxCount, Verdict


class Console:
    """Renders pages; knows nothing of routes or storage."""

    def __init__(self) -> None:
        self._pages = Environment(
            loader=PackageLoader("monitor.edge.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._pages.filters.update(
            time=time_text, number=number, percent=percent, duration=duration, small=probability
        )
        self._pages.globals["version"] = __version__
        self._css = (resources.files(__package__ or __name__) / "console.css").read_text()

    def overview(
        self, status: Status, incidents: Sequence[Incident], outbox: Sequence[OutboxCount]
    ) -> Response:
        """Is anything wrong, and does the monitor itself work."""
        newest_first = sorted(incidents, key=lambda i: (i.opened_at, i.id), reverse=True)
        parked = sum(o.count for o in outbox if o.status == "parked")
        pending = sum(o.count for o in outbox if o.status == "pending")
        return self._page(
            "overview.html", status, incidents=newest_first, parked=parked, pending=pending
        )

    def incidents(
        self,
        status: Status,
        incidents: Sequence[Incident],
        following: str | None,
        asked: Mapping[str, str],
    ) -> Response:
        """The list, with its filter; `following` is where the next page starts."""
        more = None if following is None else urlencode({**asked, "after": following})
        outcomes = status.diagnosis.outcomes if status.diagnosis else ()
        return self._page(
            "incidents.html",
            status,
            incidents=incidents,
            more=more,
            asked=asked,
            states=[state.value for state in State],
            outcomes=[count.outcome for count in outcomes],
        )

    def incident(
        self, status: Status, incident: Incident, audit: Sequence[Audit], label: Verdict | None
    ) -> Response:
        """One incident: what fails, how it gets there, and why we believe it."""
        edges = status.diagnosis.edges if status.diagnosis else ()
        return self._page(
            "incident.html",
            status,
            incident=incident,
            picture=draw(incident.finding.path or (incident.finding.outcome,), edges),
            audit=audit,
            label=label,
        )

    def error(self, status: Status, code: int, reason: str) -> Response:
        """A page that says what went wrong."""
        return self._page("error.html", status, code, reason=reason, heading_code=code)

    def css(self, request: Request) -> Response:
        """The one stylesheet."""
        return Response(self._css, media_type="text/css", headers={"Cache-Control": "max-age=3600"})

    def _page(self, name: str, status: Status, code: int = 200, **content: object) -> Response:
        return HTMLResponse(
            self._pages.get_template(name).render(status=status, **content), status_code=code
        )


def time_text(at: datetime | None) -> str:
    """For people, always with its zone.

    >>> time_text(datetime(2013, 4, 16, 17, 30, tzinfo=UTC))
    '2013-04-16 17:30 UTC'
    """
    return "–" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def number(value: float) -> str:
    """Counts in full, small expectations with one digit.

    >>> number(12034), number(3.25)
    ('12,034', '3.2')
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"


def percent(value: float) -> str:
    """A share.

    >>> percent(0.0123), percent(0.4)
    ('1.2 %', '40 %')
    """
    if not math.isfinite(value):
        return "–"
    return f"{value:.0%}".replace("%", " %") if value >= 0.1 else f"{value:.1%}".replace("%", " %")


def probability(value: float) -> str:
    """p and q, which are often tiny.

    >>> probability(0.03), probability(3e-9)
    ('0.030', '3e-09')
    """
    if not math.isfinite(value):
        return "–"
    return f"{value:.3f}" if value >= 0.001 or value == 0 else f"{value:.0e}"


def duration(value: timedelta) -> str:
    """Hours and minutes.

    >>> duration(timedelta(minutes=90)), duration(timedelta(hours=24))
    ('1 h 30 min', '24 h')
    """
    minutes = round(value.total_seconds() / 60)
    hours, rest = divmod(minutes, 60)
    parts = ([f"{hours} h"] if hours else []) + ([f"{rest} min"] if rest or not hours else [])
    return " ".join(parts)

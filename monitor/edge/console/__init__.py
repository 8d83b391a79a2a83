"""The console: a few pages rendered here, that need neither JavaScript nor the internet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from monitor import __version__
from monitor.domain import Incident, Method, State
from monitor.edge.console.picture import draw
from monitor.edge.silences import Hush, Silence, described, until
from monitor.edge.status import Status
from monitor.edge.store import Audit, OutboxCount, OutboxItem, Verdict
from monitor.edge.wording import duration, number, percent, probability, time_text

_PARENTS = 8
_NEIGHBOURS = 50

NEWEST = 30
"""Incidents on the overview."""

VERDICTS = {
    Verdict.TRUE: "a true incident",
    Verdict.FALSE: "a false alarm",
    Verdict.EXPECTED: "true, but expected",
}


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
        self,
        status: Status,
        incidents: Sequence[Incident],
        open_counts: Mapping[str, int],
        outbox: Sequence[OutboxCount],
        given_up: Sequence[OutboxItem],
    ) -> Response:
        """Is anything wrong, and does the monitor itself work.

        Args:
            status: the daemon's.
            incidents: the newest that are open.
            open_counts: outcome → how many are open.
            outbox: notifications by notifier and status.
            given_up: the newest parked notifications.
        """
        parked = sum(o.count for o in outbox if o.status == "parked")
        pending = sum(o.count for o in outbox if o.status == "pending")
        return self._page(
            "overview.html",
            status,
            incidents=incidents,
            count=sum(open_counts.values()),
            failing=open_counts,
            parked=parked,
            pending=pending,
            given_up=given_up,
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
            methods=[method.value for method in Method],
            outcomes=[count.outcome for count in outcomes],
        )

    def incident(
        self,
        status: Status,
        incident: Incident,
        audit: Sequence[Audit],
        label: Verdict | None,
        can_change: bool = False,
        hush: Hush | None = None,
    ) -> Response:
        """One incident: what fails, how it gets there, and why we believe it."""
        edges = status.diagnosis.edges if status.diagnosis else ()
        cause = incident.finding.cause
        return self._page(
            "incident.html",
            status,
            incident=incident,
            picture=draw(incident.finding.path or (incident.finding.outcome,), edges),
            roots=[f"{name}={value}" for name, values in cause.selector for value in values],
            audit=audit,
            hush=hush,
            match="\n".join(_matching(incident)),
            can_change=can_change,
            verdicts=VERDICTS,
            label=label,
        )

    def silences(
        self, status: Status, silences: Sequence[Silence], match: str, can_change: bool
    ) -> Response:
        """Silences and maintenance windows; `match` fills the form."""
        now = datetime.now(UTC)
        windows = [(described(w), w, until(w, now)) for w in status.maintenance]
        return self._page(
            "silences.html",
            status,
            silences=silences,
            windows=windows,
            now=now,
            match=match,
            can_change=can_change,
        )

    def graph(self, status: Status, node: str | None) -> Response:
        """What leads to each outcome; with `node`, what leads to it and where it leads."""
        edges = status.diagnosis.edges if status.diagnosis else ()
        counts = status.diagnosis.outcomes if status.diagnosis else ()
        strongest = sorted(edges, key=lambda e: (-abs(e.weight), e.source, e.target))
        return self._page(
            "graph.html",
            status,
            node=node,
            into=[e for e in strongest if e.target == node][:_NEIGHBOURS],
            out_of=[e for e in strongest if e.source == node][:_NEIGHBOURS],
            outcomes=[
                (count.outcome, [e for e in strongest if e.target == count.outcome][:_PARENTS])
                for count in counts
            ],
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


def _matching(incident: Incident) -> Iterator[str]:
    """Matchers that hold for the incident, and for its like."""
    yield f'outcome="{incident.finding.outcome}"'
    for name, values in incident.finding.cause.selector:
        if len(values) == 1:
            yield f'{name}="{values[0]}"'
        else:
            yield f'{name}=~"{"|".join(map(re.escape, values))}"'

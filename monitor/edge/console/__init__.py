"""The console: pages rendered here, that need neither JavaScript nor the internet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import resources
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from monitor import __version__
from monitor.config.listing import listing
from monitor.domain import Edge, Incident, Method, Severity, State
from monitor.edge.console import explore_page, incident_page, picture
from monitor.edge.console.charts import chart
from monitor.edge.console.health import health
from monitor.edge.console.reports import Report
from monitor.edge.context import VERDICTS, Before
from monitor.edge.exploring import Answer, Question
from monitor.edge.silences import Hush, Silence, described, until
from monitor.edge.status import Status
from monitor.edge.store import Audit, OutboxCount, OutboxItem, Verdict, worst_first
from monitor.edge.store.lease import Lease
from monitor.edge.wording import (
    ago,
    duration,
    number,
    percent,
    probability,
    size,
    time_text,
    visible,
)
from monitor.exhibits import Exhibit, Point

_PARENTS = 8
_EDGES_LISTED = 200
_NAMES_OFFERED = 1500
_FOUND = 100
_SPARK_HEIGHT, _CHART_HEIGHT = 44, 290

SHOWN = 30
"""Incidents on the overview."""

_STATES = {
    400: "That cannot be done",
    403: "Not allowed",
    404: "Not found",
    409: "Not possible now",
    413: "Too much",
    500: "A fault of the monitor's",
    503: "Not now",
}


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at a page, and how."""

    path: str = "/"
    """Of the page with its query: where small forms lead back to."""
    theme: str = "auto"
    """``light``, ``dark``, or what the system prefers."""
    can_change: bool = False
    """The daemon has a token, so changes are possible at all."""
    actor: str = ""
    """Name of who has signed in; empty for others."""
    csrf: str = ""
    """What forms of somebody signed in must carry."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What the first page shows beside the status."""

    incidents: Sequence[Incident]
    """The worst that are open."""
    open_counts: Mapping[str, int]
    """Outcome → how many are open."""
    recent: Sequence[Incident] = ()
    """Open, or resolved within the window T."""
    totals: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    """Outcome → slices of the window T."""
    outbox: Sequence[OutboxCount] = ()
    parked: Sequence[OutboxItem] = ()
    """The newest notifications given up."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    lease: Lease | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """What is known of one incident."""

    incident: Incident
    audit: Sequence[Audit] = ()
    label: Verdict | None = None
    hush: Hush | None = None
    """Why nobody is told of it now."""
    course: Sequence[Point] = ()
    exhibit: Exhibit | None = None
    symptoms: Sequence[Incident] = ()
    """The other incidents of the same outage."""
    before: Before | None = None


class Console:
    """Renders pages; knows nothing of routes or storage."""

    def __init__(self) -> None:
        self._pages = Environment(
            loader=PackageLoader("monitor.edge.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_visible,
        )
        self._pages.filters.update(
            time=moment_and_age,
            clock=moment,
            plain_time=time_text,
            number=number,
            percent=percent,
            duration=duration,
            small=probability,
            size=size,
            cut=cut,
            code_spans=code_spans,
            verbatim=escape,
        )
        folder = resources.files(__package__ or __name__)
        self._files = {
            "console.css": ((folder / "console.css").read_bytes(), "text/css"),
            "console.js": ((folder / "console.js").read_bytes(), "text/javascript"),
        }
        texts = b"".join(text for text, _ in self._files.values())
        self._pages.globals.update(
            version=__version__, fingerprint=hashlib.sha256(texts).hexdigest()[:8]
        )

    def overview(self, viewer: Viewer, status: Status, shown: Overview) -> Response:
        """Is anything wrong, and does the monitor itself work."""
        tick, length = status.diagnosis, status.window.slice_length
        sparks = {
            outcome: chart(points, length, _SPARK_HEIGHT, _burning(outcome, shown.recent))
            for outcome, points in shown.totals.items()
        }
        parts = health(status, shown.lease, shown.outbox, shown.parked, shown.rejected)
        return self._page(
            "overview.html",
            viewer,
            status,
            shown=shown,
            count=sum(shown.open_counts.values()),
            sparks=sparks,
            spark_height=_SPARK_HEIGHT,
            outcomes=tick.outcomes if tick else (),
            parts=parts,
            ill=[part for part in parts if part.state == "bad"],
        )

    def incidents(
        self,
        viewer: Viewer,
        status: Status,
        incidents: Sequence[Incident],
        following: str | None,
        asked: Mapping[str, str],
        labels: Mapping[str, Verdict],
    ) -> Response:
        """The list, with its filter; `following` is where the next page starts."""
        given = {name: value for name, value in asked.items() if value and name != "after"}
        if asked.get("method") == "":
            given["method"] = ""
        tick = status.diagnosis
        outcomes = [count.outcome for count in tick.outcomes] if tick else []
        if asked.get("outcome") and asked["outcome"] not in outcomes:
            outcomes.append(asked["outcome"])
        now = tick.at if tick else datetime.now(UTC)
        since = {
            "24 hours": now - timedelta(days=1),
            "7 days": now - timedelta(days=7),
            "30 days": now - timedelta(days=30),
        }
        return self._page(
            "incidents.html",
            viewer,
            status,
            incidents=worst_first(incidents),
            more=following and urlencode({**given, "after": following}),
            start=urlencode(given) if asked.get("after") else None,
            ranges={
                words: urlencode({**given, "since": f"{at:%Y-%m-%dT%H:%M}Z", "until": ""})
                for words, at in since.items()
            },
            asked=asked,
            example=_example(status, incidents),
            filtered=bool(given.keys() - {"method"}) or "method" in asked,
            labels=labels,
            verdicts=VERDICTS,
            states=[state.value for state in State],
            severities=[severity.value for severity in Severity],
            methods=[method.value for method in Method],
            outcomes=outcomes,
        )

    def incident(self, viewer: Viewer, status: Status, story: Story, near: bool) -> Response:
        """One incident: what fails, since when, how badly, how it gets there, what to do.

        Args:
            viewer: who looks.
            status: the daemon's.
            story: what is known of it.
            near: the course shows the incident and little more.
        """
        incident, finding = story.incident, story.incident.finding
        roots = [f"{name}={value}" for name, values in finding.cause.selector for value in values]
        path = finding.path or (finding.outcome,)
        links = story.exhibit.links if story.exhibit else _current(status, path)
        allowed = status.config.console.example_columns if status.config else None
        return self._page(
            "incident.html",
            viewer,
            status,
            story=story,
            incident=incident,
            finding=finding,
            path=path,
            pictures=picture.of_incident(path, roots, links),
            near=near,
            week=incident_page.explored(incident, timedelta(days=7)),
            links=sorted(links, key=lambda e: (-abs(e.weight), e.source, e.target)),
            course=incident_page.course(
                story, status.window.slice_length, status.window.length, _CHART_HEIGHT, near
            ),
            facts=incident_page.facts(incident, status),
            examples=incident_page.examples(story.exhibit, allowed),
            runbook=incident_page.runbook(status, finding.outcome),
            match="\n".join(incident_page.matching(incident)),
            verdicts=VERDICTS,
            before=story.before and story.before.told(incident.opened_at),
        )

    def silences(
        self, viewer: Viewer, status: Status, silences: Sequence[Silence], match: str
    ) -> Response:
        """Silences and maintenance windows; `match` fills the form."""
        now = datetime.now(UTC)
        windows = [(described(w), w, until(w, now)) for w in status.maintenance]
        return self._page(
            "silences.html",
            viewer,
            status,
            silences=silences,
            windows=windows,
            now=now,
            match=match,
            example=_silenced(status),
        )

    def graph(
        self, viewer: Viewer, status: Status, node: str | None, hops: int, search: str
    ) -> Response:
        """What leads to each outcome; with `node`, the graph around it."""
        tick = status.diagnosis
        edges = tick.edges if tick else ()
        counts = tick.outcomes if tick else ()
        names = sorted({end for edge in edges for end in (edge.source, edge.target)})
        found: list[str] = []
        if search and not node:
            node = search if search in names else None
            words = search.casefold().split()
            found = [n for n in names if all(w in n.casefold() for w in words)]
            if len(found) == 1:
                node = found[0]
        strongest = sorted(edges, key=lambda e: (-abs(e.weight), e.source, e.target))
        known = bool(node) and any(node in (e.source, e.target) for e in edges)
        drawing = inside = None
        more = False
        if node and known:
            outcomes = {count.outcome for count in counts}
            drawing, inside, more = picture.around(node, edges, hops, outcomes)
        return self._page(
            "graph.html",
            viewer,
            status,
            node=node,
            known=known,
            hops=hops,
            search=search,
            names=names[:_NAMES_OFFERED],
            found=found[:_FOUND],
            found_count=len(found),
            picture=drawing,
            inside=inside or [],
            listed=_EDGES_LISTED,
            more=more,
            strength={(e.source, e.target): e.weight for e in strongest},
            outcomes=[
                (count.outcome, *_parents(status, strongest, count.outcome)) for count in counts
            ],
        )

    def explore(
        self,
        viewer: Viewer,
        status: Status,
        question: Question,
        answer: Answer,
        kept: datetime,
        incidents: Sequence[Incident],
    ) -> Response:
        """What failed, attribute by attribute, within a filter and a time.

        Args:
            viewer: who looks.
            status: the daemon's; has a configuration.
            question: as it was asked.
            answer: from the store.
            kept: start of the oldest slice.
            incidents: of the time.
        """
        assert status.config is not None
        newest = status.diagnosis.at if status.diagnosis else question.end
        hot = _burning(question.outcome, incidents)
        return self._page(
            "explore.html",
            viewer,
            status,
            question=question,
            answer=answer,
            kept=kept,
            outcomes=status.config.settings.schema.outcomes,
            example=_example(status, incidents),
            without=[
                (
                    *one,
                    explore_page.address(
                        question, conditions=tuple(c for c in question.conditions if c != one)
                    ),
                )
                for one in question.conditions
            ],
            ranges=explore_page.ranges(question, newest, kept),
            zoom=explore_page.address(question).partition("&from=")[0],
            course=explore_page.course(answer, hot),
            tables=explore_page.tables(question, answer),
        )

    def reports(self, viewer: Viewer, status: Status, reports: Sequence[Report] | None) -> Response:
        """Backtest reports; None when no folder is configured."""
        return self._page("reports.html", viewer, status, reports=reports)

    def settings(self, viewer: Viewer, status: Status) -> Response:
        """The configuration as it was read, without its secrets."""
        groups = () if status.config is None else listing(status.config)
        return self._page("settings.html", viewer, status, groups=groups)

    def sign_in(
        self, viewer: Viewer, status: Status, following: str, trouble: str = "", code: int = 200
    ) -> Response:
        """Where operators give the token; `following` is the page to go on to."""
        return self._page(
            "sign_in.html", viewer, status, code, following=following, trouble=trouble
        )

    def error(self, viewer: Viewer, status: Status, code: int, reason: str) -> Response:
        """A page that says what went wrong."""
        return self._page(
            "error.html",
            viewer,
            status,
            code,
            reason=reason,
            error_code=code,
            heading=_STATES.get(code, "That did not work"),
        )

    def file(self, request: Request) -> Response:
        """The stylesheet or the script; their addresses change with their content."""
        text, kind = self._files[request.url.path.removeprefix("/")]
        return Response(text, media_type=kind, headers={"Cache-Control": "max-age=86400"})

    def _page(
        self, name: str, viewer: Viewer, status: Status, code: int = 200, **content: object
    ) -> Response:
        text = self._pages.get_template(name).render(viewer=viewer, status=status, **content)
        return HTMLResponse(text, status_code=code, headers={"Vary": "Cookie"})


def moment(at: datetime | None) -> Markup:
    """A time in UTC that the script turns into the reader's zone; UTC stays on hover."""
    if at is None:
        return Markup("–")
    exact, told = at.astimezone(UTC), time_text(at)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        f"{exact:%Y-%m-%dT%H:%M:%SZ}", told, told
    )


def moment_and_age(at: datetime | None) -> Markup:
    """The same with how long ago that is; the script keeps it true."""
    if at is None:
        return moment(at)
    return moment(at) + Markup(' <span class="ago">({})</span>').format(ago(at, datetime.now(UTC)))


def cut(text: str, most: int = 80) -> str:
    """For places with little room."""
    text = visible(text)
    return text if len(text) <= most else text[: most - 1] + "…"


def code_spans(text: str) -> Markup:
    """Words between backticks as code."""
    parts = [escape(visible(part)) for part in text.split("`")]
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts)
    )


def _visible(value: object) -> object:
    """Every text on a page passes here, unless it is markup of ours."""
    return visible(value) if type(value) is str else value


def _burning(outcome: str, incidents: Iterable[Incident]) -> list[tuple[datetime, datetime | None]]:
    """When failures of an outcome were those of an incident."""
    return [
        (i.finding.began, i.last_seen_at if i.resolved_at or i.latest.ended else None)
        for i in incidents
        if i.finding.outcome == outcome
    ]


@dataclass(frozen=True, slots=True)
class Leader:
    """A value that leads to an outcome."""

    source: str
    weight: float
    """Of the weaker edge on the way."""
    through: str
    """The error code on the way, or nothing."""


def _parents(
    status: Status, strongest: Sequence[Edge], outcome: str
) -> tuple[list[Leader], list[Edge]]:
    """Values, directly or through an error code, and the codes, which go with it by nature."""
    attributes = status.config.settings.schema.attributes if status.config else ()
    codes = tuple(f"{a.name}=" for a in attributes if a.is_code)
    mine = [e for e in strongest if e.target == outcome]
    coded = {e.source: e for e in mine if codes and e.source.startswith(codes)}
    found: dict[str, Leader] = {}
    for edge in strongest:
        if codes and edge.source.startswith(codes):
            continue
        if edge.target == outcome:
            leader = Leader(edge.source, edge.weight, "")
        elif edge.target in coded and edge.weight > 0:
            weaker = min(edge.weight, coded[edge.target].weight)
            leader = Leader(edge.source, weaker, edge.target)
        else:
            continue
        known = found.get(leader.source)
        if known is None or abs(known.weight) < abs(leader.weight):
            found[leader.source] = leader
    leaders = sorted(found.values(), key=lambda one: (-abs(one.weight), one.source))
    return leaders[:_PARENTS], list(coded.values())[:_PARENTS]


def _silenced(status: Status) -> str:
    """A matcher of this very configuration."""
    schema = status.config.settings.schema if status.config else None
    return f'outcome="{schema.outcomes[0]}"' if schema else ""


def _example(status: Status, incidents: Sequence[Incident] = ()) -> str:
    """A value of this very log, for a form's hint."""
    for incident in incidents:
        for name, values in incident.finding.cause.selector:
            return f"{name}={values[0]}"
    schema = status.config.settings.schema if status.config else None
    return f"{schema.names[0]}=" if schema else ""


def _current(status: Status, path: Sequence[str]) -> list[Edge]:
    """For incidents of releases that kept no picture: what of the path is learned now."""
    tick = status.diagnosis
    return [e for e in tick.edges if e.source in path and e.target in path] if tick else []

"""What of the waiting notifications is told, and in how many messages. No clock, no store.

One incident at a time: what is not for this notifier is skipped, what is silenced waits, and
where several changes have piled up, receivers that only care how things stand get the newest.
Then what belongs together is bundled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from monitor.config import Route
from monitor.domain import Change, Incident, Notification
from monitor.edge.store import OutboxItem
from monitor.matching import all_hold

RECHECK = timedelta(minutes=1)
"""A silence may be ended early: what it holds is looked at so often."""

SILENCED = "silenced: "

_CLOSING = (Change.RESOLVED, Change.MERGED)
_NEWS_FIRST = (
    Change.OPENED, Change.REGRESSED, Change.WORSENED, Change.REFINED, Change.MERGED,
    Change.RESOLVED,
)  # fmt: skip

Quiet = Callable[[Incident, datetime], tuple[str, datetime] | None]
"""Why nobody is to be told of an incident now, and until when; None: tell."""


def never_quiet(incident: Incident, now: datetime) -> None:
    """No silences at all."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """One message."""

    items: tuple[OutboxItem, ...]
    """What has arrived when it has."""
    notifications: tuple[Notification, ...]
    """What it says; one for each incident unless the notifier wants every change."""

    @property
    def rank(self) -> int:
        """The severity of the worst of it."""
        return max(n.incident.severity.rank for n in self.notifications)


@dataclass(slots=True)
class Plan:
    """What becomes of everything that is due."""

    bundles: list[Bundle] = field(default_factory=list)
    skipped: list[tuple[list[OutboxItem], str]] = field(default_factory=list)
    held: list[tuple[list[OutboxItem], str, datetime]] = field(default_factory=list)


def plan(
    items: Iterable[OutboxItem],
    route: Route,
    fates: Mapping[str, frozenset[str]],
    now: datetime,
    quiet: Quiet = never_quiet,
    *,
    collapses: bool = False,
    states_only: bool = False,
    past: datetime | None = None,
) -> Plan:
    """Decide.

    Args:
        items: due, of one notifier, in order.
        route: what it wants.
        fates: incident → what became of its earlier notifications.
        now: for silences.
        quiet: silences and maintenance.
        collapses: of several changes of one incident only the newest state is told.
        states_only: what began and ended unheard is not told at all.
        past: what happened before is no news: of it nobody is told more than how things stand.
    """
    made = Plan()
    by_incident: dict[str, list[OutboxItem]] = {}
    for item in items:
        by_incident.setdefault(item.notification.incident.id, []).append(item)
    singles: list[Bundle] = []
    for incident_id, waiting in by_incident.items():
        fate = fates.get(incident_id, frozenset())
        kept = _wanted(waiting, route, fate, made)
        kept = _audible(kept, fate, now, quiet, made)
        if kept:
            old = past is not None and kept[-1].notification.at < past
            singles += _tell(kept, "sent" in fate, collapses or old, states_only or old, made)
    made.bundles = bundled(singles, route)
    return made


def _wanted(
    waiting: list[OutboxItem], route: Route, fate: frozenset[str], made: Plan
) -> list[OutboxItem]:
    kept: list[OutboxItem] = []
    unheard = "skipped" in fate  # of something that was not for this notifier
    for item in waiting:
        incident, change = item.notification.incident, item.notification.change
        heard = "sent" in fate or bool(kept)
        if change in _CLOSING:
            # Whoever heard of it hears of its end, whatever it has become; nobody else does.
            asked = change in route.changes or Change.RESOLVED in route.changes
            wanted = asked and (heard or (not unheard and _concerns(route, incident)))
        else:
            # The first that a receiver hears is "opened", whatever it is.
            opens = not heard or change is Change.REGRESSED
            asked = change in route.changes or (opens and Change.OPENED in route.changes)
            wanted = asked and _concerns(route, incident)
        if wanted:
            kept.append(item)
        else:
            unheard = True
            made.skipped.append(([item], "not for this notifier"))
    return kept


def _concerns(route: Route, incident: Incident) -> bool:
    return incident.severity.rank >= route.severity.rank and all_hold(route.matchers, incident)


def _audible(
    kept: list[OutboxItem], fate: frozenset[str], now: datetime, quiet: Quiet, made: Plan
) -> list[OutboxItem]:
    if not kept:
        return []
    last = kept[-1].notification
    closing, told = last.change in _CLOSING, "sent" in fate
    silence = quiet(last.incident, now)
    if silence is None:
        if closing and not told and kept[0].error.startswith(SILENCED):
            made.skipped.append((kept, f"{kept[0].error}; over before that ended"))
            return []
        return kept
    reason, until = silence
    if closing and told:
        # A receiver that keeps it open must not keep it for ever.
        if kept[:-1]:
            made.skipped.append((kept[:-1], SILENCED + reason))
        return kept[-1:]
    if closing:
        made.skipped.append((kept, SILENCED + reason))
    else:
        made.held.append((kept, SILENCED + reason, min(until, now + RECHECK)))
    return []


def _tell(
    kept: list[OutboxItem], told: bool, collapses: bool, states_only: bool, made: Plan
) -> list[Bundle]:
    notifications = [item.notification for item in kept]
    last = notifications[-1]
    if states_only and last.change in _CLOSING and not told:
        made.skipped.append((kept, "over before it could be told"))
        return []
    first = notifications[0]
    if not told and first.change not in _CLOSING:
        notifications[0] = replace(first, change=Change.OPENED)
    if not collapses or len(kept) == 1:
        return [Bundle((i,), (n,)) for i, n in zip(kept, notifications, strict=True)]
    change = last.change
    if change not in _CLOSING:
        change = min((n.change for n in notifications), key=_NEWS_FIRST.index)
    return [Bundle(tuple(kept), (replace(last, change=change),))]


def bundled(singles: Sequence[Bundle], route: Route) -> list[Bundle]:
    """What of one tick belongs together, in one message."""
    if route.group_by == "none":
        return list(singles)
    groups: dict[object, list[Bundle]] = {}
    outcomes: dict[object, str] = {}
    for single in singles:
        (notification,) = single.notifications
        story = notification.incident.story
        # A story is never torn: it goes with the outcome that comes first in it.
        outcome = outcomes.setdefault(
            (story, notification.at), notification.incident.finding.outcome
        )
        by = {"story": story, "outcome": outcome}.get(route.group_by, "")
        groups.setdefault((by, notification.at), []).append(single)
    return [merged(group) for group in groups.values()]


def merged(bundles: Sequence[Bundle]) -> Bundle:
    """Several messages as one."""
    return Bundle(
        tuple(item for bundle in bundles for item in bundle.items),
        tuple(n for bundle in bundles for n in bundle.notifications),
    )


def within(bundles: Sequence[Bundle], allowed: int, together: bool) -> tuple[list[Bundle], int]:
    """At most `allowed` messages, and how many of `bundles` they leave out.

    Args:
        bundles: in order of time.
        allowed: at least 1.
        together: the last may hold all the rest.
    """
    if len(bundles) <= allowed:
        return list(bundles), 0
    if not together:
        return list(bundles[:allowed]), len(bundles) - allowed
    # The worst ones get a message of their own.
    order = sorted(bundles, key=lambda bundle: -bundle.rank)
    alone, rest = order[: allowed - 1], order[allowed - 1 :]
    return [*alone, merged(rest)], 0

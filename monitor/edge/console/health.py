"""How the parts of the monitor are, each in a word and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from monitor.edge.status import Status
from monitor.edge.store import OutboxCount, OutboxItem
from monitor.edge.store.lease import Lease
from monitor.edge.wording import duration, number

_LATELY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the monitor."""

    name: str
    state: str
    """``good``, ``unsure`` or ``bad``."""
    word: str
    detail: str
    at: datetime | None = None
    """A time that belongs to the detail."""


def health(
    status: Status,
    lease: Lease | None,
    outbox: Sequence[OutboxCount],
    parked: Sequence[OutboxItem],
    rejected: Mapping[str, int],
) -> list[Part]:
    """Source, ticks, learner, store, lease and every notifier.

    Args:
        status: the daemon's.
        lease: of the store; None when nobody has taken it, or it cannot be read.
        outbox: notifications by notifier and status.
        parked: the newest given up.
        rejected: records that could not be understood, by reason.
    """
    return [
        _source(status, rejected),
        _ticks(status),
        *_log(status),
        _learner(status),
        _store(status),
        _lease(status, lease),
        *_notifiers(outbox, _lately(status, parked)),
    ]


def _source(status: Status, rejected: Mapping[str, int]) -> Part:
    bad = sum(rejected.values())
    aside = f"{number(bad)} records set aside" if bad else "no record set aside"
    if status.source_trouble:
        return Part("Source", "bad", "away", status.source_trouble, status.watermark)
    if status.stage and not status.standby:
        return Part("Source", "unsure", "catching up", status.stage, status.watermark)
    if status.watermark is None:
        return Part("Source", "unsure", "waiting", "no event has been read yet")
    return Part("Source", "good", "reading", f"{aside}; complete until", status.watermark)


def _ticks(status: Status) -> Part:
    tick = status.diagnosis
    if tick is None:
        return Part("Ticks", "unsure", "none yet", "the first is made when a slice is complete")
    took = sum(tick.seconds.values())
    told = f"{number(tick.rows)} rows" + (f" in {took:.1f} s" if tick.seconds else "")
    if tick.gap:
        return Part("Ticks", "bad", "no data", "the newest slice is empty; it ends", tick.at)
    if tick.learning:
        return Part("Ticks", "unsure", "learning", f"{told}; the newest ends", tick.at)
    return Part("Ticks", "good", "running", f"{told}; the newest ends", tick.at)


def _log(status: Status) -> list[Part]:
    """What a person should look at; nothing while the log is as it was."""
    tick = status.diagnosis
    if tick is None:
        return []
    parts = [Part("Log", "bad", "changed", misfit.text, tick.at) for misfit in tick.misfits]
    if tick.learning_outcomes and not tick.learning:
        names = ", ".join(tick.learning_outcomes)
        parts.append(Part("Outcomes", "unsure", "learning", f"no verdict yet on {names}"))
    return parts


def _learner(status: Status) -> Part:
    tick = status.diagnosis
    if tick is None:
        return Part("Learner", "unsure", "none yet", "the graph is learned at the first tick")
    told = (
        f"{number(tick.nodes)} nodes, {number(len(tick.edges))} edges "
        f"(+{tick.edges_added} −{tick.edges_removed}), {number(tick.fit_steps)} steps"
    )
    words = tick.fit_status.replace("_", " ")
    state = {"converged": "good", "nonfinite": "bad"}.get(tick.fit_status, "unsure")
    return Part("Learner", state, words, told)


def _store(status: Status) -> Part:
    if status.store_trouble:
        return Part("Store", "bad", "failing", status.store_trouble)
    return Part("Store", "good", "working", "every tick is written whole")


def _lease(status: Status, lease: Lease | None) -> Part:
    if status.standby:
        return Part("Lease", "unsure", "standing by", f"{status.standby} leads")
    if lease is None:
        return Part("Lease", "unsure", "nobody leads", "no daemon works on this store")
    if lease.left < timedelta(0):
        ago = duration(-lease.left)
        return Part("Lease", "unsure", "over", f"{lease.owner} led; it ended {ago} ago")
    return Part("Lease", "good", "leading" if lease.mine else "taken", lease.owner)


def _lately(status: Status, parked: Sequence[OutboxItem]) -> set[str]:
    """Notifiers that gave up something of the last day: older trouble is no trouble of now."""
    now = status.diagnosis.at if status.diagnosis else datetime.now(UTC)
    return {item.notifier for item in parked if item.notification.at > now - _LATELY}


def _notifiers(outbox: Sequence[OutboxCount], failing: set[str]) -> list[Part]:
    counts: dict[str, dict[str, int]] = {}
    for one in outbox:
        counts.setdefault(one.notifier, {})[one.status] = one.count
    parts = []
    for name, by_status in sorted(counts.items()):
        parked, pending = by_status.get("parked", 0), by_status.get("pending", 0)
        told = f"{number(pending)} waiting, {number(by_status.get('sent', 0))} sent"
        if held := by_status.get("held", 0):
            told += f", {number(held)} held back"
        if parked:
            state, word = "bad" if name in failing else "unsure", f"{number(parked)} given up"
            parts.append(Part(f"Notifier {name}", state, word, told))
        else:
            parts.append(Part(f"Notifier {name}", "good", "delivering", told))
    return parts or [Part("Notifiers", "good", "silent", "nothing had to be told yet")]

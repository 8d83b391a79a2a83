"""What a person needs to read: what fails since when, how badly, why, and where to look."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence

from monitor.domain import Cause, Change, Incident, Method, Notification, Severity
from monitor.edge.wording import cause_text, duration, number, percent, probability, time_text

_HEADLINES = {
    Change.OPENED: "{outcome} is failing: {cause}",
    Change.REGRESSED: "{outcome} is failing again: {cause}",
    Change.WORSENED: "{outcome} is getting worse: {cause}",
    Change.REFINED: "{outcome} is failing, and more is known of why: {cause}",
    Change.MERGED: "{outcome}, {cause}: goes on as another incident",
    Change.RESOLVED: "{outcome} works again: {cause}",
    Change.UNCHANGED: "{outcome} is still failing: {cause}",
}


_JOINED = "{outcome} is failing, too: {cause}"


def headline(notification: Notification) -> str:
    """One line, for a subject or a title."""
    incident, change = notification.incident, notification.change
    finding = incident.finding
    words = _JOINED if incident.part_of and change is Change.OPENED else _HEADLINES[change]
    return one_line(words.format(outcome=finding.outcome, cause=cause_text(finding.cause)))


MOST_PARTS = 25
"""Parts of a bundle that a message lists."""

_NEWS = (
    Change.OPENED, Change.REGRESSED, Change.WORSENED, Change.REFINED, Change.MERGED,
    Change.RESOLVED,
)  # fmt: skip
_TOGETHER = {
    Change.OPENED: "{outcomes} failing: {causes}",
    Change.REGRESSED: "{outcomes} failing again: {causes}",
    Change.WORSENED: "{outcomes} getting worse: {causes}",
    Change.REFINED: "{outcomes} failing, and more is known of why: {causes}",
    Change.UNCHANGED: "{outcomes} still failing: {causes}",
}


def leading(notifications: Sequence[Notification]) -> Change:
    """The change that a bundle is about: what opens comes before what ends."""
    return min((n.change for n in notifications), key=lambda c: _NEWS.index(c) if c in _NEWS else 9)


def one_story(notifications: Sequence[Notification]) -> str | None:
    """Id of the story, if they are all of one."""
    stories = {n.incident.story for n in notifications}
    return stories.pop() if len(stories) == 1 else None


def worst(notifications: Sequence[Notification]) -> Severity:
    """The highest severity of a bundle."""
    return max((n.incident.severity for n in notifications), key=lambda s: s.rank)


def together_headline(notifications: Sequence[Notification]) -> str:
    """One line about several incidents; about one it is `headline`."""
    if len(notifications) == 1:
        return headline(notifications[0])
    outcomes = list(dict.fromkeys(n.incident.finding.outcome for n in notifications))
    many = len(outcomes) > 1
    lead, causes = leading(notifications), _causes(notifications)
    named = f"{len(outcomes)} outcomes" if many else outcomes[0]
    if one_story(notifications):
        named = enumerated(outcomes)
        if lead is Change.OPENED and all(n.incident.part_of for n in notifications):
            return one_line(f"{named} {'are' if many else 'is'} failing, too: {causes}")
    if lead in _TOGETHER:
        text = _TOGETHER[lead].format(outcomes=f"{named} {'are' if many else 'is'}", causes=causes)
    elif lead is Change.RESOLVED:
        text = f"{named} {'work' if many else 'works'} again: {causes}"
    else:
        text = f"{named}: {causes}, which go on as other incidents"
    return one_line(text)


def _causes(notifications: Sequence[Notification]) -> str:
    """Causes in one attribute are listed, as a storm's destinations; others are counted.

    Those of a story lie in one another: the widest is all of them.
    """
    causes = [n.incident.finding.cause for n in notifications]
    for widest in causes if one_story(notifications) else ():
        if all(cause == widest or cause.narrows(widest) for cause in causes):
            return cause_text(widest)
    names = {name for cause in causes for name, _ in cause.selector}
    if len(names) == 1 and all(cause.selector for cause in causes):
        values = dict.fromkeys(v for cause in causes for _, vs in cause.selector for v in vs)
        return f"{len(causes)} causes, {cause_text(Cause(((names.pop(), tuple(values)),)), 3)}"
    return f"{len(causes)} causes"


def together_details(notifications: Sequence[Notification]) -> Sequence[tuple[str, str]]:
    """The facts of a bundle as (name, value)."""
    counts = Tally(n.change for n in notifications)
    outcomes = Tally(n.incident.finding.outcome for n in notifications)
    facts = [
        ("severity", worst(notifications).value),
        ("since", time_text(min(n.incident.latest.began for n in notifications))),
    ]
    if len(counts) > 1:
        facts.append(("changes", _tally({c.value: counts[c] for c in _NEWS if c in counts})))
    if len(outcomes) > 1:
        facts.append(("outcomes", _tally(outcomes)))
    if one_story(notifications):
        facts += dict.fromkeys(known for n in notifications for known in n.context)
    return [(name, one_line(value)) for name, value in facts]


def enumerated(names: Sequence[str], most: int = 4) -> str:
    """Names in a sentence.

    >>> enumerated(["hold"]), enumerated(["hold", "pay"]), enumerated(["a", "b", "c"], 2)
    ('hold', 'hold and pay', 'a, b and 1 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def part(notification: Notification) -> str:
    """One incident of a bundle in one line."""
    incident = notification.incident
    finding = incident.latest
    return one_line(
        f"{cause_text(incident.finding.cause)}: {number(finding.observed)} of "
        f"{number(finding.rows)} failed, {number(finding.expected)} expected, "
        f"{percent(finding.rate_now)}, {incident.severity.value}"
    )


def listed(notifications: Sequence[Notification]) -> Sequence[Notification]:
    """The parts that a message shows: the worst, and the most failures, first."""
    order = sorted(
        notifications, key=lambda n: (-n.incident.severity.rank, -n.incident.latest.observed)
    )
    return order[:MOST_PARTS]


def together_text(
    notifications: Sequence[Notification], link: Callable[[Incident], str | None]
) -> str:
    """A message about several incidents, in lines of text.

    Args:
        notifications: at least one.
        link: to an incident's page.
    """
    if len(notifications) == 1:
        return plain_text(notifications[0], link(notifications[0].incident))
    facts = together_details(notifications)
    width = max(len(name) for name, _ in facts)
    lines = [together_headline(notifications)]
    lines += [f"  {name.ljust(width)}  {value}" for name, value in facts]
    mixed = len({n.incident.finding.outcome for n in notifications}) > 1
    for notification in listed(notifications):
        outcome = f"{one_line(notification.incident.finding.outcome)}, " if mixed else ""
        lines.append(f"- {notification.change.value}: {outcome}{part(notification)}")
        if address := link(notification.incident):
            lines.append(f"  {address}")
    if len(notifications) > MOST_PARTS:
        lines.append(f"and {len(notifications) - MOST_PARTS} more")
    return "\n".join(lines)


def details(notification: Notification) -> Sequence[tuple[str, str]]:
    """The facts as (name, value), in the order in which they are wanted."""
    incident = notification.incident
    # A resolved incident is told by its worst hour; otherwise by what happens now.
    resolved = notification.change in (Change.RESOLVED, Change.MERGED)
    finding = incident.finding if resolved else incident.latest
    expected = "expected" if finding.method is Method.EXCESS else "the day before"
    facts = [
        ("severity", incident.severity.value),
        ("since", time_text(finding.began)),
        (
            "failures",
            f"{number(finding.observed)} of {number(finding.rows)} in {duration(finding.horizon)}, "
            f"{number(finding.expected)} {expected}",
        ),
        ("rate", f"{percent(finding.rate_before)} before, {percent(finding.rate_now)} now"),
        ("path", " → ".join(finding.path)),
        (
            "evidence",
            f"{number(finding.score)} nats, p {probability(finding.p_value)}, "
            f"q {probability(finding.q_value)}",
        ),
    ]
    named = {value for _, values in finding.cause.selector for value in values}
    if codes := [code for code in finding.codes if code not in named]:
        facts.append(("codes", ", ".join(codes)))
    if incident.merged_into:
        facts.append(("goes on as", incident.merged_into))
    facts += notification.context
    if resolved:
        lasted = (incident.resolved_at or notification.at) - incident.opened_at
        facts.append(("lasted", duration(lasted)))
    facts.append(("incident", incident.id))
    if incident.part_of:
        facts.append(("story", incident.part_of))
    return [(name, one_line(value)) for name, value in facts]


def one_line(text: str) -> str:
    """Without line ends and terminal codes.

    Values come from the log that is watched, and whoever writes there must not be able to
    forge lines, headers or colours here.

    >>> one_line("AC" + chr(10) + "all is well")
    'AC�all is well'
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def plain_text(notification: Notification, link: str | None = None) -> str:
    """The whole message in lines of text."""
    facts = [*details(notification), *([("link", link)] if link else [])]
    width = max(len(name) for name, _ in facts)
    return "\n".join(
        [headline(notification), *(f"  {name.ljust(width)}  {value}" for name, value in facts)]
    )

"""What a person needs to read: what fails since when, how badly, why, and where to look."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.domain import Change, Method, Notification
from monitor.edge.wording import cause_text, duration, number, percent, probability, time_text

_HEADLINES = {
    Change.OPENED: "{outcome} is failing: {cause}",
    Change.WORSENED: "{outcome} is getting worse: {cause}",
    Change.REFINED: "{outcome} is failing, and more is known of why: {cause}",
    Change.MERGED: "{outcome}, {cause}: goes on as another incident",
    Change.RESOLVED: "{outcome} works again: {cause}",
    Change.UNCHANGED: "{outcome} is still failing: {cause}",
}


def headline(notification: Notification) -> str:
    """One line, for a subject or a title."""
    finding = notification.incident.finding
    return one_line(
        _HEADLINES[notification.change].format(
            outcome=finding.outcome, cause=cause_text(finding.cause)
        )
    )


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
    if resolved:
        lasted = (incident.resolved_at or notification.at) - incident.opened_at
        facts.append(("lasted", duration(lasted)))
    facts.append(("incident", incident.id))
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

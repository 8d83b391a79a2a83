"""What was set aside, in words for people: how much of it, the first place, the cure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from monitor.domain import Rejected

WHOLE_FILES = frozenset(
    {
        "bad_header",
        "broken_file",
        "duplicate_column",
        "empty_file",
        "replaced",
        "truncated",
        "vanished",
        "wrong_format",
    }
)
"""Reasons that are told of files, once each; all others are of rows."""

_WORDS = {"rejected": "set aside", "kept": "kept"}
"""Of what is told; all else is no trouble."""

_log = structlog.get_logger("daemon")


@dataclass(slots=True)
class _Counted:
    count: int
    first: Rejected


class Rejections:
    """Counts by reason."""

    def __init__(self) -> None:
        self._by_reason: dict[str, _Counted] = {}
        self.excluded = 0
        """Rows that `source.where` leaves out."""

    def add(self, rejected: Iterable[Rejected]) -> None:
        """More of it."""
        for one in rejected:
            if one.result == "excluded":
                self.excluded += one.count
            if one.result not in _WORDS:
                continue
            counted = self._by_reason.setdefault(one.reason, _Counted(0, one))
            counted.count += one.count

    def __len__(self) -> int:
        """Of what was set aside; rows that were kept are not among it."""
        return sum(c.count for c in self._by_reason.values() if c.first.result == "rejected")

    def lines(self) -> list[str]:
        """One for each reason."""
        return [
            f"{_WORDS[one.first.result]}: {one.count:,} {_unit(reason, one.count)}, {reason}; "
            f"{'first ' * (one.count > 1)}{one.first.where}: {one.first.detail}"
            for reason, one in self._by_reason.items()
        ]


class RejectionLog:
    """Tells the log of each file, and of rows when their number by reason has grown tenfold."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, rejected: Iterable[Rejected]) -> None:
        """More of it."""
        fresh: dict[str, Rejected] = {}
        for one in rejected:
            if one.reason in WHOLE_FILES:
                _log.warning("set aside", file=one.where, reason=one.reason, detail=one.detail)
            elif one.result == "rejected":
                before = self._counts.get(one.reason, 0)
                self._counts[one.reason] = before + one.count
                if len(str(before + one.count)) > len(str(before)) or not before:
                    fresh[one.reason] = one
        for reason, one in fresh.items():
            _log.warning(
                "rows are set aside; told again when there are ten times as many",
                reason=reason,
                rows=self._counts[reason],
                where=one.where,
                detail=one.detail,
            )


def _unit(reason: str, count: int) -> str:
    return ("file" if reason in WHOLE_FILES else "row") + "s" * (count != 1)

"""A running daemon asked over its HTTP interface: what the command line prefers to the store.

The daemon knows what it is doing at this moment, needs no second connection to the database, and
may run on another machine or as another user.
"""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from monitor.domain import Incident
from monitor.edge import documents
from monitor.edge.silences import Silence
from monitor.edge.store import (
    LATEST_DIAGNOSIS,
    Audit,
    ConflictError,
    IncidentNotFoundError,
    IncidentQuery,
    SilenceNotFoundError,
    StoreError,
    Verdict,
)
from monitor.matching import Matcher

_PATIENCE_SECONDS = 10.0
_PROBE_SECONDS = 2.0
_RELOAD_SECONDS = 90.0
_PAGE = 500
# A proxy of the environment is for the internet, not for the daemon.
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


class AwayError(StoreError):
    """No daemon answers there."""


class NotReloadedError(StoreError):
    """The daemon does not take the configuration in its file; the message lists why."""


class TokenError(StoreError):
    """The daemon wants a token, or another one."""


def store_identity(url: str) -> str:
    """Names a store without telling where it is or how to sign in.

    >>> store_identity("sqlite:///x.db") == store_identity(f"sqlite:///{Path('x.db').absolute()}")
    True
    """
    if url.startswith("sqlite:///"):
        url = f"sqlite:///{Path(url.removeprefix('sqlite:///')).absolute()}"
    return hashlib.blake2b(url.encode(), digest_size=8).hexdigest()


class Remote:
    """The daemon's store, as far as the commands read and change it.

    Args:
        url: of the daemon, without a path.
        token: for changes, and for reading from elsewhere.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url, self.token = url.rstrip("/"), token
        self._stories: dict[str, dict[str, Any]] = {}

    def identity(self) -> str | None:
        """Of the daemon's store; None when it is of an older release.

        Raises:
            AwayError: nothing of ours answers.
            TokenError: see there.
        """
        status = self._ask("status", timeout=_PROBE_SECONDS)
        if "watermark" not in status:
            raise AwayError(f"what answers at {self.url} is no least-monitor")
        found: str | None = status.get("store")
        return found

    def incidents(self, asked: IncidentQuery) -> list[Incident]:
        """See `Store`; page by page."""
        assert (asked.unresolved, asked.after) == (False, None), "nobody asks it so"
        fields = {
            "state": asked.state and asked.state.value,
            "since": asked.since and asked.since.isoformat(),
            "until": asked.until and asked.until.isoformat(),
            "outcome": asked.outcome,
            "method": asked.method,
            "severity": asked.severity and asked.severity.value,
            "story": asked.story,
            "text": asked.text,
        }
        found: list[Incident] = []
        after = None
        while asked.limit is None or len(found) < asked.limit:
            size = _PAGE if asked.limit is None else min(_PAGE, asked.limit - len(found))
            query = {k: v for k, v in (fields | {"limit": size, "after": after}).items() if v}
            page = self._ask(f"incidents?{urlencode(query)}")
            found += map(documents.incident_from, page["incidents"])
            after = page["next"]
            if after is None:
                break
        return found

    def _story(self, wanted: str) -> dict[str, Any]:
        if wanted not in self._stories:
            story = self._ask(f"incidents/{quote(wanted, safe='')}", missing=IncidentNotFoundError)
            self._stories[wanted] = self._stories[story["id"]] = story
        return self._stories[wanted]

    def incident(self, id_or_prefix: str) -> Incident:
        """See `Store`."""
        return documents.incident_from(self._story(id_or_prefix))

    def audit(self, incident_id: str) -> list[Audit]:
        """See `Store`."""
        return [
            Audit(documents.time_from(a["at"]), a["kind"], a["actor"], a["note"])
            for a in self._story(incident_id)["audit"]
        ]

    def label_of(self, incident_id: str) -> Verdict | None:
        """The last verdict."""
        label = self._story(incident_id)["label"]
        return None if label is None else Verdict(label)

    def acknowledge(self, incident_id: str, at: datetime, actor: str, note: str) -> None:
        """See `Store`; the daemon's clock says when."""
        self._change(incident_id, "acknowledge", {"actor": actor, "note": note})

    def label(
        self, incident_id: str, verdict: Verdict, at: datetime, actor: str, note: str
    ) -> None:
        """See `Store`; the daemon's clock says when."""
        body = {"verdict": verdict.value, "actor": actor, "note": note}
        self._change(incident_id, "label", body)

    def _change(self, incident_id: str, how: str, body: dict[str, Any]) -> None:
        path = f"incidents/{quote(incident_id, safe='')}/{how}"
        self._ask(path, body, missing=IncidentNotFoundError)
        self._stories.clear()

    def state(self, name: str) -> bytes | None:
        """See `Store`; only of the newest tick, without its findings."""
        assert name == LATEST_DIAGNOSIS
        tick = self._ask("status")["tick"]
        if tick is None:
            return None
        graph = self._ask("graph")
        return documents.dumps(tick | {"edges": graph["edges"], "findings": []})

    def silences(self) -> list[Silence]:
        """See `Store`."""
        return [_silence(document) for document in self._ask("silences")["silences"]]

    def add_silence(self, silence: Silence) -> Silence:
        """The daemon makes one like it."""
        body = {
            "match": [str(matcher) for matcher in silence.matchers],
            "ends_at": silence.ends_at.isoformat(),
            "actor": silence.actor,
            "note": silence.note,
        }
        return _silence(self._ask("silences", body))

    def expire_silence(self, id_or_prefix: str, at: datetime, actor: str) -> Silence:
        """See `Store`; the daemon's clock says when."""
        path = f"silences/{quote(id_or_prefix, safe='')}/expire"
        return _silence(self._ask(path, {"actor": actor}, missing=SilenceNotFoundError))

    def reload(self) -> None:
        """Have the daemon read its configuration anew.

        Raises:
            NotReloadedError: it is not taken.
        """
        self._ask("/-/reload", {}, missing=AwayError, timeout=_RELOAD_SECONDS)

    def close(self) -> None:
        """Every question has its own connection."""

    def _ask(
        self,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        missing: type[StoreError] = StoreError,
        timeout: float = _PATIENCE_SECONDS,
    ) -> dict[str, Any]:
        place = path if path.startswith("/") else f"/api/v1/{path}"
        request = urllib.request.Request(self.url + place)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with _open(request, timeout=timeout) as answer:
                found = documents.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error, missing) from None
        except (TimeoutError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise AwayError(f"no daemon answers at {self.url}: {reason}") from None
        if not isinstance(found, dict):
            raise AwayError(f"what answers at {self.url} is no least-monitor")
        return found

    def _refused(self, error: urllib.error.HTTPError, missing: type[StoreError]) -> StoreError:
        try:
            detail = str(documents.loads(error.read())["detail"])
        except (ValueError, KeyError, TypeError, OSError):
            return AwayError(f"what answers at {self.url} is no least-monitor: {error.code}")
        if error.code in (401, 403):
            return TokenError(f"the daemon at {self.url} refuses: {detail}")
        if error.code == 404:
            return missing(detail)
        if error.code == 422 and error.url.endswith("/-/reload"):
            return NotReloadedError(detail)
        if error.code == 409:
            return ConflictError(detail)
        return StoreError(f"the daemon at {self.url}: {detail}")


def _silence(document: dict[str, Any]) -> Silence:
    return Silence(
        id=document["id"],
        matchers=tuple(Matcher.stored(text) for text in document["match"]),
        starts_at=documents.time_from(document["starts_at"]),
        ends_at=documents.time_from(document["ends_at"]),
        created_at=documents.time_from(document["created_at"]),
        actor=document["actor"],
        note=document["note"],
        expired_by=document["expired_by"],
    )

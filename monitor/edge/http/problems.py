"""What every error looks like: ``application/problem+json``, RFC 9457."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from monitor.edge import documents
from monitor.edge.store import (
    ChangedError,
    ConflictError,
    IncidentNotFoundError,
    SilenceNotFoundError,
    StoreError,
)

MEDIA_TYPE = "application/problem+json"

TYPES: Mapping[str, str] = {
    "invalid": "A parameter or a field has a value that makes no sense; `errors` lists them all.",
    "no-token": "This monitor has no token, so nothing can be changed over HTTP.",
    "unauthorized": "The token is missing or wrong.",
    "not-found": "No incident or silence has this id, or several begin with it.",
    "conflict": "The incident or silence is in a state that does not allow the change.",
    "configuration": "The configuration in the file is not taken; `detail` lists why.",
    "standby": "Another process leads; changes are made there.",
    "changed": "It is no longer as `If-Match` says: read it again, then decide.",
    "no-tick": "There has been no tick yet.",
    "store": "The store fails; what to do stands in `detail`.",
    "bug": "A fault of the monitor's; `instance` stands in its log beside the traceback.",
}
"""Last part of the type → meaning. What only repeats the status has the type ``about:blank``."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One of the things that are wrong with a request."""

    place: str
    """``query``, ``body`` or ``header``."""
    name: str
    detail: str


class Refusal(HTTPException):
    """An answer that says no.

    Args:
        status: of HTTP.
        detail: what is wrong and what to do, for people.
        kind: a key of `TYPES`; None when the status says it all.
        faults: each parameter or field that is wrong.
        headers: of the answer.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        kind: str | None = None,
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, headers)
        self.kind, self.faults = kind, tuple(faults)


def invalid(status: int, faults: Sequence[Fault]) -> Refusal:
    """All that is wrong, at once."""
    return Refusal(status, "; ".join(fault.detail for fault in faults), "invalid", faults)


def refusal(error: Exception) -> Refusal:
    """The same for every error that a handler may raise."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, HTTPException):
        headers = dict(error.headers or {})
        if "Allow" in headers:  # Starlette has it in any order
            headers["Allow"] = ", ".join(sorted(headers["Allow"].split(", ")))
        return Refusal(error.status_code, _worded(error, headers), headers=headers)
    if isinstance(error, IncidentNotFoundError | SilenceNotFoundError):
        return Refusal(404, str(error), "not-found")
    if isinstance(error, ChangedError):
        return Refusal(412, str(error), "changed")
    if isinstance(error, ConflictError):
        return Refusal(409, str(error), "conflict")
    if isinstance(error, StoreError):
        return Refusal(503, str(error), "store", headers={"Retry-After": "5"})
    return Refusal(500, "a fault of the monitor's; its log says more", "bug")


def _worded(error: HTTPException, headers: Mapping[str, str]) -> str:
    if error.status_code == 405:
        return f"only {headers.get('Allow', 'other methods')} here"
    if error.status_code == 404:
        return "nothing is served here; /api/v1/openapi.json lists what is"
    return error.detail


def problem(refused: Refusal, instance: str | None = None) -> Response:
    """The answer.

    Args:
        refused: what it says.
        instance: names this very occurrence.
    """
    body: dict[str, Any] = {
        "type": f"urn:least-monitor:problem:{refused.kind}" if refused.kind else "about:blank",
        "title": HTTPStatus(refused.status_code).phrase,
        "status": refused.status_code,
        "detail": refused.detail,
    }
    if refused.faults:
        body["errors"] = [
            {"in": fault.place, "name": fault.name, "detail": fault.detail}
            for fault in refused.faults
        ]
    if instance is not None:
        body["instance"] = instance
    return Response(
        documents.dumps(body),
        refused.status_code,
        {"Cache-Control": "no-store", **(refused.headers or {})},
        MEDIA_TYPE,
    )


def occurrence() -> str:
    """A name for one fault, to be found in the log."""
    return f"urn:uuid:{uuid.uuid4()}"

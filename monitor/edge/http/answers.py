"""Answers that can be asked for again cheaply, and changes that know what they change.

Every document has a strong entity tag, a digest of its bytes: with ``If-None-Match`` it is sent
only if it is another one (304 else), with ``If-Match`` a change is made only if it still is as the
client saw it (412 else).
"""

from __future__ import annotations

import hashlib

from starlette.requests import Request
from starlette.responses import Response

from monitor.edge.http.problems import Refusal

REVALIDATE = "private, no-cache"
"""To be kept by the client alone, and asked for again at every use."""

_GZIPPED = "-gzip"
"""Ends the tag of a compressed document, as in Apache: other bytes, so another tag."""


def tag(content: bytes) -> str:
    """The entity tag of a document.

    >>> tag(b"{}")
    '"bf78e4a953b40eee238ca2e9"'
    """
    return f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'


def zipped(entity: str) -> str:
    """The tag of the same document, compressed."""
    return f'{entity[:-1]}{_GZIPPED}"'


def conditional(
    request: Request, content: bytes, headers: dict[str, str] | None = None
) -> Response:
    """The document, or 304 if the client has it.

    Args:
        request: of GET or HEAD.
        content: JSON.
        headers: more of them.
    """
    entity = tag(content)
    fields = {"ETag": entity, "Cache-Control": REVALIDATE, **(headers or {})}
    if _names(request, "if-none-match", entity, weakly=True):
        return Response(status_code=304, headers=fields)
    return Response(content, headers=fields, media_type="application/json")


def require_match(request: Request, content: bytes) -> bool:
    """Whether the client wants the change only of what it saw.

    Args:
        request: of a change.
        content: the document as it is now.

    Raises:
        Refusal: 412, it is another by now.
    """
    if "if-match" not in request.headers:
        return False
    if _names(request, "if-match", tag(content), weakly=False):
        return True
    raise Refusal(412, "it is no longer as If-Match says: read it again, then decide", "changed")


def _names(request: Request, header: str, entity: str, weakly: bool) -> bool:
    """Whether the header lists this tag; ``*`` is any."""
    for given in ",".join(request.headers.getlist(header)).split(","):
        one = given.strip()
        if one == "*":
            return True
        if weakly:
            one = one.removeprefix("W/")
        if one in (entity, zipped(entity)):
            return True
    return False

"""POST to somebody who may answer anything, in bounded time and memory.

The limits of an HTTP client are for one step each: who answers a byte a second meets all of them,
for ever. Here the whole exchange has one limit, from the look-up of the name to the end of the
answer; of the answer only its beginning is read, and nothing is unpacked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

import httpx2

from monitor import __version__

LONGEST_ANSWER = 64 * 1024
"""Bytes; what comes behind them is not waited for."""


class UnansweredError(Exception):
    """There was no answer; the message says why, without the address, which may be a secret.

    Args:
        reason: for the operator.
        permanent: trying again cannot help.
    """

    def __init__(self, reason: str, *, permanent: bool = False) -> None:
        super().__init__(reason)
        self.permanent = permanent


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    code: int
    phrase: str
    text: str
    """Its beginning; empty if it is packed."""
    retry_after: str | None
    """The header."""


class Poster:
    """Posts, one exchange after the other; each has a connection of its own.

    Args:
        timeout: of a whole exchange.
        headers: of every request.
        auth: user and password of HTTP Basic.
    """

    def __init__(
        self,
        timeout: timedelta,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
    ) -> None:
        self._seconds, self._auth = timeout.total_seconds(), auth
        self._headers = {
            "User-Agent": f"least-monitor/{__version__}",
            "Accept-Encoding": "identity",
            **(headers or {}),
        }
        self._tls = httpx2.create_ssl_context()

    def post(self, url: str, body: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        """The answer, whatever it says.

        Raises:
            UnansweredError: none came in time.
        """
        # In a thread of its own: the caller's may have a loop running.
        with ThreadPoolExecutor(1, "post") as thread:
            return thread.submit(self._answer, url, body, dict(headers or {})).result()

    def _answer(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        # Not `asyncio.run`: at its end it waits for a look-up of a name that hangs.
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(self._exchange(url, body, headers))
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
            raise UnansweredError(f"no address to post to: {error}", permanent=True) from error
        except TimeoutError:
            raise UnansweredError(
                f"timed out: no whole answer within {self._seconds:g} s"
            ) from None
        except (httpx2.HTTPError, OSError) as error:
            raise UnansweredError(str(error) or type(error).__name__) from error
        finally:
            loop.close()

    async def _exchange(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        # A redirect would carry the body to an address nobody configured.
        async with (
            asyncio.timeout(self._seconds),
            httpx2.AsyncClient(
                timeout=self._seconds,
                follow_redirects=False,
                headers=self._headers,
                auth=self._auth,
                verify=self._tls,
            ) as client,
            client.stream("POST", url, content=body, headers=headers) as response,
        ):
            beginning = b""
            async for chunk in response.aiter_raw(LONGEST_ANSWER):
                beginning += chunk[: LONGEST_ANSWER - len(beginning)]
                if len(beginning) >= LONGEST_ANSWER:
                    break
            packed = response.headers.get("Content-Encoding", "identity") != "identity"
            return Answer(
                response.status_code,
                response.reason_phrase,
                "" if packed else beginning.decode(errors="replace").strip(),
                response.headers.get("Retry-After"),
            )


def shown(url: str) -> str:
    """An address without what may be a secret: user, password, path and query.

    >>> shown("https://me:word@hooks.example.com/services/T0/key?token=x")
    'https://hooks.example.com/…'
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}" + ("/…" if parts.path.strip("/") or parts.query else "")

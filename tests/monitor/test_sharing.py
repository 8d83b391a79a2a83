"""A page is drawn once for all who ask at the same moment, and never when it is out of date."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from monitor.edge.http.sharing import FRESH_SECONDS, STALE_SECONDS, Sharing
from monitor.edge.metrics import Metrics
from monitor.edge.silences import Silence
from monitor.edge.status import LiveState, Status
from monitor.edge.store.memory import MemoryStore


class Stand:
    """An application that counts what it draws, behind `Sharing`, with a clock set by hand."""

    def __init__(self) -> None:
        self.state = LiveState(MemoryStore(), Metrics(), Status(stage=""))
        self.now, self.drawn, self.fails = 0.0, 0, False
        self.may_draw = asyncio.Event()
        self.may_draw.set()
        routes = [
            Route("/page", self.page),
            Route("/change", self.changed, methods=["POST"]),
            Route("/huge", self.huge),
            Route("/metrics", self.page),
        ]
        sharing = Middleware(Sharing, state=self.state, clock=lambda: self.now)
        self.app = Starlette(routes=routes, middleware=[sharing])

    async def page(self, request: Request) -> Response:
        self.drawn += 1
        number = self.drawn
        await self.may_draw.wait()
        if self.fails:
            raise RuntimeError("a bug")
        return PlainTextResponse(f"{number} {request.cookies.get('theme', '')}")

    async def changed(self, request: Request) -> Response:
        return PlainTextResponse("done")

    async def huge(self, request: Request) -> Response:
        self.drawn += 1
        return PlainTextResponse("x" * 300_000)

    def client(self) -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx2.AsyncClient(transport=transport, base_url="http://monitor")


def run(test: Callable[[Stand, httpx2.AsyncClient], Awaitable[None]]) -> None:
    async def whole() -> None:
        stand = Stand()
        async with stand.client() as client:
            await test(stand, client)

    with ThreadPoolExecutor(1) as pool:  # a browser of other tests may have a loop in this thread
        pool.submit(lambda: asyncio.run(whole())).result()


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_fifty_who_ask_at_once_get_one_drawing() -> None:
    async def test(stand: Stand, client: httpx2.AsyncClient) -> None:
        stand.may_draw.clear()
        asking = [asyncio.create_task(client.get("/page")) for _ in range(50)]
        await settled()
        stand.may_draw.set()
        answers = await asyncio.gather(*asking)
        assert {answer.text for answer in answers} == {"1 "}
        assert stand.drawn == 1

    run(test)


def test_what_is_out_of_date_is_drawn_anew() -> None:
    async def test(stand: Stand, client: httpx2.AsyncClient) -> None:
        assert (await client.get("/page")).text == "1 "
        assert (await client.get("/page")).text == "1 "
        stand.state.change(stage="catching up")  # as after a poll, and after each tick
        assert (await client.get("/page")).text == "2 "
        await client.post("/change")
        assert (await client.get("/page")).text == "3 "
        stand.now += STALE_SECONDS
        assert (await client.get("/page")).text == "4 "

    run(test)


def test_the_last_is_given_while_the_next_is_drawn() -> None:
    async def test(stand: Stand, client: httpx2.AsyncClient) -> None:
        await client.get("/page")
        stand.now += FRESH_SECONDS
        stand.may_draw.clear()
        assert [(await client.get("/page")).text for _ in range(3)] == ["1 "] * 3
        await settled()
        assert stand.drawn == 2
        stand.may_draw.set()
        await settled()
        assert (await client.get("/page")).text == "2 "

    run(test)


def test_a_drawing_begun_before_a_change_is_given_to_nobody_after_it() -> None:
    async def test(stand: Stand, client: httpx2.AsyncClient) -> None:
        await client.get("/page")
        stand.now += FRESH_SECONDS
        stand.may_draw.clear()
        assert (await client.get("/page")).text == "1 "  # the second is begun
        await settled()
        await client.post("/change")
        stand.may_draw.set()
        await settled()
        assert (await client.get("/page")).text == "3 "

    run(test)


def test_people_who_see_it_otherwise_share_nothing() -> None:
    async def test(stand: Stand, client: httpx2.AsyncClient) -> None:
        assert (await client.get("/page")).text == "1 "
        assert (await client.get("/page", headers={"Cookie": "theme=dark"})).text == "2 dark"
        assert (await client.get("/page?a=b")).text == "3 "
        assert (await client.get("/page", headers={"Authorization": "Bearer x"})).text == "4 "

    run(test)


def test_failures_and_what_is_huge_are_not_kept() -> None:
    async def test(stand: Stand, client: httpx2.AsyncClient) -> None:
        stand.fails = True
        assert (await client.get("/page")).status_code == 500
        assert (await client.get("/nowhere")).status_code == 404
        stand.fails = False
        assert (await client.get("/page")).text == "2 "
        for _ in range(2):
            await client.get("/huge")
        assert stand.drawn == 4

    run(test)


def test_machines_that_ask_of_this_moment_get_it() -> None:
    async def test(stand: Stand, client: httpx2.AsyncClient) -> None:
        assert [(await client.get("/metrics")).text for _ in range(2)] == ["1 ", "2 "]

    run(test)


@pytest.mark.parametrize("path", ["/healthz", "/metrics"])
def test_health_is_told_however_many_pages_are_being_drawn(path: str) -> None:
    """A store that hangs holds the threads that draw: a supervisor must not restart us for it."""
    from monitor.edge.http import serve

    hangs, asked = threading.Event(), threading.Semaphore(0)

    class Hanging(MemoryStore):
        def silences(self, active_at: object = None, limit: int = 100) -> list[Silence]:
            asked.release()
            hangs.wait(10)
            return []

    server = serve(LiveState(Hanging(), Metrics(), Status(stage="")))
    try:
        with httpx2.Client(base_url=server.url, timeout=5) as client:

            def ask(number: int) -> None:
                httpx2.get(f"{server.url}/silences?match={number}", timeout=20)

            readers = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
            for reader in readers:
                reader.start()
            assert asked.acquire(timeout=5)
            assert client.get(path).status_code == 200
            hangs.set()
            for reader in readers:
                reader.join()
    finally:
        hangs.set()
        server.stop()

"""Readers of a server, in a process of their own: `benchmarks.readers` starts it.

Each reader keeps one connection and asks for one address after the other. Nothing but sockets, so
that the readers take as little as can be of the cores that they share with the server.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any


async def read(host: str, port: int, paths: list[str], first: int, pause: float, until: float,
               rows: list[tuple[float, float, str, int]]) -> None:  # fmt: skip
    reader, writer = await asyncio.open_connection(host, port)
    turn = first
    await asyncio.sleep(pause * first / 50)
    while time.monotonic() < until:
        path = paths[turn % len(paths)]
        turn += 1
        began = time.monotonic()
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept-Encoding: gzip\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        if "content-length" in fields:
            await reader.readexactly(int(fields["content-length"]))
        else:
            while size := int(await reader.readline(), 16):
                await reader.readexactly(size + 2)
            await reader.readline()
        ended = time.monotonic()
        rows.append((began, ended, path, int(lines[0].split()[1])))
        if pause:
            await asyncio.sleep(pause)
    writer.close()


async def main(asked: dict[str, Any]) -> None:
    rows: list[tuple[float, float, str, int]] = []
    until = time.monotonic() + asked["seconds"]
    async with asyncio.TaskGroup() as group:
        for reader in range(asked["readers"]):
            group.create_task(
                read(asked["host"], asked["port"], asked["paths"], reader, asked["pause"], until,
                     rows)
            )  # fmt: skip
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))

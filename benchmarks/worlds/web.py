"""An access log behind a gateway: host, route, method, upstream, region, client version, status."""

from __future__ import annotations

import numpy as np

from benchmarks.worlds.domain import Choice, Columns, Domain, Field, codes, tilted, zipf

CLIENTS = ("web", "ios", "android", "sdk-java", "sdk-go", "bot")
VERSIONED = ("ios", "android", "sdk-java", "sdk-go")
NOUNS = (
    "users",
    "orders",
    "items",
    "carts",
    "search",
    "login",
    "health",
    "media",
    "feed",
    "quotes",
)
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")


class Web(Domain):
    """Requests that end in a 5xx, or take longer than two seconds."""

    name = "web"
    tiers = ("client", "request", "backend")
    outcomes = ("server_error", "slow")
    base = (0.006, 0.02)
    sequential = False
    contrast = 0.45
    pairs = (
        ("host", "route"), ("route", "upstream"), ("region", "upstream"), ("region", "route"),
        ("route", "method"), ("client", "route"),
    )  # fmt: skip
    triples = (("region", "route", "upstream"), ("client", "route", "method"))
    cells = (("route", "upstream"), ("region", "host"), ("route", "method"))
    groups = ("upstream", "route", "host", "region")
    releases = (("client", "client_version"),)
    blanks = ("client_version", "region")
    code_column = "error"

    def build(self, rng: np.random.Generator) -> None:
        """Hosts serve routes, routes go to upstreams."""
        hosts, routes, upstreams = 12, 70, 36
        versions = [f"{c} 2.{n}" for c in VERSIONED for n in range(4)]
        self.fields = [
            Field("region", [f"{a}-{b}" for a in ("eu", "us", "ap") for b in ("1", "2", "3", "4")]),
            Field("client", list(CLIENTS)),
            Field("client_version", versions),
            Field("host", [f"api{n:02d}.example.com" for n in range(hosts)], 1),
            Field("route", [f"/v{1 + n // 35}/{NOUNS[n % 10]}/{n:02d}" for n in range(routes)], 1),
            Field("method", list(METHODS), 1),
            Field("upstream", [f"10.2.{n // 12}.{n % 12 + 10}:8080" for n in range(upstreams)], 2),
        ]
        self._region = tilted(rng, 12, zipf(12, 0.6), 0.5)
        self._client = tilted(rng, 12, np.array([0.35, 0.2, 0.22, 0.06, 0.05, 0.12]), 0.3)
        shares = np.zeros((len(CLIENTS), len(versions) + 1))
        shares[:, -1] = 1
        for i, client in enumerate(VERSIONED):
            row = CLIENTS.index(client)
            shares[row, -1] = 0.02
            shares[row, 4 * i : 4 * i + 4] = [0.04, 0.1, 0.26, 0.6]
        self._version = Choice(shares)
        self._host = tilted(rng, len(CLIENTS), zipf(hosts, 0.7), 0.5)
        self._route = tilted(rng, hosts, zipf(routes, 0.9), 0.9, kept=0.4)
        self._method = tilted(rng, routes, np.array([0.62, 0.26, 0.06, 0.03, 0.03]), 0.7, kept=0.6)
        pool = np.zeros((routes, upstreams))
        for route in range(routes):
            first = rng.integers(0, 9) * 4  # a service has four to six instances
            pool[route, first : first + 4] = 1
            pool[route, rng.choice(upstreams, 2)] += 0.6
        self._upstream = Choice(pool)
        self.code = codes(rng, self.fields[6], ("server_error",), general=6, own=1)

    def draw(self, rng: np.random.Generator, slice_: int, count: int) -> Columns:
        """A client asks a host for a route; a balancer picks the instance."""
        period = np.full(count, self.period(slice_), np.int64)
        client = self._client.draw(rng, period)
        version = self._version.draw(rng, client)
        version[version == self._version.shares.shape[1] - 1] = -1
        host = self._host.draw(rng, client)
        route = self._route.draw(rng, host)
        return {
            "region": self._region.draw(rng, period),
            "client": client,
            "client_version": version,
            "host": host,
            "route": route,
            "method": self._method.draw(rng, route),
            "upstream": self._upstream.draw(rng, route),
        }

    def written(
        self, rng: np.random.Generator, attempted: np.ndarray, failed: np.ndarray
    ) -> dict[str, object]:
        """Status and seconds."""
        n = len(failed)
        fine = rng.choice(
            [200, 201, 204, 304, 400, 401, 404], n, p=[0.8, 0.05, 0.04, 0.04, 0.02, 0.02, 0.03]
        )
        broken = rng.choice([500, 502, 503, 504], n, p=[0.4, 0.25, 0.2, 0.15])
        quick = np.minimum(rng.lognormal(-2.2, 0.7, n), 1.999)
        return {
            "status": np.where(failed[:, 0], broken, fine),
            "seconds": np.where(failed[:, 1], 2 + rng.exponential(2, n) + 0.001, quick).round(3),
        }

    @property
    def conditions(self) -> tuple[str, ...]:
        """By status and duration."""
        return ("status >= 500", "seconds > 2")

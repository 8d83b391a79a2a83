"""Attempts to book a flight, after the paper's description: four steps, through fare sources."""

from __future__ import annotations

import numpy as np

from benchmarks.worlds.domain import Choice, Columns, Domain, Field, codes, tilted, zipf

STEPS = ("query_seat", "query_price", "reserve", "pay")
APPS = ("ios", "android", "miniapp", "web", "h5", "partner")
VERSIONED = ("ios", "android", "miniapp", "h5")


class Bookings(Domain):
    """Who books where by which airline, through which fare source, from which application."""

    name = "bookings"
    tiers = ("place", "airline", "fare_source", "payment")
    outcomes = STEPS
    base = (0.045, 0.022, 0.018, 0.012)
    interactions = (("airline", "fare_source"),)
    pairs = (
        ("airline", "agent_office"), ("airline", "arrival_city"), ("airline", "fare_source"),
        ("airline", "departure_city"), ("agent_office", "fare_source"),
        ("app", "payment_provider"), ("fare_source", "payment_provider"), ("app", "arrival_city"),
    )  # fmt: skip
    triples = (
        ("airline", "fare_source", "agent_office"), ("airline", "fare_source", "app"),
        ("airline", "departure_city", "arrival_city"), ("app", "payment_provider", "fare_source"),
    )  # fmt: skip
    cells = (("airline", "fare_source"), ("agent_office", "airline"), ("app", "payment_provider"))
    groups = ("arrival_city", "departure_city", "airline", "fare_source", "agent_office")
    releases = (("app", "app_version"),)
    blanks = ("fare_source", "app_version", "agent_office")

    def build(self, rng: np.random.Generator) -> None:
        """Regions bind cities, offices and airlines together."""
        regions = 8
        dep, arr, offices, airlines, sources = 70, 110, 55, 42, 20
        iata = rng.choice(26**3, dep + arr, replace=False)
        names = [chr(65 + n // 676) + chr(65 + n // 26 % 26) + chr(65 + n % 26) for n in iata]
        carriers = rng.choice(26 * 36, airlines, replace=False)
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
        versions = [f"{app} {7 + i}.{n}" for i, app in enumerate(VERSIONED) for n in range(4)]
        self.fields = [
            Field("agent_office", [f"{names[i]}OK{100 + i}Q" for i in range(offices)]),
            Field("departure_city", names[:dep]),
            Field("arrival_city", names[: dep // 2] + names[dep : dep + arr - dep // 2]),
            Field("app", list(APPS)),
            Field("app_version", versions),
            Field("airline", [alphabet[c // 36] + alphabet[c % 36] for c in carriers], 1),
            Field("fare_source", [f"fs{n + 1:02d}" for n in range(sources)], 2),
            Field("payment_provider", [f"pp_{n}" for n in "abcdefgh"], 3, step=3),
        ]
        home = {n: rng.integers(0, regions, n) for n in (offices, dep, arr, airlines)}

        def near(parents: int, children: int, popularity: np.ndarray, pull: float) -> Choice:
            same = home[parents][:, None] == home[children][None, :]
            noise = np.exp(0.5 * rng.normal(size=same.shape))
            return Choice(popularity * np.where(same, pull, 1) * noise)

        self._office = tilted(rng, 12, zipf(offices, 0.8), 0.3)
        self._departure = near(offices, dep, zipf(dep, 0.75), 12)
        self._arrival = near(dep, arr, zipf(arr, 0.8), 3)
        self._airline = near(dep, airlines, zipf(airlines, 0.85), 5)
        kept = np.zeros((airlines, sources))
        for airline in range(airlines):
            count = rng.choice([1, 2, 3, 4, 5, 6], p=[0.08, 0.15, 0.25, 0.3, 0.14, 0.08])
            chosen = rng.choice(sources, count, replace=False, p=zipf(sources, 0.5))
            kept[airline, chosen] = rng.gamma(3, size=count) + 0.5
        self._source = Choice(kept)
        self._app = tilted(rng, 12, np.array([0.27, 0.3, 0.13, 0.14, 0.08, 0.08]), 0.2)
        share = np.zeros((len(APPS), len(versions) + 1))
        share[:, -1] = 1  # web and partners tell no version
        for i, app in enumerate(VERSIONED):
            share[APPS.index(app)] = 0
            share[APPS.index(app), 4 * i : 4 * i + 4] = [0.05, 0.12, 0.25, 0.58]
            share[APPS.index(app), -1] = 0.01
        self._version = Choice(share)
        self._payment = tilted(rng, len(APPS), zipf(8, 0.9), 0.5, kept=0.8)
        self.code = codes(rng, self.fields[6], STEPS, general=4, own=3)

    def draw(self, rng: np.random.Generator, slice_: int, count: int) -> Columns:
        """Places first, then who flies there, then who sells it."""
        period = np.full(count, self.period(slice_), np.int64)
        office = self._office.draw(rng, period)
        departure = self._departure.draw(rng, office)
        airline = self._airline.draw(rng, departure)
        app = self._app.draw(rng, period)
        version = self._version.draw(rng, app)
        version[version == self._version.shares.shape[1] - 1] = -1
        return {
            "agent_office": office,
            "departure_city": departure,
            "arrival_city": self._arrival.draw(rng, departure),
            "app": app,
            "app_version": version,
            "airline": airline,
            "fare_source": self._source.draw(rng, airline),
            "payment_provider": self._payment.draw(rng, app),
        }

    def written(
        self, rng: np.random.Generator, attempted: np.ndarray, failed: np.ndarray
    ) -> dict[str, object]:
        """The step that failed, if any."""
        step = np.where(failed.any(axis=1), failed.argmax(axis=1), -1)
        return {"failed_step": (step, list(STEPS))}

    @property
    def conditions(self) -> tuple[str, ...]:
        """By the step."""
        return tuple(f'failed_step == "{step}"' for step in STEPS)

"""A shop's sessions: visit, search, cart, pay. What a step writes is empty before that step."""

from __future__ import annotations

import numpy as np

from benchmarks.worlds.domain import Choice, Columns, Domain, Field, tilted, zipf

CHANNELS = ("direct", "organic", "ads", "email", "affiliate", "social", "push")
DEVICES = ("phone", "desktop", "tablet", "tv")
VERSIONED = ("phone", "tablet", "tv")
COUNTRIES = (
    "DE", "FR", "IT", "ES", "PL", "NL", "SE", "AT", "BE", "CZ",
    "DK", "PT", "FI", "RO", "HU", "GR", "IE", "SK", "BG", "HR",
)  # fmt: skip


class Funnel(Domain):
    """Sessions that may fail at search, at the cart and at payment."""

    name = "funnel"
    tiers = ("visitor", "search", "cart", "payment")
    outcomes = ("search_failed", "cart_failed", "pay_failed")
    base = (0.012, 0.02, 0.035)
    stays = (0.75, 0.45, 0.6)
    contrast = 0.3
    pairs = (
        ("country", "search_backend"), ("device", "search_backend"), ("country", "warehouse"),
        ("warehouse", "shipping"), ("country", "payment_provider"), ("device", "payment_provider"),
        ("channel", "landing_page"), ("payment_provider", "bank"),
    )  # fmt: skip
    triples = (
        ("country", "device", "search_backend"), ("country", "warehouse", "shipping"),
        ("country", "payment_provider", "bank"),
    )  # fmt: skip
    cells = (("country", "warehouse"), ("payment_provider", "bank"), ("country", "search_backend"))
    groups = ("country", "landing_page", "search_backend", "warehouse", "bank")
    releases = (("device", "app_version"),)
    blanks = ("landing_page", "channel", "country")

    def build(self, rng: np.random.Generator) -> None:
        """Countries choose shelves, ways to ship and to pay."""
        countries = list(COUNTRIES)
        pages, banks = 40, 30
        versions = [f"{d} 4.{n}" for d in VERSIONED for n in range(3)]
        self.fields = [
            Field("channel", list(CHANNELS)),
            Field("country", countries),
            Field("device", list(DEVICES)),
            Field("app_version", versions),
            Field("landing_page", [f"/c/{n:03d}" for n in range(pages)]),
            Field("search_backend", [f"search-{n}" for n in range(12)], 1, step=0),
            Field("sort", ["relevance", "price", "rating", "new"], 1, step=0),
            Field("warehouse", [f"wh-{n:02d}" for n in range(14)], 2, step=1),
            Field("shipping", ["standard", "express", "locker", "pickup", "bulky"], 2, step=1),
            Field("payment_provider", [f"psp-{n}" for n in range(9)], 3, step=2),
            Field("bank", [f"bank {n:02d}" for n in range(banks)], 3, step=2),
        ]
        n = len(countries)
        self._country = tilted(rng, 12, zipf(n, 0.9), 0.15)
        self._channel = tilted(rng, n, zipf(7, 0.7), 0.3)
        self._device = tilted(rng, n, np.array([0.6, 0.3, 0.08, 0.02]), 0.2)
        shares = np.zeros((len(DEVICES), len(versions) + 1))
        shares[:, -1] = 1  # the desktop has no application
        for i, device in enumerate(VERSIONED):
            row = DEVICES.index(device)
            shares[row, -1] = 0.02
            shares[row, 3 * i : 3 * i + 3] = [0.1, 0.25, 0.63]
        self._version = Choice(shares)
        self._page = tilted(rng, len(CHANNELS), zipf(pages, 0.9), 0.8)
        self._search = tilted(rng, n, zipf(12, 0.2), 0.6, kept=0.4)
        self._sort = tilted(rng, len(DEVICES), zipf(4, 1), 0.3)
        self._warehouse = tilted(rng, n, zipf(14, 0.6), 0.7, kept=0.3)
        self._shipping = tilted(rng, 14, zipf(5, 0.8), 0.5)
        self._payment = tilted(rng, n, zipf(9, 0.7), 0.5, kept=0.6)
        self._bank = tilted(rng, 9, zipf(banks, 0.6), 0.8, kept=0.4)

    def draw(self, rng: np.random.Generator, slice_: int, count: int) -> Columns:
        """All columns, those of later steps too."""
        country = self._country.draw(rng, np.full(count, self.period(slice_), np.int64))
        channel, device = self._channel.draw(rng, country), self._device.draw(rng, country)
        version = self._version.draw(rng, device)
        version[version == self._version.shares.shape[1] - 1] = -1
        warehouse, payment = self._warehouse.draw(rng, country), self._payment.draw(rng, country)
        return {
            "channel": channel,
            "country": country,
            "device": device,
            "app_version": version,
            "landing_page": self._page.draw(rng, channel),
            "search_backend": self._search.draw(rng, country),
            "sort": self._sort.draw(rng, device),
            "warehouse": warehouse,
            "shipping": self._shipping.draw(rng, warehouse),
            "payment_provider": payment,
            "bank": self._bank.draw(rng, payment),
        }

    def written(
        self, rng: np.random.Generator, attempted: np.ndarray, failed: np.ndarray
    ) -> dict[str, object]:
        """Each step says how it went, if it was reached."""
        went = np.where(attempted, failed.astype(int), -1)
        return {
            name.removesuffix("_failed"): (went[:, o], ["ok", "failed"])
            for o, name in enumerate(self.outcomes)
        }

    @property
    def conditions(self) -> tuple[str, ...]:
        """By the word of each step."""
        return tuple(f'{o.removesuffix("_failed")} == "failed"' for o in self.outcomes)

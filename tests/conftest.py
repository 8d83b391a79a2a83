"""Options of the whole suite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.services.brokers import Kafka, Tansu
    from tests.services.databases import Postgres

# A landing must not hang on a drawn example: CI repeats the same ones, everybody else explores.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update",
        action="store_true",
        help="rewrite the recorded expectations of tests/replay; review the diff",
    )


@pytest.fixture
def no_learner() -> Iterator[None]:
    """Sessions do without LEAST: the graph is beside the point."""
    from tests.services.light import without_least

    with without_least():
        yield


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A real Apache Kafka that the whole run shares; every test makes topics of its own."""
    from tests.services.brokers import Kafka

    broker = Kafka(tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def tansu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tansu]:
    """A broker without Java."""
    from tests.services.brokers import Tansu

    broker = Tansu(tmp_path_factory.mktemp("tansu"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL that the whole run shares; every test makes databases of its own."""
    from tests.services.databases import Postgres

    server = Postgres()
    yield server
    server.remove()

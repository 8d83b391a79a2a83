"""Options of the whole suite."""

import os

import pytest
from hypothesis import settings

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

"""numba, which the likelihood start and the sparse backend need, or what to install."""

from __future__ import annotations

from least.problem import MissingExtraError

try:
    import numba
except ImportError as error:
    raise MissingExtraError(
        "start='likelihood' and backend='sparse'", "numba", "sparse", error
    ) from None

__all__ = ["numba"]

"""What the process hands back to the system.

A tick needs some hundred megabytes for a moment, several times. Left to itself, glibc learns from
them to keep such blocks on its heap, where small ones that live longer pin them down; Arrow keeps
what it freed, too. At 10 million rows a day that was a third of the resident memory.
"""

from __future__ import annotations

import ctypes
import sys

_MMAP_THRESHOLD = -3
_TRIM_THRESHOLD = -1
_LARGE_BYTES = 1 << 20


def hand_back_at_once() -> bool:
    """Large blocks go back to the system as soon as they are freed; early in the process.

    Returns:
        Whether this C library can be told so.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all([mallopt(_MMAP_THRESHOLD, _LARGE_BYTES), mallopt(_TRIM_THRESHOLD, 4 * _LARGE_BYTES)])

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
_LINUX = sys.platform.startswith("linux")


def hand_back_at_once() -> bool:
    """Large blocks go back to the system as soon as they are freed; early in the process.

    Returns:
        Whether this C library can be told so.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if _LINUX else None
    if mallopt is None:
        return False
    return all([mallopt(_MMAP_THRESHOLD, _LARGE_BYTES), mallopt(_TRIM_THRESHOLD, 4 * _LARGE_BYTES)])


def hand_back_now() -> bool:
    """What lies free between the blocks in use goes back to the system, too; after a tick.

    At 10 million rows a day that is a quarter of the resident memory, for some milliseconds.

    Returns:
        Whether this C library can be told so.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if _LINUX else None
    if trim is None:
        return False
    trim(0)
    return True

"""What survives a restart: slices, the source's position, incidents and outgoing notifications.

Everything that a tick produced is one `Work`, written in one transaction: a process killed at
any instant leaves either all of it or nothing, so no event is lost, none is counted twice and
no notification is forgotten.
"""

from __future__ import annotations

from monitor.edge.store.contract import Store
from monitor.edge.store.errors import (
    ChangedError,
    ConflictError,
    IncidentNotFoundError,
    LeadershipLostError,
    SilenceNotFoundError,
    StoreError,
    StoreFailedError,
    Trouble,
)
from monitor.edge.store.query import IncidentQuery, worst_first
from monitor.edge.store.work import (
    KEPT_COURSE,
    KEPT_INCIDENTS,
    KEPT_REJECTED,
    KEPT_SENT,
    LATEST_DIAGNOSIS,
    Audit,
    OutboxCount,
    OutboxItem,
    Saved,
    Seen,
    Verdict,
    Work,
)

__all__ = [
    "KEPT_COURSE",
    "KEPT_INCIDENTS",
    "KEPT_REJECTED",
    "KEPT_SENT",
    "LATEST_DIAGNOSIS",
    "Audit",
    "ChangedError",
    "ConflictError",
    "IncidentNotFoundError",
    "IncidentQuery",
    "LeadershipLostError",
    "OutboxCount",
    "OutboxItem",
    "Saved",
    "Seen",
    "SilenceNotFoundError",
    "Store",
    "StoreError",
    "StoreFailedError",
    "Trouble",
    "Verdict",
    "Work",
    "open_store",
    "worst_first",
]


def open_store(url: str, create: bool = True) -> Store:
    """The store at `url`.

    Args:
        url: ``memory:`` (forgets everything at exit), a path to an SQLite file, or any
            SQLAlchemy URL, e.g. ``postgresql+psycopg://monitor@db/monitor``.
        create: make a missing SQLite file; without it a missing one is an error, so that a
            mistyped path does not look like a quiet store.
    """
    if url == "memory:":
        from monitor.edge.store.memory import MemoryStore

        return MemoryStore()
    from monitor.edge.store.sql import SqlStore

    return SqlStore(url, create=create)

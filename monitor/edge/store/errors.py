"""What can go wrong with a store."""

from __future__ import annotations

from enum import Enum


class StoreError(Exception):
    """The store cannot do its work; the message says what to do about it."""


class Trouble(Enum):
    """What can be wrong with a database through no fault of ours."""

    DISK_FULL = "disk_full"
    LOCKED = "locked"
    READ_ONLY = "read_only"
    AWAY = "away"
    DAMAGED = "damaged"
    OTHER = "other"


class StoreFailedError(StoreError):
    """The database failed; what was to be written still can be, once it works again."""

    def __init__(self, message: str, trouble: Trouble) -> None:
        super().__init__(message)
        self.trouble = trouble


class StoreMissingError(StoreError):
    """There is no store yet."""


class IncidentNotFoundError(StoreError):
    """No incident, or more than one, answers to the id."""


class LeadershipLostError(StoreError):
    """Another process has taken over the store; this one must write and send nothing more."""


class SilenceNotFoundError(StoreError):
    """No silence, or more than one, answers to the id."""


class ConflictError(StoreError):
    """The incident's state does not allow the change."""


class ChangedError(StoreError):
    """It is no longer as the one who changes it has seen it."""

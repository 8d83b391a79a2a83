"""What a daemon shows while it does not lead, or cannot reach its store."""

from __future__ import annotations

import threading
from datetime import timedelta

import structlog

from monitor.edge import documents
from monitor.edge.status import AppState
from monitor.edge.store import LATEST_DIAGNOSIS, StoreError, StoreFailedError, Trouble
from monitor.edge.store.lease import Lease

_log = structlog.get_logger("daemon")
_telling = threading.Lock()
"""The scheduler's thread and the lease's heartbeat meet the same trouble: one of them tells it."""


class Standby:
    """What is shown while another process leads: its newest tick, from the store."""

    def __init__(self, state: AppState) -> None:
        self._state = state
        self._shown: tuple[str, bytes | None] = "", None

    def show(self, why: Lease | StoreError) -> None:
        """Called at every look at the lease."""
        state = self._state
        if isinstance(why, StoreError):
            tell_store_failure(state, why)
            return
        tell_store_works(state)
        try:
            newest = state.store.state(LATEST_DIAGNOSIS)
        except StoreError as error:
            tell_store_failure(state, error)
            return
        said, seen = self._shown
        if said != why.owner:
            _log.info("standing by", leader=why.owner, epoch=why.epoch)
        reason = f"standby: {why.owner} leads"
        if why.left < timedelta(0):
            # Only the database's write lock keeps us out: it holds that in the middle of a commit.
            reason += "; its lease is over, but it holds the store: end it"
        changes: dict[str, object] = {
            "stage": reason, "standby": why.owner, "source_trouble": "",
        }  # fmt: skip
        if newest is not None and newest != seen:
            changes["diagnosis"] = documents.diagnosis_from(documents.loads(newest))
        self._shown = why.owner, newest
        state.change(**changes)

    def heard(self, trouble: StoreError | None) -> None:
        """The leader's heartbeat met the store: with this trouble, or well again."""
        if trouble is None:
            tell_store_works(self._state)
        else:
            tell_store_failure(self._state, trouble)


def tell_store_failure(state: AppState, error: StoreError) -> None:
    """Say it once in the log, and in the status until it works again."""
    trouble = error.trouble if isinstance(error, StoreFailedError) else Trouble.OTHER
    with _telling:
        state.metrics.store(trouble)
        if state.status.store_trouble_kind != trouble.value:  # once, not at every poll
            _log.error("the store does not work", trouble=trouble.value, error=str(error))
        state.change(store_trouble=str(error), store_trouble_kind=trouble.value)


def tell_store_works(state: AppState) -> None:
    """Say it once in the log, whoever had met the trouble: a standby, a leader, its heartbeat."""
    with _telling:
        state.metrics.store(None)
        if state.status.store_trouble:
            _log.info("the store works again")
            state.change(store_trouble="", store_trouble_kind="")

"""What a daemon shows while it does not lead, or cannot reach its store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import structlog

from monitor.edge import documents
from monitor.edge.status import AppState
from monitor.edge.store import LATEST_DIAGNOSIS, StoreError, StoreFailedError, Trouble
from monitor.edge.store.lease import Lease

_log = structlog.get_logger("daemon")


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
        changes: dict[str, object] = {"ready": False, "reason": reason, "standby": why.owner}
        if newest is not None and newest != seen:
            changes["diagnosis"] = documents.diagnosis_from(documents.loads(newest))
        self._shown = why.owner, newest
        state.status = replace(state.status, **changes)  # type: ignore[arg-type]


def tell_store_failure(state: AppState, error: StoreError) -> None:
    """Say it once in the log, and in the status until it works again."""
    trouble = error.trouble if isinstance(error, StoreFailedError) else Trouble.OTHER
    state.metrics.store(trouble)
    reason = f"store: {error}"
    if state.status.reason != reason:  # once, not at every poll
        _log.error("the store does not work", trouble=trouble.value, error=str(error))
    state.status = replace(state.status, ready=False, reason=reason, store_trouble=str(error))


def tell_store_works(state: AppState) -> None:
    """Say it once in the log, whoever had met the trouble: a standby, or a leader before."""
    state.metrics.store(None)
    if not state.status.store_trouble:
        return
    _log.info("the store works again")
    state.status = replace(state.status, store_trouble="")
    if state.status.reason.startswith("store: "):  # the source may be away meanwhile
        state.status = replace(state.status, reason="")

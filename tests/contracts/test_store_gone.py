"""A store deleted under the daemon is noticed; a history is whole however it was written."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.domain import Cause, Change, Notification, State
from monitor.edge.store import StoreError, Work, open_store
from tests.contracts.receivers import FINDING, INCIDENT, NOON


@pytest.mark.parametrize("instead", ["nothing", "another"])
def test_a_store_deleted_under_the_daemon_is_not_written_to_as_a_ghost(
    tmp_path: Path, instead: str
) -> None:
    path = tmp_path / "s.db"
    store = open_store(f"sqlite:///{path}")
    store.take_lease()
    store.commit(Work(incidents=(INCIDENT,)))
    kept = path.with_name("kept.db")
    path.rename(kept)
    if instead == "another":
        path.touch()
    for act in (lambda: store.commit(Work()), store.open_incidents, store.renew_lease):
        with pytest.raises(StoreError, match=r"the file is (gone|another one)"):
            act()
    path.unlink(missing_ok=True)
    kept.rename(path)
    store.commit(Work())
    assert store.open_incidents() == (INCIDENT,)
    store.close()


@pytest.mark.parametrize("url", ["memory:", "s.db"])
def test_a_life_within_one_commit_has_its_whole_history(tmp_path: Path, url: str) -> None:
    store = open_store(url if url == "memory:" else f"sqlite:///{tmp_path / url}")
    store.take_lease()
    hour = timedelta(hours=1)
    worse = replace(INCIDENT, worsened_at=(NOON + hour,), updated_at=NOON + hour)
    exact = replace(worse, causes=(*worse.causes, Cause.of(airline="AC", office="BKK")))
    over = replace(
        exact,
        state=State.RESOLVED,
        merged_into="c3d4",
        resolved_at=NOON + 3 * hour,
        updated_at=NOON + 3 * hour,
    )
    news = tuple(
        Notification(incident, change, NOON + n * hour)
        for n, (incident, change) in enumerate(
            [
                (INCIDENT, Change.OPENED),
                (worse, Change.WORSENED),
                (exact, Change.REFINED),
                (over, Change.MERGED),
            ]
        )
    )
    heir = replace(INCIDENT, id="c3d4", finding=FINDING)
    store.commit(Work(incidents=(heir, over), notifications=news))
    told = [(entry.at, entry.kind) for entry in store.audit(INCIDENT.id)]
    assert told == [
        (NOON, "opened"),
        (NOON + hour, "worsened"),
        (NOON + 2 * hour, "refined"),
        (NOON + 3 * hour, "merged_into_c3d4"),
    ]
    silent = replace(over, id="e5f6")
    store.commit(Work(incidents=(silent,)))
    assert [entry.kind for entry in store.audit("e5f6")] == ["opened", "merged_into_c3d4"]
    store.close()

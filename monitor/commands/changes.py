"""What a change of the configuration costs, seen from the store at hand, before it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monitor.config import Config


def changes(config: Config) -> list[str]:
    """In sentences; none when nothing changes, or nothing has run with this store yet.

    The store is only read: an older one is not brought to today's tables.

    Raises:
        StoreError: its address is wrong, or the configuration cannot go on with it.
    """
    import json
    from contextlib import closing

    from sqlalchemy import inspect, select

    from monitor.domain import State
    from monitor.edge.documents import incident_from
    from monitor.edge.store import StoreFailedError, tables
    from monitor.edge.store.database import Database
    from monitor.edge.store.errors import StoreMissingError
    from monitor.evolution import Meaning, evolution
    from monitor.session import FINGERPRINT, MEANING, SESSION, written_under

    if config.store.url == "memory:":
        return []
    state = tables.state.c
    query = select(state.name, state.data)
    wanted = query.where(state.name.in_((FINGERPRINT, MEANING, SESSION)))
    try:
        with (
            closing(Database(config.store.url, create=False)) as database,
            database.read() as connection,
        ):
            if not inspect(connection).has_table("state"):
                return []
            saved = {name: bytes(data) for name, data in connection.execute(wanted)}
    except StoreMissingError:
        return []
    except StoreFailedError as error:
        return [f"not known, for the store cannot be read: {error}"]
    before = written_under(saved, config.settings)
    if before is None:
        return []
    now = Meaning.of(config.settings, config.whens)
    change = evolution(before, now, config.settings.detection.learning)
    session = json.loads(saved.get(SESSION, b"{}"))
    known = [incident_from(document) for document in session.get("incidents", ())]
    ending = sum(change.ends(i) and i.state is not State.RESOLVED for i in known)
    told = list(change.told)
    if ending:
        told.append(f"{ending} open incident{'s' * (ending != 1)} of what is gone will end")
    return told

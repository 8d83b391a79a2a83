"""Older databases become today's, once, whole, and never the other way round."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, MetaData, inspect, text

from monitor.edge.store import StoreError, Verdict, Work, migrations, open_store, tables
from monitor.edge.store.database import Database

LEGACY = Path(__file__).with_name("store_before_alembic.sql")
"""A store written by the last program without Alembic, with one tick in it."""


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=[pytest.mark.service, pytest.mark.slow])]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'monitor.db'}"
    made: str = request.getfixturevalue("postgres").database()
    return made


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database(url)
    yield opened
    opened.close()


def layout(connection: Connection) -> dict[str, object]:
    """Every table with its columns, keys and indexes, as the database itself sees them."""
    view = inspect(connection)
    found: dict[str, object] = {}
    for name in sorted(set(view.get_table_names()) - {"alembic_version"}):
        found[name] = {
            "columns": [
                (c["name"], str(c["type"]), c["nullable"], c.get("default"))
                for c in view.get_columns(name)
            ],
            "key": view.get_pk_constraint(name)["constrained_columns"],
            "points to": sorted(
                (f["constrained_columns"], f["referred_table"]) for f in view.get_foreign_keys(name)
            ),
            "unique": sorted(u["column_names"] for u in view.get_unique_constraints(name)),
            "indexes": sorted(
                (str(i["name"]), i["column_names"], i["unique"])
                for i in view.get_indexes(name)
                if not i.get("duplicates_constraint")
            ),
        }
    return found


def test_a_migrated_database_is_what_the_tables_say(database: Database) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with database.restructure() as connection:
        migrations.migrate(connection)
    with database.read() as connection:
        assert migrations.current(connection) == migrations.head()
        migrated = layout(connection)
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, tables.metadata) == []
    with database.restructure() as connection:
        tables.metadata.drop_all(connection)
        tables.metadata.create_all(connection)
    with database.read() as connection:
        assert layout(connection) == migrated


def test_revisions_are_one_line_of_descent() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(migrations.FOLDER))
    script = ScriptDirectory.from_config(config)
    line = [revision.revision for revision in script.walk_revisions()][::-1]
    assert line == migrations.revisions()
    assert script.get_heads() == [migrations.head()]


def test_every_revision_is_a_step_that_the_next_can_start_from(database: Database) -> None:
    for revision in migrations.revisions():
        with database.restructure() as connection:
            migrations.migrate(connection, revision)
        with database.read() as connection:
            assert migrations.current(connection) == revision


@pytest.mark.parametrize("revision", migrations.revisions())
def test_a_store_of_every_revision_opens_with_all_that_is_in_it(
    url: str, database: Database, revision: str
) -> None:
    with sqlite3.connect(":memory:") as recorded:
        recorded.executescript(LEGACY.read_text())
        recorded.row_factory = sqlite3.Row
        with database.restructure() as connection:
            migrations.migrate(connection, revision)
            then = MetaData()
            then.reflect(connection)
            for name in ("incidents", "audit", "labels", "outbox", "position", "slices", "state"):
                rows = [dict(row) for row in recorded.execute(f"SELECT * FROM {name}")]
                if rows:
                    connection.execute(then.tables[name].insert(), rows)
            connection.execute(
                then.tables["labels"].insert(),
                {"incident": "a1", "verdict": "true"},
            )
    recorded.close()
    store = open_store(url)
    saved = store.load()
    assert saved.position == {"at": 1}
    assert list(saved.slices.values()) == [b"rows"]
    assert [i.id for i in saved.incidents] == ["a1"]
    assert list(store.labels().values()) == [Verdict.TRUE]
    assert [item.notifier for item in store.due(saved.incidents[0].opened_at)] == ["log"]
    store.commit(Work(state={"a": b"1"}))
    store.close()


@pytest.mark.parametrize("version", [1, 2])
def test_a_store_from_before_alembic_is_taken_over(tmp_path: Path, version: int) -> None:
    path = tmp_path / "monitor.db"
    with sqlite3.connect(path) as raw:
        raw.executescript(LEGACY.read_text())
        if version == 1:
            raw.execute("DROP TABLE generation")
            raw.execute("DELETE FROM schema_version WHERE version > 1")
    raw.close()
    store = open_store(str(path))
    saved = store.load()
    assert saved.position == {"at": 1}
    assert list(saved.slices.values()) == [b"rows"]
    assert [i.id for i in saved.incidents] == ["a1"]
    assert [item.notifier for item in store.due(saved.incidents[0].opened_at)] == ["log"]
    store.commit(Work(state={"a": b"1"}))
    store.close()
    fresh, taken = Database(str(tmp_path / "fresh.db")), Database(str(path))
    with fresh.restructure() as connection:
        migrations.migrate(connection)
        wanted = layout(connection)
    with taken.read() as connection:
        assert layout(connection) == wanted
    fresh.close()
    taken.close()


def test_a_store_of_a_newer_release_is_left_alone(url: str, database: Database) -> None:
    open_store(url).close()
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match=r"version 9999, .* newer least-monitor"):
        open_store(url)


def test_a_store_at_the_newest_revision_opens_without_alembic(tmp_path: Path) -> None:
    path = str(tmp_path / "monitor.db")
    open_store(path).close()
    program = """
    import sys
    from monitor.edge.store import open_store
    open_store(sys.argv[1]).close()
    print("alembic" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), path], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_two_that_start_at_once_migrate_once(url: str) -> None:
    program = """
    import sys
    from monitor.edge.store import open_store
    sys.stdin.readline()
    open_store(sys.argv[1]).close()
    """
    racing = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), url],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    outcomes = []
    for process in racing:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in racing:
        _, trouble = process.communicate(timeout=60)
        outcomes.append((process.returncode, trouble))
    assert outcomes == [(0, "")] * 3


def test_a_migration_that_fails_leaves_the_old_tables(database: Database) -> None:
    with database.restructure() as connection:
        migrations.migrate(connection, "0001")
        before = layout(connection)

    def fail_half_way() -> None:
        with database.restructure() as connection:
            connection.execute(text("DROP TABLE labels"))
            connection.execute(text("DROP TABLE no_such_table"))

    with pytest.raises(StoreError, match="no_such_table"):
        fail_half_way()
    with database.read() as connection:
        assert layout(connection) == before

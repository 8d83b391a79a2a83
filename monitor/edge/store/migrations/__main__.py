"""Write the next migration: ``python -m monitor.edge.store.migrations "silences"``.

What `tables.metadata` has and the newest revision has not becomes the draft of a new revision,
which a person then reads and completes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from alembic import command

from monitor.edge.store.database import Database
from monitor.edge.store.migrations import configuration, head, migrate


def draft(message: str) -> None:
    """Compare against a fresh SQLite database at `head`, and write the difference."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(str(Path(folder) / "draft.db"))
        with database.restructure() as connection:
            migrate(connection)
            command.revision(
                configuration(connection),
                message,
                autogenerate=True,
                rev_id=f"{int(head()) + 1:04}",
            )
        database.close()


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit('usage: python -m monitor.edge.store.migrations "what it changes"')
    draft(sys.argv[1])

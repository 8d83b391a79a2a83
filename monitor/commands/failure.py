"""Errors that people can mend, shown without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from monitor.commands.configuration import BAD_CONFIGURATION
from monitor.commands.terminal import say


@contextmanager
def mendable() -> Iterator[None]:
    """Show the error and end with 1: input, store or label file is not as it should be.

    With 78 if it is the configuration after all.
    """
    from least import MissingExtraError
    from monitor.edge.http import ServeError
    from monitor.edge.notifiers.making import UnusableError
    from monitor.edge.source import SourceError
    from monitor.edge.store import StoreError
    from monitor.scoring import LabelError

    try:
        yield
    except UnusableError as error:
        say(str(error), err=True)
        raise typer.Exit(BAD_CONFIGURATION) from None
    except (SourceError, StoreError, ServeError, LabelError, MissingExtraError, OSError) as error:
        say(str(error), err=True)
        raise typer.Exit(1) from None

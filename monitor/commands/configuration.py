"""The option `-c` of every command that needs a configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.commands.terminal import say

if TYPE_CHECKING:
    from monitor.config import Config

BAD_CONFIGURATION = 78
"""Exit code: EX_CONFIG of sysexits.h."""

ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config",
        "-c",
        envvar="LEAST_MONITOR_CONFIG",
        help="The configuration, a TOML file.",
    ),
]


def read_configuration(path: Path) -> Config:
    """The configuration at `path`; with problems they are shown and the command ends with 78."""
    from monitor.config import ConfigError, load

    try:
        return load(path, os.environ)
    except ConfigError as error:
        count = len(error.problems)
        for problem in error.problems:
            say(str(problem), err=True)
        say(f"{count} problem{'s' * (count > 1)} in the configuration", err=True)
        raise typer.Exit(BAD_CONFIGURATION) from None

"""Which reader a file needs: by its name, else by its first bytes."""

from __future__ import annotations

from collections.abc import Collection
from typing import BinaryIO

from monitor.config import FilesSettings
from monitor.edge.parquet import ParquetReader
from monitor.edge.readers import Reader


def open_reader(
    source: str | BinaryIO, settings: FilesSettings, needed: Collection[str], follow: bool
) -> Reader:
    """The reader of `source`."""
    return ParquetReader(str(source), source, needed)

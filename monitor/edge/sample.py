"""A sample of the source, whatever it is: for `check`, which stores nothing and moves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.config import Config, FilesSettings, KafkaSettings
from monitor.domain import Batch, Events, Rejected
from monitor.edge.cells import plain, texts
from monitor.edge.decoding import Complaints, Decoder, Locate
from monitor.edge.files import STDIN, FileSource
from monitor.edge.opening import open_reader
from monitor.edge.source import SourceError
from monitor.edge.streams import UnreadableError
from monitor.spelling import key
from monitor.vocabulary import Vocabulary

STREAM_RECORDS = 20_000
"""Of a stream, unless told otherwise: the newest ones, evenly from all partitions."""
FILE_ROWS = 1_000_000
SHOWN = 4
"""Values of a column that are shown."""
_BATCH = 1 << 14


class Watching(Decoder):
    """A decoder that remembers what the columns of `when` hold."""

    def __init__(self, config: Config, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self._watched = {column for one in config.outcomes for column in one.when.columns}
        self._held: dict[str, Counter[str]] = {name: Counter() for name in self._watched}

    def decode_all(self, rows: pa.RecordBatch, locate: Locate) -> tuple[Events, Complaints]:
        """See `Decoder`."""
        for name in self._watched:
            self._watch(name, rows.column(name))
        return super().decode_all(rows, locate)

    def _watch(self, name: str, column: pa.Array) -> None:
        if pa.types.is_nested(column.type):
            return
        counted = pc.value_counts(plain(column))
        words, _ = texts(counted.field("values"))
        counts = counted.field("counts").to_numpy()
        self._held[name].update(
            {word or "(missing)": int(n) for word, n in zip(words, counts, strict=True)}
        )

    def held(self, name: str) -> str:
        """The most frequent values of a column, in words."""
        counts = self._held[name]
        if not counts:
            return "nothing"
        top = ", ".join(word[:24] for word, _ in counts.most_common(SHOWN))
        return top + (" …" if len(counts) > SHOWN else "")

    def near(self, name: str, texts: Collection[str]) -> dict[str, int]:
        """Values that look like one of `texts` and are none, and how often they are there."""
        wanted = {key(text) for text in texts}
        held = self._held[name].items()
        return {word: n for word, n in held if word not in texts and key(word) in wanted}


class Sample:
    """Rows of the source, and the fields it has.

    Args:
        config: checked.
        vocabulary: codes the values; it grows.
        inputs: files to look into; none are those of the configuration.
        rows: about so many; None is as many as usual.
    """

    def __init__(
        self, config: Config, vocabulary: Vocabulary, inputs: Sequence[str], rows: int | None
    ) -> None:
        self._config, self._vocabulary = config, vocabulary
        self._inputs, self._rows = tuple(inputs), rows
        self.decoder = Watching(config, vocabulary)
        self.fields: set[str] = set()
        """Names of columns, as far as they were seen."""
        self.left_out: tuple[str, ...] = ()
        """Paths that match nothing, or that are read under another name."""

    def nothing_yet(self) -> str:
        """Why there is nothing to look into; empty when there is something."""
        source = self._config.source
        if self._inputs or isinstance(source, KafkaSettings):
            return ""
        if not source.paths:
            return "`source.paths` names none"
        files = FileSource(self._config, self._vocabulary, follow=True)
        if files.files():
            missing = files.unmatched if source.follow else ()
            self.left_out = (
                *(f"{one}; no such file is read" for one in missing),
                *(f"{one} is a link to another file of `source.paths`" for one in files.links),
            )
            return ""
        return "; ".join(files.unmatched)

    def batches(self) -> Iterator[Batch]:
        """The rows.

        Raises:
            SourceError: the input does not fit the configuration, or is away.
        """
        if isinstance(self._config.source, KafkaSettings) and not self._inputs:
            return self._of_stream()
        return self._of_files(self._rows or FILE_ROWS)

    def _of_files(self, rows: int) -> Iterator[Batch]:
        """From both ends: what the log was like at first, and what it is like now."""
        strict = False if self._inputs else None  # what is named on the command line must be there
        named = FileSource(self._config, self._vocabulary, self._inputs or None, follow=strict)
        files = named.files()
        first, last = rows if len(files) == 1 else rows // 2, len(files)
        taken, at = 0, 0
        while at < last and taken < first:
            for batch in self._of_file(files[at], first - taken):
                taken += len(batch.events)
                yield batch
            at += 1
        while at < last and taken < rows:
            last -= 1
            for batch in self._of_file(files[last], rows - taken):
                taken += len(batch.events)
                yield batch

    def _of_file(self, path: str, rows: int) -> Iterator[Batch]:
        if path != STDIN:
            self._learn_fields(path)
        source = FileSource(self._config, self._vocabulary, [path], follow=False)
        source.decoder = self.decoder
        for batch in source.batches():
            events = batch.events.take(np.arange(min(len(batch.events), rows)))
            rows -= len(events)
            yield Batch(events, batch.position, batch.rejected)
            if rows <= 0:
                return

    def _learn_fields(self, path: str) -> None:
        source = self._config.source
        settings = source if isinstance(source, FilesSettings) else FilesSettings()
        try:
            self.fields |= open_reader(path, settings, (), follow=False).columns() or set()
        except (UnreadableError, SourceError):
            return  # reading it will say so

    def _of_stream(self) -> Iterator[Batch]:
        from monitor.edge.json_lines import names_in, object_of
        from monitor.edge.json_records import RecordDecoder
        from monitor.edge.kafka.sampling import newest_records

        assert isinstance(self._config.source, KafkaSettings)
        records, _ = newest_records(self._config.source, self._rows or STREAM_RECORDS)
        decoder = RecordDecoder(self._config, self._vocabulary, decoder=self.decoder)
        for begin in range(0, len(records), _BATCH):
            some = records[begin : begin + _BATCH]
            decoded = decoder.decode([record.value for record in some])
            if not begin:
                found = (object_of(record.value or b"") for record in some[:1000])
                self.fields |= {n for one in found if isinstance(one, dict) for n in names_in(one)}
            yield Batch(
                decoded.events,
                {},
                tuple(
                    Rejected(fault.reason, _place(some[fault.row]), fault.detail)
                    for fault in decoded.faults
                )
                + tuple(
                    Rejected(one.reason, _place(some[int(one.rows[0])]), one.detail, len(one.rows))
                    for one in decoded.doubts
                ),
            )


def _place(record: object) -> str:
    return f"{record.topic}[{record.partition}]@{record.offset}"  # type: ignore[attr-defined]

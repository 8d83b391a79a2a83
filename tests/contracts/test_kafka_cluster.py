"""Three real nodes: a leader is moved, the next is killed and comes back; counts stay equal."""

from __future__ import annotations

import json
import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from monitor.edge.kafka import KafkaSource
from monitor.edge.source import SourceAwayError
from tests.contracts.streams import Desk, record
from tests.services.brokers import Cluster

pytestmark = [pytest.mark.service, pytest.mark.slow]


def test_a_leader_is_moved_and_another_killed(tmp_path: Path) -> None:
    cluster, dice = Cluster(tmp_path), random.Random(6)
    desk = Desk(cluster, tmp_path)
    written, numbers = 0, list[str]()

    def flow(source: KafkaSource) -> None:
        nonlocal written
        fresh = range(written, written + 400)
        written += len(fresh)
        cluster.send(desk.topic, [(dice.randrange(3), record(number)) for number in fresh])
        deadline = time.monotonic() + 90
        while len(numbers) < written:
            assert time.monotonic() < deadline, source.status()
            with suppress(SourceAwayError):  # it may say so while there is no leader
                for batch in source.batches(desk.position):
                    numbers.extend(desk.numbers(batch))
                    desk.position = json.loads(json.dumps(batch.position))
                    desk.rejected.update(one.reason for one in batch.rejected)

    try:
        cluster.start()
        cluster.create(desk.topic, 3)
        source = desk.open()
        flow(source)
        first = cluster.leaders(desk.topic)[0]
        heir = next(node for node in cluster.nodes if node != first)
        cluster.move(desk.topic, 0, heir)
        flow(source)
        assert cluster.leaders(desk.topic)[0] == heir
        cluster.nodes[heir].kill()
        flow(source)
        assert cluster.leaders(desk.topic)[0] not in (heir, -1)
        cluster.nodes[heir].launch()
        flow(source)
        assert sorted(numbers, key=int) == [str(number) for number in range(written)]
        assert not desk.rejected
    finally:
        for one in desk.sources:
            one.close()
        cluster.kill()

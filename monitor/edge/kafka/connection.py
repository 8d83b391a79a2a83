"""How we reach the brokers: addresses, encryption, signing in."""

from __future__ import annotations

import gc
import logging
import re
import ssl
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from monitor.config import KafkaSettings

METADATA_AGE_MS = 10_000
"""A partition that was added is noticed within this."""

FETCH_BYTES = 16 << 20
POLL_RECORDS = 4_000
ANSWER_MS = 3_000
"""A broker that takes longer to say where a partition ends is away."""

CONNECT_MS = 10_000
REQUEST_MS = 15_000
_ABOUT = re.compile(r"^<Kafka[^>]*>*: |\[Error \d+\] ")
_BLAND = re.compile("socket disconnected|Bootstrap failed|[Tt]imeout|timed out")
"""These only say that nothing came of it, and hide no complaint that says why."""


class _Trouble(logging.Handler):
    """Keeps the client's last complaint: its exceptions only say that it gave up.

    Its log would tell of every attempt to connect; our own state tells once.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it, unless it only repeats that nothing came of it."""
        text = _ABOUT.sub("", record.getMessage())
        if not self.last or not _BLAND.search(text):
            self.last = text


_trouble = _Trouble()
_client_log = logging.getLogger("kafka")
_client_log.setLevel(logging.ERROR)
_client_log.propagate = False
_client_log.addHandler(_trouble)


def last_trouble() -> str:
    """The client's last telling complaint; empty if it has none."""
    return _trouble.last


def forget_trouble() -> None:
    """Whatever it complained of is over.

    Not at every attempt: of those that follow, some only run out of time.
    """
    _trouble.last = ""


def _heard_out(transport: type[KafkaTCPTransport]) -> None:
    """Hand on what a broker said last before its connection is given up.

    A broker answers a wrong password and closes at once. kafka-python 3.0.12 drops an answer it
    reads together with the end; the end is read again.
    """
    receive = transport._sock_recv

    def receive_all(self: KafkaTCPTransport) -> tuple[bytes, Exception | None]:
        data, error = receive(self)
        return data, None if data else error

    transport._sock_recv = receive_all


_heard_out(KafkaTCPTransport)
_heard_out(KafkaSSLTransport)


_COLLECT_AFTER = (50_000, 20, 50)


def calm_the_collector() -> None:
    """Make Python look for cyclic garbage less often.

    A poll makes some ten thousand small objects that have no cycles; by default Python looks
    through all of them every 700, which takes a third of the time of reading. Affects the whole
    process, so the commands decide.
    """
    gc.set_threshold(*_COLLECT_AFTER)


def connect(settings: KafkaSettings) -> KafkaConsumer:
    """A consumer of nothing yet. It belongs to no group: positions come from the store.

    Raises:
        KafkaError: no broker can be reached, or it will not have us.
    """
    return KafkaConsumer(
        **_client(settings),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        allow_auto_create_topics=False,
        max_poll_records=POLL_RECORDS,
        fetch_max_bytes=FETCH_BYTES,
        metadata_max_age_ms=METADATA_AGE_MS,
        metrics_enabled=False,
    )


def connect_producer(settings: KafkaSettings) -> KafkaProducer:
    """A producer that is told of success only when every replica has the record."""
    return KafkaProducer(
        **_client(settings),
        acks="all",
        linger_ms=5,
        max_request_size=64 << 20,
        max_block_ms=REQUEST_MS,
        delivery_timeout_ms=2 * REQUEST_MS,
        compression_type=None,
        metrics_enabled=False,
    )


def connect_admin(settings: KafkaSettings) -> KafkaAdminClient:
    """For showing the stored offsets in Kafka."""
    return KafkaAdminClient(**_client(settings))


def _client(settings: KafkaSettings) -> dict[str, Any]:
    client: dict[str, Any] = {
        "bootstrap_servers": list(settings.servers),
        "client_id": "least-monitor",
        "security_protocol": _protocol(settings),
        "bootstrap_timeout_ms": CONNECT_MS,
        "request_timeout_ms": REQUEST_MS,
        "reconnect_backoff_max_ms": 5_000,
    }
    if settings.tls is not None:
        context = ssl.create_default_context(cafile=settings.tls.ca_file)
        if settings.tls.certificate_file:
            context.load_cert_chain(settings.tls.certificate_file, settings.tls.key_file)
        client["ssl_context"] = context
    if settings.sasl is not None:
        client |= {
            "sasl_mechanism": settings.sasl.mechanism,
            "sasl_plain_username": settings.sasl.user,
            "sasl_plain_password": settings.sasl.password,
        }
    return client


def _protocol(settings: KafkaSettings) -> str:
    if settings.sasl is None:
        return "PLAINTEXT" if settings.tls is None else "SSL"
    return "SASL_PLAINTEXT" if settings.tls is None else "SASL_SSL"

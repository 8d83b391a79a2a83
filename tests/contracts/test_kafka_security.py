"""Encrypted and signed in, against a real broker; and what is said when it fails."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.edge.source import SourceAwayError
from tests.contracts.streams import Desk, record
from tests.services.brokers import Kafka, cannot, free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]

SASL = {
    "tls": True,
    "tls_ca_file": "ca.pem",
    "sasl_mechanism": "PLAIN",
    "sasl_user": "monitor",
    "sasl_password_file": "password",
}


def certificates(folder: Path) -> None:
    """A certificate authority, and a broker's certificate for 127.0.0.1."""

    def openssl(*arguments: str) -> None:
        try:
            subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
        except FileNotFoundError:
            cannot("no openssl, so no certificates")

    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    subject = ("-newkey", "rsa:2048", "-nodes", "-subj")
    openssl(
        "req", "-x509", *subject, "/CN=tests", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem"
    )
    openssl("req", *subject, "/CN=broker", "-keyout", "broker.key", "-out", "broker.csr")
    openssl(
        "x509", "-req", "-in", "broker.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
        "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "broker.crt",
    )  # fmt: skip
    pem = (folder / "broker.key").read_text() + (folder / "broker.crt").read_text()
    (folder / "broker.pem").write_text(pem)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    tmp_path = tmp_path_factory.mktemp("secured")
    certificates(tmp_path)
    port = free_port()
    listener = "listener.name.secure"
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    broker = Kafka(
        tmp_path / "broker",
        settings={
            f"{listener}.ssl.keystore.type": "PEM",
            f"{listener}.ssl.keystore.location": str(tmp_path / "broker.pem"),
            f"{listener}.sasl.enabled.mechanisms": "PLAIN",
            f"{listener}.plain.sasl.jaas.config": f'{login} required user_monitor="s3cret";',
        },
        listeners={"SECURE": ("SASL_SSL", port)},
    )
    broker.start()
    desk = Desk(broker, tmp_path)
    broker.create(desk.topic, 2)
    broker.create(f"{desk.topic}.dead", 1)
    broker.send(desk.topic, [(i % 2, record(i)) for i in range(20)] + [(0, b"?")])
    desk.address = f"127.0.0.1:{port}"
    (tmp_path / "password").write_text("s3cret\n")
    yield desk
    for source in desk.sources:
        source.close()
    broker.kill()


def test_records_come_and_dead_letters_go_encrypted_and_signed_in(secured: Desk) -> None:
    source = secured.open(**SASL, dead_letter_topic=f"{secured.topic}.dead")
    assert sorted(secured.read(source), key=int) == [str(i) for i in range(20)]
    assert source.status().dead_letters == {"not_json": 1}


def test_a_wrong_password_and_an_unknown_authority_are_told(
    secured: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.edge.kafka.connection.CONNECT_MS", 3000)
    monkeypatch.setattr("monitor.edge.kafka.source.AWAY_SECONDS", 1.0)
    (secured.folder / "password").write_text("wrong")
    trusting = {key: value for key, value in SASL.items() if key != "tls_ca_file"}
    for settings, said in ((SASL, "uthentication failed"), (trusting, "CERTIFICATE_VERIFY_FAILED")):
        source, told = secured.open(**settings), ""
        deadline = time.monotonic() + 90
        # On a busy machine the client may notice the closed socket before the broker's answer.
        while said not in told:
            assert time.monotonic() < deadline, told
            with pytest.raises(SourceAwayError, match=r"Kafka at 127.*cannot be read: ") as away:
                secured.until(source, lambda: False)
            told = str(away.value)
            time.sleep(0.1)
        source.close()

"""Encrypted and signed in, against a real broker; and what is said when it fails."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

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


SCRAM = SASL | {"sasl_mechanism": "SCRAM-SHA-512"}
MUTUAL = {
    "tls": True,
    "tls_ca_file": "ca.pem",
    "tls_certificate_file": "monitor.crt",
    "tls_key_file": "monitor.key",
}


def certificates(folder: Path) -> None:
    """An authority, a broker's certificate for 127.0.0.1, and one of ours."""

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
    for name in ("broker", "monitor"):
        openssl("req", *subject, f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.crt",
        )  # fmt: skip
    pem = (folder / "broker.key").read_text() + (folder / "broker.crt").read_text()
    (folder / "broker.pem").write_text(pem)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    tmp_path = tmp_path_factory.mktemp("secured")
    certificates(tmp_path)
    port, scram, mutual = free_port(), free_port(), free_port()
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    salted = "org.apache.kafka.common.security.scram.ScramLoginModule"
    shown = {
        f"listener.name.{name}.ssl.keystore.{key}": value
        for name in ("secure", "scram", "mutual")
        for key, value in (("type", "PEM"), ("location", str(tmp_path / "broker.pem")))
    }
    broker = Kafka(
        tmp_path / "broker",
        settings=shown
        | {
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secure.plain.sasl.jaas.config": (
                f'{login} required user_monitor="s3cret";'
            ),
            "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{salted} required;",
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.truststore.location": str(tmp_path / "ca.pem"),
        },
        listeners={
            "SECURE": ("SASL_SSL", port),
            "SCRAM": ("SASL_SSL", scram),
            "MUTUAL": ("SSL", mutual),
        },
    )
    broker.start()
    desk = Desk(broker, tmp_path)
    broker.create(desk.topic, 2)
    broker.create(f"{desk.topic}.dead", 1)
    broker.send(desk.topic, [(i % 2, record(i)) for i in range(20)] + [(0, b"?")])
    admin = broker.admin()
    admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("monitor", ScramMechanism.SCRAM_SHA_512, "s4lted")]
    )
    admin.close()
    desk.address = f"127.0.0.1:{port}"
    (tmp_path / "password").write_text("s3cret\n")
    (tmp_path / "salted").write_text("s4lted\n")
    desk.also = {"scram": f"127.0.0.1:{scram}", "mutual": f"127.0.0.1:{mutual}"}
    yield desk
    for source in desk.sources:
        source.close()
    broker.kill()


def test_records_come_and_dead_letters_go_encrypted_and_signed_in(secured: Desk) -> None:
    source = secured.open(**SASL, dead_letter_topic=f"{secured.topic}.dead")
    assert sorted(secured.read(source), key=int) == [str(i) for i in range(20)]
    assert source.status().dead_letters == {"not_json": 1}


@pytest.mark.parametrize("way", ["scram", "mutual"])
def test_a_salted_password_or_a_certificate_of_ours_signs_in(secured: Desk, way: str) -> None:
    settings = {"scram": SCRAM | {"sasl_password_file": "salted"}, "mutual": MUTUAL}[way]
    usual, secured.address, secured.position = secured.address, secured.also[way], None
    source = secured.open(**settings)
    try:
        assert sorted(secured.read(source), key=int) == [str(i) for i in range(20)]
    finally:
        secured.address = usual


def test_without_a_certificate_of_ours_it_is_told(
    secured: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.edge.kafka.connection.CONNECT_MS", 3000)
    monkeypatch.setattr("monitor.edge.kafka.source.AWAY_SECONDS", 1.0)
    usual, secured.address, secured.position = secured.address, secured.also["mutual"], None
    source = secured.open(tls=True, tls_ca_file="ca.pem")
    try:
        with pytest.raises(SourceAwayError, match=r"cannot be read: \S") as away:
            secured.until(source, lambda: False)
        print(away.value)
    finally:
        source.close()
        secured.address = usual


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
        # On a busy machine a first attempt may run out of time; every one that does not tells why.
        while said not in told:
            assert time.monotonic() < deadline, told
            with pytest.raises(SourceAwayError, match=r"Kafka at 127.*cannot be read: ") as away:
                secured.until(source, lambda: False)
            told = str(away.value)
            time.sleep(0.1)
        source.close()

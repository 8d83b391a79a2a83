"""What is deployed, held against the schemas and the real programs that read it."""

from __future__ import annotations

import base64
import json
import re
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import typer
import yaml

from dashboards.generate import OPERATOR, prometheus_rule
from monitor.cli import app
from monitor.commands.failure import mendable
from monitor.config import Config, load
from tests.services.brokers import JARS, cannot

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose"
KUBERNETES = "1.37"


def program(name: str) -> str:
    """Its path; where it is absent the test is skipped, and on CI it fails.

    Not so for two that neither a requirement nor `.ci/tools` can bring.
    """
    beside = Path(sys.executable).parent / name
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None and name in ("kubectl", "systemd-analyze"):
        pytest.skip(f"no {name} on this machine")
    return path or cannot(f"no {name} on this machine")


def run(*command: str | Path) -> str:
    """What it says.

    Raises:
        AssertionError: it complains.
    """
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "token").write_text("0123456789abcdef0123456789abcdef")
    (folder / "store-url").write_text("postgresql+psycopg://monitor:p@postgres/monitor")
    return folder


def loaded(configuration: Path, secrets: Path) -> Config:
    """The configuration, read where the secrets lie elsewhere."""
    text = re.sub(
        r"(/run/secrets|/etc/least-monitor/secret)/", f"{secrets}/", configuration.read_text()
    )
    (secrets / "monitor.toml").write_text(text)
    return load(secrets / "monitor.toml", {})


def parses(arguments: list[str]) -> str:
    """The command that the words are for; they are understood, not acted upon."""
    group = typer.main.get_command(app)
    with group.make_context("least-monitor", list(arguments), resilient_parsing=False) as context:
        name, command, rest = group.resolve_command(context, list(arguments))  # type: ignore[attr-defined]
        command.make_context(name, rest, parent=context)
        return str(name)


# The image


def test_the_linter_finds_nothing_in_the_dockerfiles() -> None:
    assert run(program("hadolint"), "--no-color", ROOT / "Dockerfile") == ""
    # Debian's current packages and its own accounts are what is wanted there.
    tolerated = ("--ignore", "DL3008", "--ignore", "DL3066")
    servers = COMPOSE / "images" / "Dockerfile"
    assert run(program("hadolint"), "--no-color", *tolerated, servers) == ""


def test_the_image_runs_as_nobody_and_is_asked_how_it_is() -> None:
    last = (ROOT / "Dockerfile").read_text().split("\nFROM ")[-1]
    assert "USER 10001:10001" in last
    assert "/healthz" in last.split("HEALTHCHECK")[1]
    said = json.loads(re.findall(r"^CMD (\[.*\])", last, re.M)[0])
    assert parses(said) == "run"


def test_the_image_gets_what_it_needs_and_no_more() -> None:
    kept = (ROOT / ".dockerignore").read_text().split()
    copied = [
        word
        for line in re.findall(
            r"^COPY (?!--from)(.*) \S+$", (ROOT / "Dockerfile").read_text(), re.M
        )
        for word in line.split()
    ]
    copied.remove("${REQUIREMENTS}")
    copied += ["requirements.txt", "requirements-reading.txt"]
    assert kept[0] == "*"
    assert {f"!{name}" for name in copied} == {one for one in kept if one.startswith("!")}
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_for_reading_has_the_same_packages_but_those_that_learn() -> None:
    whole, reading = (
        set(re.findall(r"^([^ \n#]+==\S+)", (ROOT / name).read_text(), re.M))
        for name in ("requirements.txt", "requirements-reading.txt")
    )
    assert reading < whole
    left_out = {pin.split("==")[0] for pin in whole - reading}
    assert {"tensorflow-cpu", "statsmodels", "pandas"} <= left_out
    assert {"sqlalchemy", "psycopg-binary", "setuptools"} <= {p.split("==")[0] for p in reading}


def test_whoever_starts_a_monitor_from_the_image_for_reading_is_told_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # as where it is not installed
    monkeypatch.delitem(sys.modules, "least.dense", raising=False)
    with pytest.raises(typer.Exit) as ended, mendable():
        import_module("least.dense")
    assert ended.value.exit_code == 1
    assert "needs tensorflow" in capsys.readouterr().err


# Compose


def stand(file: str = "compose.yaml") -> dict[str, Any]:
    return dict(yaml.safe_load((COMPOSE / file).read_text()))


@pytest.mark.parametrize("file", ["compose.yaml", "compose.override.yaml", "host.yaml"])
def test_the_stand_is_a_compose_file(file: str) -> None:
    package = find_spec("check_jsonschema")
    assert package is not None
    assert package.origin is not None
    schema = Path(package.origin).parent / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.Draft7Validator(json.loads(schema.read_text())).validate(stand(file))


def test_what_is_run_here_is_what_is_shipped_on_the_host_s_network() -> None:
    """`make stand` lays host.yaml over compose.yaml, and asks these addresses."""
    shipped, here = stand()["services"], stand("host.yaml")["services"]
    assert shipped.keys() - here.keys() == {"grafana"}, "it cannot be had as a package"
    assert here.keys() <= shipped.keys()
    names = stand("host.yaml")["x-at-home"]["extra_hosts"]
    assert len(set(names.values())) == len(names), "two servers would fight for a port"
    script = (DEPLOY / "stand.py").read_text()
    made = re.findall(r"^FROM debian AS (\w+)", (COMPOSE / "images/Dockerfile").read_text(), re.M)
    for name, service in here.items():
        assert service["network_mode"] == "host", name
        assert service["extra_hosts"] == names, name
        if name in made:
            assert service["image"] == f"least-monitor-{name}"
        else:
            assert shipped[name]["image"] == "least-monitor"
        assert f'"{name}"' in script
    for name, address in names.items():
        if name in ("monitor", "standby"):
            assert here[name]["environment"]["LEAST_MONITOR__HTTP__HOST"] == address
        if name not in ("kafka", "postgres"):
            assert f"http://{address}:" in script
    assert parses(here["world"]["command"]) == "simulate"
    for name in ("prometheus", "alertmanager"):
        assert set(shipped[name]["command"]) < set(here[name]["command"])
    for target in ("images", "stand"):
        recipe = run("make", "--dry-run", target, "-C", ROOT)
        for file in re.findall(r"deploy/[\w.-]+", recipe):
            assert (ROOT / file).exists(), file
    for file in ("engine", "make-images", "kubernetes/try"):
        run("bash", "-n", DEPLOY / file)


def test_whatever_the_stand_mounts_is_there_and_every_image_has_a_version() -> None:
    services, made = stand()["services"], stand()
    for name, service in services.items():
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            there = (COMPOSE / source).exists() if source[0] in "./" else source in made["volumes"]
            assert there, f"{name}: {mount}"
        assert set(service.get("secrets", ())) <= made["secrets"].keys(), name
        assert set(service.get("depends_on", ())) <= services.keys(), name
        if "build" in service:
            build = service["build"]
            assert (COMPOSE / build["context"] / build["dockerfile"]).exists(), name
        else:
            assert re.search(r":v?\d+\.\d+", service["image"]), name
        assert "ports" not in service, f"{name}: a host's network has none"
    for name, service in stand("compose.override.yaml")["services"].items():
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:"), f"{name}: {port} is open to others"


def test_the_stand_s_monitor_and_world_are_understood(secrets: Path) -> None:
    config = loaded(COMPOSE / "monitor.toml", secrets)
    assert config.http.token
    assert config.store.url.startswith("postgresql+psycopg://monitor:p@")
    assert parses(stand()["services"]["world"]["command"]) == "simulate"


def test_prometheus_and_alertmanager_read_the_stand_s_files(secrets: Path, tmp_path: Path) -> None:
    text = (COMPOSE / "prometheus.yml").read_text().replace("/run/secrets", str(secrets))
    (tmp_path / "prometheus.yml").write_text(text)
    shutil.copy(ROOT / "rules" / "least-monitor.rules.yml", tmp_path)
    assert "SUCCESS" in run(program("promtool"), "check", "config", tmp_path / "prometheus.yml")
    assert "SUCCESS" in run(program("amtool"), "check-config", COMPOSE / "alertmanager.yml")


def test_kafka_reads_the_stand_s_settings(tmp_path: Path) -> None:
    if shutil.which("java") is None or not JARS.exists():
        cannot("no Java or no Kafka on this machine")
    text = (COMPOSE / "kafka.properties").read_text()
    settings = tmp_path / "kafka.properties"
    settings.write_text(re.sub(r"^log.dirs=.*", f"log.dirs={tmp_path}/data", text, flags=re.M))
    cluster = base64.urlsafe_b64encode(b"M" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
    run("java", "-Xmx64m", "-cp", f"{JARS}/*", "kafka.tools.StorageTool", "format", "-t", cluster,
        "-c", settings)  # fmt: skip
    assert "node.id=1" in (tmp_path / "data" / "meta.properties").read_text()


def test_grafana_of_the_stand_asks_the_stand_s_prometheus() -> None:
    there = yaml.safe_load(
        (ROOT / "dashboards/provisioning/datasources/least-monitor.yml").read_text()
    )
    here = yaml.safe_load((COMPOSE / "grafana" / "datasource.yml").read_text())
    (source,) = here["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source | {"url": ""} == there["datasources"][0] | {"url": ""}


# systemd

UNIT = DEPLOY / "systemd" / "least-monitor.service"


def test_systemd_understands_the_unit_and_calls_it_well_protected(tmp_path: Path) -> None:
    analyze = program("systemd-analyze")
    # The program is not installed here; everything else about the unit is as it is.
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/least-monitor/bin/least-monitor", "/bin/true"))
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, timeout=60)
    assert UNIT.name not in done.stderr, done.stderr
    said = run(analyze, "security", "--offline=true", "--no-pager", unit)
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert exposure is not None, said
    assert float(exposure[1]) <= 2.0, said


def test_the_unit_s_command_is_understood() -> None:
    command = re.findall(r"^ExecStart=\S+ (.*)$", UNIT.read_text(), re.M)
    assert [parses(shlex.split(line)) for line in command] == ["run"]


# Kubernetes


BESIDE = {"least-monitor-dashboards", "least-monitor-managed"}
"""Names of what the components add of a kind that is there already."""


@pytest.fixture(scope="module", params=["base", "sqlite", "managed"])
def rendered(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return _rendered(request.param)


@pytest.fixture
def manifests(rendered: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in rendered if one["metadata"]["name"] not in BESIDE}


def workload(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return manifests.get("Deployment") or manifests["StatefulSet"]


def test_kubernetes_knows_every_field(rendered: list[dict[str, Any]]) -> None:
    for manifest in rendered:
        if (
            manifest["apiVersion"] != "monitoring.coreos.com/v1"
        ):  # no schema here: deploy/kubernetes/try
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_only_who_asks_for_it_needs_the_prometheus_operator() -> None:
    kinds = {
        overlay: {one["kind"] for one in _rendered(overlay)} & {"ServiceMonitor", "PrometheusRule"}
        for overlay in ("base", "sqlite", "managed")
    }
    assert kinds == {
        "base": set(),
        "sqlite": set(),
        "managed": {"ServiceMonitor", "PrometheusRule"},
    }


def test_what_lies_outside_the_cluster_comes_from_the_values() -> None:
    values = yaml.safe_load((DEPLOY / "kubernetes/managed/values.yaml").read_text())["spec"]
    managed = {one["metadata"]["name"]: one for one in _rendered("managed") if "metadata" in one}
    rules = managed["least-monitor-managed"]["spec"]["egress"]
    let_out = [(rule["to"][0]["ipBlock"]["cidr"], rule["ports"][0]["port"]) for rule in rules]
    named = [values[name] for name in ("kafka", "postgres", "mail", "webhooks")]
    assert let_out == [(one["cidr"], one["port"]) for one in named]
    (ingress,) = (one for one in _rendered("managed") if one["kind"] == "Ingress")
    console = values["console"]
    assert ingress["spec"]["ingressClassName"] == console["ingressClass"]
    assert ingress["spec"]["rules"][0]["host"] == console["host"]
    assert ingress["spec"]["tls"] == [
        {"hosts": [console["host"]], "secretName": console["tlsSecret"]}
    ]
    assert "by-values" not in json.dumps(list(managed.values()))


def test_grafana_s_sidecar_gets_every_dashboard() -> None:
    (boards,) = (one for one in _rendered("managed") if "dashboards" in one["metadata"]["name"])
    assert boards["metadata"]["labels"]["grafana_dashboard"] == "1"
    files = {path.name: path.read_text() for path in (ROOT / "dashboards/json").glob("*.json")}
    assert boards["data"] == files


def test_the_operator_gets_the_rules_as_they_are() -> None:
    (rule,) = (one for one in _rendered("managed") if one["kind"] == "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((ROOT / "rules/least-monitor.rules.yml").read_text())
    assert OPERATOR.read_text() == prometheus_rule(), "python -m dashboards.generate"


@cache
def _rendered(overlay: str) -> list[dict[str, Any]]:
    text = run(program("kubectl"), "kustomize", DEPLOY / "kubernetes" / overlay)
    return list(yaml.safe_load_all(text))


def test_names_and_labels_find_each_other(manifests: dict[str, dict[str, Any]]) -> None:
    pod = workload(manifests)["spec"]["template"]
    labels = pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    service = manifests["Service"]
    assert service["spec"]["selector"].items() <= labels.items()
    if "ServiceMonitor" in manifests:
        scraped = manifests["ServiceMonitor"]["spec"]
        assert scraped["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert service["metadata"]["labels"][scraped["jobLabel"]] == "least-monitor"
        assert scraped["endpoints"][0]["port"] in [p["name"] for p in service["spec"]["ports"]]
    names = {volume["name"] for volume in pod["spec"]["volumes"]}
    names |= {c["metadata"]["name"] for c in _claims(manifests)}
    assert {mount["name"] for mount in container["volumeMounts"]} == names
    kept = [v["configMap"]["name"] for v in pod["spec"]["volumes"] if "configMap" in v]
    assert kept == [manifests["ConfigMap"]["metadata"]["name"]]
    if "Deployment" in manifests:
        budget = manifests["PodDisruptionBudget"]["spec"]
        assert budget["selector"]["matchLabels"].items() <= labels.items()
        assert workload(manifests)["spec"]["replicas"] > budget["maxUnavailable"]


def test_the_pods_ask_for_what_the_daemon_has(
    manifests: dict[str, dict[str, Any]], secrets: Path
) -> None:
    (container,) = workload(manifests)["spec"]["template"]["spec"]["containers"]
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert [p["path"].split("?")[0] for p in probes] == ["/healthz", "/healthz", "/readyz"]
    (secrets / "written.toml").write_text(manifests["ConfigMap"]["data"]["monitor.toml"])
    config = loaded(secrets / "written.toml", secrets)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": config.http.port}
    assert config.http.host == "0.0.0.0"
    kind = "postgresql" if "Deployment" in manifests else "sqlite"
    assert config.store.url.startswith(kind)
    if kind == "sqlite":
        homes = [m["mountPath"] for m in container["volumeMounts"] if m["name"] == "home"]
        assert f"{homes[0]}/" in config.store.url, "the store lies in the claim"
        assert len(list(_claims(manifests))) == 1


def test_the_pods_are_locked_down(manifests: dict[str, dict[str, Any]]) -> None:
    spec = workload(manifests)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not spec["automountServiceAccountToken"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]


def _claims(manifests: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield from workload(manifests)["spec"].get("volumeClaimTemplates", ())

"""Run the stand of deploy/compose on the host's network and show what it promises: `make stand`.

The demo platform writes into Kafka, two monitors watch, an incident reaches Alertmanager,
Prometheus scrapes both, the leader is killed and the standby goes on. Ends with 1 if anything is
not so; whatever was started is stopped, and its volumes are removed.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from typing import Any
from urllib.parse import quote

from shown import ROOT, NotShownError, Shown, get, metric, run, status

COMPOSE = ROOT / "deploy" / "compose"
SECRETS = COMPOSE / "secrets"
MONITORS = {"monitor": "http://127.0.1.5:9469", "standby": "http://127.0.1.6:9469"}
PROMETHEUS, ALERTMANAGER = "http://127.0.1.3:9090", "http://127.0.1.4:9093"
SERVERS = ("kafka", "postgres", "alertmanager", "prometheus", "monitor", "standby", "world")
LEASE_SECONDS = 15


def main() -> int:
    """The exit code."""
    make_secrets()
    stand = Stand()
    try:
        stand.starts()
        stand.watches()
        stand.tells()
        stand.survives()
        stand.ends()
    except NotShownError as error:
        print(f"NOT SHOWN: {error}\n{stand.logs()}", file=sys.stderr)
        return 1
    finally:
        stand.compose("down", "--volumes", "--timeout", "10")
    return 0


def alone(names: list[str]) -> list[str]:
    """The names, if it is one."""
    return names if len(names) == 1 else []


def make_secrets() -> None:
    """Those that the head of compose.yaml asks for, unless they are there."""
    SECRETS.mkdir(exist_ok=True)
    password = SECRETS / "postgres-password"
    for path in (SECRETS / "token", password):
        if not path.exists():
            path.write_text(secrets.token_hex(24))
    url = f"postgresql+psycopg://monitor:{password.read_text()}@postgres/monitor"
    (SECRETS / "store-url").write_text(url)
    for path in SECRETS.iterdir():
        path.chmod(0o644)


class Stand:
    """The running stand, and what has been shown of it."""

    def __init__(self) -> None:
        self.shown, self.began = Shown(), time.monotonic()
        self.leader = self.other = ""
        self.token = (SECRETS / "token").read_text()
        plugin = subprocess.run(["docker", "compose", "version"], capture_output=True)
        self.program = ["docker-compose"] if plugin.returncode else ["docker", "compose"]

    def compose(self, *arguments: str) -> str:
        """What compose says."""
        files = ("-f", COMPOSE / "compose.yaml", "-f", COMPOSE / "host.yaml")
        return run(*self.program, *files, *arguments)

    def logs(self) -> str:
        """The ends of all logs."""
        return self.compose("logs", "--no-color", "--tail", "15")

    def metrics(self, name: str) -> str:
        """Of that monitor."""
        return str(get(f"{MONITORS[name]}/metrics", self.token))

    def leads(self, name: str) -> bool:
        """It says so."""
        return metric(self.metrics(name), "least_monitor_leader") == 1

    def incidents(self, name: str) -> dict[str, dict[str, Any]]:
        """Open ones, by id."""
        listed = get(f"{MONITORS[name]}/api/v1/incidents?limit=200", self.token)["incidents"]
        return {one["id"]: one for one in listed}

    def alerts(self) -> list[dict[str, Any]]:
        """What Alertmanager shows."""
        return list(get(f"{ALERTMANAGER}/api/v2/alerts"))

    def asked(self, expression: str) -> list[float]:
        """The values that Prometheus has."""
        answer = get(f"{PROMETHEUS}/api/v1/query?query={quote(expression)}")
        return [float(one["value"][1]) for one in answer["data"]["result"]]

    def starts(self) -> None:
        """Everything comes up; one monitor leads."""
        self.compose("up", "-d", "--no-build", *SERVERS)
        self.shown.say("Kafka, PostgreSQL, Alertmanager, Prometheus, two monitors, the world: up")
        (self.leader,) = self.shown.once(
            "one leads, the other stands by: {0[0]} leads",
            lambda: alone([name for name in MONITORS if self.leads(name)]),
        )
        (self.other,) = MONITORS.keys() - {self.leader}

    def watches(self) -> None:
        """Bookings arrive; both are scraped."""
        self.shown.once(
            "the platform writes, the leader judges: {:,.0f} rows",
            lambda: metric(self.metrics(self.leader), "least_monitor_rows_total"),
        )
        self.shown.once(
            "Prometheus scrapes both and has the rules",
            lambda: (
                self.asked('up{job="least-monitor"}') == [1, 1]
                and get(f"{PROMETHEUS}/api/v1/rules")["data"]["groups"]
            ),
        )

    def tells(self) -> None:
        """Two quiet days are learned from, then something breaks, and Alertmanager has it."""
        alerts = self.shown.once("an incident is at Alertmanager", self.alerts)
        self.alert = alerts[0]
        labels = self.alert["labels"]
        print(f"{'':11}" + " ".join(f"{k}={v}" for k, v in sorted(labels.items())))
        ready, said = status(f"{MONITORS[self.leader]}/readyz")
        if ready != 200:
            raise NotShownError(f"the leader is not ready: {said}")

    def survives(self) -> None:
        """The leader is killed; the other leads, knows everything and goes on."""
        known = self.incidents(self.leader).keys()
        tick = "least_monitor_last_tick_timestamp_seconds"
        before = metric(self.metrics(self.leader), tick)
        sent = self.alert["updatedAt"]
        self.shown.begin()
        self.compose("kill", self.leader)
        self.shown.say(f"{self.leader} is killed")
        self.shown.once(
            f"{self.other} leads (a lease is {LEASE_SECONDS} s)",
            lambda: self.leads(self.other),
        )
        lost = known - self.incidents(self.other).keys()
        if lost:
            raise NotShownError(f"incidents are lost: {lost}")
        self.shown.say(f"all {len(known)} incidents are known to it")
        self.shown.once(
            "it judges what came meanwhile, and what comes",
            lambda: metric(self.metrics(self.other), tick) > before,
        )
        mine = self.alert["fingerprint"]
        self.shown.once(
            "Alertmanager hears of the same incident from it",
            lambda: any(a["fingerprint"] == mine and a["updatedAt"] > sent for a in self.alerts()),
        )
        self.compose("start", self.leader)
        self.shown.once(
            f"{self.leader} is back, and stands by",
            lambda: "standby" in status(f"{MONITORS[self.leader]}/readyz?standby=ready")[1],
        )
        listed = run(
            "docker", "run", "--rm", "--network=host", "--read-only", "--tmpfs", "/tmp",
            "--add-host", "postgres:127.0.1.2", "least-monitor-reading",
            "incidents", "--store", (SECRETS / "store-url").read_text(), "--limit", "3",
        )  # fmt: skip
        self.shown.say("the image for reading lists the incidents")
        print(listed)

    def ends(self) -> None:
        """Both monitors end by themselves when they are told to."""
        self.compose("stop", *MONITORS)
        for name in MONITORS:
            mine = ("--filter", f"label=com.docker.compose.service={name}")
            container = run("docker", "ps", "--all", "--quiet", *mine).strip()
            code = run("docker", "inspect", "-f", "{{.State.ExitCode}}", container)
            if code.strip() != "0":
                raise NotShownError(f"{name} ended with {code}")
        self.shown.say("both monitors ended by themselves")
        print(f"{time.monotonic() - self.began:7.1f} s  in all")


if __name__ == "__main__":
    sys.exit(main())

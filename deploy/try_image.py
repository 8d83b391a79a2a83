"""Start the monitor's image as it is meant to run, break it, stop it: the end of `make images`.

Read-only, as user 10001, without capabilities, on the host's network. Ends with 1 if anything is
not as it should be; the container and its volume are removed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from shown import NotShownError, Shown, run, status

NAME = "least-monitor-try"
STORE = "/var/lib/least-monitor/least-monitor.db"
ADDRESS = "http://127.0.0.1:9469"
HARDENED = (
    "--network=host", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL",
    "--security-opt", "no-new-privileges:true",
)  # fmt: skip
CONFIGURATION = """
[source]
paths = ["/bookings/*.parquet"]
[schema]
time = "time"
zone = "UTC"
attributes = ["airline", "fare_source"]
outcomes = [{ name = "failed", when = "failed_step is not null" }]
"""


def main() -> int:
    """The exit code."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            tried(Path(folder), Shown())
        except NotShownError as error:
            print(f"NOT SHOWN: {error}", file=sys.stderr)
            return 1
        finally:
            for cleaning in (("rm", "--force", NAME), ("volume", "rm", "--force", NAME)):
                run("docker", *cleaning)
    return 0


def inspected(what: str) -> str:
    """Of the container."""
    return run("docker", "inspect", "-f", f"{{{{{what}}}}}", NAME).strip()


def health(what: str) -> bool:
    """So the engine says."""
    return inspected(".State.Health.Status") == what


def ended(code: int) -> bool:
    """By itself, with this code."""
    return inspected(".State.Running") == "false" and inspected(".State.ExitCode") == str(code)


def tried(folder: Path, shown: Shown) -> None:
    """Everything, in order.

    Raises:
        NotShownError: something is not as it should be.
    """
    (folder / "monitor.toml").write_text(CONFIGURATION)
    (folder / "bookings").mkdir(mode=0o777)
    for path in (folder, folder / "bookings"):
        path.chmod(0o777)
    made = ("-v", f"{folder}/bookings:/bookings")
    demo = ("least-monitor", "simulate", "--demo", "-o", "/bookings")
    run("docker", "run", "--rm", *HARDENED, *made, *demo)
    shown.say("the image makes a day of bookings")

    run(
        "docker", "run", "-d", "--name", NAME, *HARDENED, "-v", f"{NAME}:/var/lib/least-monitor",
        "-v", f"{folder}/monitor.toml:/etc/least-monitor/monitor.toml:ro", *made,
        "--health-interval=1s", "--health-start-period=0s", "least-monitor",
    )  # fmt: skip
    shown.once("healthy, says the engine", lambda: health("healthy"))
    ready = f"{ADDRESS}/readyz"
    shown.once("ready: the window is rebuilt", lambda: status(ready)[0] == 200)
    user = run("docker", "exec", NAME, "id", "-u").strip()
    if user != "10001" or inspected(".HostConfig.ReadonlyRootfs") != "true":
        raise NotShownError(f"it runs as {user}")

    run("docker", "exec", NAME, "mv", STORE, f"{STORE}.away")
    shown.once("the store is away: not ready, alive", lambda: refused(ready))
    run("docker", "exec", NAME, "mv", f"{STORE}.away", STORE)
    shown.once("the store is back: ready", lambda: status(ready)[0] == 200)

    run("docker", "kill", "--signal", "STOP", NAME)
    shown.once("hung: unhealthy", lambda: health("unhealthy"))
    run("docker", "kill", "--signal", "CONT", NAME)
    shown.once("goes on: healthy", lambda: health("healthy"))

    run("docker", "kill", NAME)
    run("docker", "start", NAME)
    shown.once("killed and started on its store: ready", lambda: status(ready)[0] == 200)
    run("docker", "stop", "--time", "60", NAME)
    if not ended(0):
        raise NotShownError(f"it ended with {inspected('.State.ExitCode')}")
    shown.say("stopped; it ended by itself")

    graph = run(
        "docker", "run", "--rm", *HARDENED, "-v", f"{NAME}:/var/lib/least-monitor",
        "least-monitor-reading", "graph", "--store", f"sqlite:///{STORE}", "--top", "1",
    )  # fmt: skip
    shown.say(f"the image for reading shows its graph: {graph.strip().splitlines()[-1]}")

    (folder / "monitor.toml").write_text(CONFIGURATION.replace("paths", "path"))
    run("docker", "start", NAME)
    shown.once("a bad configuration ends it with 78", lambda: ended(78))


def refused(ready: str) -> bool:
    """It is alive, and says that it is not ready."""
    return status(f"{ADDRESS}/healthz")[0] == 200 and status(ready)[0] == 503


if __name__ == "__main__":
    sys.exit(main())

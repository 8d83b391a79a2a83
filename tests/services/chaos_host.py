"""Forks daemons that kill themselves at a chosen instant, at a fraction of a start's price.

The host imports everything once and then forks a child for every order it reads: one JSON object
a line, ``{"config": PATH, "log": PATH, "trap": NAME or null, "hit": N}``. The child is the whole
daemon, `least-monitor run`; at the N-th time it comes to the trap it gets SIGKILL, from itself,
so that the instant is exact. The host answers with the child's number, and with its end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from monitor.edge.notifiers.pace import Pace
from tests.services.light import without_least

TRAPS: dict[str, tuple[str, str, bool]] = {
    "start": ("monitor.edge.store.sql:SqlStore", "load", True),
    "lease taken": ("monitor.edge.store.sql:SqlStore", "take_lease", True),
    "ingest": ("monitor.pipeline:Pipeline", "_take_in", False),
    "late rows": ("monitor.session:Session", "fold", True),
    "tick begins": ("monitor.session:Session", "tick", False),
    "fit": ("tests.services.light:NoLearner", "learn", True),
    "tick ends": ("monitor.session:Session", "tick", True),
    "commit begins": ("monitor.edge.store.sql:SqlStore", "commit", False),
    "in the transaction": ("monitor.edge.store.kept_incidents", "write", True),
    "before the end of the transaction": ("monitor.edge.store.sql:SqlStore", "_write_work", True),
    "committed": ("monitor.edge.store.sql:SqlStore", "commit", True),
    "heartbeat": ("monitor.edge.store.sql:SqlStore", "renew_lease", True),
    "before sending": ("monitor.edge.notifiers.webhook:WebhookNotifier", "send", False),
    "after sending": ("monitor.edge.notifiers.webhook:WebhookNotifier", "send", True),
    "marked as sent": ("monitor.edge.store.sql:SqlStore", "sent", True),
}
"""Name → where (a module or a class of it), which function, and whether behind it rather than
before."""


def set_trap(name: str, hit: int) -> None:
    """From here on this process dies at the `hit`-th time it comes to the trap."""
    place, method, behind = TRAPS[name]
    module, _, kind = place.partition(":")
    owner = getattr(sys.modules[module], kind) if kind else sys.modules[module]
    whole: Callable[..., Any] = getattr(owner, method)
    left = hit

    def trapped(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if behind:
            outcome = whole(*arguments, **named)
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome if behind else whole(*arguments, **named)

    setattr(owner, method, trapped)


def run(order: dict[str, Any]) -> None:
    """The child."""
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if order["trap"] is not None:
        set_trap(order["trap"], order["hit"])
    from monitor.cli import main

    sys.argv = ["least-monitor", "run", "-c", order["config"], "--log-format", "json"]
    os.chdir(os.path.dirname(order["config"]))
    main()


def at_once(pace: Pace, now: datetime) -> None:
    """In the place of `Pace.falls_behind`: the log is of long ago, and told of as if it were news.

    What is told of a backlog depends on when it was read, so no two runs would tell the same.
    """


def host() -> None:
    """Read orders until the end of input."""
    Pace.falls_behind = at_once  # type: ignore[method-assign]
    import psycopg  # noqa: F401

    import monitor.app
    import monitor.commands.run
    import monitor.edge.notifiers.webhook
    import monitor.edge.store.sql
    import monitor.pipeline  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                run(json.loads(line))
            except SystemExit as end:
                os._exit(int(end.code or 0))
            finally:
                os._exit(70)
        print(json.dumps({"process": child}), flush=True)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"ended": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    with without_least():
        host()

"""What a supervisor such as systemd is told: started, how it is, still alive, stopping.

The protocol of sd_notify(3): datagrams to the socket that `NOTIFY_SOCKET` names. Without a
supervisor nothing is sent.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

STATUS_SECONDS = 5.0
"""Between two looks at how the daemon is."""


class Supervisor:
    """Tells the supervisor that started this process.

    Args:
        environ: holds `NOTIFY_SOCKET`, and `WATCHDOG_USEC` with `WATCHDOG_PID` if silence is to be
            taken for a hang. Variables of another process (its parent's) count for nothing.

    Source: sd_notify(3), sd_watchdog_enabled(3).
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        mine = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        microseconds = environ.get("WATCHDOG_USEC", "") if mine and self._address else ""
        self.watchdog_seconds = int(microseconds) / 1e6 if microseconds.isdigit() else None
        self._thread: threading.Thread | None = None

    def watch(
        self, stop: threading.Event, how: Callable[[], str], healthy: Callable[[float], bool]
    ) -> None:
        """Say that we have started; then, in a thread until `stop`, how we are and that we live.

        Args:
            stop: set when the process is asked to end, which is told, too.
            how: one line for people (`systemctl status`).
            healthy: told the watchdog's seconds; false holds the sign of life back.
        """
        if not self._address:
            return
        self.tell("READY=1", f"STATUS={how()}")
        self._thread = threading.Thread(
            target=self._go_on, args=(stop, how, healthy), name="supervisor", daemon=True
        )
        self._thread.start()

    def ended(self) -> None:
        """Wait until the end has been told."""
        if self._thread is not None:
            self._thread.join(STATUS_SECONDS)

    def tell(self, *lines: str) -> None:
        """One datagram of assignments; a supervisor that is gone is no trouble of ours."""
        # A leading @ means Linux's abstract namespace, whose names begin with a zero byte.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        text = "\n".join(line.replace("\n", " ") for line in lines)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            try:
                to.sendto(text.encode(), address)
            except OSError:
                if Path(self._address).exists():
                    raise

    def _go_on(
        self, stop: threading.Event, how: Callable[[], str], healthy: Callable[[float], bool]
    ) -> None:
        # systemd asks for two signs of life a period; a third forgives a busy machine.
        period = self.watchdog_seconds
        pause = min(STATUS_SECONDS, period / 3) if period else STATUS_SECONDS
        told = ""
        while not stop.wait(pause):
            lines, now = [], how()
            if now != told:
                lines.append(f"STATUS={now}")
                told = now
            if period and healthy(period):
                lines.append("WATCHDOG=1")
            if lines:
                self.tell(*lines)
        self.tell("STOPPING=1", "STATUS=finishing the tick at hand")

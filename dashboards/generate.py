"""Grafana dashboards as code: `python -m dashboards.generate` writes json/*.json.

The JSON is committed; a test compares it with what this makes, and runs every expression
against a real Prometheus.
"""

from __future__ import annotations

from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.boards import booking_health, monitor_health, root_causes

FOLDER = Path(__file__).parent / "json"


def generate() -> dict[str, str]:
    """File name → JSON of every dashboard."""
    boards = {
        "root-causes.json": root_causes(),
        "booking-health.json": booking_health(),
        "monitor-health.json": monitor_health(),
    }
    encoder = JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False)
    return {name: encoder.encode(made.build()) + "\n" for name, made in boards.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in generate().items():
        (FOLDER / name).write_text(text, encoding="utf-8")

"""Grafana dashboards as code: `python -m dashboards.generate` writes json/*.json.

The JSON is committed; a test compares it with what this makes, and runs every expression
against a real Prometheus. So it is with the alert rules as the Prometheus operator takes them.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.boards import booking_health, monitor_health, root_causes

FOLDER = Path(__file__).parent / "json"
RULES = FOLDER.parents[1] / "rules" / "least-monitor.rules.yml"
OPERATOR = (
    FOLDER.parents[1] / "deploy/kubernetes/components/prometheus-operator/prometheusrule.yaml"
)


def generate() -> dict[str, str]:
    """File name → JSON of every dashboard."""
    boards = {
        "root-causes.json": root_causes(),
        "booking-health.json": booking_health(),
        "monitor-health.json": monitor_health(),
    }
    encoder = JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False)
    return {name: encoder.encode(made.build()) + "\n" for name, made in boards.items()}


def prometheus_rule() -> str:
    """The file of rules, as a resource of the Prometheus operator."""
    head = "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: least-monitor\n"
    return f"{head}spec:\n{textwrap.indent(RULES.read_text(encoding='utf-8'), '  ')}"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in generate().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    OPERATOR.write_text(prometheus_rule(), encoding="utf-8")

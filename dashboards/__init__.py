"""Grafana dashboards as code; not part of the installed product."""

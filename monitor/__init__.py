"""least-monitor: watches a stream of logs, finds anomalies and names their root cause."""

__version__ = "0.1.0"

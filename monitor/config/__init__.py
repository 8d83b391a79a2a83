"""The configuration: one TOML file, checked whole before anything starts."""

from monitor.config.loading import load
from monitor.config.model import (
    Config,
    FilesSettings,
    HttpSettings,
    LogNotifier,
    OutcomeDefinition,
    StoreSettings,
    TimeDefinition,
    WebhookNotifier,
)
from monitor.config.problems import ConfigError, Problem

__all__ = [
    "Config",
    "ConfigError",
    "FilesSettings",
    "HttpSettings",
    "LogNotifier",
    "OutcomeDefinition",
    "Problem",
    "StoreSettings",
    "TimeDefinition",
    "WebhookNotifier",
    "load",
]

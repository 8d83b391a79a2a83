"""The configuration: one TOML file, checked whole before anything starts."""

from monitor.config.loading import load
from monitor.config.model import (
    AlertmanagerNotifier,
    Config,
    EmailNotifier,
    FilesSettings,
    HttpSettings,
    KafkaSettings,
    LogNotifier,
    Notifier,
    OutcomeDefinition,
    StoreSettings,
    TimeDefinition,
    WebhookNotifier,
)
from monitor.config.problems import ConfigError, Problem

__all__ = [
    "AlertmanagerNotifier",
    "Config",
    "ConfigError",
    "EmailNotifier",
    "FilesSettings",
    "HttpSettings",
    "KafkaSettings",
    "LogNotifier",
    "Notifier",
    "OutcomeDefinition",
    "Problem",
    "StoreSettings",
    "TimeDefinition",
    "WebhookNotifier",
    "load",
]

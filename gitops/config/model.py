"""The configuration as a value, and the error with all mistakes of a configuration file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import timedelta
from pathlib import Path
from typing import Final

from gitops.errors import GitopsError
from gitops.external_facts import ExternalFactSource
from gitops.fleet.access import AccessSettings
from gitops.notifications.receivers import Receiver
from gitops.source_config import SourceConfig
from renderer.errors import Problem
from renderer.frozen import dataclass

DEFAULT_RESYNC: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """Settings of a fleet."""

    source: str
    """Name of the source that may declare clusters."""
    access: AccessSettings
    """Access to the credentials of the clusters."""


@dataclass(frozen=True, slots=True)
class Config:
    """Valid settings of a configuration file. Missing fields have their defaults."""

    sources: tuple[SourceConfig, ...]
    cluster: str
    """Name by which windows select the cluster."""
    externals: tuple[ExternalFactSource, ...] = ()
    context: str = ""
    """Context of the kubeconfig. If the field is empty, Levelgate uses the current context."""
    apply_concurrency: int | None = None
    """Maximum number of concurrent requests to the cluster, or None if the file does not set the field."""
    max_concurrent_reconciles: int | None = None
    """Maximum number of concurrent partial reconciliations, or None if the file does not set the field."""
    listen: str = ""
    """Address of the status page, as written, or an empty string if the file does not set the field."""
    hooks: Mapping[str, Path] = field(default_factory=dict)
    """Providers that may call the webhook, each with the file that holds its secret."""
    fleet: FleetConfig | None = None
    """Settings of the fleet, or None for a single cluster."""
    notifications: tuple[Receiver, ...] = ()
    resync: timedelta = DEFAULT_RESYNC
    """Time between two full reconciliations."""
    log_format: str = ""
    """Format of the log, from `LOG_FORMATS`, or an empty string if the file does not set the field."""
    warnings: tuple[Problem, ...] = ()
    """Findings about valid fields that have no effect."""

    @property
    def governors(self) -> frozenset[str]:
        """Return the names of those sources whose windows and policies apply to all sources."""
        return frozenset(source.name for source in self.sources if source.governs_all)


class ConfigErrors(GitopsError):
    """Rejection of a configuration file, with all mistakes of the file in `problems`."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

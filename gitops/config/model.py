"""What a configuration says, as a value, and what is wrong with one that cannot be taken."""

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
    """What the operator says of several clusters: the one `source` that may declare them, and where their credentials are."""

    source: str
    access: AccessSettings


@dataclass(frozen=True, slots=True)
class Config:
    """What the operator says. `cluster` is the name by which windows select the cluster.

    `context` is that of the kubeconfig, empty: the current one. `apply_concurrency` and `max_concurrent_reconciles` are None
    where nothing is said. `listen` is where the daemon can be seen, empty where nothing is said. `hooks` has the file with
    the secrets of each provider that may call. `fleet` is None where there is one cluster. `resync` is how often everything
    is read anew, `log_format` one of `LOG_FORMATS`, or empty. `warnings` are of what is valid, and selects nothing.
    """

    sources: tuple[SourceConfig, ...]
    cluster: str
    externals: tuple[ExternalFactSource, ...] = ()
    context: str = ""
    apply_concurrency: int | None = None
    max_concurrent_reconciles: int | None = None
    listen: str = ""
    hooks: Mapping[str, Path] = field(default_factory=dict)
    fleet: FleetConfig | None = None
    notifications: tuple[Receiver, ...] = ()
    resync: timedelta = DEFAULT_RESYNC
    log_format: str = ""
    warnings: tuple[Problem, ...] = ()

    @property
    def governors(self) -> frozenset[str]:
        """The sources whose windows and policies govern all."""
        return frozenset(source.name for source in self.sources if source.governs_all)


class ConfigErrors(GitopsError):
    """The file cannot be taken; `problems` has everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

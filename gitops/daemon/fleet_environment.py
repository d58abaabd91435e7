"""Environment that all clusters of a fleet share, and the protocol of observers of one cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from applier.cluster import Cluster, ClusterName
from applier.execute.results import Result
from gitops.clock import Clock
from gitops.daemon.credential_watch import CredentialWatch
from gitops.daemon.turns import Turns
from gitops.fleet.access import AccessSettings
from gitops.fleet.fleet_recorder import FleetRecorder
from gitops.instrumentation import Stage
from gitops.lease_thread import LeaseThread
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.observe import FactsAt
from renderer.frozen import dataclass


@dataclass(frozen=True, kw_only=True)
class FleetEnvironment:
    """Objects and settings that the members of a fleet share: the hub, credentials, the clock, and reconciler settings.

    `hub_id` is the UID of the hub's namespace `kube-system`. `concurrency` limits the requests to one cluster.
    `max_concurrent` limits the partial passes over one cluster.
    """

    hub: Cluster
    hub_id: str
    recorder: FleetRecorder
    access: AccessSettings
    credentials: CredentialWatch
    clock: Clock
    version: str
    identity: str
    lease_thread: LeaseThread
    facts: FactsAt
    stage_of: Callable[[ClusterName], Stage]
    concurrency: int
    max_concurrent: int
    turns: Turns


class ClusterObserver(Protocol):
    """Observer of the work on one cluster, such as a log or the status page."""

    def report_pass(self, reconcile_result: ReconcileResult) -> None:
        """Report the result of a pass."""

    def print_result(self, result: Result) -> None:
        """Print one write, as soon as it has a response."""

    def print_notice(self, source: str, text: str) -> None:
        """Print a notice about a source, or about the `cluster`."""

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
    """Objects and settings that the members of a fleet share, such as the hub, the credentials and the clock."""

    hub: Cluster
    hub_id: str
    """UID of the hub's namespace `kube-system`."""
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
    """Maximum number of requests to one cluster at the same time."""
    max_concurrent: int
    """Maximum number of partial reconciliations of one cluster that run at the same time."""
    turns: Turns


class ClusterObserver(Protocol):
    """Observer of the work on one cluster, such as a log or the status page."""

    def report_pass(self, reconcile_result: ReconcileResult) -> None:
        """Report the result of a reconciliation."""

    def print_result(self, result: Result) -> None:
        """Print one write after the server has answered it."""

    def print_notice(self, source: str, text: str) -> None:
        """Print a notice about a source. For a notice about the cluster, `source` is `cluster`."""

"""Identity of a cluster (the UID of the namespace `kube-system`), and the mark that a hub sets in the cluster.

Invariants:

- Levelgate does not write to a cluster whose UID differs from the recorded UID, that already has another name, or that
  has the mark of another hub.
- A write of the mark replaces exactly the version that the process has read. After a conflict, the process reads the
  mark again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from applier.cluster import LOCAL_CLUSTER, Cluster, ClusterName, Object, Reader
from applier.errors import ClusterError, StaleWrite, UnknownOutcome
from gitops.errors import GitopsError
from gitops.fleet.cluster_record import (
    HUB_MANAGER,
    MAX_WRITE_TRIES,
    NEW_RECORD,
    StoredClusterRecord,
    change_cluster_record,
    record_configmap,
)
from gitops.records.installation import HUB_FIELD, INSTALLATION, claiming_hub, ensure_namespace
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

_KUBE_SYSTEM: Final = ObjectKey("", "Namespace", "", "kube-system")


class UnknownIdentity(GitopsError):
    """Failure to identify a cluster, because the namespace `kube-system` does not exist."""


class ClusterClaimed(GitopsError):
    """Refusal to write to a cluster that belongs to another hub, whose id is `hub_id`. The cluster is unchanged."""

    def __init__(self, name: ClusterName, hub_id: str) -> None:
        super().__init__(
            f"ClusterClaimed: cluster {name} belongs to hub {hub_id} (the UID of that hub's namespace kube-system), "
            "so nothing is written to it; "
            f"remove the declaration, or stop that hub and run: levelgate cluster release {name}"
        )
        self.hub_id = hub_id


@dataclass(frozen=True, slots=True)
class AcceptedIdentity:
    """Judgement that the cluster is the recorded cluster, or a new cluster."""


@dataclass(frozen=True, slots=True)
class WrongCluster:
    """Judgement that the credentials lead to a cluster other than the recorded cluster."""

    name: ClusterName
    recorded_uid: str
    seen_uid: str

    @property
    def message(self) -> str:
        return (
            f"cluster {self.name} had UID {self.recorded_uid} (of namespace kube-system), "
            f"but its credentials now lead to a cluster with UID {self.seen_uid}, "
            f"so nothing is written there; if the cluster was rebuilt, run: levelgate cluster accept {self.name}; "
            "otherwise correct its credentials"
        )


@dataclass(frozen=True, slots=True)
class SameCluster:
    """Judgement that the credentials lead to a cluster that already has another name."""

    name: ClusterName
    other_name: ClusterName
    seen_uid: str

    @property
    def message(self) -> str:
        return (
            f"clusters {self.name} and {self.other_name} are one cluster "
            f"(UID {self.seen_uid} of namespace kube-system), "
            f"so nothing is written as {self.name}; correct the credentials of one cluster, or remove one cluster; "
            f"to keep both names, run: levelgate cluster accept {self.name}"
        )


@dataclass(frozen=True, slots=True)
class HubItself:
    """Judgement that the credentials lead to the hub's own cluster, which already has the name `local`."""

    name: ClusterName

    @property
    def message(self) -> str:
        return (
            f"cluster {self.name} is the hub's own cluster, which has the name {LOCAL_CLUSTER}, "
            f"so nothing is written there as {self.name}; "
            f"declare it as {LOCAL_CLUSTER} (without access), or correct the credentials"
        )


IdentityJudgement = AcceptedIdentity | WrongCluster | SameCluster | HubItself


def judge_identity(
    name: ClusterName, *, recorded_uid: str, seen_uid: str, other_uids: Mapping[ClusterName, str]
) -> IdentityJudgement:
    """Decide from the identity of a cluster whether Levelgate may write to the cluster.

    The function always accepts the recorded UID itself, because a person may have confirmed that the cluster has two
    names.

    Args:
        recorded_uid: recorded UID of the cluster, empty before the first connection to the cluster.
        other_uids: recorded UIDs of all clusters with different names.
    """
    if recorded_uid == seen_uid:
        return AcceptedIdentity()
    for other_name, uid in sorted(other_uids.items()):
        if uid == seen_uid and other_name != name:
            return SameCluster(name, other_name, seen_uid)
    return WrongCluster(name, recorded_uid, seen_uid) if recorded_uid else AcceptedIdentity()


def judge_recorded(
    name: ClusterName, seen_uid: str, records: Mapping[ClusterName, StoredClusterRecord], hub_id: str
) -> IdentityJudgement:
    """Judge the identity of a cluster by the hub's records. The hub's own cluster (`hub_id`) has only one name."""
    if seen_uid == hub_id:
        return HubItself(name)
    uids = {known: stored.record.uid for known, stored in records.items()}
    others = {known: uid for known, uid in uids.items() if known != name}
    return judge_identity(name, recorded_uid=uids.get(name, ""), seen_uid=seen_uid, other_uids=others)


async def read_cluster_uid(cluster: Reader) -> str:
    """Return the UID of a cluster, which never changes. The UID of the hub's own cluster is the id of the hub.

    Raises: UnknownIdentity if the cluster has no namespace `kube-system`, ClusterError if the read fails.
    """
    namespace = await cluster.get(_KUBE_SYSTEM, metadata_only=True)
    if namespace is None or not (uid := namespace["metadata"].get("uid")):
        raise UnknownIdentity(
            "there is no namespace kube-system, whose UID identifies a cluster; connect to a Kubernetes cluster"
        )
    return str(uid)


async def accept_cluster(hub: Cluster, name: ClusterName, seen_uid: str) -> str:
    """Record `seen_uid` as the UID of the cluster. Return the previous UID, or an empty string if no UID was recorded.

    Raises: ClusterError if the hub rejects the record.
    """
    before = await change_cluster_record(hub, name, lambda record: replace(record or NEW_RECORD, uid=seen_uid))
    return before.uid if before else ""


async def claim_cluster(cluster: Cluster, name: ClusterName, hub_id: str) -> bool:
    """Mark the cluster as belonging to the hub `hub_id`, unless the cluster has this mark already.

    Return whether the cluster is new. A new cluster lacks Levelgate's namespace.

    Raises: ClusterClaimed if the cluster belongs to another hub, ClusterError if the cluster rejects the mark.
    """
    lost: ClusterError | None = None
    is_new = False
    for _ in range(MAX_WRITE_TRIES):
        live = await cluster.get(INSTALLATION)
        if live is None:  # Created without a mark. If two hubs do this at once, only one can set a mark.
            is_new = await ensure_namespace(cluster) or is_new
            live = await cluster.apply(record_configmap(INSTALLATION, "installation"), manager=HUB_MANAGER)
        owner = claiming_hub(live)
        if owner and owner != hub_id:
            raise ClusterClaimed(name, owner)
        if owner:
            return is_new
        try:
            if await _write_mark(cluster, live, hub_id):
                return is_new
        except (StaleWrite, UnknownOutcome) as error:
            lost = error
    raise lost or StaleWrite(f"another writer deletes {INSTALLATION} repeatedly; stop that writer")


async def release_cluster(cluster: Cluster) -> str:
    """Remove the mark of any hub from the cluster, so that another hub may claim the cluster.

    Return the id of the hub that had the mark, or an empty string if the cluster has no mark.

    Raises: ClusterError if the cluster rejects the write.
    """
    lost: ClusterError | None = None
    for _ in range(MAX_WRITE_TRIES):
        live = await cluster.get(INSTALLATION)
        if live is None or not (owner := claiming_hub(live)):
            return ""
        try:
            await _write_mark(cluster, live, None)
        except (StaleWrite, UnknownOutcome) as error:
            lost = error
        else:
            return owner
    raise lost or AssertionError("unreachable")


async def _write_mark(cluster: Cluster, live: Object, hub_id: str | None) -> Object | None:
    patch = {"metadata": {"resourceVersion": live["metadata"]["resourceVersion"]}, "data": {HUB_FIELD: hub_id}}
    return await cluster.merge(INSTALLATION, patch, manager=HUB_MANAGER)

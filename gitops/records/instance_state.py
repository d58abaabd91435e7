"""State of an instance according to its own status, for commands and pages that read only the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from applier.causes import Cause, Reason
from applier.cluster import Cluster, Object, list_if_served
from applier.state.observed import annotation, is_terminating
from gitops.records.cause_rows import parse_row, with_wave_progress
from gitops.records.display_state import DisplayState
from gitops.records.installation import INSTALLATION
from gitops.records.source_record import SourceRecord
from gitops.rollouts.directives import Directives
from gitops.rollouts.state import RolloutState
from gitops.timestamps import parse_timestamp
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.levelgate_status import LevelgateStatus, RevisionAtCommit

_NO_ROLLOUTS: Final[Mapping[str, RolloutState]] = {}


def _drop_repeated_failures(causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Return `causes` without the causes of the whole instance that repeat the failure of a node.

    A repeated failure has the same reason and the same message. Causes other than failures stay, because a closed gate
    of the instance is a gate of its rollout, not of the node.
    """
    node_failures = {(cause.reason, cause.message) for cause in causes if cause.node and cause.reason.is_failure}
    return tuple(cause for cause in causes if cause.node or (cause.reason, cause.message) not in node_failures)


@dataclass(frozen=True, slots=True)
class InstanceState:
    """State of one instance, parsed from its status. Fields that the status lacks are empty or None."""

    key: ObjectKey
    reason: Reason
    message: str
    since: datetime | None
    """Time of the last change of the condition `Propagated` between true and false."""
    target: RevisionAtCommit
    applied: RevisionAtCommit
    settled: RevisionAtCommit
    source: str
    rollout: str
    wave: str
    deadline: datetime | None
    """Time in UTC at which the instance fails if it is not settled, or None if the instance does not move."""
    nodes: Mapping[str, int] | None
    """Numbers of nodes: total, updated, healthy, blocked."""
    labels: Mapping[str, str] | None
    kro_state: str
    """Field `state` of kro, for example `ACTIVE`."""
    conditions: Mapping[str, str] | None
    """Status of each condition by type."""
    causes: tuple[Cause, ...]
    is_terminating: bool
    file: str
    """File and line in Git that declared the instance when Levelgate last wrote the instance."""

    @classmethod
    def from_object(cls, instance: Object, rollouts: Mapping[str, RolloutState] = _NO_ROLLOUTS) -> InstanceState:
        """Return the state of the live object `instance`.

        Only the records of rollouts store the forecasts of waves, so the function adds the forecasts to the causes.

        Args:
            rollouts: states of rollouts by name.
        """
        status, own_status = instance.get("status") or {}, LevelgateStatus.from_instance(instance)
        conditions_by_type = {condition.get("type"): condition for condition in status.get("conditions") or ()}
        propagated = conditions_by_type.get("Propagated") or conditions_by_type.get("InstanceManaged") or {}
        cause = parse_row(propagated)
        name, wave = own_status.rollout.get("name", ""), own_status.rollout.get("wave", "")
        waves = rollouts[name].waves if name in rollouts else ()
        shared_progress = next((candidate for candidate in waves if candidate.name == wave), None)
        return cls(
            key=ObjectKey.from_manifest(instance),
            reason=cause.reason,
            message=cause.message,
            since=parse_timestamp(propagated.get("lastTransitionTime")),
            target=RevisionAtCommit.from_dict(own_status.target),
            applied=RevisionAtCommit.from_dict(own_status.applied),
            settled=RevisionAtCommit.from_dict(own_status.settled),
            source=own_status.source,
            rollout=name,
            wave=wave,
            deadline=parse_timestamp(own_status.progress.get("deadline")),
            nodes=own_status.nodes or None,
            labels=instance["metadata"].get("labels") or {},
            kro_state=status.get("state", ""),
            conditions={kind: entry.get("status", "") for kind, entry in conditions_by_type.items() if kind},
            causes=_drop_repeated_failures(
                [with_wave_progress(parse_row(row), shared_progress) for row in own_status.blocked]
            ),
            is_terminating=is_terminating(instance),
            file=annotation(instance, well_known.FILE),
        )

    @property
    def is_settled(self) -> bool:
        """Return whether all objects of the instance match Git and are healthy."""
        return self.reason is Reason.SETTLED

    @property
    def display_causes(self) -> tuple[Cause, ...]:
        """Return the causes to display, the worst first.

        If the instance is settled, return no cause. If no cause is recorded, return a cause with the reason of the
        instance itself.
        """
        if self.is_settled:
            return ()
        return self.causes or (Cause(self.reason, self.message, since=self.since),)

    @property
    def state(self) -> DisplayState:
        """Return Terminating while the API server deletes the instance, otherwise the worst state of its causes."""
        if self.is_terminating:
            return DisplayState.TERMINATING
        return DisplayState.from_reasons(cause.reason for cause in self.display_causes)


async def list_instances(
    cluster: Cluster, kind: GroupKind, rollouts: Mapping[str, RolloutState]
) -> list[InstanceState]:
    """Return the states of the instances of `kind` that Levelgate manages, ordered by key. Raises: ClusterError."""
    objects = await list_if_served(cluster, kind, selector=well_known.PARENT_ID)
    return sorted((InstanceState.from_object(instance, rollouts) for instance in objects), key=lambda state: state.key)


async def describe_suspension(cluster: Cluster, now: datetime) -> str:
    """Return a message that everything is suspended, or an empty string if the installation is not suspended.

    While everything is suspended, Levelgate updates no status.

    Raises: ClusterError.
    """
    suspension = Directives.from_objects(None, await cluster.get(INSTALLATION)).active_suspension(now, "Everything is")
    return f"{suspension.message}. The states below are from before the suspension." if suspension else ""


async def list_all_instances(
    cluster: Cluster, records: Iterable[SourceRecord], rollouts: Mapping[str, RolloutState]
) -> list[InstanceState]:
    """Return the states of all instances that the records of sources in `records` name. Send one request for each kind.

    Raises: ClusterError.
    """
    kinds = sorted({key.group_kind for record in records for key in record.scopes})
    return [
        state
        for states in await asyncio.gather(*(list_instances(cluster, kind, rollouts) for kind in kinds))
        for state in states
    ]

"""Overview of a cluster's records: sources, rollouts, instances, and their differences from Git."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from applier.causes import Cause
from applier.cluster import Cluster
from applier.state.observed import label
from gitops.records.cause_rows import parse_row
from gitops.records.display_state import DisplayState, count_states
from gitops.records.installation import INSTALLATION, configured_sources, find_sources_without_commit
from gitops.records.instance_state import InstanceState, list_all_instances
from gitops.records.rollout_records import Rollouts
from gitops.records.source_record import SourceRecord, read_records
from gitops.rollouts.state import RolloutState, WaveProgress
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, source_parent


@dataclass(frozen=True, slots=True)
class RolloutOverview:
    """A rollout with the state of its instances."""

    name: str
    record: RolloutState
    state: DisplayState
    since: datetime | None
    """Start of the move to the current targets, or None if no record contains the start."""
    revisions: Mapping[str, int]
    """Number of instances by applied revision number, which is a string.

    `0` stands for instances without an applied revision.
    """

    @property
    def waves(self) -> tuple[WaveProgress, ...]:
        """Return the waves with at least one instance."""
        return tuple(wave for wave in self.record.waves if wave.total)

    @property
    def wave(self) -> str:
        """Return the current wave and its number, such as `prod 2/2`.

        If all waves are done, or if the rollout has fewer than two waves, the text is empty.
        """
        names = [wave.name for wave in self.waves]
        current = next((wave.name for wave in self.waves if wave.settled + wave.held + wave.failed < wave.total), "")
        return f"{current} {names.index(current) + 1}/{len(names)}" if current and len(names) > 1 else ""

    @property
    def targets(self) -> str:
        """Return the target revisions, newest first, such as `r13`. Overlapping rollouts have several targets."""
        numbers = sorted({target.revision for target in self.record.targets.values()}, reverse=True)
        return ", ".join(f"r{number}" for number in numbers)


@dataclass(frozen=True, slots=True)
class Overview:
    """Sources, rollouts and instances of a cluster."""

    sources: Mapping[str, SourceRecord]
    rollouts: tuple[RolloutOverview, ...]
    instances: tuple[InstanceState, ...]
    unconfigured: frozenset[str]
    """Sources that are no longer in the configuration of the daemon, although objects of them remain."""

    @classmethod
    async def from_cluster(cls, cluster: Cluster, *, now: datetime) -> Overview:
        """Read the overview from the records of the cluster. Raises: ClusterError."""
        records, stored_rollouts, installation = await asyncio.gather(
            read_records(cluster), Rollouts.observe(cluster), cluster.get(INSTALLATION)
        )
        records += await find_sources_without_commit(cluster, installation, records)
        states = stored_rollouts.states(now)
        instances = await list_all_instances(cluster, [record for _, record in records], states)
        rollouts = [_rollout_overview(name, state, instances) for name, state in sorted(states.items())]
        configured = configured_sources(installation)
        unconfigured = frozenset(name for name, _ in records if configured is not None and name not in configured)
        sources = {name: record for name, record in records if name not in unconfigured or record.kinds}
        return cls(sources, tuple(rollouts), tuple(instances), unconfigured & sources.keys())

    @property
    def is_empty(self) -> bool:
        return not (self.sources or self.rollouts or self.instances)

    def for_object(self, key: ObjectKey) -> Overview:
        """Return the part of the overview that concerns one source or instance.

        Args:
            key: key of the instance, or of the record of the source.
        """
        sources = {name: record for name, record in self.sources.items() if source_parent(name) == key}
        instances = [
            instance for instance in self.instances if instance.key == key or source_parent(instance.source) == key
        ]
        rollouts = [
            rollout for rollout in self.rollouts if rollout.name in {selected.rollout for selected in instances}
        ]
        return replace(self, sources=sources, rollouts=tuple(rollouts), instances=tuple(instances))

    async def with_instance(self, cluster: Cluster, key: ObjectKey) -> Overview:
        """If the overview has no instances, add the live instance `key`. Return the overview.

        A person may have the permission to read the instance, but not the record that names the instance.

        Raises: ClusterError.
        """
        live = None if self.instances else await cluster.get(key)
        if live is None or not label(live, well_known.PARENT_ID):
            return self
        return replace(self, instances=(InstanceState.from_object(live),))

    def for_rollout(self, name: str) -> Overview:
        """Return the part of the overview that concerns the rollout `name`."""
        matching = tuple(rollout for rollout in self.rollouts if rollout.name == name)
        return replace(
            self,
            sources={},
            rollouts=matching,
            instances=tuple(instance for instance in self.instances if instance.rollout == name),
        )

    def in_namespace(self, namespace: str) -> Overview:
        """Return the overview with only the instances of one namespace."""
        return replace(
            self, instances=tuple(instance for instance in self.instances if instance.key.namespace == namespace)
        )

    @property
    def causes(self) -> Iterator[tuple[str, Cause]]:
        """Yield the causes of the sources, each with its source.

        Leave out the causes that an unsettled instance reports.
        """
        instance_keys = {instance.key for instance in self.instances if not instance.is_settled}
        for name, record in self.sources.items():
            yield from (
                (name, cause) for cause in map(parse_row, record.causes) if cause.object_key not in instance_keys
            )


def _rollout_overview(name: str, record: RolloutState, instances: list[InstanceState]) -> RolloutOverview:
    own_instances = [instance for instance in instances if instance.rollout == name]
    target_times = [entry.at for entry in record.decisions if entry.what == "target"]
    since = (
        max(target_times)
        if target_times
        else min(
            (instance.since for instance in own_instances if instance.since and not instance.is_settled), default=None
        )
    )
    revisions = Counter(str(instance.applied.revision) for instance in own_instances)
    return RolloutOverview(
        name,
        record,
        DisplayState.worst(
            [
                DisplayState.from_reasons(instance.reason for instance in own_instances),
                # The record counts too, because instances may not exist yet, or their source may be gone.
                *(state for state, number in count_states(record.waves).items() if number),
            ]
        ),
        since,
        revisions,
    )

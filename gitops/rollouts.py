"""Records of rollouts as they are stored: a ConfigMap for each, in Levelgate's own namespace.

A record is written before anything that it decides is acted on, and only over the version that was read: what a person wrote meanwhile wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from applier.cluster import PARENT, Cluster, Object
from gitops.propagation.state import State
from renderer import keys
from renderer.identity import GroupKind, ObjectKey
from renderer.render import OWN_NAMESPACE

PREFIX = "rollout-"
ROLLOUT = "rollout"
"""Value of the label `internal.levelgate.dev/record`."""


def rollout_key(name: str) -> ObjectKey:
    """The record of the rollout of this name: a definition's, or DEFINITION.POLICY under a policy for some of its instances."""
    return ObjectKey("", "ConfigMap", OWN_NAMESPACE, f"{PREFIX}{name}")


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Stored rollouts by name, as read."""

    records: Mapping[str, Object] = field(default_factory=dict)

    @classmethod
    async def observe(cls, cluster: Cluster) -> Rollouts:
        """Read all. Raises ClusterError."""
        found = await cluster.list(GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=f"{keys.RECORD}={ROLLOUT}")
        return cls({obj["metadata"]["name"].removeprefix(PREFIX): obj for obj in found})

    def states(self, now: datetime) -> dict[str, State]:
        return {name: State.read(obj.get("data") or {}, now=now) for name, obj in self.records.items()}

    async def store(self, cluster: Cluster, states: Mapping[str, State]) -> Rollouts:
        """Write those that differ. Raises ClusterError; StaleWrite where somebody else has written since."""
        records = dict(self.records)
        for name in self.due(states):
            records[name] = await cluster.apply(self._body(name, states[name]), manager=PARENT, force=True)
        return Rollouts(records)

    def due(self, states: Mapping[str, State]) -> list[str]:
        """Names of the records that these states change."""
        return [
            name
            for name, state in sorted(states.items())
            if state.data() != (self.records.get(name, {}).get("data") or {})
        ]

    def _body(self, name: str, state: State) -> Object:
        key = rollout_key(name)
        metadata: Object = {"name": key.name, "namespace": key.namespace, "labels": {keys.RECORD: ROLLOUT}}
        if known := self.records.get(name):
            metadata |= {field: known["metadata"][field] for field in ("uid", "resourceVersion")}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": state.data()}

"""Records of rollouts as they are stored: a ConfigMap for each, in Levelgate's own namespace.

A record is written before anything that it decides is acted on, and only over the version that was read: what a person wrote meanwhile wins. The
write that records what became of people's requests takes these away.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Final

from applier.cluster import PARENT, Cluster, Object
from applier.errors import StaleWrite
from applier.state.observed import label
from gitops.rollouts.requests import REQUEST_KEYS, RolloutRequest, requests
from gitops.rollouts.state import TOLD, RolloutState
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey

PREFIX = "rollout-"
ROLLOUT = "rollout"
"""Value of the label `internal.levelgate.dev/record`."""

_OF_NOTHING: Final = "1"
"""A version that no object has, since the first that is stored is the second of the store: an apply with it creates, and overwrites nothing."""


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
        found = await cluster.list(GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=f"{well_known.RECORD}={ROLLOUT}")
        return cls.of(found)

    @classmethod
    def of(cls, records: Iterable[Object]) -> Rollouts:
        """Those among our own records."""
        found = [obj for obj in records if label(obj, well_known.RECORD) == ROLLOUT]
        return cls({obj["metadata"]["name"].removeprefix(PREFIX): obj for obj in found})

    def states(self, now: datetime) -> dict[str, RolloutState]:
        return {name: RolloutState.read(obj.get("data") or {}, now=now) for name, obj in self.records.items()}

    @property
    def requests(self) -> dict[str, tuple[RolloutRequest, ...]]:
        """What people ask of each rollout; those of which nothing is asked are left out."""
        return {name: asked for name, obj in self.records.items() if (asked := requests(obj))}

    def storing(self, objects: Iterable[Object]) -> Rollouts:
        """With those of these objects that are records of rollouts, as they were stored."""
        return Rollouts({**self.records, **Rollouts.of(objects).records})

    def due(self, states: Mapping[str, RolloutState], *, is_told: bool = True) -> list[str]:
        """Names of the records that these states change or answer; of what is only told (`TOLD`) where it `is_told` now."""
        asked, ignored = self.requests, frozenset() if is_told else TOLD
        return [
            name
            for name, state in sorted(states.items())
            if name in asked
            or _without(ignored, state.data()) != _without(ignored, self.records.get(name, {}).get("data") or {})
        ]

    async def write(self, cluster: Cluster, *, name: str, state: RolloutState) -> Object:
        """Write one, and take away the requests that it answers. Raises ClusterError; StaleWrite where somebody else has written since."""
        key, data = rollout_key(name), state.data()
        if (known := self.records.get(name)) is None:
            body = rollout_body(name, state)
            body["metadata"]["resourceVersion"] = _OF_NOTHING
            return await cluster.apply(body, manager=PARENT, force=True)
        metadata: Object = {"labels": {well_known.RECORD: ROLLOUT}}
        # A merge, because an apply cannot take away what somebody else has written.
        metadata |= {field: known["metadata"][field] for field in ("uid", "resourceVersion")}
        annotations = known["metadata"].get("annotations") or {}
        if gone := [name for name in REQUEST_KEYS if name in annotations]:
            metadata["annotations"] = dict.fromkeys(gone)
        gone_data = dict.fromkeys((known.get("data") or {}).keys() - data.keys())
        stored = await cluster.merge(key, {"metadata": metadata, "data": {**gone_data, **data}}, manager=PARENT)
        if stored is None:
            raise StaleWrite(f"{key}: it was deleted meanwhile")
        return stored


def rollout_body(name: str, state: RolloutState) -> Object:
    """The record as it is made."""
    key = rollout_key(name)
    metadata = {"name": key.name, "namespace": key.namespace, "labels": {well_known.RECORD: ROLLOUT}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": state.data()}


def _without(names: Container[str], data: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in data.items() if name not in names}

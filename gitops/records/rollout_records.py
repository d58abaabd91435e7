"""Records of rollouts as they are stored: a ConfigMap for each, in Levelgate's own namespace.

A record is written before anything that it decides is acted on, and only over the version that was read: what a person wrote meanwhile wins. The
write that records what became of people's requests takes these away. Data is text, and equal states give equal text.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, field
from datetime import datetime
from typing import Any, Final

import msgspec
import orjson

from applier.cluster import PARENT_MANAGER, Cluster, Object
from applier.errors import StaleWrite
from applier.state.observed import label
from gitops.rollouts.requests import REQUEST_KEYS, RolloutRequest, parse_requests
from gitops.rollouts.state import ANY_TARGET, CONTROLLER, REPORT_FIELDS, Halt, RolloutState
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey

PREFIX = "rollout-"
ROLLOUT = "rollout"
"""Value of the label `internal.levelgate.dev/record`."""

_NONEXISTENT_VERSION: Final = "1"
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
        objects = await cluster.list(
            GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=f"{well_known.RECORD}={ROLLOUT}"
        )
        return cls.from_objects(objects)

    @classmethod
    def from_objects(cls, records: Iterable[Object]) -> Rollouts:
        """Those among our own records."""
        rollout_records = [obj for obj in records if label(obj, well_known.RECORD) == ROLLOUT]
        return cls({obj["metadata"]["name"].removeprefix(PREFIX): obj for obj in rollout_records})

    def states(self, now: datetime) -> dict[str, RolloutState]:
        return {name: decode_rollout(obj.get("data") or {}, now=now) for name, obj in self.records.items()}

    @property
    def requests(self) -> dict[str, tuple[RolloutRequest, ...]]:
        """What people ask of each rollout; those of which nothing is asked are left out."""
        return {
            name: rollout_requests for name, obj in self.records.items() if (rollout_requests := parse_requests(obj))
        }

    def with_stored(self, objects: Iterable[Object]) -> Rollouts:
        """With those of these objects that are records of rollouts, as they were stored."""
        return Rollouts({**self.records, **Rollouts.from_objects(objects).records})

    def changed_names(self, states: Mapping[str, RolloutState], *, includes_report: bool) -> list[str]:
        """Names of the records that these states change or answer; of what is only told (`TOLD`) where it `is_told` now."""
        pending_requests, ignored_keys = self.requests, frozenset() if includes_report else REPORT_FIELDS
        return [
            name
            for name, state in sorted(states.items())
            if name in pending_requests
            or _without_keys(ignored_keys, encode_rollout(state))
            != _without_keys(ignored_keys, self.records.get(name, {}).get("data") or {})
        ]

    async def write(self, cluster: Cluster, *, name: str, state: RolloutState) -> Object:
        """Write one, and take away the requests that it answers. Raises ClusterError; StaleWrite where somebody else has written since."""
        key, data = rollout_key(name), encode_rollout(state)
        if (previous := self.records.get(name)) is None:
            body = rollout_body(name, state)
            body["metadata"]["resourceVersion"] = _NONEXISTENT_VERSION
            return await cluster.apply(body, manager=PARENT_MANAGER, force=True)
        metadata: Object = {"labels": {well_known.RECORD: ROLLOUT}}
        # A merge, because an apply cannot take away what somebody else has written.
        metadata |= {field: previous["metadata"][field] for field in ("uid", "resourceVersion")}
        annotations = previous["metadata"].get("annotations") or {}
        if answered_keys := [name for name in REQUEST_KEYS if name in annotations]:
            metadata["annotations"] = dict.fromkeys(answered_keys)
        removed_data = dict.fromkeys((previous.get("data") or {}).keys() - data.keys())
        stored = await cluster.merge(
            key, {"metadata": metadata, "data": {**removed_data, **data}}, manager=PARENT_MANAGER
        )
        if stored is None:
            raise StaleWrite(f"{key}: it was deleted meanwhile")
        return stored


def encode_rollout(state: RolloutState) -> dict[str, str]:
    """Return the state as a ConfigMap's data."""
    values = {name: getattr(state, name) for name in RolloutState.__slots__}
    values["halts"] = [asdict(halt, dict_factory=_drop_none) for halt in state.halts]
    return {
        name: orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z).decode()
        for name, value in values.items()
        if value
    }


def decode_rollout(data: Mapping[str, str], *, now: datetime) -> RolloutState:
    """Return the inverse of `encode_rollout`; keys that it does not know are passed over.

    A record that cannot be read comes back halted, whatever the target, because a halt may be what it said.
    """
    try:
        stored = {name: orjson.loads(text) for name, text in data.items() if name in RolloutState.__slots__}
        return msgspec.convert(stored, RolloutState)
    except (orjson.JSONDecodeError, msgspec.ValidationError) as error:
        halt = Halt(ANY_TARGET, now, CONTROLLER, f"the record of this rollout cannot be read: {error}")
        return RolloutState(halts=(halt,))


def _drop_none(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value is not None}


def rollout_body(name: str, state: RolloutState) -> Object:
    """The record as it is made."""
    key = rollout_key(name)
    metadata = {"name": key.name, "namespace": key.namespace, "labels": {well_known.RECORD: ROLLOUT}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": encode_rollout(state)}


def _without_keys(keys: Container[str], data: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in data.items() if name not in keys}

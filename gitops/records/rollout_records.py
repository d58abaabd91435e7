"""Records of rollouts, one ConfigMap for each rollout.

Levelgate writes a record before a decision in the record takes effect. If the record has changed since Levelgate read
it, the write fails, so that no request of a person is lost. The write that records the answers to requests removes the
annotations of the requests. Equal states have equal text.
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
"""Value of the label `internal.levelgate.dev/record` on the record of a rollout."""

_NONEXISTENT_VERSION: Final = "1"
"""A `resourceVersion` that no object can have.

If the object does not exist, an apply with this version creates the object. Otherwise the apply fails.
"""


def rollout_key(name: str) -> ObjectKey:
    """Return the key of the record of the rollout `name`.

    Args:
        name: name of the definition, or `DEFINITION.POLICY` if the policy selects instances.
    """
    return ObjectKey("", "ConfigMap", OWN_NAMESPACE, f"{PREFIX}{name}")


@dataclass(frozen=True, slots=True)
class Rollouts:
    """ConfigMaps that store the states and requests of rollouts."""

    records: Mapping[str, Object] = field(default_factory=dict)
    """ConfigMaps by name of the rollout."""

    @classmethod
    async def observe(cls, cluster: Cluster) -> Rollouts:
        """Return the records of all rollouts in `cluster`. Raises: ClusterError."""
        objects = await cluster.list(
            GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=f"{well_known.RECORD}={ROLLOUT}"
        )
        return cls.from_objects(objects)

    @classmethod
    def from_objects(cls, records: Iterable[Object]) -> Rollouts:
        """Return the members of `records` that are records of rollouts."""
        rollout_records = [obj for obj in records if label(obj, well_known.RECORD) == ROLLOUT]
        return cls({obj["metadata"]["name"].removeprefix(PREFIX): obj for obj in rollout_records})

    def states(self, now: datetime) -> dict[str, RolloutState]:
        """Return the stored states by name of the rollout. An unreadable record counts as halted since `now`."""
        return {name: decode_rollout(obj.get("data") or {}, now=now) for name, obj in self.records.items()}

    @property
    def requests(self) -> dict[str, tuple[RolloutRequest, ...]]:
        """Return the requests to each rollout, by name of the rollout. Leave out rollouts without a request."""
        return {
            name: rollout_requests for name, obj in self.records.items() if (rollout_requests := parse_requests(obj))
        }

    def with_stored(self, objects: Iterable[Object]) -> Rollouts:
        """Return the records, updated with the rollout records among `objects`, which come from the API server."""
        return Rollouts({**self.records, **Rollouts.from_objects(objects).records})

    def with_pending_states(self, states: Mapping[str, RolloutState]) -> Rollouts:
        """Return the records as if `states` were stored. The states answer the requests to these rollouts."""
        pending = {name: rollout_body(name, state) for name, state in states.items()}
        for name in pending.keys() & self.records.keys():
            metadata = self.records[name]["metadata"]
            annotations = metadata.get("annotations") or {}
            unanswered = {key: value for key, value in annotations.items() if key not in REQUEST_KEYS}
            pending[name]["metadata"] = {**metadata, "annotations": unanswered}
        return Rollouts({**self.records, **pending})

    def changed_names(self, states: Mapping[str, RolloutState], *, includes_report: bool) -> list[str]:
        """Return the names of the rollouts in `states` whose record a reconciliation has to write.

        If a record differs from the state, or has a request that the state answers, the record needs a write. Without
        `includes_report`, differences in `REPORT_FIELDS` do not count.
        """
        pending_requests, ignored_keys = self.requests, frozenset() if includes_report else REPORT_FIELDS
        return [
            name
            for name, state in sorted(states.items())
            if name in pending_requests
            or _without_keys(ignored_keys, encode_rollout(state))
            != _without_keys(ignored_keys, self.records.get(name, {}).get("data") or {})
        ]

    async def write(self, cluster: Cluster, *, name: str, state: RolloutState) -> Object:
        """Write `state` to the record of the rollout `name`, and return the record.

        The write removes the requests that `state` answers.

        Raises: StaleWrite if the record differs from the version that was read, ClusterError.
        """
        key, data = rollout_key(name), encode_rollout(state)
        if (previous := self.records.get(name)) is None:
            body = rollout_body(name, state)
            body["metadata"]["resourceVersion"] = _NONEXISTENT_VERSION
            return await cluster.apply(body, manager=PARENT_MANAGER, force=True)
        metadata: Object = {"labels": {well_known.RECORD: ROLLOUT}}
        # A merge patch, because server-side apply cannot remove the annotations of other field managers.
        metadata |= {field: previous["metadata"][field] for field in ("uid", "resourceVersion")}
        annotations = previous["metadata"].get("annotations") or {}
        if answered_keys := [name for name in REQUEST_KEYS if name in annotations]:
            metadata["annotations"] = dict.fromkeys(answered_keys)
        removed_data = dict.fromkeys((previous.get("data") or {}).keys() - data.keys())
        stored = await cluster.merge(
            key, {"metadata": metadata, "data": {**removed_data, **data}}, manager=PARENT_MANAGER
        )
        if stored is None:
            raise StaleWrite(f"{key} was deleted before the write")
        return stored


def encode_rollout(state: RolloutState) -> dict[str, str]:
    """Return the data of the ConfigMap that stores `state`."""
    values = {name: getattr(state, name) for name in RolloutState.__slots__}
    values["decisions"] = [asdict(decision, dict_factory=_drop_commit) for decision in state.decisions]
    values["halts"] = [asdict(halt, dict_factory=_drop_none) for halt in state.halts]
    return {
        name: orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z).decode()
        for name, value in values.items()
        if value
    }


def decode_rollout(data: Mapping[str, str], *, now: datetime) -> RolloutState:
    """Return the state from which `encode_rollout` made `data`, without unknown keys.

    If `data` is unreadable, return a state with a halt of every target, because the record may have stored a halt.
    """
    try:
        stored = {name: orjson.loads(text) for name, text in data.items() if name in RolloutState.__slots__}
        return msgspec.convert(stored, RolloutState)
    except (orjson.JSONDecodeError, msgspec.ValidationError) as error:
        why = f"the record of this rollout cannot be read: {error}; check the instances, then resume the rollout"
        halt = Halt(ANY_TARGET, now, CONTROLLER, why)
        return RolloutState(halts=(halt,))


def _drop_commit(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a decision, without a commit if it has none."""
    return {name: value for name, value in pairs if value or name != "commit"}


def _drop_none(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value is not None}


def rollout_body(name: str, state: RolloutState) -> Object:
    """Return the manifest of a new record for the rollout `name`."""
    key = rollout_key(name)
    metadata = {"name": key.name, "namespace": key.namespace, "labels": {well_known.RECORD: ROLLOUT}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": encode_rollout(state)}


def _without_keys(keys: Container[str], data: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in data.items() if name not in keys}

"""Records and instances of one cluster for an explanation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime

from applier.causes import Cause, Reason
from applier.cluster import Cluster, Object
from applier.errors import KindNotServed
from applier.plan.model import Operation
from applier.state.observed import annotation, label
from gitops.explain.explanation import ClosedWindowLink, Link
from gitops.records.cause_rows import parse_row
from gitops.records.instance_state import InstanceState, list_instances
from gitops.records.left_behind import LeftBehindMember
from gitops.records.references import Ref
from gitops.records.source_record import SourceRecord
from gitops.rollouts.source_rules import SourceRules
from gitops.rollouts.state import RolloutState
from gitops.windows.verdict import start_state
from gitops.windows.window import Window, WindowKind, WindowTarget
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey, applyset_id, source_parent
from renderer.kinds import CRD
from renderer.phrasing import join_names


@dataclass
class RecordedState:
    """Records of sources, windows and rollouts in a cluster. The class lists instances on demand, each kind once."""

    cluster: Cluster
    now: datetime
    cluster_name: str
    """Name by which windows select the cluster."""
    records: Sequence[tuple[str, SourceRecord]]
    rules: Sequence[SourceRules]
    rollouts: Mapping[str, RolloutState]
    _instances_by_kind: dict[GroupKind, list[InstanceState]] = field(default_factory=dict)

    def find_left_behind(self, key: ObjectKey) -> tuple[str, LeftBehindMember] | None:
        """Return the source that has left the object `key` behind, and the record of the object, or None."""
        for source, record in self.records:
            if member := record.left_behind.find(key):
                return source, member
        return None

    def left_behind_cause(self, source: str, member: LeftBehindMember) -> Cause:
        """Return the cause of an object left behind.

        The start time of the cause is the start time of the source's cause `LeftBehind`.
        """
        rows = map(parse_row, dict(self.records)[source].causes)
        return replace(member.cause, since=next((row.since for row in rows if row.reason is Reason.LEFT_BEHIND), None))

    def find_source_causes(self, key: ObjectKey) -> tuple[str, list[Cause]] | None:
        """Return the first source that reports causes of the object `key`, with the causes, or None."""
        for source, record in self.records:
            rows = map(parse_row, record.causes)
            if causes := [cause for cause in rows if key == cause.object_key or str(key) == cause.node]:
                return source, causes
        return None

    @property
    def unwritten_note(self) -> str:
        """Return a note on sources that have no applied object, because a missing object may belong to such a source.

        If every source has an applied object, return an empty string.
        """
        names = [f"source/{name}" for name, record in self.records if not (record.kinds or record.applied)]
        return f"; no object of {join_names(names)} is applied yet; run levelgate explain {names[0]}" if names else ""

    def find_refused_object(self, ref: Ref, namespace: str) -> ObjectKey | None:
        """Return the rejected object that `ref` names, from the records of sources, or None.

        The server need not serve the kind of the object.
        """
        keys = (ObjectKey.parse(row.get("object", "")) for _, record in self.records for row in record.causes)
        for key in filter(None, keys):
            type_names = {key.kind.lower(), f"{key.kind.lower()}.{key.group}"}
            if ref.type.lower() in type_names and key.name == ref.name and key.namespace in {"", namespace}:
                return key
        return None

    async def open_windows(self, instance: InstanceState, chain: Sequence[Link]) -> tuple[Window, ...]:
        """Return the open Allow windows that govern `instance` and are not in `chain`."""
        kind = instance.key.group_kind
        resources_by_plural = {
            resource.plural: resource
            for resource in (await self.cluster.discover()).resources.values()
            if resource.group_kind == kind
        }
        crd = await self.cluster.get(
            ObjectKey(*CRD, "", f"{next(iter(resources_by_plural), '')}.{kind.group}"), metadata_only=True
        )
        definition = annotation(crd, well_known.DEFINITION) if crd else ""
        target = WindowTarget(kind, instance.key.namespace, self.cluster_name, rgd=definition, labels=instance.labels)
        shown_names = {link.closed_window.window.name for link in chain if isinstance(link, ClosedWindowLink)}
        return tuple(
            window
            for rules in self.rules
            if rules.source == instance.source
            for window in rules.windows.values()
            if window.name not in shown_names
            and window.kind is WindowKind.ALLOW
            and window.governs(target, Operation.UPDATE)
            and not is_closed(window, self.now)
        )

    def find_windows(self, names: Iterable[str], instance: InstanceState | None) -> Iterator[tuple[Window, str]]:
        """Yield the windows in force with the names `names`, each with its source.

        If several sources have a window of the same name, prefer the source of `instance`.
        """
        ordered = sorted(self.rules, key=lambda rules: rules.source != (instance.source if instance else ""))
        for name in names:
            if source_rules := next((rules for rules in ordered if name in rules.windows), None):
                yield source_rules.windows[name], source_rules.source

    async def find_owner(self, live: Object) -> tuple[ObjectKey | None, InstanceState | None]:
        """Return the parent of the object's ApplySet, and the state of a parent that is an instance."""
        part_of = label(live, well_known.PART_OF)
        for source, record in self.records:
            if part_of == applyset_id(source_parent(source)):
                return source_parent(source), None
            for instance in record.scopes:
                if part_of == applyset_id(instance):
                    return await self._read_instance(instance)
        kind, _, qualified_name = annotation(live, well_known.INSTANCE).partition("/")
        namespace, _, name = qualified_name.rpartition("/")
        # After Git removes an instance, no record contains the instance, but its members still name it.
        for group_kind in (await self.cluster.discover()).resources if kind else ():
            if group_kind.kind == kind and part_of == applyset_id(instance := ObjectKey(*group_kind, namespace, name)):
                return await self._read_instance(instance)
        return None, None

    async def _read_instance(self, instance: ObjectKey) -> tuple[ObjectKey, InstanceState | None]:
        """Return the key of the instance, and its state. If the instance does not exist, the state is None."""
        live = await self.read_live(instance)
        return instance, InstanceState.from_object(live, self.rollouts) if live else None

    async def read_live(self, key: ObjectKey) -> Object | None:
        """Return the live object, or None if the object or its kind does not exist on the server."""
        try:
            return await self.cluster.get(key)
        except KindNotServed:
            return None

    async def instances_of(self, kind: GroupKind) -> list[InstanceState]:
        """Return the instances of a kind. Only the first call for a kind lists the instances."""
        if kind not in self._instances_by_kind:
            self._instances_by_kind[kind] = await list_instances(self.cluster, kind, self.rollouts)
        return self._instances_by_kind[kind]

    async def all_instances(self) -> list[InstanceState]:
        """Return all instances of all kinds that a record of a source contains."""
        kinds = sorted({key.group_kind for _, record in self.records for key in record.scopes})
        return [instance for kind in kinds for instance in await self.instances_of(kind)]


def is_closed(window: Window, now: datetime) -> bool:
    """Return whether the window holds up governed changes at the time `now`."""
    return window.timeline.span(now).active if window.kind is WindowKind.DENY else not start_state(window, now).is_open

"""Which members somebody took the label off, and Git no longer wants: the search for them, and what is known between two searches.

A search lists metadata in every place of the inventories, so it is made once by each process, and with each resync. The
passes in between look only again at those that the records name. What may still be wanted is never told: neither while
its file or its node cannot be read, nor while its source is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Final

from applier.applyset.inventory import ForeignSet, Scope, read_scope, scope_covering, scope_of
from applier.applyset.member import has_own_finalizer, is_of_set
from applier.cluster import Object, Reader
from applier.errors import ClusterError, KindNotServed
from applier.plan.model import ApplySetPlan, Plan
from applier.read.left_behind import (
    Places,
    UnlabelledMembers,
    find_unlabelled_members,
    is_unlabelled_member,
    merge_places,
)
from applier.state.observed import Observed, annotation, label
from gitops.reconcile.context import Context
from gitops.reconcile.sources import SourceState
from gitops.records.left_behind import LeftBehind, LeftBehindMember
from gitops.records.source_record import SourceRecord
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey, applyset_id, source_parent
from renderer.render.model import Rendering

MAX_UNDECIDED: Final = 100
"""Members that passes between two searches look at again, since it was not known whether somebody wants them."""

_CONFIG_MAP = GroupKind("", "ConfigMap")


@dataclass
class LeftBehindSearch:
    """The searches of one process. `is_due` says that the next full reconciliation searches.

    The places are those of every inventory since the last search: one shrinks as soon as no labelled member is left.
    Members of which it was not known whether they are wanted are looked at again, without another search.
    """

    is_due: bool = True
    _places: dict[GroupKind, frozenset[str]] = field(default_factory=dict)
    _unlabelled: UnlabelledMembers | None = None
    _covered: Mapping[ObjectKey, Scope] = field(default_factory=dict)
    _undecided: tuple[ObjectKey, ...] = ()

    async def begin(self, cluster: Reader, sources: Sequence[SourceState], known: Context) -> Context:
        """Search, where that is due, before a reconciliation writes another inventory.

        The inventories go on covering what is found, so that a member that gets its label back is found by it (I1).
        """
        for kind, namespaces in find_places(known, sources).items():
            self._places[kind] = self._places.get(kind, frozenset()) | namespaces
        if self.is_due or self._unlabelled is not None:
            self.is_due = False
            self._unlabelled = await find_unlabelled_members(cluster, known.observed, self._places)
            self._covered = _scopes_to_cover(self._unlabelled.objects, known.observed)
        return replace(known, records=replace(known.records, unlabelled_scopes=self._covered))

    async def look(
        self, cluster: Reader, sources: Sequence[SourceState], bundle: Rendering, plan: Plan, known: Context
    ) -> Mapping[str, LeftBehind]:
        """Return what is left behind of each source: by a search where one is due, else what is known, looked at again."""
        before = _records(sources, known.observed)
        if (unlabelled := self._unlabelled) is None:
            return await self._look_again(cluster, sources, bundle, plan, known, before)
        self._unlabelled = None
        self._places = {kind: places for kind, places in self._places.items() if kind in unlabelled.unread}
        judged = await judge(cluster, unlabelled.objects, sources, bundle, plan, known)
        self._undecided = tuple(judged.undecided)
        found = {}
        for source, record in before.items():
            kept = {
                member.key: member
                for member in record.members
                if member.key.group_kind in unlabelled.unread or member.key in judged.undecided
            }
            open_keys = (key for key, owner in judged.undecided.items() if owner == source)
            unread = Scope(record.scope.kinds & unlabelled.unread.keys(), record.scope.namespaces)
            found[source] = (
                LeftBehind.from_members(kept | {**judged.members.get(source, {})})
                .searched_in(scope_covering(open_keys))
                .searched_in(unread if unread.kinds else Scope())
            )
        return found

    async def _look_again(
        self,
        cluster: Reader,
        sources: Sequence[SourceState],
        bundle: Rendering,
        plan: Plan,
        known: Context,
        before: Mapping[str, LeftBehind],
    ) -> Mapping[str, LeftBehind]:
        """Return what the records name but for what is gone, in a set again or wanted; and what is decided since."""
        named = {member.key for record in before.values() for member in record.members}
        keys = sorted({*named, *self._undecided[:MAX_UNDECIDED]})
        if not keys:
            return before
        answers = dict(zip(keys, await asyncio.gather(*(_read(cluster, key) for key in keys)), strict=True))
        unread = {key for key, answer in answers.items() if isinstance(answer, ClusterError)}
        sets = known.observed.parents.values()
        objects = {
            key: answer
            for key, answer in answers.items()
            if isinstance(answer, dict) and is_unlabelled_member(answer, sets)
        }
        judged = await judge(cluster, objects, sources, bundle, plan, known)
        self._undecided = tuple(judged.undecided)
        remaining = (objects.keys() | unread) - judged.wanted
        return {
            source: record.keep(remaining.__contains__).joined(judged.members.get(source, {}))
            for source, record in before.items()
        }


def _scopes_to_cover(unlabelled: Mapping[ObjectKey, Object], observed: Observed) -> dict[ObjectKey, Scope]:
    """Return where the sets that are there have members without their label, by the parents that their records name."""
    parents = {observed.objects[key]["metadata"]["uid"]: key for key in observed.parents}
    keys_by_parent: dict[ObjectKey, list[ObjectKey]] = {}
    for key, obj in unlabelled.items():
        if parent := parents.get(annotation(obj, well_known.PARENT_UID)):
            keys_by_parent.setdefault(parent, []).append(key)
    return {parent: scope_of(keys, parent) for parent, keys in keys_by_parent.items()}


async def _read(cluster: Reader, key: ObjectKey) -> Object | ClusterError | None:
    try:
        return await cluster.get(key, metadata_only=True)
    except KindNotServed:
        return None
    except ClusterError as error:
        return error


def unwanted_still(
    sources: Sequence[SourceState], observed: Observed, wanting_sets: Mapping[ObjectKey, Collection[str]]
) -> Mapping[str, LeftBehind]:
    """Return what the records tell without what some set wants by now; nothing is read."""
    return {
        source: record.keep(lambda key: not wanting_sets.get(key))
        for source, record in _records(sources, observed).items()
    }


def find_places(known: Context, sources: Sequence[SourceState]) -> Places:
    """Return where members of these sources and of their instances may be, by what the cluster records."""
    return merge_places(_scopes(known, sources))


def _scopes(known: Context, sources: Sequence[SourceState]) -> Iterator[tuple[ObjectKey, Scope]]:
    yield from known.records.scopes.items()
    for key in known.observed.parents:
        try:
            yield key, read_scope(known.observed.objects[key])
        except ForeignSet:
            continue
    for source, before in _records(sources, known.observed).items():
        yield source_parent(source), before.scope


def _records(sources: Sequence[SourceState], observed: Observed) -> dict[str, LeftBehind]:
    parents = {state.catalog.source: observed.objects.get(source_parent(state.catalog.source)) for state in sources}
    return {
        source: SourceRecord.from_object(parent).left_behind if parent else LeftBehind()
        for source, parent in parents.items()
    }


async def search(
    cluster: Reader,
    places: Places,
    sources: Sequence[SourceState],
    bundle: Rendering,
    plan: Plan,
    known: Context,
) -> tuple[LeftBehindMember, ...]:
    """Return what these sources would leave behind, as far as that can be read."""
    unlabelled = await find_unlabelled_members(cluster, known.observed, places)
    judged = await judge(cluster, unlabelled.objects, sources, bundle, plan, known)
    return tuple(member for members in judged.members.values() for member in members.values())


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found out of members without their label: those left behind by source, those that some set wants, and the rest with its source."""

    members: Mapping[str, Mapping[ObjectKey, LeftBehindMember]]
    wanted: frozenset[ObjectKey]
    undecided: Mapping[ObjectKey, str]


async def judge(
    cluster: Reader,
    unlabelled: Mapping[ObjectKey, Object],
    sources: Sequence[SourceState],
    bundle: Rendering,
    plan: Plan,
    known: Context,
) -> Judgement:
    """Return which of these members are left behind, and of which source. Members of other sources are in neither answer."""
    if not unlabelled:
        return Judgement({}, frozenset(), {})
    objects = {**known.observed.objects, **unlabelled}
    judge = _Judge(sources, bundle, plan, known, objects, await _other_parents(cluster, unlabelled, known.observed))
    members: dict[str, dict[ObjectKey, LeftBehindMember]] = {}
    undecided: dict[ObjectKey, str] = {}
    for key, obj in sorted(unlabelled.items()):
        if key not in judge.wanted and (owner := judge.owner_of(obj)):
            if judge.may_be_wanted(key, obj, owner):
                undecided[key] = owner.source
            else:
                members.setdefault(owner.source, {})[key] = judge.describe(key, obj, owner)
    return Judgement(members, judge.wanted & unlabelled.keys(), undecided)


async def _other_parents(
    cluster: Reader, unlabelled: Mapping[ObjectKey, Object], observed: Observed
) -> Mapping[str, SourceRecord | None]:
    """Return the records of all sources of the cluster by the uid of their objects, where the parent of some member is not known."""
    known_uids = {observed.objects[key]["metadata"]["uid"] for key in observed.parents}
    if all(annotation(obj, well_known.PARENT_UID) in known_uids for obj in unlabelled.values()):
        return {}
    try:
        parents = await cluster.list(_CONFIG_MAP, OWN_NAMESPACE, selector=well_known.PARENT_ID)
    except ClusterError:
        return dict.fromkeys(annotation(obj, well_known.PARENT_UID) for obj in unlabelled.values())
    return {parent["metadata"]["uid"]: SourceRecord.from_object(parent) for parent in parents}


@dataclass(frozen=True, slots=True)
class _Owner:
    """The source of a member, and the parent that its record names; None where that is gone."""

    source: str
    parent: ObjectKey | None


@dataclass(frozen=True)
class _Judge:
    """What a reconciliation knows of members without their label.

    The `objects` are those that it observed, and these members. The `other_records` are those of all sources, by the uid
    of their object; None where they cannot be read.
    """

    sources: Sequence[SourceState]
    bundle: Rendering
    plan: Plan
    known: Context
    objects: Mapping[ObjectKey, Object]
    other_records: Mapping[str, SourceRecord | None]

    @cached_property
    def states(self) -> Mapping[str, SourceState]:
        return {state.catalog.source: state for state in self.sources}

    @cached_property
    def sets(self) -> Mapping[ObjectKey, ApplySetPlan]:
        return {one.rendered.parent: one for one in self.plan.sets}

    @cached_property
    def source_names(self) -> Mapping[ObjectKey, str]:
        """The sources by their parents."""
        return {source_parent(name): name for name in self.states}

    @cached_property
    def wanted(self) -> frozenset[ObjectKey]:
        """What some set wants: now, or as it was applied last while it may not move."""
        renderings = [*self.bundle.sets, *(one.applied_rendering for one in self.bundle.sets if one.applied_rendering)]
        nodes = (node.key for one in renderings for node in one.nodes if node.key and not node.external)
        return frozenset((*nodes, *self.bundle.instances, *self.known.records.foreign_claims))

    @cached_property
    def parents_by_uid(self) -> Mapping[str, ObjectKey]:
        return {
            obj["metadata"]["uid"]: key
            for key, obj in self.objects.items()
            if key in self.source_names or label(obj, well_known.PARENT_ID)
        }

    @cached_property
    def sources_by_instance(self) -> Mapping[str, str]:
        """The sources by the words with which members record their instance, also where that is gone."""
        recorded = {
            key: name
            for parent, name in self.source_names.items()
            if (obj := self.objects.get(parent))
            for key in SourceRecord.from_object(obj).scopes
        }
        rendered = {key: one.source for key, one in self.bundle.instances.items()}
        return {_instance_text(key): name for key, name in (recorded | rendered).items()}

    def owner_of(self, obj: Object) -> _Owner | None:
        """Return whose member this is, by its record; None where it is none of these sources."""
        uid, instance = annotation(obj, well_known.PARENT_UID), annotation(obj, well_known.INSTANCE)
        if parent := self.parents_by_uid.get(uid):
            source = self._source_of(parent)
            return _Owner(source, parent) if source in self.states else None
        if uid in self.other_records:
            return None
        if instance in self.sources_by_instance:
            source = self.sources_by_instance[instance]
            return _Owner(source, None) if source in self.states else None
        others = [record for record in self.other_records.values() if record]
        if any(instance == _instance_text(one) for record in others for one in record.scopes):
            return None
        return _Owner(min(self.states), None)  # nobody else has it, and it lies where our members may be

    def _source_of(self, parent: ObjectKey) -> str:
        """Return the source of a set; of an instance that is in no set itself, that of its own parent."""
        if name := self.source_names.get(parent):
            return name
        if (one := self.sets.get(parent)) and one.source:
            return one.source
        obj = self.objects[parent]
        if annotation(obj, well_known.PARENT_UID) == obj["metadata"]["uid"]:
            return ""
        owner = self.owner_of(obj)
        return owner.source if owner else ""

    def may_be_wanted(self, key: ObjectKey, obj: Object, owner: _Owner) -> bool:
        """Return whether it is not known what Git says of this member. What protects labelled members counts: see `applier.plan.prune_decision`."""
        state = self.states[owner.source]
        if state.hold:
            return True
        if owner.parent is None:
            return bool(state.catalog.unreadable_files)
        if owner.parent in self.source_names and state.catalog.protection.protects(
            annotation(obj, well_known.SOURCE_FILE)
        ):
            return True
        one = self.sets.get(owner.parent)
        if one is None:
            instance = self.objects[owner.parent]
            outer = self.owner_of(instance)
            return outer is None or self.may_be_wanted(owner.parent, instance, outer)
        node_id = annotation(obj, well_known.NODE_ID)
        return bool(one.error or one.is_unknown or one.rendered.error or one.rendered.held_reason) or any(
            node.key is None and not node.external and (node.id == node_id or node.group_kind == key.group_kind)
            for node in one.rendered.nodes
        )

    def describe(self, key: ObjectKey, obj: Object, owner: _Owner) -> LeftBehindMember:
        """Return what a record tells of this member."""
        parent = self.objects.get(owner.parent) if owner.parent else None
        is_proven = parent is not None and bool(label(parent, well_known.PARENT_ID)) and is_of_set(obj, parent)
        set_id = applyset_id(owner.parent) if owner.parent and is_proven else ""
        return LeftBehindMember(key, set_id, has_own_finalizer(obj))


def _instance_text(key: ObjectKey) -> str:
    """An instance as its members record it."""
    return "/".join(filter(None, (key.kind, key.namespace, key.name)))

"""Why something is not as Git says: found in the cluster alone.

Everything is what the last pass wrote down; only windows are judged anew, as they change by time alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime

from applier.applyset.member import Member
from applier.causes import Reason
from applier.cluster import Cluster, Object
from applier.errors import KindNotServed
from applier.plan.model import Operation
from applier.state.observed import annotation, label
from gitops.explain.explanation import CauseChain, ClosedWindowLink, Link, WaitingLink
from gitops.explain.tree import members
from gitops.records import window_calendar
from gitops.records.cause_rows import CauseRow
from gitops.records.installation import INSTALLATION, cluster_name, followed, untaken
from gitops.records.instance_state import DisplayState, InstanceState, instances
from gitops.records.references import DEFINITION, Ref, RefError, locate, meant
from gitops.records.rollout_records import Rollouts
from gitops.records.source_record import SourceRecord, read_records
from gitops.rollouts.items import name_of
from gitops.rollouts.source_rules import SourceRules
from gitops.rollouts.state import RolloutState as Rollout
from gitops.windows.verdict import startable
from gitops.windows.window import Window, WindowKind, WindowTarget
from renderer import well_known
from renderer.definition.variables import suggestion
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey, applyset_id, source_parent
from renderer.kinds import CRD
from renderer.phrasing import listed


async def explain(cluster: Cluster, ref: Ref, namespace: str, *, now: datetime) -> CauseChain:
    """Raises RefError where there is nothing of that name, ClusterError."""
    records, rules, rollouts, installed = await asyncio.gather(
        read_records(cluster), window_calendar.read(cluster), Rollouts.observe(cluster), cluster.get(INSTALLATION)
    )
    records += await untaken(cluster, installed, records)
    world = _World(cluster, now, cluster_name(installed), records, rules, rollouts.states(now))
    match ref.own:
        case "source":
            return await world.source(ref)
        case "rollout" | "rgd":
            return await world.rollout(ref)
        case "window":
            return await world.window(ref)
    try:
        key = await locate(cluster, ref, namespace)
    except RefError as error:
        if (refused := world.refused(ref, namespace)) is None:
            if world.unwritten:
                raise RefError(f"{error}{world.unwritten}") from None
            raise
        key = refused
    return await world.object(key, ref)


@dataclass
class _World:
    """What the cluster says, read as far as it is asked for."""

    cluster: Cluster
    now: datetime
    cluster_name: str
    records: Sequence[tuple[str, SourceRecord]]
    rules: Sequence[SourceRules]
    rollouts: Mapping[str, Rollout]
    kinds: dict[GroupKind, list[InstanceState]] = field(default_factory=dict)

    async def object(self, key: ObjectKey, ref: Ref) -> CauseChain:
        """An instance, a member of one, or an object of a source; also one that does not exist yet."""
        live, node = await self._live(key), ref.node
        if live is not None and label(live, well_known.PARENT_ID):
            instance = InstanceState.of(live, self.rollouts)
            causes = [one for one in instance.causes if not node or node == one.node or node in one.behind]
            if node and not causes:
                await self._expect(live, node)
            if causes or node or not (claimed := self._told(key)):
                return await self._of(key, causes, instance, node)
            return await self._of(key, claimed[1], source=claimed[0])
        owner, standing = (await self._owner(live)) if live is not None else (None, None)
        if standing:
            node = annotation(live or {"metadata": {}}, well_known.NODE_ID)
            causes = [one for one in standing.causes if node == one.node or node in one.behind]
            return await self._of(key, causes, standing)
        if told := self._told(key):
            return await self._of(key, told[1], source=told[0])
        if owner is None and live is None:
            for one in await self._all():
                if causes := [cause for cause in one.causes if cause.object == str(key)]:
                    return await self._of(key, causes, one)
        if owner is None:
            missing = "does not exist" if live is None else "is in no set, so it is not from Git,"
            wanted = next((source for source, record in self.records if key in record.scopes), "")
            way = f"; its source wants it, and says more: levelgate explain source/{wanted}" if wanted else ""
            if live is None and not way:
                way = await meant(self.cluster, ref, key)
            way = way or self.unwritten
            raise RefError(f"{key} {missing} in cluster {self.cluster.name}{way}")
        return CauseChain(str(key), DisplayState.SETTLED, key)

    async def _expect(self, instance: Object, node: str) -> None:
        """Raises RefError where the instance has no object of this node, or of the collection of this name."""
        nodes = {Member.of(one).node for one in await members(self.cluster, instance)}
        if node not in nodes and not any(one.startswith(f"{node}/") for one in nodes):
            raise RefError(f"{ObjectKey.of(instance)} has no object of a node {node!r}{suggestion(node, nodes)}")

    def _told(self, key: ObjectKey) -> tuple[str, list[CauseRow]] | None:
        """The first source that says of this object why it is not as it wants it, and its causes."""
        for source, record in self.records:
            told = map(CauseRow.read, record.causes)
            if causes := [cause for cause in told if str(key) in (cause.node, cause.object)]:
                return source, causes
        return None

    @property
    def unwritten(self) -> str:
        """Where what the cluster does not know yet may come from; empty where something of each source was written."""
        names = [f"source/{name}" for name, record in self.records if not (record.kinds or record.applied)]
        return f"; nothing was written yet of {listed(names)}: levelgate explain {names[0]} says why" if names else ""

    def refused(self, ref: Ref, namespace: str) -> ObjectKey | None:
        """The object of that name of which a source says that the cluster does not take it: its kind may not be served at all."""
        told = (ObjectKey.parse(row.get("object", "")) for _, record in self.records for row in record.causes)
        for key in filter(None, told):
            called = {key.kind.lower(), f"{key.kind.lower()}.{key.group}"}
            if ref.type.lower() in called and key.name == ref.name and key.namespace in {"", namespace}:
                return key
        return None

    async def source(self, ref: Ref) -> CauseChain:
        record = dict(self.records).get(ref.name)
        if record is None:
            known = ", ".join(name for name, _ in self.records) or "none"
            raise RefError(f"no source {ref.name!r} in cluster {self.cluster.name}; there are: {known}")
        mine = tuple(one for one in await self._all() if one.source == ref.name)
        causes = [CauseRow.read(row) for row in record.causes]
        found = await self._of(source_parent(ref.name), causes, source=ref.name)
        state = DisplayState.of([*(one.reason for one in mine), *(cause.reason for cause in causes)])
        configured = followed(await self.cluster.get(INSTALLATION))
        is_left = configured is not None and ref.name not in configured
        return replace(found, unit=str(ref), state=state, record=record, is_left=is_left, instances=mine)

    async def rollout(self, ref: Ref) -> CauseChain:
        """Of a definition, that of all its instances. A halt is told first, as it leads to what failed."""
        if (rollout := self.rollouts.get(ref.name)) is None:
            raise RefError(f"no rollout {ref.name!r} in cluster {self.cluster.name}; `levelgate status` lists them")
        mine = tuple(one for one in await self._all() if one.rollout == ref.name)
        refused = await self._refused(ref.name)
        state = DisplayState.of([*(one.reason for one in mine), *(cause.reason for cause in refused)])
        found = CauseChain(str(ref), state, rollout=rollout, others=refused, instances=mine)
        if not found.waiting:
            return found
        first = min(
            found.waiting,
            key=lambda one: (one.state is not DisplayState.HALTED, list(DisplayState).index(one.state), one.key),
        )
        chain = [link async for link in self._chain(first.key, first.reasons[0], first)]
        return self._from(first.source, replace(found, chain=tuple(chain)))

    async def _refused(self, definition: str) -> tuple[CauseRow, ...]:
        """Why what Git says of a definition now is not taken."""
        told = [cause for _, record in self.records for cause in map(CauseRow.read, record.causes)]
        of_crds = [one for one in told if (key := ObjectKey.parse(one.object)) and key.group_kind == CRD]
        if not of_crds:
            return ()
        with suppress(RefError):  # a rollout of the items of a node
            crd = str(await locate(self.cluster, Ref(DEFINITION, definition), ""))
            return tuple(one for one in of_crds if one.object == crd and one.reason is Reason.RENDER_FAILED)
        return ()

    async def window(self, ref: Ref) -> CauseChain:
        named = [(rules, rules.windows[ref.name]) for rules in self.rules if ref.name in rules.windows]
        if not named:
            known = ", ".join(sorted({name for rules in self.rules for name in rules.windows})) or "none"
            raise RefError(f"no window {ref.name!r} is in force in cluster {self.cluster.name}; there are: {known}")
        held = tuple(one for one in await self._all() if ref.name in _windows_of(one.causes))
        instances = {str(one.key) for one in held}
        told = [cause for _, record in self.records for cause in map(CauseRow.read, record.causes)]
        objects = tuple(one for one in told if ref.name in _windows_of([one]) and one.object not in instances)
        shut = tuple(
            ClosedWindowLink.at(self.now, window, rules.source) for rules, window in named if _closes(window, self.now)
        )
        opened = tuple(window for _, window in named if not _closes(window, self.now))
        state = DisplayState.HELD if held or objects else DisplayState.SETTLED
        return CauseChain(str(ref), state, chain=shut, open=opened, instances=held, objects=objects)

    async def _of(
        self,
        key: ObjectKey,
        causes: Sequence[CauseRow],
        standing: InstanceState | None = None,
        node: str = "",
        source: str = "",
    ) -> CauseChain:
        unit = f"{key}/{node}" if node else str(key)
        if not causes and standing and key == standing.key and not node:
            causes = standing.reasons
        subject = standing.key if standing else (ObjectKey.parse(causes[0].object) if causes else None) or key
        chain = [link async for link in self._chain(subject, causes[0], standing)] if causes else []
        state = DisplayState.of(cause.reason for cause in causes)
        opened = await self._open(standing, chain) if standing and chain else ()
        rollout = self.rollouts.get(standing.rollout) if standing and chain else None
        facts = rollout.externals if rollout else {}
        source = source or (standing.source if standing else "")
        found = CauseChain(unit, state, key, standing, tuple(chain), tuple(causes[1:]), opened, facts)
        return self._from(source, found)

    def _from(self, source: str, found: CauseChain) -> CauseChain:
        record = next((record for name, record in self.records if name == source), SourceRecord())
        return replace(found, source=source, commit=record.target, offered=record.offered)

    async def _chain(self, key: ObjectKey, cause: CauseRow, standing: InstanceState | None) -> AsyncIterator[Link]:
        """From this cause to what holds it up; a circle ends where it closes."""
        seen: set[tuple[ObjectKey, str]] = set()
        while (key, cause.node) not in seen:
            seen.add((key, cause.node))
            yield await self._waiting(key, cause, standing)
            closed = [one.name for one in cause.because if one.kind == "Window"]
            for window, source in self._named(closed, standing):
                yield ClosedWindowLink.at(self.now, window, source)
            following = None if closed else await self._following(key, cause, standing)
            if following is None:
                return
            standing, cause = following
            key = standing.key

    async def _following(
        self, key: ObjectKey, cause: CauseRow, standing: InstanceState | None
    ) -> tuple[InstanceState, CauseRow] | None:
        """What this cause waits for: another instance, another node, or the instance that the node is."""
        nodes = [one.name for one in cause.because if one.kind == "Node"]
        if standing and (found := next((one for one in standing.causes if one.node in nodes), None)):
            return standing, found
        others = [one async for one in self._others(key, cause, standing) if not one.is_settled]
        others.sort(key=lambda one: (not one.causes, list(DisplayState).index(one.state)))
        return (others[0], others[0].reasons[0]) if others else None

    async def _others(
        self, key: ObjectKey, cause: CauseRow, standing: InstanceState | None
    ) -> AsyncIterator[InstanceState]:
        names = [one.name for one in cause.because if one.kind == "Instance"]
        for one in await self._kind(key.group_kind) if names else ():
            if name_of(one.key) in names:
                yield one
        if cause.reason is Reason.HALTED and standing:
            for one in await self._kind(key.group_kind):
                if one.rollout == standing.rollout and one.state is DisplayState.FAILED:
                    yield one
        if cause.reason is Reason.WAVE_NOT_REACHED and standing:
            for one in await self._kind(key.group_kind):
                if one.rollout == standing.rollout and one.wave != standing.wave and not one.reason.is_turn:
                    yield one
        nested = ObjectKey.parse(cause.object)
        if nested and nested != key and any(nested in record.scopes for _, record in self.records):
            for one in await self._kind(nested.group_kind):
                if one.key == nested:
                    yield one

    async def _waiting(self, key: ObjectKey, cause: CauseRow, standing: InstanceState | None) -> WaitingLink:
        unsettled = tuple(one.name for one in cause.because if one.kind in {"Instance", "Node"})
        if standing is None or cause.node or cause.reason is not Reason.PACE_REACHED:
            return WaitingLink(key, cause, standing, unsettled=unsettled)
        wave = [one for one in await self._kind(key.group_kind) if one.rollout == standing.rollout]
        wave = [one for one in wave if one.wave == standing.wave and one.target.revision == standing.target.revision]
        settled = tuple(name_of(one.key) for one in wave if one.is_settled)
        return WaitingLink(key, cause, standing, settled, unsettled)

    async def _open(self, standing: InstanceState, chain: Sequence[Link]) -> tuple[Window, ...]:
        """Windows that govern an instance, could close, and do not."""
        kind = standing.key.group_kind
        definitions = {
            one.plural: one for one in (await self.cluster.discover()).resources.values() if one.group_kind == kind
        }
        crd = await self.cluster.get(
            ObjectKey(*CRD, "", f"{next(iter(definitions), '')}.{kind.group}"), metadata_only=True
        )
        rgd = annotation(crd, well_known.DEFINITION) if crd else ""
        target = WindowTarget(kind, standing.key.namespace, self.cluster_name, rgd=rgd, labels=standing.labels)
        told = {link.closing.window.name for link in chain if isinstance(link, ClosedWindowLink)}
        return tuple(
            window
            for rules in self.rules
            if rules.source == standing.source
            for window in rules.windows.values()
            if window.name not in told
            and window.kind is WindowKind.ALLOW
            and window.governs(target, Operation.UPDATE)
            and not _closes(window, self.now)
        )

    def _named(self, names: Iterable[str], standing: InstanceState | None) -> Iterator[tuple[Window, str]]:
        """Windows in force of these names, those of the source first; one for each name."""
        ordered = sorted(self.rules, key=lambda rules: rules.source != (standing.source if standing else ""))
        for name in names:
            if found := next((rules for rules in ordered if name in rules.windows), None):
                yield found.windows[name], found.source

    async def _owner(self, live: Object) -> tuple[ObjectKey | None, InstanceState | None]:
        """The parent of the set that an object is in; and how that is, where it is an instance."""
        part_of = label(live, well_known.PART_OF)
        for source, record in self.records:
            if part_of == applyset_id(source_parent(source)):
                return source_parent(source), None
            for instance in record.scopes:
                if part_of == applyset_id(instance):
                    return await self._standing(instance)
        kind, _, place = annotation(live, well_known.INSTANCE).partition("/")
        namespace, _, name = place.rpartition("/")
        for one in (
            (await self.cluster.discover()).resources if kind else ()
        ):  # no record names an instance that is to go
            if one.kind == kind and part_of == applyset_id(instance := ObjectKey(*one, namespace, name)):
                return await self._standing(instance)
        return None, None

    async def _standing(self, instance: ObjectKey) -> tuple[ObjectKey, InstanceState | None]:
        found = await self._live(instance)
        return instance, InstanceState.of(found, self.rollouts) if found else None

    async def _live(self, key: ObjectKey) -> Object | None:
        try:
            return await self.cluster.get(key)
        except KindNotServed:
            return None

    async def _kind(self, kind: GroupKind) -> list[InstanceState]:
        if kind not in self.kinds:
            self.kinds[kind] = await instances(self.cluster, kind, self.rollouts)
        return self.kinds[kind]

    async def _all(self) -> list[InstanceState]:
        kinds = sorted({key.group_kind for _, record in self.records for key in record.scopes})
        return [one for kind in kinds for one in await self._kind(kind)]


def _closes(window: Window, now: datetime) -> bool:
    """Does it hold up what it governs?"""
    return window.timeline.span(now).active if window.kind is WindowKind.DENY else not startable(window, now).open


def _windows_of(causes: Iterable[CauseRow]) -> set[str]:
    return {one.name for cause in causes for one in cause.because if one.kind == "Window"}

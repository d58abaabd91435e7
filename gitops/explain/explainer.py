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
from applier.causes import Cause, Reason
from applier.cluster import Cluster, Object
from applier.errors import KindNotServed
from applier.plan.model import Operation
from applier.state.observed import annotation, is_terminating, label
from gitops.explain.explanation import CauseChain, ClosedWindowLink, Link, WaitingLink
from gitops.explain.tree import list_members
from gitops.records import window_calendar
from gitops.records.cause_rows import parse_row
from gitops.records.display_state import DisplayState
from gitops.records.installation import INSTALLATION, cluster_name, configured_sources, find_sources_without_commit
from gitops.records.instance_state import InstanceState, list_instances
from gitops.records.left_behind import LeftBehindMember
from gitops.records.references import DEFINITION, Ref, RefError, find_key, suggest_name
from gitops.records.rollout_records import Rollouts
from gitops.records.source_record import SourceRecord, read_records
from gitops.rollouts.source_rules import SourceRules
from gitops.rollouts.state import RolloutState
from gitops.windows.verdict import start_state
from gitops.windows.window import Window, WindowKind, WindowTarget
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey, applyset_id, source_parent
from renderer.kinds import CRD
from renderer.phrasing import join_names, suggestion_or_names


async def explain(cluster: Cluster, ref: Ref, namespace: str, *, now: datetime) -> CauseChain:
    """Raises RefError where there is nothing of that name, ClusterError."""
    records, rules, rollouts, installation = await asyncio.gather(
        read_records(cluster), window_calendar.read_rules(cluster), Rollouts.observe(cluster), cluster.get(INSTALLATION)
    )
    records += await find_sources_without_commit(cluster, installation, records)
    explainer = _Explainer(cluster, now, cluster_name(installation), records, rules, rollouts.states(now))
    match ref.own_type:
        case "source":
            return await explainer.explain_source(ref)
        case "rollout" | "rgd":
            return await explainer.explain_rollout(ref)
        case "window":
            return await explainer.explain_window(ref)
    try:
        key = await find_key(cluster, ref, namespace)
    except RefError as error:
        if (refused_key := explainer.find_refused_object(ref, namespace)) is None:
            if explainer.unwritten_note:
                raise RefError(f"{error}{explainer.unwritten_note}") from None
            raise
        key = refused_key
    return await explainer.explain_object(key, ref)


@dataclass
class _Explainer:
    """What the cluster says, read as far as it is asked for."""

    cluster: Cluster
    now: datetime
    cluster_name: str
    records: Sequence[tuple[str, SourceRecord]]
    rules: Sequence[SourceRules]
    rollouts: Mapping[str, RolloutState]
    instances_by_kind: dict[GroupKind, list[InstanceState]] = field(default_factory=dict)

    async def explain_object(self, key: ObjectKey, ref: Ref) -> CauseChain:
        """An instance, a member of one, or an object of a source; also one that does not exist yet."""
        live = await self._read_live(key)
        found = await self._explain_live(key, ref, live)
        is_going = live is not None and is_terminating(live) and not ref.node and found.key == key
        return replace(found, state=DisplayState.TERMINATING) if is_going else found

    async def _explain_live(self, key: ObjectKey, ref: Ref, live: Object | None) -> CauseChain:
        node = ref.node
        if live is not None and not node and (left_behind := self._find_left_behind(key)):
            source, member = left_behind
            chain = await self._explain_causes(key, [self._told_left_behind(source, member)], source=source)
            return replace(chain, left_behind=(member,))
        if live is not None and label(live, well_known.PARENT_ID):
            instance = InstanceState.from_object(live, self.rollouts)
            causes = [row for row in instance.causes if not node or node == row.node or node in row.dependents]
            if node and not causes:
                await self._require_node(live, node)
            if causes or node or not (first_claim := self._find_source_causes(key)):
                return await self._explain_causes(key, causes, instance, node)
            return await self._explain_causes(key, first_claim[1], source=first_claim[0])
        owner, owner_state = (await self._find_owner(live)) if live is not None else (None, None)
        if owner_state:
            node = annotation(live or {"metadata": {}}, well_known.NODE_ID)
            causes = [row for row in owner_state.causes if node == row.node or node in row.dependents]
            return await self._explain_causes(key, causes, owner_state)
        if claim := self._find_source_causes(key):
            return await self._explain_causes(key, claim[1], source=claim[0])
        if owner is None and live is None:
            for other_instance in await self._all_instances():
                if causes := [cause for cause in other_instance.causes if cause.object_key == key]:
                    return await self._explain_causes(key, causes, other_instance)
        if owner is None:
            problem = "does not exist" if live is None else "is in no set, so it is not from Git,"
            wanting_source = next((source for source, record in self.records if key in record.scopes), "")
            advice = f"; it is in Git; run levelgate explain source/{wanting_source}" if wanting_source else ""
            if live is None and not advice:
                advice = await suggest_name(self.cluster, ref, key)
            advice = advice or self.unwritten_note
            raise RefError(f"{key} {problem} in cluster {self.cluster.name}{advice}")
        return CauseChain(str(key), DisplayState.SETTLED, key)

    def _find_left_behind(self, key: ObjectKey) -> tuple[str, LeftBehindMember] | None:
        """The source that has left this object behind, and what its record tells of it."""
        for source, record in self.records:
            if member := record.left_behind.find(key):
                return source, member
        return None

    def _told_left_behind(self, source: str, member: LeftBehindMember) -> Cause:
        """Why it stays, since its source tells of such members."""
        rows = map(parse_row, dict(self.records)[source].causes)
        return replace(member.cause, since=next((row.since for row in rows if row.reason is Reason.LEFT_BEHIND), None))

    async def _require_node(self, instance: Object, node: str) -> None:
        """Raises RefError where the instance has no object of this node, or of the collection of this name."""
        nodes = {Member.from_object(member).node_id for member in await list_members(self.cluster, instance)}
        if node not in nodes and not any(node_id.startswith(f"{node}/") for node_id in nodes):
            raise RefError(
                f"{ObjectKey.from_manifest(instance)} has no object of a node {node!r}{suggestion_or_names(node, nodes)}"
            )

    def _find_source_causes(self, key: ObjectKey) -> tuple[str, list[Cause]] | None:
        """The first source that says of this object why it is not as it wants it, and its causes."""
        for source, record in self.records:
            rows = map(parse_row, record.causes)
            if causes := [cause for cause in rows if key == cause.object_key or str(key) == cause.node]:
                return source, causes
        return None

    @property
    def unwritten_note(self) -> str:
        """Where what the cluster does not know yet may come from; empty where something of each source was written."""
        names = [f"source/{name}" for name, record in self.records if not (record.kinds or record.applied)]
        return f"; nothing is applied yet of {join_names(names)}: run levelgate explain {names[0]}" if names else ""

    def find_refused_object(self, ref: Ref, namespace: str) -> ObjectKey | None:
        """The object of that name of which a source says that the cluster does not take it: its kind may not be served at all."""
        keys = (ObjectKey.parse(row.get("object", "")) for _, record in self.records for row in record.causes)
        for key in filter(None, keys):
            type_names = {key.kind.lower(), f"{key.kind.lower()}.{key.group}"}
            if ref.type.lower() in type_names and key.name == ref.name and key.namespace in {"", namespace}:
                return key
        return None

    async def explain_source(self, ref: Ref) -> CauseChain:
        record = dict(self.records).get(ref.name)
        if record is None:
            source_names = ", ".join(name for name, _ in self.records) or "none"
            raise RefError(f"no source {ref.name!r} in cluster {self.cluster.name}; there are: {source_names}")
        own_instances = tuple(instance for instance in await self._all_instances() if instance.source == ref.name)
        causes = [parse_row(row) for row in record.causes]
        chain = await self._explain_causes(source_parent(ref.name), causes, source=ref.name)
        state = DisplayState.from_reasons(
            [*(instance.reason for instance in own_instances), *(cause.reason for cause in causes)]
        )
        configured = configured_sources(await self.cluster.get(INSTALLATION))
        is_unconfigured = configured is not None and ref.name not in configured
        return replace(
            chain,
            subject=str(ref),
            state=state,
            record=record,
            is_unconfigured=is_unconfigured,
            instances=own_instances,
            left_behind=record.left_behind.members,
        )

    async def explain_rollout(self, ref: Ref) -> CauseChain:
        """Of a definition, that of all its instances. A halt is told first, as it leads to what failed."""
        if (rollout := self.rollouts.get(ref.name)) is None:
            raise RefError(f"no rollout {ref.name!r} in cluster {self.cluster.name}; `levelgate status` lists them")
        own_instances = tuple(instance for instance in await self._all_instances() if instance.rollout == ref.name)
        refusals = await self._definition_refusals(ref.name)
        state = DisplayState.from_reasons(
            [*(instance.reason for instance in own_instances), *(cause.reason for cause in refusals)]
        )
        explanation = CauseChain(str(ref), state, rollout=rollout, other_causes=refusals, instances=own_instances)
        if not explanation.unsettled_instances:
            return explanation
        worst = min(
            explanation.unsettled_instances,
            key=lambda instance: (
                instance.state is not DisplayState.HALTED,
                instance.state.rank,
                instance.key,
            ),
        )
        chain = [link async for link in self._links(worst.key, worst.display_causes[0], worst)]
        return self._with_source(worst.source, replace(explanation, chain=tuple(chain)))

    async def _definition_refusals(self, definition: str) -> tuple[Cause, ...]:
        """Why what Git says of a definition now is not taken."""
        rows = [cause for _, record in self.records for cause in map(parse_row, record.causes)]
        crd_rows = [row for row in rows if row.object_key and row.object_key.group_kind == CRD]
        if not crd_rows:
            return ()
        with suppress(RefError):  # a rollout of the items of a node
            crd = await find_key(self.cluster, Ref(DEFINITION, definition), "")
            return tuple(row for row in crd_rows if row.object_key == crd and row.reason is Reason.RENDER_FAILED)
        return ()

    async def explain_window(self, ref: Ref) -> CauseChain:
        matches = [(rules, rules.windows[ref.name]) for rules in self.rules if ref.name in rules.windows]
        if not matches:
            window_names = ", ".join(sorted({name for rules in self.rules for name in rules.windows})) or "none"
            raise RefError(
                f"no window {ref.name!r} is in force in cluster {self.cluster.name}; there are: {window_names}"
            )
        held_instances = tuple(
            instance for instance in await self._all_instances() if ref.name in _window_names(instance.causes)
        )
        instances = {instance.key for instance in held_instances}
        rows = [cause for _, record in self.records for cause in map(parse_row, record.causes)]
        objects = tuple(row for row in rows if ref.name in _window_names([row]) and row.object_key not in instances)
        closed_links = tuple(
            ClosedWindowLink.from_window(self.now, window, rules.source)
            for rules, window in matches
            if _is_closed(window, self.now)
        )
        open_windows = tuple(window for _, window in matches if not _is_closed(window, self.now))
        state = DisplayState.HELD if held_instances or objects else DisplayState.SETTLED
        return CauseChain(
            str(ref),
            state,
            chain=closed_links,
            open_windows=open_windows,
            instances=held_instances,
            object_causes=objects,
        )

    async def _explain_causes(
        self,
        key: ObjectKey,
        causes: Sequence[Cause],
        instance: InstanceState | None = None,
        node: str = "",
        source: str = "",
    ) -> CauseChain:
        unit = f"{key}/{node}" if node else str(key)
        if not causes and instance and key == instance.key and not node:
            causes = instance.display_causes
        subject = instance.key if instance else (causes[0].object_key if causes else None) or key
        chain = [link async for link in self._links(subject, causes[0], instance)] if causes else []
        state = DisplayState.from_reasons(cause.reason for cause in causes)
        open_windows = await self._open_windows(instance, chain) if instance and chain else ()
        rollout = self.rollouts.get(instance.rollout) if instance and chain else None
        facts = rollout.externals if rollout else {}
        source = source or (instance.source if instance else "")
        explanation = CauseChain(unit, state, key, instance, tuple(chain), tuple(causes[1:]), open_windows, facts)
        return self._with_source(source, explanation)

    def _with_source(self, source: str, explanation: CauseChain) -> CauseChain:
        record = next((record for name, record in self.records if name == source), SourceRecord())
        return replace(explanation, source=source, commit=record.target, offered=record.offered)

    async def _links(self, key: ObjectKey, cause: Cause, instance: InstanceState | None) -> AsyncIterator[Link]:
        """From this cause to what holds it up; a circle ends where it closes."""
        seen: set[tuple[ObjectKey, str]] = set()
        while (key, cause.node) not in seen:
            seen.add((key, cause.node))
            yield await self._waiting_link(key, cause, instance)
            window_names = [ref.name for ref in cause.references if ref.kind == "Window"]
            for window, source in self._find_windows(window_names, instance):
                yield ClosedWindowLink.from_window(self.now, window, source)
            next_step = None if window_names else await self._next_cause(key, cause, instance)
            if next_step is None:
                return
            instance, cause = next_step
            key = instance.key

    async def _next_cause(
        self, key: ObjectKey, cause: Cause, instance: InstanceState | None
    ) -> tuple[InstanceState, Cause] | None:
        """What this cause waits for: another instance, another node, or the instance that the node is."""
        nodes = [ref.name for ref in cause.references if ref.kind == "Node"]
        if instance and (next_row := next((row for row in instance.causes if row.node in nodes), None)):
            return instance, next_row
        others = [other async for other in self._blocking_instances(key, cause, instance) if not other.is_settled]
        others.sort(key=lambda peer: (not peer.causes, peer.state.rank))
        return (others[0], others[0].display_causes[0]) if others else None

    async def _blocking_instances(
        self, key: ObjectKey, cause: Cause, instance: InstanceState | None
    ) -> AsyncIterator[InstanceState]:
        names = [ref.name for ref in cause.references if ref.kind == "Instance"]
        for candidate in await self._instances_of(key.group_kind) if names else ():
            if candidate.key.qualified_name in names:
                yield candidate
        if cause.reason is Reason.HALTED and instance:
            for candidate in await self._instances_of(key.group_kind):
                if candidate.rollout == instance.rollout and candidate.state is DisplayState.FAILED:
                    yield candidate
        if cause.reason is Reason.WAVE_NOT_REACHED and instance:
            for candidate in await self._instances_of(key.group_kind):
                if (
                    candidate.rollout == instance.rollout
                    and candidate.wave != instance.wave
                    and not candidate.reason.is_queued
                ):
                    yield candidate
        nested = cause.object_key
        if nested and nested != key and any(nested in record.scopes for _, record in self.records):
            for candidate in await self._instances_of(nested.group_kind):
                if candidate.key == nested:
                    yield candidate

    async def _waiting_link(self, key: ObjectKey, cause: Cause, instance: InstanceState | None) -> WaitingLink:
        unsettled = tuple(ref.name for ref in cause.references if ref.kind in {"Instance", "Node"})
        if instance is None or cause.node or cause.reason is not Reason.PACE_REACHED:
            return WaitingLink(key, cause, instance, unsettled=unsettled)
        wave_instances = [peer for peer in await self._instances_of(key.group_kind) if peer.rollout == instance.rollout]
        wave_instances = [
            peer
            for peer in wave_instances
            if peer.wave == instance.wave and peer.target.revision == instance.target.revision
        ]
        settled = tuple(peer.key.qualified_name for peer in wave_instances if peer.is_settled)
        return WaitingLink(key, cause, instance, settled, unsettled)

    async def _open_windows(self, instance: InstanceState, chain: Sequence[Link]) -> tuple[Window, ...]:
        """Windows that govern an instance, could close, and do not."""
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
            and not _is_closed(window, self.now)
        )

    def _find_windows(self, names: Iterable[str], instance: InstanceState | None) -> Iterator[tuple[Window, str]]:
        """Windows in force of these names, those of the source first; one for each name."""
        ordered = sorted(self.rules, key=lambda rules: rules.source != (instance.source if instance else ""))
        for name in names:
            if source_rules := next((rules for rules in ordered if name in rules.windows), None):
                yield source_rules.windows[name], source_rules.source

    async def _find_owner(self, live: Object) -> tuple[ObjectKey | None, InstanceState | None]:
        """The parent of the set that an object is in; and how that is, where it is an instance."""
        part_of = label(live, well_known.PART_OF)
        for source, record in self.records:
            if part_of == applyset_id(source_parent(source)):
                return source_parent(source), None
            for instance in record.scopes:
                if part_of == applyset_id(instance):
                    return await self._read_instance(instance)
        kind, _, qualified_name = annotation(live, well_known.INSTANCE).partition("/")
        namespace, _, name = qualified_name.rpartition("/")
        for group_kind in (
            (await self.cluster.discover()).resources if kind else ()
        ):  # no record names an instance that is to go
            if group_kind.kind == kind and part_of == applyset_id(instance := ObjectKey(*group_kind, namespace, name)):
                return await self._read_instance(instance)
        return None, None

    async def _read_instance(self, instance: ObjectKey) -> tuple[ObjectKey, InstanceState | None]:
        live = await self._read_live(instance)
        return instance, InstanceState.from_object(live, self.rollouts) if live else None

    async def _read_live(self, key: ObjectKey) -> Object | None:
        try:
            return await self.cluster.get(key)
        except KindNotServed:
            return None

    async def _instances_of(self, kind: GroupKind) -> list[InstanceState]:
        if kind not in self.instances_by_kind:
            self.instances_by_kind[kind] = await list_instances(self.cluster, kind, self.rollouts)
        return self.instances_by_kind[kind]

    async def _all_instances(self) -> list[InstanceState]:
        kinds = sorted({key.group_kind for _, record in self.records for key in record.scopes})
        return [instance for kind in kinds for instance in await self._instances_of(kind)]


def _is_closed(window: Window, now: datetime) -> bool:
    """Does it hold up what it governs?"""
    return window.timeline.span(now).active if window.kind is WindowKind.DENY else not start_state(window, now).is_open


def _window_names(causes: Iterable[Cause]) -> set[str]:
    return {ref.name for cause in causes for ref in cause.references if ref.kind == "Window"}

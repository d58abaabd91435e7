"""Explanations of differences between an object and Git, from the cluster alone.

The explanations use the records of the last reconciliation. For windows alone, the explanations use the current time,
because the state of a window changes without a record.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from applier.applyset.member import Member
from applier.causes import Cause, Reason
from applier.cluster import Cluster, Object
from applier.state.observed import annotation, is_terminating, label
from gitops.explain.explanation import CauseChain, ClosedWindowLink, Link, WaitingLink
from gitops.explain.recorded_state import RecordedState, is_closed
from gitops.explain.tree import list_members
from gitops.records import window_calendar
from gitops.records.cause_rows import parse_row
from gitops.records.display_state import DisplayState
from gitops.records.installation import INSTALLATION, cluster_name, configured_sources, find_sources_without_commit
from gitops.records.instance_state import InstanceState
from gitops.records.references import DEFINITION, Ref, RefError, find_key, suggest_name
from gitops.records.rollout_records import Rollouts
from gitops.records.source_record import SourceRecord, read_records
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, source_parent
from renderer.kinds import CRD
from renderer.phrasing import suggestion_or_names


async def explain(cluster: Cluster, ref: Ref, namespace: str, *, now: datetime) -> CauseChain:
    """Return why the object of `ref` differs from Git. Raises: RefError if no object has that name; ClusterError."""
    records, rules, rollouts, installation = await asyncio.gather(
        read_records(cluster), window_calendar.read_rules(cluster), Rollouts.observe(cluster), cluster.get(INSTALLATION)
    )
    records += await find_sources_without_commit(cluster, installation, records)
    recorded = RecordedState(cluster, now, cluster_name(installation), records, rules, rollouts.states(now))
    explainer = _Explainer(recorded)
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
        # If the server does not serve the kind, a source may have failed to create the object for the same reason.
        if (refused_key := recorded.find_refused_object(ref, namespace)) is None:
            if recorded.unwritten_note:
                raise RefError(f"{error}{recorded.unwritten_note}") from None
            raise
        key = refused_key
    return await explainer.explain_object(key, ref)


@dataclass(frozen=True, slots=True)
class _Explainer:
    """Search for the chain of causes of an object in the recorded state of a cluster."""

    recorded: RecordedState

    async def explain_object(self, key: ObjectKey, ref: Ref) -> CauseChain:
        """Explain an instance, a member of an instance, or an object of a source, even before it exists."""
        live = await self.recorded.read_live(key)
        found = await self._explain_live(key, ref, live)
        is_going = live is not None and is_terminating(live) and not ref.node and found.key == key
        return replace(found, state=DisplayState.TERMINATING) if is_going else found

    async def _explain_live(self, key: ObjectKey, ref: Ref, live: Object | None) -> CauseChain:
        recorded = self.recorded
        if live is not None and not ref.node and (left_behind := recorded.find_left_behind(key)):
            source, member = left_behind
            chain = await self._explain_causes(key, [recorded.left_behind_cause(source, member)], source=source)
            return replace(chain, left_behind=(member,))
        if live is not None and label(live, well_known.PARENT_ID):
            return await self._explain_instance(key, ref.node, live)
        owner, owner_state = (await recorded.find_owner(live)) if live is not None else (None, None)
        if live is not None and owner_state:
            causes = _causes_of_node(owner_state, annotation(live, well_known.NODE_ID))
            return await self._explain_causes(key, causes, owner_state)
        if claim := recorded.find_source_causes(key):
            source, causes = claim
            return await self._explain_causes(key, causes, source=source)
        if owner is None:
            return await self._explain_unowned(key, ref, live)
        return CauseChain(str(key), DisplayState.SETTLED, key)

    async def _explain_instance(self, key: ObjectKey, node: str, live: Object) -> CauseChain:
        """Explain an instance, or its node `node`. Raises: RefError if the instance does not have the node."""
        instance = InstanceState.from_object(live, self.recorded.rollouts)
        causes = _causes_of_node(instance, node) if node else list(instance.causes)
        if node and not causes:
            await self._require_node(live, node)
        # An instance without a cause may be an object that its source could not write.
        if causes or node or not (claim := self.recorded.find_source_causes(key)):
            return await self._explain_causes(key, causes, instance, node)
        return await self._explain_causes(key, claim[1], source=claim[0])

    async def _explain_unowned(self, key: ObjectKey, ref: Ref, live: Object | None) -> CauseChain:
        """Explain an object outside of all ApplySets by the instance that wants to create the object.

        Raises: RefError if no instance wants to create the object.
        """
        recorded = self.recorded
        if live is None:
            for instance in await recorded.all_instances():
                if causes := [cause for cause in instance.causes if cause.object_key == key]:
                    return await self._explain_causes(key, causes, instance)
        source = next((name for name, record in recorded.records if key in record.scopes), "")
        if live is None:
            problem = f"does not exist in cluster {recorded.cluster.name}"
        else:
            consequence = "" if source else ", so the object is not from Git"
            problem = f"is not in a set of cluster {recorded.cluster.name}{consequence}"
        advice = f"; the object is in Git; run levelgate explain source/{source}" if source else ""
        if live is None and not advice:
            advice = await suggest_name(recorded.cluster, ref, key)
        advice = advice or recorded.unwritten_note
        if live is not None and not advice:
            advice = "; list the objects of a source with `levelgate tree source/NAME`"
        raise RefError(f"{key} {problem}{advice}")

    async def _require_node(self, instance: Object, node: str) -> None:
        """Check that the instance has an object of the node or collection `node`.

        Raises: RefError if the instance has no such object.
        """
        nodes = {Member.from_object(member).node_id for member in await list_members(self.recorded.cluster, instance)}
        if node not in nodes and not any(node_id.startswith(f"{node}/") for node_id in nodes):
            raise RefError(
                f"{ObjectKey.from_manifest(instance)} has no object of a node {node!r}"
                f"{suggestion_or_names(node, nodes)}"
            )

    async def explain_source(self, ref: Ref) -> CauseChain:
        """Explain a source by its causes and its instances."""
        record = dict(self.recorded.records).get(ref.name)
        if record is None:
            source_names = ", ".join(name for name, _ in self.recorded.records) or "none"
            raise RefError(
                f"source {ref.name!r} is not in cluster {self.recorded.cluster.name}; its sources are: {source_names}"
            )
        own_instances = tuple(
            instance for instance in await self.recorded.all_instances() if instance.source == ref.name
        )
        causes = [parse_row(row) for row in record.causes]
        chain = await self._explain_causes(source_parent(ref.name), causes, source=ref.name)
        state = DisplayState.from_reasons(
            [*(instance.reason for instance in own_instances), *(cause.reason for cause in causes)]
        )
        configured = configured_sources(await self.recorded.cluster.get(INSTALLATION))
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
        """Explain the rollout of a definition by its worst instance.

        Prefer a halted instance, because its chain leads to the failure.

        Raises: RefError if the cluster does not have the rollout.
        """
        if (rollout := self.recorded.rollouts.get(ref.name)) is None:
            raise RefError(
                f"rollout {ref.name!r} is not in cluster {self.recorded.cluster.name}; "
                "list rollouts with `levelgate status`"
            )
        own_instances = tuple(
            instance for instance in await self.recorded.all_instances() if instance.rollout == ref.name
        )
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
        """Return the causes that prevent the use of the newest version of a definition in Git."""
        rows = [cause for _, record in self.recorded.records for cause in map(parse_row, record.causes)]
        crd_rows = [row for row in rows if row.object_key and row.object_key.group_kind == CRD]
        if not crd_rows:
            return ()
        # A rollout of the items of a node has the name of the node, which is not the name of a definition.
        with suppress(RefError):
            crd = await find_key(self.recorded.cluster, Ref(DEFINITION, definition), "")
            return tuple(row for row in crd_rows if row.object_key == crd and row.reason is Reason.RENDER_FAILED)
        return ()

    async def explain_window(self, ref: Ref) -> CauseChain:
        """Explain a window by the changes that the window holds up, in every source with a window of this name.

        Raises: RefError if no window of this name is in force.
        """
        matches = [(rules, rules.windows[ref.name]) for rules in self.recorded.rules if ref.name in rules.windows]
        if not matches:
            window_names = (
                ", ".join(sorted({name for rules in self.recorded.rules for name in rules.windows})) or "none"
            )
            raise RefError(
                f"window {ref.name!r} is not in force in cluster {self.recorded.cluster.name}; "
                f"its windows are: {window_names}"
            )
        held_instances = tuple(
            instance for instance in await self.recorded.all_instances() if ref.name in _window_names(instance.causes)
        )
        instances = {instance.key for instance in held_instances}
        rows = [cause for _, record in self.recorded.records for cause in map(parse_row, record.causes)]
        objects = tuple(row for row in rows if ref.name in _window_names([row]) and row.object_key not in instances)
        closed_links = tuple(
            ClosedWindowLink.from_window(self.recorded.now, window, rules.source)
            for rules, window in matches
            if is_closed(window, self.recorded.now)
        )
        open_windows = tuple(window for _, window in matches if not is_closed(window, self.recorded.now))
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
        """Build the chain from the first of `causes`, and list the remaining causes beside the chain.

        Args:
            source: name of the source. The default is the source of `instance`.
        """
        unit = f"{key}/{node}" if node else str(key)
        if not causes and instance and key == instance.key and not node:
            causes = instance.display_causes
        subject = instance.key if instance else (causes[0].object_key if causes else None) or key
        chain = [link async for link in self._links(subject, causes[0], instance)] if causes else []
        state = DisplayState.from_reasons(cause.reason for cause in causes)
        open_windows = await self.recorded.open_windows(instance, chain) if instance and chain else ()
        rollout = self.recorded.rollouts.get(instance.rollout) if instance and chain else None
        facts = rollout.externals if rollout else {}
        source = source or (instance.source if instance else "")
        explanation = CauseChain(unit, state, key, instance, tuple(chain), tuple(causes[1:]), open_windows, facts)
        return self._with_source(source, explanation)

    def _with_source(self, source: str, explanation: CauseChain) -> CauseChain:
        """Add the name and the commits of a source, because commands that approve a commit need them."""
        record = next((record for name, record in self.recorded.records if name == source), SourceRecord())
        return replace(explanation, source=source, commit=record.target, offered=record.offered)

    async def _links(self, key: ObjectKey, cause: Cause, instance: InstanceState | None) -> AsyncIterator[Link]:
        """Yield the links from `cause` to the last cause of the chain. A cycle ends after one round."""
        seen: set[tuple[ObjectKey, str]] = set()
        while (key, cause.node) not in seen:
            seen.add((key, cause.node))
            yield await self._waiting_link(key, cause, instance)
            window_names = [ref.name for ref in cause.references if ref.kind == "Window"]
            for window, source in self.recorded.find_windows(window_names, instance):
                yield ClosedWindowLink.from_window(self.recorded.now, window, source)
            next_step = None if window_names else await self._next_cause(key, cause, instance)
            if next_step is None:
                return
            instance, cause = next_step
            key = instance.key

    async def _next_cause(
        self, key: ObjectKey, cause: Cause, instance: InstanceState | None
    ) -> tuple[InstanceState, Cause] | None:
        """Return the next cause of the chain after `cause`, with its instance, or None at the end of the chain.

        The result is a cause of another node, of another instance, or of a nested instance.
        """
        nodes = [ref.name for ref in cause.references if ref.kind == "Node"]
        if instance and (next_row := next((row for row in instance.causes if row.node in nodes), None)):
            return instance, next_row
        others = [other async for other in self._blocking_instances(key, cause, instance) if not other.is_settled]
        others.sort(key=lambda peer: (not peer.causes, peer.state.rank))
        return (others[0], others[0].display_causes[0]) if others else None

    async def _blocking_instances(
        self, key: ObjectKey, cause: Cause, instance: InstanceState | None
    ) -> AsyncIterator[InstanceState]:
        """Yield the instances that block `instance`.

        Blocking instances are instances that the cause names, instances that hold up the rollout, and the nested
        instance of the cause.
        """
        names = [ref.name for ref in cause.references if ref.kind == "Instance"]
        for candidate in await self.recorded.instances_of(key.group_kind) if names else ():
            if candidate.key.qualified_name in names:
                yield candidate
        if instance and (holds_up := _ROLLOUT_BLOCKERS.get(cause.reason)):
            for candidate in await self.recorded.instances_of(key.group_kind):
                if holds_up(candidate, instance):
                    yield candidate
        nested = cause.object_key
        if nested and nested != key and any(nested in record.scopes for _, record in self.recorded.records):
            for candidate in await self.recorded.instances_of(nested.group_kind):
                if candidate.key == nested:
                    yield candidate

    async def _waiting_link(self, key: ObjectKey, cause: Cause, instance: InstanceState | None) -> WaitingLink:
        """Return the link of a cause.

        If the instance waits for the pace of its rollout, the link names the settled and unsettled instances of its
        wave.
        """
        unsettled = tuple(ref.name for ref in cause.references if ref.kind in {"Instance", "Node"})
        if instance is None or cause.node or cause.reason is not Reason.PACE_REACHED:
            return WaitingLink(key, cause, instance, unsettled=unsettled)
        wave_instances = [
            peer for peer in await self.recorded.instances_of(key.group_kind) if peer.rollout == instance.rollout
        ]
        wave_instances = [
            peer
            for peer in wave_instances
            if peer.wave == instance.wave and peer.target.revision == instance.target.revision
        ]
        settled = tuple(peer.key.qualified_name for peer in wave_instances if peer.is_settled)
        return WaitingLink(key, cause, instance, settled, unsettled)


def _has_failed_in(candidate: InstanceState, instance: InstanceState) -> bool:
    """Return whether the candidate has failed in the rollout of the instance."""
    return candidate.rollout == instance.rollout and candidate.state is DisplayState.FAILED


def _is_in_other_wave(candidate: InstanceState, instance: InstanceState) -> bool:
    """Return whether the candidate moves in the same rollout as the instance, but in another wave."""
    is_other_wave = candidate.rollout == instance.rollout and candidate.wave != instance.wave
    return is_other_wave and not candidate.reason.is_queued


_ROLLOUT_BLOCKERS: Mapping[Reason, Callable[[InstanceState, InstanceState], bool]] = {
    Reason.HALTED: _has_failed_in,
    Reason.WAVE_NOT_REACHED: _is_in_other_wave,
}
"""Reasons that come from the rollout, each with a test. The test returns True if a candidate holds up an instance."""


def _causes_of_node(instance: InstanceState, node: str) -> list[Cause]:
    """Return the causes at the node `node`, and the causes whose dependents include the node."""
    return [cause for cause in instance.causes if node == cause.node or node in cause.dependents]


def _window_names(causes: Iterable[Cause]) -> set[str]:
    """Return the names of the windows to which `causes` refer."""
    return {ref.name for cause in causes for ref in cause.references if ref.kind == "Window"}

"""Decisions of a whole reconciliation by a graph, with the reads that the graph asks for.

The graph keeps what it has decided from one reconciliation to the next, and decides anew what a change affects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

from applier.plan.model import ChangePermissions, Plan
from gitops.decisions.actions import all_overrides, whole_plan
from gitops.decisions.decision import Decision, suspended_decision
from gitops.decisions.definitions import read_record
from gitops.decisions.placements import restated_revisions
from gitops.decisions.plan_inputs import assumed_permissions
from gitops.decisions.renderings import ALL_PLACEMENTS, PLAN, RENDERING, SET_PLANS
from gitops.decisions.rollout_items import PROGRESS_CHANGES
from gitops.decisions.rollout_members import rollouts
from gitops.decisions.rollout_steps import ROLLOUT_STEPS, DecidedStep, rollout_step
from gitops.decisions.source_sets import SourceProgress, source_progress
from gitops.decisions.unread_objects import UNREAD_OBJECTS, UNREAD_SOURCE_OBJECTS
from gitops.queries import Answer, QueryGraph, Roots
from gitops.reconcile import missing_reads
from gitops.reconcile.context import Context
from gitops.reconcile.decision_reads import DecisionReads
from gitops.reconcile.graph_inputs import GraphInputs
from gitops.reconcile.graph_reports import explained_decision
from gitops.reconcile.loop_sharing import settle
from renderer.catalog.catalog import Catalog
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import Rendering

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_STEPS: Final = 1000
"""Maximum number of steps of one decision. A step follows a read, or a placement that lets another instance move."""


class UnsettledDecision(RuntimeError):
    """Programming error: a decision that changes without end."""


Decided = tuple[Rendering, Plan, Context]
"""Rendering, plan, and what is known."""


async def until_decided(step: Callable[[Context], Awaitable[Context | Decided]], known: Context) -> Decided:
    """Take steps until a step decides. Each other step returns what is known after a read or a placement.

    Raises: ClusterError, UnsettledDecision.
    """
    for _ in range(MAX_STEPS):
        found = await step(known)
        if not isinstance(found, Context):
            return found
        known = found
    raise UnsettledDecision(f"a decision has changed {MAX_STEPS} times; this is a fault of Levelgate")


@dataclass(frozen=True, slots=True)
class GraphDecider:
    """Decides for one cluster by a graph."""

    reads: DecisionReads
    inputs: GraphInputs

    @property
    def graph(self) -> QueryGraph:
        return self.inputs.graph

    def begin(self, known: Context) -> None:
        """Begin a reconciliation: grants that are not carried yet are decided anew, and statuses tell the progress."""
        inputs = self.inputs
        with self.graph.transaction() as transaction:
            inputs.set_placements(transaction, {**known.propagation.places, **inputs.placements})
            inputs.set_granted(transaction, {})
            inputs.forget_progress(transaction)
            inputs.forget_applied_nodes(transaction)

    async def decide(self, catalogs: Sequence[Catalog], known: Context) -> Decided:
        """Return the rendering, the plan, and what is known after all reads that they ask for.

        Raises: ClusterError, UnsettledDecision.
        """
        return await until_decided(partial(self._step, catalogs), known)

    async def _step(self, catalogs: Sequence[Catalog], known: Context) -> Context | Decided:
        """Return the decision, or what is known after a read or a placement that the decision needed."""
        rendered = await self.render(catalogs, known)
        if isinstance(rendered, Context):
            return rendered
        bundle, known = rendered
        still = suspended_decision(bundle, known.observed, known.conditions.states, known.now)
        if bundle.issued and not still:
            return bundle, Plan(()), known  # Nothing may be planned by a revision that is not stored.
        await settle(self.graph, ALL_PLACEMENTS)
        if self._place():
            return known
        decided = await self.plan(bundle, known)
        if isinstance(decided, Context):
            return decided
        if still:
            with self.graph.supposing({assumed_permissions.at(): still.gates}):
                return bundle, self._plan(), replace(known, propagation=still)
        await settle(self.graph, PROGRESS_CHANGES)
        return await self._decide(bundle, decided, known)

    async def render(self, catalogs: Sequence[Catalog], known: Context) -> Context | tuple[Rendering, Context]:
        """Return the rendering and what is known now, or what is known after a read that the rendering needed.

        Raises: ClusterError.
        """
        reads, cluster = self.reads, self.reads.cluster
        known = await reads.refresh(known)
        known = replace(known, records=reads.constraints_now(known))
        self.follow(catalogs, known)
        with reads.stage("render"):
            await settle(self.graph, RENDERING)
            bundle = self._rendering()
        if (read := await missing_reads.read_definitions(cluster, bundle, known)) is not known:
            return read
        if (read := await missing_reads.list_kinds(cluster, bundle, known)) is not known:
            return read
        return bundle, known

    async def plan(self, bundle: Rendering, known: Context) -> Context | Plan:
        """Return the plan of a rendering, or what is known after a read that the plan needed. Raises: ClusterError."""
        reads, cluster = self.reads, self.reads.cluster
        if absent := self.inputs.doubt_absences():
            return await missing_reads.read_absent(cluster, bundle, absent, known)
        for roots in (UNREAD_OBJECTS, UNREAD_SOURCE_OBJECTS):
            await settle(self.graph, roots)
        if unread := self._unread_objects():
            return await missing_reads.read_candidates(cluster, unread, known, reads.seen.objects)
        with reads.stage("plan"):
            await settle(self.graph, SET_PLANS)
            _check(self.graph, SET_PLANS)
            decided = self._plan()
        read = await self._read_objects(bundle, decided, known)
        return decided if read is known else read

    async def _read_objects(self, bundle: Rendering, decided: Plan, known: Context) -> Context:
        cluster, before = self.reads.cluster, self.reads.seen.objects
        return await missing_reads.read_objects(cluster, bundle, decided, known, before)

    async def _decide(self, bundle: Rendering, decided: Plan, known: Context) -> Context | Decided:
        """Return the decision of rollouts about a plan, or what is known after a placement or a read."""
        steps = self._steps()
        gated = known.gated | {one.rendered.parent for one in decided.sets if one.needs_applied_snapshot}
        if gated != known.gated:
            return replace(known, gated=gated)
        # What is observed of items may let instances go on that the plan held.
        decided = self._plan()
        if (read := await self._read_objects(bundle, decided, known)) is not known:
            return read
        if (read := await missing_reads.read_foreign_sources(self.reads.cluster, decided, known)) is not known:
            return read
        known, is_healed = await self.reads.read_earlier(bundle, decided, known)
        if is_healed:
            return known
        return bundle, decided, replace(known, propagation=self._decision(known, steps))

    def explain(self, bundle: Rendering, decided: Plan, known: Context) -> tuple[Plan, Context]:
        """Return the plan and the decision with why each instance stays where it is, and with what reports tell."""
        found = explained_decision(self.inputs, bundle, decided, known)
        with self.graph.transaction() as transaction:
            self.inputs.set_outlook(transaction, found.stays)
        final = found.with_causes(self._plan())
        return final, replace(known, propagation=found.with_edges(final))

    # -- Graph

    def follow(self, catalogs: Sequence[Catalog], known: Context) -> None:
        """Set what is known. See `GraphInputs.following`."""
        with self.inputs.following(catalogs, known) as transaction:
            self.inputs.set_decision_inputs(transaction, known, known.propagation.gates.targets)
            for source in [catalog.source for catalog in catalogs]:
                own = known.earlier.get(source)
                progress = SourceProgress(
                    source in known.settled, own.applied if own else None, own.begun if own else None
                )
                transaction.set(source_progress.at(source), progress)

    def _rendering(self) -> Rendering:
        """Return the rendering, with the records that have to be read first."""
        _check(self.graph, RENDERING)
        answer = self.graph.answer_of(RENDERING, None)
        records = frozenset(record for (record,) in answer.unread_of(read_record))
        assert answer.value is not None
        return replace(answer.value, unread=records) if records else answer.value

    def _unread_objects(self) -> frozenset[ObjectKey]:
        """Return the objects that have to be read before their sets are planned."""
        found = self.inputs.unread_objects
        for answer in chain[Answer[Any, frozenset[ObjectKey]]](
            changed_answers(self.graph, UNREAD_OBJECTS), changed_answers(self.graph, UNREAD_SOURCE_OBJECTS)
        ):
            if answer.value:
                found[answer.key] = answer.value
            else:
                found.pop(answer.key, None)
        return frozenset[ObjectKey]().union(*found.values())

    def _plan(self) -> Plan:
        def ask() -> Answer[Any, Plan]:
            _check(self.graph, PLAN)
            return self.graph.answer(whole_plan)

        found = self.inputs.observed(ask).value
        assert found is not None
        return found

    def _steps(self) -> Mapping[str, DecidedStep]:
        """Return the decisions of rollouts. Rollouts that are new have no record."""
        names = rollouts(self.graph)
        with self.graph.transaction() as transaction:
            self.inputs.add_rollouts(transaction, names)
        self._update_steps()
        for name in names:
            self.inputs.observed(partial(self._answer_step, name))
        return {name: step for name in sorted(rollouts(self.graph)) if (step := rollout_step(self.graph, name))}

    def _answer_step(self, name: str) -> Answer[Any, DecidedStep | None]:
        self._update_steps()
        return self.graph.answer(rollout_step, name)

    def _update_steps(self) -> None:
        """Count the present progress of items, and bring the steps of all rollouts up to date."""
        self.inputs.observe_progress()
        _check(self.graph, ROLLOUT_STEPS)

    def _place(self) -> bool:
        """Render instances from the revisions that are decided now. Return whether any revision is another one."""
        _check(self.graph, ALL_PLACEMENTS)
        placed = self.graph.answer_of(ALL_PLACEMENTS, None).value or {}
        if is_changed := placed != self.inputs.placements:
            with self.graph.transaction() as transaction:
                self.inputs.set_placements(transaction, placed)
        return is_changed

    def _decision(self, known: Context, steps: Mapping[str, DecidedStep]) -> Decision:
        """Return what the graph has decided, without explanations."""
        now = known.now
        states = {**known.conditions.states, **{name: step.state.dated(now) for name, step in steps.items()}}
        decided = Decision(
            gates=ChangePermissions(targets={**restated_revisions(self.graph), **self.inputs.granted}),
            states=states,
            source_requests=known.propagation.source_requests,
            grants={key: number for step in steps.values() for key, number in {**step.starts, **step.grants}.items()},
        )
        overrides = all_overrides(self.graph)
        return decided.with_records(one._replace(entry=replace(one.entry, at=now)) for one in overrides)


def changed_answers(graph: QueryGraph, roots: Roots[K, V]) -> Iterator[Answer[K, V]]:
    """Yield the answers of the roots that have changed. Raises: Fault of a query."""
    for answer in graph.changed(roots):
        if answer.fault is not None:
            raise answer.fault
        yield answer


def _check(graph: QueryGraph, roots: Roots[Any, Any]) -> None:
    """Bring the roots up to date. Raises: Fault of a query."""
    for _ in changed_answers(graph, roots):
        pass

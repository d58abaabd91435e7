"""One pass: observe, then render, plan and execute until nothing more is allowed, then conclude.

A pass may be called again at any time; it does what is possible and says what it left and why. It never waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Protocol

from applier.applyset.inventory import epoch_of
from applier.cluster import CONTENT_MANAGER, Cluster, Object
from applier.errors import ClusterError, StaleWrite
from applier.execute.executor import Executor
from applier.execute.pending_writes import PendingWrites
from applier.execute.refusals import FIRST_RETRY_WAIT, MAX_RETRY_WAIT
from applier.execute.results import Result
from applier.plan.model import ApplySetPlan, Plan
from applier.read.pending_reads import PendingReads
from applier.state.observed import Observed
from gitops.clock import Clock
from gitops.decisions.inputs import DecisionRules
from gitops.instrumentation import Stage, no_stage
from gitops.reconcile import beforehand, conclude
from gitops.reconcile.beforehand import RevisionNumbering
from gitops.reconcile.context import Context, ReconcileResult
from gitops.reconcile.decision_reads import DecisionReads
from gitops.reconcile.earlier_objects import EarlierCatalogs
from gitops.reconcile.graph_inputs import GraphInputs
from gitops.reconcile.graph_step import GraphDecider
from gitops.reconcile.incremental.cluster_state import ClusterState
from gitops.reconcile.incremental.grants import granted, miscounted, recount, retold
from gitops.reconcile.incremental.interests import Roots
from gitops.reconcile.incremental.part_decider import PartDecider
from gitops.reconcile.incremental.scope import (
    WidenScope,
    admit_scope,
    affects_others,
    changed_objects,
    is_bulk_change,
    scope_exceeded,
)
from gitops.reconcile.left_behind import LeftBehindSearch, unwanted_still
from gitops.reconcile.observe import FactsAt, observe_all, observe_part, refresh_installation, refresh_kro_status
from gitops.reconcile.set_summaries import SetSummaries
from gitops.reconcile.sources import SourceState, revisions_of
from gitops.reconcile.write_content import ContentWriter
from gitops.reconcile.write_records import RecordWriter
from gitops.records.applied_packs import KIND
from gitops.records.installation import INSTALLATION, ensure_namespace
from gitops.records.pack_store import AppliedPacks
from gitops.records.revisions import RevisionArchive
from gitops.records.source_record import initial_source_body
from gitops.records.transitions import Transition
from renderer.catalog.catalog import Catalog, written_versions
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey, source_parent
from renderer.render.model import NewRevision, Rendering

MAX_ROUNDS = 200
"""A pass that still finds something to do after so many rounds is cut; the next pass goes on. Levels, waves and hand-overs need a few each."""


class WriterTerm(Protocol):
    """In whose name a process writes: see `gitops.leadership.Leadership`."""

    @property
    def epoch(self) -> int: ...

    async def outdo(self, epoch: int) -> None: ...


@dataclass(slots=True)
class Reconciler:
    """Brings one cluster to what its sources say.

    `name` is what the configuration calls the cluster.

    `report` hears of every action as it is done; `stopping` ends a pass between two rounds; `facts` gives the external facts that are declared, as
    they are at a time, without asking anybody; `lead` is in whose name it writes, None where nobody else may. `follows` names the sources that are
    followed for good, read or not; None: nobody follows any. `whole` is what the last pass over everything knew, if parts may rest on it; `inputs` is
    the graph by which passes decide. `numbering` gives new revisions their numbers; None: the cluster counts its own.
    One that `insists` waits at its end until all is answered, and each of its passes tries again what was refused. `stage`
    hears of passes and what they consist of, `announced` of what has changed by them.
    """

    cluster: Cluster
    version: str
    clock: Clock
    name: str
    report: Callable[[Result], None] = lambda _: None
    stopping: Callable[[], bool] = lambda: False
    facts: FactsAt | None = None
    lead: WriterTerm | None = None
    stage: Stage = no_stage
    on_transitions: Callable[[Sequence[Transition]], None] = lambda _: None
    follows: Collection[str] | None = None
    whole: ClusterState | None = None
    numbering: RevisionNumbering | None = None
    waits_for_responses: bool = True
    inputs: GraphInputs = field(init=False, default_factory=GraphInputs)
    reads: PendingReads = field(init=False)
    content: ContentWriter = field(init=False)
    records: RecordWriter = field(init=False)
    decision_reads: DecisionReads = field(init=False)
    ledger: SetSummaries = field(init=False, default_factory=SetSummaries)
    left_behind: LeftBehindSearch = field(init=False, default_factory=LeftBehindSearch)
    packs: AppliedPacks = field(init=False, default_factory=AppliedPacks)
    _answered: Callable[[Object], bool] = field(init=False, default=lambda _: False)

    def __post_init__(self) -> None:
        underway = PendingWrites()
        self.reads = PendingReads(
            self.cluster, lambda: self.waits_for_responses, underway.has_written, sleep=self.clock.sleep
        )
        self.decision_reads = DecisionReads(self.reads, self.clock, stage=self.stage)
        self.decision_reads.refusals.first_retry_wait = timedelta() if self.waits_for_responses else FIRST_RETRY_WAIT
        self.content = ContentWriter(
            self.cluster,
            self.reads,
            self.version,
            self.clock,
            lambda: self.waits_for_responses,
            self._reported,
            self.stage,
            self.decision_reads.fights,
            self.decision_reads.refusals,
            underway,
        )
        self.records = RecordWriter(
            self.cluster, self.clock, lambda: self.waits_for_responses, self._announced, self._stored
        )

    def run_in_background(
        self,
        again: Callable[[Result, float], None],
        readable: Callable[[GroupKind], None],
        answered: Callable[[Object], bool],
    ) -> None:
        """Passes wait no longer for what takes long. `again` is told of writes that are worth another look, in how many seconds, `readable` of kinds
        that answer again, `answered` of records that were written after their pass; it says whether those who care about it hear of it that way.
        """
        self.waits_for_responses, self.reads.on_answering_again, self._answered = False, readable, answered
        self.decision_reads.refusals.first_retry_wait = FIRST_RETRY_WAIT
        self.content.underway.on_postponed = self.records.underway.on_postponed = again

    def heal_from(self, earlier: EarlierCatalogs) -> None:
        """Passes heal plain objects whose change is held from what `earlier` reads."""
        self.decision_reads = replace(self.decision_reads, earlier=earlier)

    def disable_retries(self) -> None:
        """Passes send again what was refused only where something of it has changed, or after minutes."""
        self.decision_reads.refusals.first_retry_wait = MAX_RETRY_WAIT

    @property
    def pending(self) -> list[tuple[Result, float]]:
        """Writes that were put off, and in how many seconds they are worth another look."""
        return [*self.content.underway.postponed_results, *self.records.underway.postponed_results]

    async def wait_until_idle(self) -> None:
        """Until the writes that are open now are answered."""
        await asyncio.gather(self.content.underway.wait_until_idle(), self.records.underway.wait_until_idle())

    async def close(self, seconds: float) -> None:
        """Wait at most so long for writes that are open, then break them off."""
        await self.reads.close()
        await asyncio.gather(self.content.underway.close(seconds), self.records.underway.close(seconds))

    async def reconcile(self, sources: Sequence[SourceState]) -> ReconcileResult:
        """One pass over all sources. Raises ClusterError only when the cluster cannot be read at all, NotLeading where another process leads,
        NewerRecords where a later version keeps the records.
        """
        with self.stage("pass", **revisions_of(sources)):
            return await self._whole(sources)

    async def _whole(self, sources: Sequence[SourceState]) -> ReconcileResult:
        self.whole, given = None, sources
        sources = await refresh_kro_status(self.reads, sources, self.clock.now())
        catalogs, known = await self._observe(sources)
        self.packs.observe(known.archive.records.values())
        known = await self.left_behind.begin(self.reads, sources, known)
        self.content.forget_if_changed(sources, known.observed)
        known = self.content.with_pending_writes(await self._in_term(known))
        with self.content.executor(sources, known) as executor:
            bundle, decided, known, results = await self._rounds(executor, catalogs, known)
        self.ledger = SetSummaries.of(decided, self.ledger)
        self.decision_reads.refusals.forget_if_changed(known.observed)
        self.decision_reads.refusals.forget_absent(known.observed)
        if known.propagation.stopped:
            return ReconcileResult(
                bundle,
                decided,
                known.observed,
                tuple(results),
                known.propagation,
                ledger=self.ledger,
                sources=tuple(sources),
                now=known.now,
            )
        found = await self._conclude(sources, bundle, decided, known, results)
        if wrong := miscounted(self.inputs.graph, found.propagation.rollouts.values()):
            self.inputs = GraphInputs()  # The next pass decides everything anew.
            return replace(found, miscounted=wrong)
        if not (known.records.pruning_holds or self.stopping()):
            known, counts = replace(known, archive=self.decision_reads.seen.archive), recount(self.inputs.graph)
            self.whole = ClusterState(given, found, known, self.packs, counts.next_change)
            return replace(found, observed=self.whole.observed, latest=self.whole.latest)
        return found

    async def _rounds(
        self, executor: Executor, catalogs: Sequence[Catalog], known: Context
    ) -> tuple[Rendering, Plan, Context, list[Result]]:
        """Decide and act, until nothing more is allowed and nothing more is to be waited for."""
        results: list[Result] = []
        decider = GraphDecider(self.decision_reads, self.inputs)
        decider.begin(known)
        for _ in range(MAX_ROUNDS):
            is_explained = False
            bundle, decided, known = await decider.decide(catalogs, await refresh_installation(self.reads, known))
            if known.propagation.stopped:
                return bundle, decided, known, results
            if bundle.issued:
                known = replace(known, archive=await self._issue(bundle.issued, known.archive))
                continue
            if self.stopping():
                break
            if is_explained := decided.is_idle and not known.propagation.grants:
                decided, known = decider.explain(bundle, decided, known)
            asked, states = known.rollouts.requests, known.propagation.states
            is_changed = bool(known.rollouts.changed_names(states, includes_report=False))
            known, is_stored = await beforehand.store_decision(self.records, known, states, is_told=is_explained)
            if is_stored and known.propagation.grants:
                known = replace(known, propagation=known.propagation.with_grants())
                continue
            if asked or is_changed or not is_stored:
                continue  # decide anew, on what is stored
            known, is_stored, told = await beforehand.store_overrides(self.records, known, bundle.commits)
            await self.records.announce(told, known.now)
            if not is_stored:
                continue
            new = [one.rendered.parent for one in decided.sets if one.superset_scope and not one.parent]
            if new and (refused := await self._own_namespace_refused()):
                known = replace(known, observed=known.observed.with_failures(dict.fromkeys(new, refused)))
                continue
            if (outcome := await self.content.run_round(executor, decided, known.observed)) is None:
                break
            known = replace(known, observed=outcome.observed)
            results += outcome.results
        if not is_explained:
            decided, known = decider.explain(bundle, decided, known)
        return bundle, decided, known, results

    async def _conclude(
        self, sources: Sequence[SourceState], bundle: Rendering, decided: Plan, known: Context, results: list[Result]
    ) -> ReconcileResult:
        earlier = tuple(self.content.deeds)
        left_behind = await self.left_behind.look(self.reads, sources, bundle, decided, known)
        with self.stage("conclude"):
            known = await self._introduced(sources, known)
            end = await conclude.conclude(
                self.records,
                bundle,
                decided,
                self.ledger,
                sources,
                known.observed,
                known.archive,
                self.packs,
                known.propagation,
                known.calendar,
                version=self.version,
                cluster_name=self.name,
                now=known.now,
                results=results,
                earlier=earlier,
                follows=self.follows,
                left_behind=left_behind,
            )
        del self.content.deeds[: len(earlier)]
        await self.records.announce(end.transitions, known.now)
        observed = known.observed.with_objects([*known.rollouts.records.values(), *end.live])
        self.decision_reads.seen.archive = known.archive.with_stored(end.objects)
        self.decision_reads.seen.objects = observed.objects
        return ReconcileResult(
            bundle,
            decided,
            observed,
            (*results, *end.results),
            known.propagation,
            end.errors,
            self.ledger,
            sources=tuple(sources),
            now=known.now,
            holds_pruning=bool(known.records.pruning_holds),
            left_behind=left_behind,
        )

    def accept(self, sources: Sequence[SourceState]) -> frozenset[ObjectKey] | WidenScope:
        """The sources say this from now on: the objects that they want otherwise, or why only a whole pass can tell what that means."""
        if self.whole is None:
            return WidenScope("no full reconciliation has ended yet")
        found = changed_objects(self.whole, sources)
        if isinstance(found, WidenScope):
            return found
        due = {place: declared for place, declared in found.items() if self.whole.is_said_otherwise(place, declared)}
        if is_bulk_change(len(due), sources):
            return WidenScope(f"{len(due)} objects change, which is cheaper in a full reconciliation")
        self.whole.set_sources(sources, found, due=due)
        return frozenset(key for _, key in due)

    async def reconcile_roots(self, roots: Collection[ObjectKey]) -> ReconcileResult | WidenScope:
        """One pass over these objects of sources, at most `FEW`, with all that is nested in instances; or why a whole pass has to follow. Raises
        ClusterError. Parts of different objects may run side by side, but beside no whole pass.
        """
        with self.stage("part"):
            return await self._part(roots)

    async def _part(self, roots: Collection[ObjectKey]) -> ReconcileResult | WidenScope:
        whole = self.whole
        if whole is None:
            return WidenScope("no full reconciliation has ended yet")
        part = admit_scope(whole, roots)
        if isinstance(part, WidenScope):
            return part
        sources, due = whole.sources, dict(whole.changed_roots)
        with self.stage("observe"):
            known = await observe_part(
                self.reads, whole, part, self.decision_reads.seen, clock=self.clock, facts=self.facts
            )
        known = self.content.with_pending_writes(await self._in_term(known), part.instances | part.roots)
        results: list[Result] = []
        decider = PartDecider(self.decision_reads, self.inputs, whole, part, [state.catalog for state in sources])
        with self.content.executor(sources, known) as executor:
            for _ in range(MAX_ROUNDS):
                bundle, decided, known = await decider.decide(await refresh_installation(self.reads, known))
                if why := scope_exceeded(whole, part, bundle, decided, known):
                    return WidenScope(why)
                if self.stopping() or (
                    (outcome := await self.content.run_round(executor, decided, known.observed)) is None
                ):
                    break
                known = replace(known, observed=outcome.observed)
                self.content.deeds += outcome.results
                results += outcome.results
        end = await conclude.conclude_roots(
            self.records,
            decided,
            sources,
            self.packs,
            known.propagation,
            known.now,
            results=results,
        )
        self.packs.keep_contents(known.archive.records.values())
        await self.records.announce(end.transitions, known.now)
        done = (*results, *end.results)
        observed = known.observed.with_objects(end.live)
        found = ReconcileResult(
            bundle, decided, observed, done, known.propagation, status_errors=end.errors, now=known.now
        )
        why, counts = affects_others(whole, found), recount(self.inputs.graph)
        merged = whole.update_from(found, part.instances, due, counts)
        return WidenScope(why) if why else merged

    async def reconcile_grants(self) -> frozenset[ObjectKey] | WidenScope:
        """Let instances move, where parts found that others have come further: those to look at now, or why a whole pass has to tell. One at a
        time, and beside no whole pass. Raises ClusterError.
        """
        whole = self.whole
        if whole is None or not whole.rollouts_to_recompute:
            return frozenset()
        nothing = Observed(whole.observed.discovery, {}, frozenset())
        known = await refresh_installation(self.reads, replace(whole.known, observed=nothing))
        late = self.advance_clock()
        if late is None:
            return WidenScope("time may have changed more than partial reconciliations read")
        found = granted(whole, self.inputs.graph, known.observed)
        whole.rollouts_to_recompute.clear()
        if isinstance(found, WidenScope):
            return found
        try:
            rollouts, failed = await beforehand.store_rollouts(
                self.records, whole.known.rollouts, found.states, is_told=False
            )
        except StaleWrite as error:
            return WidenScope(f"grants are not recorded: {error}")
        whole.record_stored_records(rollouts, ())
        if failed:
            return WidenScope(f"grants are not recorded: {next(iter(failed.values()))}")
        whole.grant(found.targets, found.states)
        with self.inputs.graph.transaction() as transaction:
            unrecorded = whole.known.conditions.unrecorded
            self.inputs.set_rollouts(transaction, rollouts.states(known.now), rollouts.requests, unrecorded)
            self.inputs.set_granted(transaction, whole.granted)
        return frozenset(late).union(root for key in found.targets if (root := whole.root_of(key)))

    def advance_clock(self) -> Roots:
        """Time has passed: whom to look at because of that alone, such as those whose bake has ended."""
        whole = self.whole
        if whole is None:
            return None
        conditions = self._conditions(whole)
        if conditions.reading.is_skewed:
            return None
        self._follow(conditions)
        return whole.advance_clock(conditions.reading.now, recount(self.inputs.graph))

    def changed_move_causes(self) -> Sequence[ApplySetPlan]:
        """The instances of rollouts with why they stay where they are, by what parts found since everything was looked at."""
        if self.whole is None:
            return ()
        self._follow(self._conditions(self.whole))
        return retold(self.whole, self.inputs.graph)

    def _conditions(self, whole: ClusterState) -> DecisionRules:
        reading = self.decision_reads.seen.read(self.clock, self.cluster.server_time)
        facts = self.facts(reading.now) if self.facts else None
        return replace(whole.known.conditions, reading=reading, externals=facts)

    def _follow(self, conditions: DecisionRules) -> None:
        """Let the graph decide under these conditions."""
        with self.inputs.graph.transaction() as transaction:
            self.inputs.set_conditions(transaction, conditions)
        self.inputs.observe_progress()

    async def report_sources(self) -> None:
        """Bring the records of sources and rollouts up to what passes over parts found, if they say something else. Raises ClusterError."""
        whole = self.whole
        if whole is None or whole.changed_roots or not whole.has_unreported_changes:
            return
        now, told = self.decision_reads.seen.read(self.clock, self.cluster.server_time), whole.propagation
        rollouts, _ = await beforehand.store_rollouts(self.records, whole.known.rollouts, told.states)
        deeds, self.content.deeds, whole.has_unreported_changes = self.content.deeds, [], False
        end = await conclude.conclude_reports(
            self.records,
            whole.ledger,
            whole.sources,
            whole.observed,
            told,
            deeds,
            now.now,
            left_behind=unwanted_still(whole.sources, whole.observed, whole.wanted),
        )
        whole.record_stored_records(rollouts, end.objects)
        await self.records.announce(end.transitions, now.now)

    @property
    def refused(self) -> Mapping[ObjectKey, Mapping[ObjectKey, datetime]]:
        """When what was refused is tried again although nothing has changed: by the parent of the set, by object."""
        return self.content.refused

    def _reported(self, result: Result) -> None:
        self.report(result)

    def _announced(self, transitions: Sequence[Transition]) -> None:
        self.on_transitions(transitions)

    def _stored(self, obj: Object) -> bool:
        """A record that was written after the pass that began it. Is it worth another look at its instance, whatever it says?"""
        is_heard = self._answered(obj)
        if obj["kind"] == KIND.kind:
            self.packs.add(obj)
        elif self.whole:
            self.whole.record_stored_records(self.whole.known.rollouts.with_stored([obj]), [obj])
        return not is_heard

    def is_writing(self, key: ObjectKey) -> bool:
        """Is what is told of this object being written, so that its answer is still to come?"""
        return self.records.underway.is_open(key)

    def expects(self, obj: Object) -> bool:
        """Would a pass over this instance find nothing new, though it is not as the last one saw it? See `ClusterState.expects`."""
        return self.whole is not None and self.whole.expects(obj)

    async def _observe(self, sources: Sequence[SourceState]) -> tuple[list[Catalog], Context]:
        self.reads.set_versions(written_versions([state.catalog for state in sources]))
        with self.stage("observe"):
            known = await observe_all(
                self.reads,
                sources,
                self.decision_reads.seen,
                clock=self.clock,
                cluster_name=self.name,
                facts=self.facts,
            )
        return [state.catalog for state in sources], known

    async def _in_term(self, known: Context) -> Context:
        """With the term in which it writes, which is the last in which anybody has written."""
        if self.lead is None:
            return known
        last = max(map(epoch_of, known.observed.objects.values()), default=0)
        if last > self.lead.epoch:
            await self.lead.outdo(last)
        return replace(known, records=replace(known.records, epoch=self.lead.epoch))

    async def _introduced(self, sources: Sequence[SourceState], known: Context) -> Context:
        """There is an object to tell of each source that waits before anything of it is written, and a place for what is told of all."""
        waiting = known.propagation.gates.suspended.keys() - known.observed.objects.keys()
        names = [state.catalog.source for state in sources]
        new = [name for name in names if source_parent(name) in waiting]
        if not (new or (self.follows and INSTALLATION not in known.observed.objects)):
            return known
        if await self._own_namespace_refused():
            return known
        with suppress(ClusterError):  # the next pass tries again
            told = [await self.cluster.apply(initial_source_body(name), manager=CONTENT_MANAGER) for name in new]
            return replace(known, observed=known.observed.with_objects(told))
        return known

    async def _issue(self, issued: Sequence[NewRevision], archive: RevisionArchive) -> RevisionArchive:
        if refused := await self._own_namespace_refused():
            return replace(archive, write_errors=dict.fromkeys((one.kind for one in issued), str(refused)))
        return await beforehand.store_revisions(self.records, issued, archive, self.numbering)

    async def _own_namespace_refused(self) -> ClusterError | None:
        """Make sure that the namespace of our own records exists; the error if it cannot be made."""
        try:
            await ensure_namespace(self.cluster)
        except ClusterError as error:
            return error
        return None

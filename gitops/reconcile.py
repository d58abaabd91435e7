"""One pass: observe, then render, plan and execute until nothing more is allowed, then conclude.

A pass may be called again at any time; it does what is possible and says what it left and why. It never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from applier import kro, observe
from applier.cluster import Cluster, Object
from applier.errors import ClusterError, StaleWrite
from applier.execute import Executor, Result
from applier.fights import Fights
from applier.inventory import Scope, scope_of
from applier.observed import Observed, annotation, label
from applier.plan import Plan, Records, plan
from applier.plan.comparing import Comparisons
from applier.write import Writer
from gitops import calendar, conclude
from gitops.clock import Clock
from gitops.installation import INSTALLATION, ensure_namespace
from gitops.propagation import deadlock, governor
from gitops.propagation.gates import Fact
from gitops.propagation.judge import Reading, steady
from gitops.propagation.propagation import Propagation
from gitops.propagation.rules import SourceRules, Stored, in_force, unread
from gitops.propagation.situation import Conditions, Situation
from gitops.record import SourceRecord, is_approval
from gitops.revisions import Archive
from gitops.rollouts import Rollouts
from gitops.sources import SourceState
from renderer import keys
from renderer.catalog import Catalog
from renderer.identity import GroupKind, ObjectKey, applyset_id
from renderer.kinds import CRD
from renderer.memo import Memo
from renderer.model import Bundle
from renderer.object_types import ObjectTypes, of_crds
from renderer.render import OWN_NAMESPACE, World, render, source_parent

MAX_ROUNDS = 200
"""A pass that still finds something to do after so many rounds is cut; the next pass goes on. Levels, waves and hand-overs need a few each."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass found, decided and did. `changed` counts writes of content, parents and status.

    `changes`, of a preview, are the fields in which objects to be adopted would change.
    """

    bundle: Bundle
    plan: Plan
    observed: Observed
    results: tuple[Result, ...]
    propagation: Propagation = field(default_factory=Propagation)
    status_errors: tuple[ClusterError, ...] = ()
    changes: Mapping[ObjectKey, tuple[str, ...]] = field(default_factory=dict)

    @property
    def changed(self) -> int:
        return sum(1 for result in self.results if result.error is None)


_Lost = Mapping[ObjectKey, Scope]
"""Scopes of source sets whose record is gone, as a list of everything found them."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What a pass knows so far. `calendar` is the ConfigMap `windows` as it is, `gated` are instances that wait at a gate and are rendered at
    their applied pair as well.
    """

    observed: Observed
    archive: Archive
    rollouts: Rollouts
    calendar: Object | None
    conditions: Conditions
    propagation: Propagation
    lost: _Lost
    gated: frozenset[ObjectKey] = frozenset()

    def hearing(self, rollouts: Rollouts) -> _Known:
        """With these records of rollouts, and what people ask there."""
        states = rollouts.states(self.now)
        conditions = replace(self.conditions, states=states, requests=rollouts.requests)
        return replace(self, rollouts=rollouts, conditions=conditions)

    @property
    def now(self) -> datetime:
        return self.conditions.reading.now


@dataclass(slots=True)
class _Seen:
    """What one pass leaves for the next: contents of records, which never change, the time, which never goes back, how the cluster's CRDs describe
    their kinds, and the rules of each source with what they were read from.
    """

    archive: Archive = field(default_factory=Archive)
    types: ObjectTypes = field(default_factory=ObjectTypes)
    reading: Reading | None = None
    rules: dict[str, tuple[Catalog, Stored, SourceRules]] = field(default_factory=dict)

    def rules_of(self, catalog: Catalog, stored: Stored) -> SourceRules:
        """Those in force. To read a window costs more than to judge by it, so that is done once for each commit."""
        known = self.rules.get(catalog.source)
        if known is None or known[0] is not catalog or known[1] != stored:
            known = self.rules[catalog.source] = catalog, stored, in_force(catalog, stored)
        return known[2]


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Brings one cluster to what its sources say.

    `report` hears of every action as it is done; `stopping` ends a pass between two rounds; `facts` gives the external facts that are declared, as
    they are at a time, without asking anybody; `fights` and `seen` remember from pass to pass.
    """

    cluster: Cluster
    version: str
    clock: Clock
    report: Callable[[Result], None] = lambda _: None
    stopping: Callable[[], bool] = lambda: False
    facts: Callable[[datetime], Mapping[str, Fact]] | None = None
    memo: Memo = field(default_factory=Memo)
    comparisons: Comparisons = field(default_factory=Comparisons)
    fights: Fights = field(default_factory=Fights)
    seen: _Seen = field(default_factory=_Seen)

    async def reconcile(self, sources: Sequence[SourceState]) -> Pass:
        """One pass over all sources. Raises ClusterError only when the cluster cannot be read at all."""
        sources = await self._heeding_kro(sources)
        revisions = {state.catalog.source: state.catalog.revision for state in sources}
        executor = Executor(self.cluster, self.version, revisions)
        known = await self._observe(sources)
        results: list[Result] = []
        for _ in range(MAX_ROUNDS):
            bundle, decided, known = await self._decide(sources, await self._heeding(known))
            if known.propagation.stopped:
                return Pass(bundle, decided, known.observed, tuple(results), known.propagation)
            if self.stopping():
                break
            if bundle.issued:
                known = replace(known, archive=await self._issue(bundle, known.archive, revisions))
                continue
            asked = known.rollouts.requests
            known, is_stored = await self._keep(known)
            if asked or not is_stored:
                continue  # decide anew, on what is stored
            if decided.is_idle:
                break
            new = [one.rendered.parent for one in decided.sets if one.superset and not one.parent]
            if new and (refused := await self._own_namespace_refused()):
                known = replace(known, observed=known.observed.failed(dict.fromkeys(new, refused)))
                continue
            outcome = await executor.execute(decided, known.observed)
            known = replace(known, observed=outcome.observed)
            results += outcome.results
            self.fights.note(outcome.results, self.clock.now())
            for result in outcome.results:
                self.report(result)
        found = Pass(bundle, decided, known.observed, tuple(results), known.propagation)
        written, errors = await conclude.conclude(
            self.cluster,
            found.plan,
            sources,
            known.observed,
            known.archive,
            known.propagation,
            known.calendar,
            version=self.version,
            now=known.now,
            results=results,
        )
        self.seen.archive = known.archive
        return replace(found, results=(*results, *written), status_errors=tuple(errors))

    async def preview(self, sources: Sequence[SourceState]) -> Pass:
        """What a pass would do first, and what would follow; nothing is written, but the server is asked by dry runs."""
        sources = await self._heeding_kro(sources)
        bundle, decided, known = await self._decide(sources, await self._heeding(await self._observe(sources)))
        rehearsal = await Writer(self.cluster, {}).rehearse(decided, known.observed)
        bundle, decided, known = await self._decide(sources, replace(known, observed=rehearsal.observed))
        return Pass(bundle, decided, known.observed, (), known.propagation, changes=rehearsal.changes)

    async def _observe(self, sources: Sequence[SourceState]) -> _Known:
        """All members of our sets and what is stored; and for sources without a record the members that a list of everything finds."""
        named = {state.catalog.source for state in sources}.union(*(state.governors for state in sources))
        archive = await Archive.observe(self.cluster, self.seen.archive)
        archive = await archive.read_rules(self.cluster, sorted(named))
        own = await self.cluster.list(GroupKind("", "ConfigMap"), OWN_NAMESPACE, selector=keys.RECORD)
        rollouts, windows = Rollouts.of(own), calendar.of(own)
        catalogs = [state.catalog for state in sources]
        parents = [source_parent(catalog.source) for catalog in catalogs]
        instances = {kind for catalog in catalogs for kind in (*catalog.definitions, *catalog.broken)}
        wanted = render(catalogs)
        observed = await observe.observe(self.cluster, parents, kinds=_kinds(wanted), whole=instances)
        observed = await observe.look(self.cluster, observed, _crds_to_look_at(wanted, observed))
        missing = {applyset_id(parent): parent for parent in parents if parent not in observed.objects}
        found = await observe.scan(self.cluster, observed, missing) if missing else {}
        lost = {missing[set_id]: scope_of(members, missing[set_id]) for set_id, members in found.items() if members}
        self.seen.reading = steady(self.clock.now(), self.seen.reading and self.seen.reading.now)
        rules = {one.source: self.seen.rules_of(one, archive.rules(one.source)) for one in catalogs}
        governors = {state.catalog.source: state.governors for state in sources}
        rules |= {name: unread(name, archive.rules(name)) for name in set().union(*governors.values()) - rules.keys()}
        commits = {catalog.source: catalog.revision for catalog in catalogs}
        conditions = Conditions(
            rules,
            {},
            self.seen.reading,
            commits=commits,
            suspended={state.catalog.source: state.suspend for state in sources if state.suspend},
            governors=governors,
            externals=self.facts(self.seen.reading.now) if self.facts else None,
            depends_on={state.catalog.source: state.depends_on for state in sources if state.depends_on},
        )
        begun = governor.begin(observed, archive.stored)
        known = _Known(observed, archive, rollouts, windows, conditions, begun, lost)
        return known.hearing(rollouts)

    async def _decide(self, sources: Sequence[SourceState], known: _Known) -> tuple[Bundle, Plan, _Known]:
        """Render, plan and let move, on complete knowledge: what any of them finds missing is read, and all are asked again."""
        catalogs = [state.catalog for state in sources]
        while True:
            observed = replace(known.observed, discovery=await self.cluster.discover())
            known = replace(known, observed=observed)
            self.seen.types = of_crds(_crds(observed), self.seen.types)
            bundle = render(catalogs, _world(known, catalogs, self.seen.types), self.memo)
            crds = _crds_to_look_at(bundle, observed)
            if bundle.unread or crds:
                archive = await known.archive.read(self.cluster, bundle.unread)
                known = replace(known, archive=archive, observed=await observe.look(self.cluster, observed, crds))
                continue
            records = replace(_records(sources, known), fights=self.fights.held_back(self.clock.now()))
            scoped = _kinds(bundle).union(*(scope.kinds for scope in records.scopes.values()))
            observed = await observe.complete(self.cluster, observed, scoped)
            decided = plan(bundle, observed, records, known.propagation.gates, self.comparisons)
            unknown = {key for one in decided.sets for key in one.unknown}
            references = {key for one in decided.sets for key in one.references}
            selections = {node.selection for one in bundle.sets for node in one.nodes if node.selection}
            selections -= observed.selected.keys()
            if unknown or references or selections:
                observed = await observe.select(self.cluster, observed, selections)
                observed = await observe.look(self.cluster, observed, unknown)
                observed = await observe.refer(self.cluster, observed, references)
                known = replace(known, observed=observed)
                continue
            known = replace(known, observed=observed)
            if still := governor.standing_still(bundle, observed, known.now):
                found = plan(bundle, observed, records, still.gates, self.comparisons)
                return bundle, found, replace(known, propagation=still)
            if bundle.issued:
                return bundle, decided, known
            stored = known.archive.stored
            moved = governor.decide(Situation(known.conditions, bundle, decided, observed, stored, known.propagation))
            gated = known.gated | {one.rendered.parent for one in decided.sets if one.needs_applied_pair}
            is_final = moved.decides_as(known.propagation) and gated == known.gated
            known = replace(known, propagation=moved, gated=gated)
            if is_final:
                final = plan(bundle, observed, records, moved.gates, self.comparisons)
                final = deadlock.told(final, moved.awaited)
                return bundle, final, replace(known, propagation=moved.after(final))

    async def _heeding_kro(self, sources: Sequence[SourceState]) -> Sequence[SourceState]:
        """Who may take over from kro learns whether it runs; where that cannot be told, it counts as running."""
        if not any(state.adoption.heirs_of for state in sources):
            return sources
        try:
            runs = await kro.running(self.cluster, self.clock.now())
        except ClusterError as error:
            runs = f"perhaps: {error}"
        return [replace(state, adoption=replace(state.adoption, kro=runs)) for state in sources]

    async def _heeding(self, known: _Known) -> _Known:
        """With what a person says now of the whole installation: it is asked before every round, so that everything can be stopped soon."""
        return replace(known, observed=await observe.look(self.cluster, known.observed, {INSTALLATION}))

    async def _keep(self, known: _Known) -> tuple[_Known, bool]:
        """Store what was decided of rollouts; False where somebody wrote there meanwhile: then nothing of this pass's decisions stands."""
        try:
            rollouts = await known.rollouts.store(self.cluster, known.propagation.states)
        except StaleWrite:
            known = known.hearing(await Rollouts.observe(self.cluster))
            return replace(known, propagation=governor.begin(known.observed, known.archive.stored)), False
        return known if rollouts == known.rollouts else known.hearing(rollouts), True

    async def _issue(self, bundle: Bundle, archive: Archive, commits: Mapping[str, str]) -> Archive:
        if refused := await self._own_namespace_refused():
            return replace(archive, refused=dict.fromkeys((one.kind for one in bundle.issued), str(refused)))
        return await archive.issue(self.cluster, bundle.issued, commits)

    async def _own_namespace_refused(self) -> ClusterError | None:
        """Make sure that the namespace of our own records exists; the error if it cannot be made."""
        try:
            await ensure_namespace(self.cluster)
        except ClusterError as error:
            return error
        return None


def _crds_to_look_at(bundle: Bundle, observed: Observed) -> set[ObjectKey]:
    """CRDs of custom kinds in use that have not been seen: they describe what templates read and write, and one of them may be a definition's that
    is missing now.
    """
    kinds = _kinds(bundle) | {node.group_kind for one in bundle.definitions.values() for node in one.nodes}
    used = [resource for kind in kinds if (resource := observed.discovery.resources.get(kind)) and _is_custom(kind)]
    found = {ObjectKey(*CRD, "", f"{resource.plural}.{resource.group}") for resource in used}
    return {key for key in found if not observed.is_known(key)}


def _is_custom(kind: GroupKind) -> bool:
    return "." in kind.group and not kind.group.endswith(".k8s.io")


def _kinds(bundle: Bundle) -> set[GroupKind]:
    return {CRD} | {node.group_kind for rendered in bundle.sets for node in rendered.nodes if not node.external}


def _crds(observed: Observed) -> list[Object]:
    return [obj for key, obj in observed.objects.items() if key.group_kind == CRD]


def _world(known: _Known, catalogs: Sequence[Catalog], types: ObjectTypes) -> World:
    observed = known.observed
    by_set = {applyset_id(source_parent(catalog.source)): catalog.source for catalog in catalogs}
    defined: dict[GroupKind, str] = {}
    owners: dict[GroupKind, str] = {}
    for crd in _crds(observed):
        if name := annotation(crd, keys.DEFINITION):
            kind = GroupKind(crd["spec"]["group"], crd["spec"]["names"]["kind"])
            defined[kind] = name
            if source := by_set.get(label(crd, keys.PART_OF)):
                owners[kind] = source
    scopes = {kind: resource.namespaced for kind, resource in observed.discovery.resources.items()}
    return World(
        live=observed.objects,
        scopes=scopes,
        defined=defined,
        owners=owners,
        selected=observed.selections,
        stored=known.archive.stored,
        places=known.propagation.places,
        gated=known.gated,
        settled=frozenset(_settled(observed, catalogs)),
        types=types,
    )


def _settled(observed: Observed, catalogs: Sequence[Catalog]) -> Iterator[str]:
    """Sources whose own objects were brought to this commit before: what differs since is drift."""
    for catalog in catalogs:
        parent = observed.objects.get(source_parent(catalog.source))
        if parent and SourceRecord.read(parent).own == catalog.revision:
            yield catalog.source


def _records(sources: Sequence[SourceState], known: _Known) -> Records:
    observed, lost = known.observed, known.lost
    scopes: dict[ObjectKey, Scope] = dict(lost)
    approved = set()
    for state in sources:
        if parent := observed.objects.get(source_parent(state.catalog.source)):
            scopes |= SourceRecord.read(parent).scopes
            if is_approval(annotation(parent, keys.APPROVED), state.catalog.revision):
                approved.add(state.catalog.source)
    holds = {
        state.catalog.source: state.hold for state in sources if state.hold and state.catalog.source not in approved
    }
    found_again = "the record of this source was gone; nothing is deleted in the pass that finds its members again"
    return Records(
        scopes=scopes,
        unreadable={state.catalog.source: state.catalog.protection for state in sources},
        hold_pruning=holds
        | {state.catalog.source: found_again for state in sources if source_parent(state.catalog.source) in lost},
        approved=frozenset(approved),
        adoption={state.catalog.source: state.adoption for state in sources},
        brakes={state.catalog.source: state.brake for state in sources},
    )

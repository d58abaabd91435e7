"""What passes write of content: what is begun stays under way when its pass ends, and what was refused is remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from datetime import datetime

from applier.applyset.adoption import Adoption
from applier.cluster import Cluster, Reader
from applier.execute.executor import Executor, RoundOutcome
from applier.execute.fights import Fights
from applier.execute.pending_writes import PendingWrites, WriteBatch
from applier.execute.refusals import Refusals
from applier.execute.results import Answer, Result
from applier.plan.model import Plan
from applier.state.field_conflicts import ConflictPolicy
from applier.state.observed import Observed
from gitops.clock import Clock
from gitops.instrumentation import Stage
from gitops.reconcile.context import Context
from gitops.reconcile.sources import SourceState, revisions_of, users_of
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


@dataclass(slots=True)
class ContentWriter:
    """Of one process and one cluster, for all its passes. `report` hears of every action as it is done. One that `insists` waits at the end of a pass
    until all is answered. `deeds` are what was done since the records of sources were written, outside of whole passes; `_conflicts` are of
    deletions, see Executor.
    """

    cluster: Cluster
    reads: Reader
    version: str
    clock: Clock
    insists: Callable[[], bool]
    report: Callable[[Result], None]
    stage: Stage
    fights: Fights
    refusals: Refusals
    underway: PendingWrites = field(default_factory=PendingWrites)
    deeds: list[Result] = field(default_factory=list)
    _conflicts: Counter[str] = field(default_factory=Counter)
    _synced: Sequence[Mapping[ObjectKey, str]] = ()
    _policies: Mapping[str, tuple[ConflictPolicy, Adoption]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.underway.on_late_answer = self._heard

    @contextmanager
    def executor(self, sources: Sequence[SourceState], known: Context) -> Iterator[Executor]:
        """For one pass. What it has begun and nobody has answered at the end stays under way."""
        batch = WriteBatch(self.underway, self.clock.sleep, self.insists())
        try:
            yield Executor(
                self.cluster.without_retries(),
                self.reads,
                self.version,
                revisions_of(sources),
                batch,
                known.records.epoch,
                users_of(sources),
                self._conflicts,
            )
        finally:
            batch.abandon()

    def with_pending_writes(self, known: Context, part: Collection[ObjectKey] | None = None) -> Context:
        """With what may not be written now because of what earlier passes have begun."""
        return replace(known, observed=known.observed.with_failures(self.underway.blocked_objects(part)))

    async def run_round(self, executor: Executor, due: Plan, observed: Observed) -> RoundOutcome | None:
        """One round of what the plan allows; where it allows nothing, what comes of what is open. None where nothing does."""
        with self.stage("apply"):
            outcome = await (executor.await_pending(observed) if due.is_idle else executor.execute(due, observed))
        if outcome is not None:
            self._note(outcome.results)
            open_keys = self.underway.unanswered_writes
            self.refusals.record(due, observed, outcome.results, self.clock.now(), open_keys)
        return outcome

    def forget_if_changed(self, sources: Sequence[SourceState], observed: Observed) -> None:
        """What was refused is tried at once where that may have changed, or where the configuration says otherwise of its conflicts; so is that, and
        what was put off, where a person wants everything to be looked at.
        """
        self.refusals.forget_if_changed(observed)
        policies = {state.catalog.source: (state.conflicts, state.adoption) for state in sources}
        if policies != self._policies:
            self.refusals.forget()
        self._policies = policies
        synced = [state.synced for state in sources]
        if synced != self._synced:
            self.refusals.forget()
            self.underway.retry_now()
        self._synced = synced

    @property
    def refused(self) -> Mapping[ObjectKey, Mapping[ObjectKey, datetime]]:
        """When what was refused is tried again although nothing has changed: by the parent of the set, by object."""
        return self.refusals.retry_times(self.clock.now())

    def _note(self, results: Sequence[Result]) -> None:
        self.fights.record(results, self.clock.now())
        for result in results:
            self.report(result)

    def _heard(self, answer: Answer) -> bool:
        """What was answered after the pass that began it: what rests on it may go on."""
        result = answer[1]
        self._note((result,))
        self.refusals.record_result(result, self.clock.now())
        self.deeds.append(result)
        return True

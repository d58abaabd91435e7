"""What a plan comes to for each set: what lists count, logs tell and records say. Worked out once for each set that is planned otherwise.

A set that is as Git says, healthy and held by nobody is at rest: all that is said of it is that it is there. So what is told of everything costs as
much as what is not at rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import field, replace
from functools import cached_property
from itertools import chain

from applier.applyset.inventory import Scope
from applier.causes import Cause
from applier.plan.model import ApplySetPlan, NodePlan, Plan
from applier.plan.prune_candidate import PruneOutcome
from applier.plan.set_causes import set_causes
from gitops.records.display_state import DisplayState
from gitops.records.instance_status import is_waiting
from gitops.records.source_record import InstanceScopes
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


@dataclass(frozen=True)
class SetSummary:
    """One set. `restless` are the nodes that are not at rest, the others have nothing to say; `rows` are the causes of its waiting, the worst
    first.
    """

    plan: ApplySetPlan
    restless: tuple[NodePlan, ...]
    rows: tuple[Cause, ...]
    is_waiting: bool

    @classmethod
    def of(cls, plan: ApplySetPlan) -> SetSummary:
        restless = tuple(node for node in plan.nodes if not _rests(node))
        told = replace(plan, nodes=restless)
        return cls(plan, restless, tuple(set_causes(told)), is_waiting(told))

    @property
    def exists(self) -> bool:
        """An instance that does not exist yet is its owner's matter."""
        return self.plan.parent is not None or self.plan.rendered.is_source or self.plan.is_lost

    @cached_property
    def has_failed(self) -> bool:
        return any(cause.reason.is_failure for cause in self.rows)

    @property
    def is_on_its_way(self) -> bool:
        """Time alone, or a fresh look, will bring it further."""
        is_first = self.plan.parent is None and self.plan.rendered.is_source and bool(self.plan.nodes)
        return not self.has_failed and (self.is_waiting or is_first)

    @cached_property
    def state(self) -> DisplayState:
        """Return the worst state that its causes give; Progressing at least while something of it is still to come."""
        states = [DisplayState.from_reason(cause.reason) for cause in self.rows]
        return DisplayState.worst([*states, DisplayState.PROGRESSING] if self.is_on_its_way else states)

    @property
    def is_settled(self) -> bool:
        """An instance of which nothing is still to come."""
        return not self.plan.rendered.is_source and self.plan.parent is not None and not (self.is_waiting or self.rows)

    @cached_property
    def holds(self) -> tuple[Cause, ...]:
        return tuple(cause for cause in self.rows if cause.reason.is_hold)

    @cached_property
    def is_fully_applied(self) -> bool:
        """Is all of the set as Git says, and nothing left that Git no longer wants?"""
        leaves = any(orphan.outcome is PruneOutcome.DELETE for orphan in self.plan.prune_candidates)
        waits = self.plan.error or self.plan.not_moved or leaves
        return not waits and all(node.is_applied for node in self.restless if not node.node.external)

    @cached_property
    def rests(self) -> bool:
        """Is nothing to be said of it but that it is there?"""
        is_quiet = self.is_settled and self.is_fully_applied
        return is_quiet and not (self.restless or self.plan.prune_candidates or self.plan.rendered.problems)


@dataclass
class SetSummaries:
    """The accounts of all sets, by parent. It follows what passes over parts find."""

    accounts: dict[ObjectKey, SetSummary] = field(default_factory=dict)
    _of: dict[str, _OfSource] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, before: SetSummaries | None = None) -> SetSummaries:
        """`before`: what was planned as it is now keeps its account."""
        ledger, known = cls(), before.accounts if before else {}
        for one in plan.sets:
            old = known.get(one.rendered.parent)
            ledger.put(old if old and old.plan is one else SetSummary.of(one))
        return ledger

    def put(self, account: SetSummary) -> SetSummary | None:
        """This is the account of its set from now on; the one before, if there was one."""
        rendered = account.plan.rendered
        before = self.accounts.get(rendered.parent)
        self.accounts[rendered.parent] = account
        self._of.setdefault(rendered.source, _OfSource()).put(account, before)
        return before

    def of_source(self, source: str) -> Collection[ObjectKey]:
        """The parents of its sets."""
        return self._of[source].sets if source in self._of else ()

    def restless(self, source: str | None = None) -> Iterator[SetSummary]:
        """Those that are not at rest, of this source or of all."""
        of = self._of.values() if source is None else filter(None, [self._of.get(source)])
        return chain.from_iterable(one.restless.values() for one in of)

    def at_rest(self, source: str | None = None) -> int:
        """How many have nothing to say."""
        of = self._of.values() if source is None else filter(None, [self._of.get(source)])
        return sum(len(one.sets) - len(one.restless) for one in of)

    def definitions(self, source: str) -> Iterable[str]:
        """The names of those that its instances are made from."""
        return [name for name, number in self._of[source].definitions.items() if number] if source in self._of else ()

    def scopes(self, source: str, before: InstanceScopes) -> InstanceScopes:
        """Where the members of its instances may be; of those whose object is gone as it was recorded `before`.

        So of those that nothing wants any more: should their object go before their members do, these are found by that.
        """
        found = self._of[source].recorded(before) if source in self._of else InstanceScopes()
        leaving = {
            key: before[key]
            for key in self.of_source("")
            if key in before and key not in found and self.accounts[key].plan.source == source
        }
        return InstanceScopes({**leaving, **found}) if leaving else found


@dataclass
class _OfSource:
    sets: set[ObjectKey] = field(default_factory=set)
    restless: dict[ObjectKey, SetSummary] = field(default_factory=dict)
    definitions: Counter[str] = field(default_factory=Counter)
    scopes: dict[ObjectKey, Scope] = field(default_factory=dict)
    lost: set[ObjectKey] = field(default_factory=set)
    _recorded: InstanceScopes | None = None

    def put(self, account: SetSummary, before: SetSummary | None) -> None:
        plan = account.plan
        key = plan.rendered.parent
        self.sets.add(key)
        if account.rests:
            self.restless.pop(key, None)
        else:
            self.restless[key] = account
        if plan.rendered.is_source:
            return
        if before:
            self.definitions[before.plan.rendered.definition] -= 1
        self.definitions[plan.rendered.definition] += 1
        if plan.current_scope.kinds and self.scopes.get(key) != plan.current_scope:
            self.scopes[key], self._recorded = plan.current_scope, None
            self.lost.discard(key)
        elif not plan.current_scope.kinds:
            self.lost.add(key)
            if self.scopes.pop(key, None):
                self._recorded = None

    def recorded(self, before: InstanceScopes) -> InstanceScopes:
        kept = {key: scope for key in self.lost if (scope := before.get(key))}
        if kept:
            return InstanceScopes({**kept, **self.scopes})
        if self._recorded is None:
            self._recorded = InstanceScopes(self.scopes.copy())
        return self._recorded


def _rests(node: NodePlan) -> bool:
    return (
        node.blocked is None
        and not node.unhealthy_message
        and (node.node.external or (node.is_applied and node.healthy))
    )

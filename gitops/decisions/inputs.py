"""What a pass knows when it decides what may move: rules, records, people's words, and how everything is. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from applier.causes import Cause
from applier.errors import ClusterError
from applier.plan.model import ApplySetPlan, Plan
from applier.state.observed import Observed
from gitops.decisions import plain_objects, suspension
from gitops.decisions.decision import Decision
from gitops.gates.evaluate import ExternalFact, GateFacts, TargetVariables
from gitops.records.source_record import causes_of, requests_of
from gitops.rollouts.directives import NO_DIRECTIVES, Directives, first_seen_at
from gitops.rollouts.policy import DEFAULT_POLICY, Policy, select_policy
from gitops.rollouts.requests import RolloutRequest
from gitops.rollouts.source_rules import SourceRules
from gitops.rollouts.state import RolloutState
from gitops.timestamps import parse_timestamp
from gitops.windows.verdict import TrustedTime, WindowPeriod, find_window_period, is_in_window
from gitops.windows.window import Window
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey, source_parent
from renderer.render.model import Rendering
from renderer.render.revisions import DefinitionRevision, StoredRevisions

_NO_REVISION: Final = DefinitionRevision(0, "", "")


@dataclass(frozen=True, slots=True)
class DecisionRules:
    """What one pass begins with: `rules` by source, `states` of rollouts by name as they are stored, what people ask of these, and one
    `reading` of the clock for all of it. `cluster` is the name that windows select.
    `suspended` says why, of sources that the configuration suspends, `suspended_kinds` of definitions that
    sources suspend which are not read. `depends_on` says after which others a source is applied for the first time, `governors` whose rules govern
    it beside its own. Of `unrecorded_sources` no use of a break-glass could be recorded, so none counts for their plain objects.
    `externals` are the facts that the operator declares, None where that is not known. Rollouts that are `unrecorded` decide
    nothing: what they decide could not be stored.
    """

    rules: Mapping[str, SourceRules]
    states: Mapping[str, RolloutState]
    reading: TrustedTime
    cluster: str
    requests: Mapping[str, tuple[RolloutRequest, ...]] = field(default_factory=dict)
    suspended: Mapping[str, str] = field(default_factory=dict)
    suspended_kinds: Mapping[GroupKind, Cause] = field(default_factory=dict)
    depends_on: Mapping[str, Sequence[str]] = field(default_factory=dict)
    governors: Mapping[str, Collection[str]] = field(default_factory=dict)
    externals: Mapping[str, ExternalFact] | None = None
    unrecorded: Mapping[str, ClusterError] = field(default_factory=dict)
    unrecorded_sources: Mapping[str, ClusterError] = field(default_factory=dict)

    def governing(self, source: str) -> tuple[SourceRules, ...]:
        """The rules that govern a source, its own first; all there are, where it is not known what the source is."""
        if source not in self.rules:
            return tuple(self.rules.values())
        return tuple(self.rules[name] for name in (source, *sorted(self.governors.get(source, ()))))

    def closed(self, source: str) -> str:
        """Why nothing of a source may be started, because rules that govern it cannot be read; empty where all can."""
        return (
            "; ".join(rules.closed_reason for rules in self.governing(source) if rules.closed_reason)
            if source in self.rules
            else ""
        )


@dataclass(frozen=True, repr=False)
class DecisionInputs:
    """How everything is; `plan` is made with `before`, which is what this pass has decided so far.

    It and what holds it have no repr: that would tell everything again and again, and asyncio's runner formats the results of tasks.
    """

    conditions: DecisionRules
    bundle: Rendering
    plan: Plan
    observed: Observed
    stored: StoredRevisions
    before: Decision

    @property
    def now(self) -> datetime:
        return self.conditions.reading.now

    @cached_property
    def plans(self) -> Mapping[ObjectKey, ApplySetPlan]:
        """Of instances, by their key."""
        return {one.rendered.parent: one for one in self.plan.sets if not one.rendered.is_source}

    @cached_property
    def asked(self) -> Mapping[ObjectKey, Directives]:
        """What people ask of each instance; a break-glass of its definition, then of its source, counts where it has none of its own."""
        return {
            key: Directives.from_objects(one.rendered.manifest, one.parent)
            .with_wider_break_glass(self._definitions.get(key.group_kind))
            .with_wider_break_glass(self.asked_of_sources.get(one.source))
            for key, one in self.plans.items()
        }

    @cached_property
    def asked_of_sources(self) -> Mapping[str, Directives]:
        """What people ask of each source, on its record."""
        return suspension.sources(self.bundle, self.observed)

    @cached_property
    def asked_of_plain_objects(self) -> Mapping[ObjectKey, plain_objects.PlainDirectives]:
        """What people ask of plain objects, of those of which anything is asked."""
        instances = self.plans.keys() | self.bundle.instances.keys()
        return dict(plain_objects.directives_of(self.plan, self.observed, instances, self.bundle.definitions.keys()))

    def glass_of(self, key: ObjectKey, source: str) -> Directives:
        """Whose break-glass counts for an instance, or for another object of the source: its own, else a wider one."""
        if asked := self.asked.get(key):
            return asked
        own = self.asked_of_plain_objects.get(key)
        directives = own.directives if own and own.source == source else NO_DIRECTIVES
        return directives.with_wider_break_glass(self.asked_of_sources.get(source))

    @cached_property
    def source_holds(self) -> Mapping[str, Cause]:
        """The sources that a person holds now."""
        held = {name: asked for name, asked in self.asked_of_sources.items() if asked.hold_reason}
        return {
            name: hold
            for name, asked in held.items()
            if (hold := plain_objects.hold_of_source(name, asked, self.now, self.since_of_source(name, asked)))
        }

    def since_of_source(self, name: str, asked: Directives) -> datetime:
        """Since when a source is asked to stay as it is."""
        return self.since(source_parent(name), "hold", asked.hold_reason)

    @cached_property
    def object_holds(self) -> Mapping[ObjectKey, Cause]:
        """The plain objects, and the instances that nothing wants any more, that a person holds now."""
        held = {key: one.directives for key, one in self.asked_of_plain_objects.items() if one.directives.hold_reason}
        held |= {key: one for key, one in self.asked.items() if one.hold_reason and key not in self.bundle.instances}
        return {
            key: hold
            for key, asked in held.items()
            if (hold := asked.active_hold(DEFAULT_POLICY, self.now, since=self.since(key, "hold", asked.hold_reason)))
        }

    @cached_property
    def suspensions(self) -> suspension.Suspensions:
        said, here = self.conditions, self.observed
        configured = {
            **dict(suspension.waiting_for_sources(said.depends_on, here)),
            **suspension.configured(said.suspended),
        }
        plain = {key: one.directives for key, one in self.asked_of_plain_objects.items()}
        return suspension.Suspensions(
            self.asked_of_sources,
            self._definitions,
            self.asked,
            self.plans,
            self.bundle,
            plain,
            configured,
            said.suspended_kinds,
        )

    @cached_property
    def _definitions(self) -> Mapping[GroupKind, Directives]:
        return suspension.definitions(self.bundle, self.observed)

    @property
    def states(self) -> Mapping[str, RolloutState]:
        """Of rollouts by name, as this pass has decided them so far, else as they are stored."""
        return {**self.conditions.states, **self.before.states}

    @property
    def requests(self) -> Mapping[str, tuple[RolloutRequest, ...]]:
        """Orders that this pass has not carried out yet: each is carried out once, however often it is decided again."""
        return {} if self.before.states else self.conditions.requests

    def since(self, key: ObjectKey, name: str, word: str) -> datetime:
        """Since when this word of somebody is said of an instance, so that it can lapse. As long as it does not exist the source tells why.

        Of a source and a plain object the record of the source tells it.
        """
        if key not in self.plans:
            seen = self._seen.get(str(key), {}).get(name) or {}
            return (parse_timestamp(seen.get("since")) if seen.get("said") == word else None) or self.now
        one = self.plans[key]
        rows = self._told.get(one.rendered.source, ())
        told = (row.get("since") for row in rows if row.get("object") == str(key) and word in row.get("message", ""))
        return first_seen_at(one.parent, name, word) or parse_timestamp(next(told, None)) or self.now

    @cached_property
    def _told(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Why things wait outside instances, as the records of the sources said before this pass."""
        return {name: causes_of(self.observed.objects.get(source_parent(name)) or {}) for name in self.bundle.sources}

    @cached_property
    def _seen(self) -> Mapping[str, Mapping[str, Any]]:
        """What was asked of sources and of plain objects, as the records of the sources said before this pass."""
        records = (self.observed.objects.get(source_parent(name)) or {} for name in self.bundle.sources)
        return {key: seen for record in records for key, seen in requests_of(record).items()}

    def _rules_of(self, kind: GroupKind) -> tuple[SourceRules, ...]:
        """The rules that govern the source which defines a kind, its own first."""
        owner = self.bundle.owners.get(kind, "")
        return self.conditions.governing(owner) if owner in self.conditions.rules else ()

    def policy(self, kind: GroupKind, definition: str, labels: Mapping[str, str]) -> Policy | Problem:
        """The policy of one instance: the most specific, and the source's own before one that governs all sources."""
        return select_governing_policy(self._rules_of(kind), definition, labels)

    def wave_windows(self, kind: GroupKind, policy: Policy) -> Mapping[str, Window]:
        """The windows that the waves of this policy name: first those of the source that says it, so that nobody replaces them by his own."""
        rules = sorted(self._rules_of(kind), key=lambda one: all(policy is not other for other in one.policies))
        return {name: one.windows[name] for name, one in rules_by_window(rules).items()}

    def facts(self, kind: GroupKind) -> GateFacts:
        """What the gates of a definition may read of the world."""
        named = rules_by_window(self._rules_of(kind))
        windows = {name: is_in_window(rules.windows[name], self.now) for name, rules in named.items()}
        target = newest_variables(self.stored.revisions.get(kind, ()))
        return GateFacts(self.now, target, windows, self.conditions.externals)

    def closings(self, kind: GroupKind) -> dict[str, WindowPeriod]:
        """Since when `inWindow` of each window is as it is, and when it changes next."""
        named = rules_by_window(self._rules_of(kind))
        return {name: find_window_period(rules.windows[name], self.now, rules.source) for name, rules in named.items()}


def newest_variables(revisions: Sequence[DefinitionRevision]) -> TargetVariables:
    """Return the variable `target` of gates from the stored revisions of a definition, oldest first."""
    newest = revisions[-1] if revisions else _NO_REVISION
    return TargetVariables(newest.number, newest.commit, newest.author, newest.message)


def select_governing_policy(
    rules: Sequence[SourceRules], definition: str, labels: Mapping[str, str]
) -> Policy | Problem:
    """Return the policy of one instance, or the problem that two policies conflict.

    The most specific policy applies. A policy of the own source comes before an equally specific policy that governs
    all sources.

    Args:
        rules: the rules that govern the source of the definition, its own first.
    """
    own, *others = rules or (None,)
    mine = select_policy(own.policies, definition, labels) if own else DEFAULT_POLICY
    common = select_policy([one for found in others if found for one in found.policies], definition, labels)
    if isinstance(mine, Problem) or common is DEFAULT_POLICY:
        return mine
    if mine is DEFAULT_POLICY or isinstance(common, Problem):
        return common
    return max(mine, common, key=lambda policy: policy.selector.rank(definition))


def rules_by_window(rules: Iterable[SourceRules]) -> Mapping[str, SourceRules]:
    """Return the rules whose window a name means, by name. Of two windows with one name, the first counts."""
    return {name: one for one in reversed(tuple(rules)) for name in one.windows}

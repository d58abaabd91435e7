"""What a pass knows when it decides what may move: rules, records, people's words, and how everything is. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from applier.causes import Cause
from applier.errors import ClusterError
from gitops.gates.evaluate import ExternalFact, TargetVariables
from gitops.rollouts.policy import DEFAULT_POLICY, Policy, select_policy
from gitops.rollouts.requests import RolloutRequest
from gitops.rollouts.source_rules import SourceRules
from gitops.rollouts.state import RolloutState
from gitops.windows.verdict import TrustedTime
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import GroupKind
from renderer.render.revisions import DefinitionRevision

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

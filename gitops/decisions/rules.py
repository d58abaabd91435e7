"""Windows and policies as queries: which rules govern a source, and whether the windows permit a change now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from applier.plan.model import Operation
from gitops.decisions import live
from gitops.decisions.definitions import definitions, sources, stored_revisions
from gitops.decisions.inputs import newest_variables, rules_by_window, select_governing_policy
from gitops.decisions.moments import recompute_at_edge
from gitops.decisions.wanted import wanted_set
from gitops.gates.evaluate import TIME_GATE_INTERVAL, ExternalFact, GateFacts
from gitops.queries import Input, QueryGraph, TimedQuery, Until, query, recompute_at
from gitops.rollouts.policy import DEFAULT_POLICY, Policy
from gitops.rollouts.source_rules import SourceRules
from gitops.windows.verdict import TrustedTime, WindowPeriod, WindowVerdict, find_window_period, is_in_window, judge
from gitops.windows.window import LOCAL, Window, WindowTarget
from renderer.errors import Problem
from renderer.identity import GroupKind, ObjectKey

source_rules: Final[Input[[str], SourceRules | None]] = Input("source_rules", initial=None, starts_unread=False)
"""Rules in force of a source, or None for an unknown source."""

governors: Final[Input[[str], tuple[str, ...]]] = Input("governors", initial=(), starts_unread=False)
"""Sources whose rules govern a source besides its own, sorted."""

cluster_name: Final[Input[[], str]] = Input("cluster_name", initial=LOCAL, starts_unread=True)
"""Name of the cluster that windows select."""

is_clock_skewed: Final[Input[[], bool]] = Input("is_clock_skewed", initial=True, starts_unread=True)
"""Whether the clock differs too much from its last reading or from the API server. Then no Allow opens."""

external_facts: Final[Input[[], Mapping[str, ExternalFact] | None]] = Input(
    "external_facts", initial=None, starts_unread=False
)
"""External facts that the operator declares, by name, or None while the configuration is not available."""

Labels = tuple[tuple[str, str], ...]
"""Labels as sorted pairs of name and value."""


@query
def governing_rules(graph: QueryGraph, source: str) -> tuple[SourceRules, ...]:
    """Return the rules that govern a source, its own first.

    If the source is unknown, all rules govern it.
    """
    own = source_rules(graph, source)
    names = (source, *governors(graph, source)) if own else sources(graph)
    return tuple(found for name in names if (found := source_rules(graph, name)))


@query
def closed_reason(graph: QueryGraph, source: str) -> str:
    """Return the reason why nothing of a source may start, or an empty text.

    The reason is that rules which govern the source cannot be read.
    """
    if source_rules(graph, source) is None:
        return ""
    return "; ".join(rules.closed_reason for rules in governing_rules(graph, source) if rules.closed_reason)


@query
def instance_policy(graph: QueryGraph, kind: GroupKind, labels: Labels) -> Policy | Problem:
    """Return the policy for instances of a kind with these labels, or the problem that two policies conflict."""
    found = definitions(graph)
    owner, definition = found.owners.get(kind, ""), found.current.get(kind)
    if definition is None:
        return DEFAULT_POLICY
    rules = governing_rules(graph, owner) if source_rules(graph, owner) else ()
    return select_governing_policy(rules, definition.name, dict(labels))


def labels_of(manifest: Mapping[str, Any] | None) -> Labels:
    """Return the labels of a manifest or of a live object."""
    return tuple(sorted(((manifest or {}).get("metadata", {}).get("labels") or {}).items()))


@query
def policy_of(graph: QueryGraph, instance: ObjectKey) -> Policy | Problem | None:
    """Return the policy of an instance, or the problem that two policies conflict.

    Return None for an instance in no rollout: Git does not want it, no revision of its definition is stored, or nobody
    knows whether it exists.
    """
    kind, rendered = instance.group_kind, wanted_set(graph, instance)
    if rendered is None or kind not in definitions(graph).current or not stored_revisions(graph, kind):
        return None
    if kind in live.unreadable(graph) and live.live(graph, instance) is None:
        return None
    return instance_policy(graph, kind, labels_of(rendered.manifest))


def policies_of(graph: QueryGraph, instances: Iterable[ObjectKey]) -> dict[ObjectKey, Policy]:
    """Return the policies of instances, without those that are in no rollout or whose policies conflict."""
    found = ((key, policy_of(graph, key)) for key in instances)
    return {key: policy for key, policy in found if isinstance(policy, Policy)}


def _rules_of_kind(graph: QueryGraph, kind: GroupKind) -> tuple[SourceRules, ...]:
    """Return the rules that govern the source which defines a kind, its own first."""
    owner = definitions(graph).owners.get(kind, "")
    return governing_rules(graph, owner) if source_rules(graph, owner) else ()


@query
def window_periods(graph: QueryGraph, kind: GroupKind) -> Mapping[str, WindowPeriod]:
    """Return the windows that gates of a definition may name, each with its present period, by name."""
    named = rules_by_window(_rules_of_kind(graph, kind))
    found = {name: find_window_period(one.windows[name], graph.now, one.source) for name, one in named.items()}
    for period in found.values():
        recompute_at(graph, period.until)
    return found


@query
def wave_windows(graph: QueryGraph, kind: GroupKind, policy: Policy) -> Mapping[str, Window]:
    """Return the windows that the waves of a policy name. Windows of the source with the policy come first."""
    rules = sorted(_rules_of_kind(graph, kind), key=lambda one: policy not in one.policies)
    return {name: one.windows[name] for name, one in rules_by_window(rules).items()}


@TimedQuery
def _clock_minute(now: datetime) -> Until[datetime]:
    """Return the start of the present minute in UTC."""
    start = now.replace(second=0, microsecond=0)
    return Until(start, start + TIME_GATE_INTERVAL)


@query
def gate_facts(graph: QueryGraph, kind: GroupKind) -> GateFacts:
    """Return the facts that the gates of a definition may read. Only gates that read the time depend on the minute."""
    definition = definitions(graph).current.get(kind)
    reads_time = definition is not None and any(gate.reads_time for gate in definition.gates)
    windows = {name: is_in_window(period.window, graph.now) for name, period in window_periods(graph, kind).items()}
    now = _clock_minute(graph) if reads_time else _NO_TIME
    return GateFacts(now, newest_variables(stored_revisions(graph, kind)), windows, external_facts(graph))


class Passing(NamedTuple):
    """Break-glass that lets a change pass windows."""

    until: datetime | None
    """End in UTC, or None without an effective break-glass."""
    everywhere: bool
    """True if the windows of all sources are passed, false if only those of the own source are."""


NO_PASSING: Final = Passing(None, everywhere=False)
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Time for gates that read no time."""


class TargetKey(NamedTuple):
    """Object to write as windows select it. See `gitops.windows.window.WindowTarget` for the fields."""

    kind: GroupKind
    namespace: str
    definition: str
    node: str
    labels: Labels


@query
def window_verdict(
    graph: QueryGraph, target: TargetKey, operation: Operation, source: str, passing: Passing
) -> WindowVerdict:
    """Return whether the windows that govern a source permit an operation on a target now."""
    verdict = _judge(graph, target, operation, source, passing, graph.now)
    # While windows are open, their end needs no look: a decision about a change asks again.
    (recompute_at if verdict.is_open else recompute_at_edge)(graph, verdict.next_edge)
    return verdict


@query
def window_verdict_at(
    graph: QueryGraph, target: TargetKey, operation: Operation, source: str, passing: Passing, moment: datetime
) -> WindowVerdict:
    """Return what the windows that govern a source say of an operation at a moment in UTC."""
    return _judge(graph, target, operation, source, passing, moment)


def _judge(
    graph: QueryGraph, target: TargetKey, operation: Operation, source: str, passing: Passing, moment: datetime
) -> WindowVerdict:
    own_only = not passing.everywhere and source_rules(graph, source) is not None
    windows = [
        rules.window_set(passing.until if not own_only or rules.source == source else None)
        for rules in governing_rules(graph, source)
    ]
    kind, namespace, definition, node, labels = target
    selected = WindowTarget(kind, namespace, cluster_name(graph), definition, node, dict(labels))
    return judge(windows, selected, operation, TrustedTime(moment, is_clock_skewed(graph)))

"""Windows and policies as queries: which rules govern a source, and whether the windows permit a change now."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from applier.plan.model import Operation
from gitops.decisions.definitions import definitions, sources
from gitops.decisions.inputs import select_governing_policy
from gitops.queries import Input, QueryGraph, has_passed, query
from gitops.rollouts.policy import Policy
from gitops.rollouts.source_rules import SourceRules
from gitops.windows.verdict import TrustedTime, WindowVerdict, judge
from gitops.windows.window import LOCAL, WindowTarget
from renderer.errors import Problem
from renderer.identity import GroupKind

source_rules: Final[Input[[str], SourceRules | None]] = Input("source_rules", initial=None, starts_unread=False)
"""Rules in force of a source, or None for an unknown source."""

governors: Final[Input[[str], tuple[str, ...]]] = Input("governors", initial=(), starts_unread=False)
"""Sources whose rules govern a source besides its own, sorted."""

cluster_name: Final[Input[[], str]] = Input("cluster_name", initial=LOCAL, starts_unread=True)
"""Name of the cluster that windows select."""

is_clock_skewed: Final[Input[[], bool]] = Input("is_clock_skewed", initial=True, starts_unread=True)
"""Whether the clock differs too much from its last reading or from the API server. Then no Allow opens."""

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
    owner, definition = found.owners.get(kind, ""), found.current[kind].name
    rules = governing_rules(graph, owner) if source_rules(graph, owner) else ()
    return select_governing_policy(rules, definition, dict(labels))


class Passing(NamedTuple):
    """Break-glass that lets a change pass windows."""

    until: datetime | None
    """End in UTC, or None without an effective break-glass."""
    everywhere: bool
    """True if the windows of all sources are passed, false if only those of the own source are."""


NO_PASSING: Final = Passing(None, everywhere=False)


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
    own_only = not passing.everywhere and source_rules(graph, source) is not None
    windows = [
        rules.window_set(passing.until if not own_only or rules.source == source else None)
        for rules in governing_rules(graph, source)
    ]
    kind, namespace, definition, node, labels = target
    selected = WindowTarget(kind, namespace, cluster_name(graph), definition, node, dict(labels))
    verdict = judge(windows, selected, operation, TrustedTime(graph.now, is_clock_skewed(graph)))
    has_passed(graph, verdict.next_edge)
    return verdict

"""What only shows with the instances that policies govern: two that cannot be told apart, and instances that a wave does not fit as it is meant."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gitops.rollouts.policy import Policy, select_policy
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.render.model import Rendering


@dataclass(frozen=True, slots=True)
class PolicyLintResult:
    """`problems` of policies between which nothing decides, so that their instances stay as they are; `warnings` of those that go last."""

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def lint_policies(policies: Collection[Policy], rendering: Rendering) -> PolicyLintResult:
    """Hold all instances of a rendering against the policies of its commit."""
    problems: set[Problem] = set()
    instances_by_policy: dict[str, tuple[Policy, dict[str, Mapping[str, str]]]] = {}
    for key, rendered in rendering.instances.items():
        definition = rendering.definitions.get(key.group_kind)
        labels = rendered.manifest["metadata"].get("labels") or {}
        policy = select_policy(policies, definition.name, labels) if definition else None
        match policy:
            case Problem():
                problems.add(policy)
            case Policy():
                instances_by_policy.setdefault(policy.name, (policy, {}))[1][str(key)] = labels
    warnings = (
        warning for policy, instances in instances_by_policy.values() for warning in policy.find_stragglers(instances)
    )
    return PolicyLintResult(tuple(sorted(problems)), tuple(sorted(warnings)))

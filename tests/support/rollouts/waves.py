"""A policy of two waves, and a rollout under it."""

from __future__ import annotations

from dataclasses import replace

from gitops.rollouts.policy import Policy, Wave
from gitops.rollouts.shapes import CountOrPercent, Linear
from renderer.label_selector import LabelSelector
from tests.support.rollouts.rollouts import MINUTE, Rollout, items


def tier(name: str, **fields: object) -> Wave:
    """Return the wave of all instances with this label `tier`."""
    return replace(Wave(name, LabelSelector.from_object({"matchLabels": {"tier": name}})), **fields)  # type: ignore[arg-type]


WAVES = Policy(name="webapps", waves=(tier("canary", shape=Linear(CountOrPercent(2)), bake=30 * MINUTE), tier("prod")))


def two_waves(policy: Policy = WAVES) -> Rollout:
    """Return a rollout whose canaries are a and b; c to f are prod."""
    return Rollout(policy, items("ab", labels={"tier": "canary"}) | items("cdef", labels={"tier": "prod"}))

"""Whether a live object still is what its node wants, worked out once for each version of it.

Invariant: with or without what is remembered the answer is the same. A live object is as it was when its uid and resourceVersion are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field
from typing import NamedTuple

from applier.applyset.member import RecordedSet
from applier.cluster import Object
from applier.plan.comparison import Verdict, compare_with_live
from applier.plan.model import ApplySetPlan
from applier.plan.plan_cache import PlanCache, SetPlanInputs
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet, RenderedNode
from renderer.two_generation_cache import TwoGenerationCache


class _Compared(NamedTuple):
    node: RenderedNode
    deps: Collection[str]
    version: tuple[str, str, str, int]
    verdict: Verdict


_OfSet = dict[ObjectKey, _Compared]


@dataclass
class ComparisonCache:
    """Owned by whoever plans again and again. What is no longer asked for is forgotten by `turn`. `carried` are the plans of whole sets."""

    carried: PlanCache = field(default_factory=PlanCache)
    _sets: TwoGenerationCache[ObjectKey, _OfSet] = field(default_factory=TwoGenerationCache)

    def turn(self) -> None:
        """A new plan begins."""
        self._sets.evict_unused()
        self.carried.turn()

    def carry(self, rendered: RenderedApplySet, around: SetPlanInputs) -> ApplySetPlan | None:
        """The plan of a set at which nothing has changed, with what was compared for it."""
        found = self.carried.take(rendered, around)
        if found and rendered.parent in self._sets.previous:
            self._sets.current.setdefault(rendered.parent, self._sets.previous[rendered.parent])
        return found

    def verdict(self, applyset: RecordedSet, node: RenderedNode, live: Object, deps: Collection[str]) -> Verdict:
        """Of a member that was written from this manifest: heal it, record it, or nothing."""
        assert node.key is not None
        mine = self._sets.current.setdefault(applyset.parent, {})
        known = mine.get(node.key) or self._sets.previous.get(applyset.parent, {}).get(node.key)
        if known is None or known.node is not node or (known.deps, known.version) != (deps, _version(live)):
            known = _Compared(node, deps, _version(live), compare_with_live(applyset, node, live, deps))
        mine[node.key] = known
        return known.verdict


def _version(live: Object) -> tuple[str, str, str, int]:
    """Says of two looks at one object whether they are the same; metadata alone shows less of it, another API version other fields."""
    metadata = live["metadata"]
    return metadata["uid"], metadata["resourceVersion"], live["apiVersion"], len(live)

"""What an object is brought to at once, at the revision that its instance has, while the instance waits for its turn to move to another.

Values of an instance's own change go at once, and drift is healed, with the definition that it runs; a new one may be made with the revision that
completed last. What the new revision changes comes later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from applier.plan import NodePlan, Plan, SetPlan, Verb
from applier.prune import Fate
from gitops.review.differences import differences
from gitops.review.masking import Masks
from gitops.review.report import Difference
from renderer.identity import Manifest, ObjectKey

_WRITES = frozenset({Verb.CREATE, Verb.UPDATE, Verb.HEAL})


@dataclass(frozen=True)
class Staying:
    """A plan of which instances stay at the revision that they have: its `sets`, its `nodes`, those that no gate holds, and what `goes`."""

    sets: Mapping[ObjectKey, SetPlan]
    nodes: Mapping[ObjectKey, NodePlan]
    free: frozenset[ObjectKey]
    goes: frozenset[ObjectKey]

    @classmethod
    def of(cls, plan: Plan) -> Staying:
        return cls(
            {one.rendered.parent: one for one in plan.sets},
            {key: node for one in plan.sets for node in one.nodes if node.node.writable and (key := node.node.key)},
            frozenset(key for one in plan.sets for key in _free(one)),
            frozenset(o.member.key for one in plan.sets for o in one.orphans if o.fate in {Fate.DELETE, Fate.RELEASE}),
        )

    def brings(self, key: ObjectKey, content: str) -> bool:
        """Is this very content written, and held by nothing?"""
        return key in self.free and bool(content) and self.nodes[key].node.hash == content

    def other(self, key: ObjectKey, content: str) -> NodePlan | None:
        """Its plan, where something else than this content is written first."""
        found = self.nodes.get(key)
        return found if found and found.verb in _WRITES and found.node.hash != content else None


def _free(one: SetPlan) -> Iterator[ObjectKey]:
    """Nodes that no gate holds, neither their own nor one of those that they depend on."""
    held: set[str] = set()
    for plan in one.nodes:
        if plan.is_gated or not held.isdisjoint(plan.node.depends_on):
            held.add(plan.node.id)
        elif plan.node.key and plan.node.writable:
            yield plan.node.key


def parted(
    whole: Sequence[Difference], first: Manifest, then: Manifest, masks: Masks
) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    """Of the `whole` difference what there is once an object is as `first` says, and what is left until it is as it is `then`."""
    rest = differences(masks.object(first), masks.object(then))
    return tuple(_at_first(whole, rest)), rest


def _at_first(whole: Sequence[Difference], rest: Sequence[Difference]) -> Iterator[Difference]:
    """A field that only the second step changes is as it was; one that both change gets there in two."""
    for one in whole:
        touching = [other for other in rest if _touch(one.path, other.path)]
        if not touching:
            yield one
        elif [other.path for other in touching] == [one.path] and touching[0].old != one.old:
            yield Difference(one.path, one.old, touching[0].old)
    for one in rest:
        if not any(_touch(one.path, other.path) for other in whole):
            yield Difference(one.path, one.new, one.old)


def _touch(path: str, other: str) -> bool:
    """Is one of them a part of the other?"""
    short, long = sorted((path, other), key=len)
    return long == short or long.startswith((f"{short}.", f"{short}["))

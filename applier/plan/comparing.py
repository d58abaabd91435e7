"""Whether a live object still is what its node wants, worked out once for each version of it.

Invariant: with or without what is remembered the answer is the same. A live object is as it was when its uid and resourceVersion are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from applier import member
from applier.cluster import CONTENT, Object
from applier.observed import annotation
from applier.ownership import Lost, ownership
from applier.plan.values import Verb
from renderer import keys
from renderer.identity import ObjectKey
from renderer.model import RenderedNode, RenderedSet

Verdict = tuple[Verb, tuple[Lost, ...]]
"""What it takes, and which fields are to be healed."""

_BOOKKEEPING = (keys.DEPS, keys.SOURCE_FILE)
"""Records that are renewed even if nothing else differs: pruning and the protection of unreadable files rest on them."""


@dataclass(frozen=True, slots=True)
class _Compared:
    node: RenderedNode
    parent: ObjectKey
    deps: Collection[str]
    version: tuple[str, str, int]
    verdict: Verdict


@dataclass
class Comparisons:
    """Owned by whoever plans again and again. What is no longer asked for is forgotten by `turn`."""

    _known: dict[ObjectKey, _Compared] = field(default_factory=dict)
    _new: dict[ObjectKey, _Compared] = field(default_factory=dict)
    _is_part: bool = False

    def part(self) -> Comparisons:
        """For plans of a part of what was planned last: they share what is remembered, and forget nothing of the rest."""
        return Comparisons(self._known, self._new, _is_part=True)

    @property
    def size(self) -> int:
        """Members that are remembered."""
        return len(self._known) + len(self._new)

    def turn(self) -> None:
        """A new plan begins."""
        if self._is_part:
            return
        self._known, self._new = self._new, {}

    def verdict(self, rendered: RenderedSet, node: RenderedNode, live: Object, deps: Collection[str]) -> Verdict:
        """Of a member that was written from this manifest: heal it, record it, or nothing."""
        assert node.key is not None
        metadata = live["metadata"]
        seen = node, rendered.parent, deps, (metadata["uid"], metadata["resourceVersion"], len(live))
        known = self._new.get(node.key) or self._known.get(node.key)
        if known is None or known.node is not node or (known.parent, known.deps, known.version) != seen[1:]:
            known = _Compared(*seen, _verdict(rendered, node, live, deps))
        self._new[node.key] = known
        return known.verdict


def _verdict(rendered: RenderedSet, node: RenderedNode, live: Object, deps: Collection[str]) -> Verdict:
    intent = member.body(rendered, node, deps=deps, live=None, parent_uid="", revision="")
    found = ownership(live, intent, CONTENT)
    if found is None or found.lost:
        return Verb.HEAL, found.lost if found else ()
    recorded = [annotation(live, name) for name in _BOOKKEEPING]
    return Verb.NONE if recorded == [annotation(intent, name) for name in _BOOKKEEPING] else Verb.RECORD, ()

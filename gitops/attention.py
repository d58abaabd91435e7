"""What a pass rested on is watched, so that the next one runs as soon as that has changed, and not when nothing has.

A watch only gives the hint: what is decided is read anew, consistently. What the pass itself wrote is no hint, nor is what it has seen already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

from applier.cluster import Change, Cluster, Subject
from applier.errors import ClusterError, KindNotServed
from applier.observed import Observed, label
from applier.watches import Watches
from gitops.known import Pass
from renderer import keys
from renderer.identity import GroupKind, ObjectKey
from renderer.render import OWN_NAMESPACE


@dataclass
class Attention:
    """Use with `async with`. `hint` is called when it is worth to run a pass; `notice` hears what cannot be watched."""

    cluster: Cluster
    hint: Callable[[], None]
    notice: Callable[[str], None]
    _observed: Observed | None = None
    _heard: dict[ObjectKey, Change] = field(default_factory=dict)
    _under_way: bool = False
    _blind: set[Subject] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._watches = Watches(self.cluster, self._changed, self._begun, self._failed)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._watches.want(())

    @property
    def is_blind(self) -> bool:
        """Something cannot be watched, so that it has to be looked at."""
        return bool(self._blind)

    def before(self) -> None:
        """A pass begins: what is heard from now on may be its own doing."""
        self._under_way = True

    async def after(self, found: Pass | None) -> None:
        """A pass is over; None where it failed. Gives the hint if something has changed meanwhile that it has not seen."""
        heard, self._heard, self._under_way = self._heard, {}, False
        if found is None:
            return
        self._observed = found.observed
        wanted = frozenset(subjects(found))
        self._blind &= wanted
        await self._watches.want(wanted)
        if any(is_news(change, found.observed) for change in heard.values()):
            self.hint()

    def _changed(self, change: Change) -> None:
        if self._under_way:
            self._heard[ObjectKey.of(change.object)] = change
        elif self._observed is None or is_news(change, self._observed):
            self.hint()

    def _begun(self, subject: Subject) -> None:
        """What happened before it began is not told."""
        self._blind.discard(subject)
        self.hint()

    def _failed(self, subject: Subject, error: ClusterError) -> None:
        if not isinstance(error, KindNotServed):
            self._blind.add(subject)
            self.notice(f"{subject.kind} cannot be watched, it is looked at from time to time: {error}")


def is_news(change: Change, observed: Observed) -> bool:
    """Does the change say something that was not observed yet?"""
    known = observed.objects.get(ObjectKey.of(change.object))
    if known is None or change.deleted:
        return (known is None) is not change.deleted
    return bool(known["metadata"].get("resourceVersion") != change.object["metadata"]["resourceVersion"])


def subjects(found: Pass) -> Iterator[Subject]:
    """Everything that a pass rested on: members of our sets, instances, what templates refer to, what stands in the way, and our records."""
    observed = found.observed
    yield Subject(GroupKind("", "ConfigMap"), OWN_NAMESPACE)
    for kind in observed.listed:
        yield Subject(kind, selector="" if kind in observed.whole else keys.PART_OF)
    for selection in observed.selected:
        yield Subject(selection.group_kind, selection.namespace or "", selection.labels)
    for one in found.plan.sets:
        for node in one.nodes:
            key, live = node.node.key, node.live
            if key and (node.node.external or (live is not None and not label(live, keys.PART_OF))):
                yield Subject(key.group_kind, key.namespace, name=key.name)

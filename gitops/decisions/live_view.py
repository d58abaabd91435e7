"""View of the live objects in a graph, for the plans of the applier.

If a query reads the view, the graph records which objects, sets and kinds the query depends on. So the planner stays a
pure function over read-only mappings, and knows nothing of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Generic, Never, TypeVar

from applier.cluster import Discovery, Object
from applier.errors import ClusterError
from gitops.decisions import live
from gitops.queries import QueryGraph
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD

K = TypeVar("K")
V = TypeVar("V")


class Lookup(Mapping[K, V]):
    """Mapping whose values a query decides, key by key.

    Iteration fails, because its reader would depend on every value.

    Args:
        read: function that returns the value of a key, or None for a key that the mapping does not have.
        whole: name of the values in messages.
    """

    def __init__(self, read: Callable[[K], V | None], whole: str) -> None:
        self._read = read
        self._whole = whole

    def __getitem__(self, key: K) -> V:
        if (value := self._read(key)) is None:
            raise KeyError(key)
        return value

    def get(self, key: K, default: Any = None) -> Any:
        return default if (value := self._read(key)) is None else value

    def __iter__(self) -> Never:
        raise TypeError(f"a query must not iterate over all {self._whole}; look up a key")

    def __len__(self) -> Never:
        raise TypeError(f"a query must not count all {self._whole}; look up a key")


class _Members(Mapping[str, tuple[ObjectKey, ...]]):
    """Keys of live objects by the id of their ApplySet. A set without a member is missing."""

    def __init__(self, graph: QueryGraph) -> None:
        self._graph = graph

    def __getitem__(self, set_id: str) -> tuple[ObjectKey, ...]:
        if not (keys := live.members_of(self._graph, set_id)):
            raise KeyError(set_id)
        return keys

    def __iter__(self) -> Iterator[str]:
        return iter(live.occupied_sets(self._graph))

    def __len__(self) -> int:
        return len(live.occupied_sets(self._graph))


class Contained(Generic[V]):
    """Container whose content a query decides, value by value."""

    def __init__(self, contains: Callable[[V], bool]) -> None:
        self._contains = contains

    def __contains__(self, value: Any) -> bool:
        return self._contains(value)


@dataclass(frozen=True)
class LiveView:
    """Knowledge of a cluster as its graph has it. Implements `applier.state.observed_view.ObservedView`."""

    graph: QueryGraph
    now: datetime | None

    @property
    def discovery(self) -> Discovery:
        return live.discovery(self.graph)

    @property
    def objects(self) -> Mapping[ObjectKey, Object]:
        return Lookup(partial(live.live, self.graph), "objects")

    @property
    def members(self) -> Mapping[str, tuple[ObjectKey, ...]]:
        return _Members(self.graph)

    @property
    def parents(self) -> Mapping[ObjectKey, str]:
        return live.all_parents(self.graph)

    @property
    def failures(self) -> Mapping[ObjectKey, ClusterError]:
        return live.failures(self.graph)

    @property
    def listed(self) -> Container[GroupKind]:
        return Contained[GroupKind](lambda kind: live.listing(self.graph, kind) is not live.ListExtent.UNLISTED)

    @property
    def list_extents(self) -> Hashable:
        return self.graph.revision

    @property
    def unreadable(self) -> Mapping[GroupKind, ClusterError]:
        return live.unreadable(self.graph)

    @property
    def crds(self) -> Iterable[Object]:
        return live.objects_of_kind(self.graph, CRD)

    @property
    def terminating(self) -> Collection[ObjectKey]:
        return live.terminating_objects(self.graph)

    @property
    def reporting(self) -> Container[GroupKind]:
        return Contained[GroupKind](lambda kind: live.reports_status(self.graph, kind))

    @property
    def claimed(self) -> Container[tuple[str, ObjectKey]]:
        return Contained[tuple[str, ObjectKey]](lambda claim: claim[1] in live.used_claims(self.graph, claim[0]))

    def is_known(self, key: ObjectKey) -> bool:
        """Return whether a read has shown that the object exists, or that the object does not exist."""
        return live.is_known(self.graph, key)

    def has_none_of(self, kind: GroupKind) -> bool:
        """Return whether the cluster certainly has no object of `kind`, because the cluster does not store the kind."""
        return live.is_never_stored(self.graph, kind)

    def is_only_answered(self, kind: GroupKind) -> bool:
        """Return whether the cluster serves `kind` and never stores an object of `kind`."""
        return live.is_only_answered(self.graph, kind)

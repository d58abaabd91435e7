"""What rendering is told of the cluster, as values: rendering itself asks nobody."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Any

from renderer.definition.kind_schemas import KindSchemas
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.render.instance_cache import RevisionPlacement
from renderer.render.model import Live, Selected
from renderer.render.revisions import StoredRevisions


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What rendering needs to know of the cluster: live objects, which kinds are namespaced, which kinds our CRDs there define, for every
    defined kind the source whose set holds its CRD, what selections found, what is stored of revisions and applied pairs, and the types of kinds
    that are described outside of Git. Empty when rendering offline, but for `types` of a folder of schemas.

    `places` are the revisions that instances are at and move to, where that is not the newest. Instances in `gated` are rendered at their applied
    pair as well, so that they can be healed from it. `settled` are sources whose commit was brought about before.
    """

    live: Live = field(default_factory=dict)
    scopes: Mapping[GroupKind, bool] = field(default_factory=dict)
    defined: Mapping[GroupKind, str] = field(default_factory=dict)
    owners: Mapping[GroupKind, str] = field(default_factory=dict)
    stored: StoredRevisions = field(default_factory=StoredRevisions)
    selected: Selected = field(default_factory=dict)
    places: Mapping[ObjectKey, RevisionPlacement] = field(default_factory=dict)
    gated: Collection[ObjectKey] = ()
    settled: Collection[str] = ()
    types: KindSchemas = field(default_factory=KindSchemas)

    def objects_of_kind(self, kind: GroupKind) -> Iterator[Mapping[str, Any]]:
        """Yield the live objects of `kind`."""
        return (obj for key, obj in self.live.items() if key.group_kind == kind)

"""What the set of one instance was rendered from, so that it is known whether it would come to the same again.

A set is a function of its definition, its instance, the definitions and scopes of its nodes' kinds, what selections found, and the live objects that
were looked at while it was made. A live object is as it was when its uid and resourceVersion are; of the instance itself only what is read back of it
counts, so that its own status does not have it rendered again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from renderer.definition.compile import Definition
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey, is_same
from renderer.render.model import Live, RenderedApplySet, Selected
from renderer.render.resolve import resolve
from renderer.render.resources import instance_metadata_read

_Version = tuple[str | int, ...] | None
"""Of a live object: its uid, its resourceVersion, in which API version it was read, and how much of it (metadata alone, or all); of the instance
itself what is read back.
"""

_Kinds = tuple[tuple[Definition | None, bool | None], ...]
"""Of each node of a definition: what defines its kind, and whether that is namespaced."""


@dataclass(frozen=True, slots=True)
class SetInputs:
    """What a rendering has in common for all its instances."""

    live: Live
    definitions: Mapping[GroupKind, Definition]
    scopes: Mapping[GroupKind, bool]
    selected: Selected

    def kinds(self, definition: Definition) -> _Kinds:
        kinds = (node.group_kind for node in definition.nodes)
        return tuple((self.definitions.get(kind), self.scopes.get(kind)) for kind in kinds)


@dataclass(frozen=True, slots=True)
class CachedSet:
    """A set that was rendered, and what it was rendered from; `own` is the instance itself, where it is not read like any other object."""

    definition: Definition
    manifest: Manifest
    source: str
    owner: ObjectKey
    kinds: _Kinds
    seen: Mapping[ObjectKey, _Version]
    selected: Selected
    own: ObjectKey | None
    rendered: RenderedApplySet

    @classmethod
    def made(
        cls, definition: Definition, manifest: Manifest, around: SetInputs, *, source: str, owner: ObjectKey
    ) -> CachedSet:
        """Render it."""
        own = _own(definition, manifest)
        seen = _Seen(around.live, own)
        rendered = resolve(
            definition,
            manifest,
            observed=seen,
            definitions=around.definitions,
            scopes=around.scopes,
            selected=around.selected,
            source=source,
            owner=owner,
        )
        kinds = around.kinds(definition)
        return cls(definition, manifest, source, owner, kinds, seen.versions, around.selected, own, rendered)

    def holds(
        self, definition: Definition, manifest: Manifest, around: SetInputs, *, source: str, owner: ObjectKey
    ) -> bool:
        """Would it come to the same?"""
        return (
            self.definition is definition
            and is_same(self.manifest, manifest)
            and (self.source, self.owner) == (source, owner)
            and all(a[0] is b[0] and a[1] == b[1] for a, b in zip(self.kinds, around.kinds(definition), strict=True))
            and self.selected == around.selected
            and all(_version(around.live.get(key), key == self.own) == version for key, version in self.seen.items())
        )


def _own(definition: Definition, manifest: Manifest) -> ObjectKey | None:
    """The instance itself, of which nothing is read but `resolve.read_back`, unless one of its nodes is of its own kind."""
    key = ObjectKey.from_manifest(manifest)
    return None if any(node.group_kind == key.group_kind for node in definition.nodes) else key


def _version(obj: Mapping[str, Any] | None, is_own: bool) -> _Version:
    if obj is None:
        return None
    if is_own:
        return instance_metadata_read(obj)
    metadata = obj["metadata"]
    return metadata.get("uid", ""), metadata.get("resourceVersion", ""), obj.get("apiVersion", ""), len(obj)


class _Seen(Mapping[ObjectKey, Mapping[str, Any]]):
    """Live objects, and a note of which were asked for."""

    def __init__(self, live: Live, own: ObjectKey | None) -> None:
        self._live = live
        self._own = own
        self.versions: dict[ObjectKey, _Version] = {}

    def __getitem__(self, key: ObjectKey) -> Mapping[str, Any]:
        found = self._live.get(key)
        self.versions[key] = _version(found, key == self._own)
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._live)

    def __len__(self) -> int:
        return len(self._live)

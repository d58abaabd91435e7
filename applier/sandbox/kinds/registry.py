"""Which kinds are served, and what each makes of its content.

The registry holds the built-in kinds for good and custom kinds while their CustomResourceDefinition is established. A
`Model` is the part that differs between the two: types, defaults, rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from applier.cluster import Object
from applier.errors import StatusCause
from applier.sandbox.kinds.go_types import GoType
from applier.sandbox.merge import MergeType
from applier.sandbox.storage.store import StoredKey
from applier.sandbox.wire import RefusalSubject
from renderer.frozen import dataclass

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class DecodedObject:
    """Content read by the rules of its kind: unknown fields dropped and listed in `unknown`.

    `mistake` says why it cannot be read at all, in the words of the decoder; empty if it can.
    """

    obj: Object
    unknown_fields: tuple[str, ...] = ()
    error: str = ""


class KindModel(Protocol):
    """What a kind makes of content. Objects are whole, with apiVersion and kind. Nothing given is changed."""

    @property
    def type(self) -> MergeType:
        """How server-side apply merges it."""

    @property
    def blank(self) -> Object:
        """What the server holds of an object of which nothing is given; never changed."""

    @property
    def go_type(self) -> GoType | None:
        """How the server holds it, which its protobuf follows; None for a kind that has none."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """What describes it, an OpenAPI v3 schema; empty where nothing does."""

    def resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """A part of the schema itself, where a reference stands for it."""

    @property
    def has_generation(self) -> bool:
        """Whether its objects count the changes of their content in metadata.generation."""

    def decode(self, obj: Object, *, merged: bool = False) -> DecodedObject:
        """What of the content is known. `merged`: by a server-side apply, which leaves nulls for the validation."""

    def default(self, obj: Object, live: Object | None) -> Object:
        """With the defaults of what is left out, at creation (no `live`) or update; whoever writes comes to own them."""

    def complete(self, obj: Object, live: Object | None) -> Object:
        """With what the server gives by itself and nobody owns: addresses, generated selectors, first statuses."""

    def validate(self, obj: Object, live: Object | None) -> list[StatusCause]:
        """What forbids to store it."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table that kubectl prints; `path` is a JSONPath, `priority` 0 columns are always shown."""

    name: str
    type: str
    path: str
    format: str
    description: str
    priority: int


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where an object has its replicas, those that there are, and which pods they are; dotted paths, "" for none."""

    replicas: str
    status: str
    selector: str = ""


@dataclass(frozen=True, slots=True)
class ServedKind:
    """One kind in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    model: KindModel = field(repr=False)
    singular: str = ""
    list_kind: str = ""
    verbs: tuple[str, ...] = ALL_VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    is_custom: bool = False
    scale_paths: ScalePaths | None = None
    selectable: tuple[str, ...] = ()
    """Dotted paths that field selectors may name, of a custom kind."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Where its objects are stored, whatever the version."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def key(self, namespace: str, name: str) -> StoredKey:
        return StoredKey(self.resource, namespace, name)

    def subject(self, name: str) -> RefusalSubject:
        return RefusalSubject(self.group, self.plural, self.kind, name)

    @property
    def json_prefix(self) -> bytes:
        """What stored content lacks: the beginning of an object, up to its metadata."""
        if self.is_custom:
            return f'{{"apiVersion":"{self.api_version}","kind":"{self.kind}",'.encode()
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()


class KindRegistry:
    """Kinds by path and by group and kind. `revision` counts the changes, for the ETag of discovery."""

    def __init__(self, built_in: Iterable[ServedKind]) -> None:
        self.revision = 0
        self._kinds: dict[str, dict[str, dict[str, ServedKind]]] = {}
        self.add(built_in)

    def __iter__(self) -> Iterator[ServedKind]:
        return (kind for versions in self._kinds.values() for kinds in versions.values() for kind in kinds.values())

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        return self._kinds.get(group, {}).get(version, {}).get(plural)

    def find_resource(self, resource: str) -> ServedKind | None:
        """Any served version of a resource (`deployments.apps`)."""
        plural, _, group = resource.partition(".")
        return next(filter(None, (self.find(group, version, plural) for version in self.versions(group))), None)

    def groups(self) -> list[str]:
        return list(self._kinds)

    def versions(self, group: str) -> Sequence[str]:
        """Versions of a group, the preferred one first."""
        return sorted(self._kinds.get(group, {}), key=version_priority)

    def kinds(self, group: str, version: str) -> list[ServedKind]:
        """Kinds of a group version by plural."""
        return [kind for _, kind in sorted(self._kinds.get(group, {}).get(version, {}).items())]

    def group_kinds(self, group: str) -> list[ServedKind]:
        """Return the kinds of a group in all its versions."""
        return [kind for version in self.versions(group) for kind in self.kinds(group, version)]

    def add(self, kinds: Iterable[ServedKind]) -> None:
        for kind in kinds:
            self._kinds.setdefault(kind.group, {}).setdefault(kind.version, {})[kind.plural] = kind
        self.revision += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving a resource in all its versions."""
        versions = self._kinds.get(group, {})
        for version, kinds in list(versions.items()):
            kinds.pop(plural, None)
            if not kinds:
                del versions[version]
        if not versions:
            self._kinds.pop(group, None)
        self.revision += 1


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Order of versions, most stable and newest first: v2, v1, v1beta2, v1alpha1, others by name.

    Source: apimachinery `pkg/version`, documented under "Version priority" of CustomResourceDefinitions.
    """
    version_match = re.fullmatch(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?", version)
    if not version_match:
        return (3, 0, 0, version)
    major, stage, minor = version_match.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), version)

"""Registry of served kinds, each with a model of its content.

The registry always contains the built-in kinds. As long as a CustomResourceDefinition is established, the registry also
contains the custom kind. A `KindModel` contains the differences between built-in and custom kinds: types, defaults,
rules.
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
    """Object after decoding, without the unknown fields."""

    obj: Object
    unknown_fields: tuple[str, ...] = ()
    """Paths of the fields that the kind does not know."""
    error: str = ""
    """Message of the decoder, or an empty string if the decoder succeeds."""


class KindModel(Protocol):
    """Types, defaults and rules of a kind's content.

    All objects that the methods accept and return have apiVersion and kind. Methods never change their arguments.
    """

    @property
    def type(self) -> MergeType:
        """Return the type that tells server-side apply how to merge objects of this kind."""

    @property
    def blank(self) -> Object:
        """Return the server's representation of an empty object.

        Callers must not change the result.
        """

    @property
    def go_type(self) -> GoType | None:
        """Return the Go type that describes objects in protobuf to the server, or None for a custom kind."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """Return the OpenAPI v3 schema, or an empty mapping if the kind has no schema."""

    def resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the definition to which `schema` refers, or `schema` itself if `schema` is not a reference."""

    @property
    def has_generation(self) -> bool:
        """Return whether metadata.generation counts changes of the content."""

    def decode(self, obj: Object, *, merged: bool = False) -> DecodedObject:
        """Return the fields of `obj` that the kind knows, and the paths of unknown fields.

        Args:
            merged: True if `obj` is the result of a server-side apply. The decoder keeps typed nulls of such an object,
                so that validation can report the nulls.
        """

    def default(self, obj: Object, live: Object | None) -> Object:
        """Return `obj` with the defaults of absent fields. The writer becomes the owner of these fields.

        Args:
            live: stored object, or None at creation.
        """

    def complete(self, obj: Object, live: Object | None) -> Object:
        """Return `obj` with the fields that the server sets without an owner.

        Examples are addresses, generated selectors and initial statuses.

        Args:
            live: stored object, or None at creation.
        """

    def validate(self, obj: Object, live: Object | None) -> list[StatusCause]:
        """Return the causes that forbid storing `obj`.

        Args:
            live: stored object, or None at creation.
        """


@dataclass(frozen=True, slots=True)
class Column:
    """Column of the table that kubectl prints."""

    name: str
    type: str
    path: str
    """JSONPath of the value."""
    format: str
    description: str
    priority: int
    """0 for a column that kubectl always shows. kubectl shows all other columns only with `-o wide`."""


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Dotted paths in an object to its desired replicas, current replicas and selector."""

    replicas: str
    status: str
    selector: str = ""
    """Path of the selector, or an empty string if the object has no selector."""


@dataclass(frozen=True, slots=True)
class ServedKind:
    """Kind in one of its versions, with its data for discovery and the model of its content."""

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
    """Dotted paths of the fields by which field selectors can select objects of a custom kind."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Return the plural with the group, such as `deployments.apps`.

        The server stores all versions of a kind under this name.
        """
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def key(self, namespace: str, name: str) -> StoredKey:
        return StoredKey(self.resource, namespace, name)

    def subject(self, name: str) -> RefusalSubject:
        return RefusalSubject(self.group, self.plural, self.kind, name)

    @property
    def json_prefix(self) -> bytes:
        """Return the JSON text of an object of this kind before its metadata.

        Stored content does not contain this text.
        """
        if self.is_custom:
            return f'{{"apiVersion":"{self.api_version}","kind":"{self.kind}",'.encode()
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()


class KindRegistry:
    """Served kinds by group, version and plural.

    Every change of the registry increases `revision`. Discovery documents derive their ETag from `revision`.
    """

    def __init__(self, built_in: Iterable[ServedKind]) -> None:
        self.revision = 0
        self._kinds: dict[str, dict[str, dict[str, ServedKind]]] = {}
        self.add(built_in)

    def __iter__(self) -> Iterator[ServedKind]:
        return (kind for versions in self._kinds.values() for kinds in versions.values() for kind in kinds.values())

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        return self._kinds.get(group, {}).get(version, {}).get(plural)

    def find_resource(self, resource: str) -> ServedKind | None:
        """Return the preferred served version of `resource` (`deployments.apps`), or None if no version is served."""
        plural, _, group = resource.partition(".")
        return next(filter(None, (self.find(group, version, plural) for version in self.versions(group))), None)

    def groups(self) -> list[str]:
        return list(self._kinds)

    def versions(self, group: str) -> Sequence[str]:
        """Return the versions of `group`, with the preferred version first."""
        return sorted(self._kinds.get(group, {}), key=version_priority)

    def kinds(self, group: str, version: str) -> list[ServedKind]:
        """Return the kinds of `group` in `version`, in the order of their plurals."""
        return [kind for _, kind in sorted(self._kinds.get(group, {}).get(version, {}).items())]

    def group_kinds(self, group: str) -> list[ServedKind]:
        """Return the kinds of `group` in all its versions, with the preferred version first."""
        return [kind for version in self.versions(group) for kind in self.kinds(group, version)]

    def add(self, kinds: Iterable[ServedKind]) -> None:
        for kind in kinds:
            self._kinds.setdefault(kind.group, {}).setdefault(kind.version, {})[kind.plural] = kind
        self.revision += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving the kind `plural` of `group` in all its versions."""
        versions = self._kinds.get(group, {})
        for version, kinds in list(versions.items()):
            kinds.pop(plural, None)
            if not kinds:
                del versions[version]
        if not versions:
            self._kinds.pop(group, None)
        self.revision += 1


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Return a sort key for `version`: stable before beta and alpha, newer before older, other names last.

    Source: apimachinery `pkg/version`, documented under "Version priority" of CustomResourceDefinitions.
    """
    version_match = re.fullmatch(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?", version)
    if not version_match:
        return (3, 0, 0, version)
    major, stage, minor = version_match.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), version)

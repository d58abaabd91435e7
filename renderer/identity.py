"""Identities of objects: group and kind, object keys, ApplySet ids and digests.

Identities depend on text alone, so every program that follows the same rules computes the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

OWN_NAMESPACE: Final = "levelgate-system"
"""Namespace of Levelgate's records."""

SOURCE_PREFIX: Final = "source-"

Manifest = dict[str, Any]
"""A Kubernetes object as plain JSON: dict, list, str, int, float, bool, None."""


class GroupKind(NamedTuple):
    """A kind without its version.

    The text form is that of ApplySet annotations: `Deployment.apps`, `Secret`.
    """

    group: str
    """API group, empty for the core group."""
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @classmethod
    def parse(cls, text: str) -> GroupKind:
        """Return the kind whose text form is `text`."""
        kind, _, group = text.partition(".")
        return cls(group, kind)


_cached_group_kind = lru_cache(maxsize=4096)(GroupKind)
"""Cached constructor of `GroupKind`. The objects of a source have only a few kinds."""


class ObjectKey(NamedTuple):
    """Group, kind, namespace and name (GKNN) of an object."""

    group: str
    kind: str
    namespace: str
    """Namespace of the object, empty for a cluster-scoped object."""
    name: str

    @property
    def group_kind(self) -> GroupKind:
        return _cached_group_kind(self.group, self.kind)

    @property
    def by_kind(self) -> tuple[str, str, str, str]:
        """Return the sort key by kind, namespace, name and group, the order of the sets and nodes of a source."""
        return self.kind, self.namespace, self.name, self.group

    @property
    def qualified_name(self) -> str:
        """Return the name with the namespace, such as `prod/shop`, or `main` for a cluster-scoped object.

        The name is unique within a kind.
        """
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def command_reference(self) -> str:
        """Return the arguments that name the object in a command: `webapp/cart -n prod`."""
        return f"{self.kind.lower()}/{self.name}" + (f" -n {self.namespace}" if self.namespace else "")

    def __str__(self) -> str:
        return f"{self.group_kind}/{self.qualified_name}"

    @classmethod
    def parse(cls, text: str) -> ObjectKey | None:
        """Return the key whose text form is `text`, or None if `text` is not the text form of a key."""
        kind, _, place = text.partition("/")
        namespace, _, name = place.rpartition("/")
        return cls(*GroupKind.parse(kind), namespace, name) if kind and name else None

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> ObjectKey:
        """Return the key of `manifest`, which may be a live object."""
        metadata = manifest["metadata"]
        group, kind = group_kind(manifest)
        return cls(group, kind, metadata.get("namespace") or "", metadata["name"])


def group_kind(manifest: Mapping[str, Any]) -> GroupKind:
    """Return group and kind of `manifest`. If the apiVersion contains no group (`v1`), the group is empty."""
    group, _, _ = manifest["apiVersion"].rpartition("/")
    return _cached_group_kind(group, manifest["kind"])


def version_of(manifest: Mapping[str, Any]) -> str:
    """Return the version of a manifest's kind, such as `v1` if the apiVersion is `apps/v1`."""
    return str(manifest["apiVersion"]).rpartition("/")[2]


@lru_cache(maxsize=65_536)
def applyset_id(parent: ObjectKey) -> str:
    """Return the id (55 characters) of the ApplySet whose parent is `parent` (KEP-3659, "ApplySet identification")."""
    text = ".".join((parent.name, parent.namespace, parent.kind, parent.group))
    digest = hashlib.sha256(text.encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"


@lru_cache(maxsize=65_536)
def key_hash(key: ObjectKey) -> str:
    """Return a hash of a key (16 hexadecimal digits), which the dependency records of members use."""
    return hashlib.blake2b("\0".join(key).encode(), digest_size=8).hexdigest()


def digest(value: Any) -> str:
    """Return a digest (32 hexadecimal digits) of a value's canonical JSON, in which keys are sorted.

    Equal values have equal digests.
    """
    return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def is_same(left: Any, right: Any) -> bool:
    """Return whether two JSON values have the same digest. Python's `==` treats `1` and `True` as equal."""
    return left is right or (left == right and (left.__class__ is str or digest(left) == digest(right)))


def source_parent(source: str) -> ObjectKey:
    """Return the key of the ConfigMap that is the ApplySet parent of a source.

    The id of the ApplySet depends on the name `source` alone.
    """
    return ObjectKey("", "ConfigMap", OWN_NAMESPACE, f"{SOURCE_PREFIX}{source}")

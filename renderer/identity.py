"""Names of things: group and kind, object keys, ApplySet ids and digests.

Everything here is a pure function of text; two programs that follow the same rules compute the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

OWN_NAMESPACE: Final = "levelgate-system"
"""Where Levelgate keeps its records."""

SOURCE_PREFIX: Final = "source-"

Manifest = dict[str, Any]
"""A Kubernetes object as plain JSON values: dict, list, str, int, float, bool, None."""


class GroupKind(NamedTuple):
    """A kind without its version. The core group is the empty text. Text form as in ApplySet annotations: `Deployment.apps`, `Secret`."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @classmethod
    def parse(cls, text: str) -> GroupKind:
        """Inverse of `str()`."""
        kind, _, group = text.partition(".")
        return cls(group, kind)


_cached_group_kind = lru_cache(maxsize=4096)(GroupKind)
"""There are few, and they are asked for once and again for each object."""


class ObjectKey(NamedTuple):
    """Group, kind, namespace and name (GKNN) of one object; `namespace` is empty for cluster-scoped objects."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> GroupKind:
        return _cached_group_kind(self.group, self.kind)

    @property
    def qualified_name(self) -> str:
        """`prod/shop`, or `main` for a cluster-scoped object: unique among the objects of its kind."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def command_reference(self) -> str:
        """As commands take it: `webapp/cart -n prod`."""
        return f"{self.kind.lower()}/{self.name}" + (f" -n {self.namespace}" if self.namespace else "")

    def __str__(self) -> str:
        return f"{self.group_kind}/{self.qualified_name}"

    @classmethod
    def parse(cls, text: str) -> ObjectKey | None:
        """Inverse of `str()`; None for any other text."""
        kind, _, place = text.partition("/")
        namespace, _, name = place.rpartition("/")
        return cls(*GroupKind.parse(kind), namespace, name) if kind and name else None

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> ObjectKey:
        """The key of a manifest or live object; a missing namespace is the empty text."""
        metadata = manifest["metadata"]
        group, kind = group_kind(manifest)
        return cls(group, kind, metadata.get("namespace") or "", metadata["name"])


def group_kind(manifest: Mapping[str, Any]) -> GroupKind:
    """Group and kind of a manifest; the group of `v1` is the empty text."""
    group, _, _ = manifest["apiVersion"].rpartition("/")
    return _cached_group_kind(group, manifest["kind"])


def version_of(manifest: Mapping[str, Any]) -> str:
    """The version of a manifest's kind: `v1` of `apps/v1`."""
    return str(manifest["apiVersion"]).rpartition("/")[2]


@lru_cache(maxsize=65_536)
def applyset_id(parent: ObjectKey) -> str:
    """Id of the ApplySet whose parent has this key, 55 characters (KEP-3659, "ApplySet identification")."""
    text = ".".join((parent.name, parent.namespace, parent.kind, parent.group))
    digest = hashlib.sha256(text.encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"


@lru_cache(maxsize=65_536)
def key_hash(key: ObjectKey) -> str:
    """16 hexadecimal digits that stand for a key in the dependency records of members."""
    return hashlib.blake2b("\0".join(key).encode(), digest_size=8).hexdigest()


def digest(value: Any) -> str:
    """32 hexadecimal digits over the canonical JSON of a value (keys sorted); equal values have equal digests."""
    return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def is_same(left: Any, right: Any) -> bool:
    """Are two JSON values the same, so that their digests are? To Python 1 and true are equal, also within what holds them."""
    return left is right or (left == right and (left.__class__ is str or digest(left) == digest(right)))


def source_parent(source: str) -> ObjectKey:
    """Key of the ConfigMap that is the ApplySet parent of a source; its id depends on the name alone."""
    return ObjectKey("", "ConfigMap", OWN_NAMESPACE, f"{SOURCE_PREFIX}{source}")

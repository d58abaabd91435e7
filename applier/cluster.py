"""Port to one Kubernetes cluster: every request that the applier makes.

Objects are plain dicts, as in JSON. Every method may raise `errors.ClusterError`. If the server certainly did not carry
out a request (429, 503, refused connections), each adapter retries the request for a limited time.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from datetime import datetime
from typing import Any, Final, NewType, Protocol

from applier.errors import KindNotServed
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey

ClusterName = NewType("ClusterName", str)
"""Name of a cluster, made by `parse_cluster_name` or `context_name`. The separate type makes mypy reject plain
strings."""

LOCAL_CLUSTER: Final = ClusterName("local")
"""Name of the hub's own cluster, which is the only cluster in a process without a fleet."""

DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CLUSTER_NAME_FORMAT: Final = re.compile(rf"({DNS_LABEL.pattern}#)?{DNS_LABEL.pattern}")


def parse_cluster_name(text: str) -> ClusterName:
    """Return `text` as a cluster name: `eu-1`, or `capi#eu-1` for a cluster that the provider `capi` knows.

    Raises: ValueError, with a description of the format, if `text` is not a cluster name.
    """
    if not _CLUSTER_NAME_FORMAT.fullmatch(text):
        raise ValueError(
            f"{text!r} cannot name a cluster; write at most 63 lowercase letters, digits and dashes, such as prod-eu, "
            "or PROVIDER#NAME with both parts in this form"
        )
    return ClusterName(text)


def context_name(text: str) -> ClusterName:
    """Return `text` as a cluster name without checking the format, for messages about the only cluster.

    If a process has several clusters, `parse_cluster_name` makes the names.

    Args:
        text: for example, a context of a kubeconfig.
    """
    return ClusterName(text)


Object = dict[str, Any]

CONTENT_MANAGER, PARENT_MANAGER, STATUS_MANAGER, CLI_MANAGER = (
    "levelgate",
    "levelgate-applyset",
    "levelgate-status",
    "levelgate-cli",
)
"""Field managers of Levelgate.

`CONTENT_MANAGER` owns the content of objects. `PARENT_MANAGER` owns the ApplySet keys and finalizers of parents.
`STATUS_MANAGER` owns the status of instances. `CLI_MANAGER` owns annotations that commands write for people.
"""


@dataclass(frozen=True, slots=True)
class Resource:
    """Kind that a server serves, with the versions of the kind."""

    group: str
    version: str
    """Version that the server prefers."""
    kind: str
    plural: str
    """Name of the kind in request paths."""
    namespaced: bool
    verbs: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    other_versions: tuple[str, ...] = ()
    """All served versions except the preferred version."""

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class Discovery:
    """Kinds that a cluster serves."""

    resources: Mapping[GroupKind, Resource]
    stale_groups: frozenset[str] = field(default=frozenset())
    """API groups for which the server does not answer. The kinds of these groups are unknown, not absent."""

    def is_listable(self, kind: GroupKind) -> bool:
        """Return whether the server can list objects of `kind`.

        The server never stores objects of a review kind such as TokenReview, so the server cannot list these objects.
        """
        return kind in self.resources and "list" in self.resources[kind].verbs

    def has_none_of(self, kind: GroupKind) -> bool:
        """Return whether the cluster certainly has no object of `kind`, because the cluster does not store the kind."""
        return not self.is_listable(kind) and kind.group not in self.stale_groups

    def is_only_answered(self, kind: GroupKind) -> bool:
        """Return whether the cluster serves `kind` and never stores an object of `kind`."""
        return kind in self.resources and not self.is_listable(kind)


@dataclass(frozen=True, slots=True, order=True)
class ResourceAttributes:
    """Permission for a verb on a resource, where `*` stands for all verbs or resources."""

    group: str
    resource: str
    namespace: str = ""
    """Namespace of the permission, or an empty string for all namespaces and cluster-scoped objects."""
    subresource: str = ""
    verb: str = ""

    @property
    def attributes(self) -> dict[str, str]:
        """Return the `resourceAttributes` for a SelfSubjectAccessReview."""
        return {name: getattr(self, name) for name in ("group", "resource", "verb", "namespace", "subresource")}

    def __str__(self) -> str:
        """Return the permission in the words of RBAC, such as `patch deployments.apps/status`."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        scope_text = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource}{f'/{self.subresource}' if self.subresource else ''}{scope_text}"


@dataclass(frozen=True, slots=True, order=True)
class WatchTarget:
    """Objects to watch: all objects of a kind in a namespace that match `selector`, or the single object `name`."""

    kind: GroupKind
    namespace: str = ""
    """Namespace of the objects, or an empty string for all namespaces."""
    selector: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """Change that a watch reports."""

    object: Object
    """Object with the metadata after the change. If `deleted` is true, the metadata is from before the deletion."""
    deleted: bool = False


class Cluster(Protocol):
    """Reads, writes and watches of one cluster."""

    name: ClusterName

    @property
    def server_time(self) -> datetime | None:
        """Return the current time of the server's clock, accurate to 2 s, derived from the last answer of the server.

        Before the first answer, return None.
        """

    async def discover(self, *, refresh: bool = False) -> Discovery:
        """Return the kinds that the cluster serves.

        If `refresh` is true, or a request has raised KindNotServed, the adapter asks the server. Otherwise the adapter
        returns cached kinds.
        """

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        """Return the object `key` by a consistent read, or None if it is absent.

        Raises: KindNotServed if the server does not serve the kind of the object.
        """

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> list[Object]:
        """Return all objects of `kind` by a consistent read of all pages, each with its apiVersion and kind.

        If `namespace` is None, return objects of all namespaces, and cluster-scoped objects.

        Raises: KindNotServed if the server does not serve `kind`.
        """

    async def apply(
        self, manifest: Object, *, manager: str, force: bool = False, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        """Apply the complete intent `manifest` server-side, and return the stored object.

        If `manifest` has `metadata.uid` and the object is absent, the server creates no object.

        Raises: FieldConflict or Invalid if the server refuses the manifest, or StaleWrite if no object has that uid.
        """

    async def merge(self, key: ObjectKey, patch: Object, *, manager: str) -> Object | None:
        """Patch the object `key` with a JSON merge patch (RFC 7386), and return the stored object.

        If the object is absent, return None. A uid or resourceVersion in `patch` is a precondition.

        Raises: StaleWrite if a precondition does not hold.
        """

    async def delete(
        self, key: ObjectKey, *, uid: str, resource_version: str | None, propagation: str = "Background"
    ) -> None:
        """Delete the object `key`. If the object is absent, do nothing.

        Args:
            uid: uid that the object must have.
            resource_version: version that the object must have, or None for any version.
            propagation: policy for dependents of the object.

        Raises: StaleWrite if the uid or version differs.
        """

    def with_user(self, user: str) -> Cluster:
        """Return a view of this cluster whose requests impersonate `user` and have only the rights of `user`.

        Raises: Denied if Levelgate may not impersonate `user`.
        """

    def with_versions(self, versions: Mapping[GroupKind, str]) -> Cluster:
        """Return a view of this cluster that reads each kind in `versions` in the given version.

        If the server does not serve the given version, the view reads the preferred version.
        """

    def without_retries(self) -> Cluster:
        """Return a view of this cluster that attempts each write only once.

        If the server certainly did not carry out a write, the write raises Unavailable at once.
        """

    def with_write_check(self, check: Callable[[], None]) -> Cluster:
        """Return a view of this cluster that calls `check` before each attempt of a write.

        If `check` raises an exception, the view does not send the write.
        """

    def watch(self, subject: WatchTarget) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        """Yield each change of the objects in `subject` from now on. The iteration does not end by itself.

        If the watch cannot continue without a gap, the watch raises an exception. Then the caller has to list the
        objects again.

        Raises: KindNotServed, Denied or Unavailable, at the start of the watch or during the iteration.
        """

    async def close(self) -> None:
        """Close all connections."""


class Reader(Protocol):
    """Part of `Cluster` that only reads."""

    @property
    def server_time(self) -> datetime | None: ...

    async def discover(self, *, refresh: bool = False) -> Discovery: ...

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None: ...

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> builtins.list[Object]: ...


async def list_if_served(
    cluster: Reader, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
) -> list[Object]:
    """Return the objects that `cluster.list` returns, or no objects if the server does not serve `kind`.

    Raises: ClusterError if the list fails for another reason.
    """
    try:
        return await cluster.list(kind, namespace, selector=selector, metadata_only=metadata_only)
    except KindNotServed:
        return []

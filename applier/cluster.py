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
"""Name of a cluster, made by `parse_cluster_name` or `context_name`. The separate type makes mypy reject plain text."""

LOCAL_CLUSTER: Final = ClusterName("local")
"""Name of the one cluster of a process without a fleet."""

DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CLUSTER_NAME_FORMAT: Final = re.compile(rf"({DNS_LABEL.pattern}#)?{DNS_LABEL.pattern}")


def parse_cluster_name(text: str) -> ClusterName:
    """Return `text` as a cluster name: `eu-1`, or `capi#eu-1` for a cluster that the provider `capi` knows.

    Raises: ValueError with a text that describes the format.
    """
    if not _CLUSTER_NAME_FORMAT.fullmatch(text):
        raise ValueError(
            f"{text!r} cannot name a cluster; write at most 63 small letters, digits and dashes, such as prod-eu, "
            "or PROVIDER#NAME, both of that form"
        )
    return ClusterName(text)


def context_name(text: str) -> ClusterName:
    """Return `text` as a cluster name without checking the format, for messages about the only cluster.

    `text` is, for example, a context of a kubeconfig. If a process has several clusters, `parse_cluster_name` makes the
    names.
    """
    return ClusterName(text)


Object = dict[str, Any]

CONTENT_MANAGER, PARENT_MANAGER, STATUS_MANAGER, CLI_MANAGER = (
    "levelgate",
    "levelgate-applyset",
    "levelgate-status",
    "levelgate-cli",
)
"""Field managers of Levelgate. The first manager owns the content of objects. The second manager owns the ApplySet keys
and finalizers of parents. The third manager owns the status of instances. The fourth manager owns annotations that
commands write for people.
"""


@dataclass(frozen=True, slots=True)
class Resource:
    """Kind that a server serves, with the versions of the kind.

    `version` is the preferred version, and `other_versions` are all other served versions. `plural` is the name of the
    kind in request paths.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    other_versions: tuple[str, ...] = ()

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class Discovery:
    """Kinds that a cluster serves.

    The server did not answer for the groups in `stale_groups`, so the kinds of these groups are unknown, not absent.
    """

    resources: Mapping[GroupKind, Resource]
    stale_groups: frozenset[str] = field(default=frozenset())

    def is_listable(self, kind: GroupKind) -> bool:
        """Return whether objects of `kind` can be listed.

        Objects of a review kind such as TokenReview cannot be listed, because the server never stores a review.
        """
        return kind in self.resources and "list" in self.resources[kind].verbs


@dataclass(frozen=True, slots=True, order=True)
class ResourceAttributes:
    """Permission for a verb on a resource, where `*` stands for all verbs or resources.

    An empty `namespace` means all namespaces and cluster-scoped objects.
    """

    group: str
    resource: str
    namespace: str = ""
    subresource: str = ""
    verb: str = ""

    @property
    def attributes(self) -> dict[str, str]:
        """Return the `resourceAttributes` of a SelfSubjectAccessReview."""
        return {name: getattr(self, name) for name in ("group", "resource", "verb", "namespace", "subresource")}

    def __str__(self) -> str:
        """Return the permission in the words of RBAC, such as `patch deployments.apps/status`."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        scope_text = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource}{f'/{self.subresource}' if self.subresource else ''}{scope_text}"


@dataclass(frozen=True, slots=True, order=True)
class WatchTarget:
    """Objects to watch: all objects of a kind in a namespace that match `selector`, or the single object `name`.

    An empty `namespace` means all namespaces.
    """

    kind: GroupKind
    namespace: str = ""
    selector: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """Change that a watch reports.

    `object` contains the metadata after the change. If the object was `deleted`, `object` contains the metadata before
    the deletion.
    """

    object: Object
    deleted: bool = False


class Cluster(Protocol):
    """Reads, writes and watches of one cluster."""

    name: ClusterName

    @property
    def server_time(self) -> datetime | None:
        """Return the present time of the server's clock, within 2 s, derived from the last answer of the server.

        Return None before the first answer.
        """

    async def discover(self, *, refresh: bool = False) -> Discovery:
        """Return the kinds that the cluster serves.

        The kinds are cached until a call with `refresh`, or until a request raises KindNotServed.
        """

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        """Return the object `key` by a consistent read, or None if it is absent.

        Raises: KindNotServed.
        """

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> list[Object]:
        """Return all objects of `kind` by a consistent read of all pages, each with its apiVersion and kind.

        If `namespace` is None, return objects of all namespaces, and cluster-scoped objects.

        Raises: KindNotServed.
        """

    async def apply(
        self, manifest: Object, *, manager: str, force: bool = False, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        """Apply the complete intent `manifest` server-side, and return the object as stored.

        If `manifest` has `metadata.uid`, an absent object is not created.

        Raises: FieldConflict, Invalid, and StaleWrite if an object with that uid is absent.
        """

    async def merge(self, key: ObjectKey, patch: Object, *, manager: str) -> Object | None:
        """Patch the object `key` by JSON merge patch (RFC 7386), and return the stored object.

        Return None if the object is absent. A uid or resourceVersion in `patch` is a precondition.

        Raises: StaleWrite if a precondition does not hold.
        """

    async def delete(
        self, key: ObjectKey, *, uid: str, resource_version: str | None, propagation: str = "Background"
    ) -> None:
        """Delete the object `key` with this `uid`, and with this `resource_version` if a version is given.

        If the object is absent, the call succeeds.

        Raises: StaleWrite if the uid or version differs.
        """

    def with_user(self, user: str) -> Cluster:
        """Return this cluster with requests that impersonate `user`, so that a request has only the rights of `user`.

        Raises: Denied if Levelgate may not impersonate `user`.
        """

    def with_versions(self, versions: Mapping[GroupKind, str]) -> Cluster:
        """Return this cluster, which reads each kind in `versions` in the given version if that version is served."""

    def without_retries(self) -> Cluster:
        """Return this cluster, which attempts each write only once.

        A write that was certainly not carried out raises Unavailable at once.
        """

    def with_write_check(self, check: Callable[[], None]) -> Cluster:
        """Return this cluster with `check` called before each attempt of a write.

        If `check` raises an exception, the write is not sent.
        """

    def watch(self, subject: WatchTarget) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        """Yield the changes of the objects in `subject` from now on, without an end.

        If the watch cannot continue without a gap, the caller has to list the objects again.

        Raises: KindNotServed, Denied or Unavailable, when the watch is entered or while it is iterated.
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

    Raises: ClusterError.
    """
    try:
        return await cluster.list(kind, namespace, selector=selector, metadata_only=metadata_only)
    except KindNotServed:
        return []

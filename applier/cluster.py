"""Port to one Kubernetes cluster: every request that the applier makes.

Objects are plain dicts, as in JSON. Every method may raise `errors.ClusterError`. Each adapter retries requests that
the server certainly did not carry out (429, 503, refused connections), for a limited time.
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
"""Name of a cluster, made by `parse_cluster_name` or `context_name`. A type of its own, so that mypy refuses plain
text.
"""

LOCAL_CLUSTER: Final = ClusterName("local")
"""Name of the one cluster of a process without a fleet."""

DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CLUSTER_NAME_FORMAT: Final = re.compile(rf"({DNS_LABEL.pattern}#)?{DNS_LABEL.pattern}")


def parse_cluster_name(text: str) -> ClusterName:
    """Return `eu-1`, or `capi#eu-1` for a cluster that the provider `capi` knows.

    Raises: ValueError, which states the format.
    """
    if not _CLUSTER_NAME_FORMAT.fullmatch(text):
        raise ValueError(
            f"{text!r} cannot name a cluster; write at most 63 small letters, digits and dashes, such as prod-eu, "
            "or PROVIDER#NAME, both of that form"
        )
    return ClusterName(text)


def context_name(text: str) -> ClusterName:
    """Return any text as a cluster name, for messages about the only cluster: a context of a kubeconfig, for example.

    Where a process has several clusters, their names come from `parse_cluster_name`.
    """
    return ClusterName(text)


Object = dict[str, Any]

CONTENT_MANAGER, PARENT_MANAGER, STATUS_MANAGER, CLI_MANAGER = (
    "levelgate",
    "levelgate-applyset",
    "levelgate-status",
    "levelgate-cli",
)
"""Field managers: content of objects; ApplySet keys and finalizers of parents; status of instances; annotations that
commands write for people.
"""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as the server serves it: preferred `version`, `plural` for paths, `verbs`, and the `other_versions`."""

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
    """The kinds that a cluster serves. Groups in `stale_groups` gave no answer: their kinds are unknown, not absent."""

    resources: Mapping[GroupKind, Resource]
    stale_groups: frozenset[str] = field(default=frozenset())

    def is_listable(self, kind: GroupKind) -> bool:
        """Return whether objects of a kind can be listed. A review such as TokenReview is served, but never stored."""
        return kind in self.resources and "list" in self.resources[kind].verbs


@dataclass(frozen=True, slots=True, order=True)
class ResourceAttributes:
    """A permission: a verb on a resource, where `*` stands for all.

    An empty `namespace` means all namespaces, and cluster scope.
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
        """Return the permission in the words of RBAC: `patch deployments.apps/status`."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        scope_text = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource}{f'/{self.subresource}' if self.subresource else ''}{scope_text}"


@dataclass(frozen=True, slots=True, order=True)
class WatchTarget:
    """Objects to watch: those of a kind in a namespace.

    They have matching labels, or are the object called `name`. An empty namespace means all.
    """

    kind: GroupKind
    namespace: str = ""
    selector: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A change that a watch reports: the metadata of the object after the change, or before it was `deleted`."""

    object: Object
    deleted: bool = False


class Cluster(Protocol):
    """Reads, writes and watches of one cluster."""

    name: ClusterName

    @property
    def server_time(self) -> datetime | None:
        """Return the present time of the server's clock, within 2 s, derived from its last answer; None before that."""

    async def discover(self, *, refresh: bool = False) -> Discovery:
        """Return the kinds served. The answer is cached until `refresh`, or until a request raises KindNotServed."""

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        """Return the object by a consistent read; None where it is absent. Raises: KindNotServed."""

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> list[Object]:
        """Return all objects of a kind by a consistent read of all pages, each with its apiVersion and kind.

        The *namespace* None means all namespaces, and cluster scope. Raises: KindNotServed.
        """

    async def apply(
        self, manifest: Object, *, manager: str, force: bool = False, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        """Apply a full intent server-side, and return the object as stored.

        With `metadata.uid` in the manifest an absent object is not created.

        Raises: FieldConflict, Invalid, and StaleWrite if an object with that uid is absent.
        """

    async def merge(self, key: ObjectKey, patch: Object, *, manager: str) -> Object | None:
        """Patch an existing object by JSON merge patch (RFC 7386), and return it as stored; None where it is absent.

        A uid or resourceVersion in the patch is a precondition.
        """

    async def delete(
        self, key: ObjectKey, *, uid: str, resource_version: str | None, propagation: str = "Background"
    ) -> None:
        """Delete the object with this uid, and version if given; succeed where it is absent.

        Raises: StaleWrite if the uid or version differs.
        """

    def with_user(self, user: str) -> Cluster:
        """Return this cluster with requests that impersonate a user, and so have only the rights of that user.

        Raises: Denied if Levelgate may not impersonate the user.
        """

    def with_versions(self, versions: Mapping[GroupKind, str]) -> Cluster:
        """Return this cluster with reads of some kinds in the given versions, where the server has them."""

    def without_retries(self) -> Cluster:
        """Return this cluster with single attempts.

        A write that was certainly not carried out raises Unavailable at once.
        """

    def with_write_check(self, check: Callable[[], None]) -> Cluster:
        """Return this cluster with *check* called before each attempt of a write.

        An exception of *check* prevents the write.
        """

    def watch(self, subject: WatchTarget) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        """Yield the changes of these objects from now on, without an end.

        Where the watch cannot go on without a gap, entering or iterating raises KindNotServed, Denied or Unavailable.
        The caller then has to list the objects again.
        """

    async def close(self) -> None:
        """Close all connections."""


class Reader(Protocol):
    """The reads of `Cluster`."""

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
    """Return the objects that `cluster.list` returns; none where the server does not serve the kind.

    Raises: ClusterError.
    """
    try:
        return await cluster.list(kind, namespace, selector=selector, metadata_only=metadata_only)
    except KindNotServed:
        return []

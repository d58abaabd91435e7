"""The port to one cluster: what the applier asks of a Kubernetes API, and nothing else.

Objects are plain dicts as on the wire. Every method may raise `errors.ClusterError`; retries of what was certainly not carried out (429, 503,
refused connections) happen inside the adapter, bounded, so that what arrives here is worth a decision.
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
"""The name of a cluster: made by `parse_cluster_name`, or by `context_name` of what a kubeconfig calls it. A text by itself is none: mypy refuses
it where a cluster is named.
"""

LOCAL_CLUSTER: Final = ClusterName("local")
"""The cluster that the process itself works on, and that nobody has named."""

DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CLUSTER_NAME_FORMAT: Final = re.compile(rf"({DNS_LABEL.pattern}#)?{DNS_LABEL.pattern}")


def parse_cluster_name(text: str) -> ClusterName:
    """The name `eu-1`, or `capi#eu-1` of a cluster that the provider `capi` knows. Raises ValueError, with the rule."""
    if not _CLUSTER_NAME_FORMAT.fullmatch(text):
        raise ValueError(
            f"{text!r} cannot name a cluster; write at most 63 small letters, digits and dashes, such as prod-eu, "
            "or PROVIDER#NAME, both of that form"
        )
    return ClusterName(text)


def context_name(text: str) -> ClusterName:
    """What a kubeconfig, or the record of a cluster, calls a cluster that is the only one: any text, for messages. Clusters of which there are
    several are told apart by names of `parse_cluster_name`.
    """
    return ClusterName(text)


Object = dict[str, Any]

CONTENT_MANAGER, PARENT_MANAGER, STATUS_MANAGER, CLI_MANAGER = (
    "levelgate",
    "levelgate-applyset",
    "levelgate-status",
    "levelgate-cli",
)
"""Field managers: content of objects; ApplySet keys and finalizers of parents; status of instances; what people order by commands."""


@dataclass(frozen=True, slots=True)
class Resource:
    """How one kind is served: preferred `version`, `plural` for paths, `namespaced`, and whether it can be listed; `others` are the versions that it
    is served in besides.
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
    """The kinds that a cluster serves. `stale` groups could not be asked: their kinds are unknown, never absent."""

    resources: Mapping[GroupKind, Resource]
    stale_groups: frozenset[str] = field(default=frozenset())

    def is_listable(self, kind: GroupKind) -> bool:
        """Are there objects of this kind, to be listed? What only asks the server something, such as a TokenReview, is answered and not kept."""
        return kind in self.resources and "list" in self.resources[kind].verbs


@dataclass(frozen=True, slots=True, order=True)
class ResourceAttributes:
    """One thing that one may do: a verb on a resource, `*` for all; `namespace` empty for all namespaces and cluster scope."""

    group: str
    resource: str
    namespace: str = ""
    subresource: str = ""
    verb: str = ""

    @property
    def attributes(self) -> dict[str, str]:
        """As a SelfSubjectAccessReview asks for it."""
        return {name: getattr(self, name) for name in ("group", "resource", "verb", "namespace", "subresource")}

    def __str__(self) -> str:
        """`patch deployments.apps/status`, as RBAC would say it."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        scope_text = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource}{f'/{self.subresource}' if self.subresource else ''}{scope_text}"


@dataclass(frozen=True, slots=True, order=True)
class WatchTarget:
    """What is watched: objects of a kind, in one namespace or (empty) all of them, with these labels, or the one of this name."""

    kind: GroupKind
    namespace: str = ""
    selector: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch: the metadata of the object after it, or, where it was `deleted`, as it was last."""

    object: Object
    deleted: bool = False


class Cluster(Protocol):
    """One cluster."""

    name: ClusterName

    @property
    def server_time(self) -> datetime | None:
        """What the server's own clock says now, to a second or two, by its last answer; None where it has not told."""

    async def discover(self, *, refresh: bool = False) -> Discovery:
        """Kinds served; asked once and kept, asked again with `refresh` and after a `KindNotServed`."""

    async def get(self, key: ObjectKey, *, metadata_only: bool = False) -> Object | None:
        """The object as it is now (consistent read); None if absent. Raises KindNotServed."""

    async def list(
        self, kind: GroupKind, namespace: str | None = None, *, selector: str = "", metadata_only: bool = False
    ) -> list[Object]:
        """All objects of a kind (consistent read, all pages); `namespace` None = all namespaces or cluster scope.

        Every object carries apiVersion and kind. Raises KindNotServed.
        """

    async def apply(
        self, manifest: Object, *, manager: str, force: bool = False, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        """Server-side apply of a full intent; answers the object as stored.

        With `metadata.uid` in the manifest an absent object is not created (StaleWrite). Raises FieldConflict, Invalid and others.
        """

    async def merge(self, key: ObjectKey, patch: Object, *, manager: str) -> Object | None:
        """JSON merge patch (RFC 7386) of an object that must exist; a uid or resourceVersion in its metadata is a precondition.

        Answers the object as stored; None when it is absent.
        """

    async def delete(
        self, key: ObjectKey, *, uid: str, resource_version: str | None, propagation: str = "Background"
    ) -> None:
        """Delete exactly this object; success when absent already. Raises StaleWrite if uid or resourceVersion differ."""

    def with_user(self, user: str) -> Cluster:
        """The same cluster, asked in the name of this user, with the rights that the server grants to it and no other. Raises Denied where one
        may not do so.
        """

    def with_versions(self, versions: Mapping[GroupKind, str]) -> Cluster:
        """The same cluster; objects of these kinds are read in these versions, where they are served in them, and else in the preferred one."""

    def without_retries(self) -> Cluster:
        """The same cluster; a write that was certainly not carried out is not tried again, but raises Unavailable, for the caller to decide."""

    def with_write_check(self, check: Callable[[], None]) -> Cluster:
        """The same cluster; before each try of a write `check` is called, too, and what it raises is raised."""

    def watch(self, subject: WatchTarget) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        """What happens to these objects from now on; what happened before is not told. It does not end by itself: where it cannot go on without a
        gap, entering or iterating raises ClusterError (KindNotServed, Denied, Unavailable), and what was missed has to be read.
        """

    async def close(self) -> None:
        """Give back connections."""


class Reader(Protocol):
    """What is read of a cluster: see `applier.cluster.Cluster`."""

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
    """Return what `cluster.list` does, and nothing of a kind that the server does not know. Raises ClusterError."""
    try:
        return await cluster.list(kind, namespace, selector=selector, metadata_only=metadata_only)
    except KindNotServed:
        return []

"""Protocol of read-only knowledge of a cluster, on which plans and health rest."""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Iterable, Mapping
from datetime import datetime
from typing import Protocol

from applier.cluster import Discovery, Object
from applier.errors import ClusterError
from renderer.identity import GroupKind, ObjectKey


class ObservedView(Protocol):
    """Knowledge of a cluster at one moment.

    Plans look up the objects of one set at a time. A plan never iterates over all objects, so that an implementation
    can record which objects a plan depends on.
    """

    @property
    def now(self) -> datetime | None:
        """Return the time of the observation in UTC, or None if ages cannot be judged."""

    @property
    def discovery(self) -> Discovery:
        """Return the kinds that the cluster serves."""

    @property
    def objects(self) -> Mapping[ObjectKey, Object]:
        """Return the live objects that reads have returned, by key."""

    @property
    def members(self) -> Mapping[str, tuple[ObjectKey, ...]]:
        """Return the sorted keys of live objects, by the id of the ApplySet whose label they carry."""

    @property
    def parents(self) -> Mapping[ObjectKey, str]:
        """Return the ids of ApplySets, by the live objects that declare themselves to be their parents."""

    @property
    def failures(self) -> Mapping[ObjectKey, ClusterError]:
        """Return the errors of writes that failed in this reconciliation, by the key of the object."""

    @property
    def listed(self) -> Container[GroupKind]:
        """Return the kinds of which a list has returned all objects with the label of an ApplySet."""

    @property
    def list_extents(self) -> Hashable:
        """Return a value that differs between two views if their lists differ in kinds, objects by label, or sets."""

    @property
    def unreadable(self) -> Mapping[GroupKind, ClusterError]:
        """Return the errors of the lists that failed, by kind."""

    @property
    def crds(self) -> Iterable[Object]:
        """Return the CustomResourceDefinitions in the cluster."""

    @property
    def terminating(self) -> Collection[ObjectKey]:
        """Return the keys of live objects whose deletion has begun."""

    @property
    def reporting(self) -> Container[GroupKind]:
        """Return the custom kinds whose CRD has the subresource `status`."""

    @property
    def claimed(self) -> Container[tuple[str, ObjectKey]]:
        """Return the PersistentVolumeClaims that live Pods use, each with the id of the ApplySet of the workload."""

    def is_known(self, key: ObjectKey) -> bool:
        """Return whether a read has shown that the object exists, or that the object does not exist."""

    def has_none_of(self, kind: GroupKind) -> bool:
        """Return whether the cluster certainly has no object of `kind`, because the cluster does not store the kind."""

    def is_only_answered(self, kind: GroupKind) -> bool:
        """Return whether the cluster serves `kind` and never stores an object of `kind`."""

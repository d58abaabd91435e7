"""Removal of Levelgate from a cluster. Deployed objects stay, unless `prune_sources` deletes them first.

Each round finds its work in the objects of the cluster. So an interrupted removal continues where it stopped. A round
also finds objects that no inventory names. The removal deletes records last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Coroutine, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta

from applier.cluster import CLI_MANAGER, PARENT_MANAGER, STATUS_MANAGER, Cluster, Object
from applier.errors import ClusterError, StaleWrite
from applier.read.contents import contents_of
from applier.read.leftovers import LeftoverSurvey, is_ours, our_sets, strip_metadata, survey
from applier.state.managed_fields import apply_entry, manager_entries
from applier.state.observed import Observed, is_terminating, label
from gitops.clock import Clock
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.requeue import FIRST_LOOK, LAST_LOOK, in_flight
from gitops.reconcile.sources import SourceState
from gitops.records.installation import INSTALLATION, cluster_name
from gitops.records.source_record import SourceRecord
from renderer import well_known
from renderer.catalog.catalog import Catalog
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, ObjectKey, source_parent
from renderer.kinds import NAMESPACE

MAX_ROUNDS = 5
"""Maximum number of rounds of survey and removal.

If objects still appear after the last round, another process writes the objects.
"""

_EMPTY_COMMIT = "uninstall"
"""Id that stands for a commit without files."""


@dataclass(frozen=True, slots=True)
class UninstallPlan:
    """Objects to release and to delete in one round."""

    release: tuple[Object, ...]
    """Objects that lose Levelgate's metadata and stay."""
    records: tuple[Object, ...]
    """Records of Levelgate to delete."""
    namespace: Object | None
    """Levelgate's namespace, or None if another writer created the namespace or it is terminating."""
    sets: frozenset[str]
    """Ids of Levelgate's ApplySets."""
    unreadable_kinds: Mapping[str, str]
    """Kinds that Levelgate cannot list, each with the reason."""

    @classmethod
    def from_survey(cls, leftovers: LeftoverSurvey) -> UninstallPlan:
        """Return the plan for the objects in `leftovers`. Pure.

        Records are Levelgate's objects in its namespace that are not members of an ApplySet.
        """
        sets = our_sets(leftovers)
        owned = [
            (key, obj)
            for key, obj in sorted(leftovers.objects.items())
            if is_ours(obj) or label(obj, well_known.PART_OF) in sets
        ]
        namespace = next(
            (obj for key, obj in owned if key == ObjectKey(*NAMESPACE, "", OWN_NAMESPACE) and _is_made_by_us(obj)), None
        )
        records = [key for key, obj in owned if key.namespace == OWN_NAMESPACE and not label(obj, well_known.PART_OF)]
        return cls(
            release=tuple(obj for key, obj in owned if key not in records and obj is not namespace),
            records=tuple(obj for key, obj in owned if key in records),
            namespace=None if namespace and is_terminating(namespace) else namespace,
            sets=sets,
            unreadable_kinds={str(kind): str(error) for kind, error in leftovers.list_errors.items()},
        )

    @property
    def is_empty(self) -> bool:
        """Return whether the plan contains no work."""
        return not (self.release or self.records or self.namespace)


@dataclass(frozen=True, slots=True)
class Uninstaller:
    """Remover of Levelgate's records and metadata from one cluster."""

    cluster: Cluster

    async def survey(self) -> UninstallPlan:
        """Read the cluster, and return the plan of the next round. Raises: ClusterError."""
        return UninstallPlan.from_survey(await survey(self.cluster))

    async def other_writers(self, plan: UninstallPlan) -> str:
        """Return a description of the objects in Levelgate's namespace that Levelgate did not write.

        While the namespace holds foreign objects, the namespace stays. If it holds no foreign object, or Levelgate
        cannot read it, return an empty string.
        """
        ours = set(map(ObjectKey.from_manifest, plan.records))
        with suppress(ClusterError):
            if plan.namespace:
                key, observed = ObjectKey.from_manifest(plan.namespace), Observed(await self.cluster.discover())
                return await contents_of(self.cluster, key, observed, ours)
        return ""

    async def release(self, plan: UninstallPlan) -> None:
        """Remove Levelgate's metadata from the objects in `plan.release`.

        The method reports no failures. `uninstall` tries the same objects again and reports failures.
        """
        await asyncio.gather(*(_catch_error(self._release(obj, plan.sets)) for obj in plan.release))

    async def uninstall(self) -> tuple[UninstallPlan, list[ClusterError]]:
        """Run rounds until no work is left or an action fails, and return the last plan and the errors.

        The method runs at most `MAX_ROUNDS` rounds.

        Raises: ClusterError if the cluster cannot be read.
        """
        for _ in range(MAX_ROUNDS):
            plan = await self.survey()
            if plan.is_empty:
                break
            if errors := await self._run_round(plan):
                return plan, errors
        return plan, []

    async def prune_sources(
        self, records: Mapping[str, SourceRecord], clock: Clock, *, version: str, wait: timedelta
    ) -> ReconcileResult:
        """Prune all objects of the sources in `records`, as an empty commit would, and return the last result.

        The method deletes dependents first. When the objects of a level are gone, the method deletes the next level.
        When no deletion is in flight, or none has made progress for `wait`, the method returns. The result contains
        the reason for each object that is left.

        Raises: ClusterError.
        """
        for source in records:
            approval = {"metadata": {"annotations": {well_known.APPROVED_COMMIT: _EMPTY_COMMIT}}}
            await self.cluster.merge(source_parent(source), approval, manager=CLI_MANAGER)
        states = [
            SourceState(Catalog(source, _EMPTY_COMMIT), record.ref, record.url, record.path)
            for source, record in records.items()
        ]
        reconciler = Reconciler(self.cluster, version, clock, cluster_name(await self.cluster.get(INSTALLATION)))
        waited, delay = 0.0, FIRST_LOOK
        while True:
            result = await reconciler.reconcile(states)
            if result.changed:
                waited, delay = 0.0, FIRST_LOOK
            elif not any(map(in_flight, result.plan.sets)) or waited >= wait.total_seconds():
                return result
            await clock.sleep(delay)
            waited, delay = waited + delay, min(delay * 2, LAST_LOOK)

    async def _run_round(self, plan: UninstallPlan) -> list[ClusterError]:
        """Run the steps of `plan` in order, and return the errors of the first step that fails.

        If another process changes an object meanwhile (StaleWrite), the next round tries again. A StaleWrite ends the
        round, but the method does not return it.
        """
        for actions in self._steps(plan):
            if errors := [error for error in await asyncio.gather(*map(_catch_error, actions)) if error]:
                return [error for error in errors if not isinstance(error, StaleWrite)]
        return []

    def _steps(self, plan: UninstallPlan) -> Iterator[list[Coroutine[None, None, None]]]:
        """Yield the actions of each step: release objects, delete records, delete the namespace."""
        yield [self._release(obj, plan.sets) for obj in plan.release]
        yield [self._delete(obj) for obj in plan.records]
        yield [self._delete_namespace_if_empty(obj) for obj in (plan.namespace,) if obj]

    async def _release(self, obj: Object, sets: Collection[str]) -> None:
        """Remove Levelgate's status from `obj`, and then all of Levelgate's metadata in one write."""
        if any(entry.get("manager") == STATUS_MANAGER and entry.get("subresource") for entry in manager_entries(obj)):
            metadata = {name: obj["metadata"][name] for name in ("name", "namespace", "uid") if name in obj["metadata"]}
            body = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
            obj = await self.cluster.apply(body, manager=STATUS_MANAGER, force=True, subresource="status")
        if patch := strip_metadata(obj, sets):
            await self.cluster.merge(ObjectKey.from_manifest(obj), patch, manager=CLI_MANAGER)

    async def _delete(self, obj: Object) -> None:
        await self.cluster.delete(ObjectKey.from_manifest(obj), uid=obj["metadata"]["uid"], resource_version=None)

    async def _delete_namespace_if_empty(self, obj: Object) -> None:
        """Delete the namespace `obj`. If `contents_of` finds an object in it, release the namespace instead."""
        key = ObjectKey.from_manifest(obj)
        if await contents_of(self.cluster, key, Observed(await self.cluster.discover())):
            await self._release(obj, ())
        else:
            await self._delete(obj)


async def _catch_error(action: Awaitable[None]) -> ClusterError | None:
    """Return the error that `action` raises, or None if `action` succeeds."""
    try:
        await action
    except ClusterError as error:
        return error
    return None


def _is_made_by_us(obj: Object) -> bool:
    """Return whether Levelgate created the namespace `obj`.

    If Levelgate owns the label of the namespace, and the namespace is not a member of an ApplySet, return True.
    """
    return apply_entry(obj, PARENT_MANAGER) is not None and not label(obj, well_known.PART_OF)

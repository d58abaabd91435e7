"""Removal of Levelgate from a cluster. Deployed objects stay, unless they are pruned first.

The work is read from the objects themselves. So an interrupted removal continues where it stopped, and objects
that no inventory names are found. Records are deleted last.
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
"""Rounds of survey and removal. Objects that still appear after the last one have another writer."""

_EMPTY_COMMIT = "uninstall"
"""Stands for a commit without files."""


@dataclass(frozen=True, slots=True)
class UninstallPlan:
    """The work of one round."""

    release: tuple[Object, ...]
    """Objects that lose our metadata and stay."""
    records: tuple[Object, ...]
    """Objects to delete."""
    namespace: Object | None
    """Levelgate's namespace, if Levelgate created it and it is not terminating."""
    sets: frozenset[str]
    """Ids of our ApplySets."""
    unreadable_kinds: Mapping[str, str]
    """Reason by kind that cannot be listed."""

    @classmethod
    def from_survey(cls, leftovers: LeftoverSurvey) -> UninstallPlan:
        """Return the plan for a survey. Pure.

        Records are our objects in Levelgate's namespace that are not members of an ApplySet.
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
        """Return whether no work is left."""
        return not (self.release or self.records or self.namespace)


@dataclass(frozen=True, slots=True)
class Uninstaller:
    """The removal of everything that Levelgate wrote to one cluster."""

    cluster: Cluster

    async def survey(self) -> UninstallPlan:
        """Read the cluster, and return the plan of the next round."""
        return UninstallPlan.from_survey(await survey(self.cluster))

    async def other_writers(self, plan: UninstallPlan) -> str:
        """Return what others have in Levelgate's namespace, which then stays.

        Return an empty text if there is nothing, or if the namespace cannot be read.
        """
        ours = set(map(ObjectKey.from_manifest, plan.records))
        with suppress(ClusterError):
            if plan.namespace:
                key, observed = ObjectKey.from_manifest(plan.namespace), Observed(await self.cluster.discover())
                return await contents_of(self.cluster, key, observed, ours)
        return ""

    async def release(self, plan: UninstallPlan) -> None:
        """Strip our metadata from all objects except the records.

        Failures are left to `uninstall`, which reports them.
        """
        await asyncio.gather(*(_catch_error(self._release(obj, plan.sets)) for obj in plan.release))

    async def uninstall(self) -> tuple[UninstallPlan, list[ClusterError]]:
        """Run rounds until no work is left or an action fails. Return the last plan and the errors."""
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
        """Prune all objects of the sources, as an empty commit would.

        Dependents are deleted first, and each wave is gone before the next. Return once no deletion is in flight, or
        once none has made progress for `wait`. The result has the reason of each object that is left.
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
        """Run the steps in order, each after the previous one has succeeded.

        An object that another process changed meanwhile (StaleWrite) is left to the next round.
        """
        for actions in self._steps(plan):
            if errors := [error for error in await asyncio.gather(*map(_catch_error, actions)) if error]:
                return [error for error in errors if not isinstance(error, StaleWrite)]
        return []

    def _steps(self, plan: UninstallPlan) -> Iterator[list[Coroutine[None, None, None]]]:
        """Yield the actions of each step: objects, then records, then the namespace that holds the records."""
        yield [self._release(obj, plan.sets) for obj in plan.release]
        yield [self._delete(obj) for obj in plan.records]
        yield [self._delete_namespace_if_empty(obj) for obj in (plan.namespace,) if obj]

    async def _release(self, obj: Object, sets: Collection[str]) -> None:
        """Remove our status, which no process will update, then all other metadata in one write."""
        if any(entry.get("manager") == STATUS_MANAGER and entry.get("subresource") for entry in manager_entries(obj)):
            metadata = {name: obj["metadata"][name] for name in ("name", "namespace", "uid") if name in obj["metadata"]}
            body = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
            obj = await self.cluster.apply(body, manager=STATUS_MANAGER, force=True, subresource="status")
        if patch := strip_metadata(obj, sets):
            await self.cluster.merge(ObjectKey.from_manifest(obj), patch, manager=CLI_MANAGER)

    async def _delete(self, obj: Object) -> None:
        await self.cluster.delete(ObjectKey.from_manifest(obj), uid=obj["metadata"]["uid"], resource_version=None)

    async def _delete_namespace_if_empty(self, obj: Object) -> None:
        """Delete the namespace if it holds no object of others; otherwise release it."""
        key = ObjectKey.from_manifest(obj)
        if await contents_of(self.cluster, key, Observed(await self.cluster.discover())):
            await self._release(obj, ())
        else:
            await self._delete(obj)


async def _catch_error(action: Awaitable[None]) -> ClusterError | None:
    """Return the error of an action as a value; None if it succeeds."""
    try:
        await action
    except ClusterError as error:
        return error
    return None


def _is_made_by_us(obj: Object) -> bool:
    """Return whether Levelgate created the namespace: it still owns the label, and the namespace is not a member."""
    return apply_entry(obj, PARENT_MANAGER) is not None and not label(obj, well_known.PART_OF)

"""Leave a cluster: everything of ours goes, what is deployed stays as it is, unless it is to go as well.

What there is to do is read from the objects themselves. So what was broken off is repeated from where it stopped, and what no inventory names is
found too. Our records go last.
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
"""What was written meanwhile is looked at again. After so many rounds somebody goes on writing."""

_EMPTY_COMMIT = "uninstall"
"""Stands for a commit that holds nothing."""


@dataclass(frozen=True, slots=True)
class UninstallPlan:
    """What is to be done: objects to `release`, `records` to delete, and our own namespace, where we made it.

    `sets` are the ids of our sets; `unseen` are kinds that could not be looked through, with the reason.
    """

    release: tuple[Object, ...]
    records: tuple[Object, ...]
    namespace: Object | None
    sets: frozenset[str]
    unreadable_kinds: Mapping[str, str]

    @classmethod
    def from_survey(cls, leftovers: LeftoverSurvey) -> UninstallPlan:
        """Pure. Records are what is ours in our namespace and not put there by Git."""
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
        return not (self.release or self.records or self.namespace)


@dataclass(frozen=True, slots=True)
class Uninstaller:
    """Takes everything of ours off one cluster."""

    cluster: Cluster

    async def survey(self) -> UninstallPlan:
        return UninstallPlan.from_survey(await survey(self.cluster))

    async def other_writers(self, plan: UninstallPlan) -> str:
        """What of others is in our own namespace, which then stays; empty where nothing is, or that cannot be told."""
        ours = set(map(ObjectKey.from_manifest, plan.records))
        with suppress(ClusterError):
            if plan.namespace:
                key, observed = ObjectKey.from_manifest(plan.namespace), Observed(await self.cluster.discover())
                return await contents_of(self.cluster, key, observed, ours)
        return ""

    async def release(self, plan: UninstallPlan) -> None:
        """Only what takes long: everything but our records. What of it cannot be done `leave` finds, and says."""
        await asyncio.gather(*(_catch_error(self._release(obj, plan.sets)) for obj in plan.release))

    async def uninstall(self) -> tuple[UninstallPlan, list[ClusterError]]:
        """Until nothing is left to be done, or something cannot be: what is left, and why."""
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
        """Prune what the sources hold, as a commit that holds nothing would: against dependencies, each wave gone before the next.

        Until nothing is on its way any more, or until that has lasted for `wait`; what is still there says why.
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
        """One step after the other, each only once the one before is done. What somebody changed meanwhile waits for the next look."""
        for actions in self._steps(plan):
            if errors := [error for error in await asyncio.gather(*map(_catch_error, actions)) if error]:
                return [error for error in errors if not isinstance(error, StaleWrite)]
        return []

    def _steps(self, plan: UninstallPlan) -> Iterator[list[Coroutine[None, None, None]]]:
        yield [self._release(obj, plan.sets) for obj in plan.release]
        yield [self._delete(obj) for obj in plan.records]
        yield [self._delete_namespace_if_empty(obj) for obj in (plan.namespace,) if obj]

    async def _release(self, obj: Object, sets: Collection[str]) -> None:
        """Take our status off, which nobody keeps up any more, then everything else in one write."""
        if any(entry.get("manager") == STATUS_MANAGER and entry.get("subresource") for entry in manager_entries(obj)):
            metadata = {name: obj["metadata"][name] for name in ("name", "namespace", "uid") if name in obj["metadata"]}
            body = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
            obj = await self.cluster.apply(body, manager=STATUS_MANAGER, force=True, subresource="status")
        if patch := strip_metadata(obj, sets):
            await self.cluster.merge(ObjectKey.from_manifest(obj), patch, manager=CLI_MANAGER)

    async def _delete(self, obj: Object) -> None:
        await self.cluster.delete(ObjectKey.from_manifest(obj), uid=obj["metadata"]["uid"], resource_version=None)

    async def _delete_namespace_if_empty(self, obj: Object) -> None:
        """Delete it if nothing of anybody else's is in it."""
        key = ObjectKey.from_manifest(obj)
        if await contents_of(self.cluster, key, Observed(await self.cluster.discover())):
            await self._release(obj, ())
        else:
            await self._delete(obj)


async def _catch_error(action: Awaitable[None]) -> ClusterError | None:
    try:
        await action
    except ClusterError as error:
        return error
    return None


def _is_made_by_us(obj: Object) -> bool:
    """The label that we give it is still our word. Where Git holds it too it is a member of a set, and stays."""
    return apply_entry(obj, PARENT_MANAGER) is not None and not label(obj, well_known.PART_OF)

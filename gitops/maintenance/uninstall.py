"""Removal of Levelgate from a cluster. Deployed objects stay, unless they are pruned first.

Each round finds its work in the objects of the cluster. So an interrupted removal continues where it stopped, and
objects that no inventory names are found too. Records are deleted last.
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
"""Limit of rounds of survey and removal.

If objects still appear after the last round, another process writes them.
"""

_EMPTY_COMMIT = "uninstall"
"""Id that stands for a commit without files."""


@dataclass(frozen=True, slots=True)
class UninstallPlan:
    """Objects to release and to delete in one round."""

    release: tuple[Object, ...]
    """Objects that lose our metadata and stay."""
    records: tuple[Object, ...]
    """Records of Levelgate to delete."""
    namespace: Object | None
    """Levelgate's namespace, if Levelgate created it and it is not terminating, or else None."""
    sets: frozenset[str]
    """Ids of our ApplySets."""
    unreadable_kinds: Mapping[str, str]
    """Reason why a kind cannot be listed, by kind."""

    @classmethod
    def from_survey(cls, leftovers: LeftoverSurvey) -> UninstallPlan:
        """Return the plan for the objects in `leftovers`. Pure.

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
    """Removal of everything that Levelgate wrote to one cluster."""

    cluster: Cluster

    async def survey(self) -> UninstallPlan:
        """Read the cluster, and return the plan of the next round. Raises: ClusterError."""
        return UninstallPlan.from_survey(await survey(self.cluster))

    async def other_writers(self, plan: UninstallPlan) -> str:
        """Return a description of the objects in Levelgate's namespace that Levelgate did not write.

        The namespace stays while it holds such objects. Return an empty string if the namespace holds no such object or
        cannot be read.
        """
        ours = set(map(ObjectKey.from_manifest, plan.records))
        with suppress(ClusterError):
            if plan.namespace:
                key, observed = ObjectKey.from_manifest(plan.namespace), Observed(await self.cluster.discover())
                return await contents_of(self.cluster, key, observed, ours)
        return ""

    async def release(self, plan: UninstallPlan) -> None:
        """Remove our metadata from the objects in `plan.release`.

        Failures are not reported. `uninstall` tries these objects again and reports failures.
        """
        await asyncio.gather(*(_catch_error(self._release(obj, plan.sets)) for obj in plan.release))

    async def uninstall(self) -> tuple[UninstallPlan, list[ClusterError]]:
        """Run rounds until no work is left or an action fails, and return the last plan and the errors.

        At most `MAX_ROUNDS` rounds are run.

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

        Dependents are deleted first. The next level is deleted after the objects of the previous level are gone. The
        method returns when no deletion is in flight, or when no deletion has made progress for `wait`. The result
        contains the reason for each object that is left.

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

        If another process changed an object meanwhile (StaleWrite), the next round tries again. Such an error ends the
        round but is not returned.
        """
        for actions in self._steps(plan):
            if errors := [error for error in await asyncio.gather(*map(_catch_error, actions)) if error]:
                return [error for error in errors if not isinstance(error, StaleWrite)]
        return []

    def _steps(self, plan: UninstallPlan) -> Iterator[list[Coroutine[None, None, None]]]:
        """Yield the actions of each step: release objects, then delete records, then delete the namespace."""
        yield [self._release(obj, plan.sets) for obj in plan.release]
        yield [self._delete(obj) for obj in plan.records]
        yield [self._delete_namespace_if_empty(obj) for obj in (plan.namespace,) if obj]

    async def _release(self, obj: Object, sets: Collection[str]) -> None:
        """Remove our status from `obj`, which no process will update, and then all our metadata in one write."""
        if any(entry.get("manager") == STATUS_MANAGER and entry.get("subresource") for entry in manager_entries(obj)):
            metadata = {name: obj["metadata"][name] for name in ("name", "namespace", "uid") if name in obj["metadata"]}
            body = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
            obj = await self.cluster.apply(body, manager=STATUS_MANAGER, force=True, subresource="status")
        if patch := strip_metadata(obj, sets):
            await self.cluster.merge(ObjectKey.from_manifest(obj), patch, manager=CLI_MANAGER)

    async def _delete(self, obj: Object) -> None:
        await self.cluster.delete(ObjectKey.from_manifest(obj), uid=obj["metadata"]["uid"], resource_version=None)

    async def _delete_namespace_if_empty(self, obj: Object) -> None:
        """Delete the namespace `obj` if `contents_of` finds no object in it, or else release it."""
        key = ObjectKey.from_manifest(obj)
        if await contents_of(self.cluster, key, Observed(await self.cluster.discover())):
            await self._release(obj, ())
        else:
            await self._delete(obj)


async def _catch_error(action: Awaitable[None]) -> ClusterError | None:
    """Return the error that `action` raises, or None if it succeeds."""
    try:
        await action
    except ClusterError as error:
        return error
    return None


def _is_made_by_us(obj: Object) -> bool:
    """Return whether Levelgate created the namespace `obj`.

    That is the case if Levelgate still owns the label of the namespace, and the namespace is not a member of an
    ApplySet.
    """
    return apply_entry(obj, PARENT_MANAGER) is not None and not label(obj, well_known.PART_OF)

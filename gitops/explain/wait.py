"""Progress of a source, rollout or instance towards the state applied or settled, and the wait for either state.

Applied means that every live object equals its declaration in Git. Settled means that every object is also healthy, and
that no action remains. `WaitTarget` computes the progress without reads. The wait checks after each watch event, and at
a fixed interval.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Final, NamedTuple

from applier.cluster import Cluster, Object, WatchTarget
from applier.errors import Unavailable
from applier.read.watches import Watches
from gitops.records.display_state import DisplayState
from gitops.records.instance_state import InstanceState
from gitops.records.source_record import SourceRecord
from renderer.frozen import dataclass


class WaitGoal(StrEnum):
    """State that ends a wait: applied or settled."""

    APPLIED = "applied"
    SETTLED = "settled"


class WaitResult(NamedTuple):
    """Progress of a wait."""

    is_reached: bool
    """True if the wait has reached its goal."""
    message: str
    """Progress as a sentence."""


@dataclass(frozen=True, slots=True)
class WaitTarget:
    """Goal of a wait: a state at a commit."""

    goal: WaitGoal
    commit: str = ""
    """Beginning of the id of the required commit, or an empty string for the current commit of the source."""

    def check_source(self, name: str, record: SourceRecord | None) -> WaitResult:
        """Return the progress of a source.

        Args:
            record: record of the source, or None if the cluster has no record of the source yet.
        """
        if record is None or not record.target:
            return WaitResult(False, f"{name}: Levelgate has not read a commit yet{_unreadable_note(record)}")
        if mismatch := self._check_commit(name, record):
            return mismatch
        prefix = f"{name} {record.target[:7]}: {record.state}"
        if record.applied != record.target:
            return WaitResult(False, f"{prefix}, not applied completely{_first_cause(record)}")
        is_reached = self.goal is WaitGoal.APPLIED or record.state == DisplayState.SETTLED
        return WaitResult(is_reached, prefix if is_reached else f"{prefix}, applied{_first_cause(record)}")

    def check_instance(self, name: str, instance: Object | None, source: SourceRecord | None) -> WaitResult:
        """Return the progress of an instance.

        Args:
            instance: live instance, or None if the instance does not exist.
            source: record of the instance's source, or None if the source is unknown.
        """
        if instance is None:
            return WaitResult(False, f"{name}: does not exist yet")
        state = InstanceState.from_object(instance)
        if self.commit:
            if source is None:
                return WaitResult(False, f"{name}: its source is not known yet")
            if mismatch := self._check_commit(state.source, source):
                return mismatch
            if source.own_objects_commit != source.target:
                return WaitResult(False, f"{name}: {state.source} {source.target[:7]} is not applied yet")
        if _has_stale_status(instance):
            return WaitResult(False, f"{name}: Levelgate has not reconciled its newest spec yet")
        return self.check_state(name, state)

    def check_state(self, name: str, state: InstanceState) -> WaitResult:
        """Return the progress of an instance, without regard to the commit."""
        message = f"{name}: {state.reason}{f', {state.message}' if state.message else ''}"
        is_applied = state.applied == state.target and state.applied.revision > 0
        is_settled = state.is_settled and (state.conditions or {}).get("Healthy") == "True"
        return WaitResult(is_settled if self.goal is WaitGoal.SETTLED else is_applied, message)

    def check_rollout(self, name: str, instances: Sequence[InstanceState]) -> WaitResult:
        """Return the progress of the rollout `name` with the instances `instances`."""
        pending = [instance for instance in instances if not self.check_state("", instance).is_reached]
        progress = f"{len(instances) - len(pending)} of {len(instances)} instances {self.goal}"
        return WaitResult(
            not pending,
            f"rollout {name}: {DisplayState.from_reasons(instance.reason for instance in instances)}, {progress}",
        )

    def _check_commit(self, name: str, record: SourceRecord) -> WaitResult | None:
        """Return the progress of a source towards the required commit, or None if the source is at this commit."""
        if record.target.startswith(self.commit):
            return None
        if record.offered.startswith(self.commit):
            message = next(
                (cause["message"] for cause in record.causes if cause.get("message")), "the commit needs an approval"
            )
            return WaitResult(False, f"{name} stays at {record.target[:7]}: {message}")
        return WaitResult(
            False, f"{name} is at {record.target[:7]}, not at {self.commit[:7]} yet{_unreadable_note(record)}"
        )


def _first_cause(record: SourceRecord) -> str:
    cause = next(iter(record.causes), None)
    return f": {cause.get('reason')}, {cause.get('message')}" if cause else ""


def _unreadable_note(record: SourceRecord | None) -> str:
    return f": the last read failed: {record.unreadable.why}" if record and record.unreadable else ""


def _has_stale_status(instance: Object) -> bool:
    """Return whether the status belongs to an older spec of the instance."""
    generation = instance["metadata"].get("generation", 0)
    conditions = (instance.get("status") or {}).get("conditions") or [{}]
    return any(condition.get("observedGeneration", 0) < generation for condition in conditions)


POLL_INTERVAL_SECONDS: Final = 10.0
"""Seconds between two checks while no watch event arrives."""

MIN_CHECK_INTERVAL_SECONDS: Final = 0.2
"""Minimum number of seconds between two checks, however many watch events arrive."""


async def wait_until(
    cluster: Cluster,
    watch_targets: Collection[WatchTarget],
    check: Callable[[], Awaitable[bool]],
    *,
    timeout_seconds: float | None,
    on_unavailable: Callable[[Unavailable], None],
) -> bool:
    """Wait until `check` returns True. After `timeout_seconds`, return False.

    The wait runs `check` at the start, after each watch event, and every `POLL_INTERVAL_SECONDS` while no watch event
    arrives.

    Args:
        timeout_seconds: limit of the wait, or None for a wait without a limit.
        on_unavailable: receiver of each failure of the server after the first check. After a failure, the wait
            continues.

    Raises: any other error of `check`.
    """
    changed = asyncio.Event()
    async with Watches(
        cluster,
        on_change=lambda _: changed.set(),
        on_begin=lambda _: changed.set(),
        on_failure=lambda _subject, _error: None,
    ) as watches:
        if await check():
            return True
        await watches.set_targets(watch_targets, ())
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while True:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(POLL_INTERVAL_SECONDS):
                            await changed.wait()
                    changed.clear()
                    try:
                        if await check():
                            return True
                    except Unavailable as error:
                        on_unavailable(error)
                    await asyncio.sleep(MIN_CHECK_INTERVAL_SECONDS)
        return False

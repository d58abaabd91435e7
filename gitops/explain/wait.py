"""Is it there yet? Whether a source, a rollout or an instance is applied, or has settled, by what the cluster's records say. Pure.

Applied: everything was written as Git says. Settled: besides, it is healthy and nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from applier.cluster import Object
from gitops.records.instance_state import DisplayState, InstanceState
from gitops.records.source_record import SourceRecord
from renderer.frozen import dataclass


class WaitGoal(StrEnum):
    APPLIED = "applied"
    SETTLED = "settled"


class WaitResult(NamedTuple):
    """Whether it is there, and how far it is, in words."""

    is_there: bool
    told: str


@dataclass(frozen=True, slots=True)
class WaitTarget:
    """What is waited for; `revision` is the beginning of a commit's id, empty: whatever the source is at."""

    goal: WaitGoal
    revision: str = ""

    def of_source(self, name: str, record: SourceRecord | None) -> WaitResult:
        if record is None or not record.target:
            return WaitResult(False, f"{name}: no commit has been read yet{_unread(record)}")
        if away := self._away(name, record):
            return away
        at = f"{name} {record.target[:7]}: {record.state}"
        if record.applied != record.target:
            return WaitResult(False, f"{at}, not all is applied{_first(record)}")
        is_there = self.goal is WaitGoal.APPLIED or record.state == DisplayState.SETTLED
        return WaitResult(is_there, at if is_there else f"{at}, all is applied{_first(record)}")

    def of_instance(self, name: str, instance: Object | None, source: SourceRecord | None) -> WaitResult:
        """`source` is the record of its source, where that is known."""
        if instance is None:
            return WaitResult(False, f"{name}: does not exist yet")
        standing = InstanceState.of(instance)
        if self.revision:
            if source is None:
                return WaitResult(False, f"{name}: its source is not known yet")
            if away := self._away(standing.source, source):
                return away
            if source.own != source.target:
                return WaitResult(False, f"{name}: {standing.source} {source.target[:7]} is not written yet")
        if _is_behind(instance):
            return WaitResult(False, f"{name}: its newest spec has not been looked at yet")
        return self.of_standing(name, standing)

    def of_standing(self, name: str, standing: InstanceState) -> WaitResult:
        told = f"{name}: {standing.reason}{f', {standing.message}' if standing.message else ''}"
        is_applied = standing.applied == standing.target and standing.applied.revision > 0
        is_settled = standing.is_settled and (standing.conditions or {}).get("Healthy") == "True"
        return WaitResult(is_settled if self.goal is WaitGoal.SETTLED else is_applied, told)

    def of_rollout(self, name: str, instances: Sequence[InstanceState]) -> WaitResult:
        left = [one for one in instances if not self.of_standing("", one).is_there]
        done = f"{len(instances) - len(left)} of {len(instances)} instances {self.goal}"
        return WaitResult(not left, f"rollout {name}: {DisplayState.of(one.reason for one in instances)}, {done}")

    def _away(self, name: str, record: SourceRecord) -> WaitResult | None:
        """The source is at another commit."""
        if record.target.startswith(self.revision):
            return None
        if record.offered.startswith(self.revision):
            why = next((cause["message"] for cause in record.causes if cause.get("message")), "a person has to agree")
            return WaitResult(False, f"{name} stays at {record.target[:7]}: {why}")
        return WaitResult(False, f"{name} is at {record.target[:7]}, not at {self.revision[:7]} yet{_unread(record)}")


def _first(record: SourceRecord) -> str:
    cause = next(iter(record.causes), None)
    return f": {cause.get('reason')}, {cause.get('message')}" if cause else ""


def _unread(record: SourceRecord | None) -> str:
    return f": it cannot be read: {record.unreadable.why}" if record and record.unreadable else ""


def _is_behind(instance: Object) -> bool:
    """Was its status written of an older spec?"""
    generation = instance["metadata"].get("generation", 0)
    conditions = (instance.get("status") or {}).get("conditions") or [{}]
    return any(one.get("observedGeneration", 0) < generation for one in conditions)

"""Values of health rules: the object in the form that the rules read, and the result of a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from applier.cluster import Object
from renderer.frozen import dataclass

_DELETION_CONDITIONS = frozenset(
    {
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
        "NamespaceContentRemaining",
        "NamespaceFinalizersRemaining",
    }
)
"""Conditions of a Namespace (core/v1) that are True while an obstacle prevents the deletion of the Namespace."""


class KStatus(Enum):
    """Health statuses of kstatus. `Unknown` represents a failed read."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"


class HealthResult(NamedTuple):
    """Status of an object, with the reason as a message for people."""

    status: KStatus
    message: str = ""
    until: datetime | None = None
    """Time at which age alone changes the status, or None if age never changes the status."""


@dataclass(frozen=True, slots=True)
class HealthView:
    """Object in the form that the rules read.

    An absent number has its default, and an absent string is empty or None.
    """

    obj: Object
    now: datetime | None
    """Time at which ages are measured, or None if ages do not count."""

    def value_at(self, *path: str) -> Any:
        value: Any = self.obj
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def number(self, *path: str, default: int = 0) -> int:
        value = self.value_at(*path)
        return value if isinstance(value, int) else default

    def status_number(self, name: str) -> int:
        return self.number("status", name)

    @property
    def replicas(self) -> int:
        return self.number("spec", "replicas", default=1)

    @property
    def conditions(self) -> Iterator[Mapping[str, Any]]:
        conditions = self.value_at("status", "conditions")
        yield from (
            (condition for condition in conditions if isinstance(condition, dict))
            if isinstance(conditions, list)
            else ()
        )

    def condition(self, kind: str) -> Mapping[str, Any]:
        return next((c for c in self.conditions if c.get("type") == kind), {})

    def is_condition_true(self, kind: str) -> bool:
        return self.condition(kind).get("status") == "True"

    @property
    def deletion_obstacles(self) -> str:
        """Return the obstacles that prevent the deletion of a Namespace, in the words of the namespace controller.

        If the controller reports no obstacle, return an empty string.
        """
        true_conditions = (
            condition
            for condition in self.conditions
            if condition.get("type") in _DELETION_CONDITIONS and condition.get("status") == "True"
        )
        return "; ".join(
            str(condition["message"]).rstrip(".") for condition in true_conditions if condition.get("message")
        )

    def result_by_age(
        self, age: timedelta, since: str | datetime | None, *, young: HealthResult, old: HealthResult
    ) -> HealthResult:
        """Return `young` until `age` has passed since `since`, and `old` from then on.

        If `since` or `now` is unknown, return `young`.
        """
        begin = datetime.fromisoformat(since) if isinstance(since, str) else since
        if begin is None:
            return young
        until = begin + age
        return old if self.now is not None and self.now >= until else young._replace(until=until)


current_result = partial(HealthResult, KStatus.CURRENT)
progress_result = partial(HealthResult, KStatus.IN_PROGRESS)
failed_result = partial(HealthResult, KStatus.FAILED)


def describe_condition(condition: Mapping[str, Any]) -> str:
    """Return `condition` as a string: `Ready=False (Reason): message`."""
    if not condition:
        return "exists"
    reason, message = condition.get("reason"), condition.get("message")
    head = f"{condition.get('type')}={condition.get('status')}" + (f" ({reason})" if reason else "")
    return f"{head}: {message}" if message else head


def check_minimum(state: str, actual: int, desired: int) -> HealthResult | None:
    """Return InProgress if fewer than `desired` replicas are in `state`, such as `ready`, or None otherwise."""
    return progress_result(f"{actual} of {desired} {state}") if actual < desired else None


def check_surplus(actual: int, desired: int) -> HealthResult | None:
    """Return InProgress if more than `desired` Pods exist, or None otherwise."""
    return progress_result(f"{actual - desired} old Pods still exist") if actual > desired else None


def first_result(*found: HealthResult | None) -> HealthResult | None:
    """Return the first result in `found` that is not None, or None if all results are None."""
    return next((result for result in found if result), None)

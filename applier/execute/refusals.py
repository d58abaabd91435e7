"""Writes that the server refused, and the times at which Levelgate sends the writes again.

A refusal depends on the manifest, the live object, and the policies and quotas that apply to the object. If one of
these inputs changes, Levelgate repeats the write at once. Levelgate does not see every change of rights and quotas, so
Levelgate also repeats the write after growing waits. After a conflict over fields, Levelgate repeats the write only
after a change.

The memory of refusals only limits the rate of requests. After a restart, Levelgate sends every write once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from applier.backoff import exponential_backoff, is_waiting
from applier.errors import ClusterError, Denied, FieldConflict, Invalid, ServerAltered
from applier.execute.results import Result
from applier.plan.constraints import RefusedWrite, RefusedWriteKey, refusal_relevant_state
from applier.plan.model import Plan
from applier.state.observed import Observed
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD

FIRST_RETRY_WAIT, MAX_RETRY_WAIT = timedelta(milliseconds=100), timedelta(minutes=5)
"""Range of the wait before the next attempt. The wait doubles after each attempt. A random factor shortens each wait
by at most a half.
"""

POLICY_GROUPS: Final = frozenset({"admissionregistration.k8s.io", "rbac.authorization.k8s.io"})
LIMIT_KINDS: Final = frozenset({CRD, GroupKind("", "ResourceQuota"), GroupKind("", "LimitRange")})
"""Kinds, besides those in `POLICY_GROUPS`, whose objects decide which writes the server accepts."""


class _Basis(NamedTuple):
    """Basis of a write: the desired manifest, and the relevant state of the object."""

    intent: Any
    live: Any


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Write that the server has refused one or more times in a row."""

    refused_write: RefusedWrite
    tries: int
    """Number of consecutive refusals."""
    retry_at: datetime | None
    """Time of the next attempt, or None for a conflict, because time does not resolve a conflict."""

    def is_active(self, now: datetime) -> bool:
        return self.retry_at is None or is_waiting(self.retry_at, MAX_RETRY_WAIT, now)

    def is_obsolete(self, now: datetime) -> bool:
        return self.retry_at is not None and now >= self.retry_at + MAX_RETRY_WAIT


@dataclass
class Refusals:
    """Refused writes of one process in one cluster, by set and object."""

    first_retry_wait: timedelta = FIRST_RETRY_WAIT
    """Wait before the first retry of an unchanged write. If the wait is zero, each reconciliation repeats every
    refused write.
    """
    random_fraction: Callable[[], float] = random.random
    _refusals: dict[RefusedWriteKey, _Refusal] = field(default_factory=dict)
    _unanswered: Mapping[RefusedWriteKey, _Basis] = field(default_factory=dict)
    _policy_versions: Mapping[ObjectKey, tuple[str, int | str]] | None = None

    def active(self, now: datetime) -> Mapping[RefusedWriteKey, RefusedWrite]:
        """Return the writes that Levelgate does not repeat now, unless their manifest or object has changed."""
        return {
            write_key: refusal.refused_write for write_key, refusal in self._refusals.items() if refusal.is_active(now)
        }

    def retry_times(self, now: datetime) -> Mapping[ObjectKey, Mapping[ObjectKey, datetime]]:
        """Return the times at which Levelgate repeats unchanged refused writes, by parent of the set and by object."""
        times_by_parent: dict[ObjectKey, dict[ObjectKey, datetime]] = {}
        for (parent, key), refusal in self._refusals.items():
            if refusal.retry_at and refusal.is_active(now):
                times_by_parent.setdefault(parent, {})[key] = refusal.retry_at
        return times_by_parent

    def record(
        self,
        plan: Plan,
        observed: Observed,
        results: Sequence[Result],
        now: datetime,
        open_keys: Collection[ObjectKey],
    ) -> None:
        """Record the refusals of one round of `plan`, and forget the refusals that successes of the round lift.

        Args:
            observed: state on which `plan` is based.
            open_keys: objects whose answers arrive later, in another round or after the reconciliation.
        """
        self._refusals = {
            write_key: refusal for write_key, refusal in self._refusals.items() if not refusal.is_obsolete(now)
        }
        refused = {(result.set, result.key) for result in results if result.error and _is_refusal(result.error)}
        begun = {
            write_key: _Basis(intent, refusal_relevant_state(observed.objects.get(write_key[1])))
            for write_key, intent in _intents(plan, None if open_keys else {parent for parent, _ in refused})
            if write_key in refused or write_key[1] in open_keys
        }
        self._unanswered = begun | dict(self._unanswered)
        # Successes are recorded first, because a success lifts earlier refusals, but not the refusals of the same
        # round.
        for result in sorted(results, key=lambda each: each.error is not None):
            self.record_result(result, now)
        self._unanswered = {
            write_key: basis for write_key, basis in self._unanswered.items() if write_key[1] in open_keys
        }

    def _record_refusal(self, write_key: RefusedWriteKey, refused_write: RefusedWrite, now: datetime) -> None:
        previous = self._refusals.get(write_key)
        is_repeated = previous is not None and (previous.refused_write.intent, previous.refused_write.live) == (
            refused_write.intent,
            refused_write.live,
        )
        tries = previous.tries + 1 if previous and is_repeated else 1
        wait = exponential_backoff(tries - 1, self.first_retry_wait, MAX_RETRY_WAIT)
        is_conflict = isinstance(refused_write.error, FieldConflict)
        retry_at = None if is_conflict else now + wait * (1 - self.random_fraction() / 2)
        self._refusals[write_key] = _Refusal(refused_write, tries, retry_at)

    def forget_if_changed(self, observed: Observed) -> None:
        """Forget all refusals if policies, roles or quotas have changed since the last full reconciliation.

        Only a full reconciliation observes changes of policies, roles and quotas.
        """
        if self._refusals:
            policy_versions = {
                key: (obj["metadata"]["uid"], obj["metadata"].get("generation") or obj["metadata"]["resourceVersion"])
                for key, obj in observed.objects.items()
                if key.group in POLICY_GROUPS or key.group_kind in LIMIT_KINDS
            }
            if self._policy_versions not in (None, policy_versions):
                self.forget()
            self._policy_versions = policy_versions
        else:
            self._policy_versions = None

    def forget_absent(self, observed: Observed) -> None:
        """Forget conflicts over objects that a full reconciliation has not found. A conflict needs an object."""
        for write_key in [
            write_key
            for write_key, refusal in self._refusals.items()
            if refusal.retry_at is None and write_key[1] not in observed.objects
        ]:
            del self._refusals[write_key]

    def forget(self) -> None:
        """Forget all refusals, so that every write may be sent at once."""
        self._refusals.clear()

    def record_result(self, result: Result, now: datetime) -> None:
        """Record the result of one action, during the round of the action or later."""
        basis = self._unanswered.get((result.set, result.key))
        if result.error is not None:
            if basis is not None and _is_refusal(result.error):
                self._record_refusal((result.set, result.key), RefusedWrite(result.error, *basis), now)
            return
        self._refusals.pop((result.set, result.key), None)
        if result.is_bookkeeping:
            return
        if result.key.group in POLICY_GROUPS or result.key.group_kind in LIMIT_KINDS:
            self.forget()
        elif result.action.startswith("deleted"):  # the deletion may have freed a quota of the namespace
            for write_key in [
                write_key for write_key in self._refusals if write_key[1].namespace == result.key.namespace
            ]:
                del self._refusals[write_key]


def _is_refusal(error: ClusterError) -> bool:
    """Return whether the server refused the write, and would refuse the same write again.

    A refusal that Levelgate decides before a request has status 0. Levelgate decides again about each such write.
    """
    return isinstance(error, ServerAltered) or (
        isinstance(error, Denied | Invalid | FieldConflict) and error.status > 0
    )


def _intents(plan: Plan, parents: Collection[ObjectKey] | None) -> Iterator[tuple[RefusedWriteKey, Any]]:
    """Yield the desired manifest of each object in the sets of `parents`. For a deletion, the manifest is None.

    If `parents` is None, yield the manifests for all sets.
    """
    for set_plan in plan.sets:
        parent = set_plan.rendered.parent
        if parents is None or parent in parents:
            yield from (((parent, candidate.member.key), None) for candidate in set_plan.prune_candidates)
            yield from (
                ((parent, node_plan.node.key), node_plan.node.manifest)
                for node_plan in set_plan.writes
                if node_plan.node.key
            )
            yield (parent, parent), set_plan.parent_intent

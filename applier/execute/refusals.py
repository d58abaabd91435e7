"""Writes that the server refused: they are sent again when what they rest on has changed, and else more and more rarely.

What is remembered here bounds the rate of requests that would be refused again. Nothing rests on it: a restart tries everything once. What a refused
write rests on and can be seen is what was to be written, the object that it met, and what says of kinds how they may be written; rights and quotas
of others cannot be seen, so time has to do.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any, Final

from applier.backoff import waits
from applier.errors import ClusterError, Denied, FieldConflict, Invalid, ServerAltered
from applier.execute.results import Result
from applier.plan.model import Plan
from applier.plan.refused import Place, RefusedWrite, essence
from applier.state.observed import Observed
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.kinds import CRD

FIRST_WAIT, LONGEST_WAIT = timedelta(milliseconds=100), timedelta(minutes=5)
"""How long the next try waits: doubled after each, and up to half of it taken off by chance."""

RULES: Final = frozenset({"admissionregistration.k8s.io", "rbac.authorization.k8s.io"})
LIMITS: Final = frozenset({CRD, GroupKind("", "ResourceQuota"), GroupKind("", "LimitRange")})
"""Kinds of objects that decide which writes are accepted."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The last of `times` in a row."""

    refused: RefusedWrite
    times: int
    until: datetime

    def stands(self, now: datetime) -> bool:
        return waits(self.until, LONGEST_WAIT, now)


@dataclass
class Refusals:
    """What one process was refused in one cluster, by the set for which it wrote and the object. `first_wait` is how long the next try waits, if
    nothing changes; nothing: each pass tries everything.
    """

    first_wait: timedelta = FIRST_WAIT
    chance: Callable[[], float] = random.random
    _known: dict[Place, _Refusal] = field(default_factory=dict)
    _rules: Mapping[ObjectKey, tuple[str, int | str]] | None = None

    def active(self, now: datetime) -> Mapping[Place, RefusedWrite]:
        """What is not to be sent now, unless something has changed of it."""
        return {place: one.refused for place, one in self._known.items() if one.stands(now)}

    def due(self, now: datetime) -> Mapping[ObjectKey, Mapping[ObjectKey, datetime]]:
        """When what was refused is to be tried again although nothing has changed: by the parent of the set, by object."""
        found: dict[ObjectKey, dict[ObjectKey, datetime]] = {}
        for (parent, key), one in self._known.items():
            if one.stands(now):
                found.setdefault(parent, {})[key] = one.until
        return found

    def record(self, plan: Plan, observed: Observed, results: Sequence[Result], now: datetime) -> None:
        """Remember what one round of a plan, made of what was `observed`, was refused; what it has brought about may let others pass."""
        self._known = {place: one for place, one in self._known.items() if now < one.until + LONGEST_WAIT}
        for result in results:
            self.heard(result)
        refused = [(result, error) for result in results if (error := result.error) and _is_refusal(error)]
        intents = dict(_intents(plan, {result.set for result, _ in refused}))
        for result, error in refused:
            place = result.set, result.key
            if place in intents:  # else it is the answer to an earlier plan
                live = observed.objects.get(result.key)
                self._refused(place, RefusedWrite(error, intents[place], essence(live)), now)

    def _refused(self, place: Place, refused: RefusedWrite, now: datetime) -> None:
        before = self._known.get(place)
        is_again = before is not None and (before.refused.intent, before.refused.live) == (refused.intent, refused.live)
        times = before.times + 1 if before and is_again else 1
        wait = min(self.first_wait * 2 ** min(times - 1, 12), LONGEST_WAIT)
        self._known[place] = _Refusal(refused, times, now + wait * (1 - self.chance() / 2))

    def forget_if_changed(self, observed: Observed) -> None:
        """Forget everything where what decides on writes has changed since it was looked at last, as far as a whole pass sees that."""
        if self._known:
            rules = {
                key: (obj["metadata"]["uid"], obj["metadata"].get("generation") or obj["metadata"]["resourceVersion"])
                for key, obj in observed.objects.items()
                if key.group in RULES or key.group_kind in LIMITS
            }
            if self._rules not in (None, rules):
                self.forget()
            self._rules = rules
        else:
            self._rules = None

    def forget(self) -> None:
        """Everything may be tried at once."""
        self._known.clear()

    def heard(self, result: Result) -> None:
        """Of an action that was carried out."""
        if result.error is not None:
            return
        self._known.pop((result.set, result.key), None)
        if result.is_bookkeeping:
            return
        if result.key.group in RULES or result.key.group_kind in LIMITS:
            self.forget()
        elif result.action.startswith("deleted"):  # what it used of a quota is free
            for place in [place for place in self._known if place[1].namespace == result.key.namespace]:
                del self._known[place]


def _is_refusal(error: ClusterError) -> bool:
    """The server has said no, and would say it again; what we find out ourselves before asking is looked at anew each time."""
    return isinstance(error, ServerAltered) or (
        isinstance(error, Denied | Invalid | FieldConflict) and error.status > 0
    )


def _intents(plan: Plan, parents: Collection[ObjectKey]) -> Iterator[tuple[Place, Any]]:
    """What a plan wants to bring about of each object of these sets: a manifest, for what it deletes None."""
    for one in plan.sets:
        parent = one.rendered.parent
        if parent in parents:
            yield from (((parent, orphan.member.key), None) for orphan in one.orphans)
            yield from (((parent, node.node.key), node.node.manifest) for node in one.writes if node.node.key)
            yield (parent, parent), one.due_for_parent

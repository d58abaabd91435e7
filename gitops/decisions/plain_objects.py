"""What people ask of plain objects, and of a source with all that is in it. Pure.

An instance has a status that remembers since when it is asked; of these the record of the source does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Any

from applier.causes import Cause, CauseRef, Reason
from applier.plan.model import ApplySetPlan, Plan
from applier.state.observed import Observed, annotation
from gitops.rollouts.directives import NO_DIRECTIVES, Directives
from gitops.rollouts.policy import DEFAULT_POLICY
from gitops.rollouts.state import DecisionRecord
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey
from renderer.kinds import CRD

Since = Callable[[ObjectKey, str, str], datetime]
"""Function that returns the time in UTC of the first observation of a directive: of an object, a name and a word."""


@dataclass(frozen=True, slots=True)
class PlainDirectives:
    """What people ask of a plain object of a source."""

    source: str
    directives: Directives


@dataclass(frozen=True, slots=True)
class SourceRequests:
    """What people ask of a source and its plain objects.

    `seen` says since when, by the object, as the record of the source keeps it. `holds` are the holds of them, and the suspensions of plain objects,
    that are in force. `overrides` is what was done past a window.
    """

    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    holds: tuple[Cause, ...] = ()
    overrides: tuple[DecisionRecord, ...] = ()

    @classmethod
    def of(
        cls,
        asked: Mapping[ObjectKey, Directives],
        since: Since,
        held: Mapping[ObjectKey, Cause],
        source_hold: Cause | None,
        overrides: tuple[DecisionRecord, ...],
    ) -> SourceRequests:
        """Return what people ask of one source and its plain objects.

        Args:
            asked: directives of the source, by the key of its parent, and of its plain objects.
            since: function that returns the time in UTC of the first observation of a directive.
            held: causes that hold or suspend plain objects now.
            source_hold: cause that holds the whole source, or None.
            overrides: changes that have bypassed closed windows.
        """
        seen = {str(key): told for key, one in asked.items() if (told := seen_directives(key, one, since))}
        holds = [replace(cause, node=str(key), object_key=key) for key, cause in held.items()]
        return cls(seen, tuple([source_hold, *holds] if source_hold else holds), overrides)

    def of_objects(self, keys: Collection[ObjectKey]) -> tuple[object, ...]:
        """What is asked of these plain objects, to be compared."""
        seen = {key: one for key in keys if (one := self.seen.get(str(key)))}
        return seen, tuple(hold for hold in self.holds if hold.object_key in keys)

    def with_override(self, entry: DecisionRecord) -> SourceRequests:
        """With this use of a break-glass; one that is told already is not told again."""
        told = {(one.subject, one.by, one.why) for one in self.overrides}
        is_told = (entry.subject, entry.by, entry.why) in told
        return self if is_told else replace(self, overrides=(*self.overrides, entry))


def seen_directives(key: ObjectKey, asked: Directives, since: Since) -> dict[str, dict[str, str]]:
    """Return the hold and the break-glass of an object, each with the time of its first observation, by name."""
    said = {"hold": asked.hold_reason, "breakGlass": asked.break_glass_reason and str(asked.break_glass_until)}
    return {name: {"said": word, "since": since(key, name, word).isoformat()} for name, word in said.items() if word}


def remembered_directives(key: ObjectKey, asked: Directives, since: Since) -> dict[str, Any]:
    """Return what people ask of an instance as its status remembers it, so that a directive can lapse."""
    found = seen_directives(key, asked, since)
    return {"asked": found} if found else {}


def directives_of(
    plan: Plan, observed: Observed, instances: Collection[ObjectKey], definitions: Collection[GroupKind]
) -> Iterator[tuple[ObjectKey, PlainDirectives]]:
    """What is asked of the plain objects of sources, wanted or not, of those of which anything is asked.

    The CRD of a definition and an instance are none. What a source says of an object that another set has does not count.
    """
    for set_plan in plan.sets:
        if set_plan.rendered.is_source:
            for key, manifest, live in _objects_of(set_plan, observed):
                is_plain = key not in instances and key.group_kind not in definitions
                asked = Directives.from_objects(manifest, live) if is_plain else NO_DIRECTIVES
                if asked is not NO_DIRECTIVES and not _is_of_definition(key, manifest or live):
                    yield key, PlainDirectives(set_plan.rendered.source, asked)


def hold_of_source(name: str, asked: Directives, now: datetime, since: datetime) -> Cause | None:
    """The hold of a source, while it lasts."""
    hold = asked.active_hold(DEFAULT_POLICY, now, since=since, subject=f"source {name} is")
    return hold and replace(hold, references=(CauseRef("Source", name, Reason.HELD, until=hold.until),))


def _objects_of(
    set_plan: ApplySetPlan, observed: Observed
) -> Iterator[tuple[ObjectKey, Manifest | None, dict[str, Any] | None]]:
    """The objects of a source with their manifests and as they are: those that it wants and has, and its prune candidates."""
    own = {"", set_plan.rendered.id}
    for node_plan in set_plan.nodes:
        node = node_plan.node
        if node.key and not node.external and node_plan.live_set_id in own:
            yield node.key, node.manifest, node_plan.live
    for candidate in set_plan.prune_candidates:
        yield candidate.member.key, None, observed.objects.get(candidate.member.key)


def _is_of_definition(key: ObjectKey, obj: Manifest | None) -> bool:
    return key.group_kind == CRD and bool(annotation(obj or {"metadata": {}}, well_known.DEFINITION))

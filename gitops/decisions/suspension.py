"""Of what nothing at all is written: a person has suspended it, or something wider that it belongs to. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import cached_property

from applier.causes import Cause, CauseRef, Reason
from applier.plan.model import ApplySetPlan
from applier.state.observed import Observed, annotation, label
from gitops.records.installation import INSTALLATION
from gitops.records.source_record import SourceRecord
from gitops.rollouts.directives import NO_DIRECTIVES, Directives
from renderer import well_known
from renderer.definition.crd import key_of
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey, source_parent
from renderer.kinds import defined_kind
from renderer.render.model import RenderedApplySet, Rendering


def installation_suspension(observed: Observed, now: datetime) -> Cause | None:
    """The word that nothing is written anywhere, on the record of the installation."""
    return Directives.from_objects(None, observed.objects.get(INSTALLATION)).active_suspension(now, "everything is")


def definitions(bundle: Rendering, observed: Observed) -> dict[GroupKind, Directives]:
    """What people ask of definitions, in Git or on their CRDs."""
    written = {kind: one.crd for kind, one in bundle.definitions.items()}
    crds = [crd for crd in observed.crds if annotation(crd, well_known.DEFINITION)]
    live = {defined_kind(crd): crd for crd in crds}
    return {kind: Directives.from_objects(written.get(kind), live.get(kind)) for kind in {**written, **live}}


def sources(bundle: Rendering, observed: Observed) -> dict[str, Directives]:
    """What people ask of sources, on their records."""
    return {name: Directives.from_objects(None, observed.objects.get(source_parent(name))) for name in bundle.sources}


def configured(suspended: Mapping[str, str]) -> dict[str, Cause]:
    """Sources that the operator's configuration suspends, each with why."""
    return {name: configured_suspension(name, why) for name, why in suspended.items()}


def configured_suspension(source: str, why: str) -> Cause:
    """Return the cause that the operator's configuration suspends a source."""
    message = f"source {source} is suspended by the configuration: {why}"
    return Cause(Reason.SUSPENDED, message, references=(CauseRef("Source", source, Reason.SUSPENDED),))


def waiting_for_sources(depends_on: Mapping[str, Sequence[str]], observed: Observed) -> Iterator[tuple[str, Cause]]:
    """Sources without an inventory, so never written, that wait for others of which no commit has been brought about yet."""
    for name, others in depends_on.items():
        missing = [one for one in others if not _record(one, observed).applied]
        parent = observed.objects.get(source_parent(name))
        if missing and not (parent and label(parent, well_known.PARENT_ID)):
            yield name, missing_sources_cause(name, missing)


def missing_sources_cause(source: str, missing: Sequence[str]) -> Cause:
    """Return the cause that a source waits until the sources `missing` have been applied once."""
    verb = "has" if len(missing) == 1 else "have"
    message = f"source {source} waits until {', '.join(missing)} {verb} been applied once"
    references = tuple(CauseRef("Source", one, Reason.PROGRESSING) for one in missing)
    return Cause(Reason.DEPENDENCY_NOT_READY, message, references=references)


def _record(source: str, observed: Observed) -> SourceRecord:
    return SourceRecord.from_object(observed.objects.get(source_parent(source)) or {})


@dataclass(frozen=True)
class Suspensions:
    """What people ask, by what they ask it of; `plans` are those of instances, `plain` the plain objects. `configured`
    is the configuration's word on sources, `elsewhere` that of sources that are not read on definitions; these come
    first.
    """

    sources: Mapping[str, Directives]
    definitions: Mapping[GroupKind, Directives]
    instances: Mapping[ObjectKey, Directives]
    plans: Mapping[ObjectKey, ApplySetPlan]
    bundle: Rendering
    plain: Mapping[ObjectKey, Directives]
    configured: Mapping[str, Cause] = field(default_factory=dict)
    elsewhere: Mapping[GroupKind, Cause] = field(default_factory=dict)

    @cached_property
    def sets(self) -> Mapping[str, RenderedApplySet]:
        """All sets by id, also of instances that nothing wants any more."""
        return {one.id: one for one in (*self.bundle.sets, *(plan.rendered for plan in self.plans.values()))}

    @property
    def ends(self) -> set[datetime]:
        """When a word of somebody may end."""
        everyone = (
            *self.instances.values(),
            *self.definitions.values(),
            *self.sources.values(),
            *self.plain.values(),
        )
        return {end for asked in everyone if asked is not NO_DIRECTIVES for end in asked.end_times}

    def waits(self, now: datetime) -> Iterator[tuple[ObjectKey, Cause]]:
        """Parents of sets, CRDs of definitions and plain objects that are suspended now, each once; the widest word counts."""
        sources = {
            name: wait
            for name, one in self.sources.items()
            if (wait := self.configured.get(name) or wide_suspension(one, "source", name, now))
        }
        kinds = {
            kind: wait
            for kind, one in self.definitions.items()
            if (wait := self.elsewhere.get(kind) or wide_suspension(one, "definition", self._name(kind), now))
        }
        yield from ((source_parent(name), wait) for name, wait in sources.items())
        yield from ((key_of(kind), wait) for kind, wait in kinds.items())
        for key, asked in self.instances.items():
            wider = (sources and sources.get(self._source(key))) or (kinds and kinds.get(key.group_kind))
            if wait := wider or asked.active_suspension(now):
                yield key, wait
        yield from ((key, wait) for key, asked in self.plain.items() if (wait := asked.active_suspension(now)))

    def _name(self, kind: GroupKind) -> str:
        definition = self.bundle.definitions.get(kind)
        return definition.name if definition else str(kind)

    def _source(self, instance: ObjectKey) -> str:
        """The source of an instance, also of one that nothing wants any more: that of the set that it is in."""
        while (plan := self.plans.get(instance)) and not plan.rendered.source:
            owner = self.sets.get(label(plan.parent, well_known.PART_OF)) if plan.parent else None
            if owner is None or owner.source:
                return owner.source if owner else ""
            instance = owner.parent
        return plan.rendered.source if plan else ""


def wide_suspension(asked: Directives, what: str, name: str, now: datetime) -> Cause | None:
    """Return the cause of the suspension of something wider than one instance, or None."""
    wait = asked.active_suspension(now, f"{what} {name} is")
    return wait and replace(wait, references=(CauseRef(what.capitalize(), name, Reason.SUSPENDED, until=wait.until),))

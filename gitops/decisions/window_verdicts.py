"""What the windows say of each change of a pass, judged once for changes that are alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from datetime import datetime
from typing import Any

from applier.causes import Cause
from applier.plan.model import CandidateChange, Operation
from gitops.decisions.inputs import DecisionInputs
from gitops.rollouts import closed_windows
from gitops.rollouts.directives import Directives
from gitops.rollouts.state import OVERRIDDEN, DecisionRecord
from gitops.windows.verdict import WindowVerdict, judge
from gitops.windows.window import Window, WindowTarget
from renderer.frozen import dataclass
from renderer.identity import ObjectKey, source_parent
from renderer.kinds import CRD
from renderer.render.model import RenderedApplySet, id_in_definition


@dataclass(repr=False)
class WindowVerdicts:
    """`edges`: when to ask again, as the answer to something that is closed may change."""

    situation: DecisionInputs
    edges: set[datetime] = field(default_factory=set)
    _known: dict[tuple[Any, ...], WindowVerdict] = field(default_factory=dict)

    def of_instance(self, rendered: RenderedApplySet) -> WindowVerdict:
        """May the instance be moved?"""
        effect = Operation.UPDATE if rendered.applied else Operation.CREATE
        key, labels = rendered.parent, rendered.manifest["metadata"].get("labels") or {}
        cluster = self.situation.conditions.cluster
        target = WindowTarget(key.group_kind, key.namespace, cluster, rendered.definition, "", labels)
        return self._judged(target, effect, rendered.source, key)

    def of(self, change: CandidateChange) -> WindowVerdict:
        """May this change be made?"""
        return self._judged(self._target(change), change.operation, self.source_of(change), instance_of(change))

    def source_of(self, change: CandidateChange) -> str:
        """The source of a change; where an instance goes, that which it goes from."""
        plan = self.situation.plans.get(change.set.parent)
        return plan.source if plan else change.set.source

    def blocked(self, verdict: WindowVerdict, instance: ObjectKey, source: str) -> Cause:
        """A verdict that is closed, as a cause of waiting, and why a break-glass does not help, where somebody asked for one."""
        closed_sources = {one.source for one in verdict.closed_windows}
        return self.refused(closed_windows.closed_window_cause(verdict), instance, source, closed_sources)

    def refused(self, found: Cause, instance: ObjectKey, source: str, sources: Iterable[str]) -> Cause:
        """A cause of waiting for windows of these sources, and why a break-glass does not help, where somebody asked for one.

        `instance` may be another object of the source.
        """
        asked = self.situation.glass_of(instance, source)
        if not asked.break_glass_reason:
            return found
        refusal = asked.break_glass_refusal(self._asked_since(instance, source, asked), self.situation.now)
        if not refusal and self._is_unrecorded(instance, source):
            refusal = f"its use cannot be recorded: {self.situation.conditions.unrecorded_sources[source]}"
        if not refusal and not asked.break_glass_by and any(one != source for one in sources):
            refusal = "declared in Git it bypasses windows of its own source only; annotate the live object"
        refusal = refusal or "a window that governs it forbids that (breakGlass: Forbidden)"
        return replace(found, message=f"{found.message}; break-glass refused: {refusal}")

    def under_glass(self, change: CandidateChange, gated: Iterable[Window]) -> DecisionRecord | None:
        """For the record: that this change is made although windows are closed, or `gated` that its gate asks for, because of whom and why."""
        instance, source = instance_of(change), self.source_of(change)
        if change.operation is Operation.RECORD or not self.situation.glass_of(instance, source).break_glass_reason:
            return None
        overridden = [one.window for one in self.of(change).overridden]
        overridden += [one for one in gated if one not in overridden]
        return self.override_record(instance, f"{change.operation} {change.key}", source, overridden)

    def override_record(
        self, instance: ObjectKey, what: str, source: str, windows: Iterable[Window]
    ) -> DecisionRecord | None:
        """For the record: what is done past these windows, because of whom and why; None where there are none."""
        commit = self.situation.bundle.commits.get(source, "")
        named = list(windows)
        asked = self.situation.glass_of(instance, source)
        return make_override_record(asked, what, named, commit=commit, now=self.situation.now) if named else None

    def overridden_windows(self, instance: ObjectKey) -> frozenset[str]:
        """The windows, by name, that somebody lets this instance pass where a gate asks for them."""
        source = self.situation.plans[instance].source
        until, everywhere = self._glass(instance, source)
        if until is None or self.situation.now >= until:
            return frozenset()
        named = self.situation.closings(instance.group_kind)
        return frozenset(
            name
            for name, one in named.items()
            if not one.window.forbids_break_glass and (everywhere or one.source == source)
        )

    def _judged(self, target: WindowTarget, effect: Operation, source: str, instance: ObjectKey) -> WindowVerdict:
        glass, everywhere = self._glass(instance, source)
        labels = tuple(sorted(target.labels.items())) if target.labels else ()
        place = (target.kind, target.namespace, target.rgd, target.node, labels, effect, source, glass, everywhere)
        if place not in self._known:
            conditions = self.situation.conditions
            passes = None if everywhere or source not in conditions.rules else source
            rules = [
                one.window_set(glass if passes in (None, one.source) else None) for one in conditions.governing(source)
            ]
            verdict = judge(rules, target, effect, conditions.reading)
            self._known[place] = verdict
            if not verdict.is_open:
                self.edges.add(verdict.next_edge)
        return self._known[place]

    def _glass(self, instance: ObjectKey, source: str) -> tuple[datetime | None, bool]:
        """Until when somebody lets this object pass windows, and whether those of all sources: what is said in Git passes those of its own."""
        asked = self.situation.glass_of(instance, source)
        if not asked.break_glass_reason or self._is_unrecorded(instance, source):
            return None, False
        since = self._asked_since(instance, source, asked)
        return asked.windows_overridden_until(since), bool(asked.break_glass_by)

    def _is_unrecorded(self, key: ObjectKey, source: str) -> bool:
        """Is there no place where it could be recorded that this object passes windows? Of an instance the rollout tells that."""
        return key not in self.situation.asked and source in self.situation.conditions.unrecorded_sources

    def _asked_since(self, instance: ObjectKey, source: str, asked: Directives) -> datetime:
        """Since when; of an object that has no word of its own that of its source counts."""
        has_own = instance in self.situation.asked or instance in self.situation.asked_of_plain_objects
        carrier = instance if has_own else source_parent(source)
        return self.situation.since(carrier, "breakGlass", str(asked.break_glass_until))

    def _target(self, change: CandidateChange) -> WindowTarget:
        """The object of a change as windows select it."""
        situation, rendered = self.situation, change.set
        kind, namespace, cluster = change.key.group_kind, change.key.namespace, situation.conditions.cluster
        definitions = situation.bundle.definitions
        if not rendered.is_source:
            parent = situation.observed.objects.get(rendered.parent)
            manifest = rendered.manifest or parent or {"metadata": {}}
            owner = definitions.get(rendered.parent.group_kind)
            name = rendered.definition or (owner.name if owner else "")
            node = id_in_definition(change.node_id)
            return WindowTarget(kind, namespace, cluster, name, node, manifest["metadata"].get("labels") or {})
        if definition := definitions.get(kind):
            instance = situation.bundle.instances.get(change.key)
            manifest = instance.manifest if instance and instance.manifest else change.live or {"metadata": {}}
            return WindowTarget(
                kind, namespace, cluster, definition.name, labels=manifest["metadata"].get("labels") or {}
            )
        if kind != CRD:
            return WindowTarget(kind, namespace, cluster)
        names = (one.name for one in definitions.values() if one.crd["metadata"]["name"] == change.key.name)
        return WindowTarget(kind, namespace, cluster, next(names, ""))


def instance_of(change: CandidateChange) -> ObjectKey:
    """The instance that a change belongs to: its own parent object is one of the source's."""
    return change.key if change.set.is_source else change.set.parent


def make_override_record(
    directives: Directives, what: str, windows: Iterable[Window], *, commit: str, now: datetime
) -> DecisionRecord:
    """Return the entry in the log of a rollout or source for an action that bypasses `windows`.

    Args:
        directives: directives with the break-glass.
        what: action and its object.
        commit: commit that declares the break-glass, if no person set it on the live object.
        now: time of the action in UTC.
    """
    named = ", ".join(map(closed_windows.format_window_name, windows))
    by = directives.break_glass_by or f"commit {commit[:12]}"
    return DecisionRecord(now, OVERRIDDEN, f"{what} bypassing {named}", by, directives.break_glass_reason)

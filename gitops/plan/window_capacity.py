"""Whether a window is long enough for what a plan starts in it: how long writes may be started in it, and how long the changes take.

An instance takes as long as it took last, as its status and the times of its writes tell; where nothing is recorded, as long as its policy gives each
level before it counts as failed. Instances that move to another revision go in the batches of their rollout, each with its bake,
wave after wave; all else goes side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property

from applier.causes import Reason
from applier.cluster import CONTENT, Object
from applier.plan.model import ApplySetPlan, Operation
from applier.plan.model import CandidateChange as Due
from applier.state.managed_fields import apply_entry
from applier.state.observed import annotation
from gitops.decisions.window_verdicts import WindowVerdicts
from gitops.plan.report import PlannedAction, PlannedChange, WindowCapacity
from gitops.reconcile.context import Preview
from gitops.rollouts.item_progress import ItemProgress
from gitops.rollouts.policy import DEFAULT, Policy
from gitops.rollouts.shapes import frontier
from gitops.windows.verdict import startable
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.levelgate_status import LevelgateStatus

_EFFECTS = {PlannedAction.CREATE: Operation.CREATE, PlannedAction.DELETE: Operation.PRUNE}


@dataclass(frozen=True)
class WindowCapacities:
    """Answers for the steps of one preview."""

    preview: Preview

    def of(self, changes: Sequence[PlannedChange], begins: datetime) -> WindowCapacity | None:
        """Of changes that start together; None where no window closes after that."""
        closes = min(self._closings(changes, begins), default=None)
        if closes is None:
            return None
        needs, is_recorded = self._needs(changes)
        return WindowCapacity(closes - begins, needs, is_recorded)

    @cached_property
    def _sets(self) -> Mapping[ObjectKey, ApplySetPlan]:
        return {one.rendered.parent: one for one in self.preview.due.plan.sets}

    def _closings(self, changes: Sequence[PlannedChange], begins: datetime) -> Iterator[datetime]:
        """When the windows next close that are open at this time and govern the changes, or are named by their gates."""
        reading = self.preview.due.situation.conditions.reading
        conditions = replace(self.preview.due.situation.conditions, reading=reading._replace(now=begins))
        then = replace(self.preview.due.situation, conditions=conditions)
        verdicts = WindowVerdicts(then)
        for change in changes:
            verdict = verdicts.of(due) if (due := self._due(change)) else None
            if verdict and verdict.open and verdict.until:
                yield verdict.until
            named = (
                then.wave_windows(change.instance.group_kind, self.policy(change.instance)) if change.instance else {}
            )
            for gate in change.gates:
                window = named.get(gate.name) if gate.reason is Reason.WINDOW_CLOSED else None
                state = startable(window, begins) if window else None
                if state and state.open and state.until:
                    yield state.until

    def _due(self, change: PlannedChange) -> Due | None:
        """The change as windows judge it."""
        own = [one for one in self._sets.values() if one.rendered.is_source]
        found = self._sets.get(change.instance) if change.node and change.instance else next(iter(own), None)
        if found is None or change.key is None:
            return None
        return Due(found.rendered, change.key, _EFFECTS.get(change.action, Operation.UPDATE), change.node, change.level)

    def policy(self, instance: ObjectKey | None) -> Policy:
        here = self.preview.due.situation
        rendered = here.bundle.instances.get(instance) if instance else None
        if rendered is None or instance is None:
            return DEFAULT
        labels = rendered.manifest.get("metadata", {}).get("labels") or {}
        found = here.policy(instance.group_kind, rendered.definition, labels)
        return found if isinstance(found, Policy) else DEFAULT

    def _needs(self, changes: Sequence[PlannedChange]) -> tuple[timedelta, bool]:
        """How long they take, and whether all of that is recorded."""
        levels: dict[ObjectKey | None, set[int]] = {}
        for change in changes:
            levels.setdefault(change.instance, set()).update(
                {change.level or 0} if change.node or not change.instance else ()
            )
        waves: dict[tuple[str, Policy], dict[str, list[timedelta]]] = {}
        longest, is_recorded = timedelta(), True
        for instance, found in levels.items():
            policy, known = self.policy(instance), self._recorded(instance)
            takes = max(1, len(found)) * policy.progress_deadline if known is None else known
            rendered = self.preview.first.bundle.instances.get(instance) if instance else None
            if rendered and rendered.applied != rendered.target_revision:
                wave = policy.wave_of(rendered.manifest["metadata"].get("labels") or {})
                waves.setdefault((rendered.definition, policy), {}).setdefault(wave, []).append(takes)
            longest, is_recorded = max(longest, takes), is_recorded and known is not None
        return max([longest, *(_in_waves(policy, found) for (_, policy), found in waves.items())]), is_recorded

    def _recorded(self, instance: ObjectKey | None) -> timedelta | None:
        """From the first write of the last commit that changed an instance to its being healthy, where it was healthy ever since."""
        one = self._sets.get(instance) if instance else None
        if one is None or one.parent is None:
            return None
        progress = ItemProgress.read(LevelgateStatus.of(one.parent).progress, self.preview.due.situation.now)
        written = [(_written(node.live), annotation(node.live, well_known.COMMIT)) for node in one.nodes if node.live]
        times = [(at, commit) for at, commit in written if at]
        if not times or progress.ready_since is None or progress.flaps:
            return None
        last, newest = max(times)
        first = min(at for at, commit in times if commit == newest)
        return progress.ready_since - first if last <= progress.ready_since else None


def _written(live: Object) -> datetime | None:
    time = (apply_entry(live, CONTENT) or {}).get("time")
    return datetime.fromisoformat(time) if time else None


def _in_waves(policy: Policy, waves: Mapping[str, Sequence[timedelta]]) -> timedelta:
    """A rollout of these instances: batch after batch as the shape opens them, each as long as its slowest may take and its bake."""
    total = timedelta()
    for wave in policy.all_waves:
        takes = waves.get(wave.name, ())
        settled = 0
        while settled < len(takes):
            settled = frontier(policy.shape_of(wave), settled, len(takes))
            total += max(takes) + policy.bake_of(wave)
    return total

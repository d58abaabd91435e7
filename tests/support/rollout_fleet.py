"""A graph of one source whose instances roll out, with a shell that stores and does what the graph decides."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from gitops.decisions import definitions, instances, live, resources, rollout_items, rollout_records, rules
from gitops.decisions.placements import decided_placement
from gitops.decisions.plan_inputs import granted_revision
from gitops.decisions.rollout_items import PROGRESS_CHANGES
from gitops.decisions.rollout_steps import ROLLOUT_STEPS, DecidedStep, rollout_step
from gitops.decisions.source_sets import new_revisions
from gitops.decisions.wanted import wanted_instances
from gitops.queries import Answer
from gitops.rollouts.policy import Policy
from gitops.rollouts.requests import RolloutRequest
from gitops.rollouts.source_rules import SourceRules
from gitops.rollouts.state import RolloutState
from renderer import well_known
from renderer.identity import ObjectKey
from renderer.render.revisions import AppliedSnapshot, DefinitionRevision
from tests.support.graph_fleet import LINK, PLATFORM, GraphFleet, instance_key, links, named
from tests.support.graph_inputs import changed
from tests.support.properties.checked_platform import Files
from tests.support.properties.repositories import GROUP, config_map, definition

NAME = f"links.{GROUP}"
MINUTE = timedelta(minutes=1)


def files_at(image: str, names: list[str]) -> Files:
    """Return the definition with this image in its first object, and its instances."""
    node = config_map("a")
    node["template"]["data"] = {"image": image}
    return {**links(names), "l.json": definition("Link", [node, config_map("b")])}


class RolloutFleet(GraphFleet):
    """Instances at revision 1 under one policy, all of them settled."""

    def __init__(self, count: int, policy: Policy | None = None) -> None:
        self.names, self._revisions = named(count), tuple[DefinitionRevision, ...]()
        self.files = dict(files_at("one", self.names))
        super().__init__(self.files)
        self.rule(*([policy] if policy else []))
        self.set((rules.cluster_name.at(), "local"), (rules.is_clock_skewed.at(), False))
        self.apply(PLATFORM)
        for name in self.names:
            self.bring(name)
        self.record()
        self.tick()
        self.record(self.step().state.dated(self.graph.now))

    def commit(self, files: Files) -> Counter[str]:
        cost = super().commit(files) + self._store(())
        found = (
            DefinitionRevision(new.number, new.digest, f"r{new.number}", new.manifest)
            for new in new_revisions(self.graph)
        )
        return cost + self._store(tuple(found))

    def _store(self, found: tuple[DefinitionRevision, ...]) -> Counter[str]:
        self._revisions = (*self._revisions, *found)
        return self.set((definitions.stored_revisions.at(LINK), self._revisions))

    def rule(self, *policies: Policy) -> None:
        """Set the policies of the source."""
        self.set((rules.source_rules.at("platform"), SourceRules("platform", {}, policies)))

    def roll_out(self, image: str) -> None:
        """Commit a new revision of the definition."""
        self.files = {**self.files, "l.json": files_at(image, [])["l.json"]}
        self.commit(self.files)

    def record(self, state: RolloutState | None = None, *requests: RolloutRequest, name: str = NAME) -> None:
        """Set the record of a rollout as the shell reads it."""
        self.set((rollout_records.rollout_state.at(name), state), (rollout_records.rollout_requests.at(name), requests))

    def bring(self, name: str) -> None:
        """Write the objects of an instance at its placement, and store what was applied."""
        key = instance_key(name)
        self.apply(key)
        rendered = instances.instance_set(self.graph, key)
        assert rendered
        at = rendered.revision
        self.set(
            (resources.applied_snapshot.at(key), AppliedSnapshot(at, f"d{at}", "r", "platform", rendered.manifest))
        )

    def place(self) -> None:
        """Render each instance at the revision that the graph decides."""
        keys = wanted_instances(self.graph)
        self.set(*((instances.placement.at(key), decided_placement(self.graph, key)) for key in keys))

    def tick(self, after: timedelta = timedelta()) -> datetime:
        """Let time pass, place all instances, and take the observations of all items. Return the present time."""
        self.graph.advance(self.graph.now + after)
        self.place()
        self.take_progress()
        return self.graph.now

    def take_progress(self) -> list[ObjectKey]:
        """Set the progress of the items that the graph reports, and return their instances."""
        answers: list[Answer[ObjectKey, rollout_items.ProgressChange | None]] = list(
            changed(self.graph, PROGRESS_CHANGES)
        )
        found = {answer.key: answer.value for answer in answers if answer.value or answer.is_gone}
        now = self.graph.now
        self.set(
            *(
                (rollout_items.item_progress.at(key), change.progress_at(now) if change else None)
                for key, change in found.items()
            )
        )
        return list(found)

    def step(self) -> DecidedStep:
        """Return the decision of the rollout."""
        found = rollout_step(self.graph, NAME)
        assert found
        return found

    def carry_out(self) -> list[str]:
        """Store what the rollout decides, and then grant it. Return the names of the instances that may move."""
        decided = self.step()
        self.record(decided.state.dated(self.graph.now))
        self.set(*((granted_revision.at(key), number) for key, number in {**decided.starts, **decided.grants}.items()))
        self.tick()
        return [key.name for key in decided.grants]

    def cost_of_step(self) -> Counter[str]:
        """Bring progress and rollouts up to date, and return the evaluations that this costs, by query."""
        before = self.graph.cost.evaluations.copy()
        changed(self.graph, PROGRESS_CHANGES)
        changed(self.graph, ROLLOUT_STEPS)
        return self.graph.cost.evaluations - before


def rolling(count: int = 2) -> RolloutFleet:
    """Return a fleet with a new revision, of which nothing is granted yet."""
    fleet = RolloutFleet(count)
    fleet.roll_out("two")
    fleet.tick()
    return fleet


def carry(fleet: RolloutFleet, revision: int, **metadata: Any) -> None:
    """Let the first instance carry a target."""
    key = instance_key("x0")
    obj = live.live(fleet.graph, key)
    assert obj
    annotations = {**obj["metadata"]["annotations"], well_known.TARGET: str(revision)}
    fleet.observe({**obj, "metadata": {**obj["metadata"], "annotations": annotations, **metadata}})

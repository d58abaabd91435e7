"""A graph of one source with instances, whose plans are followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from applier.causes import Reason
from applier.cluster import Discovery
from applier.plan.prune_candidate import PruneOutcome
from gitops.decisions import live, planned
from gitops.decisions.actions import set_plan
from gitops.decisions.planned import planned_parents
from gitops.queries import QueryGraph, Roots, query
from renderer import well_known
from renderer.identity import GroupKind, ObjectKey, applyset_id, source_parent
from renderer.render.revisions import StoredRevisions
from tests.support import apply_sets
from tests.support.graph_inputs import GraphFeed, changed, load_texts
from tests.support.properties.checked_platform import Files
from tests.support.properties.repositories import GROUP, config_map, definition, instance

CONFIG_MAP, LINK = GroupKind("", "ConfigMap"), GroupKind(GROUP, "Link")
LINKS = {"l.json": definition("Link", [config_map("a"), config_map("b")])}
PLATFORM = source_parent("platform")


@query
def all_parents(graph: QueryGraph) -> frozenset[ObjectKey]:
    return frozenset(planned_parents(graph))


PLANS = Roots("plans", order=99, members=all_parents, result=set_plan)


class GraphFleet:
    """Graph of one source whose plans are followed, in a cluster whose kinds were listed whole."""

    def __init__(self, files: Files) -> None:
        self.feed, self.catalog = GraphFeed(), load_texts("platform", files)
        with self.graph.transaction() as transaction:
            transaction.set(live.discovery.at(), Discovery({}))
            for kind in (CONFIG_MAP, LINK):
                transaction.set(live.listing.at(kind), live.ListExtent.WHOLE)
        self.commit(files)

    @property
    def graph(self) -> QueryGraph:
        return self.feed.graph

    def commit(self, files: Files) -> Counter[str]:
        """Commit these files, and return the evaluations that the plans cost, by query."""
        self.catalog = load_texts("platform", files, self.catalog)
        before = self.graph.cost.evaluations.copy()
        with self.graph.transaction() as transaction:
            self.feed.set_catalogs(transaction, [self.catalog], StoredRevisions())
        return self._settled(before)

    def observe(self, *objects: Any) -> Counter[str]:
        """Set objects that a read has returned, and return the evaluations that the plans cost, by query."""
        before = self.graph.cost.evaluations.copy()
        with self.graph.transaction() as transaction:
            live.set_objects(transaction, objects)
        return self._settled(before)

    def annotate(self, key: ObjectKey, annotations: Mapping[str, str]) -> Counter[str]:
        """Add annotations of a person to a live object, and return the evaluations that the plans cost, by query."""
        obj = live.live(self.graph, key)
        assert obj
        return self.observe(annotated(obj, annotations))

    def set(self, *inputs: tuple[Any, Any]) -> Counter[str]:
        """Set other inputs, and return the evaluations that the plans cost, by query."""
        before = self.graph.cost.evaluations.copy()
        with self.graph.transaction() as transaction:
            for key, value in inputs:
                transaction.set(key, value)
        return self._settled(before)

    def _settled(self, before: Counter[str]) -> Counter[str]:
        changed(self.graph, PLANS)
        return self.graph.cost.evaluations - before

    def apply(self, parent: ObjectKey) -> None:
        """Write all objects of a set as Levelgate writes them."""
        rendered = planned.planned_set(self.graph, parent)
        assert rendered
        objects = [apply_sets.live(rendered, node.key.name) for node in rendered.nodes if node.key]
        for obj in objects:
            if obj["kind"] == LINK.kind:
                obj["metadata"]["labels"][well_known.PARENT_ID] = applyset_id(ObjectKey.from_manifest(obj))
                obj["metadata"]["annotations"][well_known.TOOLING] = "levelgate/v0"
        self.observe(*objects)

    def outcomes(self, parent: ObjectKey) -> dict[str, tuple[PruneOutcome, bool, Reason | None]]:
        """Return the prune candidates of a set by name: outcome, permission and reason."""
        plan = set_plan(self.graph, parent)
        assert plan
        return {
            one.member.key.name: (one.outcome, one.allowed, one.blocked.reason if one.blocked else None)
            for one in plan.prune_candidates
        }


def annotated(obj: Any, annotations: Mapping[str, str]) -> Any:
    """Return an object with further annotations that no field manager owns."""
    own = obj["metadata"].get("annotations") or {}
    return {**obj, "metadata": {**obj["metadata"], "annotations": {**own, **annotations}}}


def live_object(key: ObjectKey, annotations: Mapping[str, str], **fields: Any) -> Any:
    """Return a live object with annotations that a person set."""
    metadata = {"name": key.name, "namespace": key.namespace, "uid": "u", "resourceVersion": "1"}
    api_version = f"{key.group}/v1" if key.group else "v1"
    return {
        "apiVersion": api_version,
        "kind": key.kind,
        "metadata": {**metadata, "annotations": dict(annotations)},
        **fields,
    }


def labelled(key: ObjectKey, holder: ObjectKey) -> Any:
    """Return a live instance that the set of `holder` has."""
    labels = {well_known.PART_OF: applyset_id(holder), well_known.PARENT_ID: applyset_id(key)}
    metadata = {"name": key.name, "namespace": "default", "uid": key.name, "resourceVersion": "1", "labels": labels}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Link", "metadata": metadata}


def instance_key(name: str) -> ObjectKey:
    return ObjectKey(*LINK, "default", name)


def links(names: Iterable[str], **spec: str) -> Files:
    return {**LINKS, **{f"{name}.json": instance("Link", name, **spec) for name in names}}


def named(count: int) -> list[str]:
    return [f"x{number}" for number in range(count)]

"""Inputs of a graph from what a reconciliation knows, or from files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from applier.cluster import Discovery
from gitops.decisions import live, people
from gitops.decisions.declarations import Root
from gitops.queries import Query, QueryGraph
from gitops.reconcile.graph_inputs import GraphInputs
from renderer.catalog.catalog import Catalog, load
from renderer.identity import ObjectKey
from renderer.render.instances import FromGit, InstanceOwner, InstanceRendering
from renderer.render.revisions import StoredRevisions
from renderer.render.world import ClusterView


def load_texts(source: str, files: Mapping[str, str], previous: Catalog | None = None) -> Catalog:
    """Return the catalog of a source with these files."""
    texts = {name: text.encode() for name, text in files.items()}
    return load(texts, source=source, previous=previous or Catalog())


def new_graph() -> QueryGraph:
    return QueryGraph(datetime(2026, 1, 1, tzinfo=UTC), elapsed=lambda: 0.0)


@dataclass
class GraphFeed(GraphInputs):
    """Graph that follows commits, and live objects and records of a cluster that was just listed whole."""

    graph: QueryGraph = field(default_factory=new_graph)
    _live: set[ObjectKey] = field(default_factory=set)

    def follow_files(self, catalogs: Sequence[Catalog], world: ClusterView) -> None:
        """Set catalogs, and the live objects and records of a cluster that was just listed whole."""
        with self.graph.transaction() as transaction:
            transaction.set(live.discovery.at(), Discovery({}))
            live.set_absent(transaction, self._live - world.live.keys())
            live.set_objects(transaction, (dict(obj) for obj in world.live.values()))
            self.set_catalogs(transaction, catalogs, world.stored)
            self.set_instances(transaction, world.stored, world.gated)
            self.set_placements(transaction, world.places)
        self._live |= world.live.keys()


def changed(graph: QueryGraph, roots: Any) -> Iterable[Any]:
    """Bring the roots up to date, and return their answers. Raises: Fault of a query."""
    answers = list(graph.changed(roots))
    for answer in answers:
        if answer.fault is not None:
            raise answer.fault
    return answers


def observe_directives(graph: QueryGraph, read: Query[..., Any], *args: Any) -> None:
    """Set the first observation of each directive that the result of a query needs and that no record tells."""
    while unread := [key for key in graph.answer(read, *args).unread if key.family is people.first_observation]:
        with graph.transaction() as transaction:
            for key in unread:
                transaction.set(key, graph.now)


class OneInstance:
    """Graph with one instance of the definition `apps`, and the last commit of its source."""

    ROOT = Root("platform", ObjectKey("kro.run", "App", "default", "shop"))
    RENDERING = InstanceRendering(ROOT.key, 1, InstanceOwner.of_source("platform"), FromGit.DECLARED)

    def __init__(self, definition: str) -> None:
        self.feed = GraphFeed()
        self.catalog = Catalog()
        self._definition = definition
        with self.graph.transaction() as transaction:
            transaction.set(live.discovery.at(), Discovery({}))

    @property
    def graph(self) -> QueryGraph:
        return self.feed.graph

    def commit(self, **spec: Any) -> None:
        """Declare the instance with the fields *spec*."""
        instance = {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "App",
            "metadata": {"name": "shop", "namespace": "default"},
            "spec": spec,
        }
        files = {"apps.yaml": self._definition.encode(), "shop.json": json.dumps(instance).encode()}
        self.catalog = load(files, source="platform", previous=self.catalog)
        assert self.catalog.problems == ()
        with self.graph.transaction() as transaction:
            self.feed.set_catalogs(transaction, [self.catalog], StoredRevisions())

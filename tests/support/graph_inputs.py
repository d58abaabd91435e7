"""Inputs of a graph from what a reconciliation knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from applier.cluster import Discovery
from applier.state.observed import Observed
from gitops.decisions import definitions, live
from gitops.decisions.live import ListExtent
from gitops.queries import QueryGraph
from gitops.queries.graph import Transaction
from gitops.reconcile.context import Context
from renderer.catalog.catalog import Catalog
from renderer.identity import GroupKind


def new_graph() -> QueryGraph:
    return QueryGraph(datetime(2026, 1, 1, tzinfo=UTC), elapsed=lambda: 0.0)


def set_observed(transaction: Transaction, before: Observed, after: Observed) -> None:
    """Set what has changed from one observation to the next."""
    live.set_objects(transaction, (obj for key, obj in after.objects.items() if before.objects.get(key) is not obj))
    for key in (before.objects.keys() | before.absent) - after.objects.keys() - after.absent:
        transaction.drop(live.live.at(key))
        transaction.drop(live.is_absent.at(key))
    live.set_absent(transaction, after.absent)
    for kind in before.listed | after.listed:
        extent = ListExtent.WHOLE if kind in after.whole else ListExtent.MARKED
        transaction.set(live.listing.at(kind), extent if kind in after.listed else ListExtent.UNLISTED)
    transaction.set(live.discovery.at(), after.discovery)
    transaction.set(live.failures.at(), after.failures)
    transaction.set(live.unreadable.at(), after.unreadable)


@dataclass
class GraphFeed:
    """Graph that follows what a reconciliation knows, step by step."""

    graph: QueryGraph = field(default_factory=new_graph)
    _observed: Observed = field(default_factory=lambda: Observed(Discovery({})))
    _kinds: set[GroupKind] = field(default_factory=set)

    @contextmanager
    def following(self, catalogs: Sequence[Catalog], known: Context) -> Iterator[Transaction]:
        """Set what has changed since the last call. The caller may set further inputs in the same transaction."""
        stored = known.archive.stored_revisions
        with self.graph.transaction() as transaction:
            set_observed(transaction, self._observed, known.observed)
            transaction.set(definitions.sources.at(), tuple(catalog.source for catalog in catalogs))
            for catalog in catalogs:
                transaction.set(definitions.catalog.at(catalog.source), definitions.without_objects(catalog))
            self._kinds.update(*(catalog.kinds_used for catalog in catalogs), stored.revisions, stored.refused)
            for kind in self._kinds:
                transaction.set(definitions.stored_revisions.at(kind), tuple(stored.revisions.get(kind, ())))
                transaction.set(definitions.store_error.at(kind), stored.refused.get(kind, ""))
            yield transaction
        self._observed = known.observed

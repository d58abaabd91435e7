"""What a cluster gets of each source: of a commit that came before, after a restart, and while the cluster is removed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

from applier.cluster import LOCAL_CLUSTER, ClusterName
from gitops.daemon.fleet import Fleet
from gitops.fleet.fleet_objects import read_fleet_objects
from gitops.fleet.projections import FleetProjections, removed_clusters
from gitops.reconcile.sources import SourceState
from gitops.rollouts.source_rules import SourceRules, StoredRules, resolve_rules
from renderer.catalog.catalog import Catalog, load
from tests.support.fleet_documents import OWN, Files, cluster, placement, plain, read

EU, US = ClusterName("eu-1"), ClusterName("us-1")
CLUSTERS = {
    "eu": cluster("eu-1", {"region": "eu"}, namespaceMap={"shop": "shop-eu"}),
    "us": cluster("us-1", {"region": "us"}),
}


def commit(name: str, files: Files) -> Catalog:
    return replace(read({**CLUSTERS, **files}), commit=name)


def shop(region: str, text: str) -> Files:
    """One object, on the clusters of a region."""
    chosen = {"matchLabels": {"region": region}}
    return {"all": placement("all", clusters=chosen), "p": plain("p", namespace="shop", data={"text": text})}


def apps(all_of_it: str) -> Catalog:
    """A second source, with one object and this placement."""
    files = {"all": all_of_it, "p": plain("p", namespace="shop", data={"text": "one"})}
    return replace(read(files), source="apps")


def texts(catalog: Catalog) -> dict[str, Any]:
    return {
        f"{one.manifest['metadata']['namespace']}/{one.manifest['metadata']['name']}": one.manifest["data"]["text"]
        for one in catalog.objects
    }


def test_an_earlier_commit_is_projected_by_its_own_placements() -> None:
    """Its objects have the names that they have in the cluster, and what went elsewhere then is not healed here."""
    projections = FleetProjections("platform")
    projections.update([SourceState(commit("new", shop("us", "two")))], {})
    earlier = commit("old", shop("eu", "one"))
    assert texts(projections.project_earlier(earlier, EU)) == {"shop-eu/p": "one"}
    assert texts(projections.project_earlier(earlier, US)) == {}
    assert texts(projections.project_earlier(earlier, LOCAL_CLUSTER)) == {}


def test_an_earlier_commit_is_placed_anew_once_the_clusters_have_changed() -> None:
    projections = FleetProjections("platform")
    projections.update([SourceState(commit("new", shop("eu", "two")))], {})
    earlier = commit("old", shop("eu", "one"))
    assert texts(projections.project_earlier(earlier, EU)) == {"shop-eu/p": "one"}
    moved = {**shop("eu", "three"), "eu": cluster("eu-1", {"region": "eu"}, namespaceMap={"shop": "market"})}
    projections.update([SourceState(commit("newer", moved))], {})
    assert texts(projections.project_earlier(earlier, EU)) == {"market/p": "one"}


def test_a_source_that_is_not_read_yet_keeps_what_was_accepted_of_it() -> None:
    """After a restart, one server answers before the other. The next commit of the late source may have a broken placement."""
    accepted = {"apps": read_fleet_objects(apps(placement("all")), {}, fleet_source="platform").accepted}
    projections = FleetProjections("platform", dict(accepted))
    platform = SourceState(commit("new", {}))
    projections.update([platform], {}, unread=["apps"])
    assert projections.accepted["apps"] == accepted["apps"]
    projections.update([platform, SourceState(apps(placement("all", count=0)))], {})
    assert projections.accepted["apps"] == accepted["apps"]
    assert [texts(state.catalog) for state in projections.states_of(EU)] == [{"shop-eu/p": "one"}, {}]


def test_a_source_that_is_no_longer_configured_is_forgotten() -> None:
    accepted = read_fleet_objects(apps(placement("all")), {}, fleet_source="platform").accepted
    projections = FleetProjections("platform", {"apps": accepted})
    projections.update([SourceState(commit("new", {}))], {})
    assert projections.accepted.keys() == {"platform"}


async def test_each_cluster_reads_what_it_got_and_none_what_cannot_be_read() -> None:
    """Without commits before, and with such that Git no longer has."""
    projections = FleetProjections("platform")
    projections.update([SourceState(commit("new", shop("us", "two")))], {})
    absent: Any = None
    fleet = Fleet(absent, projections, observe=absent, served_kinds=cast(Any, dict))
    assert await fleet.read_projected(EU, "platform", "old") is None

    async def read_earlier(source: str, name: str) -> Catalog | None:
        return commit(name, shop("eu", "one")) if (source, name) == ("platform", "old") else None

    fleet.read_earlier = read_earlier
    found = await fleet.read_projected(EU, "platform", "old")
    assert found
    assert texts(found) == {"shop-eu/p": "one"}
    assert await fleet.read_projected(EU, "platform", "older") is None


def test_a_cluster_that_may_have_moved_to_an_unreadable_file_still_gets_its_objects() -> None:
    """Its member works on, and asks for its sources at every event."""
    projections = FleetProjections("platform")
    projections.update([SourceState(commit("new", shop("eu", "one")))], {})
    known = projections.clusters.keys()
    moved = {**shop("eu", "one"), "eu": "", "more": "kind: Cluster\nspec: ["}
    projections.update([SourceState(commit("newer", moved))], {})
    assert removed_clusters(known, projections) == frozenset()
    assert [texts(state.catalog) for state in projections.states_of(EU)] == [{"shop-eu/p": "one"}]


def test_a_commit_without_anything_leaves_the_clusters_and_what_was_accepted() -> None:
    """Rule 12: its deletions are held back. The members work on, and a restart finds the clusters again."""
    projections = FleetProjections("platform")
    projections.update([SourceState(commit("new", shop("eu", "one")))], {})
    known, accepted = projections.clusters.keys(), projections.accepted
    empty = Catalog(source="platform", commit="empty")
    projections.update([SourceState(empty, hold="commit empty holds no object at all")], {})
    assert (projections.clusters.keys(), projections.accepted) == (known, accepted)
    assert removed_clusters(known, projections) == frozenset()
    (state,) = projections.states_of(EU)
    assert (state.catalog.objects, state.hold) == ((), "commit empty holds no object at all")


# ---- a cluster that is removed


CALENDAR = """BEGIN:VCALENDAR
BEGIN:VEVENT
UID:1
DTSTART:20261224T000000Z
DTEND:{end}
END:VEVENT
END:VCALENDAR
"""
FREEZE = {
    "apiVersion": OWN,
    "kind": "PropagationWindow",
    "metadata": {"name": "freeze"},
    "spec": {"kind": "Deny", "timeZone": "UTC", "schedule": {"calendar": "freeze.ics"}},
}


def frozen(end: str = "20261226T000000Z", window: str = json.dumps(FREEZE)) -> Catalog:
    """A commit with a calendar, a window that reads it, and one object."""
    files = {"freeze.ics": CALENDAR.format(end=end), "freeze.yaml": window, "p.yaml": plain("p", namespace="shop")}
    return load({name: text.encode() for name, text in files.items()}, source="apps", commit="new")


def emptied(*catalogs: Catalog, stored: StoredRules) -> tuple[Catalog, SourceRules]:
    """What a cluster that is removed gets of the source `apps`, and the rules there after these were accepted."""
    projections = FleetProjections("platform")
    projections.update([SourceState(catalog) for catalog in (commit("new", {}), *catalogs)], {})
    (found,) = (state.catalog for state in projections.empty_states(["apps"]) if state.catalog.source == "apps")
    return found, resolve_rules(found, stored)


def test_a_removed_cluster_obeys_the_windows_of_the_commit_with_their_calendars() -> None:
    """A commit that lengthens a freeze and removes a cluster waits for the end of the longer freeze."""
    before, after = resolve_rules(frozen(), {}), resolve_rules(frozen("20270110T000000Z"), {})
    catalog, rules = emptied(frozen("20270110T000000Z"), stored=before.accepted)
    assert (catalog.objects, catalog.unreadable_files) == ((), frozenset())
    assert rules.windows == after.windows != before.windows
    assert (rules.problems, rules.closed_reason) == ((), "")


def test_a_removed_cluster_obeys_accepted_windows_in_a_file_that_cannot_be_read() -> None:
    """Broken input never opens: what was accepted stays in force, and no file keeps an object from its deletion."""
    accepted = resolve_rules(frozen(), {})
    catalog, rules = emptied(frozen(window="kind: PropagationWindow\nspec: ["), stored=accepted.accepted)
    assert rules.windows == accepted.windows != {}
    assert catalog.unreadable_files == frozenset()
    assert emptied(frozen(window="kind: PropagationWindow\nspec: ["), stored={})[1].closed_reason


def test_a_removed_cluster_obeys_accepted_windows_of_a_source_that_is_not_read() -> None:
    accepted = resolve_rules(frozen(), {})
    catalog, rules = emptied(stored=accepted.accepted)
    assert rules.windows == accepted.windows != {}
    assert catalog.unreadable_files == frozenset()


def test_the_sources_that_govern_all_govern_one_that_is_not_read() -> None:
    projections = FleetProjections("platform")
    projections.update([SourceState(commit("new", {}), governors=frozenset({"rules"}))], {})
    governors = {state.catalog.source: state.governors for state in projections.empty_states(["apps", "rules"])}
    assert governors == {"apps": {"rules"}, "platform": {"rules"}, "rules": frozenset()}

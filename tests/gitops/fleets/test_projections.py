"""What a cluster gets of a commit that came before: by the placements of that commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from applier.cluster import LOCAL_CLUSTER, ClusterName
from gitops.daemon.fleet import Fleet
from gitops.fleet.fleet_objects import read_fleet_objects
from gitops.fleet.projections import FleetProjections
from gitops.reconcile.sources import SourceState
from renderer.catalog.catalog import Catalog
from tests.support.fleet_documents import Files, cluster, placement, plain, read

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

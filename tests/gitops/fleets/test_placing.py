"""Which objects go to which clusters: selection, counts, overrides, what travels along, and what nobody can tell."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from applier.cluster import LOCAL_CLUSTER, parse_cluster_name
from gitops.fleet.cluster_spec import ClusterSpec
from gitops.fleet.placement import OnUnmatch
from gitops.fleet.placing import choose_clusters, place
from gitops.fleet.projections import FleetProjections
from gitops.fleet.shares import NOTHING_PLACED
from gitops.reconcile.sources import SourceState
from renderer.catalog.projection import digest, scopes_in
from renderer.identity import GroupKind
from renderer.render.render import render
from tests.support.fleet_documents import (
    Files,
    cluster,
    key_of,
    names_by_cluster,
    objects_in,
    placed_by,
    placement,
    plain,
    projected,
    read,
)
from tests.support.properties.repositories import GROUP, UNREADABLE, config_map, definition, instance, widgets

LINK, OTHER = GroupKind(GROUP, "Link"), GroupKind(GROUP, "Other")
EU, US, LOCAL = map(parse_cluster_name, ("eu", "us", "local"))
CLUSTERS = {"c-eu": cluster("eu", {"region": "eu"}), "c-us": cluster("us", {"region": "us"})}
LINKS = {"def": definition("Link", [config_map("a")]), "x": instance("Link", "x"), "y": instance("Link", "y")}


def labels(**matched: str) -> dict[str, Any]:
    return {"matchLabels": matched}


def labelled(name: str, **matched: str) -> str:
    made = json.loads(instance("Link", name))
    made["metadata"]["labels"] = matched
    return json.dumps(made)


def said(files: Files) -> list[str]:
    placed = placed_by(files)
    assert placed.problems == ()
    return list(map(str, placed.warnings))


@pytest.mark.parametrize("clusters", [{}, CLUSTERS])
def test_without_a_placement_everything_goes_to_local(clusters: Files) -> None:
    """fleet.md 7, S3-3: with clusters and without; and nobody is warned of anything."""
    files = {**LINKS, "p": plain("p")}
    placed = placed_by({**files, **clusters})
    assert names_by_cluster(placed) == {"local": {"x", "y", "p"}, **({"eu": set(), "us": set()} if clusters else {})}
    assert (placed.problems, placed.warnings, placed.is_certain) == ((), (), True)
    whole = read(files)
    local = ClusterSpec(LOCAL, {}, None, {}, None, False, None, None, {}, None)  # type: ignore[arg-type]
    assert digest(projected(read({**files, **clusters}), placed, local)) == digest(whole)
    assert projected(whole, placed_by(files), local).objects is whole.objects


def test_a_cluster_without_a_placement_of_a_kind_never_gets_its_crd() -> None:
    """S3-2: a definition goes with its instances, and so do those that it makes instances of, and the CRDs of what it makes."""
    nested = {"id": "o", "template": {"apiVersion": f"{GROUP}/v1", "kind": "Other", "metadata": {"name": "o"}}}
    free = {"id": "w", "template": {"apiVersion": "free.test/v1", "kind": "Widget", "metadata": {"name": "w"}}}
    files = {
        **CLUSTERS,
        "link": definition("Link", [nested]),
        "other": definition("Other", [free]),
        "third": definition("Third", [config_map("a")]),
        "x": instance("Link", "x"),
        "t": instance("Third", "t"),
        "crd": json.dumps(widgets("free.test", {})),
        "p1": placement("links", objects={"rgds": ["links.*"]}, clusters=labels(region="eu")),
        "p2": placement("thirds", objects={"rgds": ["thirds.*"]}, clusters=labels(region="us")),
    }
    placed = placed_by(files)
    assert placed.warnings == ()
    assert placed.by_cluster[EU].definitions == {LINK, OTHER}
    assert placed.by_cluster[US].definitions == {GroupKind(GROUP, "Third")}
    assert names_by_cluster(placed) == {"eu": {"x", "widgets.free.test"}, "us": {"t"}, "local": set()}
    catalog = read(files)
    specs = objects_in(catalog).clusters
    bundles = {name: render([projected(catalog, placed, specs[name])]) for name in (EU, US)}
    crds = {
        name: {node.key.name for node in bundle.sources["platform"].nodes if node.key and "Definition" in node.key.kind}
        for name, bundle in bundles.items()
    }
    assert crds == {EU: {f"links.{GROUP}", f"others.{GROUP}", "widgets.free.test"}, US: {f"thirds.{GROUP}"}}


def test_a_definition_goes_where_it_is_named_and_not_where_only_some_of_its_instances_could() -> None:
    files = {
        **CLUSTERS,
        "def": LINKS["def"],
        "p1": placement("all", objects={"rgds": [f"links.{GROUP}"]}, clusters=labels(region="eu")),
        "p2": placement("some", objects={"instances": labels(tier="web")}, clusters=labels(region="us")),
    }
    placed = placed_by(files)
    assert placed.by_cluster[EU].definitions == {LINK}
    assert placed.by_cluster[US].definitions == frozenset()


def test_a_namespace_goes_with_what_is_in_it() -> None:
    """But is never deleted since nothing of it goes there any more."""
    files = {
        **CLUSTERS,
        "ns": plain("shop", "Namespace"),
        "a": plain("a", namespace="shop"),
        "p": placement(
            "a", objects={"plain": {"kinds": ["ConfigMap"]}}, clusters=labels(region="eu"), onUnmatch="Delete"
        ),
    }
    placed = placed_by(files)
    assert placed.by_cluster[EU].objects == {
        key_of("a", namespace="shop"): OnUnmatch.DELETE,
        key_of("shop", "Namespace", ""): OnUnmatch.ORPHAN,
    }
    assert placed.warnings == ()


def test_clusters_that_get_the_same_share_one_value() -> None:
    files = {**LINKS, **CLUSTERS, "p": placement("p")}
    placed = placed_by(files)
    assert placed.by_cluster[EU] is placed.by_cluster[US]
    assert placed.by_cluster[LOCAL_CLUSTER].objects == {}


CLUSTER_NAMES = st.integers(0, 99).map("c{}".format)


@given(st.sets(CLUSTER_NAMES, max_size=12), CLUSTER_NAMES, st.integers(1, 6), st.sampled_from("pq"))
@example(set(), "c1", 1, "p")
def test_a_cluster_that_joins_or_goes_moves_at_most_one(names: set[str], other: str, count: int, name: str) -> None:
    """And it has its place by itself, in whatever order the clusters are named."""

    def chosen(names: set[str]) -> frozenset[str]:
        files = {one: cluster(one) for one in names}
        objects = objects_in(read({**files, "p": placement(name, count=count)}))
        found = choose_clusters(objects.placements[0], objects.clusters.values())
        assert found == choose_clusters(objects.placements[0], reversed(list(objects.clusters.values())))
        return found

    without, with_it = chosen(names - {other}), chosen(names | {other})
    assert len(without) == min(count, len(names - {other}))
    assert with_it - without <= {other}
    assert len(without - with_it) <= (other in with_it)


def test_placements_have_ranks_of_their_own() -> None:
    """Or one cluster would get the only copy of everything."""
    files = {f"c{number}": cluster(f"c{number}") for number in range(10)}
    files |= {f"p{number}": placement(f"p{number}", count=1) for number in range(40)}
    objects = objects_in(read(files))
    assert len({next(iter(choose_clusters(one, objects.clusters.values()))) for one in objects.placements}) > 6


def override(patch: Any, region: str = "", **more: Any) -> dict[str, Any]:
    return {"clusters": labels(region=region) if region else {}, "patch": patch, **more}


def test_an_object_of_two_placements_is_there_once_with_the_patches_of_both() -> None:
    """In the order of their names, whatever that of the files."""
    files = {
        **LINKS,
        **CLUSTERS,
        "a": placement("second", overrides=[override({"spec": {"on": False}})], onUnmatch="Delete"),
        "b": placement("first", overrides=[override({"spec": {"text": "us"}}, "us")]),
    }
    placed = placed_by(files)
    assert (placed.problems, placed.warnings) == ((), ())
    assert placed.by_cluster[US].placements == ("first", "second")
    patches = placed.by_cluster[US].patches[key_of("x", "Link", "default", GROUP)]
    assert [patch.value for patch in patches] == [{"spec": {"text": "us"}}, {"spec": {"on": False}}]
    assert set(placed.by_cluster[US].objects.values()) == {OnUnmatch.ORPHAN}
    catalog = read(files)
    specs = objects_in(catalog).clusters
    specs_by_cluster = {name: projected(catalog, placed, specs[name]).objects[0].manifest["spec"] for name in (EU, US)}
    assert specs_by_cluster[US] == {**specs_by_cluster[EU], "text": "us"}
    assert specs_by_cluster[EU]["on"] is False


def test_overrides_that_contradict_are_named_both_and_the_object_stays_as_it_is() -> None:
    files = {
        **LINKS,
        **CLUSTERS,
        "a": placement("a", overrides=[override({"spec": {"text": "us", "on": True}}, "us")]),
        "b": placement("b", overrides=[override({}), override({"spec": {"text": "all"}})][1:]),
    }
    placed = placed_by(files)
    (problem,) = placed.problems
    key = key_of("x", "Link", "default", GROUP)
    assert str(problem) == (
        "b.yaml:1: spec.overrides[0].patch: placement a (a.yaml:1) and placement b (b.yaml:1) set spec.text differently, "
        f"for {key}, {key_of('y', 'Link', 'default', GROUP)} in cluster us; "
        "these objects stay unchanged there; make both overrides agree, or remove the field from one"
    )
    assert "set spec.text differently" in placed.by_cluster[US].refused[key]
    assert key not in placed.by_cluster[US].patches
    assert placed.by_cluster[EU].refused == {}
    catalog = read(files)
    found = projected(catalog, placed, objects_in(catalog).clusters[US])
    assert found.objects[0].refused_reason


def test_a_contradiction_names_all_clusters_that_have_it() -> None:
    """Also clusters that other overrides keep apart; of many, their number."""
    names = [f"c{number}" for number in range(7)]
    files = {
        **LINKS,
        **{name: cluster(name, {"region": "us", "name": name}) for name in names},
        "a": placement("a", overrides=[override({"spec": {"text": "us"}}, "us")]),
        "b": placement("b", overrides=[override({"spec": {"text": "all"}})]),
        "c": placement("c", clusters={"matchLabels": {"name": "c6"}}, overrides=[override({"spec": {"on": True}})]),
    }
    (problem,) = placed_by(files).problems
    assert " in clusters c0, c1, c2, c3, c4 and 2 more; these objects stay unchanged there; " in problem.message


def test_overrides_on_one_line_contradict_one_by_one() -> None:
    """A file in JSON has every override on its first line."""
    files = {
        **LINKS,
        **CLUSTERS,
        "a": placement(
            "a", overrides=[override({"spec": {"text": "us"}}, "us"), override({"spec": {"on": True}}, "us")]
        ),
        "b": placement("b", overrides=[override({"spec": {"text": "all", "on": False}})]),
    }
    first, second = placed_by(files).problems
    assert (first.message.count("Link.g.test"), second.message.count("Link.g.test")) == (2, 2)
    assert {one.message.split(" set ")[1].split(" ")[0] for one in (first, second)} == {"spec.text", "spec.on"}


def test_an_override_changes_what_it_names_and_no_plain_objects() -> None:
    files = {
        **LINKS,
        **CLUSTERS,
        "other": definition("Other", [config_map("a")]),
        "o": instance("Other", "o"),
        "q": plain("q"),
        "p": placement("p", overrides=[override({"spec": {"on": False}}, "eu", rgds=[f"links.{GROUP}"])]),
    }
    placed = placed_by(files)
    assert {key.name for key in placed.by_cluster[EU].patches} == {"x", "y"}
    assert placed.by_cluster[US].patches == {}


def test_what_no_placement_selects_is_named_and_definitions_are_not() -> None:
    files = {
        **CLUSTERS,
        **LINKS,
        "x": labelled("x", tier="web"),
        "q": plain("q"),
        "p": placement("p", objects={"instances": labels(tier="web")}),
    }
    advice = "so it goes to no cluster; select it, or remove it from Git"
    assert said(files) == [
        f"q.yaml:1: no placement selects {key_of('q')}, {advice}",
        f"y.yaml:1: no placement selects {key_of('y', 'Link', 'default', GROUP)}, {advice}",
    ]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"objects": {"rgds": [f"lnks.{GROUP}"], "plain": {}}},
            f"spec.objects.rgds[0]: placement p: no definition here is called 'lnks.{GROUP}'; did you mean 'links.{GROUP}'?",
        ),
        (
            {"objects": {"instances": labels(teir="web"), "plain": {}}},
            "spec.objects.instances: placement p: no instance of the source has the label teir=web; did you mean 'tier'?",
        ),
        (
            {"objects": {"rgds": ["*"], "plain": {"namespaces": ["shpo"]}}},
            "spec.objects.plain.namespaces[0]: placement p: no plain object here is in namespace 'shpo'; did you mean 'shop'?",
        ),
        (
            {"objects": {"rgds": ["*"], "plain": {"kinds": ["ConfigMpa"]}}},
            "spec.objects.plain.kinds[0]: placement p: no plain object here is of kind 'ConfigMpa'; did you mean 'ConfigMap'?",
        ),
        (
            {"clusters": labels(regoin="eu")},
            "spec.clusters: placement p: no cluster has the label regoin=eu; did you mean 'region'?; "
            "no cluster gets the objects; correct the selector, or declare the cluster",
        ),
        (
            {"clusters": {"matchExpressions": [{"key": "region", "operator": "DoesNotExist"}]}},
            "spec.clusters: placement p: no cluster fits !region; no cluster gets the objects; correct the selector, or declare the cluster",
        ),
        (
            {"overrides": [{"clusters": labels(regoin="us"), "patch": {"spec": {}}}]},
            "spec.overrides[0].clusters: placement p: no cluster of this placement has the label regoin=us; "
            "did you mean 'region'?; the override changes nothing; correct the selector",
        ),
        (
            {"overrides": [override({"spec": {}}, rgds=["lniks.*"])]},
            "spec.overrides[0].rgds[0]: placement p: no definition here is called 'lniks.*'",
        ),
        (
            {"count": 3},
            "spec.count: placement p has count 3, but its selector matches only 2 clusters; "
            "lower the count, or select more clusters",
        ),
    ],
)
def test_a_selector_that_fits_nothing_is_named_with_what_it_may_mean(spec: dict[str, Any], message: str) -> None:
    files = {**CLUSTERS, "def": LINKS["def"], "x": labelled("x", tier="web"), "q": plain("q", namespace="shop")}
    found = said({**files, "p": placement("p", **spec)})
    assert f"p.yaml:1: {message}" in found


def test_what_no_longer_goes_to_a_cluster_is_unmatched_there_until_it_leaves_git() -> None:
    """With what its placement said of it; also where that is gone."""
    both = {**CLUSTERS, **LINKS, "p": placement("p", objects={"rgds": ["links.*"]}, onUnmatch="Delete")}
    first = placed_by(both)
    assert first.unmatched == {EU: {}, US: {}, LOCAL: {}}
    only_eu = {**both, "p": placement("p", objects={"rgds": ["links.*"]}, clusters=labels(region="eu"))}
    second = placed_by(only_eu, first)
    keys = {key_of(name, "Link", "default", GROUP): OnUnmatch.DELETE for name in "xy"}
    assert second.unmatched == {EU: {}, US: keys, LOCAL: {}}
    third = placed_by({name: text for name, text in only_eu.items() if name != "x"}, second)
    assert third.unmatched[US] == {key_of("y", "Link", "default", GROUP): OnUnmatch.DELETE}
    assert placed_by(both, third).unmatched == {EU: {}, US: {}, LOCAL: {}}


@pytest.mark.parametrize(("fate", "stays"), [("Delete", set[str]()), ("Orphan", {"x", "y"})])
def test_what_becomes_of_an_object_that_goes_nowhere_any_more_is_known_after_a_restart(
    fate: str, stays: set[str]
) -> None:
    """S3-22: by what its placement says now, whatever this process has seen placed before."""
    spec = {"objects": {"rgds": ["links.*"]}, "clusters": labels(region="none"), "onUnmatch": fate}
    projections = FleetProjections("platform")
    projections.update([SourceState(read({**CLUSTERS, **LINKS, "p": placement("p", **spec)}))], {})
    (state,) = projections.states_of(EU)
    assert {key.name for key in state.orphaned_keys} == stays


BREAKS = {
    "a file": {"bad": UNREADABLE},
    "a placement of which nothing is known": {"p": placement("p", nonsense=1)},
    "a file with a placement": {"p": "apiVersion: levelgate.dev/v1alpha1\nkind: Placement\nmetadata: {name: [open\n"},
    "a definition of which nobody knows what it makes": {
        "def": definition("Link", [{"id": "a", "template": {"kind": 7}}])
    },
    "a definition nobody can read": {"def": UNREADABLE},
}


@pytest.mark.parametrize("broken", BREAKS)
def test_what_cannot_be_told_takes_nothing_away(broken: str) -> None:
    """Whoever placed before knows it, and who did not keeps what is live."""
    nested = {"id": "o", "template": {"apiVersion": f"{GROUP}/v1", "kind": "Other", "metadata": {"name": "o"}}}
    files = {
        **CLUSTERS,
        **LINKS,
        "def": definition("Link", [nested]),
        "other": definition("Other", [config_map("a")]),
        "p": placement(
            "p", objects={"rgds": ["links.*"]}, overrides=[override({"spec": {"on": False}})], onUnmatch="Delete"
        ),
    }
    first = placed_by(files)
    later = {**files, **BREAKS[broken]}
    second = placed_by(later, first)
    assert not second.is_certain
    for name in (EU, US):
        assert second.by_cluster[name].objects == first.by_cluster[name].objects
        assert second.by_cluster[name].definitions >= first.by_cluster[name].definitions
        assert second.by_cluster[name].patches.keys() == first.by_cluster[name].patches.keys()
    assert not any(second.unmatched.values())
    anew, catalog = placed_by(later), read(later)
    assert anew.by_cluster[LOCAL].objects == {}
    found = projected(catalog, anew, objects_in(catalog).clusters[EU])
    held = {declared.origin.file for declared in found.objects} | {
        one.origin.file for one in found.definitions.values()
    }
    left_out = {"x.yaml", "y.yaml", "def.yaml", "other.yaml"} - held - {origin.file for origin in found.broken.values()}
    assert all(found.protection.protects(file) for file in left_out)


def test_a_broken_definition_keeps_its_name_and_so_its_instances_their_place() -> None:
    """Also right after a start."""
    broken = definition("Link", [config_map("a", "b"), config_map("b", "a")])
    placed = placed_by({**CLUSTERS, **LINKS, "def": broken, "p": placement("p", objects={"rgds": ["links.*"]})})
    assert names_by_cluster(placed)["eu"] == {"x", "y"}
    assert placed.is_certain


@pytest.mark.parametrize("how", ["does not build", "twice"])
def test_what_a_broken_definition_makes_goes_with_it(how: str) -> None:
    """Or the CRD of what it makes would be removed where its instances live on."""
    nested = {"id": "o", "template": {"apiVersion": f"{GROUP}/v1", "kind": "Other", "metadata": {"name": "o"}}}
    free = {"id": "w", "template": {"apiVersion": "free.test/v1", "kind": "Widget", "metadata": {"name": "${nobody}"}}}
    files = {
        **CLUSTERS,
        **LINKS,
        "def": definition("Link", [nested, free] if how == "does not build" else [nested]),
        "def2": definition("Link", [config_map("a")]) if how == "twice" else plain("q"),
        "other": definition("Other", [config_map("a")]),
        "crd": json.dumps(widgets("free.test", {})),
        "p": placement("p", objects={"rgds": ["links.*"]}),
    }
    assert read(files).broken.keys() == {LINK}
    placed = placed_by(files)
    assert placed.is_certain
    assert placed.by_cluster[EU].definitions == {LINK, OTHER}
    assert ("widgets.free.test" in names_by_cluster(placed)["eu"]) == (how == "does not build")


def test_definitions_of_other_sources_are_known_by_their_names() -> None:
    catalog = read({**CLUSTERS, "x": LINKS["x"], "p": placement("p", objects={"rgds": ["links.*"]})})
    objects = objects_in(catalog)
    placed = place(
        catalog,
        objects.clusters.values(),
        objects.placements,
        NOTHING_PLACED,
        namespaced_by_kind=scopes_in(catalog),
        broken=(),
        definition_names={LINK: frozenset({f"links.{GROUP}"})},
    )
    assert names_by_cluster(placed)["eu"] == {"x"}
    assert placed.warnings == ()


NAMES = st.sampled_from(["x", "y", "q", "r"])
SELECTORS = st.sampled_from([{}, labels(region="eu"), labels(region="us"), labels(region="none")])
OBJECTS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"rgds": ["links.*"]}, {"plain": {}}, {"instances": labels(tier="web")}, {"plain": {"namespaces": ["shop"]}}]
)
PLACEMENTS = st.lists(
    st.fixed_dictionaries(
        {"objects": OBJECTS, "clusters": SELECTORS, "onUnmatch": st.sampled_from(["Orphan", "Delete"])},
        optional={"count": st.integers(1, 2)},
    ),
    max_size=3,
)
HELD = {
    "def": LINKS["def"],
    "x": labelled("x", tier="web"),
    "y": LINKS["y"],
    "q": plain("q", namespace="shop"),
    "r": plain("r"),
}


@given(st.lists(st.tuples(PLACEMENTS, st.sets(NAMES), st.booleans()), min_size=1, max_size=4))
def test_whatever_the_history_an_object_is_placed_or_unmatched_or_was_never_there(
    history: list[tuple[list[dict[str, Any]], set[str], bool]],
) -> None:
    placed, before = NOTHING_PLACED, None
    were: dict[Any, set[Any]] = {EU: set(), US: set(), LOCAL: set()}
    for placements, gone, is_broken in history:
        files = {**CLUSTERS, **{name: text for name, text in HELD.items() if name not in gone}}
        files |= {f"p{number}": placement(f"p{number}", **spec) for number, spec in enumerate(placements)}
        files |= {"bad": UNREADABLE} if is_broken else {}
        last = {name: share.objects for name, share in placed.by_cluster.items()}
        placed = placed_by(files, placed, before)
        before = objects_in(read(files), before)
        catalog = read(files)
        declared = {one.manifest["metadata"]["name"] for one in catalog.objects}
        for name, share in placed.by_cluster.items():
            assert not share.objects.keys() & placed.unmatched[name].keys()
            assert {key.name for key in share.objects} <= declared
            here = {key for key in were[name] if key.name in declared}
            assert here <= share.objects.keys() | placed.unmatched[name].keys()
            assert (
                placed.is_certain or {key for key in last.get(name, ()) if key.name in declared} <= share.objects.keys()
            )
            were[name] = here | share.objects.keys()
            assert all(kind in share.definitions for kind in {key.group_kind for key in share.objects} & {LINK})

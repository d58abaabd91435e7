"""A part of a catalog as one of its own: what it holds, what it shares, and what stands for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderer.catalog.catalog import Catalog, load
from renderer.catalog.projection import (
    ManifestPatch,
    ProjectedContent,
    close_definitions,
    digest,
    object_keys,
    project,
    scopes_in,
)
from renderer.errors import SourceLocation
from renderer.identity import GroupKind, ObjectKey
from renderer.render.render import render
from tests.support.properties.repositories import GROUP, UNREADABLE, config_map, definition, instance, plain

LINK, OTHER = GroupKind(GROUP, "Link"), GroupKind(GROUP, "Other")


def read(commit: str = "r1", **files: str) -> Catalog:
    return load({f"{name}.yaml": text.encode() for name, text in files.items()}, source="platform", commit=commit)


def manifest(name: str = "p", kind: str = "ConfigMap", api: str = "v1", **fields: Any) -> str:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return json.dumps({"apiVersion": api, "kind": kind, "metadata": metadata, **fields})


def of(catalog: Catalog, *names: str, **changes: Any) -> Catalog:
    """Its objects of these names, and the definitions of their kinds; all of it without names."""
    namespaced_by_kind = scopes_in(catalog)
    keys = {key for key in object_keys(catalog, namespaced_by_kind) if not names or key.name in names}
    kinds = {*catalog.definitions, *catalog.broken} if not names else {key.group_kind for key in keys}
    content = ProjectedContent(
        keys,
        close_definitions(catalog, kinds),
        changes.get("patches", {}),
        changes.get("refused", {}),
        changes.get("keeps_left_out", False),
    )
    return project(
        catalog,
        content,
        namespaces=changes.get("namespaces", {}),
        namespaced_by_kind=namespaced_by_kind,
        previous=changes.get("previous"),
    )


def names(catalog: Catalog) -> list[str]:
    return [declared.manifest["metadata"]["name"] for declared in catalog.objects]


def test_a_projection_holds_what_is_wanted_and_shares_it() -> None:
    """S3-2: a kind of which nothing is wanted is not there; and nothing is held twice."""
    nested = {"id": "o", "template": {"apiVersion": f"{GROUP}/v1", "kind": "Other", "metadata": {"name": "o"}}}
    whole = read(
        a=definition("Link", [nested]),
        b=definition("Other", [config_map("a")]),
        c=definition("Third", [config_map("a")]),
        d=instance("Link", "x"),
        e=plain("q"),
        f=plain("r"),
    )
    found = of(whole, "x", "q")
    assert names(found) == ["x", "q"]
    assert found.definitions.keys() == {LINK, OTHER}
    assert all(found.definitions[kind] is whole.definitions[kind] for kind in found.definitions)
    assert found.objects[0] is whole.objects[0]
    assert (found.source, found.commit) == ("platform", "r1")
    assert {key.kind for key in render([found]).instances} == {"Link", "Other"}


def test_everything_is_the_catalog_itself() -> None:
    """S3-3: what renders it finds the objects that it had."""
    whole = read(a=definition("Link", [config_map("a")]), b=instance("Link", "x"), c=plain("q"))
    assert of(whole).objects is whole.objects
    assert render([of(whole)]) == render([whole])
    assert digest(of(whole)) == digest(whole)


def test_patches_change_an_object_and_keep_its_place() -> None:
    whole = read(a=f"{plain('o')}\n---\n{manifest(data={'a': '1', 'b': '2'})}")
    patches = tuple(
        ManifestPatch(value, SourceLocation("p.yaml", line))
        for line, value in ((3, {"data": {"a": "3"}}), (7, {"data": {"b": None}}))
    )
    found = of(whole, patches={ObjectKey("", "ConfigMap", "default", "p"): patches})
    assert found.objects[0] is whole.objects[0]
    assert found.objects[1].manifest["data"] == {"a": "3"}
    assert found.objects[1].origin == SourceLocation("a.yaml", 3)
    assert whole.objects[1].manifest["data"] == {"a": "1", "b": "2"}
    assert found.problems == ()


def test_a_patch_that_makes_what_git_may_not_hold_is_told_and_refused() -> None:
    whole = read(a=manifest())
    patch = ManifestPatch(
        {"metadata": {"labels": {"applyset.kubernetes.io/part-of": "x"}}}, SourceLocation("p.yaml", 9)
    )
    found = of(whole, patches={ObjectKey("", "ConfigMap", "default", "p"): (patch,)})
    (problem,) = found.problems
    assert (problem.file, problem.line) == ("a.yaml", 1)
    assert "(as patched by p.yaml:9)" in problem.message
    assert found.objects[0].refused_reason == problem.message


def test_what_whoever_projects_refuses_stays_as_it_is() -> None:
    whole = read(a=definition("Link", [config_map("a")]), b=instance("Link", "x"))
    (key,) = object_keys(whole, scopes_in(whole))
    found = of(whole, refused={key: "two say different things"})
    assert found.objects[0].refused_reason == "two say different things"
    assert found.problems == ()
    assert next(iter(render([found]).instances.values())).error


def test_namespaces_are_mapped_where_objects_are_and_nowhere_else() -> None:
    depends_on = "/namespaces/shop/ConfigMap/q, /Namespace/shop,apps/namespaces/kept/Deployment/d"
    whole = read(
        a=manifest("shop", "Namespace"),
        b=manifest("q", metadata={"namespace": "shop"}, data={"namespace": "shop"}),
        c=manifest("d", metadata={"annotations": {"config.kubernetes.io/depends-on": depends_on}}),
        d=manifest("kept", metadata={"namespace": "kept"}),
        e=manifest("shop", "StorageClass", "storage.k8s.io/v1"),
    )
    found = of(whole, namespaces={"shop": "shop-eu", "default": "main"})
    assert [declared.manifest["metadata"] for declared in found.objects] == [
        {"name": "shop-eu"},
        {"name": "q", "namespace": "shop-eu"},
        {
            "name": "d",
            "namespace": "main",
            "annotations": {
                "config.kubernetes.io/depends-on": "/namespaces/shop-eu/ConfigMap/q,/Namespace/shop-eu,apps/namespaces/kept/Deployment/d"
            },
        },
        {"name": "kept", "namespace": "kept"},
        {"name": "shop"},
    ]
    assert found.objects[1].manifest["data"] == {"namespace": "shop"}
    assert found.objects[3] is whole.objects[3]
    assert found.problems == ()


def test_objects_that_a_map_brings_together_are_told_at_both_places() -> None:
    """And neither is written."""
    whole = read(a=manifest(metadata={"namespace": "eu"}), b=manifest(metadata={"namespace": "us"}))
    found = of(whole, namespaces={"us": "eu"})
    said = "eu/p (a.yaml:1) and us/p (b.yaml:1) are all ConfigMap/eu/p after the mapping of namespaces; map the namespaces to different ones"
    assert sorted(map(str, found.problems)) == [f"{file}.yaml:1: metadata.namespace: {said}" for file in "ab"]
    assert all(node.error for node in render([found]).sources["platform"].nodes)
    assert of(whole, "p", namespaces={"us": "apac"}).problems == ()
    assert of(whole, namespaces={"us": "eu", "eu": "us"}).problems == ()


def test_a_namespace_of_the_cluster_itself_is_refused_when_it_is_mapped_to() -> None:
    found = of(read(a=manifest()), namespaces={"default": "kube-system"})
    assert "kube-system belongs to the cluster itself" in found.problems[0].message
    assert found.objects[0].refused_reason


def test_problems_of_what_is_left_out_are_left_out() -> None:
    """So that a cluster is not told of what it does not get, and costs nothing when that changes."""
    broken = definition("Other", [config_map("a", "b"), config_map("b", "a")])
    refused = manifest("bad", metadata={"labels": {"levelgate.dev/x": "1"}})
    whole = read(a=definition("Link", [config_map("a")]), b=broken, c=instance("Link", "x"), d=refused, e=UNREADABLE)
    assert {problem.file for problem in whole.problems} == {"b.yaml", "d.yaml", "e.yaml"}
    assert {problem.file for problem in of(whole, "x").problems} == {"e.yaml"}
    assert of(whole, "x").broken == {}
    assert {problem.file for problem in of(whole, "x", "bad").problems} == {"d.yaml", "e.yaml"}


def test_rules_travel_and_what_says_where_objects_go_stays() -> None:
    own = {"apiVersion": "levelgate.dev/v1alpha1", "metadata": {"name": "w"}}
    whole = read(
        **{kind.lower(): json.dumps({**own, "kind": kind}) for kind in ("PropagationWindow", "Cluster", "Placement")}
    )
    assert [one.group_kind.kind for one in whole.destinations] == ["Cluster", "Placement"]
    assert whole.problems == ()
    found = of(whole)
    assert (found.rules, found.destinations) == (whole.rules, ())
    assert digest(whole) == digest(read(propagationwindow=json.dumps({**own, "kind": "PropagationWindow"})))


def test_what_cannot_be_told_stays_where_it_is() -> None:
    """The file of what is left out counts as one that cannot be read, so that nothing of it is removed."""
    whole = read(a=definition("Link", [config_map("a")]), b=plain("q"), c=plain("r"))
    found = of(whole, "q", keeps_left_out=True)
    assert found.unreadable_files == {"a.yaml", "c.yaml"}
    assert [found.protection.protects(f"{file}.yaml") for file in "abc"] == [True, False, True]
    assert of(whole, "q").unreadable_files == frozenset()


def test_what_is_changed_likewise_is_taken_from_before() -> None:
    """So the next commit looks at what has changed, and at nothing else."""
    files = {"a": manifest("a"), "b": manifest("b")}
    first = read(**files)
    changed = {"a.yaml": files["a"].encode(), "b.yaml": manifest("b", data={"x": "1"}).encode()}
    second = load(changed, source="platform", commit="r2", previous=first)
    before = of(first, namespaces={"default": "main"})
    after = of(second, namespaces={"default": "main"}, previous=before)
    assert after.objects[0] is before.objects[0]
    assert after.objects[1].manifest["data"] == {"x": "1"}
    moved = of(second, namespaces={"default": "other"}, previous=before)
    assert moved.objects[0].manifest["metadata"]["namespace"] == "other"


BASE = {
    "def": definition("Link", [config_map("a")]),
    "app": instance("Link", "x"),
    "cm": manifest("q"),
    "window": '{"apiVersion": "levelgate.dev/v1alpha1", "kind": "PropagationWindow", "metadata": {"name": "w"}}',
}


def test_equal_content_has_one_digest_whatever_the_commit_and_the_lines() -> None:
    moved = {**BASE, "cm": "# why\n\n" + BASE["cm"]}
    assert digest(read("r1", **BASE)) == digest(read("r2", **moved))


@pytest.mark.parametrize(
    "changed",
    [
        {"def": definition("Link", [config_map("b")])},
        {"def": definition("Link", [config_map("a", "missing")])},
        {"app": instance("Link", "y")},
        {"cm": manifest("q", data={"a": "b"})},
        {"cm": manifest("q", metadata={"labels": {"levelgate.dev/x": "1"}})},
        {"window": BASE["window"].replace('"w"}', '"v"}')},
        {"more": plain("more")},
        {"broken": UNREADABLE},
    ],
)
def test_other_content_has_another_digest(changed: dict[str, str]) -> None:
    assert digest(read(**BASE)) != digest(read(**BASE | changed))


@given(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef")))
def test_what_is_left_out_is_nothing_to_a_digest(wanted: set[str], changed: set[str]) -> None:
    """B10: a cluster that a commit does not touch costs nothing."""
    whole = read(**{name: manifest(name) for name in "abcdef"})
    later = read("r2", **{name: manifest(name, data={"x": "1"} if name in changed else {}) for name in "abcdef"})
    same = read("r3", **{name: manifest(name, data={}) for name in "abcdef"})
    keys = {key for key in object_keys(whole, {}) if key.name in wanted}
    content = ProjectedContent(keys, frozenset(), {}, {})
    found = [digest(project(one, content, namespaces={}, namespaced_by_kind={})) for one in (same, later)]
    assert (found[0] == found[1]) == (not wanted & changed)

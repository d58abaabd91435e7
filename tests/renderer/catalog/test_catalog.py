"""What one commit holds, and how little one bad file costs (rule 8, S1-23)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from renderer.catalog.catalog import Catalog, load, with_changed_files, written_versions
from renderer.catalog.file_content import declared_key
from renderer.identity import GroupKind
from tests.support.properties.repositories import GROUP, UNREADABLE, config_map, definition, instance, plain, widgets

LINK = GroupKind(GROUP, "Link")


def read(**files: str) -> Catalog:
    """Files by name without their ending."""
    return load({f"{name}.yaml": text.encode() for name, text in files.items()}, source="platform", commit="r1")


def names(catalog: Catalog) -> set[str]:
    return {item.manifest["metadata"]["name"] for item in catalog.objects}


def manifest(**metadata: Any) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def test_definitions_instances_objects_and_rules_are_told_apart() -> None:
    """S1-42: windows and policies are of the same commit as what they govern."""
    window = json.dumps(
        {"apiVersion": "levelgate.dev/v1alpha1", "kind": "PropagationWindow", "metadata": {"name": "w"}}
    )
    found = read(a=definition("Link", [config_map("a")]), b=instance("Link", "x"), c=plain("p"), d=window)
    assert set(found.definitions) == {LINK}
    assert names(found) == {"x", "p"}
    assert [rule.group_kind.kind for rule in found.rules] == ["PropagationWindow"]
    assert (found.unreadable_files, found.source, found.commit) == (frozenset(), "platform", "r1")
    assert {problem.file for problem in found.problems} <= {"d.yaml"}


def test_a_kind_is_written_in_one_version_or_in_none() -> None:
    """By plain objects and by what definitions make, in all sources together."""

    def scaler(version: str) -> dict[str, Any]:
        return {"apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}}

    kind = GroupKind("autoscaling", "HorizontalPodAutoscaler")
    defined = read(a=definition("Link", [{"id": "h", "template": scaler("v1")}]), b=instance("Link", "x"))
    one, other = read(a=json.dumps(scaler("v1"))), read(a=json.dumps(scaler("v2")))
    assert written_versions([defined, one]) == {kind: "v1", LINK: "v1"}
    assert written_versions([defined, other]) == {LINK: "v1"}
    assert written_versions([]) == {}


def test_one_broken_file_costs_only_what_it_defines() -> None:
    found = read(a=plain("p"), b=UNREADABLE, c=definition("Link", [config_map("a")]), d=instance("Link", "x"))
    assert names(found) == {"p", "x"}
    assert set(found.definitions) == {LINK}
    assert found.unreadable_files == {"b.yaml"}
    assert set(found.contents) == {f"{name}.yaml" for name in "abcd"}
    assert [problem.file for problem in found.problems] == ["b.yaml"]
    assert found.problems[0].line > 0


def test_a_file_that_git_refuses_is_unreadable_and_named() -> None:
    found = load({"a.yaml": plain("p").encode()}, refused_files={"link.yaml": "is a symbolic link"})
    assert found.unreadable_files == {"link.yaml"}
    assert set(found.contents) == {"a.yaml", "link.yaml"}
    assert list(map(str, found.problems)) == ["link.yaml: is a symbolic link"]


def test_many_documents_stand_in_one_file_and_each_knows_its_line() -> None:
    found = read(a=f"{plain('p')}\n---\n{plain('q')}\n---\n# nothing\n---\n{plain('r')}\n")
    assert [(item.manifest["metadata"]["name"], item.origin.line) for item in found.objects] == [
        ("p", 1),
        ("q", 3),
        ("r", 7),
    ]


def test_a_list_is_its_items() -> None:
    found = read(
        a=json.dumps({"apiVersion": "v1", "kind": "List", "items": [json.loads(plain("p")), json.loads(plain("q"))]})
    )
    assert names(found) == {"p", "q"}


@pytest.mark.parametrize(
    ("text", "path", "told"),
    [
        ("kind: A\nmetadata: {name: x}\n", "apiVersion", "missing"),
        ("apiVersion: v1\nmetadata: {name: x}\n", "kind", "missing"),
        ("apiVersion: v1\nkind: [a]\nmetadata: {name: x}\n", "kind", "missing"),
        ("apiVersion: v1\nkind: A\n", "metadata", "missing"),
        ("apiVersion: v2\nname: chart\n", "kind", "move files that are not manifests outside of the source's path"),
        (
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n",
            "apiVersion",
            "Levelgate does not run kustomize; commit the output of `kubectl kustomize`",
        ),
        ("apiVersion: v1\nkind: A\nmetadata: [x]\n", "metadata", "missing"),
        ("apiVersion: v1\nkind: A\nmetadata: {}\n", "metadata.name", "missing"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: 7}\n", "metadata.name", "missing"),
        ("apiVersion: v1\nkind: A\nmetadata: {generateName: x-}\n", "metadata.generateName", "set metadata.name"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: x, namespace: [a]}\n", "metadata.namespace", "must be a text"),
    ],
)
def test_documents_that_are_no_objects_are_told_and_make_their_file_unreadable(text: str, path: str, told: str) -> None:
    """What they were meant to be may be live: nothing of that file is removed."""
    found = read(a=text, b=plain("p"))
    assert names(found) == {"p"}
    assert found.unreadable_files == {"a.yaml"}
    assert [problem.path for problem in found.problems] == [path]
    assert told in found.problems[0].message


def test_a_definition_that_does_not_build_is_known_by_its_kind() -> None:
    """S0-3: its instances are held, the file's other documents stay."""
    broken = definition("Link", [config_map("a", "b"), config_map("b", "a")])
    found = read(a=f"{broken}\n---\n{plain('p')}", b=instance("Link", "x"))
    assert found.definitions == {}
    assert list(found.broken) == [LINK]
    assert str(found.broken[LINK]) == "a.yaml:1"
    assert names(found) == {"p", "x"}
    assert "a -> b -> a" in str(found.problems[0])


def test_a_definition_whose_kind_cannot_be_read_makes_its_file_unreadable() -> None:
    found = read(a=definition("Link", [config_map("a")]).replace('"kind": "Link"', '"kind": 7'))
    assert (found.definitions, found.broken, found.unreadable_files) == ({}, {}, frozenset({"a.yaml"}))


def test_two_definitions_of_a_kind_are_both_refused_and_told() -> None:
    """Nobody can tell which is right; the kind is broken, so its last revision serves on."""
    found = read(a=definition("Link", [config_map("a")]), b=definition("Link", [config_map("b")]))
    assert found.definitions == {}
    assert str(found.broken[LINK]) == "a.yaml:1"
    assert found.duplicates.describe(LINK) == "is declared at a.yaml:1 and b.yaml:1"
    told = f"spec.schema.kind: links.{GROUP} is declared at a.yaml:1 and b.yaml:1, so Levelgate ignores all declarations; keep one declaration"
    assert list(map(str, found.problems)) == [f"a.yaml:1: {told}", f"b.yaml:1: {told}"]


def test_definitions_that_make_one_crd_or_have_one_name_are_refused() -> None:
    """Kinds that differ in capitals alone have one plural; and one definition cannot make two kinds."""
    found = read(a=definition("WebApp", [config_map("a")]), b=definition("Webapp", [config_map("b")]))
    assert found.definitions == {}
    assert set(found.broken) == {GroupKind(GROUP, "WebApp"), GroupKind(GROUP, "Webapp")}
    name = json.loads(definition("Link", [config_map("a")]))["metadata"]["name"]
    other = json.loads(definition("Other", [config_map("b")])) | {"metadata": {"name": name}}
    found = read(a=definition("Link", [config_map("a")]), b=json.dumps(other))
    assert {kind.kind for kind in found.broken} == {"Link", "Other"}
    assert {problem.path for problem in found.problems} == {"metadata.name"}


def test_a_definition_that_does_not_build_counts_as_one_more() -> None:
    broken = definition("Link", [config_map("a")]).replace('"id": "a"', '"id": 7')
    found = read(a=broken, b=definition("Link", [config_map("b")]))
    assert set(found.broken) == {LINK}
    assert [problem.path for problem in found.problems if "b.yaml:1" in problem.message] == ["spec.schema.kind"] * 2


def test_a_plain_crd_beside_a_definition_is_refused_with_it() -> None:
    """And describes nothing, so that no other definition is checked against it."""
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    spec = {"group": GROUP, "names": {"kind": "Link", "plural": "links"}, "scope": "Cluster", "versions": []}
    crd = json.dumps({**kind, "metadata": {"name": f"links.{GROUP}"}, "spec": spec})
    found = read(a=definition("Link", [config_map("a")]), crd=crd)
    assert found.duplicates.crds == {f"links.{GROUP}"}
    assert [problem.file for problem in found.problems] == ["a.yaml", "crd.yaml"]
    assert found.types.described == {}


@pytest.mark.parametrize("key", ["applyset.kubernetes.io/part-of", "levelgate.dev/commit", "internal.levelgate.dev/x"])
def test_an_object_with_keys_that_git_must_not_carry_is_kept_as_refused(key: str) -> None:
    """It is not "removed from Git"."""
    found = read(a=manifest(name="p", labels={key: "x"}))
    assert names(found) == {"p"}
    assert f"metadata.labels[{key}]" in found.objects[0].refused_reason
    assert [problem.path for problem in found.problems] == [f"metadata.labels[{key}]"]
    assert found.unreadable_files == frozenset()


def test_what_only_the_server_writes_is_left_out() -> None:
    """KEP-3659. Of plain objects, and of templates: `kubectl create --dry-run` prints a status, too."""
    exported = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "p",
            "labels": {"a": "b"},
            "uid": "u",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": None,
            "managedFields": [],
        },
        "data": {"a": "b"},
        "status": {"x": 1},
    }
    template = {**exported, "status": "${schema.spec}"}
    catalog = read(a=json.dumps(exported), d=definition("Link", [{"id": "a", "template": template}]))
    for found in (catalog.objects[0].manifest, catalog.definitions[LINK].nodes[0].template.source):
        assert found["metadata"] == {"name": "p", "labels": {"a": "b"}}
        assert "status" not in found
        assert found["data"] == {"a": "b"}


def test_an_unknown_kind_of_our_own_group_is_told() -> None:
    found = read(a='{"apiVersion": "levelgate.dev/v1alpha1", "kind": "PropagationWindwo", "metadata": {"name": "w"}}')
    assert found.rules == ()
    assert "has no kind PropagationWindwo; choose from Cluster, Placement, PropagationPolicy, PropagationWindow" in str(
        found.problems[0]
    )


@pytest.mark.parametrize(
    ("namespace", "namespaced", "expected"),
    [("n", True, "n"), ("", True, "default"), (None, True, "default"), ("n", False, "")],
)
def test_an_object_without_a_namespace_goes_to_default(namespace: Any, namespaced: bool, expected: str) -> None:
    """As kubectl does."""
    declared = read(a=manifest(name="p", namespace=namespace)).objects[0]
    assert declared_key(declared, namespaced=namespaced).namespace == expected


def test_the_order_of_files_changes_nothing() -> None:
    files = {"b.yaml": plain("p").encode(), "a.yaml": UNREADABLE.encode(), "c.yaml": plain("q").encode()}
    one, other = load(files), load(dict(reversed(files.items())))
    assert one.problems == other.problems
    assert [item.manifest for item in one.objects] == [item.manifest for item in other.objects]


def test_gates_are_kept_and_an_empty_list_is_not_the_same_as_none() -> None:
    """S1-6."""
    nodes = [config_map("a", propagateWhen=[]), config_map("b", propagateWhen=["${schema.spec.on}"]), config_map("c")]
    found = read(a=definition("Link", nodes)).definitions[LINK]
    gates = [None if node.propagate_when is None else len(node.propagate_when) for node in found.nodes]
    assert (found.propagate_when, gates) == (None, [0, 1, None])


VERSIONS = {
    "plain": plain("p"),
    "other": plain("p").replace("name: p", "name: p2"),
    "moved": "\n\n" + plain("p"),
    "instance": instance("Link", "x"),
    "definition": definition("Link", [config_map("a")]),
    "crd": json.dumps(widgets("g.test", {})),
    "window": json.dumps(
        {"apiVersion": "levelgate.dev/v1alpha1", "kind": "PropagationWindow", "metadata": {"name": "w"}}
    ),
    "broken": UNREADABLE,
    "refused": json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p", "labels": {"a": 1}}}),
}


@pytest.mark.parametrize("before", VERSIONS)
@pytest.mark.parametrize("after", VERSIONS)
def test_a_commit_read_after_another_is_what_it_is_alone(before: str, after: str) -> None:
    """Whatever a file was and has become: what is not read again is as it would be read."""
    others = {"a.yaml": definition("Other", [config_map("a")]), "z.yaml": plain("z")}
    first, second = ({**others, "m.yaml": VERSIONS[name]} for name in (before, after))
    previous = load({name: text.encode() for name, text in first.items()}, source="platform", commit="r1")
    files = {name: text.encode() for name, text in second.items()}
    found, alone = (load(files, source="platform", commit="r2", previous=known) for known in (previous, None))
    assert said(found) == said(alone)
    unchanged = {id(one) for name in others for one in previous.contents[name].objects}
    assert unchanged <= set(map(id, found.objects))


def test_a_commit_tells_what_it_changes_since_the_one_before() -> None:
    """Nobody looks at the other files to find that out; where it may be more than objects, all has to be compared."""
    files = {f"{name}.yaml": plain(name).encode() for name in "abc"}
    first = load(files, source="platform", commit="r1")
    second = with_changed_files(first, {"b.yaml": plain("b", text="other").encode()}, "r2")
    assert second
    assert said(second) == said(load({**files, "b.yaml": plain("b", text="other").encode()}, commit="r2"))
    assert second.changed_objects(first) is not None
    assert [(old, new) for old, new in second.changed_objects(first) or ()] == [(first.objects[1], second.objects[1])]
    third = with_changed_files(second, {"c.yaml": plain("c", text="other").encode()}, "r3")
    assert third
    assert [new.manifest for _, new in third.changed_objects(second) or ()] == [third.objects[2].manifest]
    assert third.changed_objects(first) is None
    assert third.objects[:2] == second.objects[:2]
    assert with_changed_files(third, {"a.yaml": definition("Other", [config_map("a")]).encode()}, "r4") is None


def said(catalog: Catalog) -> dict[str, Any]:
    """All of a catalog that can be compared: functions that find lines cannot, and definitions hold some."""
    return {
        "revision": catalog.commit,
        "objects": [(one.manifest, one.origin, one.refused_reason) for one in catalog.objects],
        "rules": [(one.manifest, one.origin) for one in catalog.rules],
        "definitions": {kind: one.digest for kind, one in catalog.definitions.items()},
        "broken": catalog.broken,
        "problems": catalog.problems,
        "unreadable": catalog.unreadable_files,
        "files": list(catalog.contents),
        "kinds": set(catalog.types.described),
    }

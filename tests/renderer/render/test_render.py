"""All sources of a cluster, rendered: sets in levels, one definition for each kind, the same bytes every time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from renderer.catalog.catalog import Catalog, load
from renderer.identity import GroupKind, ObjectKey, digest, key_hash, source_parent
from renderer.render.model import READ_SUFFIX, RenderedNode, Rendering
from renderer.render.render import render
from renderer.render.world import ClusterView
from tests.support.properties.checked_platform import Files
from tests.support.properties.repositories import GROUP, config_map, definition, instance, plain, repositories

LINK = definition("Link", [config_map("a"), config_map("b", "a")])
KIND = GroupKind(GROUP, "Link")
CRD = f"CustomResourceDefinition.apiextensions.k8s.io/links.{GROUP}"


def catalog(files: Files, source: str = "platform") -> Catalog:
    return load({name: text.encode() for name, text in files.items()}, source=source)


def rendered(files: Files, world: ClusterView | None = None) -> Rendering:
    return render([catalog(files)], world)


def of_source(bundle: Rendering, source: str = "platform") -> dict[str, RenderedNode]:
    return {node.id: node for node in bundle.sources[source].nodes}


def namespace(name: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def test_a_source_has_its_crds_objects_and_instances_in_levels() -> None:
    """docs/architecture.md: namespaces and CRDs before what needs them; instances after the namespaces that their children use."""
    files = {
        "l.json": definition("Link", [config_map("a", namespace="team")]),
        "x.json": instance("Link", "x"),
        "t.json": namespace("team"),
        "p.json": plain("p", namespace="team"),
    }
    found = of_source(rendered(files))
    levels = {name: node.level for name, node in found.items()}
    assert levels == {CRD: 0, "Namespace/team": 0, "ConfigMap/team/p": 1, f"Link.{GROUP}/default/x": 1}
    assert found[f"Link.{GROUP}/default/x"].depends_on == (CRD, "Namespace/team")


def test_depends_on_asks_for_health() -> None:
    node = of_source(rendered({"p.json": plain("p", "q"), "q.json": plain("q")}))["ConfigMap/default/p"]
    assert (node.level, node.depends_on, node.healthy_first) == (
        1,
        ("ConfigMap/default/q",),
        frozenset({"ConfigMap/default/q"}),
    )


def test_objects_in_a_circle_are_told_and_all_others_go_on() -> None:
    """Rule 8."""
    files = {"p.json": plain("p", "q"), "q.json": plain("q", "p"), "r.json": plain("r"), "s.json": plain("s", "p")}
    bundle = rendered(files)
    found = of_source(bundle)
    assert {name.rpartition("/")[2]: bool(node.error) for name, node in found.items()} == {
        "p": True,
        "q": True,
        "r": False,
        "s": False,
    }
    assert "ConfigMap/default/p -> ConfigMap/default/q -> ConfigMap/default/p" in str(bundle.problems[0])


def test_an_object_that_stands_twice_is_refused_and_told_at_both_places() -> None:
    bundle = rendered({"a.json": plain("p", text="first"), "b.json": plain("p", text="second"), "c.json": plain("q")})
    told = "ConfigMap/default/p is declared at a.json:1 and b.json:1; it stays as it is until only one of them is left"
    found = of_source(bundle)
    assert (found["ConfigMap/default/p"].error, found["ConfigMap/default/q"].error) == (told, "")
    assert [str(problem) for problem in bundle.problems] == [f"a.json:1: {told}", f"b.json:1: {told}"]


@pytest.mark.parametrize(
    ("spec", "path", "told"),
    [
        ({"txt": "a"}, "spec.txt", "did you mean"),
        ({"text": 7}, "spec.text", "string"),
        ({"on": "yes"}, "spec.on", "boolean"),
    ],
)
def test_a_wrong_instance_is_told_with_its_path_and_holds_only_itself(spec: Any, path: str, told: str) -> None:
    """S1-23; missing and unknown fields by their place in the file."""
    bundle = rendered({"l.json": LINK, "x.json": instance("Link", "x", **spec), "y.json": instance("Link", "y")})
    assert [(problem.file, problem.path) for problem in bundle.problems] == [("x.json", path)]
    assert bundle.instances[ObjectKey(GROUP, "Link", "default", "x")].error
    assert not bundle.instances[ObjectKey(GROUP, "Link", "default", "y")].error


def test_missing_required_data_is_an_error_with_its_path() -> None:
    link = definition("Link", [config_map("a")]).replace(
        '"text": "string | default=one"', '"text": "string | required=true"'
    )
    bundle = rendered({"l.json": link, "x.json": instance("Link", "x")})
    assert [problem.path for problem in bundle.problems] == ["spec.text"]


def test_an_instance_of_another_version_is_told() -> None:
    bundle = rendered({"l.json": LINK, "x.json": instance("Link", "x").replace("/v1", "/v2")})
    assert "apiVersion g.test/v2 is not served" in str(bundle.problems[0])


@pytest.mark.parametrize(
    ("files", "world", "told"),
    [
        ({"l.json": definition("Link", [config_map("a", "nosuch")])}, ClusterView(), "does not build"),
        ({}, ClusterView(defined={KIND: "links"}), "is not in Git"),
    ],
)
def test_an_instance_without_its_definition_is_never_a_plain_object(
    files: Files, world: ClusterView, told: str
) -> None:
    """One catalog: held."""
    bundle = rendered({**files, "x.json": instance("Link", "x")}, world)
    key = ObjectKey(GROUP, "Link", "default", "x")
    assert told in bundle.instances[key].error
    assert not of_source(bundle)[str(key)].writable


def test_one_definition_counts_for_each_kind() -> None:
    """One catalog: the source whose set holds the CRD owns the definition; else the first."""
    other = definition("Link", [config_map("z")])
    catalogs = [catalog({"l.json": LINK}, "a"), catalog({"l.json": other, "x.json": instance("Link", "x")}, "b")]
    key = ObjectKey(GROUP, "Link", "default", "x")
    first = render(catalogs)
    assert [node.id for node in first.instances[key].nodes] == ["a", "b"]
    assert (CRD in of_source(first, "a"), CRD in of_source(first, "b")) == (True, False)
    assert "source a owns the definition" in str(first.problems[0])
    second = render(catalogs, ClusterView(owners={KIND: "b"}))
    assert [node.id for node in second.instances[key].nodes] == ["z"]
    assert (CRD in of_source(second, "a"), CRD in of_source(second, "b")) == (False, True)


def test_the_parent_of_a_source_depends_on_its_name_alone() -> None:
    """Sources."""
    assert str(source_parent("platform")) == "ConfigMap/levelgate-system/source-platform"


def test_a_plain_crd_decides_where_its_objects_live() -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.w.test"},
        "spec": {"group": "w.test", "scope": "Cluster", "names": {"kind": "Widget", "plural": "widgets"}},
    }
    widget = json.dumps({"apiVersion": "w.test/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "n"}})
    found = of_source(rendered({"c.json": json.dumps(crd), "w.json": widget}))
    assert found["Widget.w.test/w"].level == 1
    assert "namespace" not in found["Widget.w.test/w"].manifest["metadata"]


def dependencies(name: str, *nodes: dict[str, Any]) -> dict[str, list[str]]:
    """What the members of one instance record."""
    bundle = rendered({"l.json": definition("Link", list(nodes)), "x.json": instance("Link", name)})
    return bundle.instances[ObjectKey(GROUP, "Link", "default", name)].member_dependencies


def read_hash(kind: str, name: str) -> str:
    return key_hash(ObjectKey("", kind, "default", name)) + READ_SUFFIX


def test_dependencies_are_recorded_by_hash_and_what_is_only_read_is_marked() -> None:
    given = {"id": "given", "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}}
    found = dependencies("x", given, config_map("a"), config_map("b", "a", "given"))
    assert len(found["b"]) == 2
    assert read_hash("Secret", "s") in found["b"]
    assert found["a"] == []
    assert "given" not in found


def test_a_reference_that_is_made_from_others_is_a_dependency_on_these_too() -> None:
    """Who reads through it reads them."""
    first = {"id": "first", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "f"}}}
    name = "${first.metadata.name + own.metadata.name}"
    second = {"id": "second", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}}
    found = dependencies("x", first, config_map("own"), second, config_map("b", "second"))
    assert read_hash("ConfigMap", "f") in found["b"]
    assert found["b"] != [read_hash("ConfigMap", "f")], "and the object of its own"


def test_what_only_the_instance_reads_stands_on_the_members_that_go_last() -> None:
    """Its status reads too."""
    given = {"id": "given", "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}}
    found = dependencies("x", given, config_map("a"), config_map("b", "a"))
    assert found["a"] == [read_hash("Secret", "s")]
    assert len(found["b"]) == 1


def text(bundle: Rendering) -> str:
    """Everything in a bundle, in its order."""
    nodes = [
        [
            str(one.parent),
            one.error,
            [[node.id, node.level, node.depends_on, node.manifest, node.waiting] for node in one.nodes],
        ]
        for one in bundle.sets
    ]
    return digest([nodes, list(map(str, bundle.problems))])


@settings(derandomize=True, deadline=None, database=None, max_examples=60)
@given(repositories(), st.randoms(use_true_random=False))
def test_the_order_of_files_changes_not_a_byte(files: Files, random: Any) -> None:
    """docs/architecture.md: same input, same bytes out."""
    shuffled = list(files.items())
    random.shuffle(shuffled)
    assert text(rendered(files)) == text(rendered(dict(shuffled))) == text(rendered(files))


@settings(derandomize=True, deadline=None, database=None, max_examples=60)
@given(repositories())
def test_levels_have_no_gaps_and_every_edge_goes_up(files: Files) -> None:
    """S0-1, S0-2, for every set of a bundle."""
    for one in rendered(files).sets:
        level = {node.id: node.level for node in one.nodes}
        assert set(level.values()) == set(range(len(set(level.values()))))
        assert all(
            level[node.id] == 1 + max((level[name] for name in node.depends_on), default=-1) for node in one.nodes
        )


PROGRAM = """
import sys
from gitops.cli import invoke
sys.exit(invoke(["render", sys.argv[1], "-o", "json"]))
"""


def test_render_prints_the_same_bytes_under_every_hash_seed(tmp_path: Any) -> None:
    """docs/architecture.md: no set is ever iterated in the order of its hashes."""
    chain = [config_map(name, *before) for name, before in {"d": "", "a": "d", "c": "da", "b": "dac"}.items()]
    files = {"l.json": definition("Link", chain), "bad.json": definition("Bad", [config_map("q", "x", "y", "z")])}
    for name in "zyx":
        files[f"{name}.json"] = instance("Link", name)
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path.cwd())},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for seed in ("1", "2")
    ]
    one, other = (process.communicate(timeout=60) for process in running)
    assert one == other
    assert len(json.loads(one[0])["instances"]) == 3

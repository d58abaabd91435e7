"""`Placement` in Git: what is read, what is refused and how that is said, and what it selects."""

from __future__ import annotations

import pytest

from gitops.fleet.placement import (
    ObjectSelector,
    OnUnmatch,
    Placement,
    PlacementOverride,
    PlainSelector,
    read_placement,
)
from renderer import documents
from renderer.catalog.file_content import DeclaredObject
from renderer.catalog.projection import ManifestPatch
from renderer.errors import SourceLocation
from renderer.identity import GroupKind
from renderer.label_selector import LabelSelector

HEAD = """\
apiVersion: levelgate.dev/v1alpha1
kind: Placement
metadata:
  name: webapps
spec:
"""
LEAST = "  objects: {}\n  clusters: {}\n"
WEBAPP = frozenset({"webapp.kro.run"})


def read(text: str) -> Placement | list[str]:
    (document,), problems = documents.load("p.yaml", (HEAD + text).encode())
    assert problems == []
    found = read_placement(DeclaredObject(document.value, SourceLocation("p.yaml", document.line), document))
    return [str(problem) for problem in found] if isinstance(found, list) else found


def placement(text: str) -> Placement:
    found = read(text)
    assert isinstance(found, Placement), found
    return found


def test_everything_that_a_placement_can_say() -> None:
    found = placement("""\
  objects:
    rgds: [webapp.kro.run]
    instances: {matchLabels: {tier: web}}
    plain: {namespaces: [shop], kinds: [ConfigMap]}
  clusters: {matchExpressions: [{key: wave, operator: Exists}]}
  count: 2
  onUnmatch: Delete
  overrides:
  - clusters: {matchLabels: {region: us}}
    rgds: [webapp.kro.run]
    patch: {spec: {replicas: 3}}
  - patch: {metadata: {labels: {a: b}}}
""")
    assert found == Placement(
        name="webapps",
        objects=ObjectSelector(
            ("webapp.kro.run",), LabelSelector.parse("tier=web"), PlainSelector(("shop",), ("ConfigMap",))
        ),
        clusters=LabelSelector.parse("wave"),
        count=2,
        overrides=(
            PlacementOverride(
                LabelSelector.parse("region=us"),
                ("webapp.kro.run",),
                ManifestPatch({"spec": {"replicas": 3}}, SourceLocation("p.yaml", 14)),
            ),
            PlacementOverride(
                LabelSelector(), None, ManifestPatch({"metadata": {"labels": {"a": "b"}}}, SourceLocation("p.yaml", 17))
            ),
        ),
        on_unmatch=OnUnmatch.DELETE,
        origin=SourceLocation("p.yaml", 1),
    )
    least = placement(LEAST)
    assert (least.count, least.overrides, least.on_unmatch) == (None, (), OnUnmatch.ORPHAN)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  clusters: {}\n", "p.yaml:5: spec.objects: is required and not given"),
        ("  objects: {}\n", "p.yaml:5: spec.clusters: is required and not given"),
        (f"{LEAST}  count: 0\n", "p.yaml:8: spec.count: 0 is below the minimum 1"),
        (
            f"{LEAST}  onUnmatched: Delete\n",
            "p.yaml:8: spec.onUnmatched: no field 'onUnmatched'; did you mean 'onUnmatch'?",
        ),
        (
            "  objects: {rdgs: [a]}\n  clusters: {}\n",
            "p.yaml:6: spec.objects.rdgs: no field 'rdgs'; did you mean 'rgds'?",
        ),
        (
            "  objects: {}\n  clusters: {matchlabels: {a: b}}\n",
            "p.yaml:7: spec.clusters.matchlabels: no field 'matchlabels'; did you mean 'matchLabels'?",
        ),
        (
            "  objects: {}\n  clusters: {matchExpressions: [{key: a, operator: In}]}\n",
            "p.yaml:7: spec.clusters: label a: operator In needs values",
        ),
        (
            f"{LEAST}  overrides: [{{rgds: [a]}}]\n",
            "p.yaml:8: spec.overrides[0].patch: is required and not given",
        ),
        *(
            (
                f"{LEAST}  {name}: {{}}\n",
                f"p.yaml:8: spec.{name}: {name}: Levelgate does not support an order between clusters yet; remove the field",
            )
            for name in ("rollout", "pin", "skipUnreachable")
        ),
    ],
)
def test_a_mistake_says_what_where_and_what_to_do(text: str, said: str) -> None:
    assert read(text) == [said]


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ("apiVersion: v1", "apiVersion"),
        ("kind: Pod", "kind"),
        ("kind: null", "kind"),
        ("metadata: {name: a}", "metadata.name"),
        ("metadata: {namespace: a}", "metadata.namespace"),
        ("metadata: null", "metadata"),
        ("status: {a: b}", "status"),
    ],
)
def test_a_patch_makes_no_other_object(patch: str, path: str) -> None:
    found = read(f"{LEAST}  overrides:\n  - patch: {{spec: {{}}, {patch}}}\n")
    assert isinstance(found, list)
    (said,) = found
    assert said.startswith(f"p.yaml:9: spec.overrides[0].patch.{path}: ")


@pytest.mark.parametrize(
    ("objects", "takes"),
    [
        ("{}", "instance web, config in shop, namespace shop, cluster role"),
        ("{rgds: [webapp.kro.run]}", "instance web"),
        ("{rgds: ['web*']}", "instance web"),
        ("{rgds: [other.kro.run]}", ""),
        ("{instances: {matchLabels: {tier: web}}}", "instance web"),
        ("{instances: {matchLabels: {tier: db}}}", ""),
        ("{plain: {}}", "config in shop, namespace shop, cluster role"),
        ("{plain: {namespaces: [shop]}}", "config in shop, namespace shop"),
        ("{plain: {namespaces: ['*']}}", "config in shop, namespace shop"),
        ("{plain: {kinds: [ClusterRole.rbac.authorization.k8s.io]}}", "cluster role"),
        ("{rgds: [webapp.kro.run], plain: {namespaces: [shop]}}", "instance web, config in shop, namespace shop"),
    ],
)
def test_what_is_selected(objects: str, takes: str) -> None:
    """As windows do: AND between fields, OR inside. What is said of the one kind of objects says that there is nothing of the other."""
    selector = placement(f"  objects: {objects}\n  clusters: {{}}\n").objects
    found = {
        "instance web": selector.matches_instance(WEBAPP, {"tier": "web"}),
        "config in shop": selector.matches_plain(GroupKind("", "ConfigMap"), "shop"),
        "namespace shop": selector.matches_plain(GroupKind("", "Namespace"), "shop"),
        "cluster role": selector.matches_plain(GroupKind("rbac.authorization.k8s.io", "ClusterRole"), ""),
    }
    assert ", ".join(name for name, is_taken in found.items() if is_taken) == takes

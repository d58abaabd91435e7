"""The content of one file, read by itself."""

from renderer.catalog.file_content import declared_key, parse_file
from renderer.identity import GroupKind, ObjectKey

CONFIG_MAP = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
DEFINITION = b"""apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shops}
spec:
  schema: {kind: Shop, apiVersion: v1, spec: {name: nosuch}}
  resources:
  - {id: a, template: {apiVersion: v1, kind: Secret, metadata: {name: a}}}
"""


def test_documents_are_told_apart_by_their_kind() -> None:
    window = b"---\napiVersion: levelgate.dev/v1alpha1\nkind: PropagationWindow\nmetadata: {name: w}\n"
    place = b"---\napiVersion: levelgate.dev/v1alpha1\nkind: Placement\nmetadata: {name: p}\n"
    content = parse_file("a.yaml", b"---\n" + CONFIG_MAP + window + place)
    assert content.problems == ()
    assert [(len(group)) for group in (content.objects, content.rules, content.destinations)] == [1, 1, 1]


def test_a_file_that_cannot_be_read_may_hold_anything() -> None:
    content = parse_file("a.yaml", CONFIG_MAP + b"---\n[")
    assert content.unreadable
    assert content.objects == ()


def test_a_definition_that_does_not_compile_keeps_its_kind_and_its_outline() -> None:
    content = parse_file("a.yaml", DEFINITION)
    assert [kind for kind, _ in content.broken] == [GroupKind("kro.run", "Shop")]
    assert [outline.node_kinds for outline in content.outlines] == [frozenset({GroupKind("", "Secret")})]
    assert not content.unreadable


def test_an_object_that_is_refused_stays_an_object() -> None:
    content = parse_file("a.yaml", CONFIG_MAP.replace(b"name: a", b"name: a, namespace: kube-system"))
    (declared,) = content.objects
    assert "belongs to the cluster itself" in declared.refused_reason
    assert len(content.problems) == 1


def test_an_object_without_a_namespace_goes_to_default() -> None:
    (declared,) = parse_file("a.yaml", CONFIG_MAP).objects
    assert declared_key(declared, namespaced=True) == ObjectKey("", "ConfigMap", "default", "a")
    assert declared_key(declared, namespaced=False).namespace == ""


def test_a_calendar_is_only_kept() -> None:
    content = parse_file("a.ics", b"BEGIN:VCALENDAR")
    assert (content.data, content.problems, content.unreadable) == (b"BEGIN:VCALENDAR", (), False)

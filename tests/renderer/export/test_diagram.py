"""Diagrams and the ClusterRole of a definition."""

from renderer.catalog.catalog import load
from renderer.definition.compile import Definition
from renderer.export.cluster_role import AGGREGATION_LABELS, build_cluster_role
from renderer.export.diagram import render_dot, render_mermaid

TEXT = b"""apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shops}
spec:
  schema: {kind: Shop, apiVersion: v1, spec: {zones: "[]string"}}
  resources:
  - id: end
    externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}}
  - id: web
    forEach: [{zone: "${schema.spec.zones}"}]
    includeWhen: ["${has(end.data)}"]
    template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: "${zone}"}}
  - id: svc
    template: {apiVersion: v1, kind: Service, metadata: {name: "${web[0].metadata.name}"}}
"""


def compiled() -> Definition:
    (definition,) = load({"a.yaml": TEXT}).definitions.values()
    return definition


def test_mermaid_shows_kinds_of_nodes_and_of_edges() -> None:
    assert render_mermaid(compiled()).splitlines() == [
        "flowchart TD",
        '  end_[/"end<br/>ConfigMap"/]',
        '  web[["web<br/>Deployment<br/>for each zone"]]',
        '  svc["svc<br/>Service"]',
        "  end_ -.-> web",
        "  web --> svc",
    ]


def test_dot_shows_the_same() -> None:
    lines = render_dot(compiled()).splitlines()
    assert lines[0] == 'digraph "Shop.kro.run" {'
    assert '  "end" -> "web" [style=dotted];' in lines
    assert '  "web" -> "svc";' in lines


def test_a_role_writes_templates_and_reads_references() -> None:
    role = build_cluster_role(compiled())
    assert role["metadata"] == {"name": "levelgate-shops", "labels": AGGREGATION_LABELS}
    rules = {(rule["apiGroups"][0], *rule["resources"]): "create" in rule["verbs"] for rule in role["rules"]}
    assert rules == {
        ("kro.run", "shops"): True,
        ("kro.run", "shops/status"): False,
        ("", "services"): True,
        ("apps", "deployments"): True,
        ("", "configmaps"): False,
    }

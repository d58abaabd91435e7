"""An example instance of a definition."""

from typing import Any

from renderer.catalog.catalog import load
from renderer.definition.compile import Definition
from renderer.export.example import build_example
from renderer.schema import validate

TEXT = """apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: x}
spec:
  schema:
    kind: Shop
    apiVersion: v1
    scope: SCOPE
    spec:
      name: string | required=true pattern="^v[0-9]" maxLength=8
      size: integer | default=3 maximum=9
      mode: string | required=true enum="fast,slow"
      ports: "[]integer | required=true minItems=2 listType=set"
      note: string
      labels: map[string]string
"""


def compiled(scope: str = "Namespaced") -> Definition:
    (definition,) = load({"a.yaml": TEXT.replace("SCOPE", scope).encode()}).definitions.values()
    return definition


def test_required_fields_and_defaults_are_given_and_fit() -> None:
    definition = compiled()
    example = build_example(definition)
    spec: dict[str, Any] = example["spec"]
    assert example["metadata"] == {"name": "my-shop", "namespace": "default"}
    assert spec == {"name": "v1.0.0", "size": 3, "mode": "fast", "ports": [1, 2]}
    assert validate(definition.spec_schema, spec) == []


def test_all_fields_can_be_asked_for() -> None:
    definition = compiled()
    spec = build_example(definition, all_fields=True)["spec"]
    assert spec.keys() == {"name", "size", "mode", "ports", "note", "labels"}
    assert validate(definition.spec_schema, spec) == []


def test_an_instance_of_a_cluster_has_no_namespace() -> None:
    assert build_example(compiled("Cluster"))["metadata"] == {"name": "my-shop"}

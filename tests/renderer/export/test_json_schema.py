"""JSON Schemas for editors."""

from renderer.catalog.catalog import load
from renderer.definition.compile import Definition
from renderer.export.json_schema import combine_schemas, definition_schema, instance_schema, object_schema

TEXT = b"""apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shops}
spec:
  schema:
    kind: Shop
    apiVersion: v1
    spec: {name: string | required=true, tags: "[]string | listType=set", free: object}
"""


def compiled() -> Definition:
    (definition,) = load({"a.yaml": TEXT}).definitions.values()
    return definition


def test_an_instance_has_its_kind_and_no_unknown_fields() -> None:
    schema = instance_schema(compiled())
    assert schema["properties"]["apiVersion"] == {"const": "kro.run/v1"}
    assert schema["required"] == ["apiVersion", "kind", "metadata", "spec"]
    spec = schema["properties"]["spec"]
    assert spec["additionalProperties"] is False
    assert spec["properties"]["tags"]["uniqueItems"] is True
    assert spec["properties"]["free"] == {"type": "object"}


def test_fields_of_a_definition_may_be_null() -> None:
    spec = definition_schema()["properties"]["spec"]["properties"]
    assert spec["resources"]["type"] == ["array", "null"]
    assert spec["resources"]["items"]["required"] == ["id"]


def test_a_whole_object_has_one_word_for_its_kind() -> None:
    schema = object_schema(
        {"type": "object", "properties": {"apiVersion": {"enum": ["g/v1"]}, "kind": {"enum": ["Shop"]}, "spec": {}}}
    )
    assert schema["properties"] == {"apiVersion": {"const": "g/v1"}, "kind": {"const": "Shop"}, "spec": {}}
    assert schema["title"] == "Shop"


def test_combined_schemas_check_only_their_own_kinds() -> None:
    (branch,) = combine_schemas([instance_schema(compiled())])["allOf"]
    assert branch["if"] == {"properties": {"apiVersion": {"const": "kro.run/v1"}, "kind": {"const": "Shop"}}}
    assert "$schema" not in branch["then"]

"""What we know about the built-in kinds without a cluster."""

from collections.abc import Mapping
from typing import Any

from renderer import builtin_kinds
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.schemas import published


def test_a_kind_has_its_schema_and_the_definitions_that_it_refers_to() -> None:
    deployment = builtin_kinds.load_builtin_schemas().schema("apps", "v1", "Deployment")
    assert deployment is not None
    reference = deployment["properties"]["spec"]["allOf"][0]["$ref"].rpartition("/")[2]
    assert builtin_kinds.load_builtin_schemas().definitions[reference]["required"] == ["selector", "template"]


def test_lists_say_how_they_merge() -> None:
    ports = builtin_kinds.load_builtin_schemas().definitions["io.k8s.api.core.v1.ServiceSpec"]["properties"]["ports"]
    assert ports["x-kubernetes-list-type"] == "map"
    assert ports["x-kubernetes-list-map-keys"] == ["port", "protocol"]


def test_what_is_not_built_in_has_no_schema() -> None:
    assert builtin_kinds.load_builtin_schemas().schema("kro.run", "v1alpha1", "ResourceGraphDefinition") is None


def test_a_property_may_be_called_description() -> None:
    """`make schemas` drops prose, not fields."""
    crd = builtin_kinds.load_builtin_schemas().definitions[
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    ]
    assert crd["properties"]["description"] == {"type": "string"}


def _without_kinds(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves out which kinds a definition is of: `DeleteOptions` is listed for every group that has custom kinds."""
    return {name: value for name, value in definition.items() if name != "x-kubernetes-group-version-kind"}


def test_the_file_is_what_the_server_publishes(control_plane: ControlPlane) -> None:
    """If not: `make schemas`. Other tests may have added kinds to the server."""
    now, known = published(control_plane), builtin_kinds.load_builtin_schemas()
    assert now["version"] == known.version
    for name, definition in known.definitions.items():
        assert _without_kinds(now["definitions"][name]) == _without_kinds(definition)
    assert now["kinds"].items() >= known.kinds.items()
    assert [group for group in now["discovery"] if group in known.discovery] == known.discovery

"""ResourceGraphDefinitions of ConfigMaps, as text and compiled."""

from __future__ import annotations

import textwrap
from typing import Any

from renderer import documents
from renderer.catalog.catalog import load
from renderer.definition.compile import Definition, compile_definition
from renderer.definition.kind_schemas import KindSchemas
from renderer.definition.type_check import check_definition
from renderer.documents import dump


def resource(node_id: str, *reads: str, **more: Any) -> dict[str, Any]:
    """Return a ConfigMap node that reads the names of the nodes *reads*."""
    data = {"name": "${schema.spec.name}", **{other: f"${{{other}.metadata.name}}" for other in reads}}
    metadata = {"name": f"${{schema.metadata.name}}-{node_id.lower()}"}
    return {
        "id": node_id,
        "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
        **more,
    }


def source(*resources: Any, spec: Any = None, **schema: Any) -> str:
    """Return the text of the definition `apps` with these resources."""
    described = {
        "apiVersion": "v1alpha1",
        "kind": "App",
        "spec": spec or {"name": "string", "size": "integer | default=1"},
        **schema,
    }
    value = {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": "apps"},
        "spec": {"schema": described, "resources": list(resources)},
    }
    return dump([value])


def compiled(text: str) -> Definition:
    """Compile a definition that has no mistakes."""
    found, problems = documents.load("platform/db.yaml", textwrap.dedent(text).encode())
    assert problems == []
    result = check_definition(compile_definition(found[0]), KindSchemas())
    assert result.problems == ()
    return result.definition


def mistakes(text: str) -> list[str]:
    """Return the mistakes in a definition, as a person reads them."""
    catalog = load({"platform/db.yaml": textwrap.dedent(text).encode()})
    assert (len(catalog.definitions), len(catalog.broken)) != (1, 0)
    return list(map(str, catalog.problems))

"""What docs/definitions.md shows works as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from renderer.catalog.catalog import load
from renderer.documents import dump
from renderer.identity import ObjectKey
from renderer.render.render import render

PAGE = Path("docs/definitions.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def fragment(start: str) -> Any:
    (text,) = (example for example in EXAMPLES if example.startswith(start))
    return yaml.safe_load(text)


def test_the_complete_definition_renders_its_instance() -> None:
    whole = [text for text in EXAMPLES if text.startswith("apiVersion:")]
    files = {f"{index}.yaml": text.encode() for index, text in enumerate(whole)}
    bundle = render([load(files)])
    assert bundle.problems == ()
    page = bundle.instances[ObjectKey("example.com", "Page", "staging", "hello")]
    assert [(node.id, node.level, node.writable) for node in page.nodes] == [
        ("content", 0, True),
        ("service", 1, True),
    ]


def test_the_fragments_are_parts_of_a_definition() -> None:
    web = {
        "id": "web",
        "template": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {}},
    }
    schema = {
        "apiVersion": "v1",
        "kind": "Shown",
        "spec": {"zones": "[]string", "sizes": "[]string", "team": "string"},
        **fragment("status:"),
    }
    resources = [*fragment("- id: workers"), *fragment("- id: databases"), web]
    definition = {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": "shown"},
        "spec": {"schema": schema, "resources": resources},
    }
    instance = {
        "apiVersion": "kro.run/v1",
        "kind": "Shown",
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {"zones": ["a", "b"], "sizes": ["s", "l"], "team": "t"},
    }
    bundle = render([load({"a.yaml": dump([definition, instance]).encode()})])
    assert bundle.problems == ()
    (shown,) = bundle.instances.values()
    names = [node.key.name for node in shown.nodes if node.key and node.id.startswith("workers/")]
    assert names == ["x-a-s", "x-a-l", "x-b-s", "x-b-l"]
    (databases,) = (node for node in shown.nodes if node.id == "databases")
    assert databases.selection
    assert str(databases.selection.labels) == "team=t,tier in (gold,silver)"

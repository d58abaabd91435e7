"""A definition with every feature of the language, and hostile texts."""

from __future__ import annotations

import json
from collections.abc import Mapping

from renderer.catalog.catalog import load
from renderer.documents import dump
from renderer.export import diagram, json_schema
from renderer.export.example import build_example
from renderer.export.lint import LintFinding, lint
from renderer.render.model import Rendering
from renderer.render.render import render
from renderer.render.world import ClusterView
from tests.support.properties.repositories import GROUP, config_map, definition, deployment, instance

SPEC = {
    "text": "string | default=one",
    "on": "boolean | default=true",
    "names": '[]Name | default=["a","b"] maxItems=5',
    "deep": {"port": 'integer | default=80 minimum=1 validation="self != 7"', "free": "object"},
}
RICH = json.loads(
    definition(
        "Link",
        [
            config_map("a"),
            deployment("web", "a", includeWhen=["${schema.spec.on}", "${size(found) >= 0}"]),
            config_map("many", name="m-${n}-${z}", forEach=[{"n": "${schema.spec.names}"}, {"z": "${['x', 'y']}"}]),
            {
                "id": "found",
                "externalRef": {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {
                        "namespace": "team",
                        "selector": {
                            "matchLabels": {"a": "${schema.spec.text}"},
                            "matchExpressions": [{"key": "b", "operator": "In", "values": ["c"]}],
                        },
                    },
                },
                "readyWhen": ["${size(found) > 0}"],
            },
            {
                "id": "inner",
                "template": {
                    "apiVersion": f"{GROUP}/v1",
                    "kind": "Inner",
                    "metadata": {"name": "${web.metadata.name}"},
                    "spec": {"port": "${schema.spec.deep.port}"},
                },
            },
        ],
        spec=SPEC,
        types={"Name": "string | minLength=1"},
        status={
            "count": "${size(many)}",
            "conditions": [
                "${runtime.newCondition({type: 'Up', status: web.status.replicas == 1 ? 'True' : 'False'})}"
            ],
        },
    )
)
INNER = json.loads(definition("Inner", [config_map("i")], spec={"port": "integer", "text": "string | default=x"}))
INSTANCE = json.loads(instance("Link", "x", text="two"))
TEXT = dump([RICH, INNER, INSTANCE])


def go_through(files: Mapping[str, bytes]) -> tuple[Rendering, list[LintFinding]]:
    """Load, render, lint and export these files."""
    catalog = load(files, source="platform")
    bundle = render([catalog], ClusterView())
    findings = lint(files, catalog, bundle)
    for one in catalog.definitions.values():
        build_example(one, all_fields=True)
        json_schema.instance_schema(one)
        assert diagram.render_mermaid(one)
        assert diagram.render_dot(one)
    for rendered in bundle.instances.values():
        if rendered.conditions:
            rendered.conditions.evaluate([], [])
    return bundle, findings


def bomb(levels: int) -> str:
    """Return a YAML document whose aliases expand to 9**levels items."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


def doubled(times: int) -> str:
    """Return an expression whose value would be a text of 2**times characters."""
    text = "'a'"
    for _ in range(times):
        text = f"cel.bind(x, {text}, x + x)"
    return text

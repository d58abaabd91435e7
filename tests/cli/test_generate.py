"""`levelgate generate`: CRDs, example instances, pictures and schemas for editors, from definitions alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitops.cli import invoke
from renderer.catalog.catalog import load
from renderer.export.example import build_example
from renderer.identity import GroupKind
from renderer.schema import to_openapi, validate
from tests.support.properties.repositories import GROUP, config_map, definition

SPEC = {"name": "string | required=true", "size": "integer | default=3", "note": "string", "ports": "[]integer"}


def platform(folder: Path) -> str:
    many = config_map("many", "a", name="${n}", forEach=[{"n": "${schema.spec.ports.map(p, string(p))}"}])
    del many["template"]["data"]["text"]
    given = {"id": "end", "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}}
    first = config_map("a", includeWhen=["${string(end.data.on) == 'x'}"])
    first["template"]["data"] = {"name": "${schema.spec.name}"}
    (folder / "link.yaml").write_text(definition("Link", [first, many, given], spec=SPEC))
    (folder / "other.yaml").write_text(definition("Other", [config_map("a")], scope="Namespaced"))
    return str(folder)


def generated(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert invoke(["generate", *arguments]) == code
    return capsys.readouterr().out


def test_crds_of_a_directory_and_of_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = platform(tmp_path)
    names = [one["metadata"]["name"] for one in yaml.safe_load_all(generated(capsys, "crd", place))]
    assert names == [f"links.{GROUP}", f"others.{GROUP}"]
    found = json.loads(generated(capsys, "crd", f"{place}/link.yaml", "-o", "json"))
    assert [(one["kind"], one["spec"]["names"]["kind"]) for one in found["items"]] == [
        ("CustomResourceDefinition", "Link")
    ]


def test_a_cluster_role_holds_what_a_definition_takes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """T12: its kind and its templates can be written, what it refers to can be read, and nothing else."""
    found = list(yaml.safe_load_all(generated(capsys, "clusterrole", platform(tmp_path))))
    link = next(one for one in found if one["metadata"]["name"].startswith("levelgate-link"))
    assert link["metadata"]["labels"] == {"levelgate.dev/aggregate-to": "levelgate"}
    read = ["get", "list", "watch"]
    write = [*read, "create", "patch", "delete"]
    assert link["rules"] == [
        {"apiGroups": [GROUP], "resources": ["links"], "verbs": write},
        {"apiGroups": [GROUP], "resources": ["links/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": write},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": read},
    ]


def test_an_example_has_what_is_required_and_what_has_a_default(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = platform(tmp_path)
    found = yaml.safe_load(generated(capsys, "instance", place, "--kind", "Link"))
    assert found == {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Link",
        "metadata": {"name": "my-link", "namespace": "default"},
        "spec": {"name": "example", "size": 3},
    }
    every = yaml.safe_load(generated(capsys, "instance", place, "--kind", "Link", "--all-fields"))
    assert every["spec"] == {"name": "example", "size": 3, "note": "example", "ports": [1]}


@pytest.mark.parametrize("every", [True, False])
def test_an_example_fits_its_schema(every: bool) -> None:
    spec = {
        "a": 'string | required=true enum="x,y"',
        "b": "string | required=true minLength=12 maxLength=14",
        "c": 'string | required=true pattern="^[a-z]+\\\\.com$"',
        "d": "integer | required=true minimum=5 maximum=9",
        "e": "float | required=true maximum=-2",
        "f": "[]string | required=true minItems=3 uniqueItems=true",
        "g": "[]Item | required=true minItems=2 listType=map listMapKey=key",
        "h": {"deep": "boolean | required=true", "more": "string | default=x"},
        "i": {"only": "string | default=x"},
        "j": "map[string][]integer",
        "k": "object",
        "l": 'string | required=true pattern="^[0-9]+Gi$"',
        "m": "[]integer | required=true minItems=3 uniqueItems=true",
    }
    types = {"Item": {"key": "string | required=true", "value": "integer"}}
    text = definition("Link", [config_map("a", name="a")], spec={**spec, "text": "string"}, types=types)
    link = load({"a.yaml": text.encode()}).definitions[GroupKind(GROUP, "Link")]
    assert validate(to_openapi({**spec, "text": "string"}, types), build_example(link, all_fields=every)["spec"]) == []


def test_a_diagram_shows_order_collections_references_and_conditions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = platform(tmp_path)
    assert generated(capsys, "diagram", place, "--kind", "Link") == (
        "flowchart TD\n"
        '  end_[/"end<br/>Secret"/]\n'
        '  a["a<br/>ConfigMap"]\n'
        '  many[["many<br/>ConfigMap<br/>for each n"]]\n'
        "  end_ -.-> a\n"
        "  a --> many\n"
    )
    dot = generated(capsys, "diagram", place, "--kind", "Link", "--format", "dot")
    assert dot.startswith(f'digraph "Link.{GROUP}" {{\n')
    assert '  "end" -> "a" [style=dotted];\n  "a" -> "many";\n}\n' in dot


def test_schemas_for_editors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = platform(tmp_path)
    folder = tmp_path / "schemas"
    generated(capsys, "schema", place, "--output-dir", str(folder))
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.json"))
    assert files == [
        f"{GROUP}/link_v1.json",
        f"{GROUP}/other_v1.json",
        "kro.run/resourcegraphdefinition_v1alpha1.json",
        "levelgate.dev/config_v1alpha1.json",
        "levelgate.dev/propagationpolicy_v1alpha1.json",
        "levelgate.dev/propagationwindow_v1alpha1.json",
    ]
    config: dict[str, Any] = json.loads((folder / "levelgate.dev/config_v1alpha1.json").read_text())
    assert config["additionalProperties"] is False
    assert config["properties"]["kind"] == {"const": "Config"}
    source = config["properties"]["sources"]["items"]
    assert (source["required"], source["additionalProperties"]) == (["name", "url"], False)
    word, rule = source["properties"]["adopt"]["oneOf"]
    assert word["enum"] == ["Never", "IfEqual", "IfUnowned"]
    assert rule["additionalProperties"] is False
    policy = json.loads((folder / "levelgate.dev/propagationpolicy_v1alpha1.json").read_text())["properties"]["spec"]
    assert policy["properties"]["maxFailures"] == {"type": ["integer", "string"]}
    assert policy["properties"]["onHalt"]["enum"] == ["Stop", "ProposeRevert", "RollBack"]
    link: dict[str, Any] = json.loads((folder / GROUP / "link_v1.json").read_text())
    assert link["properties"]["kind"] == {"const": "Link"}
    spec = link["properties"]["spec"]
    assert (spec["required"], spec["additionalProperties"], spec["properties"]["size"]) == (
        ["name"],
        False,
        {"type": "integer", "default": 3},
    )
    whole = json.loads(generated(capsys, "schema", place))
    assert [one["if"]["properties"]["kind"]["const"] for one in whole["allOf"]] == [
        "ResourceGraphDefinition",
        "PropagationWindow",
        "PropagationPolicy",
        "Config",
        "Link",
        "Other",
    ]


def test_a_definition_that_does_not_build_is_told_and_the_others_are_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = platform(tmp_path)
    (tmp_path / "bad.yaml").write_text(definition("Bad", [config_map("a", "nosuch")]))
    assert invoke(["generate", "crd", place]) == 1
    printed = capsys.readouterr()
    assert len(list(yaml.safe_load_all(printed.out))) == 2
    assert "bad.yaml:1: spec.resources[0]" in printed.err


def test_what_is_no_definition_is_not_this_commands_problem(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = platform(tmp_path)
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "broken.yaml").write_text("kind: [")
    generated(capsys, "crd", place)
    (tmp_path / "broken.yaml").write_text("kind: ResourceGraphDefinition\nspec: [")
    generated(capsys, "crd", place, code=1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--kind", "Nosuch"], " defines kind Nosuch; name one of Link, Other"),
        (["nosuch"], "does not exist"),
    ],
)
def test_nothing_to_make_something_from(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], told: str
) -> None:
    assert invoke(["generate", "crd", platform(tmp_path), *arguments]) == 1
    assert told in capsys.readouterr().err

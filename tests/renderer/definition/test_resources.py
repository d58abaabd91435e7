"""The resources of a definition, compiled to nodes in levels."""

from typing import Any

import pytest

from renderer.definition.problem_collector import ProblemCollector
from renderer.definition.resources import ResourceNode, compile_nodes
from renderer.documents import load


def resource(name: str, reads: str = "", **fields: Any) -> dict[str, Any]:
    template = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"a": f"${{{reads}.metadata.name}}" if reads else "x"},
    }
    return {"id": name, "template": template, **fields}


def compiled(*resources: dict[str, Any], namespaced: bool = True) -> tuple[list[ResourceNode], list[str]]:
    (document,), _ = load("a.yaml", b"{}")
    collector = ProblemCollector(document)
    nodes = compile_nodes(list(resources), collector, namespaced=namespaced)
    return nodes, [f"{problem.path}: {problem.message}" for problem in collector.problems]


def test_nodes_are_in_levels_and_inside_them_as_declared() -> None:
    nodes, problems = compiled(resource("c", "b"), resource("b", "a"), resource("d"), resource("a"))
    assert problems == []
    assert [(node.id, node.level, node.depends_on) for node in nodes] == [
        ("d", 0, ()),
        ("a", 0, ()),
        ("b", 1, ("a",)),
        ("c", 2, ("b",)),
    ]


def test_a_condition_is_a_dependency_as_well() -> None:
    nodes, _ = compiled(resource("b", includeWhen=["${has(a.data)}"]), resource("a"))
    assert [node.id for node in nodes] == ["a", "b"]


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ([resource("a", "b"), resource("b", "a")], "dependency cycle: a -> b -> a"),
        ([resource("a"), resource("a")], "'a' is the id of two resources; change one of them"),
        ([resource("a", "a")], "is this resource itself; read it in readyWhen only"),
        ([resource("a", externalRef={})], "must have exactly one of template and externalRef"),
        ([resource("a", forEach=[{"zone": "${['x']}"}])], "must use the iterator 'zone'"),
        ([resource("a", readyWhen=["${b.data}"]), resource("b")], "'b' is not a resource or variable in scope"),
    ],
)
def test_a_mistake_leaves_no_nodes(resources: list[dict[str, Any]], message: str) -> None:
    nodes, problems = compiled(*resources)
    assert nodes == []
    assert any(message in problem for problem in problems)


def test_instances_without_a_namespace_need_namespaces_in_their_resources() -> None:
    _, problems = compiled(resource("a"), namespaced=False)
    assert "name a namespace, because instances have none" in problems[0]

"""Gates that would never open: found among definitions, with the circle (S1-23)."""

from __future__ import annotations

from typing import Any

from renderer.catalog import catalog, gate_cycles
from renderer.documents import dump
from renderer.identity import GroupKind
from tests.support.compiled_definitions import compiled, resource


def text(kind: str, *resources: Any, gates: list[str] | None = None) -> str:
    schema = {"apiVersion": "v1", "kind": kind, "spec": {"name": "string"}}
    across = {} if gates is None else {"propagateWhen": [f"${{{gate}}}" for gate in gates]}
    spec = {**across, "schema": schema, "resources": list(resources)}
    head = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": kind.lower()}}
    return dump([{**head, "spec": spec}])


def nested(node_id: str, kind: str, *reads: str, **more: Any) -> dict[str, Any]:
    """A resource that is an instance of another definition."""
    node = resource(node_id, *reads, **more)
    node["template"] = {
        "apiVersion": "kro.run/v1",
        "kind": kind,
        "metadata": {"name": "${schema.metadata.name}"},
        "spec": {"name": " ".join(f"${{{other}.metadata.name}}" for other in reads)},
    }
    return node


def reference(node_id: str, kind: str) -> dict[str, Any]:
    return {"id": node_id, "externalRef": {"apiVersion": "kro.run/v1", "kind": kind, "metadata": {"name": "x"}}}


def found(*texts: str) -> dict[str, list[str]]:
    definitions = [compiled(one) for one in texts]
    problems = gate_cycles.find_gate_cycles({definition.group_kind: definition for definition in definitions})
    return {kind.kind: list(map(str, told)) for kind, told in problems.items()}


STACK = text("Stack", nested("db", "Database"))
DATABASE = text(
    "Database", reference("stack", "Stack"), resource("volume", "stack", propagateWhen=["${stack.ready()}"])
)


def test_s1_23_a_gate_that_waits_for_what_contains_it_is_refused() -> None:
    """A database waits until the stack is ready, and the stack is ready when its database is."""
    (told,) = found(STACK, DATABASE)["Database"]
    assert told.startswith("platform/db.yaml:")
    assert "spec.resources[1].propagateWhen[0]: ${stack.ready()}: waits for itself" in told
    assert (
        "Database.kro.run/volume -> Database.kro.run/stack -> Stack.kro.run -> Stack.kro.run/db"
        " -> Database.kro.run -> Database.kro.run/volume; to open the gate, remove one of the references" in told
    )


def test_s1_23_reading_without_asking_is_no_waiting() -> None:
    for gate in ("stack.metadata.name != ''", "stack.revision() > 1"):
        readers = text(
            "Database", reference("stack", "Stack"), resource("volume", "stack", propagateWhen=[f"${{{gate}}}"])
        )
        assert found(STACK, readers) == {}


def test_s1_23_the_collection_of_a_gate_is_no_circle_by_itself() -> None:
    gates = ["linearlyReady(each, stacks)", "stacks.all(x, x.ready())", "each.ready()"]
    assert found(text("Stack", resource("a"), gates=gates)) == {}


def test_s1_23_a_pace_among_instances_that_contain_one_another_is_refused() -> None:
    """An outer stack waits for the inner one, which waits for its turn after the outer one."""
    gate = ["linearlyReady(each, stacks)"]
    ways = found(text("Stack", nested("db", "Database"), gates=gate), text("Database", nested("stack", "Stack")))
    (told,) = ways["Stack"]
    assert "Stack.kro.run -> Stack.kro.run/db -> Database.kro.run -> Database.kro.run/stack -> Stack.kro.run;" in told


def test_s1_23_a_circle_is_found_among_many() -> None:
    others = [text(f"Kind{number}", nested("next", f"Kind{number + 1}")) for number in range(50)]
    assert set(found(*others, STACK, DATABASE)) == {"Database"}


def test_s0_3_s1_23_a_definition_in_a_circle_is_broken_and_others_are_not() -> None:
    loaded = catalog.load({"a.yaml": STACK.encode(), "b.yaml": DATABASE.encode()})
    assert (set(loaded.definitions), set(loaded.broken)) == (
        {GroupKind("kro.run", "Stack")},
        {GroupKind("kro.run", "Database")},
    )
    (problem,) = loaded.problems
    assert problem.path == "spec.resources[1].propagateWhen[0]"

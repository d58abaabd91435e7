"""The index from events to keys (queue and topology 5.3): properties T1 to T7. T8, a watch that restarts, is in test_attention."""

from __future__ import annotations

import ast
import tracemalloc
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitops.reconcile.incremental import topology
from gitops.reconcile.incremental.topology import Dependencies, DependencyIndex, DependencyMatch, Labels
from renderer.identity import GroupKind, ObjectKey
from renderer.label_selector import LabelSelector, Selection
from tests.support.traces import run_under

ROUTE, POLICY = GroupKind("g.test", "Route"), GroupKind("g.test", "Policy")


def gateway(name: str) -> ObjectKey:
    return ObjectKey("g.test", "Gateway", "default", name)


def route(name: str) -> ObjectKey:
    return ObjectKey(*ROUTE, "default", name)


def policy(name: str) -> ObjectKey:
    return ObjectKey(*POLICY, "default", name)


def selection(labels: str, namespace: str | None = "default") -> Selection:
    return Selection(POLICY, namespace, LabelSelector.parse(labels))


def nodes(*ids: str) -> frozenset[str]:
    return frozenset(ids)


KEYS = st.builds(gateway, st.sampled_from("abc"))
OBJECTS = st.builds(policy, st.sampled_from("wxyz"))
NODES = st.frozensets(st.sampled_from(["one", "two"]), min_size=1)
SELECTIONS = st.builds(selection, st.sampled_from(["", "app=a", "app=b", "app=a,tier", "!tier", "app in (a,b)"]))
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from("ab"))
INTERESTS = st.builds(
    Dependencies,
    st.dictionaries(OBJECTS, st.sampled_from(["one", "two"]), max_size=3),
    st.dictionaries(OBJECTS, NODES, max_size=3),
    st.dictionaries(SELECTIONS, NODES, max_size=3),
)
PUT = st.tuples(KEYS, INTERESTS)
EVENT = st.tuples(OBJECTS, LABELS, st.booleans())


@settings(max_examples=200, deadline=None, derandomize=True)
@given(steps=st.lists(st.one_of(PUT, KEYS, EVENT), max_size=20))
def test_t1_an_index_built_anew_equals_the_one_that_followed(steps: list[Any]) -> None:
    followed, interests, seen = DependencyIndex(), dict[ObjectKey, Dependencies](), dict[ObjectKey, Labels]()
    for step in steps:
        match step:
            case ObjectKey() as key:
                followed.remove(key)
                interests.pop(key, None)
            case (key, Dependencies() as wants):
                followed.set_dependencies(key, wants)
                interests[key] = wants
            case (obj, labels, deleted):
                found = followed.find_dependents(obj, labels, deleted=deleted)
                assert found == searched(interests, obj, labels, seen.get(obj))
                if any(one.group_kind == POLICY for wants in interests.values() for one in wants.selects):
                    seen = {**seen, obj: labels}
                    if deleted:
                        del seen[obj]
    anew = DependencyIndex()
    for key, wants in interests.items():
        anew.set_dependencies(key, wants)
    assert (anew._owners, anew._readers, anew._selectors) == (
        followed._owners,
        followed._readers,
        followed._selectors,
    )


def searched(
    interests: Mapping[ObjectKey, Dependencies], obj: ObjectKey, labels: Labels, before: Labels | None
) -> dict[ObjectKey, DependencyMatch]:
    """The answer without an index."""

    def woken(wants: Dependencies) -> DependencyMatch:
        known = [labels] if before is None else [labels, before]
        hit = [ids for one, ids in wants.selects.items() if any(one.selects(obj.namespace, it) for it in known)]
        owned = nodes(wants.owns[obj]) if obj in wants.owns else nodes()
        return DependencyMatch(owned, wants.reads.get(obj, nodes()), frozenset().union(*hit))

    found = {key: woken(wants) for key, wants in interests.items()}
    return {key: one for key, one in found.items() if one != DependencyMatch()}


def steps_of(act: Callable[[], object]) -> int:
    """How many instructions of Python it takes, in whatever it calls: unlike seconds the same each time."""
    steps = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return trace

    run_under(trace, act)
    return steps


def test_t2_an_event_costs_the_same_in_a_small_and_in_a_large_world() -> None:
    """Counted in instructions: 1,000 objects and 100,000."""
    costs = []
    for size in (1_000, 100_000):
        world = DependencyIndex()
        for number in range(size // 10):
            owns = {policy(f"{number}-{one}"): str(one) for one in range(9)}
            selects = {selection(f"team=t{number}"): nodes("one")}
            world.set_dependencies(
                gateway(str(number)), Dependencies(owns, {route(str(number)): nodes("two")}, selects)
            )
        assert list(world.find_dependents(policy("7-3"), {"team": "t8"})) == [gateway("7"), gateway("8")]
        assert list(world.find_dependents(route("9"), {})) == [gateway("9")]
        events = ((policy("7-4"), {"team": "t8"}), (route("8"), dict[str, str]()))
        costs.append([steps_of(partial(world.find_dependents, obj, labels)) for obj, labels in events])
    assert costs[0] == costs[1]


@pytest.fixture
def gateways() -> DependencyIndex:
    """Two gateways, four routes, four policies: each gateway reads its routes and their policies, and has one of its own; two share a policy."""
    world = DependencyIndex()
    for name, routes in (("g1", ("r1", "r2")), ("g2", ("r3", "r4"))):
        reads = {route(one): nodes("routes") for one in routes}
        reads |= {policy(one.replace("r", "p")): nodes("policies") for one in routes}
        reads[policy("shared")] = nodes("policies")
        world.set_dependencies(gateway(name), Dependencies({policy(f"{name}-out"): "out"}, reads))
    return world


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (policy("p1"), ["g1"]),
        (policy("p3"), ["g2"]),
        (route("r2"), ["g1"]),
        (policy("shared"), ["g1", "g2"]),
        (policy("g1-out"), ["g1"]),
        (policy("stranger"), []),
    ],
)
def test_t3_gateways_routes_and_policies(
    gateways: DependencyIndex, obj: ObjectKey, expected: list[str], deleted: bool
) -> None:
    """S4-1, S4-2, S4-3, S4-4, S4-8, S4-10: a change of a route's policy concerns its gateway alone, whatever happens to it."""
    assert [key.name for key in gateways.find_dependents(obj, {}, deleted=deleted)] == expected


def test_t4_what_is_created_again_under_the_same_name_is_the_same_to_the_index(gateways: DependencyIndex) -> None:
    before = gateways.find_dependents(policy("p1"), {})
    assert gateways.find_dependents(policy("p1"), {}, deleted=True) == before
    assert (
        gateways.find_dependents(policy("p1"), {}) == before == {gateway("g1"): DependencyMatch(read=nodes("policies"))}
    )


def test_t5_a_reference_to_what_does_not_exist_yet() -> None:
    """A read by name is there before the object is; so is a selection."""
    world = DependencyIndex()
    world.set_dependencies(
        gateway("a"), Dependencies(reads={policy("later"): nodes("ref")}, selects={selection("app=a"): nodes("sel")})
    )
    assert world.find_dependents(policy("later"), {"app": "a"}) == {
        gateway("a"): DependencyMatch(read=nodes("ref"), selected=nodes("sel"))
    }


def test_t6_a_label_moves_an_object_from_one_selection_to_another() -> None:
    """Both are told: the one that loses it and the one that gets it; then only that one."""
    world = DependencyIndex()
    world.set_dependencies(gateway("a"), Dependencies(selects={selection("app=a"): nodes("sel")}))
    world.set_dependencies(gateway("b"), Dependencies(selects={selection("app in (b,c)"): nodes("sel")}))
    assert [key.name for key in world.find_dependents(policy("x"), {"app": "a"})] == ["a"]
    assert [key.name for key in world.find_dependents(policy("x"), {"app": "b"})] == ["a", "b"]
    assert [key.name for key in world.find_dependents(policy("x"), {"app": "b"})] == ["b"]
    assert [key.name for key in world.find_dependents(policy("x"), {}, deleted=True)] == ["b"]
    assert [key.name for key in world.find_dependents(policy("x"), {})] == []


def test_t7_events_that_come_twice_or_late_wake_the_same_keys(gateways: DependencyIndex) -> None:
    """An event only selects keys, so its order and number do not matter; whoever is woken reads what there is."""
    once = gateways.find_dependents(policy("p2"), {"app": "a"})
    assert gateways.find_dependents(policy("p2"), {"app": "a"}) == once
    assert gateways.find_dependents(policy("p2"), {}, deleted=True) == once
    assert gateways.find_dependents(policy("p2"), {"app": "old"}) == once


def test_the_index_keeps_little_of_each_object() -> None:
    """S4-13: who owns it under which id, and nothing that it says; what is owned counts for the index alone, its keys are the pass's."""
    objects = [policy(str(number)) for number in range(20_000)]
    keys = [gateway(str(number)) for number in range(2_000)]
    tracemalloc.start()
    world = DependencyIndex()
    for number, key in enumerate(keys):
        world.set_dependencies(key, Dependencies(dict.fromkeys(objects[10 * number : 10 * number + 10], "node")))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert list(world.find_dependents(objects[-1], {})) == [keys[-1]]
    assert used / len(objects) < 600


def test_the_index_knows_no_kind() -> None:
    """S4-15: keys, ids of nodes and selections, and how values are made; nothing of definitions, sources or Kubernetes."""
    tree = ast.parse(Path(topology.__file__).read_text())
    known = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert {name for name in known if name.partition(".")[0] in {"renderer", "applier", "gitops"}} == {
        "renderer.identity",
        "renderer.label_selector",
        "renderer.frozen",
    }

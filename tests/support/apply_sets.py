"""Rendered sets and hand-made observations, and what a plan decides of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from applier.applyset.inventory import Scope, parent_body, scope_of
from applier.applyset.member import dependencies_to_record, member_body
from applier.causes import Reason
from applier.cluster import CONTENT_MANAGER, Object
from applier.plan.constraints import PlanConstraints
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan, Plan
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.state.observed import Observed
from renderer import well_known
from renderer.catalog.catalog import load
from renderer.identity import GroupKind, ObjectKey, source_parent
from renderer.render.model import RenderedApplySet, RenderedNode, Rendering
from renderer.render.render import render
from tests.support.properties.repositories import plain
from tests.support.reference_plan import plan

CONFIG_MAP = GroupKind("", "ConfigMap")
PARENT = source_parent("platform")
DISCOVERY = asyncio.run(cluster_of(Sandbox().answer).discover())


def key(name: str) -> ObjectKey:
    return ObjectKey("", "ConfigMap", "default", name)


def bundle(*texts: str, source: str = "platform") -> Rendering:
    return render([load({f"{index}.json": text.encode() for index, text in enumerate(texts)}, source=source)])


PAIR = bundle(plain("a"), plain("b", "a"))


def owned(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        return {}
    return {f"f:{name}": owned(item) for name, item in value.items()}


def live(one: RenderedApplySet, name: str, *, drifted: str = "", **metadata: Any) -> Object:
    """A member as our own apply left it; `drifted` is a field of `data` that somebody else took."""
    node = next(node for node in one.nodes if node.key and node.key.name == name)
    deps = dependencies_to_record(None, one.member_dependencies[node.id], is_healthy=True)
    obj = member_body(one, node, dependencies=deps, live=None, parent_uid="u", commit="r")
    content = {part: obj[part] for part in obj.keys() - {"apiVersion", "kind", "metadata"}}
    content["metadata"] = {part: obj["metadata"][part] for part in ("labels", "annotations")}
    entries = [{"manager": CONTENT_MANAGER, "operation": "Apply", "fieldsV1": owned(content)}]
    if drifted:
        entries[0]["fieldsV1"]["f:data"] = {".": {}}
        entries.append({"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:data": {f"f:{drifted}": {}}}})
    obj["metadata"] |= {
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "generation": 1,
        "managedFields": entries,
        **metadata,
    }
    return obj


def parent(one: RenderedApplySet, scope: Scope | None = None) -> Object:
    wanted = scope_of((node.key for node in one.nodes if node.key), one.parent)
    obj = parent_body(one.parent, "v1", wanted if scope is None else scope, version="0")
    obj["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    return obj


def observed(*objects: Object, absent: str = "") -> Observed:
    return Observed(DISCOVERY, listed=frozenset({CONFIG_MAP})).with_objects(objects).without_objects(map(key, absent))


SOURCE = PAIR.sources["platform"]
OLD = bundle(plain("a", text="old"), plain("b", "a", text="old")).sources["platform"]
"""`SOURCE` as it was at an earlier commit."""


def decided(
    *objects: Object, of: Rendering = PAIR, absent: str = "", records: PlanConstraints | None = None, **more: Any
) -> ApplySetPlan:
    found: Plan = plan(of, replace(observed(parent(of.sources["platform"]), *objects, absent=absent), **more), records)
    return found.sets[0]


def actions(one: ApplySetPlan) -> dict[str, tuple[NodeAction, bool]]:
    return {name_of(node): (node.action, node.allowed) for node in one.nodes}


def name_of(node: NodePlan) -> str:
    assert node.node.key is not None
    return node.node.key.name


def blocked(one: ApplySetPlan, name: str) -> Reason | None:
    cause = next(node for node in one.nodes if name_of(node) == name).blocked
    return cause.reason if cause else None


def node_of(name: str, **fields: Any) -> RenderedNode:
    """Return the node `name` of `SOURCE` with other `fields`."""
    return replace(next(node for node in SOURCE.nodes if node.key == key(name)), **fields)


def of_kubectl(name: str, set_id: str = "") -> Object:
    """Return the object `name`, which a person has applied, with the label of the set `set_id`."""
    obj = live(SOURCE, name)
    obj["metadata"]["labels"] = {well_known.PART_OF: set_id} if set_id else {}
    obj["metadata"]["managedFields"] = [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {}}]
    return obj

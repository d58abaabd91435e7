"""Final states of sources, and the preview that a graph makes of them."""

from __future__ import annotations

import json

from applier.plan.model import NodeAction
from gitops.reconcile.final_state import foretold
from gitops.reconcile.preview import Preview
from renderer.identity import ObjectKey
from renderer.render.model import Rendering
from tests.support.fresh_graph import assert_as_fresh
from tests.support.git.commits import previewed
from tests.support.properties.repositories import config_map, definition, instance

GROUP = "g.test"
NAMES = "abc"
PACE = """
apiVersion: levelgate.dev/v1alpha1
kind: PropagationPolicy
metadata: {name: pace}
spec:
  shape: {linear: {n: 1}}
"""


def files(*nodes: str, pace: str = "", **more: str) -> dict[str, str]:
    link = definition("Link", [config_map(node) for node in nodes], spec={"text": "string"})
    links = {f"{name}.json": instance("Link", name, text="one") for name in NAMES}
    return {"link.json": link, **links, **({"pace.yaml": pace} if pace else {}), **more}


def created(preview: Preview) -> dict[str, list[str]]:
    """Return the names of the nodes that each plan of a preview creates."""
    plans = {"first": preview.first.plan, "due": preview.due.plan}
    if preview.staying:
        plans["staying"] = preview.staying.plan
    return {
        name: sorted(
            node.node.key.name
            for one in plan.sets
            for node in one.nodes
            if node.node.key and node.action is NodeAction.CREATE
        )
        for name, plan in plans.items()
    }


def test_everything_is_due_while_the_pace_lets_one_instance_move() -> None:
    """The final state has all instances at the new revision; the first plan is made after the grants of the rollout."""
    base = files("x", pace=PACE)
    found = previewed(base, files("x", "y", pace=PACE))
    assert created(found) == {"first": ["a-y"], "due": ["a-y", "b-y", "c-y"], "staying": ["a-y"]}
    assert [one.number for one in found.due.bundle.issued] == [2]
    assert not found.first.bundle.issued  # its revision is supposed to be stored
    places = {key.name: (one.revision, one.target_revision) for key, one in found.first.bundle.instances.items()}
    assert places == {"a": (2, 2), "b": (1, 2), "c": (1, 2)}
    assert {key.name for key in found.first.propagation.frozen} == set()
    assert {key.name for key in found.first.propagation.stays} == {"b", "c"}
    policies = {key.name: policy.name for key, policy in found.due.state.policies.items()}
    assert policies == dict.fromkeys(NAMES, "pace")


def test_without_rollouts_the_first_plan_is_the_final_one() -> None:
    found = previewed(files("x"), {name: text for name, text in files("x").items() if name != "b.json"})
    assert found.staying is None
    assert [one.rendered.parent for one in found.first.plan.sets] == [
        one.rendered.parent for one in found.due.plan.sets
    ]


def test_the_graph_of_a_preview_is_as_one_that_decided_nothing_else() -> None:
    """One graph decides the final state, then what may be done now, then what is due before instances move."""
    found = previewed(files("x", pace=PACE), files("x", "y", pace=PACE))
    assert assert_as_fresh(found.due.state.graph) > 100


def test_objects_that_others_refer_to_are_foretold_as_the_commit_leaves_them() -> None:
    external = {"id": "seen", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}}}
    reader = config_map("r")
    reader["template"]["data"] = {"seen": "${seen.data.word}"}
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain", "namespace": "default"}}
    head = {
        "link.json": definition("Link", [external, reader], spec={"text": "string"}),
        "a.json": instance("Link", "a", text="one"),
        "plain.json": json.dumps({**plain, "data": {"word": "new"}}),
    }
    found = previewed({}, head)
    (node,) = [
        node for node in found.due.bundle.instances[ObjectKey(GROUP, "Link", "default", "a")].nodes if node.id == "r"
    ]
    assert node.manifest["data"] == {"seen": "new"}
    key = ObjectKey("", "ConfigMap", "default", "plain")
    assert {name: obj["data"] for name, obj in foretold(found.due.bundle, {}).items()} == {key: {"word": "new"}}
    assert found.due.observed.objects.get(key) is None
    assert foretold(Rendering({}, {}), {}) == {}

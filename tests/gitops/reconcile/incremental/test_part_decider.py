"""Decisions about parts by the graph of everything: what a part reads itself, and what it leaves for the next look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.part_decider import PartDecider
from gitops.reconcile.incremental.scope import WidenScope
from renderer.identity import ObjectKey
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.platform import CONFIG_MAPS

SETTINGS = {
    "id": "settings",
    "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}},
}
COPY = {
    "id": "copy",
    "template": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}-copy"},
        "data": {"text": "${settings.data.text}"},
    },
}


def key(name: str) -> ObjectKey:
    return ObjectKey(GROUP, "Link", "default", name)


def part(fleet: LinkPlatform, name: str) -> ReconcileResult:
    found = fleet.call(fleet.reconciler.reconcile_roots([key(name)]))
    assert isinstance(found, ReconcileResult), found
    return found


def settings(text: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"text": text}}


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b")) as found:
        yield found


def test_an_object_that_somebody_has_made_since_it_was_absent_is_not_taken_over(fleet: LinkPlatform) -> None:
    """The absence that an earlier look has found proves nothing for a creation now."""
    fleet.push()
    for _ in range(3):
        fleet.step()
    assert fleet.at("one") == ["a", "b"]
    assert fleet.find(f"{CONFIG_MAPS}/a-app") is None
    fleet.request("POST", CONFIG_MAPS, {**settings("mine"), "metadata": {"name": "a-app"}})
    fleet.ready("a")
    found = fleet.call(fleet.reconciler.reconcile_roots([key("a")]))
    assert found == WidenScope("ConfigMap/default/a-app is replaced or adopted")
    assert fleet.request("GET", f"{CONFIG_MAPS}/a-app")["data"] == {"text": "mine"}


def test_what_an_instance_refers_to_is_read_again() -> None:
    with LinkPlatform(names=("a", "b"), more=[SETTINGS, COPY]) as fleet:
        fleet.request("POST", CONFIG_MAPS, settings("one"))
        fleet.start()
        fleet.request("PUT", f"{CONFIG_MAPS}/settings", settings("two"))
        part(fleet, "a")
        copies = [fleet.request("GET", f"{CONFIG_MAPS}/{name}-copy")["data"]["text"] for name in ("a", "b")]
        assert copies == ["two", "one"]


def test_a_whole_look_after_a_part_decides_nothing_again(fleet: LinkPlatform) -> None:
    """A part and a whole look have one memory, so what the part has found is not worked out twice."""
    fleet.start()
    fleet.settle()
    fleet.request("DELETE", f"{CONFIG_MAPS}/a-app")
    part(fleet, "a")
    part(fleet, "a")
    evaluations = fleet.reconciler.inputs.graph.cost.evaluations.copy()
    fleet.step()
    again = fleet.reconciler.inputs.graph.cost.evaluations - evaluations
    assert again["_set_plan"] == 0
    assert again["instance_set"] == 0


def test_a_part_asks_for_no_other_set(fleet: LinkPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.start()
    fleet.settle()
    decided, decide = list[ObjectKey](), PartDecider.decide

    async def decide_and_note(self: PartDecider, *args: object) -> object:
        bundle, plan, known = await decide(self, *args)  # type: ignore[arg-type]
        decided.extend(one.rendered.parent for one in plan.sets)
        assert bundle.instances.keys() == {key("a")}
        return bundle, plan, known

    monkeypatch.setattr(PartDecider, "decide", decide_and_note)
    fleet.request("DELETE", f"{CONFIG_MAPS}/b-app")
    part(fleet, "a")
    assert {one.name for one in decided} == {"a", "source-platform"}
    assert fleet.find(f"{CONFIG_MAPS}/b-app") is None

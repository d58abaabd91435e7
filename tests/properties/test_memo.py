"""What is rendered and planned with the memory of earlier passes is what is without, whatever changed in between."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applier.plan.comparison_cache import ComparisonCache
from applier.plan.constraints import PlanConstraints
from applier.plan.model import ChangePermissions, Plan
from applier.plan.node_planner import NodePlanner
from applier.plan.planner import plan
from applier.state.observed import Observed
from gitops.reconcile import step
from renderer.catalog.catalog import Catalog, load
from renderer.identity import ObjectKey, source_parent
from renderer.render import set_cache
from renderer.render.cache import RenderCache
from renderer.render.model import RenderedApplySet, Rendering
from renderer.render.render import render
from renderer.render.resolve import resolve
from renderer.render.world import ClusterView
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.platform import MERGE
from tests.support.properties.checked_platform import CheckedPlatform, Files
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.examples import examples, once
from tests.support.properties.repositories import config_map, definition, instance, repositories


def test_a_value_of_another_type_is_rendered_anew() -> None:
    """To Python 1 and true are equal, wherever they stand: of an object of a source, and of an instance of a definition that holds any value."""
    fields = {"any": "object"}
    node = config_map("a")
    node["template"]["data"] = {"is": "${string(schema.spec.any.a)}"}
    memo, found, catalog = RenderCache(), list[str](), load({})
    for value in (1, True):
        files = {
            "w.json": json.dumps(
                {"apiVersion": "w.test/v1", "kind": "W", "metadata": {"name": "w"}, "spec": {"a": value}}
            )
        }
        files |= {
            "link.json": definition("Link", [node], spec=fields),
            "x.json": instance("Link", "x", any={"a": value}),
        }
        catalog = load({name: text.encode() for name, text in files.items()}, source="platform", previous=catalog)
        bundle = render([catalog], memo=memo)
        said = {node.group_kind.kind: node.manifest for one in bundle.sets for node in one.nodes}
        found.append(json.dumps([said["W"]["spec"], said["ConfigMap"]["data"]]))
    assert found == ['[{"a": 1}, {"is": "1"}]', '[{"a": true}, {"is": "true"}]']


@examples(30)
@given(history=st.lists(repositories(), min_size=2, max_size=5), instant=st.booleans())
@once
def test_a_memo_only_saves_work(history: Sequence[Files], instant: bool) -> None:
    """Over commits, and over the rounds and passes of each, with controllers at work."""

    def checked(
        catalogs: Sequence[Catalog], world: ClusterView | None = None, memo: RenderCache | None = None
    ) -> Rendering:
        found = render(catalogs, world, memo)
        assert found == render(catalogs, world)
        return found

    def planned(
        bundle: Rendering,
        observed: Observed,
        records: PlanConstraints,
        gates: ChangePermissions,
        comparisons: ComparisonCache,
        *,
        to_final_state: bool = False,
    ) -> Plan:
        found = plan(bundle, observed, records, gates, comparisons, to_final_state=to_final_state)
        assert found == plan(bundle, observed, records, gates, to_final_state=to_final_state)
        return found

    with pytest.MonkeyPatch.context() as patch, CheckedPlatform(WitnessedCluster(instant=instant)) as platform:
        patch.setattr(step, "render", checked)
        patch.setattr(step, "plan", planned)
        for files in history:
            platform.commit(files)
            for _ in range(3):
                platform.go_on()
                platform.cluster.tick()
        assert platform.broken == []


def test_files_with_the_same_bytes_are_not_read_again() -> None:
    """The definition of an unchanged file is the same object, a changed instance is a new one."""
    files = {"l.json": definition("Link", [config_map("a")]).encode(), "x.json": instance("Link", "x").encode()}
    before = load(files)
    after = load({**files, "x.json": instance("Link", "x", text="two").encode()}, previous=before)
    (kind,) = before.definitions
    assert after.definitions[kind] is before.definitions[kind]
    assert after.objects[0].manifest["spec"] == {"text": "two"}
    assert load({"x.json": files["x.json"]}, previous=after).definitions == {}


def test_an_instance_at_which_nothing_has_changed_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that finds one of them changed renders and plans that one, and what is common to all. The status of an instance is no change of it."""
    judged, rendered = list[ObjectKey](), list[ObjectKey]()
    nodes, family = NodePlanner.plan_nodes, RenderCache.family

    def judging(judge: NodePlanner, one: RenderedApplySet, **named: Any) -> Any:
        judged.append(one.parent)
        return nodes(judge, one, **named)

    def remembered(memo: RenderCache, source: str, declared: Any, key: ObjectKey, *ground: Any) -> Any:
        found = family(memo, source, declared, key, *ground)
        if found is None:
            rendered.append(key)
        return found

    with LinkPlatform(names=("i0", "i1", "i2")) as fleet:
        fleet.start()
        fleet.step()
        monkeypatch.setattr(NodePlanner, "plan_nodes", judging)
        monkeypatch.setattr(RenderCache, "family", remembered)
        fleet.step()
        assert set(judged) == {source_parent("platform")}
        fleet.ready("i1", ready=False)
        fleet.step()
        assert {one.name for one in judged} == {"source-platform", "i1"}
        assert {one.name for one in rendered} == {"i1"}


def test_the_status_of_an_instance_does_not_have_it_rendered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written anew whenever an instance waits for somebody else; what its expressions read of it is as it was. Of its resources all counts."""
    rendered = []

    def counted(*arguments: Any, **named: Any) -> RenderedApplySet:
        rendered.append(named["source"])
        return resolve(*arguments, **named)

    with LinkPlatform(names=("i0",)) as fleet:
        fleet.start()
        monkeypatch.setattr(set_cache, "resolve", counted)
        path = f"/apis/{GROUP}/v1/namespaces/default/links/i0/status"
        fleet.request("PATCH", path, {"status": {"levelgate": {"note": "waits"}}}, MERGE)
        fleet.step()
        assert rendered == []
        fleet.ready("i0", ready=False)
        fleet.step()
        assert rendered

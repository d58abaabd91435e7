"""What a pass leaves behind when the next one takes its place: nothing."""

from __future__ import annotations

import gc
from collections import Counter
from typing import TypeVar

from applier.plan.model import ApplySetPlan
from gitops.reconcile.context import ReconcileResult
from renderer.identity import ObjectKey
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.properties.circles import circles

T = TypeVar("T")


def test_a_pass_is_given_back_when_the_next_one_is_done() -> None:
    """What Python has to search for it may keep for hours: the command lets it search rarely."""
    with LinkPlatform(gates=["${schema.metadata.name != ''}"], node_gates=["${true}"]) as fleet:
        fleet.start(paced={"shape": {"linear": {"n": 2}}})
        fleet.push("two")
        fleet.step()  # a definition is compiled once, and that leaves a few
        with circles() as found:
            for _ in range(12):
                fleet.step()
                fleet.ready(*fleet.at("two"))
                part = fleet.call(fleet.reconciler.reconcile_roots([ObjectKey(GROUP, "Link", "default", "i0")]))
                assert isinstance(part, ReconcileResult)
                fleet.call(fleet.reconciler.reconcile_grants())
                fleet.call(fleet.reconciler.report_sources())
            assert fleet.at("two")
            del part
    assert not found


def living(kind: type[T]) -> list[T]:
    """Return all objects of a type that this process holds."""
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, kind)]


def test_a_pass_leaves_one_plan_of_each_set() -> None:
    """Former plans hold the objects before the pass."""
    # Platforms of other tests may hold some already. As long as they live here, no new object has their identity.
    before = living(ApplySetPlan)
    known = set(map(id, before))
    with LinkPlatform(node_gates=["${true}"]) as fleet:
        fleet.start(paced={"shape": {"linear": {"n": "100%"}}})
        fleet.push("two")
        fleet.step()
        assert fleet.at("two")
        plans = Counter(one.rendered.parent for one in living(ApplySetPlan) if id(one) not in known)
    assert set(plans.values()) == {1}

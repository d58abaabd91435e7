"""A plan that is carried over is the one that a process would make that remembers nothing, whatever has changed of what it rests on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from applier.causes import Cause, Reason
from applier.cluster import Object
from applier.errors import Denied
from applier.plan.comparison_cache import ComparisonCache
from applier.plan.constraints import PlanConstraints
from applier.plan.model import Barrier, ChangePermissions, Plan
from applier.plan.planner import plan
from applier.state.observed import Observed
from renderer import well_known
from renderer.identity import ObjectKey
from renderer.render.model import Rendering
from tests.support.link_platform import GROUP, LinkPlatform

A, B = (ObjectKey(GROUP, "Link", "default", name) for name in "ab")
MAP, OTHER = (ObjectKey("", "ConfigMap", "default", f"{name}-app") for name in "ab")
WAITS = Cause(Reason.SUSPENDED, "a person said so")


@dataclass(frozen=True)
class Asked:
    """What a plan is made of."""

    bundle: Rendering
    observed: Observed
    records: PlanConstraints
    gates: ChangePermissions

    def made(self, comparisons: ComparisonCache | None = None) -> Plan:
        return plan(self.bundle, self.observed, self.records, self.gates, comparisons)

    def with_object(self, key: ObjectKey, **metadata: Any) -> Asked:
        live = self.observed.objects[key]
        return self.seeing({**live, "metadata": {**live["metadata"], **metadata}})

    def seeing(self, *objects: Object) -> Asked:
        return replace(self, observed=self.observed.with_objects(objects))

    def taken(self, key: ObjectKey, by: str) -> Asked:
        before = self.observed.objects[key]["metadata"]["labels"]
        return self.with_object(key, labels={**before, well_known.PART_OF: by})


@pytest.fixture(scope="module")
def settled() -> Asked:
    """Two instances at rest; what the last plan of the last pass was made of."""
    with LinkPlatform(names=("a", "b")) as fleet:
        fleet.start()
        fleet.step()
        whole = fleet.reconciler.whole
        assert whole
    return Asked(whole.begun.bundle, whole.begun.observed, whole.known.records, whole.known.propagation.gates)


def wanted_by_both(asked: Asked) -> Asked:
    one, other = asked.bundle.instances[A], asked.bundle.instances[B]
    mine = next(node for node in one.nodes if node.key == MAP)
    both = {**asked.bundle.instances, B: replace(other, nodes=(*other.nodes, mine))}
    return replace(asked, bundle=replace(asked.bundle, instances=both))


def another_member(asked: Asked) -> Asked:
    stray = asked.observed.objects[MAP]
    return asked.seeing({**stray, "metadata": {**stray["metadata"], "name": "stray", "uid": "stray"}})


CHANGES: dict[str, Callable[[Asked], Asked]] = {
    "nothing": lambda asked: asked,
    "a member is gone": lambda asked: replace(asked, observed=asked.observed.without_objects([MAP])),
    "a member is unknown": lambda asked: replace(asked, observed=asked.observed.forget([MAP])),
    "a member differs": lambda asked: asked.with_object(MAP, resourceVersion="0", annotations={}),
    "a member terminates": lambda asked: asked.with_object(MAP, deletionTimestamp="2026-11-20T12:00:00Z"),
    "a member was taken": lambda asked: asked.taken(MAP, "another"),
    "there is another member": another_member,
    "another set wants a member": wanted_by_both,
    "a write failed": lambda asked: replace(
        asked, observed=asked.observed.with_failures({MAP: Denied("no", status=403)})
    ),
    "the instance lost its finalizer": lambda asked: asked.with_object(A, finalizers=[]),
    "the instance is no parent": lambda asked: asked.with_object(A, labels={}),
    "the instance goes": lambda asked: asked.with_object(A, deletionTimestamp="2026-11-20T12:00:00Z"),
    "it is let move": lambda asked: replace(asked, gates=replace(asked.gates, targets={A: 7})),
    "it is suspended": lambda asked: replace(asked, gates=replace(asked.gates, suspended={A: WAITS})),
    "its nodes wait for all": lambda asked: replace(asked, gates=replace(asked.gates, barriers={A: Barrier.ALL})),
    "nothing may start": lambda asked: replace(asked, gates=replace(asked.gates, check=lambda _: WAITS)),
    "a new term": lambda asked: replace(asked, records=replace(asked.records, epoch=9)),
    "a fight": lambda asked: replace(asked, records=replace(asked.records, throttled_repairs={MAP: WAITS})),
    "a kind cannot be read": lambda asked: replace(
        asked, observed=asked.observed.unlisted({MAP.group_kind: Denied("no", status=403)})
    ),
}


@pytest.mark.parametrize("after", CHANGES)
@pytest.mark.parametrize("before", CHANGES)
def test_it_is_carried_only_where_it_would_be_made_alike(settled: Asked, before: str, after: str) -> None:
    """From each state to each other one, and back."""
    comparisons = ComparisonCache()
    for change in (before, after, before):
        asked = CHANGES[change](settled)
        assert asked.made(comparisons) == asked.made()


def test_what_does_not_concern_a_set_leaves_it_as_it_was(settled: Asked) -> None:
    """The status of its parent, and another set that is worked on."""
    comparisons = ComparisonCache()
    first = settled.made(comparisons)
    status = {**settled.observed.objects[A], "status": {"state": "OTHER"}}
    again = replace(settled.seeing(status), observed=settled.seeing(status).observed.without_objects([OTHER])).made(
        comparisons
    )
    (one,), (other,) = ([it for it in found.sets if it.rendered.parent == A] for found in (first, again))
    assert other.nodes is one.nodes
    assert other.parent == status
    assert [it for it in again.sets if it.rendered.parent == B] != [it for it in first.sets if it.rendered.parent == B]


def always(why: Cause | None, _: object) -> Cause | None:
    return why


def test_gates_are_asked_again(settled: Asked) -> None:
    """What they answered stands only as long as they do."""
    drifted = settled.with_object(MAP, annotations={})
    comparisons = ComparisonCache()
    for why in (None, WAITS, None):
        asked = replace(drifted, gates=replace(drifted.gates, check=partial(always, why)))
        assert asked.made(comparisons) == asked.made()


def test_a_member_that_only_another_set_wanted_is_left_behind_when_it_no_longer_does(settled: Asked) -> None:
    left = another_member(settled)
    (stray,) = left.observed.objects.keys() - settled.observed.objects.keys()
    b = left.bundle.instances[B]
    node = replace(next(node for node in b.nodes if node.key == OTHER), id="stray", key=stray)
    wanting = {**left.bundle.instances, B: replace(b, nodes=(*b.nodes, node))}
    comparisons = ComparisonCache()
    for asked in (replace(left, bundle=replace(left.bundle, instances=wanting)), left):
        assert asked.made(comparisons) == asked.made()

"""What the decisions about a fleet have read of an object, and why they were made last."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitops.reconcile import object_trace
from gitops.reconcile.object_trace import ObjectTrace, TracedRoot, trace_object
from renderer.identity import ObjectKey
from renderer.kinds import CRD
from tests.support.link_platform import GROUP, LinkPlatform

A = ObjectKey(GROUP, "Link", "default", "a")
APP = ObjectKey("apps", "Deployment", "default", "a-app")


@pytest.fixture(scope="module")
def fleet_of_three() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=tuple("abc")) as fleet:
        fleet.start()
        yield fleet


def traced(fleet: LinkPlatform, key: ObjectKey) -> ObjectTrace:
    return trace_object(fleet.reconciler.inputs.graph, key)


def plan_of(found: ObjectTrace) -> TracedRoot:
    (root,) = [root for root in found.roots if root.name == f"set_plans {A}"]
    return root


def test_a_report_of_one_object_tells_whom_it_concerns_and_that_it_was_the_cause() -> None:
    """S4-17: a Deployment that is not ready any more is the cause of the plan of its instance, and of no other."""
    with LinkPlatform(names=("a", "b")) as fleet:
        fleet.start(paced={"shape": {"linear": {"n": "100%"}}})
        fleet.step()  # the rules that the source has now are those that were accepted
        before = plan_of(traced(fleet, APP))
        fleet.ready("a", ready=False)
        fleet.step()
        found = traced(fleet, APP)
        plan = plan_of(found)
        assert found.inputs == (f"live({APP})",)
        nearest, *others = (root for root in found.roots if root.name.startswith("set_plans"))
        assert nearest == plan
        # What is live may count in plans of others, and their plans were not computed again.
        assert all(other.cause[-1] != f"live({APP})" for other in others)
        assert plan.path[0] == f"live({APP})"
        assert plan.path[-1] == plan.cause[0] == f"set_plan({A})"
        assert plan.cause[-1] == f"live({APP})"
        assert before.cause[-1] != plan.cause[-1]
        assert 1 <= plan.evaluations < 20
        assert plan.seconds > 0


def test_an_unknown_object_has_no_inputs_and_one_for_all_is_cut(fleet_of_three: LinkPlatform) -> None:
    nobody = traced(fleet_of_three, ObjectKey("", "ConfigMap", "default", "nobody"))
    assert (nobody.inputs, nobody.roots, nobody.is_complete) == ((), (), True)
    assert nobody.to_dict()["roots"] == []


def test_of_an_object_that_everything_reads_the_nearest_results_are_told(fleet_of_three: LinkPlatform) -> None:
    crd = ObjectKey(*CRD, "", f"links.{GROUP}")
    everything = traced(fleet_of_three, crd)
    assert len(everything.roots) == object_trace.MAX_ROOTS or everything.is_complete
    assert any(root.name == "rendering" for root in everything.roots)
    assert all(root.path[0].startswith(("live(", "declaration(")) for root in everything.roots)

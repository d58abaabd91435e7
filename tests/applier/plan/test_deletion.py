"""Why what somebody deleted is still there: of an instance, and of the CRD and the Namespace that hold it."""

from __future__ import annotations

from typing import Any

import pytest

from applier.applyset.inventory import Scope
from applier.causes import Cause, CauseRef, Reason
from applier.cluster import Object
from applier.plan.deletion import deleted_container, parent_cause, with_container_causes
from applier.plan.model import ApplySetPlan, NodeAction, NodePlan, Plan
from applier.state.observed import Observed
from renderer import well_known
from renderer.identity import ObjectKey, source_parent
from renderer.kinds import CRD, NAMESPACE
from renderer.render.model import RenderedApplySet, RenderedNode
from tests.support.apply_sets import DISCOVERY

LINK = ObjectKey("g.test", "Link", "prod", "x")
LINKS = ObjectKey(*CRD, "", "links.g.test")
SPACE = ObjectKey(*NAMESPACE, "", "prod")
CLOSED = Cause(
    Reason.WINDOW_CLOSED, "window freeze is closed", references=(CauseRef("Window", "freeze", Reason.WINDOW_CLOSED),)
)


def deleted(key: ObjectKey, *finalizers: str, **fields: Any) -> Object:
    metadata = {"name": key.name, "deletionTimestamp": "2026-11-20T12:00:00Z", "finalizers": [*finalizers]}
    space = {"namespace": key.namespace} if key.namespace else {}
    version = f"{key.group}/v1" if key.group else "v1"
    return {"apiVersion": version, "kind": key.kind, "metadata": {**metadata, **space}, **fields}


CRD_SPEC = {"group": "g.test", "names": {"kind": "Link"}, "versions": []}
CRD_GOES = deleted(LINKS, "cleanup", spec=CRD_SPEC)


def observed(*objects: Object) -> Observed:
    return Observed(DISCOVERY).with_objects(objects)


def planned(parent: Object, **fields: Any) -> ApplySetPlan:
    return ApplySetPlan(RenderedApplySet(LINK), parent, Scope(), **fields)


@pytest.mark.parametrize("fields", [{}, {"error": Cause(Reason.RENDER_FAILED, "no such field")}, {"not_moved": CLOSED}])
def test_a_finalizer_of_others_is_named_whatever_else_is_wrong(fields: dict[str, Any]) -> None:
    cause = parent_cause(planned(deleted(LINK, "example.com/hold"), **fields), observed())
    assert cause is not None
    assert cause.reason is Reason.DELETION_BLOCKED
    assert "example.com/hold" in cause.message


@pytest.mark.parametrize("fields", [{"detach": True}, {"finish_deletion": True}, {}])
def test_what_goes_by_itself_has_no_cause(fields: dict[str, Any]) -> None:
    assert parent_cause(planned(deleted(LINK, well_known.FINALIZER), **fields), observed()) is None


def test_a_window_that_holds_it_is_named_with_what_opens_it() -> None:
    cause = parent_cause(planned(deleted(LINK, well_known.FINALIZER), not_moved=CLOSED), observed(CRD_GOES))
    assert cause is not None
    assert cause.references == CLOSED.references
    for words in (
        "CustomResourceDefinition links.g.test",
        "window freeze is closed",
        "levelgate break-glass link/x -n prod",
    ):
        assert words in cause.message


def test_the_container_is_the_crd_or_the_namespace_that_is_deleted() -> None:
    assert deleted_container(LINK, observed(CRD_GOES)) == LINKS
    assert deleted_container(LINK, observed(deleted(SPACE))) == SPACE
    assert deleted_container(LINK, observed()) is None


def test_a_crd_says_which_instance_keeps_it_and_why() -> None:
    """In the plan of the source that wants it, and with the window behind it."""
    link = deleted(LINK, well_known.FINALIZER)
    seen = observed(CRD_GOES, link)
    held = planned(link, not_moved=CLOSED)
    held = planned(link, not_moved=CLOSED, deletion=parent_cause(held, seen))
    node = RenderedNode(str(LINKS), 0, (), CRD, {}, LINKS)
    own = NodePlan(node, NodeAction.NONE, CRD_GOES, blocked=Cause(Reason.PROGRESSING, "is being deleted"))
    source = ApplySetPlan(RenderedApplySet(source_parent("platform"), source="platform"), None, Scope(), (own,))
    told = with_container_causes(Plan((source, held)), seen).sets[0].nodes[0].blocked
    assert told is not None
    assert told.reason is Reason.DELETION_BLOCKED
    assert [one.name for one in told.references] == ["freeze", "prod/x"]
    assert "it still contains Link prod/x" in told.message
    assert "window freeze is closed" in told.message
    assert "Levelgate creates it again" in told.message

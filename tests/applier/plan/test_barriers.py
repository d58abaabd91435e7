"""Why a write may not start yet: ancestors, refusals, owners, deletions in progress."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from applier.causes import Cause, Reason
from applier.cluster import Object
from applier.errors import Denied, FieldConflict, Unavailable
from applier.plan.barriers import WriteBarriers
from applier.plan.constraints import PlanConstraints
from applier.plan.model import Barrier, ChangePermissions, DrainProgress, NodeAction
from renderer import well_known
from renderer.catalog.catalog import load
from renderer.identity import applyset_id, source_parent
from renderer.render.model import Rendering
from renderer.render.render import render
from tests.support.apply_sets import (
    PAIR,
    PARENT,
    SOURCE,
    actions,
    blocked,
    bundle,
    decided,
    key,
    live,
    observed,
    parent,
)
from tests.support.properties.repositories import plain
from tests.support.reference_plan import plan


def test_a_node_is_written_after_all_that_it_depends_on_and_not_before() -> None:
    """Rule 1: the barrier goes along the path."""
    assert actions(decided(absent="ab")) == {"a": (NodeAction.CREATE, True), "b": (NodeAction.CREATE, False)}
    assert blocked(decided(absent="ab"), "b") is Reason.DEPENDENCY_NOT_READY
    assert actions(decided(live(SOURCE, "a"), absent="b")) == {
        "a": (NodeAction.NONE, False),
        "b": (NodeAction.CREATE, True),
    }
    settled = decided(live(SOURCE, "a"), live(SOURCE, "b"))
    assert actions(settled) == {"a": (NodeAction.NONE, False), "b": (NodeAction.NONE, False)}
    assert settled.is_idle


def test_an_update_above_holds_an_update_below_but_not_its_healing() -> None:
    """Rules 1 and 6: self-healing to what is applied goes on."""
    old = bundle(plain("a", text="old"), plain("b", "a", text="old")).sources["platform"]
    assert actions(decided(live(old, "a"), live(old, "b"))) == {
        "a": (NodeAction.UPDATE, True),
        "b": (NodeAction.UPDATE, False),
    }
    assert actions(decided(live(old, "a"), live(SOURCE, "b", drifted="text")))["b"] == (NodeAction.HEAL, True)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Denied("no"), Reason.APPLY_FAILED),
        (FieldConflict("no"), Reason.CONFLICT),
        (Unavailable("no"), Reason.PROGRESSING),
    ],
)
def test_what_failed_in_this_pass_is_not_tried_again_in_it_and_holds_what_is_below(
    failure: Any, reason: Reason
) -> None:
    """S0-20: its descendants do not start; unrelated branches go on."""
    wide = bundle(plain("a"), plain("b", "a"), plain("c"))
    found = decided(of=wide, absent="abc", failures={key("a"): failure})
    assert actions(found) == {
        "a": (NodeAction.CREATE, False),
        "b": (NodeAction.CREATE, False),
        "c": (NodeAction.CREATE, True),
    }
    assert (blocked(found, "a"), blocked(found, "b")) == (reason, Reason.DEPENDENCY_NOT_READY)


def test_a_member_that_is_going_away_is_not_written() -> None:
    """Sets: the server accepts the apply and it is lost."""
    old = bundle(plain("a", text="old")).sources["platform"]
    for before in (SOURCE, old):
        going = live(before, "a", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"])
        one = decided(going, live(SOURCE, "b"))
        assert one.writes == ()
        assert blocked(one, "a") is Reason.PROGRESSING


def labelled(set_id: str, *, ours: bool) -> Object:
    obj = live(SOURCE, "a")
    obj["metadata"]["labels"][well_known.PART_OF] = set_id
    if not set_id:
        del obj["metadata"]["labels"][well_known.PART_OF]
    if not ours:
        obj["metadata"]["managedFields"] = [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {}}]
    return obj


@pytest.mark.parametrize(
    ("set_id", "ours", "reason"),
    [
        (SOURCE.id, True, None),
        ("", True, None),
        ("", False, Reason.CONFLICT),
        ("applyset-of-somebody-v1", True, Reason.OWNED_ELSEWHERE),
        (applyset_id(source_parent("other")), True, None),
    ],
    ids=["ours", "released by us", "never ours", "in a foreign set", "in one of our sets that no longer wants it"],
)
def test_which_objects_may_be_taken(set_id: str, ours: bool, reason: Reason | None) -> None:
    """Sets and "Hand-over"."""
    bundles = render([load({"0.json": plain("a").encode()}, source="platform"), load({}, source="other")])
    assert blocked(decided(labelled(set_id, ours=ours), of=bundles), "a") is reason


@pytest.mark.parametrize("place", ["live", "git"])
def test_reconcile_disabled_leaves_an_object_alone(place: str) -> None:
    text = plain("a").replace('"name": "a",', '"name": "a", "annotations": {"levelgate.dev/reconcile": "disabled"},')
    wanted = bundle(text if place == "git" else plain("a"))
    obj = live(bundle(plain("a", text="old")).sources["platform"], "a")
    if place == "live":
        obj["metadata"]["annotations"][well_known.RECONCILE] = "disabled"
    one = decided(obj, of=wanted)
    assert (one.writes, blocked(one, "a")) == ((), Reason.SUSPENDED)


def test_what_git_alone_has_disabled_git_enables_again() -> None:
    """The annotation is on the live object because we wrote it there: nobody but Git ever said so."""
    text = plain("a").replace('"name": "a",', '"name": "a", "annotations": {"levelgate.dev/reconcile": "disabled"},')
    obj = live(bundle(text).sources["platform"], "a")
    assert decided(obj, of=bundle(plain("a"))).writes
    entries = obj["metadata"]["managedFields"]
    entries.append({**entries[0], "manager": "kubectl-annotate", "operation": "Update"})
    assert blocked(decided(obj, of=bundle(plain("a"))), "a") is Reason.SUSPENDED


@pytest.mark.parametrize(
    ("barrier", "failures", "closed", "starts"),
    [
        (Barrier.PATH, {"c"}, set(), True),
        (Barrier.LEVEL, {"c"}, set(), False),
        (Barrier.LEVEL, set(), {"c"}, True),
        (Barrier.ALL, set(), {"c"}, False),
    ],
    ids=["path", "a level that failed", "a level that lacks permission", "all of a level"],
)
def test_a_level_holds_the_next_one(barrier: Barrier, failures: set[str], closed: set[str], starts: bool) -> None:
    """S0-9, S0-26: `b` depends on `a` alone, which is applied; `c` is of the level of `a`."""
    wide = bundle(plain("a"), plain("b", "a"), plain("c"))
    source = wide.sources["platform"]
    known = observed(parent(source), live(source, "a"), absent="bc")
    known = replace(known, failures={key(name): Denied("no") for name in failures})
    permissions = ChangePermissions(
        lambda change: Cause(Reason.GATE_CLOSED, "wait") if change.key.name in closed else None,
        barriers={PARENT: barrier},
    )
    found = plan(wide, known, permissions=permissions).sets[0]
    assert actions(found)["b"] == (NodeAction.CREATE, starts)


def test_the_drain_begins_with_the_first_node_that_moved() -> None:
    """A set has begun at the earliest write of what is new in it; writes of another commit do not count."""
    wide = replace(PAIR, commits={"platform": "0123456789abcdef"})
    first, second = live(SOURCE, "a"), live(SOURCE, "b")
    for obj, time in ((first, "2026-01-01T00:00:00Z"), (second, "2026-01-01T00:05:00Z")):
        obj["metadata"]["annotations"][well_known.COMMIT] = "0123456789ab"
        obj["metadata"]["managedFields"][0]["time"] = time
    moved = barriers_of(wide, first, second).drain_progress(SOURCE)
    assert moved == DrainProgress(1, datetime(2026, 1, 1, tzinfo=UTC), None)
    for obj in (first, second):
        obj["metadata"]["annotations"][well_known.COMMIT] = "fedcba987654"
    assert barriers_of(wide, first, second).drain_progress(SOURCE) is None


def barriers_of(rendering: Rendering, *objects: Object) -> WriteBarriers:
    return WriteBarriers(
        observed(*objects), {}, {SOURCE.id: SOURCE}, rendering.commits, PlanConstraints(), ChangePermissions()
    )

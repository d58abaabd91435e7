"""Plans of several sets, and what permissions have to do with a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from applier.applyset.inventory import Scope, parent_body, with_finalizer
from applier.causes import Cause, Reason
from applier.plan.model import CandidateChange, ChangePermissions
from renderer import well_known
from renderer.identity import GroupKind, ObjectKey, applyset_id
from tests.support.apply_sets import CONFIG_MAP, PAIR, PARENT, SOURCE, live, observed, parent
from tests.support.reference_plan import plan


@pytest.mark.parametrize(("tooling", "goes"), [("levelgate/v0", True), ("kubectl/v1", False)])
def test_an_instance_that_its_owner_does_not_let_go_keeps_its_members(tooling: str, goes: bool) -> None:
    """Rulings, sets: a person has deleted it, and Git has it no more; but nothing is known of what its source's set, another tool's now, may want."""
    owner = parent(SOURCE, Scope(frozenset({CONFIG_MAP, GroupKind("g.test", "Link")})))
    owner["metadata"]["annotations"][well_known.TOOLING] = tooling
    link = ObjectKey("g.test", "Link", "default", "one")
    instance = with_finalizer(parent_body(link, "g.test/v1", Scope(frozenset({CONFIG_MAP})), version="0"))
    instance["metadata"]["labels"][well_known.PART_OF] = SOURCE.id
    instance["metadata"] |= {"uid": "i", "resourceVersion": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    child = live(SOURCE, "a")
    child["metadata"] |= {"name": "child", "labels": {well_known.PART_OF: applyset_id(link)}}
    seen = observed(owner, live(SOURCE, "a"), live(SOURCE, "b"), instance, child)
    seen = replace(seen, listed=frozenset({CONFIG_MAP, GroupKind("g.test", "Link")}))
    one = next(one for one in plan(PAIR, seen).sets if one.rendered.parent == link)
    assert [(orphan.member.key.name, orphan.allowed) for orphan in one.prune_candidates] == (
        [("child", True)] if goes else []
    )
    assert not one.finish_deletion


def closed_to(*names: str) -> ChangePermissions:
    return ChangePermissions(lambda change: Cause(Reason.SUSPENDED, "wait") if change.key.name in names else None)


@pytest.mark.parametrize(
    ("gates", "stands"),
    [
        (ChangePermissions(), True),
        (closed_to("b"), True),
        (closed_to("a"), False),
        (replace(ChangePermissions(), targets={PARENT: 2}), False),
        (replace(ChangePermissions(), suspended={PARENT: Cause(Reason.SUSPENDED, "all")}), False),
    ],
    ids=["open", "closed to what was not asked", "closed", "another target", "suspended"],
)
def test_a_plan_stands_as_long_as_the_gates_would_answer_the_same(gates: ChangePermissions, stands: bool) -> None:
    """Rule 6: gates are asked about every change that could start; a plan made for other gates counts only where these say the same."""
    known, asked = observed(parent(SOURCE), absent="ab"), list[str]()

    def permit(change: CandidateChange) -> None:
        asked.append(change.key.name)

    made = plan(PAIR, known, permissions=ChangePermissions(permit))
    assert asked == ["a"]
    assert (plan(PAIR, known, permissions=gates) == made) is stands

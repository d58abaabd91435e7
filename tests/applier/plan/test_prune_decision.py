"""Fates of orphans, what protects them, and which of them may go: tables over hand-made members."""

from __future__ import annotations

from typing import Any

import pytest

from applier.causes import Cause, Reason
from applier.plan.prune_candidate import PruneCandidate, PruneOutcome
from applier.plan.prune_decision import RemovalPolicy
from renderer import well_known
from renderer.catalog.unreadable_files import UnreadableFiles
from tests.support.properties.waves import OTHER, Waves, judge, key, member, unsettled


def live(*members: Any) -> dict[str, Any]:
    return {obj["metadata"]["name"]: obj for obj in members}


CHAIN = live(
    member("a"), member("b", "a", level=1), member("c", "b", level=2), member("d", "c", level=3)
)  # d needs c needs b needs a
DIAMOND = live(
    member("a"), member("b", "a", level=1), member("c", "a", level=1), member("d", "b", "c", level=2), member("z")
)


def test_a_chain_goes_d_c_b_a() -> None:
    """S0-11."""
    waves = Waves(dict(CHAIN))
    waves.run()
    assert waves.order == [["d"], ["c"], ["b"], ["a"]]


def test_a_diamond_goes_level_by_level_and_what_is_alone_goes_at_once() -> None:
    """S0-11, S0-15: parallel inside a wave."""
    waves = Waves(dict(DIAMOND))
    waves.run()
    assert waves.order == [["d", "z"], ["b", "c"], ["a"]]


@pytest.mark.parametrize("gone", ["", "d", "dc", "dcb"])
def test_after_a_crash_between_any_two_the_order_is_the_same(gone: str) -> None:
    """S0-13: from cluster state alone."""
    waves = Waves({name: obj for name, obj in CHAIN.items() if name not in gone})
    waves.run()
    assert [name for wave in waves.order for name in wave] == [name for name in "dcba" if name not in gone]


def test_nothing_follows_until_a_terminating_member_is_absent() -> None:
    """S0-16: absent, not just marked."""
    waves = Waves(dict(CHAIN), stuck=frozenset("d"))
    waves.run()
    assert set(waves.live) == set("abcd")
    found = judge(waves.live.values())
    assert found["d"].blocked is not None
    assert found["d"].blocked.reason is Reason.DELETION_BLOCKED
    assert "and waits for stuck" in found["d"].blocked.message
    assert found["c"].blocked is not None
    assert found["c"].blocked.reason is Reason.DEPENDENCY_NOT_READY


def test_levels_of_different_generations_do_not_order_anything() -> None:
    """S0-12, S0-13: the edges of the live records do, whatever the graph of now says; here the levels say the opposite."""
    waves = Waves(live(member("a", level=7), member("b", "a", level=0)))
    waves.run()
    assert waves.order == [["b"], ["a"]]


def test_a_member_without_a_record_goes_last() -> None:
    """S0-13."""
    waves = Waves({**CHAIN, **live(member("unknown", recorded=False))})
    waves.run()
    assert waves.order[-1] == ["unknown"]


def test_a_circle_of_mixed_generations_is_cut_at_its_deepest_level() -> None:
    """KEP-3659: a commit turned "b needs a" round and died."""
    waves = Waves(live(member("a", "b", level=1), member("b", "a", level=0)))
    waves.run()
    assert waves.order == [["a"], ["b"]]


@pytest.mark.parametrize("other", ["kept", "terminating", "used"])
def test_a_circle_is_cut_although_another_orphan_cannot_go(other: str) -> None:
    """Rule 8."""
    circle = live(member("a", "b", level=1), member("b", "a", level=0))
    match other:
        case "kept":
            waves = Waves({**circle, **live(member("k", annotations={well_known.PRUNE: "disabled"}, level=5))})
        case "terminating":
            waves = Waves({**circle, **live(member("k", terminating=True, finalizers=["stuck"]))})
        case _:
            used = live(member("k"), member("user", "k"))
            waves = Waves({**circle, **used}, desired=frozenset({"user"}))
    waves.run()
    assert not {"a", "b"} & set(waves.live)


@pytest.mark.parametrize("level", [1, 5])
def test_what_a_circle_needs_goes_after_the_circle(level: int) -> None:
    """I4: "needed" has a level of another generation; only members that need one another may be cut."""
    circle = live(member("a", "b", "needed", level=1), member("b", "a", level=1))
    waves = Waves({**circle, **live(member("needed", level=level))})
    waves.run()
    assert waves.order[-1] == ["needed"]
    assert len(waves.order) > 1


@pytest.mark.parametrize(
    ("user", "free"),
    [
        (member("user", "a"), False),
        (member("user", "a~"), False),
        (member("user"), True),
        (member("user", "a", of=OTHER), False),
    ],
    ids=["needs it", "needed it at its last revision", "needs nothing", "in another set"],
)
def test_an_orphan_goes_only_when_no_live_member_records_a_dependency_on_it(user: Any, free: bool) -> None:
    """I4, S0-14: `~` marks what the newest revision dropped, until the member is healthy."""
    found = judge([member("a"), user], desired=["user"])
    assert found["a"].allowed is free
    if not free:
        assert found["a"].blocked is not None
        assert found["a"].blocked.message == "still used by ConfigMap/default/user"


@pytest.mark.parametrize(
    ("orphan", "fate", "allowed"),
    [
        (member("x"), PruneOutcome.DELETE, True),
        (member("x", annotations={well_known.PRUNE: "disabled"}), PruneOutcome.KEEP, False),
        (member("x", annotations={well_known.RECONCILE: "disabled"}), PruneOutcome.KEEP, False),
        (member("x", proven=False), PruneOutcome.KEEP, False),
        (member("x", kind="Namespace"), PruneOutcome.RELEASE, True),
        (member("x", kind="CustomResourceDefinition"), PruneOutcome.RELEASE, True),
        (member("x", kind="Namespace", annotations={well_known.PRUNE: "allowed"}), PruneOutcome.DELETE, True),
        (member("x", terminating=True), PruneOutcome.DELETE, False),
        (member("x", kind="Namespace", terminating=True), PruneOutcome.DELETE, False),
    ],
)
def test_the_fate_of_an_orphan(orphan: Any, fate: PruneOutcome, allowed: bool) -> None:
    """Sets; KEP-3659 "member proofs"."""
    found = judge([orphan])["x"]
    assert (found.outcome, found.allowed) == (fate, allowed)


def test_a_kept_orphan_is_not_allowed() -> None:
    """`allowed` says that something may be done with it; a plan with a kept orphan is idle."""
    assert not judge([member("x", proven=False)])["x"].allowed


def test_another_controllers_object_is_kept() -> None:
    """KEP-3659, "Security": operators copy labels from parents to children."""
    copied = member("x")
    copied["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "controller": True}]
    assert judge([copied])["x"].outcome is PruneOutcome.KEEP


def test_a_set_that_is_dissolved_releases_all_its_members() -> None:
    found = judge([member("a"), member("b", "a")], release=True)
    assert {orphan.outcome for orphan in found.values()} == {PruneOutcome.RELEASE}


def test_orphaned_keys_are_released_alone() -> None:
    assert RemovalPolicy(release=True).releases(key("a"))
    assert [RemovalPolicy(orphaned_keys={key("a")}).releases(key(name)) for name in "ab"] == [True, False]


def test_a_brake_holds_everything_and_says_why() -> None:
    """Rule 12."""
    found = judge(CHAIN.values(), hold="the path is gone")
    assert {(orphan.allowed, orphan.blocked) for orphan in found.values()} == {
        (False, Cause(Reason.BRAKE_ENGAGED, "the path is gone"))
    }


def test_it_holds_what_would_stay_anyway_until_something_is_written() -> None:
    """A person has to agree, also once it is written. What is kept for itself is no deletion to be held."""
    kept = member("k", annotations={well_known.PRUNE: "disabled"})
    for hold, reason in {"": Reason.DEPENDENCY_NOT_READY, "too many": Reason.BRAKE_ENGAGED}.items():
        found = judge([member("x"), kept], unsettled=[unsettled("new")], hold=hold)
        reasons = {name: one.blocked.reason for name, one in found.items() if one.blocked}
        assert reasons == {"x": reason, "k": Reason.DELETION_BLOCKED}
        assert {name for name, one in found.items() if one.is_eventually_deleted} == {"x"}


@pytest.mark.parametrize(
    ("node", "stays"),
    [
        (unsettled("b"), "ab"),
        (unsettled("d"), "abcd"),
        (unsettled("b", known=False), "abcd"),
        (unsettled("new", known=False), "abcd"),
        (unsettled("new", known=False, kind="Secret"), ""),
        (unsettled("new"), "abcd"),
    ],
    ids=[
        "by its id, and what it uses",
        "the last one protects the chain",
        "all of its kind, while its name is not known yet",
        "all of its kind, where neither name nor id is known",
        "not what is of another kind",
        "all of its kind, where its id was never recorded",
    ],
)
def test_what_an_unsettled_node_protects(node: Any, stays: str) -> None:
    """A node that waits, is held or whose apply failed protects."""
    found = judge(CHAIN.values(), unsettled=[node])
    assert {name for name, orphan in found.items() if orphan.allowed or orphan.is_being_deleted} == set("abcd") - set(
        stays
    )


@pytest.mark.parametrize(
    ("node", "told"),
    [
        (unsettled("b"), "ab"),
        (unsettled("b", known=False), "acd"),
        (unsettled("new"), "abcd"),
        (unsettled("new", known=False), "abcd"),
    ],
    ids=[
        "what it was",
        "not what it may still be",
        "all of its kind",
        "all of its kind, while its name is not known yet",
    ],
)
def test_what_stays_for_an_unsettled_node_says_so(node: Any, told: str) -> None:
    """Rule 10: that it is no longer wanted, that it stays, and because of which node; what the node may still want is not said to be unwanted."""
    kept = {
        name: one.blocked
        for name, one in judge(CHAIN.values(), unsettled=[node]).items()
        if one.outcome is PruneOutcome.KEEP
    }
    assert set(kept) == set(told)
    for blocked in filter(None, kept.values()):
        assert (blocked.reason, blocked.blockers) == (Reason.DEPENDENCY_NOT_READY, (node.id,))
        assert blocked.message.startswith(f"no longer in Git; the object stays until Levelgate writes {node.id}")


def test_an_unsettled_node_protects_the_object_that_its_id_stood_for_before() -> None:
    """Its name changed: the new one waits, the old one is still needed."""
    found = judge([member("old", node="web"), member("z")], unsettled=[unsettled("web")])
    assert {name: orphan.outcome for name, orphan in found.items()} == {
        "z": PruneOutcome.DELETE,
        "old": PruneOutcome.KEEP,
    }


@pytest.mark.parametrize(
    ("file", "stays"), [("broken.yaml", True), ("gone.yaml", True), ("fine.yaml", False), ("", True)]
)
def test_members_of_unreadable_files_are_no_orphans(file: str, stays: bool) -> None:
    """Broken input: neither those of the file, nor those whose file is absent (it may have moved)."""
    unreadable = UnreadableFiles({"broken.yaml", "fine.yaml"}, {"broken.yaml"})
    assert ("x" not in judge([member("x", file=file)], unreadable=unreadable)) is stays


def test_with_all_files_readable_an_absent_file_protects_nothing() -> None:
    assert "x" in judge([member("x", file="gone.yaml")], unreadable=UnreadableFiles({"fine.yaml"}, ()))


def test_orphans_are_listed_deepest_first() -> None:
    assert list(judge(CHAIN.values())) == ["d", "c", "b", "a"]


def test_while_its_set_still_writes_an_orphan_is_held_back() -> None:
    """S0-10: pruning is the last phase."""
    found: PruneCandidate = judge([member("x")])["x"].with_postponement("later")
    assert not found.allowed
    assert found.blocked == Cause(Reason.PROGRESSING, "later")


def test_what_is_deleted_is_told_also_where_its_file_cannot_be_read() -> None:
    """It is kept: what it owns may still be wanted."""
    waves = Waves(live(member("a", file="a.json")), stuck=frozenset("a"))
    waves.run()
    found = judge(waves.live.values(), unreadable=UnreadableFiles({"b.json"}, {"b.json"}))
    assert found["a"].outcome is PruneOutcome.KEEP
    assert found["a"].blocked is not None
    assert found["a"].blocked.reason is Reason.DELETION_BLOCKED
    assert "and waits for stuck" in found["a"].blocked.message
    assert "its file a.json is gone while another file cannot be read" in found["a"].blocked.message

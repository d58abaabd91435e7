"""Members left behind, as the record of a source keeps them."""

from __future__ import annotations

from applier.applyset.inventory import Scope
from gitops.records.left_behind import MAX_LISTED, LeftBehind, LeftBehindMember
from renderer.identity import GroupKind, ObjectKey

SETTINGS = ObjectKey("", "ConfigMap", "prod", "settings")
SHOP = ObjectKey("kro.run", "WebApp", "prod", "shop")
NAMESPACE = ObjectKey("", "Namespace", "", "old")


def members(*keys: ObjectKey) -> dict[ObjectKey, LeftBehindMember]:
    return {key: LeftBehindMember(key, "set-1") for key in keys}


def test_a_record_lists_some_and_counts_all() -> None:
    many = members(*(ObjectKey("", "ConfigMap", "prod", f"c{number:02}") for number in range(MAX_LISTED + 5)))
    left = LeftBehind.from_members(many)
    assert (left.count, len(left.members)) == (MAX_LISTED + 5, MAX_LISTED)
    assert left.scope == Scope(frozenset({GroupKind("", "ConfigMap")}), frozenset({"prod"}))
    assert "and 20 more" in left.cause.message


def test_a_stored_record_reads_as_it_was_and_an_unreadable_one_as_empty() -> None:
    left = LeftBehind.from_members({**members(SETTINGS), SHOP: LeftBehindMember(SHOP, "", has_finalizer=True)})
    assert LeftBehind.from_json(left.to_json()) == left
    assert LeftBehind.from_json({"count": "two"}) == LeftBehind()


def test_further_members_join_once_and_pruned_ones_leave() -> None:
    left = LeftBehind.from_members(members(SETTINGS))
    both = left.joined(members(SETTINGS, SHOP))
    assert (both.count, [member.key for member in both.members]) == (2, [SETTINGS, SHOP])
    kept = both.keep(lambda key: key == SHOP)
    assert (kept.count, kept.find(SETTINGS)) == (1, None)


def test_a_person_can_delete_return_or_keep_a_member() -> None:
    commands = [action.command for action in LeftBehindMember(SETTINGS, "set-1").actions]
    assert commands[0].startswith("kubectl label configmap settings -n prod ")
    assert commands[1] == "kubectl delete configmap settings -n prod"
    assert commands[2].startswith("kubectl annotate configmap settings -n prod ")


def test_nothing_offers_to_delete_a_container_or_an_instance_with_our_finalizer() -> None:
    for member in (LeftBehindMember(NAMESPACE, "set-1"), LeftBehindMember(SHOP, "", has_finalizer=True)):
        assert not any(action.command.startswith("kubectl delete") for action in member.actions)

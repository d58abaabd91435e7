"""What must not happen on a whole platform: theft, loss, endless work, and one bad thing that stops the others.

Marked `defect`: behaviours that are asked for and that the core does not have yet; the mark goes when they do (strict).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from applier.applyset.inventory import read_scope
from applier.cluster import PARENT_MANAGER, Object
from applier.errors import Denied
from applier.state.observed import label
from renderer import well_known
from renderer.identity import GroupKind, ObjectKey, applyset_id, source_parent
from tests.support.properties.checked_platform import CheckedPlatform
from tests.support.properties.repositories import GROUP, UNREADABLE, config_map, definition, deployment, instance, plain

LINK = definition("Link", [config_map("a"), config_map("b", "a")])
X = ObjectKey(GROUP, "Link", "default", "x")
SOURCE = ObjectKey("", "ConfigMap", "levelgate-system", "source-platform")


def key(name: str) -> ObjectKey:
    return ObjectKey("", "ConfigMap", "default", name)


# ---- broken input never removes


def test_a_member_is_protected_by_the_file_that_it_stands_in_now() -> None:
    """Broken input: the object moved from old.json to new.json, another took its place, then new.json broke."""
    with CheckedPlatform() as platform:
        platform.commit({"old.json": plain("p")})
        platform.settle()
        platform.commit({"new.json": plain("p"), "old.json": plain("q")})
        platform.settle()
        platform.commit({"new.json": UNREADABLE, "old.json": plain("q")})
        platform.settle()
        assert platform.members() == {"p", "q"}


def test_a_member_whose_file_is_absent_while_another_is_unreadable_stays() -> None:
    """Broken input: it may have moved."""
    with CheckedPlatform() as platform:
        platform.commit({"p.json": plain("p"), "q.json": plain("q")})
        platform.settle()
        platform.commit({"q.json": UNREADABLE})
        platform.settle()
        assert platform.members() == {"p", "q"}
        platform.commit({"q.json": plain("q")})
        platform.settle()
        assert platform.members() == {"q"}


def test_children_stay_when_an_instance_is_deleted_by_hand_while_its_file_is_unreadable() -> None:
    """Sets: children go only when the owner no longer wants the instance; unreadable is not "no longer wanted"."""
    with CheckedPlatform() as platform:
        platform.commit({"link.json": LINK, "x.json": instance("Link", "x")})
        platform.settle()
        platform.commit({"link.json": LINK, "x.json": UNREADABLE})
        platform.settle()
        platform.cluster.take_away(X)
        platform.settle()
        assert platform.members() == {"x-a", "x-b"}


def test_children_stay_when_an_instance_is_deleted_by_hand_while_its_source_is_held() -> None:
    """Rule 12: nothing is deleted while the path has vanished."""
    with CheckedPlatform() as platform:
        platform.commit({"link.json": LINK, "x.json": instance("Link", "x")})
        platform.settle()
        platform.commit({}, hold="the path does not exist", approved=False)
        platform.settle()
        platform.cluster.take_away(X)
        platform.settle()
        assert platform.members() == {"x-a", "x-b"}


def test_a_source_gets_another_name_without_a_deletion() -> None:
    """docs/configuration.md: both names for a moment, the old one with a path that holds nothing: all is handed over, and of the old one nothing
    is left.
    """
    files = {"link.json": LINK, "x.json": instance("Link", "x"), "p.json": plain("p")}
    with CheckedPlatform() as platform:
        platform.commit(files, source="old")
        platform.settle()
        before = {one: obj["metadata"]["uid"] for one, obj in platform.cluster.objects.items() if one.name[0] in "lpx"}
        platform.commit(files, source="new")
        platform.commit({}, source="old", hold="the path does not exist", approved=False)
        platform.settle()
        assert platform.record("old").kinds == ()
        del platform.sources["old"]
        platform.settle()
        sets = {label(platform.cluster.objects[one], well_known.PART_OF) for one in (X, key("p"))}
        assert sets == {applyset_id(source_parent("new"))}
        assert {one: platform.cluster.objects[one]["metadata"]["uid"] for one in before} == before
        assert platform.deleted() == []
        assert platform.members() == {"x-a", "x-b", "p"}


def test_the_status_of_an_instance_in_an_unreadable_file_keeps_what_it_said() -> None:
    """docs/reference.md: an instance that stays as it is does not say that its nodes go, and keeps the author's fields."""
    status = {"first": "${a.metadata.name}"}
    with CheckedPlatform() as platform:
        files = {"link.json": definition("Link", [config_map("a"), config_map("b", "a")], status=status)}
        platform.commit({**files, "x.json": instance("Link", "x")})
        platform.settle()
        platform.commit({**files, "x.json": UNREADABLE})
        platform.settle()
        found = platform.cluster.objects[X]["status"]
        assert found["first"] == "x-a"
        assert found["levelgate"]["nodes"]["total"] == 2


def test_the_status_of_a_nested_instance_survives_a_broken_outer_definition() -> None:
    """S0-3: what is below a broken definition stays as it is, its status as well."""
    inner = {
        "id": "inner",
        "template": {"apiVersion": f"{GROUP}/v1", "kind": "Link", "metadata": {"name": "x"}, "spec": {}},
    }
    good = {"link.json": LINK, "o.json": instance("Outer", "o")}
    with CheckedPlatform() as platform:
        platform.commit({**good, "outer.json": definition("Outer", [inner])})
        platform.settle()
        assert platform.cluster.objects[X]["status"]["levelgate"]["nodes"]["total"] == 2
        platform.commit({**good, "outer.json": definition("Outer", [inner, config_map("a", "nosuch")])})
        platform.settle()
        assert platform.members() == {"x-a", "x-b"}
        assert platform.cluster.objects[X]["status"]["levelgate"]["nodes"]["total"] == 2


def test_a_definition_that_breaks_keeps_its_crd_in_the_set() -> None:
    """S0-3: also where no instance holds it, and where its CRD may be pruned."""
    allowed = {"metadata": {"annotations": {"levelgate.dev/prune": "allowed"}}}
    with CheckedPlatform() as platform:
        platform.commit({"link.json": definition("Link", [config_map("a")], **allowed)})
        platform.settle()
        platform.commit({"link.json": definition("Link", [config_map("a", "nosuch")], **allowed)})
        platform.settle()
        assert platform.members("CustomResourceDefinition") == {f"links.{GROUP}"}


def test_an_object_moves_into_an_instance_of_a_definition_that_broke_in_the_same_commit() -> None:
    """S0-3, hand-over: the last revision serves on, so what the new instance wants is known, and it is no orphan."""
    circle = definition("Link", [config_map("a", "b"), config_map("b", "a")])
    with CheckedPlatform() as platform:
        platform.commit({"link.json": LINK, "p.json": plain("x-a")})
        platform.settle()
        platform.commit({"link.json": circle, "x.json": instance("Link", "x")})
        platform.settle()
        assert platform.members() == {"x-a", "x-b"}
        assert platform.deleted() == []


# ---- instances and definitions


def test_an_instance_whose_definition_is_missing_is_never_applied_as_a_plain_object() -> None:
    """One catalog: the CRD in the cluster still carries our definition annotation."""
    with CheckedPlatform() as platform:
        platform.commit({"link.json": LINK})
        platform.settle()
        platform.commit({"x.json": instance("Link", "x")})
        platform.settle()
        assert X not in platform.cluster.objects


def test_many_definitions_come_back_after_they_were_released() -> None:
    """A CRD without `levelgate.dev/prune: allowed` is released, and taken again when its definition is back."""
    files = {f"{letter}.json": definition(f"Kind{letter}", [config_map("a")]) for letter in "abcdefghi"}
    with CheckedPlatform() as platform:
        platform.commit(files)
        platform.settle()
        platform.commit({"p.json": plain("p")})
        platform.settle()
        platform.commit(files)
        platform.settle()
        assert len(platform.members("CustomResourceDefinition")) == len(files)


def test_an_instance_that_creates_itself_is_a_mistake_that_is_told() -> None:
    """MAX_NESTING: other objects of the source go on."""
    me = {
        "id": "me",
        "template": {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Link",
            "metadata": {"name": "${schema.metadata.name}"},
            "spec": {},
        },
    }
    with CheckedPlatform() as platform:
        platform.commit({"link.json": definition("Link", [me]), "x.json": instance("Link", "x"), "p.json": plain("p")})
        platform.settle()
        assert platform.members() == {"p"}


# ---- work that never ends


def test_a_set_whose_last_node_was_excluded_comes_to_rest() -> None:
    """I7: `includeWhen` took out all that the set had."""
    link = definition("Link", [config_map("a", includeWhen=["${schema.spec.on}"])])
    with CheckedPlatform() as platform:
        platform.commit({"link.json": link, "x.json": instance("Link", "x")})
        platform.settle()
        platform.commit({"link.json": link, "x.json": instance("Link", "x", on=False)})
        found = platform.run()
        assert found is not None
        assert platform.members() == set()
        assert found.changed < 20


def test_a_crd_deleted_by_hand_under_a_running_program_does_not_hang_it() -> None:
    """The same process goes on: its discovery still names the kind, the list says that it is not served."""
    with CheckedPlatform() as platform:
        platform.commit({"link.json": LINK, "x.json": instance("Link", "x")})
        platform.settle()
        platform.parents_may_vanish = True
        platform.cluster.edit(X, lambda obj: obj["metadata"].pop("finalizers"))
        platform.cluster.take_away(X)
        platform.cluster.take_away(ObjectKey("apiextensions.k8s.io", "CustomResourceDefinition", "", f"links.{GROUP}"))
        platform.cluster.go_on()
        platform.go_on()
        platform.settle()
        assert X in platform.cluster.objects


def test_a_namespace_that_is_not_empty_is_asked_about_once_in_a_pass() -> None:
    """A deletion that fails is a result of the pass, not a reason to try again at once."""
    allowed = {"name": "n", "annotations": {"levelgate.dev/prune": "allowed"}}
    namespace = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": allowed})
    with CheckedPlatform() as platform:
        platform.commit({"n.json": namespace, "q.json": plain("q")})
        platform.settle()
        platform.cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "guest", "namespace": "n"}})
        platform.commit({"q.json": plain("q")})
        found = platform.run()
        assert found is not None
        failed = [str(result.error) for result in found.results if result.error]
        assert failed == ["not deleted: the object still contains ConfigMap/n/guest; remove the contents first"]
        platform.settle()


def test_one_parent_that_cannot_be_written_leaves_all_other_sets_at_work() -> None:
    """Rule 8: an admission webhook refuses our keys on one instance."""
    with CheckedPlatform() as platform:
        apply = platform.cluster.apply

        async def refusing(manifest: Object, *, manager: str, **more: Any) -> Object:
            metadata = manifest["metadata"]
            if metadata["name"] == "x" and well_known.PARENT_ID in metadata.get("labels", {}):
                raise Denied("admission webhook denied the request")
            return await apply(manifest, manager=manager, **more)

        platform.cluster.apply = refusing  # type: ignore[method-assign]
        files = {"link.json": LINK, "x.json": instance("Link", "x"), "y.json": instance("Link", "y")}
        platform.commit({**files, "p.json": plain("p")})
        platform.run()  # The definition is to be established first.
        found = platform.run()
        assert found is not None
        assert sum(result.error is not None for result in found.results) == 1
        assert platform.members() == {"p", "y-a", "y-b"}


# ---- theft and hand-over


@pytest.mark.parametrize("other", ["source", "instance"])
def test_an_object_that_two_sets_want_stays_with_the_one_that_has_it(other: str) -> None:
    """Hand-over: the new set may re-label it only once the old one no longer wants it."""
    with CheckedPlatform() as platform:
        platform.commit({"p.json": plain("x-a", text="first")})
        platform.settle()
        if other == "source":
            platform.commit({"p.json": plain("x-a", text="second")}, source="second")
        else:
            second = {"link.json": LINK, "x.json": instance("Link", "x", text="second")}
            platform.commit({"p.json": plain("x-a", text="first"), **second})
        platform.settle()
        assert platform.cluster.objects[key("x-a")]["data"]["text"] == "first"


def test_an_object_that_moves_from_one_set_to_another_is_never_deleted() -> None:
    """Hand-over: same object before and after, in the new set."""
    with CheckedPlatform() as platform:
        platform.commit({"link.json": LINK, "p.json": plain("x-a")})
        platform.settle()
        before = platform.cluster.objects[key("x-a")]["metadata"]["uid"]
        platform.commit({"link.json": LINK, "x.json": instance("Link", "x")})
        platform.settle()
        after = platform.cluster.objects[key("x-a")]
        assert after["metadata"]["uid"] == before
        assert label(after, well_known.PART_OF) == label(platform.cluster.objects[X], well_known.PARENT_ID)
        platform.commit({"link.json": LINK, "p.json": plain("x-a")})
        platform.settle()
        assert platform.cluster.objects[key("x-a")]["metadata"]["uid"] == before
        assert platform.broken == []


def test_an_object_that_somebody_else_made_is_not_taken() -> None:
    """Sets: a conflict, no write."""
    with CheckedPlatform() as platform:
        theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p", "namespace": "default"}}
        platform.cluster.put({**theirs, "data": {"text": "theirs"}})
        platform.commit({"p.json": plain("p")})
        platform.settle()
        assert platform.members() == set()
        assert platform.cluster.objects[key("p")]["data"] == {"text": "theirs"}


# ---- prune


def test_a_chain_goes_from_its_end() -> None:
    """S0-11: D, C, B, A."""
    chain = [config_map("a"), config_map("b", "a"), config_map("c", "b"), config_map("d", "c")]
    with CheckedPlatform() as platform:
        platform.commit({"link.json": definition("Link", chain), "x.json": instance("Link", "x")})
        platform.settle()
        platform.commit({"link.json": definition("Link", [config_map("e")]), "x.json": instance("Link", "x")})
        platform.settle()
        assert platform.deleted() == ["x-d", "x-c", "x-b", "x-a"]
        assert platform.broken == []


@pytest.mark.parametrize("stuck", ["x-c", "x-a"])
def test_a_member_that_hangs_on_a_finalizer_holds_what_it_uses_and_nothing_else(stuck: str) -> None:
    """S0-16: absent, not just marked; then it goes on."""
    chain = [config_map("a"), config_map("b", "a"), config_map("c", "b"), config_map("z")]
    with CheckedPlatform() as platform:
        platform.commit({"link.json": definition("Link", chain), "x.json": instance("Link", "x")})
        platform.settle()
        platform.cluster.edit(key(stuck), lambda obj: obj["metadata"].update(finalizers=["example.org/wait"]))
        platform.commit({"link.json": LINK})
        platform.settle()
        assert platform.members() == ({"x-a", "x-b", "x-c"} if stuck == "x-c" else {"x-a"})
        platform.cluster.edit(key(stuck), lambda obj: obj["metadata"].pop("finalizers"))
        platform.settle()
        assert platform.members() == set()
        assert X not in platform.cluster.objects
        assert platform.broken == []


def test_a_member_without_a_record_goes_although_another_orphan_is_kept() -> None:
    """S0-13: members without usable order go last; what never goes is not waited for."""
    with CheckedPlatform() as platform:
        platform.commit({"p.json": plain("p"), "q.json": plain("q")})
        platform.settle()
        platform.cluster.edit(
            key("p"), lambda obj: obj["metadata"]["annotations"].update({well_known.PRUNE: "disabled"})
        )
        platform.cluster.edit(key("q"), lambda obj: obj["metadata"]["annotations"].pop(well_known.SELF))
        platform.commit({"r.json": plain("r")})
        platform.settle()
        assert platform.members() == {"p", "r"}


def test_an_instance_deleted_by_hand_comes_back_with_its_children_untouched() -> None:
    """Sets: its children stay, it is created again and takes its set back."""
    with CheckedPlatform() as platform:
        platform.commit({"link.json": LINK, "x.json": instance("Link", "x")})
        platform.settle()
        before = {name: platform.cluster.objects[key(name)]["metadata"]["uid"] for name in ("x-a", "x-b")}
        platform.parents_may_vanish = True
        platform.cluster.take_away(X)
        platform.settle()
        assert X in platform.cluster.objects
        assert {name: platform.cluster.objects[key(name)]["metadata"]["uid"] for name in before} == before


def test_an_instance_deleted_by_hand_before_a_commit_that_drops_a_node_still_prunes_it() -> None:
    """The scope outlives the parent's object in the source's record."""
    both = definition("Link", [config_map("a"), deployment("b", "a")])
    with CheckedPlatform() as platform:
        platform.commit({"link.json": both, "x.json": instance("Link", "x")})
        platform.settle()
        platform.parents_may_vanish = True
        platform.cluster.take_away(X)
        platform.commit({"link.json": definition("Link", [config_map("a")]), "x.json": instance("Link", "x")})
        platform.settle()
        assert platform.members("Deployment") == set()
        assert platform.members() == {"x-a"}


PLAIN = {"p.json": plain("p"), "s.json": plain("s", kind="Secret", text="ZnJlZQ==")}


def test_a_source_whose_record_was_deleted_finds_all_its_members_again() -> None:
    """Sets: current is then one full list by `part-of`."""
    with CheckedPlatform() as platform:
        platform.commit(PLAIN)
        platform.settle()
        assert platform.members("Secret") == {"s"}
        platform.parents_may_vanish = True
        platform.cluster.take_away(SOURCE)
        platform.commit({"p.json": plain("p")})
        platform.settle()
        assert platform.members("Secret") == set()


@pytest.mark.parametrize("name", [well_known.GROUP_KINDS, well_known.NAMESPACES])
def test_a_source_whose_inventory_was_changed_by_others_finds_all_its_members_again(name: str) -> None:
    """I1, threat 15: nothing is deleted before the scope is that of a full list again, though Git has dropped a kind or namespace meanwhile."""
    with CheckedPlatform() as platform:
        platform.commit(PLAIN)
        platform.settle()
        platform.annotate(SOURCE, name, "ConfigMap" if name == well_known.GROUP_KINDS else "")
        platform.broken.clear()  # the person's doing
        platform.commit({"p.json": plain("p")})
        found = platform.run()
        assert found is not None
        assert platform.members("Secret") == {"s"}
        assert read_scope(platform.cluster.objects[SOURCE]).kinds >= {GroupKind("", "Secret")}
        platform.settle()
        assert platform.members("Secret") == set()
        assert platform.broken == []


def test_an_instance_whose_inventory_was_changed_by_others_gets_it_back_before_anything_goes() -> None:
    """I1: the source's record knows what it was."""
    both = definition("Link", [config_map("a"), deployment("b", "a")])
    with CheckedPlatform() as platform:
        platform.commit({"link.json": both, "x.json": instance("Link", "x")})
        platform.settle()
        platform.annotate(X, well_known.GROUP_KINDS, "ConfigMap")
        platform.commit({"link.json": definition("Link", [config_map("a")]), "x.json": instance("Link", "x")})
        before = len(platform.cluster.writes)
        platform.settle()
        content = [write for write in platform.cluster.writes[before:] if write.key.namespace == "default"]
        assert [content[0].key, content[0].manager] == [X, PARENT_MANAGER]
        assert platform.members("Deployment") == set()


@pytest.mark.parametrize("text", ['{"a": 1}', '{"g/K/n/x": [1]}', '{"g/K/n/x": 1}'])
def test_a_record_that_somebody_damaged_counts_as_empty(text: str) -> None:
    """gitops.records.source_record: everything in it can be found again."""
    with CheckedPlatform() as platform:
        platform.commit({"link.json": LINK, "x.json": instance("Link", "x")})
        platform.settle()
        platform.cluster.edit(SOURCE, lambda obj: obj["data"].update(instances=text))
        platform.settle()

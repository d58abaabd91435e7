"""Stored revisions and applied pairs: what instances are rendered from when Git cannot say (S0-3, S1-25, S1-26), on a sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from applier.cluster import CONTENT_MANAGER
from applier.state.observed import label
from gitops.records.applied_packs import pack_entries
from renderer import well_known
from renderer.definition.crd import key_of
from renderer.identity import GroupKind, ObjectKey, applyset_id
from tests.support.properties.checked_platform import CheckedPlatform
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.repositories import GROUP, UNREADABLE, config_map, definition, deployment, instance, plain

LINK = GroupKind(GROUP, "Link")
X = ObjectKey(GROUP, "Link", "default", "x")
A = ObjectKey("", "ConfigMap", "default", "x-a")
B = ObjectKey("", "ConfigMap", "default", "x-b")
ONE, TWO = definition("Link", [config_map("a")]), definition("Link", [config_map("a"), config_map("b", "a")])


@pytest.fixture
def platform() -> Iterator[CheckedPlatform]:
    with CheckedPlatform(WitnessedCluster()) as found:
        yield found
        assert found.broken == []


def test_an_instance_has_one_set_for_its_whole_life(platform: CheckedPlatform) -> None:
    """S0-6: whatever the revision, the level, and however often it is applied; also after the instance was deleted and is made again."""
    for text in (ONE, TWO, ONE):
        deploy(platform, definition=text, x=instance("Link", "x"))
        found = {
            label(platform.cluster.objects[key], well_known.PART_OF)
            for key in (A, B)
            if key in platform.cluster.objects
        }
        assert found == {applyset_id(X)}
        assert label(platform.cluster.objects[X], well_known.PARENT_ID) == applyset_id(X)
    assert numbers(platform)[-1] != "r1"
    platform.parents_may_vanish = True
    platform.cluster.take_away(X)
    platform.settle()
    assert label(platform.cluster.objects[A], well_known.PART_OF) == applyset_id(X)


def records(platform: CheckedPlatform, record: str) -> list[str]:
    """Names of the stored records of one sort."""
    return sorted(
        key.name
        for key, obj in platform.cluster.objects.items()
        if key.kind == "ControllerRevision" and obj["metadata"]["labels"][well_known.RECORD] == record
    )


def numbers(platform: CheckedPlatform) -> list[str]:
    return sorted((name.rpartition("-")[2] for name in records(platform, "definition")), key=lambda name: int(name[1:]))


def deploy(platform: CheckedPlatform, **files: str) -> None:
    platform.commit({f"{name}.json": text for name, text in files.items()})
    platform.settle()


def applied(platform: CheckedPlatform) -> dict[str, Any]:
    found: dict[str, Any] = platform.cluster.objects[X]["status"]["levelgate"]["applied"]
    return found


def condition(platform: CheckedPlatform, kind: str) -> tuple[str, str]:
    conditions = platform.cluster.objects[X]["status"]["conditions"]
    return next((one["status"], one["message"]) for one in conditions if one["type"] == kind)


def served_fields(platform: CheckedPlatform) -> set[str]:
    version = platform.cluster.objects[key_of(LINK)]["spec"]["versions"][0]
    return set(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


# ---- numbers


def test_each_content_of_a_definition_gets_the_next_number_and_a_revert_too(platform: CheckedPlatform) -> None:
    """S1-26: numbers only grow; where an instance is, is told by its own status and its children."""
    deploy(platform, link=ONE, x=instance("Link", "x"))
    assert (numbers(platform), applied(platform)["revision"]) == (["r1"], 1)
    deploy(platform, link=TWO, x=instance("Link", "x"))
    assert (numbers(platform), applied(platform)["revision"]) == (["r1", "r2"], 2)
    deploy(platform, link=ONE, x=instance("Link", "x"))
    assert (numbers(platform), applied(platform)["revision"]) == (["r1", "r2", "r3"], 3)


def test_a_new_name_or_another_layout_of_the_same_definition_is_no_new_revision(platform: CheckedPlatform) -> None:
    """A definition is its group and kind, and its content."""
    deploy(platform, link=ONE, x=instance("Link", "x"))
    deploy(platform, moved=ONE.replace("links.g.test", "renamed.g.test").replace(", ", ",\n"), x=instance("Link", "x"))
    assert numbers(platform) == ["r1"]


def test_another_way_to_write_the_same_definition_is_no_new_revision(platform: CheckedPlatform) -> None:
    """Rgd 2.8, 7.3: what is empty or absent, the order of resources and of conditions. An empty list of gates is not the same as none."""
    conditions: dict[str, Any] = {
        "readyWhen": ["${a.data.text != ''}", "${has(a.data)}"],
        "includeWhen": ["${schema.spec.on}"],
    }
    one, other = config_map("a", **conditions), config_map("b", "a")
    turned = {name: [*reversed(texts)] for name, texts in conditions.items()}
    empty: dict[str, Any] = {"readyWhen": [], "includeWhen": None}
    deploy(platform, link=definition("Link", [one, other], shortNames=["l", "k"]), x=instance("Link", "x"))
    writes = len(platform.cluster.writes)
    same = definition(
        "Link", [{**other, **empty}, {**one, **turned}], shortNames=["l", "k"], types={}, scope="Namespaced"
    )
    deploy(platform, link=same, x=instance("Link", "x"))
    assert numbers(platform) == ["r1"]
    assert [write.key for write in platform.cluster.writes[writes:] if write.manager == CONTENT_MANAGER] == []
    deploy(platform, link=definition("Link", [one, {**other, "propagateWhen": []}]), x=instance("Link", "x"))
    assert numbers(platform) == ["r1", "r2"]


def test_children_carry_the_revision_that_they_were_written_from(platform: CheckedPlatform) -> None:
    """S1-26, S1-45: the number is for people, the hash decides; an object that renders the same is not written for a number."""
    deploy(platform, link=ONE, x=instance("Link", "x"))
    deploy(platform, link=TWO, x=instance("Link", "x"))
    marks = {key.name: platform.cluster.objects[key]["metadata"]["annotations"][well_known.REVISION] for key in (A, B)}
    assert marks == {"x-a": "1", "x-b": "2"}


def test_revisions_in_use_and_five_more_are_kept(platform: CheckedPlatform) -> None:
    for number in range(9):
        deploy(platform, link=definition("Link", [config_map("a", name=f"n{number}")]), x=instance("Link", "x"))
    assert numbers(platform) == ["r4", "r5", "r6", "r7", "r8", "r9"]


def test_numbers_go_on_when_all_records_were_lost(platform: CheckedPlatform) -> None:
    deploy(platform, link=ONE, x=instance("Link", "x"))
    deploy(platform, link=TWO, x=instance("Link", "x"))
    for key in [key for key in platform.cluster.objects if key.kind == "ControllerRevision"]:
        platform.cluster.take_away(key)
    deploy(platform, link=TWO, x=instance("Link", "x"))
    assert numbers(platform) == ["r3"]


def test_a_revision_that_cannot_be_stored_moves_nothing(platform: CheckedPlatform) -> None:
    """S1-27: a revision is stored before anything of it is written; the one before serves on, and the next pass tries again."""
    deploy(platform, link=ONE, x=instance("Link", "x"))
    platform.commit({"link.json": TWO, "x.json": instance("Link", "x")})
    found = platform.run({0: "unavailable"})
    assert found is not None
    assert any("could not be stored" in problem.message for problem in found.bundle.problems)
    assert B not in platform.cluster.objects
    platform.settle()
    assert B in platform.cluster.objects


# ---- applied pairs


def pairs(platform: CheckedPlatform) -> dict[str, int]:
    """The sequences of all pairs that are stored, by the instance; of one with several the highest."""
    packs = [obj for key, obj in platform.cluster.objects.items() if key.kind == "ControllerRevision"]
    found = sorted((key.name, entry.sequence) for pack in packs for key, entry in pack_entries(pack).items())
    return dict(found)


def test_the_pairs_of_one_pass_are_stored_once_and_go_with_their_instances(platform: CheckedPlatform) -> None:
    deploy(platform, link=ONE, x=instance("Link", "x"), y=instance("Link", "y"))
    first = records(platform, "applied")
    assert (len(first), pairs(platform)) == (1, {"x": 1, "y": 1})
    deploy(platform, link=ONE, x=instance("Link", "x"), y=instance("Link", "y", text="two"))
    second = records(platform, "applied")
    assert (len(second), pairs(platform)) == (2, {"x": 1, "y": 2})
    assert len(set(first) & set(second)) == 1
    deploy(platform, link=ONE, x=instance("Link", "x", text="two"), y=instance("Link", "y", text="two"))
    assert (len(records(platform, "applied")), pairs(platform)) == (2, {"x": 2, "y": 2})
    deploy(platform, link=ONE, x=instance("Link", "x", text="two"))
    assert pairs(platform) == {"x": 2}
    deploy(platform, link=ONE)
    assert records(platform, "applied") == []


def test_a_pair_of_a_pack_that_stays_does_not_outlive_its_instance(platform: CheckedPlatform) -> None:
    """An instance that comes back is a new one, though the pack of its former pair holds others that count."""
    deploy(platform, link=ONE, x=instance("Link", "x"), y=instance("Link", "y"))
    [pack] = records(platform, "applied")
    deploy(platform, link=ONE, x=instance("Link", "x"), y=instance("Link", "y", text="two"))
    deploy(platform, link=ONE, x=instance("Link", "x"))
    assert (len(records(platform, "applied")), pairs(platform)) == (2, {"x": 1, "y": 3}), (
        "the third says that y is gone"
    )
    platform.commit({"link.json": ONE, "x.json": instance("Link", "x"), "y.json": instance("Link", "y", nosuch=1)})
    platform.settle()
    assert ObjectKey("", "ConfigMap", "default", "y-a") not in platform.cluster.objects, "nothing heals it"
    deploy(platform, link=ONE, x=instance("Link", "x", text="two"))
    assert pack not in records(platform, "applied")
    assert pairs(platform) == {"x": 2}, "with the last pair of y goes what said that it is gone"


@pytest.mark.parametrize("fault", ["before", "after"])
@pytest.mark.parametrize("write", range(12))
def test_a_death_between_storing_a_pair_and_dropping_the_old_one_leaves_the_new_one(
    platform: CheckedPlatform, write: int, fault: str
) -> None:
    deploy(platform, link=ONE, x=instance("Link", "x"))
    platform.commit({"link.json": TWO, "x.json": instance("Link", "x", text="two")})
    platform.run({write: fault})
    platform.settle()
    assert len(records(platform, "applied")) == 1
    platform.commit({"x.json": instance("Link", "x", text="three")})
    platform.cluster.take_away(B)
    platform.settle()
    assert platform.cluster.objects[B]["data"]["text"] == "two"


# ---- held instances are healed from their applied pair


def break_missing(platform: CheckedPlatform) -> None:
    platform.commit({"x.json": instance("Link", "x", text="two")})


def break_file(platform: CheckedPlatform) -> None:
    platform.commit({"link.json": ONE, "x.json": UNREADABLE})


def break_spec(platform: CheckedPlatform) -> None:
    platform.commit({"link.json": TWO, "x.json": instance("Link", "x", nosuch=1)})


@pytest.mark.parametrize("broken", [break_missing, break_file, break_spec])
def test_what_git_cannot_say_is_healed_from_the_applied_pair(platform: CheckedPlatform, broken: Any) -> None:
    """Broken input: the instance stays at what it was last brought to; what is missing or changed by hand is mended, also after a restart."""
    deploy(platform, link=ONE, x=instance("Link", "x"), gone=plain("other"))
    broken(platform)
    platform.settle()
    platform.cluster.take_away(A)
    platform.settle()
    assert platform.cluster.objects[A]["data"] == {"text": "one"}
    platform.cluster.put({**platform.cluster.objects[A], "data": {"text": "by hand"}}, manager="kubectl-edit")
    platform.settle()
    assert platform.cluster.objects[A]["data"] == {"text": "one"}
    assert condition(platform, "Healthy")[0] == "True"
    assert applied(platform)["revision"] == 1
    assert B not in platform.cluster.objects


def test_a_held_instance_is_neither_moved_nor_pruned() -> None:
    """A move that had begun stays where it is: going back is no healing."""
    first = definition("Link", [deployment("a"), config_map("c")])
    wider = deployment("a")
    wider["template"]["spec"]["replicas"] = 2
    second = definition("Link", [wider, config_map("b", "a")])
    with CheckedPlatform(WitnessedCluster(instant=False)) as platform:
        deploy(platform, link=first, x=instance("Link", "x"))
        platform.commit({"link.json": second, "x.json": instance("Link", "x", text="two")})
        for _ in range(3):
            platform.run()  # no controller: the Deployment is written and not ready, b waits for it, c is not pruned
        platform.commit({"link.json": second, "x.json": UNREADABLE})
        platform.settle()
        a = platform.cluster.objects[ObjectKey("apps", "Deployment", "default", "x-a")]
        assert a["metadata"]["annotations"]["text"] == "two"
        assert platform.members() == {"x-c"}


def test_a_held_instance_keeps_the_schema_that_it_needs(platform: CheckedPlatform) -> None:
    """S1-34: revisions overlap, since each is there by itself.

    While an instance is at an older one the CRD serves the union of the revisions in use; it narrows when the last has moved.
    """
    before = definition("Link", [config_map("a")], spec={"text": "string | default=one", "old": "string"})
    after = definition("Link", [config_map("a")], spec={"text": "string | default=one", "new": "integer"})
    allowed = after.replace(
        '"metadata": {', '"metadata": {"annotations": {"kro.run/allow-breaking-changes": "true"}, ', 1
    )
    deploy(platform, link=before, x=instance("Link", "x", old="kept"), y=instance("Link", "y"))
    deploy(platform, link=allowed, x=instance("Link", "x", old="kept"), y=instance("Link", "y", new=2))
    assert served_fields(platform) == {"text", "old", "new"}
    assert platform.cluster.objects[X]["spec"]["old"] == "kept"
    assert applied(platform)["revision"] == 1
    deploy(platform, link=after, x=instance("Link", "x", new=1), y=instance("Link", "y", new=2))
    assert served_fields(platform) == {"text", "new"}
    assert applied(platform)["revision"] == 2


def test_where_no_schema_serves_both_revisions_the_crd_waits_for_the_held_instance(platform: CheckedPlatform) -> None:
    before = definition("Link", [config_map("a")], spec={"text": "string | default=one", "size": "string"})
    after = definition("Link", [config_map("a")], spec={"text": "string | default=one", "size": "integer"})
    allowed = after.replace(
        '"metadata": {', '"metadata": {"annotations": {"kro.run/allow-breaking-changes": "true"}, ', 1
    )
    deploy(platform, link=before, x=instance("Link", "x", size="big"))
    platform.commit({"link.json": allowed, "x.json": UNREADABLE})
    platform.settle()
    # Allowed: the instance that cannot move is named nowhere in the schema any more, as the author accepted.
    assert served_fields(platform) == {"text", "size"}
    platform.commit({"link.json": after, "x.json": UNREADABLE})
    found = platform.settle()
    assert any(
        "revision 1" in problem.message and "Link.g.test/default/x" in problem.message
        for problem in found.bundle.problems
    )


def test_a_held_instance_still_wants_its_children(platform: CheckedPlatform) -> None:
    """Hand-over counts held instances at their applied pair: another set does not take a child over, and none is pruned."""
    deploy(platform, link=ONE, x=instance("Link", "x"))
    platform.commit({"link.json": ONE, "x.json": UNREADABLE, "plain.json": plain("x-a", text="mine")})
    platform.settle()
    assert platform.cluster.objects[A]["data"] == {"text": "one"}


def test_the_definition_of_a_nested_instance_is_missing_and_it_is_no_plain_object(platform: CheckedPlatform) -> None:
    inner = {
        "id": "inner",
        "template": {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Link",
            "metadata": {"name": "x"},
            "spec": {"text": "${schema.spec.text}"},
        },
    }
    outer = definition("Outer", [inner])
    deploy(platform, outer=outer, link=ONE, o=instance("Outer", "o"))
    before = platform.cluster.objects[X]["spec"]
    platform.commit({"outer.json": outer, "o.json": instance("Outer", "o", text="two")})
    platform.settle()
    assert platform.cluster.objects[X]["spec"] == before
    platform.cluster.take_away(A)
    platform.settle()
    assert platform.cluster.objects[A]["data"] == {"text": "one"}

"""The record of a member: written with the object, read back from its metadata (KEP-3659)."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from applier.applyset.member import Member, dependencies_to_record, find_alteration, is_membership_proven, member_body
from applier.cluster import CONTENT_MANAGER
from applier.state.observed import label
from renderer import well_known
from renderer.errors import SourceLocation
from renderer.identity import GroupKind, ObjectKey, digest, key_hash
from renderer.manifest_hash import without_nulls
from renderer.render.model import RenderedApplySet, RenderedNode
from tests.support.properties.waves import member

KEY = ObjectKey("", "ConfigMap", "default", "x")
INSTANCE = RenderedApplySet(
    parent=ObjectKey("g.test", "Link", "default", "one"), definition="links", source="platform", revision=3
)
SOURCE = RenderedApplySet(parent=ObjectKey("", "ConfigMap", "levelgate-system", "source-platform"), source="platform")


def node(**data: Any) -> RenderedNode:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "default", "labels": {"mine": "yes"}, "annotations": {"mine": "yes"}},
        "data": data,
    }
    return RenderedNode(
        "web", 2, (), GroupKind("", "ConfigMap"), manifest, KEY, origin=SourceLocation("apps/web.yaml", 41)
    )


def written(rendered: RenderedApplySet = INSTANCE, live: Any = None, **more: Any) -> dict[str, Any]:
    asked = {"dependencies": ["bb", "aa"], "parent_uid": "u0", "commit": "0123456789abcdef", **more}
    return member_body(rendered, node(text="one"), live=live, **asked)


def test_membership_and_record_come_in_one_request_beside_the_authors_own() -> None:
    """Bookkeeping keys; docs/reference.md: what people read."""
    metadata = written()["metadata"]
    assert metadata["labels"] == {"mine": "yes", well_known.PART_OF: INSTANCE.id}
    assert metadata["annotations"] == {
        "mine": "yes",
        well_known.NODE: "web",
        well_known.NODE_ID: "web",
        well_known.LEVEL: "2",
        well_known.DEPS: "aa,bb",
        well_known.SELF: key_hash(KEY),
        well_known.HASH: digest(node(text="one").manifest),
        well_known.INSTANCE: "Link/default/one",
        well_known.PARENT_UID: "u0",
        well_known.FILE: "apps/web.yaml:41",
        well_known.COMMIT: "0123456789ab",
        well_known.REVISION: "3",
    }


def test_a_member_of_a_source_records_its_file() -> None:
    """Broken input."""
    annotations = written(SOURCE)["metadata"]["annotations"]
    assert annotations[well_known.SOURCE_FILE] == "apps/web.yaml"
    assert well_known.INSTANCE not in annotations


def test_an_object_known_to_exist_is_written_with_its_uid() -> None:
    """Sets: so that a late write cannot resurrect it."""
    assert written(live=member("x"))["metadata"]["uid"] == "uid-x"
    assert "uid" not in written()["metadata"]


def test_the_manifest_itself_is_not_touched() -> None:
    original = node(text="one")
    before = digest(original.manifest)
    member_body(INSTANCE, original, dependencies=["aa"], live=member("x"), parent_uid="u", commit="r")
    assert digest(original.manifest) == before


def test_what_is_written_is_what_is_read_back() -> None:
    """S0-12: level and dependencies stand on the member, so a list of metadata is all that ordering a deletion takes."""
    live = written()
    live["metadata"] |= {"uid": "u1", "resourceVersion": "7"}
    found = Member.from_object(live)
    assert (found.key, found.level, found.node_id) == (KEY, 2, "web")
    assert label(live, well_known.PART_OF) == INSTANCE.id
    assert found.dependencies == {"aa", "bb"}
    assert found.has_record
    assert not found.is_terminating


@pytest.mark.parametrize("level", ["", "x", "-1", "1.5", " "])
def test_a_damaged_level_counts_as_none(level: str) -> None:
    damaged = member("x")
    damaged["metadata"]["annotations"][well_known.LEVEL] = level
    assert Member.from_object(damaged).level is None


def test_a_member_without_annotations_has_no_record() -> None:
    found = Member.from_object(member("x", recorded=False))
    assert (found.has_record, found.level, found.dependencies, found.node_id) == (False, None, frozenset(), "")


@pytest.mark.parametrize(
    ("recorded", "wanted", "healthy", "expected"),
    [
        ([], ["n"], False, ["n"]),
        (["o"], ["n"], False, ["n", "o~"]),
        (["o"], ["n"], True, ["n"]),
        (["o~"], ["n"], False, ["n", "o~"]),
        (["o~"], ["o"], False, ["o"]),
        (["o", "n"], ["n"], False, ["n", "o~"]),
    ],
)
def test_a_dropped_dependency_stays_marked_until_the_member_is_healthy(
    recorded: list[str], wanted: list[str], healthy: bool, expected: list[str]
) -> None:
    """S0-14."""
    live = member("x", *recorded)
    hashes = {name: key_hash(ObjectKey("", "ConfigMap", "default", name)) for name in "no"}
    found = dependencies_to_record(live, [hashes[name] for name in wanted], is_healthy=healthy)
    assert found == sorted(hashes[name[0]] + name[1:] for name in expected)


def test_a_new_member_records_what_it_wants() -> None:
    assert dependencies_to_record(None, ["b", "a"], is_healthy=False) == ["a", "b"]


def entry(manager: str = CONTENT_MANAGER, operation: str = "Apply", key: str = well_known.PART_OF) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": {"f:metadata": {"f:labels": {f"f:{key}": {}}}}}


@pytest.mark.parametrize(
    ("entries", "owners", "proven"),
    [
        ([entry()], [], True),
        ([], [], False),
        ([entry(manager="kubectl")], [], False),
        ([entry(operation="Update")], [], False),
        ([entry(key="mine")], [], False),
        ([entry()], [{"kind": "ReplicaSet", "controller": True}], False),
        ([entry()], [{"kind": "Link", "controller": False}], True),
        ([{"manager": CONTENT_MANAGER, "operation": "Apply"}], [], False),
    ],
)
def test_membership_is_proven_by_our_own_apply(entries: list[Any], owners: list[Any], proven: bool) -> None:
    """KEP-3659: anybody may add a label."""
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    obj["metadata"] |= {"managedFields": entries, "ownerReferences": owners}  # type: ignore[operator]
    assert is_membership_proven(obj) is proven


def test_nulls_are_left_out_wherever_they_stand() -> None:
    """KEP-3659: null and absent mean the same."""
    value = {"apiVersion": "v1", "kind": "X", "a": None, "b": {"c": None, "d": [None, {"e": None, "f": 0}]}, "g": {}}
    expected = {"apiVersion": "v1", "kind": "X", "b": {"d": [None, {"f": 0}]}, "g": {}}
    assert without_nulls(value) == expected
    sent = member_body(INSTANCE, node(text="one", gone=None), dependencies=(), live=None, parent_uid="", commit="")
    assert sent["data"] == {"text": "one"}


def test_the_text_of_a_secret_is_written_as_its_data() -> None:
    """The server keeps `stringData` as ours for ever and never stores it."""
    secret = {"apiVersion": "v1", "kind": "Secret", "data": {"a": "YQ=="}, "stringData": {"b": "é", "a": "z"}}
    encoded = {"b": base64.b64encode("é".encode()).decode(), "a": base64.b64encode(b"z").decode()}
    assert without_nulls(secret) == {"apiVersion": "v1", "kind": "Secret", "data": encoded}
    other = {"apiVersion": "other.io/v1", "kind": "Secret", "stringData": {"b": "c"}}
    assert without_nulls(other) == other


@pytest.mark.parametrize("level", ["7" * 5000, "-1", "1.5", "", "\u0663" * 30])
def test_a_level_that_we_would_not_write_is_a_missing_record(level: str) -> None:
    """Row 14 of the threats, T4: whoever may label an object may write anything into its record, and stops nobody with it."""
    forged = member("x")
    forged["metadata"]["annotations"][well_known.LEVEL] = level
    assert Member.from_object(forged).level is None


@pytest.mark.parametrize(
    ("place", "name", "said"),
    [
        ("labels", well_known.PART_OF, f"its label {well_known.PART_OF}"),
        ("annotations", well_known.HASH, f"its annotation {well_known.HASH}"),
        ("annotations", well_known.DEPS, f"its annotation {well_known.DEPS}"),
        ("annotations", well_known.SOURCE_FILE, f"its annotation {well_known.SOURCE_FILE}"),
        ("annotations", "mine", ""),
    ],
)
def test_what_admission_takes_away_is_told_where_it_would_have_to_be_written_again(
    place: str, name: str, said: str
) -> None:
    """I11: only what the next plan would write at once; what admission does elsewhere is no difference."""
    stored = written(SOURCE)
    assert find_alteration(stored, SOURCE, node(text="one"), ["aa", "bb"]) == ""
    del stored["metadata"][place][name]
    assert find_alteration(stored, SOURCE, node(text="one"), ["aa", "bb"]) == said


def test_what_is_only_read_is_told_apart_from_what_is_depended_on() -> None:
    """docs/semantics.md, "What is read by others": dropped or not."""
    found = Member.from_object(written() | {"metadata": told("aa,bb~,cc^,dd^~")})
    assert found.dependencies == {"aa", "bb"}
    assert found.dropped_dependencies == {"bb"}
    assert found.reads == {"cc", "dd"}


def told(dependencies: str) -> dict[str, Any]:
    """Metadata of a live member with this record."""
    return {
        "name": "x",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "1",
        "annotations": {well_known.DEPS: dependencies},
    }

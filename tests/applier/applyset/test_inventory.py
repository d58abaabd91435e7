"""Keys of ApplySet parents: written, read back, refused (KEP-3659)."""

from __future__ import annotations

from typing import Any

import pytest

from applier.applyset.inventory import (
    ForeignSet,
    Scope,
    epoch_of,
    is_intact,
    parent_body,
    read_scope,
    scope_of,
    target_revision_of,
    with_finalizer,
    with_precondition,
)
from applier.cluster import Object
from renderer import well_known
from renderer.identity import GroupKind, ObjectKey, applyset_id

PARENT = ObjectKey("g.test", "Link", "prod", "x")
CONFIG_MAP, DEPLOYMENT = GroupKind("", "ConfigMap"), GroupKind("apps", "Deployment")


def parent(scope: Scope, **more: Any) -> dict[str, Any]:
    return parent_body(PARENT, "g.test/v1", scope, version="1.2.3", **more)


def test_scope_names_kinds_and_foreign_namespaces_only() -> None:
    members = [
        ObjectKey("", "ConfigMap", "prod", "a"),
        ObjectKey("apps", "Deployment", "team", "b"),
        ObjectKey("", "Namespace", "", "n"),
    ]
    found = scope_of(members, PARENT)
    assert found == Scope(frozenset({CONFIG_MAP, DEPLOYMENT, GroupKind("", "Namespace")}), frozenset({"team"}))


def test_keys_are_written_as_kubectl_reads_them() -> None:
    """KEP-3659: byte order, commas without spaces, core kinds without a dot; no namespaces is an empty text."""
    scope = Scope(frozenset({DEPLOYMENT, CONFIG_MAP, GroupKind("", "Secret")}), frozenset())
    metadata = parent(scope)["metadata"]
    assert metadata["labels"] == {well_known.PARENT_ID: applyset_id(PARENT)}
    assert metadata["annotations"] == {
        well_known.TOOLING: "levelgate/v1.2.3",
        well_known.GROUP_KINDS: "ConfigMap,Deployment.apps,Secret",
        well_known.NAMESPACES: "",
    }


def test_the_finalizer_goes_with_the_keys_of_an_instance_and_the_uid_with_a_known_parent() -> None:
    """Sets: in the same write; a late write cannot bring a deleted parent back."""
    found = with_precondition(with_finalizer(parent(Scope())), uid="u1")["metadata"]
    assert (found["finalizers"], found["uid"]) == ([well_known.FINALIZER], "u1")
    assert not {"finalizers", "uid"} & parent(Scope())["metadata"].keys()


@pytest.mark.parametrize(
    "scope",
    [
        Scope(),
        Scope(frozenset({CONFIG_MAP})),
        Scope(frozenset({DEPLOYMENT, GroupKind("a.b.c", "K")}), frozenset({"a", "b"})),
    ],
)
def test_what_is_written_is_what_is_read(scope: Scope) -> None:
    assert read_scope(parent(scope)) == scope


def test_a_parent_without_keys_has_an_empty_scope() -> None:
    assert read_scope({"apiVersion": "g.test/v1", "kind": "Link", "metadata": {"name": "x"}}) == Scope()


@pytest.mark.parametrize(
    ("place", "name", "text", "message"),
    [
        ("labels", well_known.PARENT_ID, "applyset-of-somebody-v1", "does not fit the object"),
        ("annotations", well_known.TOOLING, "kubectl/v1.37.1", "managed by tooling 'kubectl'"),
        ("annotations", well_known.TOOLING, "levelgate", "managed by tooling 'unknown'"),
    ],
)
def test_a_parent_of_another_tool_or_with_a_foreign_id_is_refused(
    place: str, name: str, text: str, message: str
) -> None:
    """KEP-3659 step 1: any fault, no write."""
    damaged = parent(Scope(frozenset({CONFIG_MAP})))
    damaged["metadata"][place][name] = text
    with pytest.raises(ForeignSet, match=message):
        read_scope(damaged)


def test_scopes_are_ordered_by_what_they_cover() -> None:
    small, big = Scope(frozenset({CONFIG_MAP})), Scope(frozenset({CONFIG_MAP, DEPLOYMENT}), frozenset({"team"}))
    assert big >= small
    assert not small >= big
    assert not Scope(frozenset({CONFIG_MAP, DEPLOYMENT})) >= big
    assert small | big is big
    assert big | small is big
    assert small | Scope(namespaces=frozenset({"team"})) == Scope(small.kinds, big.namespaces)


def test_numbers_that_we_would_not_write_count_as_absent() -> None:
    """Row 15 of the threats: a parent whose epoch and target somebody edited is still read."""
    edited = parent(Scope(), target=3, epoch=4)
    assert (target_revision_of(edited), epoch_of(edited)) == (3, 4)
    edited["metadata"]["annotations"] |= {well_known.TARGET: "9" * 5000, well_known.EPOCH: "many"}
    assert (target_revision_of(edited), epoch_of(edited)) == (0, 0)


def test_keys_are_intact_as_long_as_our_own_apply_owns_them() -> None:
    """I1, threat 15: who changes one takes it from us, whatever it says afterwards; other keys are anybody's."""
    ours: Object = {
        "f:annotations": {f"f:{well_known.GROUP_KINDS}": {}, f"f:{well_known.NAMESPACES}": {}},
        "f:labels": {f"f:{well_known.PARENT_ID}": {}},
    }
    live = parent(Scope(frozenset({CONFIG_MAP})))
    assert is_intact(owned(live, "levelgate-applyset", ours))
    assert not is_intact(owned(live, "kubectl-annotate", ours))
    assert not is_intact(
        owned(live, "levelgate-applyset", ours | {"f:annotations": {f"f:{well_known.NAMESPACES}": {}}})
    )
    assert not is_intact(owned(live, "levelgate-applyset", ours | {"f:labels": {}}))


def owned(live: dict[str, Any], manager: str, fields: dict[str, Any]) -> dict[str, Any]:
    entry = {"manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:metadata": fields}}
    return {**live, "metadata": {**live["metadata"], "managedFields": [entry]}}

"""Whose an object is that is in no set, and what of its managed fields becomes ours; pure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from applier.applyset.adoption import (
    NO_ADOPTION,
    Adoption,
    adoption_differences,
    migrate_managed_fields,
)
from applier.cluster import CONTENT_MANAGER, Object
from renderer.well_known import LAST_APPLIED

LAST_APPLIED_FIELD: Object = {"f:metadata": {"f:annotations": {f"f:{LAST_APPLIED}": {}}}}


def live(*entries: Object, data: dict[str, str] | None = None, **metadata: Any) -> Object:
    found = {"name": "x", "namespace": "n", "uid": "u", "resourceVersion": "7", "managedFields": list(entries)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": found | metadata, "data": data or {"a": "1"}}


def entry(manager: str, operation: str, *names: str, applied: bool = False, **more: Any) -> Object:
    fields: Object = {"f:data": {f"f:{name}": {} for name in names}} | (LAST_APPLIED_FIELD if applied else {})
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields, **more}


KUBECTL = entry("kubectl-client-side-apply", "Update", "a", "b", applied=True)
FLUX = entry("kustomize-controller", "Apply", "c")
OPERATOR = entry("some-operator", "Update", "d")


def test_what_was_applied_becomes_one_entry_of_ours_and_the_rest_stays() -> None:
    """KEP-2155: the fields of a client-side apply move to the server-side one."""
    found = migrate_managed_fields(live(KUBECTL, OPERATOR), NO_ADOPTION.manager_prefixes)
    assert found == [
        {
            "manager": CONTENT_MANAGER,
            "operation": "Apply",
            "apiVersion": "v1",
            "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}, **LAST_APPLIED_FIELD},
        },
        OPERATOR,
    ]


def test_fields_of_a_tool_are_taken_only_if_it_is_named() -> None:
    assert migrate_managed_fields(live(FLUX, OPERATOR), NO_ADOPTION.manager_prefixes) is None
    found = migrate_managed_fields(live(FLUX, KUBECTL), Adoption.parse("IfUnowned:flux").manager_prefixes)
    assert found is not None
    assert [(one["manager"], sorted(one["fieldsV1"]["f:data"])) for one in found] == [
        (CONTENT_MANAGER, ["f:a", "f:b", "f:c"])
    ]


@pytest.mark.parametrize(
    "other",
    [
        entry("kubectl-edit", "Update", "a"),
        entry("kubectl", "Apply", "a", subresource="status"),
        entry("kubectl", "Apply", "a") | {"apiVersion": "v1beta1"},
    ],
    ids=["an edit", "a subresource", "another version"],
)
def test_what_was_not_applied_to_the_object_as_it_is_stays(other: Object) -> None:
    """An edit owns the defaults that came with it; fields of another version have other names."""
    assert migrate_managed_fields(live(other), NO_ADOPTION.manager_prefixes) is None


@pytest.mark.parametrize(
    ("manager", "told"),
    [
        ("argocd-controller", "managed by argocd; turn off the automated sync of the object in Argo CD, and add"),
        ("helm", "managed by helm"),
        ("helm-controller", "managed by flux; suspend the object in Flux"),
        ("kubectl-create", ""),
        ("terraform", ""),
    ],
)
def test_who_wrote_an_object_without_a_mark_is_known_by_its_fields(manager: str, told: str) -> None:
    """Argo CD tracks by a common label unless told otherwise, and Helm marks nothing of a chart's `crds/`."""
    refusal = Adoption.parse("IfUnowned").refusal(live(entry(manager, "Update", "a", applied=True)))
    assert told in refusal
    assert bool(refusal) is bool(told)
    assert Adoption.parse("IfUnowned").refusal(live(entry(manager, "Update", subresource="status"))) == ""


HELM_3: Object = {
    "f:metadata": {
        "f:annotations": {".": {}, "f:meta.helm.sh/release-name": {}, "f:mine": {}},
        "f:labels": {".": {}, "f:app.kubernetes.io/managed-by": {}, "f:app": {}},
    },
    "f:data": {"f:a": {}, "f:b": {}},
}
"""What Helm before version 4 owns: everything, by an update, so with defaults."""
RECORDS: Object = {
    "f:annotations": {"f:meta.helm.sh/release-name": {}},
    "f:labels": {"f:app.kubernetes.io/managed-by": {}},
}


def test_of_a_tool_that_does_not_apply_only_its_records_become_ours() -> None:
    """They go with the first apply; nothing else can: what it owns beside Git may be a default. What stays its own would be a conflict later."""
    helm = entry("helm", "Update") | {"fieldsV1": HELM_3}
    scaled = entry("helm", "Update", subresource="scale")
    assert migrate_managed_fields(live(helm, OPERATOR), NO_ADOPTION.manager_prefixes) is None
    managers = Adoption.parse("IfUnowned:helm").manager_prefixes
    found = migrate_managed_fields(live(helm, scaled, OPERATOR), managers)
    ours = {"manager": CONTENT_MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:metadata": RECORDS}}
    assert found == [ours, scaled, OPERATOR]
    assert migrate_managed_fields(live(helm | {"manager": "kubectl-create"}), managers) is None
    again = migrate_managed_fields(live(entry(CONTENT_MANAGER, "Apply", "z"), helm), managers)
    assert again == [ours | {"fieldsV1": {"f:data": {"f:z": {}}, "f:metadata": RECORDS}}]


def test_broken_off_and_done_again_it_adds_to_our_entry() -> None:
    ours = entry(CONTENT_MANAGER, "Apply", "z")
    found = migrate_managed_fields(live(KUBECTL, ours), NO_ADOPTION.manager_prefixes)
    assert found is not None
    assert sorted(found[0]["fieldsV1"]["f:data"]) == ["f:a", "f:b", "f:z"]
    assert len(found) == 1


@pytest.mark.parametrize(
    ("rule", "metadata", "told"),
    [
        ("Never", {}, "is not managed by Levelgate"),
        (
            "Never",
            {"labels": {"kro.run/owned": "true"}},
            "managed by kro; remove it from Git, or stop kro, and adopt it with --adopt IfUnowned:kro",
        ),
        ("Never", {"ownerReferences": [{"kind": "Set", "name": "s", "controller": True}]}, "Set s controls"),
        ("IfEqual", {}, ""),
        ("IfUnowned", {}, ""),
        ("IfUnowned", {"ownerReferences": [{"kind": "Set", "name": "s", "controller": True}]}, "Set s controls"),
        ("IfUnowned", {"ownerReferences": [{"kind": "Set", "name": "s"}]}, ""),
        ("IfUnowned", {"annotations": {"argocd.argoproj.io/tracking-id": "x"}}, "--adopt IfUnowned:argocd"),
        ("IfEqual:flux", {"annotations": {"argocd.argoproj.io/tracking-id": "x"}}, "--adopt IfEqual:argocd"),
        ("IfEqual:flux,argocd", {"annotations": {"argocd.argoproj.io/tracking-id": "x"}}, ""),
        (
            "IfUnowned",
            {"annotations": {"meta.helm.sh/release-name": "x"}},
            "helm uninstall would delete the object, and add --adopt IfUnowned:helm",
        ),
        ("IfUnowned", {"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}, "--adopt IfUnowned:flux"),
        ("IfUnowned", {"labels": {"helm.toolkit.fluxcd.io/name": "x"}}, "--adopt IfUnowned:flux"),
        ("IfUnowned", {"labels": {"kro.run/owned": "true"}}, "--adopt IfUnowned:kro"),
        ("IfUnowned:kro", {"labels": {"kro.run/owned": "true"}}, ""),
    ],
)
def test_who_may_be_adopted_from(rule: str, metadata: Object, told: str) -> None:
    refusal = Adoption.parse(rule).refusal(live(**metadata))
    assert told in refusal
    assert bool(refusal) is bool(told)


@pytest.mark.parametrize(
    ("data", "applied", "git", "expected"),
    [
        ({"a": "1"}, {"a": "1"}, {"a": "1"}, []),
        ({"a": "1"}, {"a": "2"}, {"a": "2"}, [".data.a"]),
        ({"a": "1", "b": "2"}, {"a": "1", "b": "2"}, {"a": "1"}, [".data.b"]),
        ({"a": "1"}, {"a": "1", "c": "3"}, {"a": "1", "c": "3"}, [".data.c"]),
    ],
    ids=["equal", "another value", "not in Git", "only in Git"],
)
def test_equal_means_that_nothing_changes_and_nothing_goes(
    data: dict[str, str], applied: dict[str, str], git: dict[str, str], expected: list[str]
) -> None:
    """The dry run cannot tell that fields go away with their old owner; what was last applied can."""
    said = {LAST_APPLIED: json.dumps({"data": data, "metadata": {"annotations": {}, "creationTimestamp": None}})}
    found = adoption_differences(
        live(data=data, annotations=said),
        live(data=applied, annotations=said),
        {"metadata": {"name": "x"}, "data": git},
        (),
    )
    assert found == tuple(expected)


MARKS = [
    ("flux", "kustomize-controller", "labels", ["kustomize.toolkit.fluxcd.io/name"]),
    ("argocd", "argocd-controller", "annotations", ["argocd.argoproj.io/tracking-id"]),
    ("helm", "helm", "annotations", ["meta.helm.sh/release-name", "meta.helm.sh/release-namespace"]),
    ("kro", "kro.run/applyset", "labels", ["kro.run/owned", "applyset.kubernetes.io/part-of"]),
]


@pytest.mark.parametrize("said", [{}, {"team": "shop"}], ids=["nothing of that in Git", "others in Git"])
@pytest.mark.parametrize(("tool", "manager", "place", "marks"), MARKS)
def test_what_a_tool_records_for_itself_is_no_difference(
    tool: str, manager: str, place: str, marks: list[str], said: dict[str, str]
) -> None:
    """Else nothing of a tool could be adopted as equal; a field of its own that Git does not say is one."""
    texts = dict.fromkeys(marks, "x") | said
    owned: Object = {"f:metadata": {f"f:{place}": {f"f:{name}": {} for name in texts}}, "f:data": {"f:a": {}}}
    obj = live(entry(manager, "Apply") | {"fieldsV1": owned}, **{place: texts})
    git = {"metadata": {"name": "x", **({place: said} if said else {})}, "data": {"a": "1"}}
    managers = Adoption.parse(f"IfEqual:{tool}").manager_prefixes
    assert adoption_differences(obj, obj, git, managers) == ()
    owned["f:metadata"][f"f:{place}"]["f:mine"] = {}
    assert adoption_differences(obj, obj, git, managers) == (f".metadata.{place}.mine",)


def test_argo_cd_records_in_what_was_last_applied_too() -> None:
    """It applies client-side unless told otherwise."""
    said = {"data": {"a": "1"}, "metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "x", "mine": "y"}}}
    obj = live(annotations={LAST_APPLIED: json.dumps(said)})
    assert adoption_differences(obj, obj, {"metadata": {"name": "x"}, "data": {"a": "1"}}, ()) == (
        ".metadata.annotations.mine",
    )


def test_what_we_record_ourselves_is_no_difference() -> None:
    marked = live(labels={"applyset.kubernetes.io/part-of": "x"}, annotations={"internal.levelgate.dev/level": "0"})
    assert adoption_differences(live(), marked, {"data": {"a": "1"}}, ()) == ()

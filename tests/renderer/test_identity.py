"""Names, ids and digests: equal bytes for everybody who follows the same rules."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from renderer.identity import GroupKind, ObjectKey, applyset_id, digest, group_kind, key_hash

VECTORS = [
    (("", "ConfigMap", "prod", "web"), "applyset-P3gPbWTGmgTa-ankyb93AMH2soSCrlB3bSrdb9BkD9c-v1"),
    (("", "Secret", "prod", "web"), "applyset-urL2h4aVg3a_edRtK9aAR8zrSuhnmBmUjQFVaar2EI4-v1"),
    (("kro.run", "WebApp", "shop-ns", "shop"), "applyset-AMFfda3Bh41Th424TyOgKt54wqyZczZN3jP0yBB6eHw-v1"),
    (("example.dev", "Fleet", "", "platform"), "applyset-SC57zTk76RKDc0URtVISGFWhFAkn_-Y9CWe18tFp2e0-v1"),
    (("", "Secret", "test", "my-set"), "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1"),
    (("company.com", "ApplySet", "", "my-set"), "applyset-rhp1a-HVAVT_dFgyEygyA1BEB82HPp2o10UiFTpqtAs-v1"),
]


@pytest.mark.parametrize(("parent", "expected"), VECTORS)
def test_the_id_of_a_set_is_that_of_kubectl(parent: tuple[str, str, str, str], expected: str) -> None:
    """KEP-3659; the last two are constants of kubectl's own tests."""
    assert applyset_id(ObjectKey(*parent)) == expected


TEXT = st.text(alphabet="abz019-.", max_size=30)


@settings(derandomize=True, deadline=None, database=None)
@given(TEXT, TEXT, TEXT, TEXT)
def test_an_id_is_a_label_value(group: str, kind: str, namespace: str, name: str) -> None:
    """55 characters of the label alphabet, alphanumeric at both ends."""
    found = applyset_id(ObjectKey(group, kind, namespace, name))
    assert len(found) == 55
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*[A-Za-z0-9]", found)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (GroupKind("", "Secret"), "Secret"),
        (GroupKind("apps", "Deployment"), "Deployment.apps"),
        (GroupKind("rbac.authorization.k8s.io", "Role"), "Role.rbac.authorization.k8s.io"),
    ],
)
def test_the_text_of_a_kind_is_read_back(kind: GroupKind, text: str) -> None:
    assert str(kind) == text
    assert GroupKind.parse(text) == kind


@pytest.mark.parametrize(("api_version", "group"), [("v1", ""), ("apps/v1", "apps"), ("a.b.c/v1beta1", "a.b.c")])
def test_group_and_kind_of_a_manifest(api_version: str, group: str) -> None:
    assert group_kind({"apiVersion": api_version, "kind": "K"}) == GroupKind(group, "K")


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"name": "a", "namespace": "n"}, "Deployment.apps/n/a"),
        ({"name": "a"}, "Deployment.apps/a"),
        ({"name": "a", "namespace": None}, "Deployment.apps/a"),
    ],
)
def test_the_key_of_a_manifest(metadata: dict[str, Any], text: str) -> None:
    assert str(ObjectKey.from_manifest({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})) == text


KEYS = st.builds(ObjectKey, *[st.text(alphabet="ab.", max_size=3)] * 4)


@settings(derandomize=True, deadline=None, database=None)
@given(KEYS, KEYS)
def test_keys_have_equal_hashes_only_when_they_are_equal(one: ObjectKey, other: ObjectKey) -> None:
    """No part of a key runs into the next one."""
    assert (key_hash(one) == key_hash(other)) == (one == other)
    assert re.fullmatch("[0-9a-f]{16}", key_hash(one))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: turned(value[name]) for name in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@settings(derandomize=True, deadline=None, database=None)
@given(JSON)
def test_a_digest_does_not_know_the_order_of_keys(value: Any) -> None:
    assert digest(value) == digest(turned(value))
    assert re.fullmatch("[0-9a-f]{32}", digest(value))
    assert digest(value) != digest([value])


def test_digests_tell_values_apart() -> None:
    values: list[Any] = [None, False, True, 0, 1, "", "0", [], {}, [0], {"": 0}, {"a": None}]
    assert len({digest(value) for value in values}) == len(values)


def test_ids_hashes_and_digests_stay_what_they_are() -> None:
    """They are stored in clusters: changing one would rewrite or orphan every member."""
    assert digest({"b": 1, "a": [True, None, "é"]}) == "f4145c3fda52b343dd23e7240dadebd0"
    assert key_hash(ObjectKey("apps", "Deployment", "prod", "web")) == "16f0bbd2d64d44d7"


def test_a_cluster_scoped_object_has_no_namespace_in_its_name() -> None:
    namespaced, clusterwide = ObjectKey("x.dev", "Shop", "prod", "web"), ObjectKey("x.dev", "Fleet", "", "main")
    assert (namespaced.qualified_name, str(namespaced)) == ("prod/web", "Shop.x.dev/prod/web")
    assert (clusterwide.qualified_name, str(clusterwide)) == ("main", "Fleet.x.dev/main")

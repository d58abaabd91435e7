"""The scope of kinds, as far as it is known without a cluster."""

import pytest

from renderer.identity import GroupKind
from renderer.kinds import CRD, defined_kind, is_built_in, is_namespaced, scopes_of

PAGE = GroupKind("g.test", "Page")


def crd(scope: str) -> dict[str, object]:
    return {"spec": {"group": PAGE.group, "names": {"kind": PAGE.kind}, "scope": scope}}


def test_crds_tell_the_scope_of_their_kinds() -> None:
    assert scopes_of([crd("Cluster")]) == {PAGE: False}
    assert scopes_of([crd("Namespaced")]) == {PAGE: True}
    assert scopes_of([{"spec": {"group": "g.test"}}, {}]) == {}
    assert defined_kind(crd("Cluster")) == PAGE


@pytest.mark.parametrize(("kind", "namespaced"), [(CRD, False), (GroupKind("", "Secret"), True), (PAGE, True)])
def test_a_kind_that_nothing_describes_is_namespaced(kind: GroupKind, namespaced: bool) -> None:
    assert is_namespaced(kind, {}) is namespaced


def test_known_scopes_come_first() -> None:
    assert not is_namespaced(PAGE, {PAGE: False})


def test_a_group_with_a_dot_may_be_that_of_a_crd() -> None:
    assert is_built_in(GroupKind("apps", "Deployment"))
    assert not is_built_in(PAGE)

"""Taking over from kro, broken off before and after every single write: the next pass goes on, and the end is the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from applier.applyset.adoption import Adoption
from renderer.identity import GroupKind, Manifest, ObjectKey, applyset_id
from tests.support.definitions import chain, link
from tests.support.kill_points import GROUP, NAMESPACE, KillablePlatform, deaths

KRO = ("kro.run/applyset", "kro.run/applyset-parent", "kro.run/labeller")
SET = applyset_id(ObjectKey(GROUP, "Chain", NAMESPACE, "one"))


def kept(catalog_crd: Manifest) -> Iterator[tuple[Manifest, str]]:
    """What kro leaves, with the field manager that wrote it."""
    owned = {"kro.run/owned": "true"}
    yield {**catalog_crd, "metadata": {"name": catalog_crd["metadata"]["name"], "labels": owned}}, "controller"
    base: dict[str, Any] = {"apiVersion": f"{GROUP}/v1", "kind": "Chain"}
    one = {"name": "one", "namespace": NAMESPACE}
    yield {**base, "metadata": one, "spec": {}}, "kubectl"
    yield {**base, "metadata": {**one, "labels": owned, "finalizers": ["kro.run/finalizer"]}}, KRO[2]
    annotations = {
        "applyset.kubernetes.io/tooling": "kro/v0.9.0",
        "applyset.kubernetes.io/contains-group-kinds": "ConfigMap",
        "applyset.kubernetes.io/additional-namespaces": "",
        "internal.kro.run/applyset-inventory-hash": "sha256:abc",
    }
    labels = {"applyset.kubernetes.io/id": SET}
    yield {**base, "metadata": {**one, "labels": labels, "annotations": annotations}}, KRO[1]
    for letter in "ab":
        metadata = {
            "name": f"one-{letter}",
            "namespace": NAMESPACE,
            "labels": {**owned, "applyset.kubernetes.io/part-of": SET, "kro.run/node-id": letter},
            "annotations": {"internal.kro.run/apply-order": "1"},
        }
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "old"}}, KRO[0]


@pytest.fixture
def begun() -> Iterator[KillablePlatform]:
    """A cluster with what kro left, and a commit that takes it over."""
    with KillablePlatform() as platform:
        platform.commit({"chain.yaml": chain(GROUP, "ab"), "one.yaml": link(GROUP, NAMESPACE)})
        platform.sources[platform.source] = replace(platform.state, adoption=Adoption.parse("IfUnowned:kro"))
        for manifest, manager in kept(platform.state.catalog.definitions[GroupKind(GROUP, "Chain")].crd):
            platform.call(platform.cluster.apply(manifest, manager=manager))
            platform.sandbox.tick_until_stable()
        yield platform


def take_over(platform: KillablePlatform) -> None:
    """Reconcile in new processes until nothing changes."""
    for _ in range(10):
        platform.sandbox.tick_until_stable()
        platform.restart()
        if not platform.step().changed:
            return
    pytest.fail("it never comes to rest")


def state_of(platform: KillablePlatform) -> list[dict[str, Any]]:
    """All objects but the diaries of the rollout and of passes, which tell what happened on the way."""
    found = [obj for obj in platform.objects() if not obj["metadata"]["name"].startswith("rollout-")]
    for obj in found:
        obj.get("data", {}).pop("passes", None)
    return found


def test_it_may_be_killed_at_every_write(begun: KillablePlatform) -> None:
    """I1, I7. Enumerated: each write, before and after it was carried out. Nothing of kro's name is left but its labels."""
    with begun.copied() as whole:
        take_over(whole)
        wanted = state_of(whole)
    told = str(wanted)
    assert not [manager for manager in KRO if f"'manager': '{manager}'" in told]
    assert "kro.run/finalizer" not in told
    assert "internal.kro.run" not in told
    assert "kro.run/node-id" in told
    died: list[str] = []
    for platform, death in deaths(begun, take_over):
        take_over(platform)
        assert state_of(platform) == wanted, death
        died.append(death)
    assert len(died) > 10

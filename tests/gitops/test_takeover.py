"""Taking over from kro, broken off before and after every single write: the next pass goes on, and the end is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from applier.applyset.adoption import Adoption
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from gitops.windows.window import LOCAL
from renderer.catalog.catalog import load
from renderer.identity import GroupKind, Manifest, ObjectKey, applyset_id
from tests.support.definitions import chain, link
from tests.support.kill_points import GROUP, NAMESPACE, KillableSandbox, deaths

KRO = ("kro.run/applyset", "kro.run/applyset-parent", "kro.run/labeller")
SET = applyset_id(ObjectKey(GROUP, "Chain", NAMESPACE, "one"))


class Noon:
    """A clock that stands still."""

    def now(self) -> datetime:
        return datetime(2026, 11, 20, 12, tzinfo=UTC)

    async def sleep(self, seconds: float) -> None:
        return


@cache
def state() -> SourceState:
    files = {"chain.yaml": chain(GROUP, "ab"), "one.yaml": link(GROUP, NAMESPACE)}
    catalog = load({name: text.encode() for name, text in files.items()}, source="s", commit="1" * 40)
    return SourceState(catalog, adoption=Adoption.parse("IfUnowned:kro"))


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


def left_by_kro() -> KillableSandbox:
    door = KillableSandbox()

    async def write() -> None:
        cluster = door.cluster
        crd = state().catalog.definitions[GroupKind(GROUP, "Chain")].crd
        for manifest, manager in kept(crd):
            await cluster.apply(manifest, manager=manager)
            door.sandbox.tick_until_stable()

    asyncio.run(write())
    return door


def take_over(door: KillableSandbox) -> None:
    """As processes that start anew, until nothing changes any more."""
    for _ in range(10):
        door.sandbox.tick_until_stable()
        if not asyncio.run(Reconciler(door.cluster, "0.1.0", Noon(), LOCAL).reconcile([state()])).changed:
            return
    pytest.fail("it never comes to rest")


def state_of(door: KillableSandbox) -> list[dict[str, Any]]:
    """All objects but the diaries of the rollout and of passes, which tell what happened on the way."""
    found = [obj for obj in door.objects() if not obj["metadata"]["name"].startswith("rollout-")]
    for obj in found:
        obj.get("data", {}).pop("passes", None)
    return found


def test_it_may_be_killed_at_every_write() -> None:
    """I1, I7. Enumerated: each write, before and after it was carried out. Nothing of kro's name is left but its labels."""
    begun = left_by_kro()
    whole = KillableSandbox(begun)
    take_over(whole)
    wanted = state_of(whole)
    told = str(wanted)
    assert not [manager for manager in KRO if f"'manager': '{manager}'" in told]
    assert "kro.run/finalizer" not in told
    assert "internal.kro.run" not in told
    assert "kro.run/node-id" in told
    left = list(deaths(begun, take_over))
    assert len(left) > 10
    for door, death in left:
        take_over(door)
        assert state_of(door) == wanted, death

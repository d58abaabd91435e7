"""Leaving a cluster, broken off before and after every single write: the next call goes on, and the end is the same."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from applier.errors import Denied
from applier.sandbox.endpoints.transport import cluster_of
from gitops.cli import uninstall
from gitops.clock import SystemClock
from gitops.maintenance.uninstall import Uninstaller
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from gitops.records.source_record import read_records
from gitops.windows.window import LOCAL
from renderer.catalog.catalog import load
from tests.support.definitions import chain, config_map, link
from tests.support.fault_injector import FaultInjector, InjectedFault, RefusedRequest
from tests.support.kill_points import GROUP, NAMESPACE, KillableSandbox, deaths


def installed() -> KillableSandbox:
    door = KillableSandbox()
    files = {
        "chain.yaml": chain(GROUP, "ab"),
        "one.yaml": link(GROUP, NAMESPACE),
        "plain.yaml": config_map(NAMESPACE, "p", a="b"),
    }
    state = SourceState(load({name: text.encode() for name, text in files.items()}, source="s", commit="1" * 40))
    for _ in range(3):
        asyncio.run(Reconciler(door.cluster, "0.1.0", SystemClock(), LOCAL).reconcile([state]))
    assert "one-b" in str(door.objects())
    return door


async def leave(door: KillableSandbox, *, with_workloads: bool) -> None:
    leaver = Uninstaller(door.cluster)
    if with_workloads:
        records = dict(await read_records(door.cluster))
        await leaver.prune_sources(records, SystemClock(), version="0.1.0", wait=timedelta())
    left, errors = await leaver.uninstall()
    assert (left.is_empty, errors) == (True, [])


@pytest.mark.parametrize("with_workloads", [False, True], ids=["release", "with-workloads"])
def test_it_may_be_killed_at_every_write(*, with_workloads: bool) -> None:
    """Enumerated: each write, before and after it was carried out."""

    def leaves(door: KillableSandbox) -> None:
        asyncio.run(leave(door, with_workloads=with_workloads))

    begun = installed()
    whole = KillableSandbox(begun)
    leaves(whole)
    whole.sandbox.tick_until_stable()
    wanted = whole.objects()
    assert "levelgate-system" not in str(wanted)
    assert ("one-b" in str(wanted)) is not with_workloads
    left = list(deaths(begun, leaves))
    assert len(left) > 8
    for door, death in left:
        door.sandbox.tick_until_stable()
        leaves(door)
        door.sandbox.tick_until_stable()
        assert door.objects() == wanted, death


def test_records_go_once_everything_is_released() -> None:
    """What could not be released keeps all records, so that the daemon, or `--with-workloads`, can still go on from them; then it is called again."""
    whole = installed()
    asyncio.run(leave(whole, with_workloads=False))
    door = installed()
    denied = FaultInjector(door.answer, [InjectedFault(RefusedRequest(403), verb="patch", name="one-b")])
    before = {ours for ours in map(named, door.objects()) if "levelgate-system" in ours}
    assert len(before) > 3
    left, errors = asyncio.run(Uninstaller(cluster_of(denied.answer)).uninstall())
    assert [type(error) for error in errors] == [Denied]
    assert "one-b" in {obj["metadata"]["name"] for obj in left.release}
    assert before <= set(map(named, door.objects()))
    asyncio.run(leave(door, with_workloads=False))
    assert door.objects() == whole.objects()


async def test_our_own_namespace_is_told_to_stay_where_something_of_others_is_in_it() -> None:
    door = await asyncio.to_thread(installed)
    leaver = Uninstaller(cluster_of(door.answer))
    assert await leaver.other_writers(await leaver.survey()) == ""
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "levelgate-system"}}
    await leaver.cluster.apply(theirs, manager="person")
    todo = await leaver.survey()
    company = await leaver.other_writers(todo)
    rows = [" ".join(line.split()) for line in uninstall._plan_lines(todo, company, None)]
    assert "release Namespace 1 levelgate-system: contains ConfigMap/levelgate-system/x" in rows
    await leaver.uninstall()
    assert "levelgate-system/x" in set(map(named, door.objects()))


def named(obj: dict[str, Any]) -> str:
    """Namespace and name."""
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"

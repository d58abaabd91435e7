"""Leaving a cluster, broken off before and after every single write: the next call goes on, and the end is the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from applier.errors import Denied
from gitops.cli import uninstall
from gitops.maintenance.uninstall import Uninstaller
from gitops.records.source_record import read_records
from tests.support.definitions import chain, config_map, link
from tests.support.fault_injector import InjectedFault, RefusedRequest
from tests.support.kill_points import GROUP, NAMESPACE, KillablePlatform, deaths
from tests.support.platform import OWN


@pytest.fixture
def installed() -> Iterator[KillablePlatform]:
    """A cluster with a definition, an instance and a plain object."""
    files = {
        "chain.yaml": chain(GROUP, "ab"),
        "one.yaml": link(GROUP, NAMESPACE),
        "plain.yaml": config_map(NAMESPACE, "p", a="b"),
    }
    with KillablePlatform() as platform:
        platform.commit(files)
        for _ in range(3):
            platform.restart()
            platform.step()
        assert "one-b" in str(platform.objects())
        yield platform


def leave(platform: KillablePlatform, *, with_workloads: bool) -> None:
    """Remove Levelgate from the cluster, as a command does."""
    platform.call(_leave(platform, with_workloads=with_workloads))


async def _leave(platform: KillablePlatform, *, with_workloads: bool) -> None:
    leaver = Uninstaller(platform.cluster)
    if with_workloads:
        records = dict(await read_records(platform.cluster))
        await leaver.prune_sources(records, platform.clock, version="0.1.0", wait=timedelta())
    left, errors = await leaver.uninstall()
    assert (left.is_empty, errors) == (True, [])


@pytest.mark.parametrize("with_workloads", [False, True], ids=["release", "with-workloads"])
def test_it_may_be_killed_at_every_write(installed: KillablePlatform, *, with_workloads: bool) -> None:
    """Enumerated: each write, before and after it was carried out."""
    leaves = partial(leave, with_workloads=with_workloads)
    with installed.copied() as whole:
        leaves(whole)
        whole.sandbox.tick_until_stable()
        wanted = whole.objects()
    assert "levelgate-system" not in str(wanted)
    assert ("one-b" in str(wanted)) is not with_workloads
    died: list[str] = []
    for platform, death in deaths(installed, leaves):
        platform.sandbox.tick_until_stable()
        leaves(platform)
        platform.sandbox.tick_until_stable()
        assert platform.objects() == wanted, death
        died.append(death)
    assert len(died) > 8


def test_records_go_once_everything_is_released(installed: KillablePlatform) -> None:
    """What could not be released keeps all records, so that the daemon, or `--with-workloads`, can still go on from them; then it is called again."""
    with installed.copied() as whole:
        leave(whole, with_workloads=False)
        wanted = whole.objects()
    before = {ours for ours in map(named, installed.objects()) if "levelgate-system" in ours}
    assert len(before) > 3
    installed.faulty.faults = [InjectedFault(RefusedRequest(403), verb="patch", name="one-b")]
    left, errors = installed.call(Uninstaller(installed.cluster).uninstall())
    assert [type(error) for error in errors] == [Denied]
    assert "one-b" in {obj["metadata"]["name"] for obj in left.release}
    assert before <= set(map(named, installed.objects()))
    installed.faulty.faults = ()
    leave(installed, with_workloads=False)
    assert installed.objects() == wanted


def test_our_own_namespace_is_told_to_stay_where_something_of_others_is_in_it(installed: KillablePlatform) -> None:
    leaver = Uninstaller(installed.cluster)
    assert installed.call(leaver.other_writers(installed.call(leaver.survey()))) == ""
    installed.request("POST", f"{OWN}?fieldManager=person", {"metadata": {"name": "x"}})
    todo = installed.call(leaver.survey())
    company = installed.call(leaver.other_writers(todo))
    rows = [" ".join(line.split()) for line in uninstall._plan_lines(todo, company, None)]
    assert "release Namespace 1 levelgate-system: contains ConfigMap/levelgate-system/x" in rows
    installed.call(leaver.uninstall())
    assert "levelgate-system/x" in set(map(named, installed.objects()))


def named(obj: dict[str, Any]) -> str:
    """Namespace and name."""
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"

"""Whichever process is told of something new, the one that leads hears of it (surface 2.5; docs/operations.md, "Let the forge tell")."""

from __future__ import annotations

from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.state.observed import annotation
from gitops.daemon.source_hints import SyncHintForwarder
from gitops.records.installation import INSTALLATION, ensure_namespace
from renderer import well_known
from renderer.identity import source_parent
from tests.support.clock import StillClock

NAMES = ("a", "b", "never-seen")


async def told(*, leads: bool, suspended: bool = False) -> tuple[list[str], dict[str, str]]:
    """Which sources are asked for by this process, and what stands on the records after a word about all."""
    cluster = cluster_of(Sandbox().answer)
    await ensure_namespace(cluster)
    parents = [source_parent(name) for name in NAMES[:2]]
    for key in (*parents, INSTALLATION):
        said = {"annotations": {well_known.SUSPEND: "INC-7"}} if suspended and key == INSTALLATION else {}
        metadata = {"name": key.name, "namespace": key.namespace, **said}
        await cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, manager="test")
    asked: list[str] = []
    hints = SyncHintForwarder(cluster, StillClock(), lambda: leads, lambda *names: asked.extend(names))
    await hints.take(*NAMES)
    found = {key.name: annotation(await cluster.get(key) or {}, well_known.SYNC_REQUESTED_AT) for key in parents}
    return asked, found


async def test_who_leads_asks_and_writes_nothing() -> None:
    assert await told(leads=True) == ([*NAMES], {"source-a": "", "source-b": ""})


async def test_who_does_not_lead_passes_it_on() -> None:
    time = "2026-11-20T12:00:00.000000Z"
    assert await told(leads=False) == ([], {"source-a": time, "source-b": time})


async def test_nothing_is_written_where_everything_is_suspended() -> None:
    """surface 5.2: no new write."""
    assert await told(leads=False, suspended=True) == ([], {"source-a": "", "source-b": ""})

"""Whoever is told of something new, whoever works on the source hears of it (surface 2.5; docs/operations.md, "Let the forge tell")."""

from __future__ import annotations

from applier.observed import annotation
from applier.sandbox.api import Sandbox
from applier.sandbox.transport import cluster_of
from gitops.daemon.hints import Hints
from gitops.records.installation import INSTALLATION, ensure_namespace
from renderer import keys
from renderer.identity import source_parent
from tests.gitops.fleet import StillClock

NAMES = ("mine", "theirs", "never-seen")


async def told(*, suspended: bool = False) -> tuple[list[str], dict[str, str]]:
    """Which sources are asked for by this process, and what stands on the records after a word about all."""
    cluster = cluster_of(Sandbox().answer)
    await ensure_namespace(cluster)
    parents = [source_parent(name) for name in NAMES[:2]]
    for key in (*parents, INSTALLATION):
        said = {"annotations": {keys.SUSPEND: "INC-7"}} if suspended and key == INSTALLATION else {}
        metadata = {"name": key.name, "namespace": key.namespace, **said}
        await cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, manager="test")
    asked: list[str] = []
    hints = Hints(cluster, StillClock(), lambda name: name == "mine", lambda *names: asked.extend(names))
    await hints.take(*NAMES)
    found = {key.name: annotation(await cluster.get(key) or {}, keys.SYNC) for key in parents}
    return asked, found


async def test_own_sources_are_asked_for_and_those_of_others_passed_on() -> None:
    asked, said = await told()
    assert asked == ["mine"]
    assert said == {"source-mine": "", "source-theirs": "2026-11-20T12:00:00.000000Z"}


async def test_nothing_is_written_where_everything_is_suspended() -> None:
    """surface 5.2: no new write."""
    assert await told(suspended=True) == (["mine"], {"source-mine": "", "source-theirs": ""})

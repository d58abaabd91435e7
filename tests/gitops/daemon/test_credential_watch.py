"""What tells that credentials have changed: a watch of the hub's Secrets, and one of a directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from applier.cluster import Cluster, Object, WatchEvent, WatchTarget
from applier.errors import Denied, Unavailable
from applier.kube.cluster import KubeCluster
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from gitops.daemon.credential_watch import CLUSTER_SECRETS, CredentialWatch
from gitops.fleet.access import CLUSTER_LABEL
from gitops.fleet.cluster_spec import FileAccess, ProfileAccess, SecretAccess
from renderer.identity import OWN_NAMESPACE
from tests.support.clock import VirtualLoop
from tests.support.cluster.waiting import until

EU, US = SecretAccess("eu", "value"), SecretAccess("us", "value")


def run(story: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(story)


def secret(name: str, **labels: str) -> Object:
    metadata: dict[str, Any] = {"name": name, "namespace": OWN_NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"value": ""}}


async def hub_with_namespace() -> KubeCluster:
    hub = cluster_of(Sandbox().answer)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN_NAMESPACE}}
    await hub.apply(namespace, manager="test")
    return hub


def test_a_secret_that_changes_is_told_to_its_cluster_alone_and_asks_the_hub_for_nothing() -> None:
    """M3. The watch is the only request, but for its renewal every few minutes, however many clusters there are."""

    async def story() -> None:
        hub = await hub_with_namespace()
        watch = CredentialWatch(hub, None, lambda _: None)
        with watch.listen(EU) as eu, watch.listen(US) as us, watch.listen(FileAccess("us")) as file:
            async with watch.follow():
                await asyncio.wait_for(eu.wait(), 1)  # it has begun
                assert us.is_set()
                assert (watch.tells_changes(EU), watch.tells_changes(FileAccess("us"))) == (True, False)
                assert not watch.tells_changes(ProfileAccess("us"))
                eu.clear()
                us.clear()
                known = hub.requests.copy()
                await hub.apply(secret("eu"), manager="test")  # without the label it is nobody's
                await asyncio.sleep(10)
                assert not eu.is_set()
                await hub.apply(secret("eu", **{CLUSTER_LABEL: "true"}), manager="test")
                await asyncio.wait_for(eu.wait(), 1)
                eu.clear()
                await hub.apply(secret("eu"), manager="test")  # taken away again
                await asyncio.wait_for(eu.wait(), 1)
                assert not us.is_set()
                assert not file.is_set()
                await asyncio.sleep(3600)
        asked = hub.requests - known
        assert asked.keys() <= {"apply", "watch"}
        assert asked["watch"] <= 3600 / 240

    run(story())


@dataclass
class Refusing:
    """A hub that refuses a watch in these ways, one after another, then lets it begin."""

    errors: list[Exception]
    asked: list[WatchTarget] = field(default_factory=list)

    @asynccontextmanager
    async def watch(self, target: WatchTarget) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        self.asked.append(target)
        if self.errors:
            raise self.errors.pop(0)
        yield self._silence()

    async def _silence(self) -> AsyncIterator[WatchEvent]:
        await asyncio.sleep(1e6)
        for event in list[WatchEvent]():
            yield event


def test_a_hub_that_refuses_the_watch_is_looked_at_by_time_until_it_no_longer_does() -> None:
    async def story() -> None:
        notices: list[str] = []
        hub = Refusing([Denied("may not watch", status=403)])
        watch = CredentialWatch(cast(Cluster, hub), None, notices.append)
        with watch.listen(EU) as eu:
            async with watch.follow():
                await eu.wait()
                assert not watch.tells_changes(EU)
                eu.clear()
                await eu.wait()
                assert watch.tells_changes(EU)
        assert hub.asked == [CLUSTER_SECRETS] * 2
        assert notices == [
            "cannot watch the Secrets with credentials of clusters, so Levelgate reads them once a minute: may not watch"
        ]

    run(story())


def test_a_hub_that_is_down_is_asked_for_nothing_more_until_its_watch_begins() -> None:
    async def story() -> None:
        notices: list[str] = []
        watch = CredentialWatch(cast(Cluster, Refusing([Unavailable("no answer")] * 3)), None, notices.append)
        with watch.listen(EU) as eu:
            async with watch.follow():
                await asyncio.sleep(0.5)
                assert not eu.is_set()
                assert watch.tells_changes(EU)
                await eu.wait()
        assert notices == []

    run(story())


async def test_a_file_that_appears_or_changes_is_told(tmp_path: Path) -> None:
    watch = CredentialWatch(cast(Cluster, Refusing([])), tmp_path, lambda _: None)
    with watch.listen(FileAccess("eu")) as eu, watch.listen(US) as us:
        async with watch.follow():
            await until(us.is_set)
            us.clear()
            for text in ("one", "two"):
                (tmp_path / "eu").write_text(text)
                async with asyncio.timeout(30):
                    await eu.wait()
                eu.clear()
            assert not us.is_set()

"""What would die with a Namespace, asked right before it is deleted (`applier.read.contents`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from applier.cluster import Discovery
from applier.errors import Unavailable
from applier.read.contents import contents_of
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request, Response
from applier.state.observed import Observed
from renderer.identity import ObjectKey
from tests.support.properties.cluster import WitnessedCluster
from tests.support.properties.repositories import GROUP

TEAM = ObjectKey("", "Namespace", "", "team")


class Silent(WitnessedCluster):
    """One of its API servers does not answer."""

    async def discover(self, *, refresh: bool = False) -> Discovery:
        return replace(await super().discover(refresh=refresh), stale_groups=frozenset({"metrics.k8s.io"}))


async def test_a_kind_that_came_since_the_process_began_is_looked_at() -> None:
    """I2: what others put into a Namespace dies with it, whether we have ever heard of the kind or not."""
    cluster = WitnessedCluster()
    observed = Observed(await cluster.discover())
    assert await contents_of(cluster, TEAM, observed) == ""
    names = {"plural": "things", "kind": "Thing"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    cluster.put(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"things.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
        }
    )
    cluster.put({"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "theirs", "namespace": "team"}})
    assert await contents_of(cluster, TEAM, observed) == f"Thing.{GROUP}/team/theirs"


async def test_while_an_api_server_is_silent_nobody_knows_what_is_in_a_namespace() -> None:
    """I12: what cannot be read is never empty."""
    cluster = Silent()
    with pytest.raises(
        Unavailable, match=r"the contents are unknown, because the API server of metrics\.k8s\.io does not answer"
    ):
        await contents_of(cluster, TEAM, Observed(await cluster.discover()))


async def test_a_server_that_cannot_show_metadata_alone_is_asked_for_all() -> None:
    """Aggregated API servers differ (Kubernetes API concepts, "Metadata-only fetches")."""
    sandbox = Sandbox()

    async def answer(request: Request) -> Response:
        able = [one for one in request.headers.get("accept", "").split(",") if "as=PartialObjectMetadata" not in one]
        return (
            await sandbox.answer(replace(request, headers={**request.headers, "accept": ",".join(able)}))
            if able
            else Response(406)
        )

    cluster = cluster_of(answer)
    await cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, manager="somebody")
    await cluster.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "team"}}, manager="somebody"
    )
    assert await contents_of(cluster, TEAM, Observed(await cluster.discover())) == "Secret/team/s"

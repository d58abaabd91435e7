"""Discovery and lists: what is cached, what is asked again, and what stays unknown."""

import asyncio
from pathlib import Path

import pytest

from applier.errors import ClusterError, Invalid, KindNotServed, Unavailable
from applier.kube.discovery import merge_discoveries, parse_aggregated
from renderer.identity import GroupKind, ObjectKey
from tests.support.scripted_server import APPS, CORE, Reply, discovery, group, refusal, scripted

CONFIG_MAP = GroupKind("", "ConfigMap")
DEPLOYMENT = GroupKind("apps", "Deployment")
WIDGET = GroupKind("example.org", "Widget")
WIDGETS = "/apis/example.org/v1/namespaces/prod/widgets/w"
KEY = ObjectKey("example.org", "Widget", "prod", "w")
OBJECT = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "prod"}}
EXAMPLE = group("example.org", ("Widget", "widgets"))


async def test_one_answer_serves_until_a_refresh_which_is_conditional(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script("/apis", discovery(APPS, etag='"1"'), Reply(304, "", {"ETag": '"1"'}))
        found = await cluster.discover()
        assert await cluster.discover() is found
        assert cluster.requests["discover"] == 2
        again = await cluster.discover(refresh=True)
        assert again.resources == found.resources
        assert [seen.headers.get("If-None-Match") for seen in server.requests("/apis")] == [None, '"1"']


async def test_whoever_asks_while_the_first_answer_is_waited_for_shares_it(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (_, cluster):
        first = asyncio.ensure_future(cluster.discover())
        await asyncio.sleep(0)
        assert await cluster.discover() is await first
        assert cluster.requests["discover"] == 2


async def test_refreshes_at_the_same_time_share_one_answer(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (_, cluster):
        await cluster.discover()
        await asyncio.gather(*(cluster.discover(refresh=True) for _ in range(10)))
        # One that was under way when the others asked may be older than their question: they share the next.
        assert cluster.requests["discover"] <= 2 * 3


async def test_an_unknown_kind_is_asked_for_again_every_time(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        for _ in range(2):
            with pytest.raises(KindNotServed, match=r"Widget\.example\.org"):
                await cluster.get(KEY)
        server.script("/apis", discovery(APPS, EXAMPLE))
        server.script(WIDGETS, Reply(body=OBJECT))
        assert await cluster.get(KEY) == OBJECT


async def test_a_path_that_is_not_served_yet_is_asked_for_again_once(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script("/apis", discovery(EXAMPLE))
        server.script(WIDGETS, Reply(404, "404 page not found\n"), Reply(body=OBJECT))
        assert await cluster.get(KEY) == OBJECT
        assert cluster.requests == {"discover": 4, "get": 2}


async def test_a_kind_that_went_away_is_not_served(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script("/apis", discovery(EXAMPLE), discovery())
        with pytest.raises(KindNotServed):
            await cluster.delete(KEY, uid="u", resource_version=None)
        assert cluster.requests["delete"] == 1


async def test_a_kind_of_a_stale_group_is_unknown_not_absent(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script("/apis", discovery(APPS, group("example.org", freshness="Stale")))
        found = await cluster.discover()
        assert found.stale_groups == {"example.org"}
        with pytest.raises(Unavailable, match="APIService"):
            await cluster.get(KEY)


@pytest.mark.parametrize("root", ["/api", "/apis"])
async def test_a_server_without_aggregated_discovery_is_refused_until_it_has_it(tmp_path: Path, root: str) -> None:
    """Kubernetes before 1.30 answers in the plain form: the error names the version that is needed."""
    async with scripted(tmp_path) as (server, cluster):
        plain = Reply(body={"kind": "APIVersions" if root == "/api" else "APIGroupList"}, headers={"ETag": '"1"'})
        server.script(root, plain, discovery(APPS if root == "/apis" else CORE))
        with pytest.raises(ClusterError, match=rf"discovery {root}: .* needs Kubernetes 1\.30 or later; upgrade"):
            await cluster.discover()
        assert (await cluster.discover()).resources
        assert [seen.headers.get("If-None-Match") for seen in server.requests(root)] == [None, None]


def test_the_first_version_of_a_kind_is_the_preferred_one() -> None:
    newer, older = group("g", ("A", "as"), version="v2"), group("g", ("A", "as"), ("B", "bs"), version="v1")
    newer["versions"] += older["versions"]
    found = parse_aggregated({"items": [newer]})
    one, other = found.resources[GroupKind("g", "A")], found.resources[GroupKind("g", "B")]
    assert (one.version, one.other_versions) == ("v2", ("v1",))
    assert (other.version, other.other_versions) == ("v1", ())
    assert merge_discoveries([found, parse_aggregated({"items": [older]})]).resources == found.resources


def test_a_resource_without_a_kind_is_left_out() -> None:
    entry = {"resource": "bindings", "scope": "Namespaced", "subresources": [{"subresource": "x"}]}
    assert not parse_aggregated(
        {"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": [entry]}]}]}
    ).resources


async def test_lists_are_read_page_by_page_and_say_what_they_hold(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        path = "/api/v1/namespaces/prod/configmaps"
        first = {"metadata": {"continue": "next"}, "items": [{"metadata": {"name": "a"}}]}
        last = {"metadata": {}, "items": [{"metadata": {"name": "b"}, "kind": "PartialObjectMetadata"}]}
        server.script(path, Reply(body=first), Reply(body=last))
        found = await cluster.list(CONFIG_MAP, "prod", selector="app in (x,y)", metadata_only=True)
        assert [(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in found] == [
            ("v1", "ConfigMap", "a"),
            ("v1", "ConfigMap", "b"),
        ]
        one, two = server.requests(path)
        assert one.query == {"limit": "500", "labelSelector": "app in (x,y)"}
        assert two.query["continue"] == "next"
        assert "PartialObjectMetadataList" in one.headers["Accept"]


async def test_a_list_whose_next_page_expired_starts_again(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        first = Reply(body={"metadata": {"continue": "next"}, "items": [{"metadata": {"name": "old"}}]})
        expired = refusal(410, reason="Expired", message="the provided continue parameter is too old")
        server.script("/api/v1/configmaps", first, expired, Reply(body={"items": [{"metadata": {"name": "new"}}]}))
        assert [each["metadata"]["name"] for each in await cluster.list(CONFIG_MAP)] == ["new"]


async def test_a_list_that_always_expires_is_given_up_never_cut_short(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        first = Reply(body={"metadata": {"continue": "next"}, "items": [{"metadata": {"name": "old"}}]})
        expired = refusal(410, reason="Expired")
        server.script("/api/v1/configmaps", first, expired, first, expired, first, expired)
        with pytest.raises(Unavailable, match="dropped the list before the last page"):
            await cluster.list(CONFIG_MAP)


async def test_a_namespaced_object_needs_a_namespace(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script("/api", discovery(CORE))
        with pytest.raises(Invalid, match=r"set metadata\.namespace"):
            await cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, manager="m")


async def test_a_value_that_json_cannot_hold_is_the_authors_mistake(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (_, cluster):
        manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "b"}}
        with pytest.raises(Invalid, match="beyond 64 bits") as caught:
            await cluster.apply(manifest | {"data": {"a": 2**70}}, manager="m")
        assert str(2**70) not in str(caught.value)


@pytest.mark.parametrize("item", ["text", {"versions": [{"resources": [{"responseKind": {"kind": "A"}}]}]}])
async def test_a_malformed_discovery_is_an_error_that_is_not_kept(tmp_path: Path, item: object) -> None:
    async with scripted(tmp_path) as (server, cluster):
        body = {"kind": "APIGroupDiscoveryList", "items": [item]}
        server.script("/apis", Reply(body=body, headers={"ETag": '"1"'}), discovery(APPS))
        with pytest.raises(Unavailable, match=r"discovery /apis: the answer is malformed") as raised:
            await cluster.discover()
        assert raised.value.status == 200
        assert (await cluster.discover()).resources
        assert [seen.headers.get("If-None-Match") for seen in server.requests("/apis")] == [None, None]

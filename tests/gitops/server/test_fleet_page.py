"""A fleet on the status page, in metrics and to probes: one line and one page for each cluster, and a bounded number of series."""

from __future__ import annotations

import asyncio
import html
from dataclasses import replace
from datetime import timedelta

import pytest

from applier.cluster import LOCAL_CLUSTER, parse_cluster_name
from applier.execute.results import Result
from gitops.fleet.cluster_record import SourceSummary
from gitops.fleet.reach import ReachState
from gitops.server.metric_readings import MAX_CLUSTER_NAMES
from tests.support.monitoring.fleet_scene import fleet_scene
from tests.support.monitoring.metrics import KEY, series, values
from tests.support.monitoring.page import HOSTILE, Tags
from tests.support.monitoring.scene import scene

INSTANCE = "/instances/g.test/Link/default/i0"
SUMMARY = SourceSummary("c0ffee1234567", "Held", 7, 2, "WindowClosed: the window hours is closed", None)


def label_values(text: str) -> set[str]:
    names = ("levelgate_queue_depth", "levelgate_actions_total", "levelgate_stage_duration_seconds_count")
    return {row[1] if name == names[1] else row[0] for name in names for row in values(text, name)}


async def test_the_first_page_is_a_table_of_clusters() -> None:
    """S3-19: all columns, the worst first, each with a link; `local` is one of them."""
    states = {"eu-1": ReachState.ENGAGED, "us-1": ReachState.UNREACHABLE, "eu-2": ReachState.PAUSED}
    async with fleet_scene(states) as (seen, standing):
        standing.record("eu-1", shop=SUMMARY)
        standing.record("old", "Removed")
        tags = Tags(await seen.page())
    links = [attributes.get("href") for tag, attributes in tags.elements if tag == "a"]
    rows = [link for link in links if link and link.startswith("/clusters/")]
    assert rows == [f"/clusters/{name}/" for name in ("us-1", "old", "eu-2", "eu-1", "local")]
    assert "5 clusters" in tags.text
    assert "1 Unreachable, 1 Removed, 1 Paused, 2 Engaged" in tags.text
    for text in ("it does not answer", "shop c0ffee1", "WindowClosed: the window hours is closed"):
        assert text in tags.text


async def test_each_cluster_has_its_own_page_and_its_links_stay_there() -> None:
    async with fleet_scene({"kind#eu-1": ReachState.ENGAGED}, names=("i0", "i1")) as (seen, standing):
        await seen.started()
        standing.observers["kind#eu-1"].report_pass(await seen.step())
        root = "/clusters/kind%23eu-1"
        page, instance = await seen.page(f"{root}/"), await seen.page(f"{root}{INSTANCE}")
        assert "2 instances" in await seen.page("/clusters/local/")
        async with seen.client() as client:
            missing = await client.get("/clusters/none/")
            moved = await client.get("/clusters/local", allow_redirects=False)
            assert (missing.status, moved.status) == (404, 308)
            assert moved.headers["Location"] == "/clusters/local/"
    assert "2 instances" in page
    links = {attributes.get("href") or "" for tag, attributes in Tags(page).elements if tag == "a"}
    assert f"{root}{INSTANCE}" in links
    assert f"{root}/?state=Settled#instances" in links
    assert not [link for link in links if link.startswith(("/instances", "/?"))]
    assert f'href="{root}/"' in instance
    assert f'data-events="{root}/events"' in instance


async def test_of_a_cluster_that_does_not_answer_the_last_is_known() -> None:
    """Its state, since when, and why; what was seen of it by this process, or what the hub's record has."""
    async with fleet_scene({"us-1": ReachState.UNREACHABLE}, names=("i0",)) as (seen, standing):
        assert "Nothing is known" in await seen.page("/clusters/us-1/")
        standing.record("us-1", shop=SUMMARY)
        recorded = Tags(await seen.page("/clusters/us-1/")).text
        await seen.started()
        standing.observers["us-1"].report_pass(await seen.step())
        seen_last = Tags(await seen.page("/clusters/us-1/")).text
    for text in (recorded, seen_last):
        assert "Unreachable" in text
        assert "since" in text
        assert "it does not answer" in text
    assert "c0ffee1" in recorded
    assert "1 instance" in seen_last
    assert "what was seen last" in seen_last


async def test_messages_of_others_stay_text() -> None:
    async with fleet_scene({}) as (seen, standing):
        standing.add("eu-1", ReachState.UNREACHABLE, HOSTILE)
        hostile_sources = {HOSTILE: replace(SUMMARY, waits_for=HOSTILE, commit=HOSTILE)}
        standing.record("eu-1", "Engaged", **hostile_sources)
        for path in ("/", "/clusters/eu-1/"):
            page = await seen.page(path)
            assert "<img src=x" not in page
            assert HOSTILE in html.unescape(page)


async def test_clusters_are_cut_into_pages() -> None:
    async with fleet_scene({f"c{number:03}": ReachState.ENGAGED for number in range(119)}) as (seen, _):
        first, last = await seen.page(), await seen.page("/?page=3")
    assert first.count('<th scope="row">') == 50
    assert 'href="/?page=2#clusters"' in first
    assert last.count('<th scope="row">') == 20


async def test_250_clusters_have_201_label_values() -> None:
    """S3-20: 200 names, then `other`, for counters and gauges alike, and the sum is right."""
    async with fleet_scene({f"c{number}": ReachState.ENGAGED for number in range(249)}) as (seen, standing):
        for observer in standing.observers.values():
            observer.print_result(Result(KEY, KEY, "created"))
        for name in standing.members:
            with seen.seen.stage_of(name)("pass"):
                pass
        text = await seen.metrics()
    assert len(label_values(text)) == MAX_CLUSTER_NAMES + 1 == 201
    actions = values(text, "levelgate_actions_total")
    assert actions["created", "other", "done"] == 50
    assert sum(actions.values()) == 249
    requests = values(text, "levelgate_api_requests_total")
    assert requests["other", "200", "get"] == 50
    assert values(text, "levelgate_clusters") == {
        ("Engaged",): 250, ("Degraded",): 0, ("Unreachable",): 0, ("Paused",): 0, ("Removed",): 0
    }  # fmt: skip


async def test_work_on_a_cluster_is_told_with_its_name() -> None:
    async with fleet_scene({"eu-1": ReachState.ENGAGED}, names=("i0",)) as (seen, standing):
        await seen.started()
        at_home = await seen.metrics()
        standing.observers["eu-1"].report_pass(await seen.step())
        text = await seen.metrics()
    assert {row[0] for row in values(at_home, "levelgate_instances")} == {"local"}
    assert values(text, "levelgate_instances") == {
        (name, "links.g.test", "platform", "Settled"): 1 for name in ("local", "eu-1")
    }
    assert values(text, "levelgate_source_readable") == {("platform",): 1}
    assert values(text, "levelgate_leader") == {(): 1}
    assert values(text, "levelgate_build_info") == {("0.1.0",): 1}


async def test_without_a_fleet_nothing_names_a_cluster() -> None:
    """M1."""
    async with scene(names=("i0",)) as seen:
        await seen.started()
        text, page = await seen.metrics(), await seen.page()
        async with seen.client() as client:
            assert (await client.get("/clusters/local/")).status == 404
    assert "cluster=" not in text
    assert "levelgate_clusters" not in text
    assert "/clusters/" not in page
    assert "data-events" not in page
    assert series(text) > 50


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_a_cluster_that_does_not_answer_makes_no_probe_bad(path: str) -> None:
    """Nor one whose pass does not end: a restart helps neither."""
    async with fleet_scene({"us-1": ReachState.UNREACHABLE}, names=("i0",)) as (seen, standing):
        await seen.started()
        (name,) = standing.members
        with seen.seen.stage_of(name)("pass"):
            seen.fleet.clock.moment += timedelta(hours=1)
            async with seen.client() as client:
                assert (await client.get(path)).status == 200


async def test_whoever_looks_at_the_fleet_hears_of_every_cluster() -> None:
    """The table hears of all, a cluster's page of its own: passes, and states that change."""
    async with fleet_scene({"eu-1": ReachState.ENGAGED, "us-1": ReachState.ENGAGED}) as (seen, standing):
        view = seen.seen.fleet
        assert view is not None
        of_fleet = asyncio.ensure_future(view.changes.wait(view.changes.number))
        us = view.monitor_of(parse_cluster_name("us-1"))
        await asyncio.sleep(0)
        standing.observers["eu-1"].print_notice("cluster", "Unreachable: it does not answer")
        assert await asyncio.wait_for(of_fleet, 5) == 1
        assert us.changes.number == 0
        assert view.monitor_of(LOCAL_CLUSTER) is seen.seen.monitor
        standing.members.clear()
        standing.add("new")
        assert view.monitor_of(parse_cluster_name("us-1")) is not us

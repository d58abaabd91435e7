"""The status page without a server or a browser: what it says of a pass, that names stay text, and that its weight is bounded."""

from __future__ import annotations

import asyncio
import gc
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from weakref import ref

import pytest
from aiohttp import web

from applier.causes import Cause, Reason
from gitops.errors import SourceError
from gitops.reconcile.tally import StateCounts
from gitops.records.display_state import DisplayState
from gitops.server import page
from gitops.server.monitor import PassLine
from renderer.identity import ObjectKey
from tests.support.clock import START
from tests.support.monitoring.metrics import multiplied
from tests.support.monitoring.page import HOSTILE, Tags, held
from tests.support.monitoring.scene import FREEZE, HOURS, planned, scene
from tests.support.platform import OWN

NEVER_SECONDS = 3600.0


async def test_before_the_first_pass_the_page_says_who_works() -> None:
    async with scene() as seen:
        assert "The first reconciliation has not ended yet" in await seen.page()
    async with scene(leads=False) as seen:
        assert "The cluster does not report a leader yet" in await seen.page()
        seen.seen.monitor.stands_by = lambda: True
        assert "another one leads" in await seen.page()


async def test_a_configuration_that_is_not_taken_is_told_on_the_page_and_to_prometheus() -> None:
    """S4-14, surface 2.5: an operator who does not read the log learns of it too."""
    async with scene(names=("i0",)) as seen:
        for started in (False, True):
            assert "levelgate_configuration_refused 0.0" in await seen.metrics()
            seen.seen.monitor.refused = lambda: "levelgate.yaml:3: listn: no field <listn>"
            assert "no field &lt;listn&gt;" in await seen.page()
            assert "levelgate_configuration_refused 1.0" in await seen.metrics()
            seen.seen.monitor.refused = str
            if not started:
                await seen.started()


async def test_it_says_what_the_commands_say() -> None:
    """Reasons, times and words are those of `levelgate status`, `windows` and `explain`."""
    async with scene(names=("i0", "i1")) as seen:
        await held(seen)
        overview = Tags(await seen.page()).text
        one = Tags(await seen.page("/instances/g.test/Link/default/i0")).text
    assert "WindowClosed" in overview
    assert "window/prod" in overview
    assert "waits for window prod (CHG-2210), opens 2026-11-24T08:00Z (Tue 09:00 Europe/Berlin)" in overview
    assert "denies default · opens Mon 2026-11-23 08:00 UTC" in " ".join(overview.split())
    assert "Not before Tue 2026-11-24 08:00 UTC" in " ".join(one.split())
    assert "1  WindowClosed  default/i0" in one
    assert "levelgate break-glass link/i0 -n default --for 1h" in one
    assert "level 0" in one
    assert "level 1" in one


async def test_instances_that_do_not_exist_yet_are_counted() -> None:
    """I12: of four that Git declares, two wait for a window that keeps them from being created; nothing calls that settled."""
    freeze = {**FREEZE, "selector": {"instances": {"matchLabels": {"tier": "new"}}}}
    async with scene(names=("i0", "i1")) as seen:
        await seen.started()
        seen.fleet.names += ("i2", "i3")
        seen.fleet.written |= {name: {"metadata": {"labels": {"tier": "new"}}} for name in ("i2", "i3")}
        seen.fleet.push("one", freeze=freeze)
        seen.fleet.clock.moment = datetime(2026, 11, 23, 12, tzinfo=UTC)
        await seen.step()
        told = Tags(await seen.page()).text
        (record,) = [json.loads(seen.fleet.request("GET", f"{OWN}/source-platform")["data"]["counts"])]
    assert "4 instances" in told
    assert "2 not created yet" in " ".join(told.split())
    assert record == {"instances": 4, "missing": 2, "failed": 0, "held": 2}
    rollouts = " ".join(told[told.index("Rollouts") : told.index("Windows")].split())
    assert "Progressing" in rollouts
    assert "Settled" not in rollouts


async def test_whoever_waits_for_the_same_is_told_once() -> None:
    """With two hundred instances behind one window the rollouts and windows stay in sight; what failed with other words stands apart."""
    async with scene(names=tuple(f"i{number}" for number in range(7))) as seen:
        await held(seen)
        text = " ".join(Tags(await seen.page()).text.split())
        assert text.count("waits for window prod") == 1
        assert "and 6 more WindowClosed" in text
        found = await seen.step()
        failed = Cause(Reason.APPLY_FAILED, "no quota")
        sets = tuple(one if one.rendered.is_source else replace(one, error=failed) for one in found.plan.sets)
        seen.seen.record_pass(planned(found, sets))
        text = " ".join(Tags(await seen.page()).text.split())
        assert text.count("ApplyFailed no quota") == 1
        assert "and 6 more ApplyFailed" in text
        apart = Cause(Reason.APPLY_FAILED, "no node")
        seen.seen.record_pass(planned(found, (replace(sets[-1], error=apart), *sets[:-1])))
        text = " ".join(Tags(await seen.page()).text.split())
        assert "and 5 more ApplyFailed" in text
        assert text.count("ApplyFailed no node") == 1


async def test_what_waits_outside_instances_is_named_and_told_once() -> None:
    async with scene(names=("i0",)) as seen:
        await seen.started()
        metadata = {"namespace": "default"}
        seen.fleet.plain = {
            name: {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
            for name in ("c0", "c1", "c2")
        }
        seen.fleet.push("one", prod=HOURS, freeze=FREEZE)
        await seen.step(timedelta(hours=6))
        text = " ".join(Tags(await seen.page()).text.split())
        assert text.count("waits for window prod") == 1
        assert "default/c0 ConfigMap and 2 more WindowClosed" in text


async def test_an_instance_that_is_not_there_is_told_so() -> None:
    async with scene(names=("i0",)) as seen:
        await seen.started()
        async with seen.client() as client:
            for path in ("default/nobody", "-/i0", "default/%3Cscript%3E"):
                response = await client.get(f"/instances/g.test/Link/{path}")
                assert response.status == 404
                assert "Instance not found" in await response.text()


async def test_names_and_messages_are_shown_as_text() -> None:
    """Threat 22: whatever stands in Git, a browser sees no element, no handler and no link in it."""
    async with scene(names=("i0",)) as seen:
        await held(seen)
        found = await seen.step()
        bad = ObjectKey("g.test", "Link", HOSTILE, HOSTILE)
        sets = []
        for one in found.plan.sets:
            if one.rendered.is_source or one.parent is None:
                sets.append(one)
                continue
            metadata = {**one.parent["metadata"], "name": HOSTILE, "namespace": HOSTILE}
            blocked = Cause(Reason.HELD, HOSTILE)
            nodes = tuple(
                node._replace(blocked=blocked, node=replace(node.node, id=HOSTILE if node.node.level else "a"))
                for node in one.nodes
            )
            sets.append(
                replace(
                    one,
                    rendered=replace(one.rendered, parent=bad),
                    parent={**one.parent, "metadata": metadata},
                    nodes=nodes,
                )
            )
        seen.seen.monitor.errors = lambda: {"platform": SourceError(HOSTILE, HOSTILE, advice=HOSTILE)}
        seen.seen.record_pass(planned(found, sets))
        pages = [await seen.page(), await seen.page(page.path_of(bad))]
    for text in pages:
        tags = Tags(text)
        assert HOSTILE in tags.text
        assert [one for one in tags.elements if one[0] == "img" and one[1].get("src") != "/static/icon.svg"] == []
        for _, attributes in tags.elements:
            assert not [name for name in attributes if name.startswith("on") or name == "style"]
            assert (attributes.get("href") or "/").startswith(("/", "#"))


async def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    async with scene(names=("i0",)) as seen:
        await held(seen)
        tags = Tags(await seen.page())
        async with seen.client() as client:
            policy = (await client.get("/")).headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "://" not in policy
    for name, attributes in tags.elements:
        assert name not in {"style", "iframe", "object"}
        if name == "script":
            assert attributes["src"] == "/static/page.js"


async def test_a_thousand_instances_weigh_little_more_than_fifty() -> None:
    async with scene(names=("i0",)) as seen:
        await seen.started()
        found = await seen.step()
        seen.seen.record_pass(multiplied(found, 50))
        fifty = len(await seen.page())
        seen.seen.record_pass(multiplied(found, 1000))
        first, last = await seen.page(), await seen.page("/?page=21")
    assert len(first) < fifty * 1.1
    assert "page 1 of 21, 1001 instances" in " ".join(first.split())
    assert "default/n0<" in first
    assert "page 21 of 21" in last


async def test_instances_can_be_looked_for() -> None:
    async with scene(names=("api", "shop")) as seen:
        await seen.started()
        await seen.step()
        assert "default/shop" not in await seen.page("/?q=API")
        assert "default/api" not in await seen.page("/?state=Failed")
        assert "default/api" in await seen.page("/?source=platform&state=Settled")


@pytest.mark.parametrize(
    "query",
    [
        {"page": "-1", "waiting": "0"},
        {"page": "9" * 400},
        {"page": "²"},
        {"state": "<script>", "q": "x" * 10_000, "source": "é"},
    ],
)
def test_any_question_can_be_asked(query: dict[str, str]) -> None:
    asked = page.PageQuery.parse(query)
    assert 1 <= asked.instances <= 10**6
    assert len(asked.text) <= 100
    assert asked.state in {"", *DisplayState}


def test_passes_that_changed_nothing_are_one_line() -> None:
    idle = PassLine(START, 0.1, {"platform": "a"}, StateCounts({DisplayState.SETTLED: 1}))
    assert idle.merge(None).passes == 1
    assert idle.merge(idle.merge(idle)).passes == 3
    assert idle.merge(replace(idle, done={"created": 1})).passes == 1
    assert replace(idle, commits={"platform": "b"}).merge(idle).passes == 1


async def test_only_the_newest_passes_are_kept() -> None:
    async with scene(names=("i0",)) as seen:
        await seen.started()
        found = await seen.step()
        for number in range(200):
            seen.seen.record_pass(replace(found, results=found.results, sources=(), now=START + timedelta(days=number)))
            seen.seen.monitor.passes[-1] = replace(seen.seen.monitor.passes[-1], failed=number)
        assert len(seen.seen.monitor.passes) == 50


async def test_all_who_look_share_one_board() -> None:
    async with scene(names=("i0",)) as seen:
        await seen.started()
        first, second = await asyncio.gather(seen.seen.monitor.dashboard(), seen.seen.monitor.dashboard())
        assert first is second
        await seen.step()
        third = await seen.seen.monitor.dashboard()
        assert third is not first
        assert third is await seen.seen.monitor.dashboard()


async def test_a_board_is_given_back_with_the_next_pass() -> None:
    """It holds all objects and plans of its pass."""
    async with scene(names=("i0",)) as seen:
        await seen.started()
        found = await seen.seen.monitor.dashboard()
        assert found
        board = ref(found)
        del found
        await seen.step()
        gc.collect()
        assert board() is None


async def test_nothing_is_written_by_looking() -> None:
    """The page is read-only: GET and HEAD alone, and no request goes to the cluster."""
    async with scene(names=("i0",)) as seen:
        await held(seen)
        before = sum(seen.fleet.reconciler.cluster.requests.values())  # type: ignore[attr-defined]
        await seen.page()
        await seen.page("/instances/g.test/Link/default/i0")
        await seen.metrics()
        assert sum(seen.fleet.reconciler.cluster.requests.values()) == before  # type: ignore[attr-defined]
        async with seen.client() as client:
            for method in ("POST", "PUT", "DELETE", "PATCH"):
                assert (await client.request(method, "/")).status == 405
            assert (await client.head("/")).status == 200


async def test_a_browser_that_was_led_here_by_another_name_gets_nothing() -> None:
    """DNS rebinding: a page of somebody else cannot read what is served on this machine."""
    async with scene() as seen, seen.client() as client:
        for path in ("/", "/metrics", "/events"):
            assert (await client.get(path, headers={"Host": "evil.example.com"})).status == 421
        assert (await client.get("/", headers={"Host": "[::1]:8480"})).status == 200


async def test_the_end_of_a_pass_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with the next sign of life."""
    monkeypatch.setattr("gitops.server.http._HEARTBEAT_SECONDS", NEVER_SECONDS)
    async with scene(names=("i0",)) as seen:
        seen.fleet.push()
        await seen.step()
        async with seen.client() as client, client.get("/events") as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            assert await response.content.readuntil(b"\n\n") == b"retry: 3000\ndata: 1\n\n"
            await seen.step()
            assert await response.content.readuntil(b"\n\n") == b"data: 2\n\n"


async def test_a_pass_that_ends_while_the_one_before_is_being_told_is_told_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not with the next sign of life."""
    monkeypatch.setattr("gitops.server.http._HEARTBEAT_SECONDS", NEVER_SECONDS)
    write = web.StreamResponse.write

    async with scene(names=("i0",)) as seen:
        seen.fleet.push()
        found = await seen.step()

        async def written(response: web.StreamResponse, data: bytes) -> None:
            await write(response, data)
            if data == b"data: 1\n\n":
                seen.seen.monitor.record_pass(found)

        monkeypatch.setattr(web.StreamResponse, "write", written)
        async with asyncio.timeout(60), seen.client() as client, client.get("/events") as response:
            assert await response.content.readuntil(b"data: 2\n\n")


async def test_while_nothing_happens_the_number_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that hears nothing for 40 s takes it that nobody is there."""
    monkeypatch.setattr("gitops.server.http._HEARTBEAT_SECONDS", 0.01)
    async with scene() as seen, seen.client() as client, client.get("/events") as response:
        assert await response.content.readuntil(b"\n\n") == b"retry: 3000\ndata: 0\n\n"
        for _ in range(3):
            assert await response.content.readuntil(b"\n\n") == b"data: 0\n\n"

"""The status page in a real Chromium: levels, live changes, the keyboard, contrast, and names that would like to be scripts (threat 22)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Literal

import pytest

from applier.causes import Cause, Reason
from applier.plan.model import ApplySetPlan
from gitops.fleet.reach import ReachState
from gitops.reconcile.context import ReconcileResult
from tests.support.monitoring.browser import Browsing
from tests.support.monitoring.fleet_scene import fleet_scene
from tests.support.monitoring.page import HOSTILE, held
from tests.support.monitoring.scene import planned, scene

pytestmark = pytest.mark.asyncio(loop_scope="module")

INSTANCE: Final = "/instances/g.test/Link/default/i0"

CONTRASTS: Final = """() => {
  const numbers = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => {
    const linear = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const box = one.tagName === "a" && one.closest("svg") ? one.querySelector(".box") : null;
      const colour = numbers(box ? getComputedStyle(box).fill : getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest(".unseen, option, title") || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const text = numbers(element.closest("svg") ? style.fill : style.color);
    const [light, dark] = [luminance(text), luminance(ground(element))].sort((a, b) => b - a);
    found.push([(light + 0.05) / (dark + 0.05), element.className.baseVal ?? element.className, node.data.trim().slice(0, 40)]);
  }
  return found;
}"""

WIDER: Final = """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")]
  .filter((one) => one.getBoundingClientRect().right > innerWidth).map((one) => `${one.tagName} ${one.className}`)"""

OVERFLOWING: Final = """() => [...document.querySelectorAll(".drawing a")].flatMap((box) => {
  const {left, right, top, bottom} = box.querySelector(".box").getBoundingClientRect();
  const inside = (one) => one.left >= left && one.right <= right && one.top >= top && one.bottom <= bottom;
  return [...box.querySelectorAll("text")].filter((one) => !inside(one.getBoundingClientRect())).map((one) => one.textContent);
})"""

BRIGHTNESS: Final = """() => Math.max(...getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3))"""
"""Of the ground, up to 255."""

REACHABLE: Final = "() => document.querySelectorAll('a[href], button, input, select, [tabindex=\"0\"]').length"

UNREACHABLE: Final = """() => [...document.querySelectorAll(".scroll")]
  .filter((one) => one.tabIndex !== 0 || one.getAttribute("role") !== "region" || !document.getElementById(one.getAttribute("aria-labelledby")))
  .map((one) => one.outerHTML.slice(0, 100))"""
"""What can be scrolled, but not with the keyboard, or has no name."""

FOCUSED: Final = """() => {
  const all = [...document.querySelectorAll('a[href], button, input, select, [tabindex="0"]')];
  return all.indexOf(document.activeElement);
}"""


async def test_an_instance_is_shown_in_levels(browsing: Browsing) -> None:
    async with scene(names=("i0", "i1")) as seen:
        await seen.started()
        seen.fleet.push("two")
        await seen.step()
        async with browsing.page(seen) as page:
            await page.get_by_role("link", name="default/i0").first.click()
            await page.get_by_role("heading", name="Link default/i0").wait_for()
            boxes = {
                name: await page.locator(f"svg a[href='#node-{name}'] rect").bounding_box() for name in ("app", "after")
            }
            labels = [await one.get_attribute("aria-label") for one in await page.locator("svg a").all()]
            assert "Why it waits" in await page.inner_text("main")
    assert boxes["app"]
    assert boxes["after"]
    assert boxes["app"]["x"] + boxes["app"]["width"] < boxes["after"]["x"]
    assert labels == ["app, Deployment, level 0, Progressing", "after, ConfigMap, level 1, Waiting"]


async def test_a_change_is_seen_without_a_reload(browsing: Browsing) -> None:
    async with scene(names=("i0",)) as seen:
        await seen.started()
        async with browsing.page(seen) as page:
            await page.locator("#connection.on").wait_for()
            await page.evaluate("() => { window.kept = true; document.getElementById('filter-text').value = 'i'; }")
            await page.focus("#filter-text")
            await seen.step()
            await page.locator(".tile.settled").wait_for()
            seen.fleet.annotate("i0", suspend="INC-7")
            await seen.step()
            await page.locator(".tile.suspended").wait_for()
            assert "Suspended" in await page.inner_text("#instances")
            assert await page.evaluate("() => window.kept && document.activeElement.id") == "filter-text"
            assert await page.input_value("#filter-text") == "i"
            assert "1 Suspended" in (await page.text_content("#announce") or "")


async def test_the_first_pass_fills_the_page(browsing: Browsing) -> None:
    async with scene(names=("i0",)) as seen, browsing.page(seen) as page:
        await page.get_by_text("The first reconciliation has not ended yet").wait_for()
        await page.locator("#connection.on").wait_for()
        seen.fleet.push()
        await seen.step()
        await page.get_by_role("heading", name="Sources").wait_for()


async def test_a_page_outlasts_the_daemon(browsing: Browsing, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is open for days says when nobody is there, and goes on by itself: after a restart, where no stream is to be had, and where
    the connection fell silent.
    """
    monkeypatch.setattr("gitops.server.http._RETRY_MILLISECONDS", 50)
    async with scene(names=("i0",)) as before, scene(names=("i0", "i1")) as after:
        for one in (before, after):
            await one.started()
        async with browsing.page(before) as page:
            await page.clock.install()
            await page.reload()
            await page.locator("#connection.on").wait_for()
            port = await browsing.stop()
            await page.get_by_text("not connected, as of").wait_for()
            assert await page.text_content("#announce") == "Not connected"
            assert after.seen.monitor.changes.number == before.seen.monitor.changes.number
            await browsing.serve(after, port)
            await page.locator("#connection.on").wait_for()
            await page.clock.run_for(1000)
            await page.get_by_role("link", name="default/i1").first.wait_for()

            monkeypatch.setattr("gitops.server.http._MAX_STREAMS", 0)
            await browsing.stop()
            await page.locator("#connection.off").wait_for()
            await browsing.serve(after, port)
            await page.clock.run_for(6000)
            await page.locator("#connection.on").wait_for()
            after.fleet.annotate("i0", suspend="INC-7")
            await after.step()
            await page.clock.run_for(6000)
            await page.locator(".tile.suspended").wait_for()

            monkeypatch.setattr("gitops.server.http._MAX_STREAMS", 9)
            for milliseconds in (6_000, 46_000):  # a stream is to be had again; then it is silent for too long
                async with page.expect_response(lambda one: one.url.endswith("/events") and one.status == 200):
                    await page.clock.run_for(milliseconds)
            assert browsing.said
            assert all("net::ERR" in text or "503" in text for text in browsing.said)
            browsing.said.clear()


@pytest.mark.parametrize("path", ["/", INSTANCE])
async def test_the_keyboard_reaches_everything(browsing: Browsing, path: str) -> None:
    async with scene(names=("i0", "i1")) as seen:
        await held(seen)
        async with browsing.page(seen, path) as page:
            await page.keyboard.press("Tab")
            assert await page.evaluate("() => document.activeElement.className") == "skip"
            count: int = await page.evaluate(REACHABLE)
            reached = {await page.evaluate(FOCUSED)}
            for _ in range(count - 1):
                await page.keyboard.press("Tab")
                reached.add(await page.evaluate(FOCUSED))
    assert reached == set(range(count))


LONG = "the-longest-name-that-a-source-may-have-is-52-long-x"


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", INSTANCE])
async def test_everything_can_be_read(
    browsing: Browsing, path: str, scheme: Literal["light", "dark"], width: int
) -> None:
    """WCAG 2.2, 1.4.3 (AA): text has a contrast of at least 4.5, dark on light or light on dark, as the reader's system is. The page itself is never
    wider than the screen, and no text than its box.
    """
    async with scene(names=tuple("abcdefg"), source=LONG) as seen:
        await held(seen)
        seen.seen.record_pass(in_all_states(await seen.step()))
        path = path.replace("/i0", "/a")
        async with browsing.page(seen, path, color_scheme=scheme, viewport={"width": width, "height": 800}) as page:
            found: list[Any] = await page.evaluate(CONTRASTS)
            brightness: int = await page.evaluate(BRIGHTNESS)
            overflow = [*await page.evaluate(WIDER), *await page.evaluate(OVERFLOWING)]
    assert len(found) > 30
    assert (brightness < 64) is (scheme == "dark")
    assert [one for one in found if one[0] < 4.5] == []
    assert overflow == []


def in_all_states(found: ReconcileResult) -> ReconcileResult:
    """With instances that wait for all kinds of reasons."""
    reasons = iter(
        (
            Reason.UNHEALTHY,
            Reason.HALTED,
            Reason.SUSPENDED,
            Reason.WAITING_FOR_DATA,
            Reason.BAKING,
            Reason.HELD,
        )
    )

    def one(plan: ApplySetPlan) -> ApplySetPlan:
        reason = None if plan.rendered.is_source else next(reasons, None)
        if reason is None:
            return plan
        blocked = Cause(reason, "so it is")
        return replace(plan, not_moved=blocked, nodes=tuple(node._replace(blocked=blocked) for node in plan.nodes))

    return planned(found, map(one, found.plan.sets))


async def test_hostile_names_are_text(browsing: Browsing) -> None:
    async with scene(names=("i0",)) as seen:
        await held(seen)
        found = await seen.step()
        blocked = Cause(Reason.HELD, HOSTILE)
        sets = [
            one
            if one.rendered.is_source
            else replace(one, not_moved=blocked, nodes=tuple(node._replace(blocked=blocked) for node in one.nodes))
            for one in found.plan.sets
        ]
        seen.seen.record_pass(planned(found, sets))
        for path in ("/", INSTANCE):
            async with browsing.page(seen, path) as page:
                assert HOSTILE in await page.inner_text("main")
                assert await page.locator("img").count() == 1


async def test_a_screen_reader_finds_its_way(browsing: Browsing) -> None:
    """Landmarks, one heading of the first rank, named tables and fields."""
    async with scene(names=("i0",)) as seen:
        await held(seen)
        async with browsing.page(seen) as page:
            for role in ("banner", "main", "contentinfo", "search"):
                assert await page.get_by_role(role).count() == 1
            assert await page.get_by_role("heading", level=1).count() == 1
            for name in ("Name", "State", "Source"):
                assert await page.get_by_label(name, exact=True).count() == 1
            for name in ("Differs from Git", "Instances", "Recent reconciliations"):
                assert await page.get_by_role("region", name=name).count() >= 1
            assert await page.get_by_role("columnheader", name="Not before").count() == 1
            until = page.locator("#causes tbody tr td.when time").first
            assert await until.get_attribute("datetime") == "2026-11-24T08:00:00Z"
            for part in ("#causes", "#instances"):
                assert await page.locator(part).get_by_role("rowheader", name="default/i0").count() == 1
            level = page.locator("#instances tbody tr li").first
            assert await level.text_content() == "level 0: ✓1 Settled "
            assert await page.get_by_role("img", name="prod: not active now, ").count() == 1
            assert await page.evaluate(UNREACHABLE) == []


async def test_a_fleet_is_read_from_its_table_and_changes_by_itself(browsing: Browsing) -> None:
    """From the table to a cluster whose name has a `#` and back; a state that changes is seen without a click, on both pages."""
    states = {"kind#eu-1": ReachState.ENGAGED, "us-1": ReachState.UNREACHABLE}
    async with fleet_scene(states, names=("i0",)) as (seen, standing):
        await seen.started()
        standing.observers["kind#eu-1"].report_pass(await seen.step())
        async with browsing.page(seen, color_scheme="dark", viewport={"width": 400, "height": 800}) as page:
            assert await page.evaluate(WIDER) == []
            assert min(contrast for contrast, *_ in await page.evaluate(CONTRASTS)) >= 4.5
            assert await page.evaluate(UNREACHABLE) == []
            await page.get_by_role("link", name="kind#eu-1").click()
            await page.get_by_role("heading", name="1 instance").wait_for()
            assert await page.evaluate(WIDER) == []
            await page.get_by_role("link", name="i0").first.click()
            await page.get_by_role("link", name="All instances").click()
            await page.locator("#connection.on").wait_for()
            standing.add("kind#eu-1", ReachState.DEGRADED, "Secret: forbidden").print_notice("cluster", "Degraded")
            await page.get_by_text("Secret: forbidden").wait_for()
            assert min(contrast for contrast, *_ in await page.evaluate(CONTRASTS)) >= 4.5
            await page.get_by_role("link", name="All clusters").click()
            await page.locator("#connection.on").wait_for()
            standing.add("us-1").print_notice("cluster", "Engaged")
            await page.get_by_text("1 Degraded, 2 Engaged").wait_for()

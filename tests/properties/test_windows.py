"""No write of what a window governs while it is closed, whatever is committed and whenever (I5)."""

from __future__ import annotations

import json
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from applier.sandbox.wire import Request, Response
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.platform import MERGE
from tests.support.properties.examples import examples
from tests.support.windows.oracle import Daily, Watch, Written, calendars

NAMES = ("a", "b", "c")
DEFINITION = f"links.{GROUP}"
SELECTORS = (
    ("kinds", ("Deployment.apps",)),
    ("kinds", ("ConfigMap", f"Link.{GROUP}")),
    ("namespaces", ("default",)),
    ("rgds", (DEFINITION,)),
)
KINDS = {
    "deployments": "Deployment.apps",
    "configmaps": "ConfigMap",
    "links": f"Link.{GROUP}",
    "customresourcedefinitions": "CustomResourceDefinition.apiextensions.k8s.io",
}
ACTIONS = ("image", "image", "spec", "leave", "join", "delete", "edit", "calendar", "nothing")


def written(fleet: LinkPlatform, request: Request, response: Response) -> Written | None:
    """The write as the oracle counts it; None for what no window governs: records, inventories, status, and what was refused."""
    url = urlsplit(request.target)
    *above, plural, name = url.path.split("/")
    is_content = request.method == "DELETE" or parse_qs(url.query).get("fieldManager") == ["levelgate"]
    if plural not in KINDS or not is_content or response.status >= 300 or "levelgate-system" in above:
        return None
    kind, namespace = KINDS[plural], "" if plural == "customresourcedefinitions" else "default"
    content: str | None = None
    unit: tuple[str, str] | None = ("gone", name.removesuffix("-app"))
    if request.method != "DELETE":
        manifest = json.loads(request.body)
        parts = manifest.get("spec"), manifest.get("data"), (manifest["metadata"].get("annotations") or {}).get("text")
        content = json.dumps(parts, sort_keys=True)
        image = next((word for word in content.split('"') if word.startswith("image-")), "")
        unit = (name, image) if image else None
    return Written(fleet.clock.moment, kind, namespace, DEFINITION, unit, f"{plural}/{name}", content)


class WatchedPlatform:
    """A fleet, its calendar, and the watch over its writes; nothing is committed twice."""

    def __init__(self, fleet: LinkPlatform) -> None:
        self.fleet = fleet
        self.watch = Watch()
        self.number = 0
        answer = fleet.sandbox.answer

        async def door(request: Request) -> Response:
            response = await answer(request)
            if request.method != "GET" and (found := written(fleet, request, response)):
                self.watch.see(found)
            return response

        fleet.sandbox.answer = door  # type: ignore[method-assign]

    def calendar(self, windows: list[Daily]) -> None:
        before = {name.removesuffix(".json"): None for name in self.fleet.rules}
        self.fleet.push(**{**before, **{f"w{index}": one.spec for index, one in enumerate(windows)}})
        self.watch.windows = windows

    def act(self, action: str, name: str, windows: list[Daily]) -> None:
        fleet = self.fleet
        self.number += 1
        match action:
            case "image":
                fleet.push(f"image-{self.number}")
            case "spec":
                fleet.written[name] = {"text": f"text-{self.number}"}
                fleet.push()
            case "leave":
                fleet.names = tuple(one for one in fleet.names if one != name)
                fleet.push()
            case "join":
                fleet.names = tuple(sorted({*fleet.names, name}))
                fleet.push()
            case "calendar":
                self.calendar(windows)
            case "delete" | "edit":
                self.meddle(action, f"/api/v1/namespaces/default/configmaps/{name}-app")

    def meddle(self, action: str, path: str) -> None:
        body = json.dumps({"data": {"image": "by hand"}}).encode() if action == "edit" else b""
        method = "PATCH" if action == "edit" else "DELETE"
        self.fleet.sandbox.handle(Request(method, f"{path}?fieldManager=kubectl-edit", {"content-type": MERGE}, body))

    def pass_by(self, minutes: int, *, are_ready: bool) -> None:
        self.fleet.step(timedelta(minutes=minutes))
        if are_ready:
            for deployment in self.fleet.request("GET", "/apis/apps/v1/namespaces/default/deployments")["items"]:
                self.fleet.available(deployment["metadata"]["name"])
        self.fleet.step(timedelta(minutes=1))


steps = st.lists(
    st.tuples(
        st.sampled_from(ACTIONS),
        st.sampled_from(NAMES),
        calendars(selectors=SELECTORS),
        st.integers(1, 700),
        st.booleans(),
    ),
    min_size=3,
    max_size=6,
)


@examples(12)
@given(windows=calendars(selectors=SELECTORS), steps=steps)
def test_nothing_is_written_outside_of_an_open_window_and_in_the_end_all_is(
    windows: list[Daily], steps: list[tuple[str, str, list[Daily], int, bool]]
) -> None:
    """I5: by random windows and commits, from the first creation on; when the calendar is lifted, everything gets to where Git wants it."""
    with LinkPlatform(names=NAMES) as fleet:
        story = WatchedPlatform(fleet)
        fleet.image = "image-0"
        story.calendar(windows)
        for action, name, others, minutes, are_ready in steps:
            story.act(action, name, others)
            story.pass_by(minutes, are_ready=are_ready)
            assert story.watch.breaches == []
        fleet.image = "image-last"  # what failed meanwhile has halted the rollout of the one before
        story.calendar([])
        for _ in range(6):
            story.pass_by(1, are_ready=True)
        assert fleet.at(fleet.image) == list(fleet.names)
        assert set(fleet.waits().values()) <= {"Settled"}


def test_the_watch_sees_what_was_written_too_early() -> None:
    """The oracle itself: the same passes under a calendar that it alone believes in."""
    with LinkPlatform(names=NAMES) as fleet:
        story = WatchedPlatform(fleet)
        fleet.image = "image-0"
        story.watch.windows = [Daily(deny=True, start=11 * 60, minutes=120)]
        fleet.push()
        story.pass_by(1, are_ready=True)
        assert story.watch.counted["create"] == len(story.watch.breaches) > 3
        story.pass_by(60, are_ready=True)
        fleet.push("image-1")
        before = len(story.watch.breaches)
        story.pass_by(1, are_ready=True)
        assert (story.watch.counted["update"] > 0, len(story.watch.breaches)) == (True, before)

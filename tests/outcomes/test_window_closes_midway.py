"""A window closes between two levels: what an instance, or a commit's plain objects, have begun ends new; nothing else begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from applier.cluster import Object
from applier.sandbox.wire import Request
from gitops.explain.explainer import explain
from gitops.explain.phrasing import format_links
from gitops.records.references import Ref
from gitops.text import TimeFormat
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.platform import MERGE, Died

HOURS: dict[str, Any] = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 9 * * 1-5"}, "until": "17:00"}
CLOSES = datetime(2026, 11, 20, 17, tzinfo=UTC)
"""A Friday."""
LATER = CLOSES + timedelta(minutes=30)
OVER = CLOSES + timedelta(hours=1)
"""The default overrun limit is reached."""
MONDAY = datetime(2026, 11, 23, 9, tzinfo=UTC)
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def node(name: str, after: str = "", image: str = "IMAGE", base: str = "", **fields: Any) -> dict[str, Any]:
    """A ConfigMap `<instance>-<name>`, one level below the node that it is `after`."""
    data = {"image": image, "base": base, **({"after": f"${{{after}.metadata.name}}"} if after else {})}
    metadata = {"name": f"${{schema.metadata.name}}-{name}"}
    return {"id": name, "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, **fields}  # fmt: skip


def config_map(name: str, image: str, after: str = "", **annotations: str) -> Object:
    """A plain object, one level below the one that it is `after`."""
    if after:
        annotations["config.kubernetes.io/depends-on"] = f"/namespaces/default/ConfigMap/{after}"
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"image": image}}


def job_like(name: str, image: str) -> Object:
    """A plain Deployment: the next level waits until it is available."""
    spec = {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "app", "image": image}]},
        },
    }
    annotations = {"levelgate.dev/wait-for": "healthy"}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def images(fleet: LinkPlatform, *names: str) -> list[str]:
    """What ConfigMaps say; empty where one does not exist."""
    responses = [fleet.sandbox.handle(Request("GET", f"{CONFIG_MAPS}/{name}", {}, b"")) for name in names]
    return [
        fleet.request("GET", f"{CONFIG_MAPS}/{name}")["data"]["image"] if response.status == 200 else ""
        for name, response in zip(names, responses, strict=True)
    ]


def begin(fleet: LinkPlatform, image: str = "") -> None:
    """A commit shortly before the window closes."""
    fleet.clock.moment = CLOSES - timedelta(minutes=10)
    fleet.push(image)
    fleet.step()


def annotated(fleet: LinkPlatform, name: str, **annotations: str) -> None:
    """As `kubectl annotate` of a ConfigMap."""
    body = {"metadata": {"annotations": annotations}}
    fleet.request("PATCH", f"{CONFIG_MAPS}/{name}?fieldManager=kubectl", body, MERGE)


def close(fleet: LinkPlatform, at: datetime = LATER, *ready: str, passes: int = 2) -> None:
    """The window has closed; a process that starts anew sees that these have become ready."""
    fleet.clock.moment = CLOSES
    fleet.step()
    fleet.restart()
    fleet.clock.moment = at
    fleet.ready(*ready)
    for _ in range(passes):
        fleet.step()


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    """Two instances of three levels, the first of which takes its time."""
    with LinkPlatform(names=("a", "b"), more=[node("last", "after")]) as found:
        yield found


def test_an_instance_that_has_begun_ends_new_and_the_next_does_not_begin(fleet: LinkPlatform) -> None:
    """With what a window says of itself when it says nothing, and a process that is started anew while it is closed."""
    fleet.start(hours=HOURS)
    begin(fleet, "two")
    assert (fleet.at("two"), images(fleet, "a-app", "a-last")) == (["a"], ["one", "one"])
    close(fleet, LATER, "a")
    assert (fleet.at("two"), images(fleet, "a-app", "a-last")) == (["a"], ["two", "two"])
    assert images(fleet, "b-app", "b-last") == ["one", "one"]
    assert fleet.propagated("b")[0] in {"WindowClosed", "PaceReached"}
    fleet.clock.moment = MONDAY
    assert fleet.move("two") == [["b"]]


@pytest.mark.parametrize("is_done", [False, True])
def test_killed_at_each_write_it_still_ends_new(fleet: LinkPlatform, is_done: bool) -> None:
    """What has begun is told by the members, so no crash forgets it."""
    fleet.start(hours=HOURS)
    begin(fleet, "two")
    fleet.clock.moment = CLOSES
    fleet.step()
    fleet.clock.moment = LATER
    fleet.ready("a")
    for number in range(4):
        fleet.restart()
        fleet.dies_at = fleet.writes + number, is_done
        with suppress(Died):
            fleet.step()
        fleet.dies_at = None
    fleet.restart()
    fleet.step()
    assert (fleet.at("two"), images(fleet, "a-app", "a-last")) == (["a"], ["two", "two"])


def test_the_overrun_limit_ends_it_and_is_told(fleet: LinkPlatform) -> None:
    """What has begun then waits, as it is, for the next opening."""
    fleet.start(hours=HOURS)
    begin(fleet, "two")
    close(fleet, OVER, "a")
    assert images(fleet, "a-app", "a-last") == ["one", "one"]
    row = fleet.status("a")["levelgate"]["blocked"][0]
    assert (row["node"], row["reason"]) == ("after", "WindowClosed")
    assert row["message"].endswith("what has begun stays half-way, as its overrunLimit ended at 2026-11-20T18:00Z")
    fleet.clock.moment = MONDAY
    fleet.step()
    assert images(fleet, "a-app", "a-last") == ["two", "two"]


def test_a_newer_revision_waits_while_the_one_that_has_begun_is_finished(fleet: LinkPlatform) -> None:
    fleet.start(hours=HOURS)
    begin(fleet, "two")
    fleet.clock.moment = CLOSES + timedelta(minutes=5)
    fleet.push("three")
    close(fleet, LATER, "a")
    assert (fleet.at("two"), images(fleet, "a-app", "a-last", "b-app")) == (["a"], ["two", "two", "one"])
    fleet.clock.moment = MONDAY
    fleet.step()
    assert fleet.at("three") == ["a"]


@pytest.mark.parametrize(
    ("drain", "ends"),
    [("None", "one"), ("Unit", "one"), ("Level", "one"), ("Instance", "two"), ("Rollout", "two")],
)
def test_each_scope_allows_what_the_one_before_it_allows(fleet: LinkPlatform, drain: str, ends: str) -> None:
    fleet.start(hours={**HOURS, "drain": drain})
    begin(fleet, "two")
    close(fleet, LATER, "a")
    assert images(fleet, "a-app", "a-last", "b-app") == [ends, ends, "one"]


def test_the_first_node_that_changes_begins_it() -> None:
    """The first level stays as it is; the second changes while the window is open, the third when that is ready."""

    def levels(image: str) -> list[Object]:
        is_ready = f"${{'ok' in last.metadata.annotations && last.metadata.annotations['ok'] == '{image}'}}"
        return [node("last", "after", image, readyWhen=[is_ready]), node("end", "last", image)]

    with LinkPlatform(names=("a",), more=levels("one")) as fleet:
        fleet.push()
        for name in ("app", "last", "end"):
            fleet.step()
            fleet.step()
            fleet.ready("a")
            if name != "app":
                annotated(fleet, "a-last", ok="one")
        assert images(fleet, "a-last", "a-end") == ["one", "one"]
        fleet.push(hours=HOURS)
        fleet.step()
        fleet.more = levels("two")
        begin(fleet)
        assert images(fleet, "a-last", "a-end") == ["two", "one"]
        close(fleet, CLOSES)
        annotated(fleet, "a-last", ok="two")
        close(fleet)
        assert images(fleet, "a-last", "a-end") == ["two", "two"]


def test_what_the_new_revision_drops_goes_as_well() -> None:
    """Its deletions are part of what an instance has begun: here of an object that one of the last level uses until then."""
    with LinkPlatform(
        names=("a", "b"), more=[node("base"), node("last", "after", base="${base.metadata.name}")]
    ) as fleet:
        fleet.start(hours=HOURS)
        fleet.more = [node("last", "after")]
        begin(fleet, "two")
        assert images(fleet, "a-last", "a-base") == ["one", "one"]
        close(fleet, LATER, "a", passes=4)
        assert images(fleet, "a-app", "a-last", "a-base", "b-base") == ["two", "two", "", "one"]


def finalized(fleet: LinkPlatform, name: str, *finalizers: str) -> None:
    fleet.request("PATCH", f"{CONFIG_MAPS}/{name}?fieldManager=kubectl", {"metadata": {"finalizers": list(finalizers)}}, MERGE)  # fmt: skip


@pytest.mark.parametrize("way", ["instance", "nodes"])
def test_a_deletion_that_has_begun_comes_to_its_end(fleet: LinkPlatform, way: str) -> None:
    """Level by level, also where the first object is gone when the next one may go."""
    fleet.more.append(node("end", "last"))
    fleet.start(hours=HOURS)
    finalized(fleet, "a-end", "test/wait")
    finalized(fleet, "a-last", "test/wait")
    if way == "instance":
        fleet.names = ("b",)
    else:
        fleet.more = []
    begin(fleet)
    fleet.step()
    close(fleet)
    assert images(fleet, "a-last", "a-end") == ["one", "one"]
    finalized(fleet, "a-end")
    for _ in range(3):
        fleet.step()
    assert images(fleet, "a-end") == [""]
    assert "deletionTimestamp" in fleet.request("GET", f"{CONFIG_MAPS}/a-last")["metadata"]
    finalized(fleet, "a-last")
    for _ in range(4):
        fleet.step()
    assert images(fleet, "a-last", "a-end") == ["", ""]
    assert images(fleet, "a-app") == ["" if way == "instance" else "one"]
    assert images(fleet, "b-app") == ["one"]


def test_a_deletion_that_begins_nothing_in_time_waits(fleet: LinkPlatform) -> None:
    """An instance that leaves Git after the window has closed stays; so does one that has not been deleted yet."""
    fleet.start(hours=HOURS)
    fleet.clock.moment = CLOSES
    fleet.names = ("b",)
    fleet.push()
    for _ in range(3):
        fleet.step()
    assert images(fleet, "a-app", "a-last") == ["one", "one"]


PLAIN = ("p0", "p1", "p2")


def plain(image: str) -> Mapping[str, Object]:
    """Three levels, the first of which takes its time."""
    return {"p0": job_like("p0", image), "p1": after_deployment("p1", image), "p2": config_map("p2", image, "p1")}


def after_deployment(name: str, image: str) -> Object:
    found = config_map(name, image)
    found["metadata"]["annotations"]["config.kubernetes.io/depends-on"] = "apps/namespaces/default/Deployment/p0"
    return found


@pytest.mark.parametrize(("drain", "ends"), [(None, "two"), ("Level", "one"), ("Unit", "one")])
def test_the_plain_objects_of_one_commit_end_new_and_no_instance_begins(drain: str | None, ends: str) -> None:
    """They count as one; the instance that the same commit changes, and that comes after them, does not begin."""
    with LinkPlatform(names=("a",), plain=dict(plain("one"))) as fleet:
        fleet.written = {"a": {"metadata": {"annotations": {"config.kubernetes.io/depends-on": "/namespaces/default/ConfigMap/p1"}}}}  # fmt: skip
        fleet.push()
        for _ in range(8):
            fleet.step()
            if "p0" in fleet.deployed_names():
                fleet.available("p0")
            if fleet.at("one"):
                fleet.ready("a")
        fleet.push(hours={**HOURS, **({"drain": drain} if drain else {})})
        fleet.step()
        fleet.plain = dict(plain("two"))
        fleet.written["a"]["text"] = "two"
        begin(fleet)
        assert images(fleet, "p1", "p2") == ["one", "one"]
        fleet.clock.moment = CLOSES
        fleet.step()
        fleet.restart()
        fleet.clock.moment = LATER
        fleet.available("p0")
        for _ in range(3):
            fleet.step()
        assert images(fleet, "p1", "p2") == [ends, ends]
        path = f"/apis/{GROUP}/v1/namespaces/default/links/a"
        assert fleet.request("GET", path)["spec"]["text"] == "one"


def test_the_plain_objects_of_a_commit_end_new_although_the_next_one_has_come() -> None:
    """What both commits want alike is finished, with what both leave out. What the next one changes waits with what is new there."""
    with LinkPlatform(
        names=(), plain={**plain("one"), "q": config_map("q", "one"), "gone": config_map("gone", "one")}
    ) as fleet:
        fleet.push()
        run_all(fleet, 4)
        assert images(fleet, "p1", "p2", "q", "gone") == ["one"] * 4
        fleet.push(hours=HOURS)
        fleet.step()
        fleet.plain = {**plain("two"), "q": config_map("q", "one")}
        begin(fleet)
        assert images(fleet, "p1", "p2") == ["one", "one"]
        fleet.clock.moment = CLOSES
        fleet.step()
        fleet.plain |= {
            "p2": config_map("p2", "three", "p1"),
            "q": config_map("q", "three"),
            "new": config_map("new", "three"),
        }
        fleet.push()
        fleet.step()
        fleet.restart()
        fleet.clock.moment = LATER
        fleet.available("p0")
        for _ in range(4):
            fleet.step()
        assert images(fleet, "p1", "p2", "q", "new", "gone") == ["two", "one", "one", "", ""]
        fleet.clock.moment = MONDAY
        run_all(fleet, 4)
        assert images(fleet, "p1", "p2", "q", "new", "gone") == ["two", "three", "three", "three", ""]


def test_the_overrun_limit_counts_from_what_the_commit_before_has_begun() -> None:
    with LinkPlatform(names=(), plain=dict(plain("one"))) as fleet:
        fleet.push()
        run_all(fleet, 4)
        fleet.push(hours=HOURS)
        fleet.step()
        fleet.plain = dict(plain("two"))
        begin(fleet)
        fleet.clock.moment = CLOSES
        fleet.step()
        fleet.plain["new"] = config_map("new", "three")
        fleet.push()
        fleet.clock.moment = OVER
        fleet.available("p0")
        for _ in range(3):
            fleet.step()
        assert images(fleet, "p1", "p2", "new") == ["one", "one", ""]


OUTER = {"apiVersion": f"{GROUP}/v1", "kind": "Outer", "metadata": {"name": "o", "namespace": "default"}}


def outer(image: str, *, with_inner: bool) -> dict[str, Object]:
    """An instance whose first level takes its time, and whose second is an instance itself."""
    first = job_like("o-first", image)
    gate = {"id": "first", "readyWhen": ["${first.status.availableReplicas == 1}"], "template": first}
    inner = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Link",
        "metadata": {"name": "inner"},
        "spec": {"text": image, "after": "${first.metadata.name}"},
    }
    resources = [gate, {"id": "inner", "template": inner}] if with_inner else [gate]
    spec = {"schema": {"group": GROUP, "apiVersion": "v1", "kind": "Outer", "spec": {}}, "resources": resources}
    definition = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "outers"}}
    return {"outer": {**definition, "spec": spec}, "o": {**OUTER, "spec": {}}}


@pytest.mark.parametrize("drain", ["Level", "Instance"])
def test_an_instance_that_is_made_within_one_that_has_begun_belongs_to_it(drain: str) -> None:
    """It does not stay without its objects, nor without some of their levels."""
    text = node("text")
    text["template"]["data"]["image"] = "${schema.spec.text}"
    schema = {"text": "string | default=one", "after": "string | default=nothing"}
    with LinkPlatform(names=("a",), schema=schema, more=[text], plain=outer("one", with_inner=False)) as fleet:
        fleet.push()
        run_all(fleet, 6)
        fleet.push(hours={**HOURS, "drain": drain})
        fleet.step()
        fleet.plain = outer("two", with_inner=True)
        begin(fleet)
        assert images(fleet, "inner-text") == [""]
        close(fleet)
        run_all(fleet, 5)
        assert images(fleet, "inner-text", "inner-app") == (["two", "one"] if drain == "Instance" else ["", ""])


@pytest.mark.parametrize("drain", ["Unit", "Instance"])
def test_an_instance_within_one_that_leaves_goes_with_it(drain: str) -> None:
    """Its deletion begins with that of the one around it, which is told by that one's own object."""
    with LinkPlatform(
        names=("a",), schema={"text": "string", "after": "string"}, plain=outer("one", with_inner=True)
    ) as fleet:
        fleet.written = {"a": {"text": "one", "after": ""}}
        fleet.push()
        run_all(fleet, 8)
        fleet.push(hours={**HOURS, "drain": drain})
        fleet.step()
        finalized(fleet, "inner-app", "test/wait")
        del fleet.plain["o"]
        begin(fleet)
        assert images(fleet, "inner-app") == ["one"]
        close(fleet)
        assert "o-first" in fleet.deployed_names()
        finalized(fleet, "inner-app")
        for _ in range(6):
            fleet.step()
        left = {"inner-app", "o-first"} & set(fleet.deployed_names())
        assert left == (set() if drain == "Instance" else {"inner-app", "o-first"})


def run_all(fleet: LinkPlatform, passes: int) -> None:
    """Passes, after each of which every Deployment becomes available."""
    for _ in range(passes):
        fleet.step()
        for name in fleet.deployed_names():
            fleet.available(name)


@pytest.mark.parametrize("drain", ["Unit", "Instance"])
def test_explain_says_what_may_stay_halfway(fleet: LinkPlatform, drain: str) -> None:
    fleet.start(hours={**HOURS, "drain": drain})
    begin(fleet, "two")
    close(fleet, OVER, "a")
    now = fleet.clock.now()
    found = fleet.call(explain(fleet.cluster, Ref.parse(["link/a"]), "default", now=now))
    lines = "\n".join(format_links(found.chain, TimeFormat(utc=True), now))
    assert ("drain Unit: a started change may stay half-way" in lines) == (drain == "Unit")

"""`levelgate explain --event`: whom a change of an object wakes, and why (S4-4, S4-5, S4-10, S4-17; T3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from applier.cluster import WatchEvent
from gitops.cli import EXIT_USAGE
from gitops.daemon.event_router import EventRouter
from gitops.reconcile.incremental.interests import Roots
from tests.support.cli import Typed
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.platform import CONFIG_MAPS

READS: list[dict[str, Any]] = [
    {
        "id": "settings",
        "externalRef": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "default"},
        },
    },
    {
        "id": "plugins",
        "externalRef": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"selector": {"matchLabels": {"plugin": "${schema.metadata.name}"}}},
        },
    },
    {
        "id": "copy",
        "template": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "${schema.metadata.name}-copy"},
            "data": {"mode": "${settings.data.mode}", "plugins": "${string(plugins.size())}"},
        },
    },
]


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b"), more=READS) as found:
        found.push()
        found.step()
        put(found, "settings", {"mode": "quiet"})
        for _ in range(4):
            found.step()
            found.ready(*found.at("one"))
        found.step()
        assert found.waits() == {"a": "Settled", "b": "Settled"}
        yield found


def put(fleet: LinkPlatform, name: str, data: dict[str, str], **labels: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data}
    fleet.request("POST", CONFIG_MAPS, body)


def told(typed: Typed, fleet: LinkPlatform, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(typed(fleet, "explain", *words, "-o", "json"))
    return found


def test_text(typed: Typed, fleet: LinkPlatform) -> None:
    """A map that both instances read, and that does not say so anywhere."""
    header, *lines = typed(fleet, "explain", "--event", "configmap/settings").splitlines()
    assert header.startswith("Cluster prod-eu, ")
    assert lines == [
        "",
        "An event of ConfigMap default/settings affects 2 sets.",
        "",
        "SET              BECAUSE IT             RECONCILED",
        "Link default/a   reads it as settings   Link default/a",
        "Link default/b   reads it as settings   Link default/b",
        "",
        "A partial reconciliation of 2 objects follows; Levelgate reconciles no other object.",
    ]


@pytest.mark.parametrize(
    ("event", "wakes", "instances"),
    [
        ("configmap/a-app", {"a": {"owns": ["after"]}}, ["a"]),
        ("deployment/b-app", {"b": {"owns": ["app"]}}, ["b"]),
        ("configmap/settings", {"a": {"reads": ["settings"]}, "b": {"reads": ["settings"]}}, ["a", "b"]),
        ("configmap/for-b", {"b": {"reads": ["plugins/0"], "selects": ["plugins"]}}, ["b"]),
        ("link/a", {"a": {"owns": [""]}}, ["a"]),
    ],
)
def test_which_and_why(
    typed: Typed, fleet: LinkPlatform, event: str, wakes: dict[str, Any], instances: list[str]
) -> None:
    """S4-10: each kind of interest in an object; T3: never a neighbour."""
    put(fleet, "for-b", {}, plugin="b")
    found = told(typed, fleet, "--event", event)
    nothing: dict[str, list[str]] = {"owns": [], "reads": [], "selects": []}
    assert found["wakes"] == [
        {"set": f"Link.{GROUP}/default/{name}", "source": "platform", **nothing, **why} for name, why in wakes.items()
    ]
    assert found["lookedAt"] == [f"Link.{GROUP}/default/{name}" for name in instances]
    assert (found["watched"], found["everything"]) == (True, False)


def test_what_concerns_everything(typed: Typed, fleet: LinkPlatform) -> None:
    """An object of the source itself."""
    found = told(typed, fleet, "--event", f"customresourcedefinition/links.{GROUP}")
    assert [one["set"] for one in found["wakes"]] == ["ConfigMap/levelgate-system/source-platform"]
    assert (found["everything"], found["lookedAt"]) == (True, [])
    text = typed(fleet, "explain", "--event", f"crd/links.{GROUP}")
    assert (
        f"source platform   owns it as CustomResourceDefinition.apiextensions.k8s.io/links.{GROUP}   everything" in text
    )
    assert "A full reconciliation follows" in text


def test_of_one_ref(typed: Typed, fleet: LinkPlatform) -> None:
    def names(*words: str) -> list[str]:
        return [one["set"].rpartition("/")[2] for one in told(typed, fleet, *words)["wakes"]]

    event = ("--event", "configmap/settings")
    assert names("link/a", *event) == ["a"]
    assert names("link/a/settings", *event) == ["a"]
    assert names("link/a/copy", *event) == []
    assert names("source/platform", *event) == names(f"rollout/links.{GROUP}", *event) == ["a", "b"]
    assert names("source/other", *event) == []
    assert names("configmap/b-app", "--event", "configmap/b-app") == ["b"]
    assert "does not affect the subject" in typed(fleet, "explain", "link/b", "--event", "configmap/a-app")


def test_what_nobody_hears_of(typed: Typed, fleet: LinkPlatform) -> None:
    """A cost that unrelated objects do not add to: they are not watched at all. One that does not exist yet may be waited for."""
    put(fleet, "foreign", {})
    for name in ("foreign", "absent"):
        assert "does not watch events of ConfigMap" in typed(fleet, "explain", "--event", f"configmap/{name}")
        assert told(typed, fleet, "--event", f"configmap/{name}")["watched"] is False
    fleet.request("DELETE", f"{CONFIG_MAPS}/settings")
    assert len(told(typed, fleet, "--event", "configmap/settings")["wakes"]) == 2


def test_what_is_wrong(typed: Typed, fleet: LinkPlatform) -> None:
    assert "is not a reference" in typed(fleet, "explain", "--event", "settings", code=EXIT_USAGE)
    assert "is not a reference" in typed(fleet, "explain", code=EXIT_USAGE)
    told = typed(fleet, "explain", "window/w", "--event", "configmap/settings", code=1)
    assert "opens by time" in told


def test_the_daemon_wakes_the_same(typed: Typed, fleet: LinkPlatform) -> None:
    """The command has no passes to look back on, and answers as the index of a daemon that has."""
    woken: list[Roots] = []

    async def daemon() -> None:
        async with EventRouter(fleet.reconciler, woken.append, lambda _: None) as attention:
            attention.begin_pass()
            await attention.end_pass(await fleet.reconciler.reconcile([fleet.state]))
            for name in ("settings", "a-app", "for-b"):
                live = fleet.request("GET", f"{CONFIG_MAPS}/{name}")
                live["metadata"]["resourceVersion"] = "later"
                attention._changed(WatchEvent(live))

    put(fleet, "for-b", {}, plugin="b")
    fleet.call(daemon())
    told_of = [
        told(typed, fleet, "--event", f"configmap/{name}")["lookedAt"] for name in ("settings", "a-app", "for-b")
    ]
    assert [sorted(map(str, roots or ())) for roots in woken[-3:]] == told_of

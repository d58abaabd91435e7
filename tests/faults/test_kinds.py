"""The fault table, what stands between us and the objects: kinds that change their version, or cannot be converted."""

from __future__ import annotations

import asyncio
import json

from gitops.reconcile.context import ReconcileResult
from tests.support.faults.lane import Commit, Lane, Object
from tests.support.faults.table import NOWHERE, assert_settles, deleted, names, platform, reference, settled
from tests.support.platform import MERGE


def with_widget(commit: Commit, widget: Object) -> Commit:
    return {"git": {**commit["git"], "widget.json": json.dumps(widget)}}


async def others_go_on(lane: Lane, commit: Commit, name: str) -> ReconcileResult:
    """One life with this commit, in which the ConfigMap of that name gets the text `two`; its last pass."""
    await lane.commit(commit)
    life = await lane.live(wait=0.0)
    assert life.error is None
    assert life.found is not None
    stored = await lane.get(lane.config_map(name))
    assert stored is not None
    assert stored["data"]["text"] == "two"
    return life.found


async def test_a_conversion_that_fails_stops_its_kind_only(lane: Lane) -> None:
    """Row "conversion failing" (I2, I9, I12): objects of the kind cannot be read; they say so, nothing is deleted, and all else goes on."""
    name = f"widgets.{lane.group}"
    await serve_widgets(lane)

    async def convert(strategy: str, webhook: object) -> None:
        versions = [version("v1"), version("v2", storage=True)]
        body = {"spec": {"versions": versions, "conversion": {"strategy": strategy, "webhook": webhook}}}
        changed = await lane.ask("PATCH", f"{CRDS}/{name}", body, kind=MERGE)
        assert changed.status == 200, changed.body

    widget = widget_of(lane)
    before, after = platform(lane), platform(lane, {"a": ""}, text="two")
    before, after = (with_widget(commit, widget) for commit in (before, after))
    try:
        await convert("None", None)  # so it is stored in the version in which Git does not write it
        await served(lane, f"/apis/{lane.group}/v2/widgets")
        wanted = await reference(lane, before, after)
        await settled(lane, before)
        await convert("Webhook", {"clientConfig": {"url": NOWHERE}, "conversionReviewVersions": ["v1"]})
        found = await others_go_on(lane, after, "one-a")
        assert await names(lane) >= {"one-a", "one-b", "one-c", "one-d"}
        told = [node.blocked for one in found.plan.sets for node in one.nodes if node.node.manifest == widget]
        assert all(why and "conversion webhook" in why.message for why in told)
        assert told
        await convert("None", None)
        await assert_settles(lane, wanted)
    finally:
        await convert("None", None)  # or the CRD would never go, and stand in the way of what follows on this server
        await lane.ask("DELETE", f"{CRDS}/{name}")


async def test_a_version_that_is_served_no_longer_stops_its_objects_only(lane: Lane) -> None:
    """Row "CRD version change" (I2, I9, I12): what Git says in the old version waits and says so, nothing of it is deleted, all else goes on; in the
    new version the same object is written.
    """
    await serve_widgets(lane)

    def commit(text: str, version: str) -> Commit:
        return with_widget(platform(lane, text=text), {**widget_of(lane, version), "spec": {"text": text}})

    place = f"{CRDS}/widgets.{lane.group}"
    try:
        await settled(lane, commit("one", "v1"))
        uid = json.loads((await lane.ask("GET", widgets(lane, "v1"))).body)["metadata"]["uid"]
        versions = [version("v1", served=False), version("v2", storage=True)]
        changed = await lane.ask("PATCH", place, {"spec": {"versions": versions}}, kind=MERGE)
        assert changed.status == 200, changed.body
        await served(lane, f"/apis/{lane.group}/v2/widgets")
        since = lane.audit.mark()
        found = await others_go_on(lane, commit("two", "v1"), "one-d")
        told = [node.blocked for one in found.plan.sets for node in one.nodes if node.node.manifest["kind"] == "Widget"]
        said = f"the server serves {lane.group}/v2 and not {lane.group}/v1"
        assert [why and said in why.message for why in told] == [True], told
        await settled(lane, commit("two", "v2"))
        assert json.loads((await lane.ask("GET", widgets(lane, "v2"))).body)["metadata"]["uid"] == uid
        assert deleted(lane, since, "widgets") == []
    finally:
        await lane.ask("DELETE", place)


async def test_a_kind_whose_scope_git_turns_stops_its_objects_only(lane: Lane) -> None:
    """Row "CRD version change" (I9, I12): a CRD keeps its scope for life. Git's new one is refused, the object that goes with it cannot be named on
    the server, and all else goes on.
    """
    place, version_one = f"{CRDS}/widgets.{lane.group}", version("v1", storage=True)

    def commit(text: str, scope: str) -> Commit:
        metadata = {"name": f"widgets.{lane.group}", "annotations": {"levelgate.dev/prune": "allowed"}}
        names = {"plural": "widgets", "kind": "Widget"}
        spec = {"group": lane.group, "scope": scope, "names": names, "versions": [version_one]}
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": spec,
        }
        widget = widget_of(lane)
        if scope == "Cluster":
            del widget["metadata"]["namespace"]
        return {
            "git": {**platform(lane, text=text)["git"], "crd.json": json.dumps(crd), "widget.json": json.dumps(widget)}
        }

    try:
        wanted = await reference(lane, commit("one", "Namespaced"), commit("two", "Namespaced"))
        await settled(lane, commit("one", "Namespaced"))
        since = lane.audit.mark()
        found = await others_go_on(lane, commit("two", "Cluster"), "one-d")
        told = [node.blocked.message for plan in found.plan.sets for node in plan.nodes if node.blocked]
        assert any("Widget is namespaced, and no namespace is given" in message for message in told), told
        assert any("spec.scope" in message and "immutable" in message for message in told), told
        assert deleted(lane, since, "widgets") == []
        await lane.commit(commit("two", "Namespaced"))
        await assert_settles(lane, wanted)
    finally:
        await lane.ask("DELETE", place)


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def serve_widgets(lane: Lane) -> None:
    """A kind that no source knows of."""
    kind = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": lane.group, "scope": "Namespaced", "names": kind, "versions": [version("v1", storage=True)]}
    made = await lane.ask("POST", CRDS, {"metadata": {"name": f"widgets.{lane.group}"}, "spec": spec})
    assert made.status == 201, made.body
    await served(lane, f"/apis/{lane.group}/v1/widgets")


def widget_of(lane: Lane, version: str = "v1") -> Object:
    return {
        "apiVersion": f"{lane.group}/{version}",
        "kind": "Widget",
        "metadata": {"name": "one", "namespace": lane.namespace},
    }


def widgets(lane: Lane, version: str) -> str:
    return f"/apis/{lane.group}/{version}/namespaces/{lane.namespace}/widgets/one"


def version(name: str, *, storage: bool = False, served: bool = True) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}}


async def served(lane: Lane, path: str) -> None:
    for _ in range(2400):
        if (await lane.ask("GET", path)).status == 200:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{path} is not served")

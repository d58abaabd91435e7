"""Passes over parts: what they do, what they leave alone, and when only a whole pass will do."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from applier.cluster import Object
from applier.plan.model import NodePlan
from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Request, Response
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.scope import WidenScope, changed_objects
from renderer.catalog.catalog import load
from renderer.identity import ObjectKey
from renderer.well_known import DEPENDS_ON
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.platform import CONFIG_MAPS, OWN


def key(name: str) -> ObjectKey:
    return ObjectKey(GROUP, "Link", "default", name)


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b", "c")) as found:
        found.start()
        found.settle()
        yield found


def test_a_commit_that_changes_much_is_for_a_pass_over_everything() -> None:
    """Parts go one after the other: sixteen objects are two of them, a hundred would take longer than all at once."""
    with LinkPlatform(names=tuple(f"i{number:02d}" for number in range(20)), gates=[]) as many:
        many.start()
        many.settle()
        for name in many.names[:16]:
            many.written[name] = {"text": "other"}
        many.push()
        assert many.reconciler.accept([many.state]) == frozenset(map(key, many.names[:16]))
        for name in many.names[:17]:
            many.written[name] = {"text": "another"}
        many.push()
        assert many.reconciler.accept([many.state]) == WidenScope(
            "17 objects change, which is cheaper in a full reconciliation"
        )


def part(fleet: LinkPlatform, *names: str) -> ReconcileResult | WidenScope:
    return fleet.call(fleet.reconciler.reconcile_roots([key(name) for name in names]))


def done(found: ReconcileResult | WidenScope) -> list[str]:
    assert isinstance(found, ReconcileResult), found
    return [f"{result.key.kind}/{result.key.name} {result.action}" for result in found.results]


def until_quiet(fleet: LinkPlatform, name: str) -> list[str]:
    """What passes over one instance do, until one does nothing: a status that was written is seen by the next."""
    found: list[str] = []
    while last := done(part(fleet, name)):
        found += last
    return found


def is_as_a_fresh_process_wants_it(fleet: LinkPlatform) -> None:
    """A process that remembers nothing finds nothing to do but to tell."""
    fleet.call(fleet.reconciler.report_sources())
    fleet.restart()
    found = fleet.step()
    assert [str(one.key) for one in found.results] == []


def test_drift_is_healed_by_a_pass_over_its_instance_alone(fleet: LinkPlatform) -> None:
    fleet.request("DELETE", f"{CONFIG_MAPS}/a-app")
    fleet.request("DELETE", f"{CONFIG_MAPS}/b-app")
    found = part(fleet, "a")
    assert isinstance(found, ReconcileResult)
    assert done(found) == ["ConfigMap/a-app created"]
    assert {one.rendered.parent.name for one in found.sets} == {"a", "source-platform"}
    assert done(part(fleet, "a")) == []
    assert done(part(fleet, "b")) == ["ConfigMap/b-app created"]
    is_as_a_fresh_process_wants_it(fleet)


def test_a_status_that_changes_is_told_by_the_instance_and_counted_in_its_rollout(fleet: LinkPlatform) -> None:
    fleet.ready("b", ready=False)
    assert until_quiet(fleet, "b") == ["Link/b status"]
    assert fleet.status("b")["state"] != "ACTIVE"
    fleet.call(fleet.reconciler.report_sources())
    (wave,) = fleet.rollout().waves
    assert (wave.total, wave.settled, wave.moving) == (3, 2, 1)
    fleet.ready("b")
    assert until_quiet(fleet, "b") == ["Link/b status"]
    is_as_a_fresh_process_wants_it(fleet)


def test_a_commit_that_changes_one_instance_is_fully_applied_by_a_pass_over_it(fleet: LinkPlatform) -> None:
    fleet.written = {"b": {"text": "two"}}
    fleet.push()
    assert fleet.reconciler.whole
    touched = changed_objects(fleet.reconciler.whole, [fleet.state])
    assert not isinstance(touched, WidenScope)
    assert [place.name for _, place in touched] == ["b"]
    fleet.reconciler.whole.set_sources([fleet.state], touched, due=touched)
    assert "Deployment/b-app updated" in until_quiet(fleet, "b")
    fleet.ready("b")
    assert "Link/b status" in until_quiet(fleet, "b")
    is_as_a_fresh_process_wants_it(fleet)


def test_the_requests_of_a_part_do_not_grow_with_the_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    """S4-7: the same requests among 3 as among 30."""
    counts = []
    for size in (3, 30):
        with LinkPlatform(names=tuple(f"n{number:02}" for number in range(size))) as fleet:
            fleet.start()
            fleet.settle()
            log: list[str] = []

            async def logged(request: Request, log: list[str] = log, box: Sandbox = fleet.sandbox) -> Response:
                path = request.target.partition("?")[0]
                log.append(f"{request.method} {path.partition('/events/')[0]}")  # events have names of their own
                return box.handle(request)

            monkeypatch.setattr(fleet.sandbox, "answer", logged)
            fleet.request("DELETE", f"{CONFIG_MAPS}/n00-app")
            part(fleet, "n00")
            counts.append(sorted(log))
    assert counts[0] == counts[1]
    assert 3 <= len(counts[0]) <= 12


def widened(found: object) -> str:
    assert isinstance(found, WidenScope), found
    return found.why


def test_what_is_not_known_is_left_to_a_whole_pass(fleet: LinkPlatform) -> None:
    assert "was not known" in widened(part(fleet, "z"))
    fleet.restart()
    assert widened(part(fleet, "a")) == "no full reconciliation has ended yet"


def test_a_part_deletes_nothing(fleet: LinkPlatform) -> None:
    labels = fleet.request("GET", f"{CONFIG_MAPS}/a-app")["metadata"]["labels"]
    stray = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stray", "labels": labels}}
    path = f"{CONFIG_MAPS}/stray"
    fleet.request("PATCH", f"{path}?fieldManager=levelgate", stray, "application/apply-patch+yaml")
    assert "prune candidates" in widened(part(fleet, "a"))
    assert fleet.request("GET", path)


def test_what_stays_although_nobody_wants_it_needs_no_whole_pass(fleet: LinkPlatform) -> None:
    """I9: an object that only looks like ours costs its instance a line of its status, and the others nothing."""
    labels = fleet.request("GET", f"{CONFIG_MAPS}/a-app")["metadata"]["labels"]
    fleet.request(
        "POST", CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stray", "labels": labels}}
    )
    found = part(fleet, "a")
    assert not isinstance(found, WidenScope)
    reasons = [one.blocked.reason for plan in found.plan.sets for one in plan.prune_candidates if one.blocked]
    assert reasons == ["DeletionBlocked"]
    assert fleet.request("GET", f"{CONFIG_MAPS}/stray")


def test_a_kind_that_cannot_be_read_stops_parts_only_until_a_whole_pass_knows_it(
    fleet: LinkPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 5, absence is proven; and I9: what has nothing to do with the kind goes on at the cost of parts. A part that could read it again has
    the rest read as well.
    """

    async def converting(request: Request) -> Response:
        if request.target.startswith("/api/v1/configmaps?"):
            return Response(500, b"conversion webhook for v1, Kind=ConfigMap failed: refused")
        return fleet.sandbox.handle(request)

    with monkeypatch.context() as broken:
        broken.setattr(fleet.sandbox, "answer", converting)
        assert widened(part(fleet, "a")) == "other kinds can be read than before"
        fleet.settle()
        fleet.request("DELETE", "/apis/apps/v1/namespaces/default/deployments/a-app")
        fleet.request("DELETE", f"{CONFIG_MAPS}/a-app")
        assert done(part(fleet, "a"))[0] == "Deployment/a-app created"
        (blocked,) = (one.blocked for one in plan_of(fleet, "a") if one.node.id == "after")
        assert blocked
        assert "conversion webhook" in blocked.message
    assert widened(part(fleet, "a")) == "other kinds can be read than before"
    fleet.step()
    fleet.ready("a")
    fleet.settle()
    is_as_a_fresh_process_wants_it(fleet)


def plan_of(fleet: LinkPlatform, name: str) -> tuple[NodePlan, ...]:
    assert fleet.reconciler.whole
    return fleet.reconciler.whole.plans[key(name)].nodes


def test_a_part_grants_nothing(fleet: LinkPlatform) -> None:
    """What counts in a rollout under way is for the rollout to decide."""
    fleet.push("two", paced={"shape": {"linear": {"n": 1}}})
    fleet.step()
    fleet.ready("a")
    assert "Link/a status" in until_quiet(fleet, "a")
    assert fleet.reconciler.whole
    assert fleet.reconciler.whole.rollouts_to_recompute == {"links.g.test"}
    assert "waits" in widened(part(fleet, "b"))
    assert fleet.at("two") == ["a"]


def test_a_suspension_is_heard_by_a_part(fleet: LinkPlatform) -> None:
    fleet.put(f"{OWN}/levelgate", suspend="INC-7")
    fleet.request("DELETE", f"{CONFIG_MAPS}/a-app")
    assert isinstance(part(fleet, "a"), WidenScope)
    listed = fleet.request("GET", CONFIG_MAPS)["items"]
    assert "a-app" not in json.dumps([one["metadata"]["name"] for one in listed])


def config_map(name: str, **fields: object) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, **fields}


def deployment(name: str, image: str, *settings: str) -> Object:
    """One that reads these ConfigMaps, so that it comes after them."""
    pod = {
        "containers": [{"name": "app", "image": image, "envFrom": [{"configMapRef": {"name": s}} for s in settings]}]
    }
    labels = {"app": name}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


PLAIN = {
    "x": config_map("x", data={"text": "one"}),
    "y": config_map("y", data={"text": "one"}),
    "web": deployment("web", "one", "x"),
}


@pytest.fixture
def plain() -> Iterator[LinkPlatform]:
    """With plain objects beside the instances."""
    with LinkPlatform(names=("a",), plain=dict(PLAIN)) as found:
        found.start()
        found.settle()
        found.available("web")
        found.settle()
        yield found


def at(name: str, kind: str = "ConfigMap") -> ObjectKey:
    return ObjectKey("apps" if kind == "Deployment" else "", kind, "default", name)


def commit(fleet: LinkPlatform, **plain: Object) -> frozenset[ObjectKey] | WidenScope:
    """These plain objects as given, the others as they were; answers what is due."""
    fleet.plain |= plain
    fleet.push()
    return fleet.reconciler.accept([fleet.state])


def look(fleet: LinkPlatform, keys: frozenset[ObjectKey] | WidenScope) -> list[str]:
    assert isinstance(keys, frozenset), keys
    return done(fleet.call(fleet.reconciler.reconcile_roots(keys)))


def test_a_commit_that_changes_plain_objects_is_fully_applied_by_a_pass_over_them(plain: LinkPlatform) -> None:
    due = commit(plain, x=config_map("x", data={"text": "two"}), web=deployment("web", "two", "x"))
    assert due == frozenset({at("x"), at("web", "Deployment")})
    assert look(plain, due) == ["ConfigMap/x updated", "Deployment/web updated"]
    assert plain.request("GET", f"{CONFIG_MAPS}/x")["data"] == {"text": "two"}
    plain.available("web")
    assert look(plain, frozenset({at("web", "Deployment")})) == []
    is_as_a_fresh_process_wants_it(plain)


def test_drift_of_a_plain_object_is_healed_by_a_pass_over_it(plain: LinkPlatform) -> None:
    plain.request("DELETE", f"{CONFIG_MAPS}/x")
    assert look(plain, frozenset({at("x")})) == ["ConfigMap/x created"]
    assert look(plain, frozenset({at("x")})) == []
    is_as_a_fresh_process_wants_it(plain)


def test_an_object_that_only_moved_in_its_file_is_not_due(plain: LinkPlatform) -> None:
    text = json.dumps(plain.plain["x"])
    files = {"x.json": f"\n\n{text}".encode(), **_others(plain)}
    plain.catalog = load(files, source="platform", commit="f" * 40, previous=plain.catalog)
    assert plain.reconciler.accept([plain.state]) == frozenset()


def test_what_only_moved_in_its_file_is_not_counted_as_changed(plain: LinkPlatform) -> None:
    """A line more at the top of a file of twenty objects changes one of them."""
    for head, text in ("", "one"), ("\n\n", "two"):
        objects = [config_map(f"c{number:02d}", data={"text": "same" if number else text}) for number in range(20)]
        file = head + "\n---\n".join(map(json.dumps, objects))
        files = {**_others(plain), "all.yaml": file.encode()}
        plain.catalog = load(files, source="platform", commit=text.ljust(40, "f"), previous=plain.catalog)
        if text == "one":
            plain.settle()
    assert plain.reconciler.accept([plain.state]) == frozenset({at("c00")})


def _others(fleet: LinkPlatform) -> dict[str, bytes]:
    assert fleet.catalog
    return {name: found.data for name, found in fleet.catalog.contents.items() if name != "x.json"}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"web": deployment("web", "one", "x", "y")}, "the order of others"),
        ({"y": config_map("y", metadata={"name": "z", "namespace": "default"})}, "which objects there are"),
        ({"new": config_map("new")}, "which objects there are"),
        (
            {
                "x": config_map(
                    "x",
                    metadata=PLAIN["x"]["metadata"] | {"annotations": {DEPENDS_ON: "/namespaces/default/ConfigMap/y"}},
                )
            },
            "the order of others",
        ),
    ],
)
def test_which_commits_to_plain_objects_need_a_whole_pass(
    plain: LinkPlatform, changed: dict[str, Object], why: str
) -> None:
    assert why in widened(commit(plain, **changed))


def test_an_object_that_is_declared_twice_is_left_to_a_whole_pass(plain: LinkPlatform) -> None:
    """A part that saw one of the two declarations would follow it. Fails where `ClusterState` keeps the first alone."""
    plain.plain["stray"] = config_map("x", data={"text": "stray"})
    plain.push()
    plain.settle()
    for name in ("x", "stray"):
        assert "which objects there are" in widened(
            commit(plain, **{name: config_map("x", data={"text": f"{name} again"})})
        )
        assert "was not known" in widened(plain.call(plain.reconciler.reconcile_roots([at("x")])))
        plain.settle()
    assert plain.request("GET", f"{CONFIG_MAPS}/x")["data"] == {"text": "one"}
    del plain.plain["stray"]
    plain.push()
    plain.settle()
    assert plain.request("GET", f"{CONFIG_MAPS}/x")["data"] == {"text": "x again"}


def test_what_uses_an_object_that_is_due_is_left_to_a_whole_pass(plain: LinkPlatform) -> None:
    """S0-9: the Deployment comes after the ConfigMap, which another part may be at."""
    commit(plain, x=config_map("x", data={"text": "two"}), web=deployment("web", "two", "x"))
    assert "more to do" in widened(plain.call(plain.reconciler.reconcile_roots([at("web", "Deployment")])))
    assert plain.request("GET", "/apis/apps/v1/namespaces/default/deployments/web")["metadata"]["generation"] == 1


def test_a_plain_object_behind_a_closed_window_is_left_to_a_whole_pass_and_not_healed_past_it(
    plain: LinkPlatform,
) -> None:
    """I5: what the window keeps from being updated is no drift later."""
    november = {"once": [{"start": "2026-11-01T00:00", "end": "2026-12-01T00:00"}]}
    plain.push(freeze={"kind": "Deny", "timeZone": "UTC", "schedule": november})
    plain.settle()
    due = commit(plain, x=config_map("x", data={"text": "two"}))
    assert isinstance(due, frozenset)
    assert "are held" in widened(plain.call(plain.reconciler.reconcile_roots(due)))
    plain.settle()
    assert "waits" in widened(plain.call(plain.reconciler.reconcile_roots(due)))
    assert plain.request("GET", f"{CONFIG_MAPS}/x")["data"] == {"text": "one"}
    plain.request("DELETE", f"{CONFIG_MAPS}/y")
    assert look(plain, frozenset({at("y")})) == ["ConfigMap/y created"]


def test_the_requests_of_a_part_with_plain_objects_do_not_grow_with_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """S4-7: one changed plain object among 3 as among 60."""
    counts = []
    for size in (3, 60):
        objects = {f"n{number:02}": config_map(f"n{number:02}", data={"text": "one"}) for number in range(size)}
        with LinkPlatform(names=("a",), plain=objects) as fleet:
            fleet.start()
            fleet.settle()
            log: list[str] = []

            async def logged(request: Request, log: list[str] = log, box: Sandbox = fleet.sandbox) -> Response:
                log.append(f"{request.method} {request.target.partition('?')[0]}")
                return box.handle(request)

            monkeypatch.setattr(fleet.sandbox, "answer", logged)
            assert look(fleet, commit(fleet, n00=config_map("n00", data={"text": "two"}))) == ["ConfigMap/n00 updated"]
            counts.append(sorted(log))
    assert counts[0] == counts[1]
    assert len(counts[0]) <= 5


@pytest.mark.parametrize("what", ["definition", "window", "new instance", "gone instance", "labels"])
def test_which_commits_need_a_whole_pass(fleet: LinkPlatform, what: str) -> None:
    match what:
        case "definition":
            fleet.push("two")
        case "window":
            fleet.push(night={"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 9 * * *"}, "until": "17:00"})
        case "new instance":
            fleet.names = ("a", "b", "c", "d")
            fleet.push()
        case "gone instance":
            fleet.names = ("a", "b")
            fleet.push()
        case "labels":
            fleet.written = {"b": {"metadata": {"labels": {"tier": "prod"}}}}
            fleet.push()
    assert fleet.reconciler.whole
    found = changed_objects(fleet.reconciler.whole, [fleet.state])
    assert isinstance(found, WidenScope) is (what != "labels")

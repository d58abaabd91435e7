"""Passes over parts: what they do, what they leave alone, and when only a whole pass will do."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from applier.sandbox.api import Sandbox
from applier.sandbox.wire import Request, Response
from gitops.passes.known import Pass
from gitops.passes.parts import Wider, changed
from renderer.identity import ObjectKey
from tests.gitops.fleet import GROUP, Fleet

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def key(name: str) -> ObjectKey:
    return ObjectKey(GROUP, "Link", "default", name)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet(names=("a", "b", "c")) as found:
        found.start()
        settle(found)
        yield found


def settle(fleet: Fleet) -> None:
    for _ in range(10):
        if not fleet.step().changed:
            return
    raise AssertionError("it does not settle")


def part(fleet: Fleet, *names: str) -> Pass | Wider:
    return fleet.call(fleet.reconciler.part([key(name) for name in names]))


def done(found: Pass | Wider) -> list[str]:
    assert isinstance(found, Pass), found
    return [f"{result.key.kind}/{result.key.name} {result.action}" for result in found.results]


def until_quiet(fleet: Fleet, name: str) -> list[str]:
    """What passes over one instance do, until one does nothing: a status that was written is seen by the next."""
    found: list[str] = []
    while last := done(part(fleet, name)):
        found += last
    return found


def is_as_a_fresh_process_wants_it(fleet: Fleet) -> None:
    """A process that remembers nothing finds nothing to do but to tell."""
    fleet.call(fleet.reconciler.tell())
    fleet.restart()
    found = fleet.step()
    assert [str(one.key) for one in found.results] == []


def test_drift_is_healed_by_a_pass_over_its_instance_alone(fleet: Fleet) -> None:
    fleet.request("DELETE", f"{CONFIG_MAPS}/a-app")
    fleet.request("DELETE", f"{CONFIG_MAPS}/b-app")
    found = part(fleet, "a")
    assert done(found) == ["ConfigMap/a-app created"]
    assert {one.rendered.parent.name for one in found.sets} == {"a", "source-platform"}
    assert done(part(fleet, "a")) == []
    assert done(part(fleet, "b")) == ["ConfigMap/b-app created"]
    is_as_a_fresh_process_wants_it(fleet)


def test_a_status_that_changes_is_told_by_the_instance_and_counted_in_its_rollout(fleet: Fleet) -> None:
    fleet.ready("b", ready=False)
    assert until_quiet(fleet, "b") == ["Link/b status"]
    assert fleet.status("b")["state"] != "ACTIVE"
    fleet.call(fleet.reconciler.tell())
    (wave,) = fleet.rollout().waves
    assert (wave.total, wave.settled, wave.moving) == (3, 2, 1)
    fleet.ready("b")
    assert until_quiet(fleet, "b") == ["Link/b status"]
    is_as_a_fresh_process_wants_it(fleet)


def test_a_commit_that_changes_one_instance_is_brought_about_by_a_pass_over_it(fleet: Fleet) -> None:
    fleet.written = {"b": {"text": "two"}}
    fleet.push()
    assert fleet.reconciler.whole
    touched = changed(fleet.reconciler.whole, [fleet.state])
    assert not isinstance(touched, Wider)
    assert [place.name for _, place in touched] == ["b"]
    fleet.reconciler.whole.accept([fleet.state], touched, due=touched)
    assert "Deployment/b-app updated" in until_quiet(fleet, "b")
    fleet.ready("b")
    assert "Link/b status" in until_quiet(fleet, "b")
    is_as_a_fresh_process_wants_it(fleet)


def test_the_requests_of_a_part_do_not_grow_with_the_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    """S4-7: the same requests among 3 as among 30."""
    counts = []
    for size in (3, 30):
        with Fleet(names=tuple(f"n{number:02}" for number in range(size))) as fleet:
            fleet.start()
            settle(fleet)
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


def widened(found: Pass | Wider) -> str:
    assert isinstance(found, Wider), found
    return found.why


def test_what_is_not_known_is_left_to_a_whole_pass(fleet: Fleet) -> None:
    assert widened(part(fleet, "z")) == "an instance that was not known"
    fleet.restart()
    assert widened(part(fleet, "a")) == "not everything has been looked at yet"


def test_a_part_deletes_nothing(fleet: Fleet) -> None:
    labels = fleet.request("GET", f"{CONFIG_MAPS}/a-app")["metadata"]["labels"]
    stray = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stray", "labels": labels}}
    fleet.request("POST", CONFIG_MAPS, stray)
    assert "no longer wants" in widened(part(fleet, "a"))
    assert fleet.request("GET", f"{CONFIG_MAPS}/stray")


def test_a_part_that_cannot_read_a_kind_is_left_to_a_whole_pass(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 5: absence is proven."""

    async def converting(request: Request) -> Response:
        if request.target.startswith("/api/v1/configmaps?"):
            return Response(500, b"conversion webhook for v1, Kind=ConfigMap failed: refused")
        return fleet.sandbox.handle(request)

    monkeypatch.setattr(fleet.sandbox, "answer", converting)
    assert widened(part(fleet, "a")) == "not everything can be read"


def test_a_part_grants_nothing(fleet: Fleet) -> None:
    """What counts in a rollout under way is for the rollout to decide."""
    fleet.push("two", paced={"shape": {"linear": {"n": 1}}})
    fleet.step()
    fleet.ready("a")
    assert "counts otherwise in the rollout" in widened(part(fleet, "a"))
    assert "waits" in widened(part(fleet, "b"))
    assert fleet.at("two") == ["a"]


def test_a_suspension_is_heard_by_a_part(fleet: Fleet) -> None:
    fleet.put("/api/v1/namespaces/levelgate-system/configmaps/levelgate", suspend="INC-7")
    fleet.request("DELETE", f"{CONFIG_MAPS}/a-app")
    assert isinstance(part(fleet, "a"), Wider)
    listed = fleet.request("GET", CONFIG_MAPS)["items"]
    assert "a-app" not in json.dumps([one["metadata"]["name"] for one in listed])


@pytest.mark.parametrize("what", ["definition", "window", "new instance", "gone instance", "labels"])
def test_which_commits_need_a_whole_pass(fleet: Fleet, what: str) -> None:
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
    found = changed(fleet.reconciler.whole, [fleet.state])
    assert isinstance(found, Wider) is (what != "labels")

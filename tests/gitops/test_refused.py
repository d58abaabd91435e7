"""Writes that the cluster refuses, as a daemon meets them: when they are sent again, and that they hold up nothing that would succeed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from applier.causes import Reason
from applier.execute import pending_writes
from applier.execute.refusals import FIRST_RETRY_WAIT, MAX_RETRY_WAIT, Refusals
from applier.sandbox.endpoints.transport import RequestHandler
from applier.sandbox.wire import Refusal, Request, Response
from renderer.identity import ObjectKey, source_parent
from tests.support.clock import VirtualLoop
from tests.support.fault_injector import InjectedFault, RefusedRequest
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.operation import operating
from tests.support.platform import CONFIG_MAPS, MERGE

LONG = timedelta(minutes=30)


def config_map(name: str, text: str = "one") -> Any:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"text": text},
    }


@dataclass
class Refusing:
    """A daemon's passes over a fleet that wants the objects `bad` and `good` as well.

    What would write `bad` is counted, and refused with `code`, unless that is zero.
    """

    fleet: LinkPlatform
    code: int = 403
    tries: int = 0

    def __post_init__(self) -> None:
        spare = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "spare", "namespace": "default"}}
        self.fleet.plain = {"bad": config_map("bad"), "good": config_map("good"), "spare": spare}
        self.fleet.push()
        self.restart(self.door)

    def restart(self, door: RequestHandler) -> None:
        """Start a new daemon, whose waits are as long as they can be."""
        self.fleet.restart(door, waits_for_responses=False)
        self.fleet.reconciler.decision_reads.refusals.random_fraction = lambda: 0.0

    async def door(self, request: Request) -> Response:
        if request.method in {"PATCH", "DELETE"} and "/configmaps/bad" in request.target:
            self.tries += 1
            if self.code:
                return Refusal(self.code, "", "refused by the test").response
        return await self.fleet.answer(request)

    def tried(self, *, after: timedelta = timedelta(), passes: int = 3) -> int:
        """How often it was sent in so many passes."""
        before = self.tries
        self.fleet.clock.moment += after
        for _ in range(passes):
            self.fleet.step()
        return self.tries - before


@pytest.fixture
def story() -> Iterator[Refusing]:
    with LinkPlatform(names=("a",), gates=[]) as fleet:
        fleet.start()
        yield Refusing(fleet)


@pytest.mark.parametrize("code", [403, 422])
def test_what_was_refused_is_not_sent_in_every_pass(story: Refusing, code: int) -> None:
    """2.2: a jittered backoff that grows, up to some minutes; all else goes on, and the reason stands."""
    story.code = code
    assert story.tried() == 1
    assert {one["metadata"]["name"] for one in story.fleet.request("GET", CONFIG_MAPS)["items"]} >= {"good", "a-app"}
    wait, waits = FIRST_RETRY_WAIT, []
    for _ in range(14):
        waits.append(wait)
        assert story.tried(after=wait - timedelta(milliseconds=1)) == 0
        assert story.tried(after=timedelta(milliseconds=1)) == 1
        wait = min(2 * wait, MAX_RETRY_WAIT)
    assert waits[-1] == MAX_RETRY_WAIT
    (source,) = (one for one in story.fleet.step().plan.sets if one.rendered.is_source)
    (bad,) = (node for node in source.nodes if node.node.key and node.node.key.name == "bad")
    assert bad.blocked is not None
    assert bad.blocked.reason.is_failure


def test_a_conflict_is_sent_again_only_when_something_of_it_changes(story: Refusing) -> None:
    """What another manager means is changed by no time; what he writes, Git, and another policy of the source may change it."""
    story.code = 0
    story.tried()
    theirs = config_map("bad", "theirs")
    forced = f"{CONFIG_MAPS}/bad?fieldManager=other&force=true"
    story.fleet.request("PATCH", forced, theirs, "application/apply-patch+yaml")
    assert story.tried() == 1
    assert story.tried(after=LONG, passes=5) == 0
    story.fleet.request("PATCH", forced, {**theirs, "data": {"text": "again"}}, "application/apply-patch+yaml")
    assert story.tried() == 1
    another_intent(story)
    assert story.tried(passes=5) == 1


def test_chance_takes_off_up_to_a_half_of_a_wait() -> None:
    assert 0 <= Refusals().random_fraction() < 1


def another_intent(story: Refusing) -> None:
    story.fleet.plain["bad"] = config_map("bad", "two")
    story.fleet.push()


def a_new_process(story: Refusing) -> None:
    story.restart(story.door)


def a_person_asks(story: Refusing) -> None:
    catalog, now = story.fleet.state, story.fleet.clock.now().isoformat()
    asked = replace(catalog, synced={source_parent("platform"): now})
    story.fleet.call(story.fleet.reconciler.reconcile([asked]))


def other_rules(story: Refusing) -> None:
    webhooks = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "strict"},
        "webhooks": [],
    }
    story.fleet.plain["strict"] = webhooks
    story.fleet.push()


def a_deletion(story: Refusing) -> None:
    """What it used of a quota is free."""
    del story.fleet.plain["spare"]
    story.fleet.push()


def a_clock_set_back(story: Refusing) -> None:
    """It would be waited for until the clock is where it was."""
    story.fleet.clock.moment -= timedelta(days=1)


@pytest.mark.parametrize(
    "change", [another_intent, a_new_process, a_person_asks, other_rules, a_deletion, a_clock_set_back]
)
def test_it_is_sent_at_once_when_something_has_changed_of_it(story: Refusing, change: Any) -> None:
    """2.2: its intent, what decides on writes, a request of a person (`levelgate reconcile`)."""
    for _ in range(9):
        story.tried(after=LONG, passes=1)
    assert story.tried() == 0
    change(story)
    assert 1 <= story.tries + story.tried() - 9 <= 2
    assert story.tried() == 0


def test_a_live_object_that_has_changed_is_written_at_once_and_its_status_is_no_change(story: Refusing) -> None:
    fleet, path = story.fleet, "/apis/apps/v1/namespaces/default/deployments/a-app"
    fleet.faulty.faults = [InjectedFault(RefusedRequest(422), verb="patch", name="a-app", times=100)]
    story.restart(fleet.answer)
    fleet.push("two")
    fleet.step()

    def errors() -> int:
        return sum(
            1 for _ in range(2) for result in fleet.step().results if result.error and result.key.name == "a-app"
        )

    fleet.clock.moment += LONG
    assert errors() == 1
    fleet.ready("a", ready=False)
    assert errors() == 0
    fleet.request("PATCH", path, {"metadata": {"annotations": {"text": "by hand"}}}, MERGE)
    assert errors() == 1


def test_a_deletion_that_was_refused_is_not_sent_in_every_pass(story: Refusing) -> None:
    fleet = story.fleet
    story.restart(fleet.answer)
    fleet.step()
    story.restart(story.door)
    del fleet.plain["bad"]
    fleet.push()
    assert story.tried() == 1
    assert story.tried(after=FIRST_RETRY_WAIT) == 1


def test_run_once_tries_once_unless_something_changes(story: Refusing) -> None:
    """Its passes are seconds apart, or minutes where it waits for long."""
    story.fleet.restart(story.door)
    story.fleet.reconciler.disable_retries()
    assert story.tried() == 1
    assert story.tried(after=timedelta(minutes=2)) == 0
    story.fleet.plain["bad"] = config_map("bad", "other")
    story.fleet.push()
    assert story.tried() == 1
    assert story.tried(after=MAX_RETRY_WAIT) == 1


@pytest.mark.parametrize("waits", [True, False], ids=["run once", "daemon"])
def test_a_refusal_that_comes_late_is_remembered_as_any_other(waits: bool) -> None:
    """A slow server, or a slow webhook: the write is told of when others have gone on, or when its pass is over."""
    with LinkPlatform(names=("a",), gates=[], new_loop=VirtualLoop) as fleet:
        fleet.start()
        story = Refusing(fleet)
        refusing = story.door

        async def door(request: Request) -> Response:
            if request.method == "PATCH" and "/configmaps/bad" in request.target:
                await asyncio.sleep(5)
            return await refusing(request)

        fleet.restart(door, waits_for_responses=waits)
        fleet.reconciler.disable_retries()
        fleet.plain["bad"] = config_map("bad", "other")
        fleet.push()
        for _ in range(4):
            fleet.step()
            fleet.call(asyncio.sleep(10))
        assert story.tries == 1
        fleet.plain["bad"] = config_map("bad", "another")
        fleet.push()
        fleet.step()
        fleet.call(asyncio.sleep(10))
        assert story.tries == 2


def test_the_daemon_sends_it_again_by_itself(story: Refusing) -> None:
    """By a timer, and as soon as it is accepted nothing is remembered."""
    fleet = story.fleet
    fleet.faulty.faults = [InjectedFault(RefusedRequest(403), verb="patch", name="a-app", times=4)]
    fleet.restart()
    fleet.plain = {}
    fleet.push("two")

    async def daemon() -> None:
        async with operating(fleet) as found:
            await found.until(lambda: fleet.at("two") == ["a"])
            assert not found.follower.reconciler.refused.get(ObjectKey(GROUP, "Link", "default", "a"))

    fleet.call(daemon())


SILENT = Refusal(500, "InternalError", 'failed calling webhook "strict.example.test": connection refused').response


def test_a_webhook_that_nobody_answers_is_told_as_a_failure_after_minutes() -> None:
    """What it guards only waits at first, as it does where the webhook's Pods are replaced. It is tried all the time, ever more rarely, and at once
    for who asks for it.
    """
    with LinkPlatform(names=("a",), gates=[], new_loop=VirtualLoop) as fleet:
        fleet.start()
        tries = 0

        async def door(request: Request) -> Response:
            nonlocal tries
            is_guarded = request.method == "PATCH" and "/configmaps/guarded" in request.target
            tries += is_guarded
            return SILENT if is_guarded else await fleet.sandbox.answer(request)

        fleet.restart(door, waits_for_responses=False)
        fleet.plain = {"guarded": config_map("guarded"), "free": config_map("free")}
        fleet.push()

        def told() -> tuple[Reason, bool]:
            (source,) = (one for one in fleet.step().plan.sets if one.rendered.is_source)
            (cause,) = (node.blocked for node in source.nodes if node.node.key and node.node.key.name == "guarded")
            assert cause
            return cause.reason, "strict.example.test" in cause.message and "kubectl get" in cause.message

        for _ in range(15):
            assert told() == (Reason.PROGRESSING, True)
            fleet.call(asyncio.sleep(20))
        assert fleet.request("GET", f"{CONFIG_MAPS}/free")["data"] == {"text": "one"}
        fleet.call(asyncio.sleep(pending_writes.MAX_RETRY_SECONDS))
        assert told() == told() == (Reason.APPLY_FAILED, True)
        assert tries <= 11
        tries = 0
        synced = replace(fleet.state, synced={source_parent("platform"): fleet.clock.now().isoformat()})
        fleet.call(fleet.reconciler.reconcile([synced]))
        assert tries == 1

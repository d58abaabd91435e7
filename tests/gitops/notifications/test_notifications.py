"""Notifications: what is told to whom, in the shapes that the receivers speak, and what a receiver that fails costs (docs/configuration.md)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from applier.causes import EventReason, Reason
from gitops.config import ConfigErrors, read_config
from gitops.notifications import (
    Delivery,
    GitHubStatusChannel,
    GitLabStatusChannel,
    Receiver,
    Slack,
    Webhook,
    find_template_mistake,
)
from gitops.notifications.delivery import MAX_QUEUE_LENGTH, DeliveryAnswer
from gitops.notifications.messages import Message
from gitops.notifications.receivers import OutgoingRequest
from gitops.records.transitions import Transition
from renderer.identity import ObjectKey, source_parent
from tests.support.clock import START, StillClock
from tests.support.cluster.waiting import until
from tests.support.link_platform import LinkPlatform
from tests.support.loopback import listening
from tests.support.platform import CONFIG_MAPS

COMMIT = "9c1d2e7" + "0" * 33
PLAIN = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "plain", "namespace": "default"},
    "data": {"a": "b"},
}
SETTLED = Transition(
    EventReason.SETTLED, "all matches Git", source_parent("platform"), "v1", "u", "platform", COMMIT, state="Settled"
)
FAILED = Transition(
    Reason.APPLY_FAILED,
    "no <such> field",
    ObjectKey("g.test", "Link", "prod", "shop"),
    "g.test/v1",
    "u",
    "platform",
    COMMIT,
)


@dataclass
class Receiving:
    """A receiver on loopback: what it was sent, and how it answers, the last way for ever."""

    answers: list[tuple[int, dict[str, str]]] = field(default_factory=lambda: [(200, {})])
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.got.append((request.raw_path, dict(request.headers), await request.read()))
        status, headers = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return web.Response(status=status, headers=headers, text="secret-of-the-server")

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Receiving]:
        app = web.Application()
        app.router.add_post("/{path:.*}", self.answer)
        async with listening(app) as self.url:
            yield self


def secret(tmp_path: Path, text: str = "s3cret") -> Path:
    file = tmp_path / "secret"
    file.write_text(f"{text}\n")
    return file


async def told(
    receiver: Receiver, *transitions: Transition, count: int, server: Receiving
) -> tuple[list[str], StillClock]:
    """What was said of it, and the clock after that many requests."""
    notices: list[str] = []
    clock = StillClock()
    delivery = Delivery("prod-eu", clock, lambda _, text: notices.append(text))
    delivery.configure([receiver])
    delivery.enqueue(transitions)
    await until(lambda: len(server.got) >= count)
    for _ in range(10):
        await asyncio.sleep(0.005)  # nothing more comes
    delivery.close()
    return notices, clock


async def test_a_webhook_is_signed_over_its_body(tmp_path: Path) -> None:
    async with Receiving().serving() as server:
        await told(Receiver("team", Webhook(f"{server.url}/hook", secret(tmp_path))), SETTLED, count=1, server=server)
    ((path, headers, body),) = server.got
    assert path == "/hook"
    signature = hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    assert headers["X-Levelgate-Signature-256"] == f"sha256={signature}"
    assert json.loads(body) == {
        "cluster": "prod-eu",
        "source": "platform",
        "commit": COMMIT,
        "object": "source/platform",
        "objects": ["ConfigMap/levelgate-system/source-platform"],
        "word": "Settled",
        "message": "all matches Git",
        "text": "Settled source/platform (platform 9c1d2e700000, prod-eu): all matches Git",
        "time": "2026-11-20T12:00:00Z",
    }


async def test_a_receiver_hears_what_it_asked_for_and_of_what_is_alike_once(tmp_path: Path) -> None:
    elsewhere = replace(SETTLED, source="shop", key=source_parent("shop"))
    alike = replace(FAILED, key=FAILED.key._replace(name="cart"))
    async with Receiving().serving() as server:
        receiver = Receiver("team", Webhook(server.url, secret(tmp_path)), sources=frozenset({"platform"}))
        await told(receiver, elsewhere, SETTLED, FAILED, alike, count=2, server=server)
    assert [json.loads(body)["objects"] for _, _, body in server.got] == [
        ["ConfigMap/levelgate-system/source-platform"],
        ["Link.g.test/prod/shop", "Link.g.test/prod/cart"],
    ]


async def test_slack_gets_text_that_means_nothing_but_itself(tmp_path: Path) -> None:
    async with Receiving().serving() as server:
        receiver = Receiver(
            "chat", Slack(secret(tmp_path, f"{server.url}/services/T/B/x")), template="{word}: {message}"
        )
        await told(receiver, FAILED, count=1, server=server)
    ((path, _, body),) = server.got
    assert (path, json.loads(body)) == ("/services/T/B/x", {"text": "ApplyFailed: no &lt;such&gt; field"})


@pytest.mark.parametrize(
    ("transition", "github", "gitlab"), [(SETTLED, "success", "success"), (FAILED, "failure", "failed")]
)
async def test_the_status_of_a_commit(tmp_path: Path, transition: Transition, github: str, gitlab: str) -> None:
    async with Receiving([(201, {})]).serving() as server:
        channel = GitHubStatusChannel("acme/platform", secret(tmp_path), server.url)
        await told(Receiver("hub", channel), transition, count=1, server=server)
        lab = GitLabStatusChannel("acme/infra/platform", secret(tmp_path), f"{server.url}/api/v4")
        await told(Receiver("lab", lab), transition, count=2, server=server)
    (path, headers, body), (lab_path, lab_headers, lab_body) = server.got
    assert path == f"/repos/acme/platform/statuses/{COMMIT}"
    assert headers["Authorization"] == "Bearer s3cret"
    assert (json.loads(body)["state"], json.loads(body)["context"]) == (github, "levelgate/prod-eu/platform")
    assert lab_path == f"/api/v4/projects/acme%2Finfra%2Fplatform/statuses/{COMMIT}"
    assert lab_headers["PRIVATE-TOKEN"] == "s3cret"
    assert (json.loads(lab_body)["state"], json.loads(lab_body)["name"]) == (gitlab, "levelgate/prod-eu/platform")
    assert len(json.loads(body)["description"]) <= 140


@pytest.mark.parametrize("status", [403, 429])
async def test_a_receiver_that_asks_for_time_gets_it(tmp_path: Path, status: int) -> None:
    """403 (GitHub's second limit) or 429 with Retry-After, then 503, then it takes it: one message, told once."""
    answers = [(status, {"Retry-After": "17"}), (503, {}), (200, {})]
    async with Receiving(list(answers)).serving() as server:
        receiver = Receiver("team", Webhook(server.url, secret(tmp_path)))
        notices, clock = await told(receiver, SETTLED, count=3, server=server)
    assert notices == []
    assert (clock.moment - StillClock().moment).total_seconds() == 17 + 1 * 1 + 1
    assert len({body for _, _, body in server.got}) == 1


@pytest.mark.parametrize(("status", "headers"), [(403, {}), (302, {"Location": "http://127.0.0.1:1/elsewhere"})])
async def test_what_is_refused_is_not_sent_again_and_no_secret_is_told(
    tmp_path: Path, status: int, headers: dict[str, str]
) -> None:
    async with Receiving([(status, headers)]).serving() as server:
        receiver = Receiver("hub", GitHubStatusChannel("acme/platform", secret(tmp_path), server.url))
        notices, _ = await told(receiver, SETTLED, SETTLED, count=2, server=server)
    assert notices == [
        f"hub: not delivered: the receiver answered with status {status}; check the receiver"
    ]  # once, however many were refused
    assert len(server.got) == 2


async def test_nothing_is_signed_with_an_empty_secret(tmp_path: Path) -> None:
    """A signature made with an empty key proves nothing, so the receiver gets no message and the notice says what to do."""
    async with Receiving([(200, {})]).serving() as server:
        receiver = Receiver("team", Webhook(server.url, secret(tmp_path, "\nsecond line")))
        notices, _ = await told(receiver, SETTLED, count=0, server=server)
    assert server.got == []
    assert notices[0].startswith("team: ")
    assert "the secret file is empty; write the secret into its first line" in notices[0], notices


@dataclass
class Answering:
    """A receiver that says nothing over the wire: how it answers is found by what is brought, and when."""

    by: Callable[[dict[str, str], datetime], DeliveryAnswer]
    clock: StillClock = field(default_factory=StillClock)
    got: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    async def post(self, request: OutgoingRequest) -> DeliveryAnswer:
        body = json.loads(request.body)
        answer = self.by(body, self.clock.now())
        if answer.is_accepted:
            self.got.append(body["message"])
        return answer

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[Delivery]:
        delivery = Delivery("c", self.clock, lambda _, text: self.notices.append(text), self.post)
        delivery.configure([Receiver("team", Webhook("http://127.0.0.1:1/x", Path(__file__)), frozenset({"Settled"}))])
        yield delivery
        await delivery.finish(20)


def said(message: str) -> Transition:
    return replace(SETTLED, message=message)


DOWN = DeliveryAnswer(0, error="the connection failed (ClientConnectorError)")


async def test_what_a_receiver_misses_for_half_an_hour_it_hears_in_order_and_once() -> None:
    answering = Answering(
        lambda _, now: DeliveryAnswer(500) if now < START + timedelta(minutes=30) else DeliveryAnswer(200)
    )
    async with answering.delivering() as delivery:
        delivery.enqueue([said("one"), said("two")])
        delivery.enqueue([said("three")])
    assert answering.got == ["one", "two", "three"]
    assert answering.notices == [
        "team: the receiver answered with status 500; check the receiver; "
        "Levelgate sends pending messages again until they are 1h old",
        "team: the receiver accepts messages again",
    ]


async def test_what_nobody_took_for_an_hour_is_lost_and_counted() -> None:
    answering = Answering(lambda _, now: DOWN if now < START + timedelta(hours=2) else DeliveryAnswer(200))
    async with answering.delivering() as delivery:
        delivery.enqueue([said("one"), said("two")])
        await until(lambda: answering.clock.now() > START + timedelta(hours=1))
        await delivery._queues["team"].idle.wait()
        answering.clock.moment = START + timedelta(hours=3)
        delivery.enqueue([said("three")])
    assert answering.got == ["three"]
    assert answering.notices == [
        f"team: {DOWN.error}; Levelgate sends pending messages again until they are 1h old",
        f"team: not delivered: {DOWN.error}",
        "team: the receiver accepts messages again; 2 messages lost",
    ]


async def test_a_message_that_it_cannot_take_holds_up_no_other_for_long() -> None:
    answering = Answering(lambda body, _: DeliveryAnswer(500) if body["message"] == "poison" else DeliveryAnswer(200))
    async with answering.delivering() as delivery:
        delivery.enqueue([said("poison"), said("two"), said("three")])
    assert answering.got == ["two", "three"]
    assert answering.clock.now() - START < timedelta(minutes=1)
    assert answering.notices[-1] == "team: the receiver accepts messages again; 1 message lost"


async def test_a_fault_of_our_own_costs_one_message_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    faults = {"poison": KeyError("secret-of-ours")}

    def by(body: dict[str, str], _: datetime) -> DeliveryAnswer:
        if fault := faults.get(body["message"]):
            raise fault
        return DeliveryAnswer(200)

    answering = Answering(by)
    async with answering.delivering() as delivery:
        delivery.enqueue([said("poison"), said("two")])
    assert answering.got == ["two"]
    assert answering.notices == [
        "team: not delivered because of a fault of Levelgate (KeyError); report the fault with the log",
        "team: the receiver accepts messages again; 1 message lost",
    ]
    assert "Traceback" in caplog.text  # for who mends it


async def test_at_the_end_what_is_under_way_is_brought_and_the_rest_is_told() -> None:
    hangs = asyncio.Event()
    notices: list[str] = []
    got: list[bytes] = []

    async def post(request: OutgoingRequest) -> DeliveryAnswer:
        if request.url.endswith("hangs"):
            await hangs.wait()
        got.append(request.body)
        return DeliveryAnswer(200)

    delivery = Delivery("c", StillClock(), lambda _, text: notices.append(text), post)
    delivery.configure(
        [Receiver(name, Webhook(f"http://127.0.0.1:1/{name}", Path(__file__))) for name in ("a", "hangs")]
    )
    delivery.enqueue([SETTLED, SETTLED])
    await delivery.finish(0.2)
    assert len(got) == 2
    assert notices == ["hangs: the process ends with 2 messages not delivered"]


async def test_nothing_waits_for_a_receiver_and_its_queue_is_bounded() -> None:
    """I11: `take` returns at once, the oldest go."""
    closed = asyncio.Event()

    async def post(_request: OutgoingRequest) -> DeliveryAnswer:
        await closed.wait()
        return DeliveryAnswer(200)

    notices: list[str] = []
    delivery = Delivery("c", StillClock(), lambda _, text: notices.append(text), post)
    delivery.configure([Receiver("team", Webhook("http://127.0.0.1:1/x", Path(__file__)))])
    delivery.enqueue([SETTLED] * (MAX_QUEUE_LENGTH + 50))
    assert len(delivery._queues["team"].waiting) == MAX_QUEUE_LENGTH
    assert notices == [f"team: more than {MAX_QUEUE_LENGTH} messages wait; Levelgate drops the oldest"]
    closed.set()
    await delivery.finish(20)
    assert notices[1:] == ["team: the receiver accepts messages again; 50 messages lost"]


def test_who_wants_what() -> None:
    one = Receiver("a", Slack(Path("x")))
    instance = Transition(EventReason.SETTLED, "", FAILED.key, "g.test/v1", "u", "platform", COMMIT)
    approval = Transition(
        EventReason.BLOCKED, "", FAILED.key, "g.test/v1", "u", "platform", COMMIT, Reason.APPROVAL_REQUIRED
    )
    assert [one.wants(transition) for transition in (SETTLED, FAILED, approval, instance)] == [True, True, True, False]
    assert not Receiver("a", Slack(Path("x")), sources=frozenset({"shop"})).wants(SETTLED)
    assert Receiver("a", Slack(Path("x")), events=frozenset({"Settled"})).wants(instance)


@pytest.mark.parametrize(
    "template", ["{message.__class__}", "{0}", "{message!r}", "{message:>9}", "{secret}", "{", " "]
)
def test_a_template_names_fields_and_nothing_of_their_insides(template: str) -> None:
    assert find_template_mistake(template)
    assert not find_template_mistake("{word} of {object}: {message} {{x}}")


def test_the_configuration_says_who_is_told(tmp_path: Path) -> None:
    secret(tmp_path)
    file = tmp_path / "levelgate.yaml"
    head = (
        "apiVersion: levelgate.dev/v1alpha1\nkind: Config\nsources:\n- {name: a, url: https://git.example.com/a.git}\n"
    )
    file.write_text(
        head
        + """notifications:
- name: team
  webhook: {url: "https://example.com/hook", secretFile: secret}
  events: [Halted]
- name: hub
  github: {repository: acme/a, tokenFile: secret}
  sources: [a]
"""
    )
    team, hub = read_config(file).notifications
    assert team.channel == Webhook("https://example.com/hook", tmp_path / "secret")
    assert hub.channel == GitHubStatusChannel("acme/a", tmp_path / "secret")
    assert (team.events, hub.sources) == (frozenset({"Halted"}), frozenset({"a"}))
    for wrong, why in (
        ("{name: x}", "exactly one of webhook, slack"),
        ("{name: x, slack: {urlFile: nowhere}}", "does not exist; relative"),
        (
            "{name: x, slack: {urlFile: secret}, template: '{x}'}",
            "names {x}; write only the fields {cluster}",
        ),
        ("{name: x, slack: {urlFile: secret}, events: [Everything]}", "events"),
        ("{name: x, webhook: {url: 'https://me:pw@example.com/', secretFile: secret}}", "holds a credential"),
    ):
        file.write_text(f"{head}notifications:\n- {wrong}\n")
        with pytest.raises(ConfigErrors, match=why.replace("{", r"\{")):
            read_config(file)


def test_a_restart_tells_nothing_again() -> None:
    """By the records: what they said already is no transition."""
    with LinkPlatform(names=("a",)) as fleet:
        heard: list[Transition] = []
        fleet.reconciler.on_transitions = heard.extend
        fleet.deploy()
        assert [one.event_reason for one in heard if one.is_of_source].count(EventReason.SETTLED) == 1
        heard.clear()
        fleet.restart()
        fleet.reconciler.on_transitions = heard.extend
        fleet.step()
        assert heard == []


def test_healing_does_not_make_a_settled_commit_pending(tmp_path: Path) -> None:
    """What was put right is told to people; the status of a commit follows how all of its source is."""
    hub = Receiver("hub", GitHubStatusChannel("acme/platform", secret(tmp_path)))
    with LinkPlatform(names=("a",), plain={"plain": PLAIN}) as fleet:
        heard: list[Transition] = []
        fleet.reconciler.on_transitions = heard.extend
        fleet.deploy()
        assert heard[-1].event_reason is EventReason.SETTLED
        fleet.request("DELETE", f"{CONFIG_MAPS}/plain")
        fleet.step()
        assert heard[-1].message == "ConfigMap/plain created"
    verdicts = [
        json.loads(hub.build_request(Message.from_transition(one), "prod", START).body)["state"]
        for one in heard
        if hub.wants(one)
    ]
    assert verdicts[0] == "pending"
    assert verdicts[-1] == "success"


def test_a_failure_is_not_followed_by_a_pending_of_the_same_pass(tmp_path: Path) -> None:
    hub = Receiver("hub", GitHubStatusChannel("acme/platform", secret(tmp_path)))
    with LinkPlatform(names=("a",)) as fleet:
        heard: list[Transition] = []
        fleet.reconciler.on_transitions = heard.extend
        fleet.written = {"a": {"text": 7}}
        fleet.push()
        fleet.step()
    verdicts = [
        json.loads(hub.build_request(Message.from_transition(one), "prod", START).body)["state"]
        for one in heard
        if hub.wants(one)
    ]
    assert verdicts
    assert verdicts[-1] == "failure"

"""What happens alike to many instances is one message (docs/configuration.md, "Tell others what has changed")."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from applier.causes import EventReason, Reason
from gitops.notifications import Delivery, Receiver, Webhook
from gitops.notifications.delivery import DeliveryAnswer
from gitops.notifications.messages import MAX_INSTANCES_PER_MESSAGE, group_transitions
from gitops.notifications.receivers import OutgoingRequest
from gitops.records.transitions import MAX_TRANSITIONS, Transition, limit_transitions
from renderer.identity import ObjectKey, source_parent
from tests.support.clock import StillClock


def failed(name: str, **more: object) -> Transition:
    key = ObjectKey("g.test", "Link", "prod", name)
    told = Transition(Reason.APPLY_FAILED, "quota is used up", key, "g.test/v1", "u", "platform", "9c1d2e7")
    return replace(told, **more)  # type: ignore[arg-type]


def test_alike_is_one_message_that_counts_and_names_the_first() -> None:
    (one,) = group_transitions(failed(name) for name in "abcdb")
    assert one.object == "4 instances: Link.g.test/prod/a, Link.g.test/prod/b, Link.g.test/prod/c and 1 more"
    assert one.text == "quota is used up"
    (one,) = group_transitions([failed("a")])
    assert one.object == "Link.g.test/prod/a"
    (one,) = group_transitions([failed("a"), failed("b", message="no such field"), failed("c")])
    assert one.text == "quota is used up (message of the first object)"


@pytest.mark.parametrize(
    "other",
    [
        {"event_reason": Reason.UNHEALTHY},
        {"commit": "4e01b7a"},
        {"source": "shop"},
        {"event_reason": EventReason.BLOCKED, "reason": Reason.HELD},
        {"key": ObjectKey("g.test", "Queue", "prod", "b")},
        {"others_count": 5},
    ],
)
def test_what_differs_stays_apart(other: dict[str, object]) -> None:
    found = group_transitions([failed("a"), failed("b", **other), failed("c")])
    assert [len(one.keys) for one in found] == [2, 1]


def test_what_a_source_says_of_itself_is_told_one_by_one() -> None:
    assert len(group_transitions([failed("a", key=source_parent("platform"))] * 3)) == 3


def test_a_message_is_bounded() -> None:
    assert [
        len(one.keys)
        for one in group_transitions(failed(str(number)) for number in range(MAX_INSTANCES_PER_MESSAGE + 2))
    ] == [MAX_INSTANCES_PER_MESSAGE, 2]
    told = limit_transitions(failed(str(number)) for number in range(MAX_TRANSITIONS + 7))
    assert [one.first.others_count for one in group_transitions(told)] == [0, 6]


async def test_what_follows_while_others_wait_joins_them() -> None:
    """Passes over parts tell one instance each: a receiver that is slower than they are gets few messages, and nothing twice."""
    sent: list[bytes] = []
    go = asyncio.Event()

    async def post(request: OutgoingRequest) -> DeliveryAnswer:
        sent.append(request.body)
        await go.wait()
        return DeliveryAnswer(200)

    delivery = Delivery("c", StillClock(), lambda _, text: None, post)
    delivery.configure([Receiver("team", Webhook("http://127.0.0.1:1/x", Path(__file__)), template="{object}")])
    for number in range(100):
        delivery.enqueue([failed(f"i{number}")])
        await asyncio.sleep(0)
    go.set()
    await delivery.finish(20)
    assert len(sent) == 3
    assert all(b"".join(sent).count(f'prod/i{number}"'.encode()) >= 1 for number in range(100))

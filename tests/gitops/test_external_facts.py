"""External facts: asked for at a real server on loopback, known for a time, and what gates make of them (docs/configuration.md)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from gitops.external_facts import ExternalFactPoller, ExternalFactSource, FactUnavailable, request_fact
from gitops.gates.evaluate import ExternalFact
from tests.support.clock import StillClock
from tests.support.external_server import MINUTE, ExternalServer
from tests.support.link_platform import LinkPlatform


@pytest.mark.parametrize(
    ("text", "answer"), [("true", True), (" true\r\n", True), ("false", False), ("True", False), ("", False)]
)
async def test_it_is_so_where_the_server_says_the_expected_text(text: str, answer: bool) -> None:
    async with ExternalServer(text).serving() as server:
        assert await request_fact(server.external()) is answer


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (ExternalServer(status=500), "the server answered with status 500, not 200"),
        (ExternalServer(status=204, text=""), "the server answered with status 204, not 200"),
        (ExternalServer(status=302, headers={"Location": "/ok"}), "the server answered with status 302, not 200"),
        (ExternalServer(text="x" * 70_000), "the answer is larger than 64 KiB"),
    ],
)
async def test_anything_else_is_no_answer(server: ExternalServer, why: str) -> None:
    async with server.serving():
        with pytest.raises(FactUnavailable) as error:
            await request_fact(server.external())
        assert (str(error.value), server.asked) == (why, 1)


async def test_a_server_that_hangs_or_is_gone_is_no_answer() -> None:
    async with ExternalServer(hangs=True).serving() as server:
        with pytest.raises(FactUnavailable, match=r"no answer within 50ms"):
            await request_fact(server.external(timeout=timedelta(milliseconds=50)))
    with pytest.raises(FactUnavailable, match=r"cannot connect to 127\.0\.0\.1:[0-9]+"):
        await request_fact(server.external())


async def test_an_answer_counts_until_it_is_too_old() -> None:
    """S1-5: what is not known is closed, with why."""
    clock = StillClock()
    externals = ExternalFactPoller(clock)
    async with ExternalServer().serving() as server:
        budget = server.external()
        externals.declare([budget])
        assert externals.facts(clock.now()) == {"budget": ExternalFact(None, "not asked yet")}
        assert await externals.request_fact(budget)
        assert not await externals.request_fact(budget)
        server.status = 503
        clock.moment += MINUTE
        assert not await externals.request_fact(budget)
        assert externals.facts(clock.now()) == {"budget": ExternalFact(True)}
        clock.moment += timedelta(seconds=1)
        why = "the last answer is 1m1s old, more than 1m; since then: the server answered with status 503, not 200"
        assert externals.facts(clock.now()) == {"budget": ExternalFact(None, why)}
        server.status, server.text = 200, "false"
        assert await externals.request_fact(budget)
        assert externals.facts(clock.now()) == {"budget": ExternalFact(False)}
        earlier = ExternalFact(None, "the time of the last answer is 1h ahead, because the clock has moved back")
        assert externals.facts(clock.now() - timedelta(hours=1))["budget"] == earlier


async def test_what_is_declared_otherwise_is_asked_anew() -> None:
    clock = StillClock()
    externals = ExternalFactPoller(clock)
    async with ExternalServer().serving() as server:
        budget, other = server.external(), server.external(name="other")
        externals.declare([budget, other])
        await externals.request_fact(budget)
        await externals.request_fact(other)
        externals.declare([ExternalFactSource("budget", server.url, "yes", MINUTE), other])
        assert externals.facts(clock.now()) == {
            "budget": ExternalFact(None, "not asked yet"),
            "other": ExternalFact(True),
        }
        assert not await externals.request_fact(budget), "an answer to what is not asked any more"
        assert externals.facts(clock.now())["budget"] == ExternalFact(None, "not asked yet")


# ---- in whole passes


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b"), gates=['${external("budget")}']) as found:
        yield found


def knowing(fleet: LinkPlatform, **answers: bool | None) -> None:
    """A process whose configuration declares these facts, which are as they are."""
    known = {
        name: ExternalFact(answer, "" if answer is not None else "not asked yet") for name, answer in answers.items()
    }
    fleet.restart(facts=lambda _: known)


def test_a_fact_that_is_so_lets_instances_move(fleet: LinkPlatform) -> None:
    knowing(fleet, budget=True)
    fleet.start()
    fleet.push("two")
    knowing(fleet, budget=False)
    fleet.step()
    assert fleet.at("two") == []
    reason, message = fleet.propagated("a")
    assert reason == "GateClosed"
    assert message.endswith('external("budget") = false')
    knowing(fleet, budget=None)
    fleet.step()
    assert fleet.at("two") == []
    assert fleet.propagated("a")[1].endswith('external("budget") = unknown (not asked yet)')
    knowing(fleet, budget=True)
    fleet.step()
    assert fleet.at("two") == ["a"]


def test_a_fact_that_the_configuration_does_not_declare_is_the_author_s_mistake(fleet: LinkPlatform) -> None:
    knowing(fleet, budget=True)
    fleet.start()
    fleet.push("two")
    knowing(fleet, budgets=True)
    fleet.step()
    assert fleet.at("two") == []
    reason, message = fleet.propagated("a")
    assert reason == "GateError"
    assert message.endswith("external fact 'budget' is not declared; declare it under `externals` in levelgate.yaml")


def test_a_gate_of_one_resource_reads_facts_too() -> None:
    with LinkPlatform(names=("a",), node_gates=['${external("budget")}']) as fleet:
        knowing(fleet, budget=True)
        fleet.start()
        fleet.push("two")
        knowing(fleet, budget=None)
        fleet.step()
        assert fleet.at("two") == []
        knowing(fleet, budget=True)
        fleet.step()
        assert fleet.at("two") == ["a"]

"""Alive and ready (S4-14), and where they are answered: what a probe of Kubernetes sees."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from applier.cluster import parse_cluster_name
from gitops.reconcile.tally import StateCounts
from gitops.server.monitor import (
    FIRST_SYNC_TIMEOUT_SECONDS,
    STUCK_PASS_SECONDS,
    Monitor,
    PassLine,
    ProbeResult,
    check_liveness,
    check_readiness,
)
from tests.support.clock import START, StillClock
from tests.support.monitoring.scene import scene


@dataclass
class Seconds:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def monitor(*, leads: bool = True, unread: tuple[str, ...] = (), number: int = 1) -> tuple[Monitor, Seconds]:
    elapsed = Seconds()
    made = Monitor(
        parse_cluster_name("prod-eu"),
        "0.1.0",
        StillClock(),
        elapsed,
        lambda: leads,
        lambda: list(unread),
    )
    if number:
        made.passes.append(PassLine(START, 1.0, {}, StateCounts({})))
    return made, elapsed


def test_a_pass_that_does_not_end_is_not_alive() -> None:
    watched, elapsed = monitor()
    with watched.stage("pass"):
        elapsed.now = STUCK_PASS_SECONDS
        assert check_liveness(watched).is_ok
        elapsed.now += 1
        assert check_liveness(watched) == ProbeResult(
            False, "a reconciliation has lasted for 901s, longer than 900s: it is stuck"
        )
    assert check_liveness(watched).is_ok


def test_other_stages_are_no_passes() -> None:
    watched, elapsed = monitor()
    with watched.stage("fetch"):
        elapsed.now = 10 * STUCK_PASS_SECONDS
        assert check_liveness(watched).is_ok


def test_whoever_leads_is_ready_after_its_first_pass() -> None:
    """S4-14."""
    assert check_readiness(monitor(number=0)[0]) == ProbeResult(False, "the first reconciliation has not ended yet")
    assert check_readiness(monitor()[0]) == ProbeResult(True, "ok")


def test_a_source_that_was_never_read_is_waited_for_no_longer_than_its_time() -> None:
    """S4-14: others do not wait for it for ever."""
    watched, elapsed = monitor(unread=("shop",))
    with watched.stage("pass"):
        pass
    elapsed.now = FIRST_SYNC_TIMEOUT_SECONDS - 1
    assert check_readiness(watched) == ProbeResult(False, "not read yet: shop")
    elapsed.now = FIRST_SYNC_TIMEOUT_SECONDS
    assert check_readiness(watched) == ProbeResult(True, "ok, but not read yet: shop")


def test_a_replica_that_stands_by_is_ready_to_take_the_lead() -> None:
    watched, _ = monitor(leads=False, number=0)
    assert check_readiness(watched) == ProbeResult(False, "cluster prod-eu does not report a leader yet")
    watched.stands_by = lambda: True
    assert check_readiness(watched) == ProbeResult(True, "standing by: another replica leads")


def test_it_says_what_the_first_pass_waits_for() -> None:
    watched, _ = monitor(unread=("platform", "shop"), number=0)
    assert (
        check_readiness(watched).message == "the first reconciliation has not ended yet; not read yet: platform, shop"
    )


@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/readyz", 503)])
async def test_probes_before_the_first_pass(path: str, status: int) -> None:
    async with scene() as seen, seen.client() as client:
        assert (await client.get(path)).status == status

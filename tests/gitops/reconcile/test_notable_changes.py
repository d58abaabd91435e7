"""What a person who watches `levelgate run` hears between two passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from applier.causes import Reason
from gitops.cli.progress import format_counts, format_rollout
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.notable_changes import (
    InstanceSettled,
    InstancesFailed,
    InstancesHeld,
    ProblemFound,
    RolloutHalted,
    WaveSettled,
    WindowOverridden,
    news,
)
from gitops.reconcile.tally import StateCounts
from gitops.rollouts.state import WaveProgress
from renderer.identity import ObjectKey
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.windows.calendars import HOURS, SATURDAY

ROLLOUT = f"links.{GROUP}"
CANARY = {"name": "canary", "selector": {"matchLabels": {"tier": "canary"}}}
PROD = {"name": "prod", "selector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}}


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    with LinkPlatform(names=("a", "b", "c"), written={"a": {"metadata": {"labels": {"tier": "canary"}}}}) as found:
        found.start(webapps={"waves": [CANARY, PROD]})
        yield found


def heard(
    fleet: LinkPlatform, before: ReconcileResult, after: timedelta = timedelta()
) -> tuple[ReconcileResult, list[object]]:
    found = fleet.step(after)
    return found, list(news(before, found))


def test_an_instance_that_settles_and_the_wave_that_is_over_with_it(fleet: LinkPlatform) -> None:
    """surface 4.2: "wave canary settled, 1 of 1; wave prod starts". Said once."""
    fleet.push("two")
    first = fleet.step()
    assert list(news(fleet.step(), first)) == []
    fleet.ready("a")
    second, told = heard(fleet, first)
    over = told.pop()
    assert [one.instance.name for one in told if isinstance(one, InstanceSettled)] == ["a"]
    assert isinstance(over, WaveSettled)
    assert (over.rollout, over.wave.name, over.following) == (ROLLOUT, "canary", "prod")
    assert heard(fleet, second)[1] == []


def test_what_a_window_holds_is_told_once_for_all_that_it_holds(fleet: LinkPlatform) -> None:
    before = fleet.step()
    fleet.clock.moment = SATURDAY
    fleet.push("two", hours=HOURS)
    first, told = heard(fleet, before)
    (held,) = told
    assert isinstance(held, InstancesHeld)
    assert [key.name for key in held.instances] == ["a", "b", "c"]
    assert held.cause.message.startswith("waits for window hours (CHG-1), opens 2026-11-23T08:00Z")
    assert heard(fleet, first, timedelta(hours=1))[1] == []
    assert (
        str(StateCounts.of_all(first.ledger))
        == "settled 1, progressing 0, waiting 0, held 3 (until 2026-11-23T08:00:00Z), failed 0"
    )


def test_a_node_at_a_closed_gate_is_told_by_itself(fleet: LinkPlatform) -> None:
    fleet.node_gates = ["${external('go')}"]
    before = fleet.step()
    fleet.push("two")
    (held,) = heard(fleet, before)[1]
    assert isinstance(held, InstancesHeld)
    assert ([key.name for key in held.instances], held.node) == (["a"], "app")


def test_a_halt(fleet: LinkPlatform) -> None:
    fleet.push("two")
    before = fleet.step()
    _, told = heard(fleet, before, timedelta(minutes=11))
    assert RolloutHalted(ROLLOUT, "r2", "1 of 1 items failed in wave canary, more than the limit of 0") in told
    assert not [one for one in told if isinstance(one, WaveSettled)]


@pytest.mark.parametrize("waves", [(), (WaveProgress("canary", "Exponential", 0, 0, 0, 0, 0),)])
def test_a_rollout_without_instances_has_no_wave_to_tell(fleet: LinkPlatform, waves: tuple[WaveProgress, ...]) -> None:
    """Its record outlives its last instance, such as one whose CRD somebody deleted."""
    before = fleet.step()
    states = {name: replace(state, waves=waves) for name, state in before.propagation.states.items()}
    assert states
    assert list(news(before, replace(before, propagation=replace(before.propagation, states=states)))) == []


def test_a_file_that_cannot_be_taken_is_told_once(fleet: LinkPlatform) -> None:
    """S1-23, design 6.10: whoever reads the log of a daemon hears of it."""
    before = fleet.step()
    fleet.plain["broken"] = {"apiVersion": "v1"}
    fleet.push("one")
    first, told = heard(fleet, before)
    assert told == [ProblemFound("platform", next(str(one) for one in first.problems))]
    assert "broken.json" in str(told)
    assert heard(fleet, first)[1] == []


def test_instances_that_cannot_be_rendered_are_told_once_for_the_same_reason() -> None:
    """Design 6.10: no write tells it, as there is none."""
    data = {"number": "${string(int(schema.spec.text))}"}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.metadata.name}"}, "data": data}
    with LinkPlatform(names=("a", "b"), more=[{"id": "count", "template": manifest}]) as fleet:
        fleet.push("one")
        first, told = heard(fleet, fleet.step())
        (failed,) = [one for one in told if isinstance(one, InstancesFailed)]
        assert ([key.name for key in failed.instances], failed.node) == (["a", "b"], "count")
        assert (failed.cause.reason, "'one' is not an int" in failed.cause.message) == (Reason.RENDER_FAILED, True)
        assert not [one for one in heard(fleet, first)[1] if isinstance(one, InstancesFailed)]


def test_what_a_write_has_told_is_not_told_again(fleet: LinkPlatform) -> None:
    before = fleet.step()
    fleet.plain["there"] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x y", "namespace": "default"}}
    fleet.push("one")
    found, told = heard(fleet, before)
    assert [one.error for one in found.results if one.error]
    assert not [one for one in told if isinstance(one, InstancesFailed)]


def test_what_goes_past_a_window_is_told(fleet: LinkPlatform) -> None:
    """windows 3.3.14: by whom, why, and what is written because of it."""
    fleet.clock.moment = SATURDAY
    fleet.push("two", hours=HOURS)
    before = fleet.step()
    until = (SATURDAY + timedelta(hours=1)).isoformat()
    fleet.annotate("a", break_glass_reason="INC-7", break_glass_until=until)
    first, told = heard(fleet, before)
    past = [one.decision for one in told if isinstance(one, WindowOverridden)]
    assert {(one.by, one.why) for one in past} == {("kubectl-annotate", "INC-7")}
    assert "update Deployment.apps/default/a-app bypassing window hours (CHG-1)" in {one.subject for one in past}
    assert not [one for one in heard(fleet, first)[1] if isinstance(one, WindowOverridden)]


def test_the_lines_at_the_bottom(fleet: LinkPlatform) -> None:
    """surface 4.2: one sign for each instance; nothing of a rollout that is over."""
    fleet.push("two")
    fleet.move("two", except_for=["b"])
    found = fleet.step()
    state = found.propagation.states[ROLLOUT]
    assert (
        format_rollout(ROLLOUT, state)
        == f"{ROLLOUT} r2  canary [#] 1/1  prod [>.] 0/2 settled, 1 progressing, 1 waiting"
    )
    assert (
        format_counts(StateCounts.of_all(found.ledger))
        == "[#####...............] 1/4 settled, 2 progressing, 1 waiting"
    )
    fleet.move("two")
    assert format_rollout(ROLLOUT, fleet.step().propagation.states[ROLLOUT]) == ""


def test_what_a_part_has_found_is_told_by_it_and_by_nobody_after_it(fleet: LinkPlatform) -> None:
    """The ledger of everything goes on under it: what it moved is kept apart, for else it would be compared with itself."""
    fleet.push("two")
    fleet.settle()
    fleet.ready("a")
    fleet.settle()
    before = fleet.step()
    fleet.ready("b")
    found = fleet.call(fleet.reconciler.reconcile_roots([ObjectKey(GROUP, "Link", "default", "b")]))
    assert isinstance(found, ReconcileResult)
    assert list(news(before, found)) == [InstanceSettled(ObjectKey(GROUP, "Link", "default", "b"))]
    _, told = heard(fleet, found)
    assert [one for one in told if isinstance(one, InstanceSettled)] == []

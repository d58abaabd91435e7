"""Reconciliations of parts tell what reconciliations of everything tell, whatever is rolled out, under whatever rules."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from applier.sandbox.storage.store import StoredObject
from gitops.reconcile.incremental.scope import WidenScope
from gitops.reconcile.reconciler import Reconciler
from gitops.simulate.assumptions import Assumptions
from gitops.simulate.engine import CommitPush, Simulation
from gitops.simulate.timeline_json import as_json
from gitops.windows.window import LOCAL
from tests.support.clock import START
from tests.support.link_platform import LinkPlatform
from tests.support.properties.examples import examples

NAMES = ("a", "b", "c")
HOURS = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 9 * * 1-5"}, "until": "15:00"}
WAVES = [{"name": "first", "selector": {"matchLabels": {"tier": "canary"}}}]
IN_HOURS = ['${inWindow("hours")}']
SETTLED = ["${links.filter(l, l.settled()).size() != 1}"]
policies = st.fixed_dictionaries(
    {},
    optional={
        "shape": st.sampled_from([{"linear": {"n": 1}}, {"linear": {"n": 3}}, {"exponential": {}}]),
        "bake": st.sampled_from(["10m", "3h"]),
        "onHalt": st.sampled_from(["Stop", "RollBack"]),
        "onNewRevision": st.sampled_from(["Finish", "Supersede", "Pipeline"]),
        "barrier": st.sampled_from(["Level", "All"]),
        "governs": st.just("All"),
        "waves": st.just(WAVES),
        "approvals": st.just([{"after": {"settled": 1}, "by": ["leads"]}]),
    },
)


@examples(4)
@example(
    {"shape": {"linear": {"n": 1}}, "waves": WAVES}, {**HOURS, "until": "12:06"}, {}, "ready=4m", timedelta(hours=1), ""
)
@example({"bake": "10m"}, None, {"gates": SETTLED}, "ready=1m..9m", timedelta(minutes=5), "")
@example(
    {"governs": "All", "waves": WAVES},
    {**HOURS, "until": "12:06"},
    {"gates": SETTLED},
    "ready=4m",
    timedelta(minutes=1),
    "d",
)
@given(
    policy=policies,
    hours=st.sampled_from([None, HOURS, {**HOURS, "until": "12:06"}, {**HOURS, "kind": "Deny"}]),
    gates=st.sampled_from([{}, {"gates": SETTLED}, {"gates": IN_HOURS}, {"node_gates": IN_HOURS}]),
    assume=st.sampled_from(["ready=4m", "ready=1m..9m", "ready=1m..40m", "fail=b", "hang=c"]),
    later=st.sampled_from([timedelta(minutes=5), timedelta(hours=1)]),
    newcomer=st.sampled_from(["", "d"]),
)
def test_passes_over_parts_tell_what_passes_over_everything_tell(
    policy: dict[str, Any],
    hours: dict[str, Any] | None,
    gates: dict[str, Any],
    assume: str,
    later: timedelta,
    newcomer: str,
) -> None:
    """2.2, I5: who moves when, what holds it, and with which words. Only whose write comes first at one moment may differ."""

    async def refused(self: Reconciler, roots: object) -> WidenScope:
        return WidenScope("everything is looked at")

    _, told = simulated(policy, hours, gates, assume, later, newcomer)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Reconciler, "reconcile_roots", refused)
        assert simulated(policy, hours, gates, assume, later, newcomer)[1] == told


def simulated(
    policy: dict[str, Any],
    hours: dict[str, Any] | None,
    gates: dict[str, Any],
    assume: str,
    later: timedelta,
    newcomer: str = "",
) -> tuple[list[StoredObject], bytes]:
    """All objects and the timeline; the second commit brings the newcomer."""
    canary = {"metadata": {"labels": {"tier": "canary"}}}
    fleet = LinkPlatform(names=NAMES, **gates, written={newcomer or "a": canary})
    fleet.push(hours=hours, pace=policy)
    simulation, base = Simulation(START, Assumptions.parse(assume), "0", LOCAL), fleet.state
    pushes = []
    for image, at in (("two", START), ("three", START + later)):
        fleet.names = NAMES if image == "two" else (*NAMES, *newcomer)
        fleet.push(image)
        pushes.append(CommitPush(at, fleet.state, image))
    asyncio.run(simulation.run(base, pushes, START + timedelta(days=3)))
    store = simulation.world.sandbox.state.store
    stored = [one for name in sorted(store.resources()) for one in store.resource_store(name).objects.values()]
    found = as_json(simulation.timeline(), assumptions=assume, seed=0)
    found["events"].sort(key=lambda one: (one["at"], one["kind"], one["who"], one["message"]))
    return stored, orjson.dumps(found)

"""Cost of a simulation of two weeks with windows: `python -m bench.simulation`.

Figures are seconds of CPU of one run.
"""

from __future__ import annotations

import asyncio
import gc
import time
from datetime import timedelta

from gitops.cli import GC_THRESHOLD
from gitops.simulate.assumptions import Assumptions
from gitops.simulate.engine import CommitPush, Simulation
from gitops.windows.window import LOCAL
from tests.support.clock import START
from tests.support.link_platform import LinkPlatform

INSTANCES, NODES = 100, 10
HOURS = {"kind": "Allow", "timeZone": "UTC", "schedule": {"cron": "0 9 * * 1-5"}, "until": "11:00"}
PACE = {"shape": {"linear": {"n": 6}}, "bake": "1h"}


def main() -> None:
    gc.set_threshold(GC_THRESHOLD)  # as the command does
    fleet = fleet_of(INSTANCES, NODES)
    fleet.push(hours=HOURS, pace=PACE)
    base = fleet.state
    fleet.push("two")
    simulation = Simulation(START, Assumptions.parse("ready=5m"), "0", LOCAL)
    begun = time.process_time()
    asyncio.run(simulation.run(base, [CommitPush(START, fleet.state, "")], START + timedelta(days=14)))
    taken = time.process_time() - begun
    found = simulation.timeline()
    assert found.counts["settled"] == INSTANCES, found.counts
    days = (found.ends - found.begins) / timedelta(days=1)
    print(f"{'simulation':<44} {'seconds of CPU':>14} {'days':>6}")
    print(f"{f'{INSTANCES} instances of {NODES} nodes':<44} {taken:>14.1f} {days:>6.1f}")


def fleet_of(instances: int, nodes: int) -> LinkPlatform:
    """Return a platform of instances, each with a Deployment and with ConfigMaps that follow the Deployment."""
    more = [
        {
            "id": f"more{number}",
            "template": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"${{app.metadata.name}}-{number}"},
                "data": {"image": "IMAGE"},
            },
        }
        for number in range(nodes - 2)
    ]
    return LinkPlatform(names=tuple(f"i{number:03}" for number in range(instances)), more=more)


if __name__ == "__main__":
    main()

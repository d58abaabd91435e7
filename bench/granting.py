"""Cost of one readiness event for the whole program, among many instances and among few.

Usage: `python -m bench.granting`.

The instances move one at a time, on the sandbox in this process. When an instance is ready, the program reconciles the
instance, lets the next instance move, and writes it, as the daemon does. Figures are seconds of CPU without the answers
of the sandbox, the least of several runs. Ratios near 1 mean that the cost does not grow with the fleet. For
comparison, the bench also prints the cost of a full pass.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.wire import Request, Response
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.reconciler import Reconciler
from gitops.windows.window import LOCAL
from renderer.identity import ObjectKey
from tests.support.link_platform import GROUP, LinkPlatform

FEW, MANY, EVENTS = 100, 1_000, 12
ONE_BY_ONE = {"shape": {"linear": {"n": 1}}}


def main() -> None:
    costs = [_under_way(size) for size in (FEW, MANY)]
    print(f"{'one instance gets ready, the next moves':<44} {FEW:>9,} {MANY:>9,} {'ratio':>8}")
    labels = ("seconds", "requests", "seconds of a pass over everything", "requests of a pass over everything")
    for label, few, many in zip(labels, *costs, strict=True):
        print(f"{label:<44} {few:>9.4g} {many:>9.4g} {many / few:>8.2f}")


@dataclass
class Meter:
    """Meter of the requests to the sandbox and of the CPU of this process, both since the last `read`."""

    fleet: LinkPlatform
    requests: int = 0
    answering: float = 0.0
    begun: float = 0.0

    async def door(self, request: Request) -> Response:
        begun = time.process_time()
        response = await self.fleet.sandbox.answer(request)
        self.answering += time.process_time() - begun
        self.requests += 1
        return response

    def read(self) -> tuple[float, int]:
        now = time.process_time()
        found = now - self.begun - self.answering, self.requests
        self.requests, self.answering, self.begun = 0, 0.0, time.process_time()
        return found


def _under_way(size: int) -> tuple[float, int, float, int]:
    with LinkPlatform(names=tuple(f"n{number:04}" for number in range(size))) as fleet:
        fleet.start(paced=ONE_BY_ONE)
        fleet.push("two")
        meter = Meter(fleet)
        fleet.reconciler = Reconciler(cluster_of(meter.door), "0", fleet.clock, LOCAL)
        _settle(fleet)
        moving = frozenset({ObjectKey(GROUP, "Link", "default", fleet.names[0])})
        events = []
        for _ in range(EVENTS):
            fleet.ready(*(one.name for one in moving))
            meter.read()
            moving = _served(fleet, moving)
            events.append(meter.read())
        assert len(fleet.at("two")) == EVENTS + 1
        _settle(fleet)
        meter.read()
        fleet.step()
        return *min(events), *meter.read()


def _served(fleet: LinkPlatform, roots: Collection[ObjectKey]) -> frozenset[ObjectKey]:
    """Reconcile ready instances as the daemon does, and return the instances that move next."""
    _looked_at(fleet, roots)
    moved = fleet.call(fleet.reconciler.reconcile_grants())
    assert isinstance(moved, frozenset), moved.why
    _looked_at(fleet, moved)
    return moved


def _looked_at(fleet: LinkPlatform, roots: Collection[ObjectKey]) -> None:
    while isinstance(found := fleet.call(fleet.reconciler.reconcile_roots(roots)), ReconcileResult) and found.changed:
        pass
    assert isinstance(found, ReconcileResult), found.why


def _settle(fleet: LinkPlatform) -> None:
    while fleet.step().changed:
        pass


if __name__ == "__main__":
    main()

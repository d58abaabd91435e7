"""Cost of the decisions of a pass, as a ratio to the rendering: `python -m bench.gates`.

The bench has 1,000 instances of 10 resources, all behind gates, in windows and under a policy. A decision contains the
rendering, the plan, the rollout, the check of each write, and the reason why each instance waits, each for what has
changed. The ratio is to a rendering that starts from the files of the whole repository. Figures are seconds of CPU, the least of several runs, because other
programs only add to them. The garbage collector is off, because its runs come at any time.
"""

from __future__ import annotations

import asyncio
import gc
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from unittest import mock

from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from bench.rendering import NODES, cpu, repository
from gitops.reconcile.graph_step import GraphDecider
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from gitops.windows.window import LOCAL
from renderer.catalog.catalog import Catalog, load
from renderer.render.render import render

INSTANCES = 1000
REPEATS = 3
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
RULES = b"""
apiVersion: levelgate.dev/v1alpha1
kind: PropagationWindow
metadata: {name: hours}
spec:
  kind: Allow
  timeZone: Europe/Berlin
  schedule: {cron: "0 9 * * 1-5"}
  until: "17:00"
---
apiVersion: levelgate.dev/v1alpha1
kind: PropagationPolicy
metadata: {name: all}
spec:
  bake: 5m
"""


class Noon:
    """Clock that stands still."""

    def now(self) -> datetime:
        return NOW

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def main() -> None:
    asyncio.run(measured())


async def measured() -> None:
    """Measure the decisions of the pass after a commit, and of a pass without changes.

    Before, all instances run the first commit. The second commit changes the definition.
    """
    gc.disable()
    first, second = catalog("one"), catalog("two", gated=True)
    rendering = min(cpu(lambda: render([catalog("two", gated=True)]))[0] for _ in range(REPEATS))
    sandbox = Sandbox(clock=NOW.timestamp)
    reconciler = Reconciler(cluster_of(sandbox.answer), "0", Noon(), LOCAL)
    print(f"\n{f'{INSTANCES} instances of {NODES} resources, gated':<44} {'seconds':>10} {'x rendering':>12}")
    print(f"{'rendering, from the files':<44} {rendering:>10.3f} {1:>12.3f}")
    while (await reconciler.reconcile([SourceState(first, ref="main", url="file:///bench")])).changed:
        pass
    for label, passes in (("the pass after a commit", 1), ("a pass that changes nothing", REPEATS)):
        found = []
        for _ in range(passes):
            with deciding() as spent:
                await reconciler.reconcile([SourceState(second, ref="main", url="file:///bench")])
            found.append(spent.seconds)
        print(f"{f'all decisions of {label}':<44} {min(found):>10.3f} {min(found) / rendering:>12.3f}")


def catalog(text: str, *, gated: bool = False) -> Catalog:
    """Return the catalog of the bench's definition with `text`, all resources on one level.

    If `gated` is true, the catalog has rules, a gate across the instances, and a gate on each resource.
    """
    files = repository(INSTANCES)
    flat = re.sub(r"previous: .*", "previous: none", files["definition.yaml"].decode())
    written = flat.replace("public: '$", f"more: {text}\n        public: '$")
    if gated:
        written = written.replace("  resources:", "  propagateWhen: ['${each.metadata.name != \"\"}']\n  resources:")
        written = written.replace("    template:", "    propagateWhen: ['${inWindow(\"hours\")}']\n    template:")
        files |= {"rules.yaml": RULES}
    return load({**files, "definition.yaml": written.encode()}, source="bench", commit=text * 10)


@dataclass
class Spent:
    """CPU seconds of decisions and explanations, and the number of decisions."""

    seconds: float = 0.0
    decisions: int = 0


@contextmanager
def deciding() -> Iterator[Spent]:
    """Measure the cost of decisions during the block."""
    spent, decide, explain = Spent(), GraphDecider.decide, GraphDecider.explain

    async def measured_decide(*arguments: Any) -> Any:
        before = time.process_time()
        try:
            return await decide(*arguments)
        finally:
            spent.seconds += time.process_time() - before
            spent.decisions += 1

    def measured_explain(*arguments: Any) -> Any:
        before = time.process_time()
        try:
            return explain(*arguments)
        finally:
            spent.seconds += time.process_time() - before

    with (
        mock.patch.object(GraphDecider, "decide", measured_decide),
        mock.patch.object(GraphDecider, "explain", measured_explain),
    ):
        yield spent


if __name__ == "__main__":
    main()

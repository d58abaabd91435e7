"""What it costs to decide what may move, against rendering it: `python -m bench.gates`.

1,000 instances of 10 resources, all behind gates, in windows and under a policy. A decision is everything that gates add to one plan: the rollout,
the question for each write whether it may start, and, for the plan that stands, why each instance waits. Rendering is that of the whole
repository, from the files. Seconds of CPU, the least of several, for other programs on the machine only add to them; and without the garbage
collector, whose turns come when they like.
"""

from __future__ import annotations

import asyncio
import gc
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import Any

from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from bench.rendering import NODES, cpu, repository
from gitops.decisions import decide
from gitops.decisions.permission import ChangeJudge
from gitops.reconcile.reconciler import Reconciler
from gitops.reconcile.sources import SourceState
from gitops.windows.window import LOCAL
from renderer.catalog.catalog import Catalog, load
from renderer.render.cache import RenderCache
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
    """A clock that stands still."""

    def now(self) -> datetime:
        return NOW

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def main() -> None:
    asyncio.run(measured())


async def measured() -> None:
    """Everything runs the first commit; then the pass after one that changes the definition, and one in which nothing happens."""
    gc.disable()
    first, second = catalog("one"), catalog("two", gated=True)
    rendering = min(cpu(lambda: render([catalog("two", gated=True)], memo=RenderCache()))[0] for _ in range(REPEATS))
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
            found.append(spent.seconds / spent.decisions)
        print(f"{f'a decision, in {label}':<44} {min(found):>10.3f} {min(found) / rendering:>12.3f}")


def catalog(text: str, *, gated: bool = False) -> Catalog:
    """The bench's definition, all resources on one level, with this text; with rules, a gate across its instances and one on each resource."""
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
    """CPU in decisions and what they are asked later, and how many there were. Of nested calls the outer one counts."""

    seconds: float = 0.0
    decisions: int = 0
    depth: int = 0

    def timed(self, work: Callable[..., Any], *, counts: bool) -> Callable[..., Any]:
        @wraps(work)
        def measured(*arguments: Any) -> Any:
            self.depth += 1
            self.decisions += counts
            before = time.process_time()
            try:
                return work(*arguments)
            finally:
                self.depth -= 1
                if not self.depth:
                    self.seconds += time.process_time() - before

        return measured


@contextmanager
def deciding() -> Iterator[Spent]:
    """What is spent on decisions meanwhile."""
    spent, decided, explained, ask = Spent(), decide.decide_changes, decide.explain, ChangeJudge.__call__
    decide.decide_changes = spent.timed(decided, counts=True)
    decide.explain = spent.timed(explained, counts=False)
    ChangeJudge.__call__ = spent.timed(ask, counts=False)  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        decide.decide_changes, decide.explain = decided, explained
        ChangeJudge.__call__ = ask  # type: ignore[method-assign]


if __name__ == "__main__":
    main()

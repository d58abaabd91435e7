"""Cost from files to manifests: many instances of one definition, cold, and after a change of one file.

The ratios show how the time grows with the number of instances (1 is linear), and the share of a change of one file.
"""

from __future__ import annotations

import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from renderer.catalog.catalog import Catalog, load
from renderer.render.cache import RenderCache
from renderer.render.render import render

T = TypeVar("T")
NODES = 10
SMALL, LARGE = 500, 5000


def main() -> None:
    print(f"\n{f'instances of {NODES} resources':<44} {'cold':>10} {'one file':>10} {'ratio':>8}   seconds of CPU")
    taken = {count: measured(count) for count in (SMALL, LARGE)}
    for count, (cold, again) in taken.items():
        print(f"{count:<44} {cold:>9.3f}s {again:>9.3f}s {again / cold:>8.3f}")
    growth = math.log(taken[LARGE][0] / taken[SMALL][0]) / math.log(LARGE / SMALL)
    print(f"{'exponent of the growth':<44} {growth:>10.2f}")
    print(f"{f'megabytes of a process with {LARGE * NODES} manifests':<44} {memory():>10.0f}")


def measured(count: int) -> tuple[float, float]:
    """Return the CPU seconds of the first rendering, and of a rendering after a change of one file."""
    files = repository(count)
    memo = RenderCache()

    def cold() -> Catalog:
        before = load(files)
        render([before], memo=memo)
        return before

    first, before = cpu(cold)
    changed = {**files, "apps/00007.yaml": files["apps/00007.yaml"].replace(b"text: ", b"text: new-")}
    again, _ = cpu(lambda: render([load(changed, previous=before)], memo=memo))
    return first, again


def memory() -> float:
    """Return the largest memory of a process that reads and renders many instances, and keeps the results.

    The memory is in MiB, and includes Python's own memory.
    """
    command = (sys.executable, "-m", "bench.rendering")
    told = subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=Path(__file__).parents[1])
    return int(told.stdout) / 1024


def cpu(work: Callable[[], T]) -> tuple[float, T]:
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def repository(count: int) -> dict[str, bytes]:
    """Return a definition with five expressions in each of its resources, and its instances."""
    files = {"definition.yaml": definition().encode()}
    for number in range(count):
        head = "apiVersion: kro.run/v1alpha1\nkind: Thing\nmetadata:\n"
        files[f"apps/{number:05}.yaml"] = f"{head}  name: thing-{number}\nspec:\n  text: text-{number}\n".encode()
    return files


def definition() -> str:
    resources = ""
    for number in range(NODES):
        previous = f"${{n{number - 1}.metadata.name}}" if number else "none"
        resources += f"""
  - id: n{number}
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata:
        name: ${{schema.metadata.name}}-{number}
        labels: {{app: "${{schema.metadata.name}}"}}
      data:
        previous: {previous}
        text: ${{schema.spec.text + "-" + string(schema.spec.size)}}
        size: ${{string(schema.spec.size * {number + 1})}}
        public: '${{schema.spec.public ? "yes" : "no"}}'"""
    return f"""apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {{name: things.kro.run}}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Thing
    spec:
      text: string | default=hello
      size: integer | default=3
      public: boolean | default=true
  resources:{resources}
"""


if __name__ == "__main__":
    measured(LARGE)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

"""Figures of the daemon's work: what one changed object costs among few and among many, on the sandbox in this process.

Seconds are of CPU, the sandbox's share included, each the least of several runs; ratios compare the large fleet with the small one.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime

from applier.cluster import Object
from applier.sandbox.api import Sandbox
from applier.sandbox.transport import cluster_of
from applier.sandbox.wire import Request, Response
from gitops.passes.known import Pass
from gitops.passes.parts import Wider
from gitops.passes.reconcile import Reconciler
from gitops.passes.sources import SourceState
from renderer.catalog import Catalog, load
from renderer.identity import ObjectKey

FEW, MANY, PLAIN, RUNS = 50, 1_000, 5_000, 3
KIND = ("bench.example.com", "Note")


class Noon:
    def now(self) -> datetime:
        return datetime(2026, 11, 20, 12, tzinfo=UTC)

    async def sleep(self, _: float) -> None:
        await asyncio.sleep(0)


@dataclass
class World:
    """Instances of one definition, each two ConfigMaps, brought to their end."""

    size: int
    asked: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    catalog: Catalog | None = None
    commits: int = 0
    drifted: int = 0

    def __post_init__(self) -> None:
        self.sandbox = Sandbox()
        self.reconciler = Reconciler(cluster_of(self._door), "0", Noon())

    async def _door(self, request: Request) -> Response:
        self.asked.append(request.method)
        return await self.sandbox.answer(request)

    def commit(self, text: str) -> SourceState:
        """With this text in the first object; nothing else is written anew."""
        self.files = self.files or self.first()
        self.files |= {"i00000.json": json.dumps(self.declared(0, text)).encode()}
        self.commits += 1
        self.catalog = load(self.files, source="bench", revision=f"{self.commits:040d}", previous=self.catalog)
        return SourceState(self.catalog, ref="main", url="file:///bench")

    def first(self) -> dict[str, bytes]:
        files = {f"i{number:05}.json": self.declared(number, "one") for number in range(self.size)}
        return {name: json.dumps(one).encode() for name, one in {**files, "note.json": _definition()}.items()}

    def declared(self, number: int, text: str) -> Object:
        return _instance(number, text)

    async def settle(self, state: SourceState) -> Pass:
        while (found := await self.reconciler.reconcile([state])).changed:
            pass
        return found

    async def whole(self) -> float:
        assert self.reconciler.whole
        return await _cpu(self.reconciler.reconcile(self.reconciler.whole.sources))

    async def drift(self) -> float:
        """Somebody deletes an object, each time another one; it comes back."""
        self.drifted += 1
        name = f"i{self.drifted:05}"
        await self.sandbox.answer(Request("DELETE", f"/api/v1/namespaces/default/configmaps/{name}-one", {}, b""))
        return await self._part([ObjectKey(*KIND, "default", name)])

    async def change(self) -> float:
        """A commit that changes one object is brought about; Git is not counted."""
        begun = time.process_time()
        roots = self.reconciler.accept([self.commit(f"text {self.commits}")])
        taken = time.process_time() - begun
        assert isinstance(roots, frozenset)
        return taken + await self._part(roots)

    async def _part(self, roots: Collection[ObjectKey]) -> float:
        self.asked.clear()
        found: list[Pass | Wider] = []

        async def part() -> None:
            found.append(await self.reconciler.part(roots))

        taken = await _cpu(part())
        assert isinstance(found[0], Pass), found[0].why
        assert found[0].changed
        return taken


class Plain(World):
    """Plain objects, each a ConfigMap."""

    def declared(self, number: int, text: str) -> Object:
        metadata = {"name": f"i{number:05}", "namespace": "default"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


async def _cpu(work: Coroutine[None, None, object]) -> float:
    begun = time.process_time()
    await work
    return time.process_time() - begun


def main() -> None:
    asyncio.run(_main())


async def _main() -> None:
    await _compare(
        "instance",
        World(FEW),
        World(MANY),
        ("whole pass that changes nothing", World.whole),
        ("drift of one object healed", World.drift),
        ("commit to one instance brought about", World.change),
    )
    await _compare(
        "plain object",
        Plain(FEW),
        Plain(PLAIN),
        ("whole pass that changes nothing", World.whole),
        ("commit to one object brought about", World.change),
    )


async def _compare(what: str, few: World, many: World, *rows: tuple[str, Callable[[World], Awaitable[float]]]) -> None:
    print(f"\n{f'one {what} touched, among':<50} {few.size:>9,} {many.size:>9,} {'ratio':>8}")
    for world in (few, many):
        await world.settle(world.commit("one"))
    for label, touch in rows:
        costs = [min([await touch(world) for _ in range(RUNS)]) for world in (few, many)]
        print(f"{f'{label}, seconds':<50}", end="")
        _row(costs, "9.4f")
        if touch is not World.whole:
            print(f"{f'{label}, requests':<50}", end="")
            _row([len(world.asked) for world in (few, many)], "9d")


def _row(figures: list[float] | list[int], form: str) -> None:
    small, large = figures
    print(f"{small:>{form}} {large:>{form}} {large / small:>8.2f}")


def _definition() -> Object:
    resources = [
        {
            "id": name,
            "template": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"${{schema.metadata.name}}-{name}"},
                "data": {"text": "${schema.spec.text}"},
            },
        }
        for name in ("one", "two")
    ]
    schema = {"group": KIND[0], "apiVersion": "v1", "kind": KIND[1], "spec": {"text": "string"}}
    return {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": f"notes.{KIND[0]}"},
        "spec": {"schema": schema, "resources": resources},
    }


def _instance(number: int, text: str) -> Object:
    metadata = {"name": f"i{number:05}", "namespace": "default"}
    return {"apiVersion": f"{KIND[0]}/v1", "kind": KIND[1], "metadata": metadata, "spec": {"text": text}}


if __name__ == "__main__":
    main()

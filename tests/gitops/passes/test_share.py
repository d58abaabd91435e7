"""Two processes that divide the sources, on one cluster: each decides about everything and writes its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from applier.sandbox.api import Sandbox
from applier.sandbox.transport import cluster_of
from applier.sandbox.wire import Request, Response
from gitops.passes.known import Pass
from gitops.passes.reconcile import Reconciler
from gitops.passes.share import COMMON
from gitops.passes.sources import SourceState
from renderer.catalog import load
from tests.gitops.fleet import GROUP, StillClock, commit_id

T = TypeVar("T")
OWN = "/api/v1/namespaces/levelgate-system/configmaps"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def definition(kind: str) -> dict[str, Any]:
    member = config_map("${schema.metadata.name}-" + kind.lower(), text="${schema.spec.text}")
    schema = {"group": GROUP, "apiVersion": "v1", "kind": kind, "spec": {"text": "string | default=one"}}
    return {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": f"{kind.lower()}s.{GROUP}"},
        "spec": {"schema": schema, "resources": [{"id": "member", "template": member}]},
    }


def instance(kind: str, name: str, **spec: str) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


@dataclass
class World:
    """`git` is what each source holds; `writes` who wrote what, by the path."""

    git: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    mine: dict[str, set[str]] = field(default_factory=dict)
    writes: list[tuple[str, str]] = field(default_factory=list)
    commits: int = 0

    def __post_init__(self) -> None:
        self.clock, self.loop = StillClock(), asyncio.new_event_loop()
        self.sandbox = Sandbox(clock=self.clock.seconds)
        self.processes = {name: self._process(name) for name in self.mine}

    def _process(self, name: str) -> Reconciler:
        async def door(request: Request) -> Response:
            if request.method != "GET" and "selfsubject" not in request.target:
                self.writes.append((name, request.target.partition("?")[0]))
            return await self.sandbox.answer(request)

        found = Reconciler(cluster_of(door), "0", self.clock)
        found.mine = lambda source: source in self.mine[name]
        return found

    def call(self, awaited: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(awaited)

    @property
    def states(self) -> list[SourceState]:
        return [
            SourceState(
                load(
                    {f"{number}.json": json.dumps(one).encode() for number, one in enumerate(held)},
                    source=name,
                    revision=commit_id(self.commits),
                )
            )
            for name, held in sorted(self.git.items())
        ]

    def step(self, name: str) -> Pass:
        return self.call(self.processes[name].reconcile(self.states))

    def settle(self, *names: str) -> None:
        for _ in range(12):
            if not sum(self.step(name).changed for name in names or tuple(self.mine)):
                return
        raise AssertionError("it does not settle")

    def objects(self, path: str = CONFIG_MAPS) -> dict[str, Any]:
        response = self.sandbox.handle(Request("GET", path, {}, b""))
        return {one["metadata"]["name"]: one for one in json.loads(response.body)["items"]}

    def written(self, name: str) -> set[str]:
        return {
            path.rpartition("/")[2].partition("?")[0]
            for who, path in self.writes
            if who == name and "/events" not in path
        }


@pytest.fixture
def world() -> Iterator[World]:
    found = World(
        {
            "shop": [definition("Shop"), instance("Shop", "a"), instance("Shop", "b"), config_map("s")],
            "team": [definition("Team"), instance("Team", "a"), config_map("t")],
        },
        {"one": {"shop", COMMON}, "two": {"team"}},
    )
    yield found
    for one in found.processes.values():
        found.call(one.cluster.close())
    found.loop.close()


def test_each_writes_the_sets_and_records_of_its_sources_and_together_they_write_all(world: World) -> None:
    world.settle()
    assert world.objects().keys() == {"a-shop", "b-shop", "s", "a-team", "t"}
    assert {"a-shop", "b-shop", "s", "source-shop", f"shops.{GROUP}", f"rollout-shops.{GROUP}"} <= world.written("one")
    assert {"a-team", "t", "source-team", f"teams.{GROUP}", f"rollout-teams.{GROUP}"} <= world.written("two")
    both = {path for who, path in world.writes if who == "one"} & {path for who, path in world.writes if who == "two"}
    assert {path for path in both if "/events" not in path} <= {"/api/v1/namespaces/levelgate-system"}
    records = world.objects(OWN)
    assert {"levelgate", "source-shop", "source-team"} <= records.keys()
    assert all(records[name]["data"]["state"] == "Settled" for name in ("source-shop", "source-team"))


def test_definitions_of_one_name_in_two_sources_have_each_its_own_process(world: World) -> None:
    """A definition is its kind (rulings, *One catalog per cluster*): each of two teams may call theirs `app`, and whoever works on a source grants
    the moves of its instances, records them and answers people.
    """
    for held in world.git.values():
        held[0]["metadata"]["name"] = "app"
    world.settle()
    shop, team = ("rollout-app", "rollout-app.team")
    kinds = [json.loads(world.objects(OWN)[name]["data"]["of"]) for name in (shop, team)]
    assert kinds == [f"Shop.{GROUP}", f"Team.{GROUP}"]
    assert {shop, team} & world.written("one") == {shop}
    assert {shop, team} & world.written("two") == {team}
    world.writes.clear()
    asked = {"metadata": {"annotations": {"levelgate.dev/halt": "INC-7"}}}
    merge = {"content-type": "application/merge-patch+json"}
    world.sandbox.handle(Request("PATCH", f"{OWN}/{team}", merge, json.dumps(asked).encode()))
    world.settle()
    assert "levelgate.dev/halt" not in (world.objects(OWN)[team]["metadata"].get("annotations") or {})
    assert {who for who, path in world.writes if path.endswith(team)} == {"two"}


def test_what_is_settled_is_settled_for_a_process_that_does_all_of_it(world: World) -> None:
    """Dividing leaves nothing out: whoever takes over everything finds nothing to write."""
    world.settle()
    world.writes.clear()
    world.mine = {"one": {"shop", "team", COMMON}, "two": set()}
    for name in ("one", "two", "one"):
        assert world.step(name).changed == 0
    assert world.writes == []


def test_a_commit_is_brought_about_by_whose_source_it_is(world: World) -> None:
    world.settle()
    world.writes.clear()
    world.git["team"][1] = instance("Team", "a", text="two")
    world.commits += 1
    assert [str(one.key) for one in world.step("one").results if not one.is_bookkeeping] == []
    assert world.objects()["a-team"]["data"] == {"text": "one"}
    world.settle()
    assert world.objects()["a-team"]["data"] == {"text": "two"}
    assert "a-team" not in world.written("one")


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_an_object_that_goes_from_one_to_the_other_is_handed_over_and_not_deleted(
    world: World, order: tuple[str, str]
) -> None:
    """Hand-over works across processes: each knows what the other's sources want, and whose the object still is."""
    world.settle()
    uid = world.objects()["s"]["metadata"]["uid"]
    world.git["team"].append(world.git["shop"].pop())
    world.commits += 1
    world.settle(*order)
    after = world.objects()["s"]
    assert after["metadata"]["uid"] == uid
    assert after["metadata"]["labels"] == world.objects()["t"]["metadata"]["labels"]


def test_what_goes_is_deleted_by_whose_source_it_was(world: World) -> None:
    world.settle()
    world.writes.clear()
    del world.git["shop"][1]
    world.commits += 1
    world.step("two")
    assert "a-shop" in world.objects()
    world.settle()
    assert world.objects().keys() == {"b-shop", "s", "a-team", "t"}
    assert "a-shop" not in world.written("two")


def test_a_shard_that_moves_in_the_middle_is_finished_by_the_next(world: World) -> None:
    """Nothing is lost: what one process left half-done, the other one goes on with."""
    stop = iter([False, False, True])
    world.processes["one"].stopping = lambda: next(stop, True)
    world.step("one")
    assert "s" not in world.objects() or "a-shop" not in world.objects()
    world.mine = {"one": set(), "two": {"shop", "team", COMMON}}
    world.settle("two")
    assert world.objects().keys() == {"a-shop", "b-shop", "s", "a-team", "t"}

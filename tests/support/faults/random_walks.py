"""Random histories: commits, and in each run something that goes wrong at a random write or read, and drift by other managers; then quiet.

Everything comes from the seed, so a failure is played again with it. What requests are under way together is up to the scheduler.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

from tests.support.faults import drift
from tests.support.faults.kills import differences, plant
from tests.support.faults.lane import Commit, Lane, essence, path_of
from tests.support.faults.observer import PART_OF, disturbed
from tests.support.faults.proxy import READS, WRITES, Kill, Lost, Moment, Reset, Rule, Status, Truncate
from tests.support.faults.scenarios import graph, instance, plain, reader

LETTERS = "abcdef"

CRD_DELETIONS = 0.2
"""After so many of the commits somebody deletes a CRD."""

MAX_RESUMES = 5
"""A process of another lane sees the request as well, and may refuse it first: it can read no instance of the rollout."""


def random_commit(lane: Lane, rng: random.Random) -> Commit:
    """Two definitions, some of their instances, some plain objects; what reads one of these by `externalRef` is there only with it."""
    files = {"bystander.json": plain(lane, "bystander", text="stays")}
    for kind in ("Chain", "Other"):
        files[f"{kind}.json"] = graph(lane, _needs(rng), kind=kind)
        for name in rng.sample(("one", "two"), rng.randint(0, 2)):
            text = rng.choice(("one", "two"))
            files[f"{kind}-{name}.json"] = instance(lane, f"{kind.lower()}-{name}", kind=kind, text=text)
    if rng.random() < 0.5:
        files["scaled.json"] = _workload(lane)
    for name in rng.sample("pqr", rng.randint(0, 3)):
        files[f"{name}.json"] = plain(lane, name, text=rng.choice(("one", "two")))
    files["Reader.json"] = reader(lane)
    for name in rng.sample(
        "xy", rng.randint(0, 2)
    ):  # what is read never changes: the order of changes is no matter of reading
        files[f"{name}.json"] = plain(lane, name, text="read")
        if rng.random() < 0.7:
            files[f"Reader-{name}.json"] = instance(lane, f"reader-{name}", kind="Reader", text=name)
    return {"git": files}


def _workload(lane: Lane) -> str:
    """A Deployment that nobody runs, and that an autoscaler may scale."""
    labels = {"app": "scaled"}
    container = {"name": "app", "image": "registry.example.com/app:1"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": drift.REPLICAS, "selector": {"matchLabels": labels}, "template": pod}
    annotations = {"levelgate.dev/health": "ignore"}
    metadata = {"name": "scaled", "namespace": lane.namespace, "annotations": annotations}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


def _needs(rng: random.Random) -> Mapping[str, str]:
    """A graph without circles, with the letters in any order."""
    order = rng.sample(LETTERS, rng.randint(1, 5))
    return {
        letter: "".join(rng.sample(order[:place], rng.randint(0, min(2, place)))) for place, letter in enumerate(order)
    }


def random_rules(rng: random.Random) -> list[Rule]:
    """Up to three faults, and in most lives the end at some write."""
    faults = (
        Status(500),
        Status(503),
        Status(429, 0),
        Lost(),
        Reset(Moment.RECEIVED),
        Reset(Moment.FORWARDED),
        Truncate(),
    )
    rules = [
        Rule(rng.choice(faults), methods=rng.choice((WRITES, WRITES, READS)), nth=rng.randint(1, 12))
        for _ in range(rng.randint(0, 3))
    ]
    if rng.random() < 0.7:
        rules.insert(0, Rule(Kill(rng.choice(tuple(Moment))), nth=rng.randint(1, 20)))
    return rules


async def take_label(lane: Lane, rng: random.Random) -> None:
    """A person takes the label off a plain object, if there is one: the next commit wants it, or leaves it behind."""
    key = lane.config_map(rng.choice(("bystander", "p", "q", "r")))
    if await lane.get(key):
        await lane.patch(key, {"metadata": {"labels": {PART_OF: None}}})


async def give_back(lane: Lane) -> None:
    """A person gives back what the record of the source tells as left behind."""
    record = await lane.get(lane.record("git"))
    for member in json.loads(((record or {}).get("data") or {}).get("leftBehind") or "{}").get("members", ()):
        key = lane.config_map(member["object"].rpartition("/")[2])
        if member.get("set"):
            await lane.patch(key, {"metadata": {"labels": {PART_OF: member["set"]}}})


async def resume(lane: Lane) -> bool:
    """A person resumes the rollouts that the operator's conflicts have halted; return whether there are any."""
    halted = [
        key
        for key, obj in (await lane.objects()).items()
        if key.name.startswith("rollout-") and json.loads((obj.get("data") or {}).get("halts") or "[]")
    ]
    for key in halted:
        await lane.patch(key, {"metadata": {"annotations": {"levelgate.dev/resume": "the operator has withdrawn"}}})
    return bool(halted)


async def walk(lane: Lane, seed: int, *, commits: int = 4) -> list[str]:
    """What is wrong at the end of one random history, as texts (I2, I7)."""
    rng, people = random.Random(seed), random.Random(~seed)
    lane.plurals = ("chains", "others", "readers")
    history = [random_commit(lane, rng) for _ in range(commits)]
    await lane.commit(history[-1])
    await lane.live()
    wanted = essence(await lane.objects())
    await lane.wipe()
    foreign = await plant(lane)
    start = await lane.objects()
    for commit in history:
        await lane.commit(commit)
        for _ in range(rng.randint(1, 2)):
            await lane.live(*random_rules(rng), wait=0.0)
            await drift.meddle(lane, rng)
        if rng.random() < CRD_DELETIONS:
            await lane.ask("DELETE", path_of(lane.crd(rng.choice(lane.plurals))))  # it may not be there yet
        if commit is not history[-1]:
            await take_label(lane, people)
    await drift.withdraw(lane)
    await lane.live()
    await give_back(lane)
    last = await lane.live()
    for _ in range(MAX_RESUMES):
        if not await resume(lane):
            break
        last = await lane.live()
    end = await lane.objects()
    found = disturbed(start, end, foreign) + ([f"I7: {last.error}"] if last.error else [])
    if essence(end) != wanted:
        found.append(f"I7: {differences(essence(end), wanted)}")
    if left := await lane.quiet():
        found.append(f"I7: then it still writes {[f'{one.method} {one.path}' for one in left]}")
    return found

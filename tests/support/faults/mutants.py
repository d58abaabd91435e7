"""Levelgate with one of its safeguards switched off, and the scenario that must notice.

A mutant patches the code under test inside this process. It is caught when the observer, which knows nothing of the code, reports a breach or a
wrong end. `python -m tests.support.faults.mutants` prints the table.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from applier import status
from applier.applyset.inventory import Scope
from applier.kube.client import Client
from applier.plan import prune_decision
from gitops.daemon import commit_acceptance
from gitops.decisions import prune_order, rules
from gitops.windows.verdict import WindowVerdict
from tests.support.faults.kills import plant
from tests.support.faults.lane import Commit, Lane
from tests.support.faults.observer import ObservedHistory, content, disturbed, violations
from tests.support.faults.proxy import READS, Meanwhile, Older, ProxyResponse, Rule
from tests.support.faults.scenarios import CHAIN, definition, graph, instance

Probe = Callable[[Lane], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A safeguard that is `off`, and the `probe` that answers what it found wrong; nothing of the program as it is."""

    name: str
    off: Callable[[], Any]
    probe: Probe


async def step(lane: Lane, before: Commit, after: Commit, *rules: Rule, **options: Any) -> list[str]:
    """Breaches of I1 to I4 on the way from one commit to the next; the first is reached with the safeguard on or off alike."""
    await lane.commit(before)
    await lane.live()
    foreign = await plant(lane)
    return await last_step(lane, after, *rules, foreign=foreign, **options)


async def last_step(lane: Lane, after: Commit, *rules: Rule, foreign: Any = (), **options: Any) -> list[str]:
    start, since = await lane.objects(), lane.audit.mark()
    await lane.commit(after)
    life = await asyncio.wait_for(lane.live(*rules, wait=0.0, **options), 60)
    events, end = lane.events(since), await lane.objects()
    found = violations(ObservedHistory.of(start, events), events, target=end, foreign=foreign)
    return found + disturbed(start, end, foreign) + ([f"I7: {life.error}"] if life.error else [])


def _chain(lane: Lane, needs: Mapping[str, str] = CHAIN, **more: Any) -> Commit:
    return {"git": {"chain.json": graph(lane, {"z": "", **needs}, **more), "one.json": instance(lane)}}


async def wider_scope(lane: Lane) -> list[str]:
    """A node of a kind that the set did not have."""
    return await step(lane, _chain(lane), _chain(lane, {**CHAIN, "s": "d"}, kinds={"s": "Secret"}))


async def stuck_finalizer(lane: Lane) -> list[str]:
    """The last of a chain cannot go."""
    await lane.commit(_chain(lane))
    await lane.live()
    await lane.patch(lane.config_map("one-d"), {"metadata": {"finalizers": ["test.example/hold"]}})
    found = await last_step(lane, _chain(lane, {}))
    await lane.patch(lane.config_map("one-d"), {"metadata": {"finalizers": None}})
    return found


async def prune_a_chain(lane: Lane) -> list[str]:
    """Four go in one commit."""
    return await step(lane, _chain(lane), _chain(lane, {}))


async def made_again_by_others(lane: Lane) -> list[str]:
    """An object is deleted and created by somebody else between our list and our deletion."""
    await lane.commit(_chain(lane))
    await lane.live()

    async def race() -> None:
        await lane.delete(lane.config_map("one-d"))
        await lane.create({"metadata": {"name": "one-d"}, "data": {"text": "theirs"}})

    path = f"/namespaces/{lane.namespace}/configmaps/one-d"
    found = await last_step(lane, _chain(lane, {}), Rule(Meanwhile(race), methods={"DELETE"}, path=path))
    survivor = await lane.get(lane.config_map("one-d"))
    return found + ([] if survivor else ["I2: one-d, which is not ours, was deleted"])


async def stale_cache(lane: Lane) -> list[str]:
    """A server that answers from an old cache whoever allows that, as the API permits."""
    shorter = {letter: CHAIN[letter] for letter in "abc"}
    await lane.commit(_chain(lane, shorter))
    memory: dict[str, ProxyResponse] = {}
    await lane.live()
    await lane.live(memory=memory)
    await lane.commit(_chain(lane))
    await lane.live()
    cache = Rule(Older(), methods=READS, path="/configmaps[?].*resourceVersion=0", times=2)
    return await last_step(lane, _chain(lane, {}), cache, memory=memory)


async def forged_label(lane: Lane) -> list[str]:
    """A look-alike with the label of our set."""
    await lane.commit(_chain(lane))
    await lane.live()
    ours = await lane.get(lane.config_map("one-a"))
    assert ours is not None
    labels = {"metadata": {"name": "one-y", "labels": ours["metadata"]["labels"]}, "data": {"text": "theirs"}}
    await lane.create(labels)
    return await last_step(lane, _chain(lane, {}), foreign=[lane.config_map("one-y")])


async def rewritten_history(lane: Lane) -> list[str]:
    """The new head of the branch does not follow from the commit that is in force."""
    await lane.commit(_chain(lane))
    await lane.live()
    shorter = {letter: CHAIN[letter] for letter in "abc"}
    return await held_back(lane, _chain(lane, shorter), "I8", approved=False, rewrites=True)


async def closed_window(lane: Lane) -> list[str]:
    """A change of everything comes with a window that does not open."""
    await lane.commit(_chain(lane))
    await lane.live()
    spec = {
        "kind": "Allow",
        "timeZone": "UTC",
        "schedule": {"once": [{"start": "2020-01-01T00:00", "end": "2020-01-02T00:00"}]},
    }
    window = {
        "apiVersion": "levelgate.dev/v1alpha1",
        "kind": "PropagationWindow",
        "metadata": {"name": "never"},
        "spec": spec,
    }
    changed = {"chain.json": graph(lane, {"z": "", **CHAIN}), "one.json": instance(lane, text="two")}
    return await held_back(lane, {"git": {**changed, "window.json": json.dumps(window)}}, "I5")


async def held_back(lane: Lane, commit: Commit, invariant: str, **options: Any) -> list[str]:
    """What we wrote of the content of a commit of which nothing may be written."""
    start, since = await lane.objects(), lane.audit.mark()
    await lane.commit(commit, **options)
    await lane.live(wait=0.0)
    return [
        f"{invariant}: {change}"
        for change in ObservedHistory.of(start, lane.events(since)).changes
        if change.is_ours and change.key in start and change.key.namespace == lane.namespace
        if change.after is None or content(change.after) != content(start[change.key])
    ]


async def old_status(lane: Lane) -> list[str]:
    """A Deployment is changed; its status still speaks of the generation before, and its readyWhen does not look."""

    def commit(image: str) -> Commit:
        labels = {"app": "web"}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": image}]}}
        web = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "${schema.metadata.name}-web"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod},
        }
        after = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "${schema.metadata.name}-after"},
            "data": {"reads-web": "${web.metadata.name}", "image": image},
        }
        resources = [
            {"id": "web", "readyWhen": ["${web.status.availableReplicas == 1}"], "template": web},
            {"id": "after", "template": after},
        ]
        return {"git": {"chain.json": definition(lane, resources), "one.json": instance(lane)}}

    await lane.commit(commit("nginx:1"))
    await lane.live(wait=0.0)
    web = lane.config_map("one-web")._replace(group="apps", resource="deployments")
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    await lane.patch(web, {"status": {"observedGeneration": 1, **counts}}, subresource="status")
    await lane.live(wait=0.0)
    return await last_step(lane, commit("nginx:2"))


def _patched(target: Any, name: str, new: Any) -> Callable[[], Any]:
    return lambda: mock.patch.object(target, name, new)


@contextmanager
def without_superset() -> Iterator[None]:
    """The scope of a parent counts as wide enough, and where it is written again it is not widened."""
    with (
        mock.patch.object(Scope, "__ge__", return_value=True),
        mock.patch.object(Scope, "__or__", lambda self, other: self if self.kinds else other),
    ):
        yield


def last_first() -> Any:
    """Orphans go in the order that is wrong, so that no luck hides what should have kept them."""
    original = prune_decision.prune_candidates
    return mock.patch.object(
        prune_decision, "prune_candidates", lambda *arguments, **named: original(*arguments, **named)[::-1]
    )


@contextmanager
def without_dependencies() -> Iterator[None]:
    """Nothing is known to use anything."""
    with (
        last_first(),
        mock.patch.object(prune_decision, "index_dependents", return_value={}),
        mock.patch.object(prune_order, "_dependents", return_value=()),
    ):
        yield


def _without_preconditions() -> Any:
    """What a client sends that knows only names: the conditions of a deletion are left out of its body."""
    original = Client.request

    async def ask(self: Client, call: Any) -> Any:
        return await original(self, dataclasses.replace(call, body=b"{}") if call.verb == "delete" else call)

    return mock.patch.object(Client, "request", ask)


def _from_cache() -> Any:
    """Lists with `resourceVersion=0`: "any version will do", which the server answers from memory."""
    original = Client.request

    async def ask(self: Client, call: Any) -> Any:
        stale = call.verb == "list" and "continue=" not in call.path
        return await original(self, dataclasses.replace(call, path=f"{call.path}&resourceVersion=0") if stale else call)

    return mock.patch.object(Client, "request", ask)


@contextmanager
def _ignoring_the_absence_that_is_due() -> Iterator[None]:
    """What is being deleted counts as gone."""
    original, query = prune_decision.index_dependents, prune_order._dependents

    def dependents(*arguments: Any) -> Any:
        found = original(*arguments)
        return {dep: tuple(user for user in users if not user.is_terminating) for dep, users in found.items()}

    def dependents_of(*arguments: Any) -> Any:
        return tuple(user for user in query(*arguments) if not user.is_terminating)

    with (
        mock.patch.object(prune_decision, "index_dependents", dependents),
        mock.patch.object(prune_order, "_dependents", dependents_of),
    ):
        yield


@contextmanager
def _with_open_windows() -> Iterator[None]:
    with mock.patch.object(rules, "judge", _open):
        yield


def _open(_rules: Any, _target: Any, _effect: Any, reading: Any) -> WindowVerdict:
    return WindowVerdict(is_open=True, next_edge=reading.now)


MUTANTS = (
    Mutant("superset-first", without_superset, wider_scope),
    Mutant("wait-for-absence", _ignoring_the_absence_that_is_due, stuck_finalizer),
    Mutant("recorded dependencies", without_dependencies, prune_a_chain),
    Mutant("uid precondition", _without_preconditions, made_again_by_others),
    Mutant("consistent list", _from_cache, stale_cache),
    Mutant("member proof", _patched(prune_decision, "is_membership_proven", lambda obj: True), forged_label),
    Mutant("fresh readiness", _patched(status, "is_fresh", lambda obj: True), old_status),
    Mutant("rewritten history", _patched(commit_acceptance, "objection", lambda *_: None), rewritten_history),
    Mutant("window before writes", _with_open_windows, closed_window),
)


async def verdict(mutant: Mutant, lane: Lane) -> list[str]:
    """What the probe finds with the safeguard off."""
    with mutant.off():
        return await mutant.probe(lane)

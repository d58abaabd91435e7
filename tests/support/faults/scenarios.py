"""What is done to a platform while it is killed: each scenario goes from one commit to another, by way of a third one if it is turned round."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.definitions import config_map
from tests.support.faults import drift
from tests.support.faults.lane import Commit, Files, Lane

Needs = Mapping[str, str]
"""Nodes by their letter, with the letters that they read."""

CHAIN: Needs = {"a": "", "b": "a", "c": "b", "d": "c"}
DIAMOND: Needs = {"a": "", "b": "a", "c": "a", "d": "bc"}
FAN: Needs = {"a": "", **dict.fromkeys("bcdef", "a")}


def graph(
    lane: Lane, needs: Needs, *, kind: str = "Chain", kinds: Mapping[str, str] | None = None, prefix: str = ""
) -> str:
    """A definition of ConfigMaps (or other `kinds` with data) `INSTANCE-LETTER` that say in their data what they read."""
    resources = []
    for letter, read in needs.items():
        data = {f"reads-{other}": f"${{{other}.metadata.name}}" for other in read}
        # Of a Secret only its own encoding is stored, so its content stands in annotations.
        made = (kinds or {}).get(letter, "ConfigMap")
        metadata: dict[str, Any] = {"name": f"{prefix or '${schema.metadata.name}'}-{letter}"}
        template: dict[str, Any] = {"apiVersion": "v1", "kind": made, "metadata": metadata}
        if made == "ConfigMap":
            template["data"] = {"text": "${schema.spec.text}", **data}
        else:
            metadata["annotations"] = data
        resources.append({"id": letter, "template": template})
    return definition(lane, resources, kind=kind)


def definition(lane: Lane, resources: Sequence[Mapping[str, Any]], *, kind: str = "Chain", **annotations: str) -> str:
    name = f"{kind.lower()}s.{lane.group}"
    spec = {"text": "string | default=one"}
    return json.dumps(
        {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "schema": {"group": lane.group, "apiVersion": "v1", "kind": kind, "spec": spec},
                "resources": list(resources),
            },
        }
    )


def instance(lane: Lane, name: str = "one", *, kind: str = "Chain", namespace: str = "", text: str = "one") -> str:
    return json.dumps(
        {
            "apiVersion": f"{lane.group}/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace or lane.namespace},
            "spec": {"text": text},
        }
    )


def plain(lane: Lane, name: str, **data: str) -> str:
    return config_map(lane.namespace, name, **data)


@dataclass(frozen=True, slots=True)
class Scenario:
    """`commits` are two: before and after; or three: the run from the first to the second is killed, and the third commit follows at once.

    `meddle` is what a person does before the run; `fresh` says that the way back to the first commit is to start from nothing; `recreated` are
    resources whose objects may come back with another uid.
    """

    name: str
    commits: Callable[[Lane], Sequence[Commit]]
    plurals: Sequence[str] = ("chains",)
    meddle: Callable[[Lane], Awaitable[object]] | None = None
    fresh: bool = False
    recreated: Sequence[str] = ()
    parents_may_vanish: bool = False


def _one_source(make: Callable[[Lane], Sequence[Files]]) -> Callable[[Lane], Sequence[Commit]]:
    """The same with a bystander, an instance that no commit changes and that must not be touched."""

    def commits(lane: Lane) -> list[Commit]:
        return [{"git": {"bystander.json": plain(lane, "bystander", text="stays"), **files}} for files in make(lane)]

    return commits


def _scenario(name: str, make: Callable[[Lane], Sequence[Files]], **more: Any) -> Scenario:
    return Scenario(name, _one_source(make), **more)


def _create(lane: Lane) -> list[Files]:
    definition = {"chain.json": graph(lane, CHAIN)}
    return [definition, {**definition, "one.json": instance(lane)}]


def _update(lane: Lane) -> list[Files]:
    """A new text all the way down, and a node of a kind that the set's scope does not name yet."""
    wider = graph(lane, {**CHAIN, "s": "d"}, kinds={"s": "Secret"})
    return [
        {"chain.json": graph(lane, CHAIN), "one.json": instance(lane)},
        {"chain.json": wider, "one.json": instance(lane, text="two")},
    ]


def _prune(needs: Needs, keep: str = "z") -> Callable[[Lane], list[Files]]:
    def make(lane: Lane) -> list[Files]:
        one = {"one.json": instance(lane)}
        return [
            {"chain.json": graph(lane, {keep: "", **needs}), **one},
            {"chain.json": graph(lane, {keep: ""}), **one},
        ]

    return make


def _grow(needs: Needs) -> Callable[[Lane], list[Files]]:
    return lambda lane: list(reversed(_prune(needs)(lane)))


def _delete_instance(lane: Lane) -> list[Files]:
    definition = {"chain.json": graph(lane, CHAIN)}
    return [{**definition, "one.json": instance(lane)}, definition]


def _move_between_instances(lane: Lane) -> list[Files]:
    """The node `c`, and what it is called, goes from one definition's instance to the other's."""
    instances = {"one.json": instance(lane), "two.json": instance(lane, "two", kind="Other")}
    return [
        {
            "chain.json": graph(lane, {"a": "", "b": "a", "c": "b"}, prefix="shared"),
            "other.json": graph(lane, {"x": ""}, kind="Other", prefix="shared"),
            **instances,
        },
        {
            "chain.json": graph(lane, {"a": "", "b": "a"}, prefix="shared"),
            "other.json": graph(lane, {"x": "", "c": "x"}, kind="Other", prefix="shared"),
            **instances,
        },
    ]


def _move_between_sources(lane: Lane) -> list[Commit]:
    moved = {"moved.json": plain(lane, "moved", text="kept"), "second.json": plain(lane, "second", text="kept")}
    left, right = {"left.json": plain(lane, "left", text="l")}, {"right.json": plain(lane, "right", text="r")}
    return [{"git": {**left, **moved}, "other": right}, {"git": left, "other": {**right, **moved}}]


def _kind_and_object(lane: Lane) -> list[Files]:
    return [{}, {"chain.json": graph(lane, {"a": "", "b": "a"}), "one.json": instance(lane)}]


def _plain_kind_and_object(lane: Lane) -> list[Files]:
    """A CRD that no definition made, with an object of it; both go in one commit."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    kind = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{lane.group}", "annotations": {"levelgate.dev/prune": "allowed"}},
        "spec": {
            "group": lane.group,
            "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    return [{"kind.json": json.dumps(kind), "thing.json": instance(lane, "thing", kind="Thing")}, {}]


def _two_sets(lane: Lane) -> list[Files]:
    """Two instances in one namespace: one is changed while the other loses nodes."""
    other = graph(lane, {"p": "", "q": "p"}, kind="Other")
    return [
        {
            "chain.json": graph(lane, CHAIN),
            "other.json": other,
            "one.json": instance(lane),
            "two.json": instance(lane, "two", kind="Other"),
        },
        {
            "chain.json": graph(lane, {"a": ""}),
            "other.json": other,
            "one.json": instance(lane),
            "two.json": instance(lane, "two", kind="Other", text="two"),
        },
    ]


def _revert(lane: Lane) -> list[Files]:
    before, after = _prune(CHAIN)(lane)
    return [before, after, before]


def _deleted_by_hand(lane: Lane) -> list[Files]:
    return [{"chain.json": graph(lane, CHAIN), "one.json": instance(lane)}] * 2


async def _delete_the_instance(lane: Lane) -> None:
    await lane.delete(lane.instance("chains", "one"))


def _fan_that_stays(lane: Lane) -> list[Files]:
    return [{"chain.json": graph(lane, FAN), "one.json": instance(lane)}] * 2


async def _change_the_leaves_by_a_script(lane: Lane) -> None:
    """Drift of nodes that do not read each other: healing waits for no ancestor."""
    for letter in "bcdef":
        await drift.update(lane, lane.config_map(f"one-{letter}"))


def _one_leaves_and_its_crd_goes(lane: Lane) -> list[Files]:
    """One instance has left Git, another stands there."""
    both = {"chain.json": graph(lane, CHAIN), "three.json": instance(lane, "three")}
    return [{**both, "one.json": instance(lane)}, both]


async def _delete_the_crd(lane: Lane) -> None:
    await lane.delete(lane.crd("chains"))


def _with_namespace(lane: Lane) -> list[Files]:
    space = f"{lane.namespace}-x"
    made = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": space, "annotations": {"levelgate.dev/prune": "allowed"}},
    }
    definition = {"chain.json": graph(lane, {"a": "", "b": "a"})}
    both = {"space.json": json.dumps(made), "one.json": instance(lane, namespace=space)}
    return [{**definition, **both}, definition]


def reader(lane: Lane) -> str:
    """A definition of instances that read, by `externalRef`, the ConfigMap that their text names."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.text}"}}
    child = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}-child"},
        "data": {"reads-found": "${found.metadata.name}"},
    }
    resources = [{"id": "found", "externalRef": reference}, {"id": "child", "template": child}]
    return definition(lane, resources, kind="Reader")


def _readers(lane: Lane) -> list[Commit]:
    """What is read goes with its readers: an object of another set, one of a set that both are nested in, and a plain one of another source."""
    nested = [
        {"id": name, "template": json.loads(instance(lane, f"nested-{name}", kind=kind, text="nested-c-a"))}
        for name, kind in (("c", "Chain"), ("r", "Reader"))
    ]
    definitions = {
        "chain.json": graph(lane, {"a": ""}),
        "reader.json": reader(lane),
        "both.json": definition(lane, nested, kind="Both"),
        "bystander.json": plain(lane, "bystander", text="stays"),
    }
    instances = {
        "one.json": instance(lane),
        "two.json": instance(lane, "two", kind="Reader", text="one-a"),
        "both-three.json": instance(lane, "three", kind="Both"),
        "p.json": plain(lane, "p", text="read"),
    }
    right = {"right.json": plain(lane, "right", text="stays")}
    return [
        {
            "git": {**definitions, **instances},
            "other": {**right, "four.json": instance(lane, "four", kind="Reader", text="p")},
        },
        {"git": definitions, "other": right},
    ]


SCENARIOS = (
    _scenario("create", _create),
    _scenario("update", _update),
    _scenario("prune A-D", _prune(CHAIN)),
    _scenario("create a diamond", _grow(DIAMOND)),
    _scenario("prune a diamond", _prune(DIAMOND)),
    _scenario("create a fan-out of 5", _grow(FAN)),
    _scenario("prune a fan-out of 5", _prune(FAN)),
    _scenario("delete an instance", _delete_instance),
    _scenario("move between instances", _move_between_instances, plurals=("chains", "others")),
    Scenario("move between sources", _move_between_sources),
    _scenario("a kind and its object", _kind_and_object, fresh=True),
    _scenario("a plain CRD and its object go", _plain_kind_and_object, plurals=("things",)),
    _scenario("two sets in one namespace", _two_sets, plurals=("chains", "others")),
    _scenario("a revert during a prune", _revert, recreated=("configmaps",)),
    _scenario(
        "an instance deleted by hand",
        _deleted_by_hand,
        meddle=_delete_the_instance,
        recreated=("chains",),
        parents_may_vanish=True,
    ),
    _scenario(
        "a CRD deleted by hand while an instance leaves",
        _one_leaves_and_its_crd_goes,
        meddle=_delete_the_crd,
        recreated=("chains", "customresourcedefinitions"),
        parents_may_vanish=True,
    ),
    _scenario("an instance and its namespace go together", _with_namespace),
    Scenario("readers go with what they read", _readers, plurals=("chains", "readers", "boths")),
    _scenario("drift by another manager", _fan_that_stays, meddle=_change_the_leaves_by_a_script),
)

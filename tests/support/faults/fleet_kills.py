"""Kills of a hub at every write to its own cluster and to the cluster that it works on, at each of three moments.

Each point ends like those of `tests.support.faults.kills`: equal ends, I1 to I4, then nothing to write. The hub's
records of the other cluster are checked at every point too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.support.faults.fleet_lane import MARK, FleetLane
from tests.support.faults.kills import KillBench
from tests.support.faults.lane import Commit, Files, Lane, Object, PathKey
from tests.support.faults.observer import ObservedHistory, fleet_violations
from tests.support.faults.scenarios import Scenario, graph, instance, plain

OWN: Final = "levelgate.dev/v1alpha1"
CHAIN: Final = {"a": "", "b": "a"}


@dataclass
class FleetBench(KillBench):
    """The bench of kills in the lane of a hub."""

    lane: FleetLane

    def _judge(self, start: dict[PathKey, Object], since: int, target: dict[PathKey, Object]) -> list[str]:
        history = ObservedHistory.of(start, self.lane.events(since))
        return super()._judge(start, since, target) + fleet_violations(history, self.lane.cluster_record, MARK)


def _own(kind: str, name: str, spec: Mapping[str, Any], **labels: str) -> str:
    return json.dumps({"apiVersion": OWN, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec})


def _cluster(lane: Lane, on_remove: str = "Delete", **labels: str) -> Files:
    return {
        "cluster.json": _own("Cluster", lane.token, {"access": {"file": lane.token}, "onRemove": on_remove}, **labels)
    }


def _placements(on_unmatch: str = "Delete") -> Files:
    """Everything goes to each cluster but the chain `one`, which goes where it is wanted."""
    by_name = {name: {"instances": {"matchLabels": {"name": name}}} for name in ("one", "three")}
    wanted = {"matchLabels": {"one": "wanted"}}
    return {
        "placement.json": _own("Placement", "rest", {"objects": {**by_name["three"], "plain": {}}, "clusters": {}}),
        "one-placement.json": _own(
            "Placement", "one", {"objects": by_name["one"], "clusters": wanted, "onUnmatch": on_unmatch}
        ),
    }


def _content(lane: Lane, *names: str) -> Files:
    """Two chains of two ConfigMaps, and plain ones of these names."""
    chains = {f"{name}.json": _labelled(instance(lane, name), name) for name in ("one", "three")}
    return {
        "chain.json": graph(lane, CHAIN),
        **chains,
        **{f"{name}.json": plain(lane, name, text=name) for name in names},
    }


def _labelled(text: str, name: str) -> str:
    manifest = json.loads(text)
    return json.dumps({**manifest, "metadata": {**manifest["metadata"], "labels": {"name": name}}})


def _engage(lane: Lane) -> list[Commit]:
    """Without a CRD, which takes seconds to go."""
    files = {**_placements(), **{f"{name}.json": plain(lane, name, text=name) for name in ("p", "q")}}
    return [{"git": files}, {"git": {**files, **_cluster(lane)}}]


def _place(lane: Lane) -> list[Commit]:
    """A chain is placed here too, one plain object goes, and another one comes."""
    placements = _placements()
    return [
        {"git": {**placements, **_content(lane, "p", "q"), **_cluster(lane)}},
        {"git": {**placements, **_content(lane, "p", "r"), **_cluster(lane, one="wanted")}},
    ]


def _unplace(on_unmatch: str) -> Callable[[Lane], Sequence[Commit]]:
    def commits(lane: Lane) -> list[Commit]:
        files = {**_placements(on_unmatch), **_content(lane, "p")}
        return [{"git": {**files, **_cluster(lane, one="wanted")}}, {"git": {**files, **_cluster(lane)}}]

    return commits


def _remove(on_remove: str) -> Callable[[Lane], Sequence[Commit]]:
    def commits(lane: Lane) -> list[Commit]:
        files = {**_placements(), **_content(lane, "p")}
        return [{"git": {**files, **_cluster(lane, on_remove, one="wanted")}}, {"git": files}]

    return commits


def _declare_again(lane: Lane) -> list[Commit]:
    declared, removed = _remove("Delete")(lane)
    return [declared, removed, declared]


REBORN: Final = ("configmaps", "chains", "controllerrevisions")
"""An instance that is being deleted cannot be kept: it goes, with its record, and comes back to its members, as one that a person deleted."""

FLEET_SCENARIOS: Final = (
    Scenario("engage", _engage, fresh=True),
    Scenario("place", _place),
    Scenario("unplace, Delete", _unplace("Delete")),
    Scenario("unplace, Orphan", _unplace("Orphan")),
    Scenario("remove, Delete", _remove("Delete")),
    Scenario("remove, Orphan", _remove("Orphan")),
    Scenario("remove, then declare again", _declare_again, recreated=REBORN, parents_may_vanish=True),
)

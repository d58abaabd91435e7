"""Live members made by hand, and the wave loop over the real `applier.plan.prune_decision.prune_candidates`: nothing but metadata, as a list shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from applier.cluster import CONTENT_MANAGER, Discovery, Object
from applier.plan.prune_candidate import PruneCandidate, PruneOutcome, PruneProtection
from applier.plan.prune_decision import RemovalPolicy, index_dependents, prune_candidates
from applier.state.observed import Observed
from renderer import well_known
from renderer.catalog.unreadable_files import UnreadableFiles
from renderer.identity import GroupKind, ObjectKey, key_hash
from renderer.render.model import RenderedApplySet

PARENT = ObjectKey("g.test", "Link", "default", "x")
SET = RenderedApplySet(parent=PARENT, definition="links")
OTHER = RenderedApplySet(parent=PARENT._replace(name="other"), definition="links")
MINE: Object = {"f:metadata": {"f:labels": {f"f:{well_known.PART_OF}": {}}}}


def key(name: str, kind: str = "ConfigMap", group: str = "") -> ObjectKey:
    return ObjectKey(group, kind, "" if kind in {"Namespace", "CustomResourceDefinition"} else "default", name)


def member(
    name: str,
    *needs: str,
    level: int = 0,
    kind: str = "ConfigMap",
    recorded: bool = True,
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    terminating: bool = False,
    proven: bool = True,
    node: str = "",
    file: str = "",
    of: RenderedApplySet = SET,
) -> Object:
    """A member that records dependencies on `needs` (names of ConfigMaps; `~` marks one that its revision dropped)."""
    group = "apiextensions.k8s.io" if kind == "CustomResourceDefinition" else ""
    itself = key(name, kind, group)
    deps = sorted(key_hash(key(other.removesuffix("~"))) + ("~" if other.endswith("~") else "") for other in needs)
    record = {
        well_known.LEVEL: str(level),
        well_known.DEPS: ",".join(deps),
        well_known.SELF: key_hash(itself),
        well_known.NODE_ID: node or name,
    }
    metadata: Object = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "labels": {well_known.PART_OF: of.id},
        "annotations": {
            **(record if recorded else {}),
            **({well_known.SOURCE_FILE: file} if file else {}),
            **(annotations or {}),
        },
        "managedFields": [
            {"manager": CONTENT_MANAGER if proven else "kubectl", "operation": "Apply", "fieldsV1": MINE}
        ],
    }
    if itself.namespace:
        metadata["namespace"] = itself.namespace
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    if terminating:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "metadata": metadata}


def judge(
    live: Iterable[Object],
    *,
    desired: Iterable[str] = (),
    unsettled: Sequence[PruneProtection] = (),
    unreadable: UnreadableFiles | None = None,
    hold: str = "",
    release: bool = False,
) -> dict[str, PruneCandidate]:
    """One wave: the orphans of `SET` by name, in their order."""
    observed = Observed(Discovery({})).with_objects(live)
    found = prune_candidates(
        SET,
        observed,
        desired_keys={key(name): SET.id for name in desired},
        protections=unsettled,
        dependents=index_dependents(observed, {SET.id, OTHER.id}),
        unreadable=unreadable,
        policy=RemovalPolicy(release=release, hold_message=hold),
    )
    return {orphan.member.key.name: orphan for orphan in found}


@dataclass
class Waves:
    """Deletes wave after wave until nothing may go; `stuck` members stay terminating. `order` is what was deleted or released, wave by wave."""

    live: dict[str, Object]
    desired: frozenset[str] = frozenset()
    stuck: frozenset[str] = frozenset()
    order: list[list[str]] = field(default_factory=list)

    def run(self, *, most: int = 60) -> None:
        for _ in range(most):
            allowed = [
                name for name, orphan in judge(self.live.values(), desired=self.desired).items() if orphan.allowed
            ]
            if not allowed:
                return
            self.order.append(allowed)
            for name in allowed:
                self.remove(name)
        raise AssertionError(f"no end after {most} waves: {self.order[-3:]}")

    def remove(self, name: str) -> None:
        if name in self.stuck:
            going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["stuck"]}
            self.live[name] = {**self.live[name], "metadata": {**self.live[name]["metadata"], **going}}
        else:
            del self.live[name]


def unsettled(name: str, *, known: bool = True, kind: str = "ConfigMap") -> PruneProtection:
    return PruneProtection(name, GroupKind("", kind), key(name, kind) if known else None, waits_for_deletion=False)


__all__ = ["PruneOutcome", "Waves", "judge", "key", "member", "unsettled"]

"""A maintenance window as a value, and the objects of a rendering that windows can select."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import IntEnum, StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from applier.cluster import LOCAL_CLUSTER
from applier.plan.model import Operation
from gitops.windows.occurrences import WindowTimeline
from renderer.errors import SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind
from renderer.kinds import CRD
from renderer.label_selector import LabelSelector
from renderer.render.model import RenderedApplySet, RenderedNode, Rendering, id_in_definition

if TYPE_CHECKING:  # the compiler reads YAML, which commands without files do not pay for
    from renderer.definition.compile import Definition


class WindowKind(StrEnum):
    ALLOW = "Allow"
    DENY = "Deny"


WINDOW_OPERATIONS: Final = (Operation.CREATE, Operation.UPDATE, Operation.PRUNE, Operation.HEAL)
"""What `verbs` may name."""


class Openness(StrEnum):
    OPEN = "Open"
    CLOSED = "Closed"


class Drain(IntEnum):
    """What may be finished after closing, the strictest first. Each allows what those before it allow."""

    NONE = 0
    UNIT = 1
    LEVEL = 2
    INSTANCE = 3
    ROLLOUT = 4

    @property
    def is_limited(self) -> bool:
        """Return whether new writes are sent after closing, so that `overrunLimit` has to end them."""
        return self >= Drain.LEVEL

    @property
    def may_end_halfway(self) -> bool:
        """Return whether an instance that has begun may be left between two levels when the window closes."""
        return self < Drain.INSTANCE


LOCAL: Final = LOCAL_CLUSTER
"""The name of a cluster that nobody has named."""


@dataclass(frozen=True, slots=True)
class WindowTarget:
    """What is to be written. `namespace` is empty outside namespaces, `cluster` is the name that the configuration gives the cluster;
    `rgd` is the name of the definition, `node` the id of the resource (one for
    all items of a collection) and `labels` are those of the instance: all three empty for a plain object. The CRD of a definition has `rgd` alone.
    """

    kind: GroupKind
    namespace: str
    cluster: str
    rgd: str = ""
    node: str = ""
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class WindowSelector:
    """AND between fields, OR inside; None governs everything. Names may hold `*`."""

    clusters: tuple[str, ...] | None = None
    namespaces: tuple[str, ...] | None = None
    rgds: tuple[str, ...] | None = None
    nodes: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    instances: LabelSelector | None = None

    def matches(self, target: WindowTarget) -> bool:
        return (
            matches_any(self.clusters, target.cluster)
            and matches_any(self.namespaces, target.namespace)
            and matches_any(self.rgds, target.rgd)
            and matches_any(self.nodes, target.node)
            and (matches_any(self.kinds, target.kind.kind) or matches_any(self.kinds, str(target.kind)))
            and (self.instances is None or (target.labels is not None and self.instances.matches(target.labels)))
        )


def matches_any(patterns: tuple[str, ...] | None, name: str) -> bool:
    """Return whether a pattern names `name`; None names everything.

    No pattern, not even `*`, names the empty text: the target has no such part.
    """
    return patterns is None or (name != "" and any(fnmatchcase(name, pattern) for pattern in patterns))


@dataclass(frozen=True, slots=True)
class Window:
    """A `PropagationWindow`, valid. In the last `cutoff` of an Allow nothing new is started. `by_name` windows govern only where an
    expression or a wave names them. `final`: no break-glass passes it.
    """

    name: str
    kind: WindowKind
    zone: ZoneInfo
    timeline: WindowTimeline
    selector: WindowSelector
    operations: frozenset[Operation]
    cutoff: timedelta
    drain: Drain
    overrun_limit: timedelta
    forbids_break_glass: bool
    by_name: bool
    description: str
    ticket: str
    origin: SourceLocation

    def governs(self, target: WindowTarget, operation: Operation) -> bool:
        return not self.by_name and operation in self.operations and self.selector.matches(target)


def list_targets(
    rendering: Rendering, definitions: Mapping[GroupKind, Definition], cluster: str
) -> Iterator[WindowTarget]:
    """Return all targets, in the cluster of this name; what has no place yet, because it waits for data, is left out."""
    crds = {definition.crd["metadata"]["name"]: definition.name for definition in definitions.values()}
    for rendered in rendering.sets:
        for node in rendered.nodes:
            if node.key and not node.external:
                yield (
                    _declared_target(node, definitions, crds, cluster)
                    if rendered.is_source
                    else _member_target(node, rendered, definitions, cluster)
                )


def _declared_target(
    node: RenderedNode, definitions: Mapping[GroupKind, Definition], crds: Mapping[str, str], cluster: str
) -> WindowTarget:
    """An object of the source itself: an instance, the CRD of a definition, or a plain object."""
    assert node.key
    if definition := definitions.get(node.group_kind):
        labels = node.manifest["metadata"].get("labels") or {}
        return WindowTarget(node.group_kind, node.key.namespace, cluster, rgd=definition.name, labels=labels)
    rgd = crds.get(node.key.name, "") if node.group_kind == CRD else ""
    return WindowTarget(node.group_kind, node.key.namespace, cluster, rgd=rgd)


def _member_target(
    node: RenderedNode, rendered: RenderedApplySet, definitions: Mapping[GroupKind, Definition], cluster: str
) -> WindowTarget:
    assert node.key
    definition = definitions.get(rendered.parent.group_kind)
    return WindowTarget(
        node.group_kind,
        node.key.namespace,
        cluster,
        rgd=definition.name if definition else "",
        node=id_in_definition(node.id),
        labels=rendered.manifest["metadata"].get("labels") or {},
    )

"""A maintenance window as a value, and the targets of a rendering that windows can select."""

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

if TYPE_CHECKING:  # The compiler imports the YAML parser, which commands without files need not load.
    from renderer.definition.compile import Definition


class WindowKind(StrEnum):
    """Effect of an active window: changes may start, or may not start."""

    ALLOW = "Allow"
    DENY = "Deny"


WINDOW_OPERATIONS: Final = (Operation.CREATE, Operation.UPDATE, Operation.PRUNE, Operation.HEAL)
"""Operations that `verbs` of a window can name."""


class Openness(StrEnum):
    """Default answer of a source for a target about which no window decides."""

    OPEN = "Open"
    CLOSED = "Closed"


class Drain(IntEnum):
    """Scope that may finish after a window has closed, in the order from strictest to widest.

    Each scope includes the scopes before it.
    """

    NONE = 0
    UNIT = 1
    LEVEL = 2
    INSTANCE = 3
    ROLLOUT = 4

    @property
    def is_limited(self) -> bool:
        """Return whether new writes may start after the window has closed, until `overrunLimit` ends them."""
        return self >= Drain.LEVEL

    @property
    def may_end_halfway(self) -> bool:
        """Return whether an instance that has begun may be left between two levels when the window closes."""
        return self < Drain.INSTANCE


LOCAL: Final = LOCAL_CLUSTER
"""Name of a cluster for which the configuration sets no name."""


@dataclass(frozen=True, slots=True)
class WindowTarget:
    """Properties of an object to write, by which windows select the object.

    A plain object has neither `rgd` nor `node` nor `labels`. The CRD of a definition has `rgd`, but neither `node` nor
    `labels`.
    """

    kind: GroupKind
    namespace: str
    """Namespace, or an empty string for a cluster-scoped object."""
    cluster: str
    """Name that the configuration gives the cluster."""
    rgd: str = ""
    """Name of the definition."""
    node: str = ""
    """Id of the node, the same for all nodes of a collection, or an empty string for the instance itself."""
    labels: Mapping[str, str] | None = None
    """Labels of the instance."""


@dataclass(frozen=True, slots=True)
class WindowSelector:
    """Selection of targets. Every field must match. A field matches if one of its entries matches.

    A field that is None matches every target. Names may contain `*`.
    """

    clusters: tuple[str, ...] | None = None
    namespaces: tuple[str, ...] | None = None
    rgds: tuple[str, ...] | None = None
    nodes: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    instances: LabelSelector | None = None

    def matches(self, target: WindowTarget) -> bool:
        """Return whether every field of the selector matches `target`."""
        return (
            matches_any(self.clusters, target.cluster)
            and matches_any(self.namespaces, target.namespace)
            and matches_any(self.rgds, target.rgd)
            and matches_any(self.nodes, target.node)
            and (matches_any(self.kinds, target.kind.kind) or matches_any(self.kinds, str(target.kind)))
            and (self.instances is None or (target.labels is not None and self.instances.matches(target.labels)))
        )


def matches_any(patterns: tuple[str, ...] | None, name: str) -> bool:
    """Return whether a pattern in `patterns` matches `name`, or `patterns` is None.

    If `name` is empty, no pattern matches, not even `*`, because the target lacks the property.
    """
    return patterns is None or (name != "" and any(fnmatchcase(name, pattern) for pattern in patterns))


@dataclass(frozen=True, slots=True)
class Window:
    """Valid `PropagationWindow` object in Git."""

    name: str
    kind: WindowKind
    zone: ZoneInfo
    """Time zone of the local times in the schedule."""
    timeline: WindowTimeline
    selector: WindowSelector
    operations: frozenset[Operation]
    """Operations that the window governs."""
    cutoff: timedelta
    """Last part of each occurrence of an Allow, in which no change starts."""
    drain: Drain
    """Scope that may finish after the closing."""
    overrun_limit: timedelta
    """Longest time after the closing in which changes that began before the closing may finish."""
    forbids_break_glass: bool
    by_name: bool
    """True if the window governs only where an expression or a wave names it. Then its selector has no effect."""
    description: str
    ticket: str
    origin: SourceLocation

    def governs(self, target: WindowTarget, operation: Operation) -> bool:
        """Return whether the window decides about `operation` on `target`."""
        return not self.by_name and operation in self.operations and self.selector.matches(target)


def list_targets(
    rendering: Rendering, definitions: Mapping[GroupKind, Definition], cluster: str
) -> Iterator[WindowTarget]:
    """Yield all targets of `rendering`, except nodes whose name or namespace waits for data.

    Args:
        cluster: name by which windows select the cluster.
    """
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
    """Return the target for `node`, which Git declares: an instance, the CRD of a definition, or a plain object.

    Args:
        crds: names of definitions by name of their CRD.
    """
    assert node.key
    if definition := definitions.get(node.group_kind):
        labels = node.manifest["metadata"].get("labels") or {}
        return WindowTarget(node.group_kind, node.key.namespace, cluster, rgd=definition.name, labels=labels)
    rgd = crds.get(node.key.name, "") if node.group_kind == CRD else ""
    return WindowTarget(node.group_kind, node.key.namespace, cluster, rgd=rgd)


def _member_target(
    node: RenderedNode, rendered: RenderedApplySet, definitions: Mapping[GroupKind, Definition], cluster: str
) -> WindowTarget:
    """Return the target for `node` of the instance in `rendered`."""
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

"""What windows may govern in a rendering: a target for every object that would be written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gitops.windows.window import WindowTarget
from renderer.definition.compile import Definition
from renderer.identity import GroupKind
from renderer.kinds import CRD
from renderer.render.model import RenderedApplySet, RenderedNode, Rendering, id_in_definition


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

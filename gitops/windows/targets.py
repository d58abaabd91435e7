"""What windows may govern in a rendering: a target for every object that would be written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gitops.windows.window import Target
from renderer.definition.compile import Definition
from renderer.identity import GroupKind
from renderer.kinds import CRD
from renderer.render.model import Bundle, RenderedNode, RenderedSet, id_in_definition


def targets(bundle: Bundle, definitions: Mapping[GroupKind, Definition], cluster: str) -> Iterator[Target]:
    """Return all targets, in the cluster of this name; what has no place yet, because it waits for data, is left out."""
    crds = {definition.crd["metadata"]["name"]: definition.name for definition in definitions.values()}
    for rendered in bundle.sets:
        for node in rendered.nodes:
            if node.key and not node.external:
                yield (
                    _declared(node, definitions, crds, cluster)
                    if rendered.is_source
                    else _member(node, rendered, definitions, cluster)
                )


def _declared(
    node: RenderedNode, definitions: Mapping[GroupKind, Definition], crds: Mapping[str, str], cluster: str
) -> Target:
    """An object of the source itself: an instance, the CRD of a definition, or a plain object."""
    assert node.key
    if definition := definitions.get(node.group_kind):
        labels = node.manifest["metadata"].get("labels") or {}
        return Target(node.group_kind, node.key.namespace, cluster, rgd=definition.name, labels=labels)
    rgd = crds.get(node.key.name, "") if node.group_kind == CRD else ""
    return Target(node.group_kind, node.key.namespace, cluster, rgd=rgd)


def _member(
    node: RenderedNode, rendered: RenderedSet, definitions: Mapping[GroupKind, Definition], cluster: str
) -> Target:
    assert node.key
    definition = definitions.get(rendered.parent.group_kind)
    return Target(
        node.group_kind,
        node.key.namespace,
        cluster,
        rgd=definition.name if definition else "",
        node=id_in_definition(node.id),
        labels=rendered.manifest["metadata"].get("labels") or {},
    )

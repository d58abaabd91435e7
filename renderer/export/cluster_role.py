"""The ClusterRole that a definition needs: rights for its own kind and for the kinds of its resources."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from renderer import well_known
from renderer.definition.compile import Definition
from renderer.identity import GroupKind, Manifest
from renderer.schema.plurals import plural

AGGREGATION_LABELS: Final = {well_known.AGGREGATE: "levelgate"}
"""The label of the ClusterRoles that `deploy/kubernetes.yaml` aggregates."""

_READ_VERBS: Final = ("get", "list", "watch")
_WRITE_VERBS: Final = (*_READ_VERBS, "create", "patch", "delete")


def build_cluster_role(definition: Definition) -> Manifest:
    """Return a ClusterRole for one definition.

    If `definition` does not define the kind of a resource, kro's rules determine the plural of the kind.
    """
    written_kinds = {node.group_kind for node in definition.nodes if not node.external}
    read_kinds = {node.group_kind for node in definition.nodes if node.external} - written_kinds
    group, names = definition.group_kind.group, definition.crd["spec"]["names"]
    rules = [
        {"apiGroups": [group], "resources": [names["plural"]], "verbs": list(_WRITE_VERBS)},
        {"apiGroups": [group], "resources": [f"{names['plural']}/status"], "verbs": ["patch"]},
        *_rules(written_kinds - {definition.group_kind}, _WRITE_VERBS),
        *_rules(read_kinds, _READ_VERBS),
    ]
    metadata = {"name": f"levelgate-{definition.name}", "labels": AGGREGATION_LABELS}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}


def _rules(kinds: set[GroupKind], verbs: tuple[str, ...]) -> list[Manifest]:
    """Return one rule for each API group."""
    return [
        {"apiGroups": [group], "resources": [plural(kind.kind) for kind in group_kinds], "verbs": list(verbs)}
        for group, group_kinds in groupby(sorted(kinds), key=lambda kind: kind.group)
    ]

"""What whoever serves a definition has to be allowed in a cluster: the kind that it defines, and those that its templates name."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from renderer import well_known
from renderer.definition.compile import Definition
from renderer.identity import GroupKind, Manifest
from renderer.schema.plurals import plural

AGGREGATED: Final = {well_known.AGGREGATE: "levelgate"}
"""The label of ClusterRoles that `deploy/kubernetes.yaml` gathers."""

_READ: Final = ("get", "list", "watch")
_WRITE: Final = (*_READ, "create", "patch", "delete")


def cluster_role(definition: Definition) -> Manifest:
    """A ClusterRole for one definition. Plurals of kinds that it does not define are formed as kro forms them."""
    written = {node.group_kind for node in definition.nodes if not node.external}
    read = {node.group_kind for node in definition.nodes if node.external} - written
    group, names = definition.group_kind.group, definition.crd["spec"]["names"]
    rules = [
        {"apiGroups": [group], "resources": [names["plural"]], "verbs": list(_WRITE)},
        {"apiGroups": [group], "resources": [f"{names['plural']}/status"], "verbs": ["patch"]},
        *_rules(written - {definition.group_kind}, _WRITE),
        *_rules(read, _READ),
    ]
    metadata = {"name": f"levelgate-{definition.name}", "labels": AGGREGATED}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}


def _rules(kinds: set[GroupKind], verbs: tuple[str, ...]) -> list[Manifest]:
    """One for each API group."""
    return [
        {"apiGroups": [group], "resources": [plural(one.kind) for one in found], "verbs": list(verbs)}
        for group, found in groupby(sorted(kinds), key=lambda one: one.group)
    ]

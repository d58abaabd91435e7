"""A report of only what somebody names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gitops.plan.report import PlannedChange, Report
from gitops.records.references import Ref
from renderer.identity import ObjectKey
from renderer.render.model import id_in_definition
from renderer.schema.plurals import plural


def filter_report(report: Report, refs: Sequence[Ref], namespace: str = "") -> Report:
    """The changes of these instances, their nodes or these objects; the hash stays that of the whole plan. All of it without `refs`."""
    if not refs:
        return report
    selected = tuple(change for change in report.changes if any(_is_selected(change, ref, namespace) for ref in refs))
    return replace(report, changes=selected, steps=(), warnings=(), moves=(), unchanged=0)


def _is_selected(change: PlannedChange, ref: Ref, namespace: str) -> bool:
    if _matches_ref(change.instance, ref, namespace):
        return ref.node in {"", change.node, id_in_definition(change.node)}
    return not ref.node and _matches_ref(change.key, ref, namespace)


def _matches_ref(key: ObjectKey | None, ref: Ref, namespace: str) -> bool:
    if key is None or key.name != ref.name or (namespace and key.namespace and key.namespace != namespace):
        return False
    kind, type_name = key.kind.lower(), ref.type.lower()
    return type_name in {name for kind_name in (kind, plural(kind)) for name in (kind_name, f"{kind_name}.{key.group}")}

"""Inventory of an ApplySet on its parent: scope, keys and their checks (KEP-3659, "Usage").

Invariant: at every moment the scope on the parent covers every live member. So the union of old and new scope is
written before the first member. The scope shrinks only after the last member of a kind or namespace is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any

from applier.applyset import kro
from applier.cluster import CONTENT_MANAGER, PARENT_MANAGER, Object
from applier.errors import ApplierError
from applier.state.managed_fields import apply_entry, owned_metadata
from applier.state.observed import annotation, label, number
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey, applyset_id

TOOL = "levelgate"

_SECTIONS = ("labels", "annotations")

_CREATED_WITH = frozenset(
    {
        well_known.PARENT_ID,
        well_known.TOOLING,
        well_known.GROUP_KINDS,
        well_known.NAMESPACES,
        well_known.TARGET,
        well_known.EPOCH,
    }
)
"""Labels and annotations that a new instance has from its first write. The record of completed Jobs is not among them:
it has to be removable, which takes a single owner.
"""

BOOKKEEPING_PATHS = frozenset(f".metadata.{section}.{name}" for section in _SECTIONS for name in _CREATED_WITH)
"""Paths of these keys, as the server's conflicts name them."""


class ForeignSet(ApplierError):
    """A parent that belongs to another tool, or has damaged keys. Nothing of its set may be written."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Group-kinds and namespaces of the members of a set, without the namespace of the parent."""

    kinds: frozenset[GroupKind] = frozenset()
    namespaces: frozenset[str] = frozenset()

    def __or__(self, other: Scope) -> Scope:
        return Scope(self.kinds | other.kinds, self.namespaces | other.namespaces)

    def __ge__(self, other: Scope) -> bool:
        return self.kinds >= other.kinds and self.namespaces >= other.namespaces


def scope_of(members: Iterable[ObjectKey], parent: ObjectKey) -> Scope:
    """Return the scope that exactly covers *members* of the set of *parent*."""
    scope = scope_covering(members)
    return Scope(scope.kinds, scope.namespaces - {parent.namespace})


def scope_covering(keys: Iterable[ObjectKey]) -> Scope:
    """Return the kinds and namespaces of these objects."""
    keys = list(keys)
    return Scope(frozenset(key.group_kind for key in keys), frozenset(key.namespace for key in keys if key.namespace))


def tool_of(parent: Object) -> str:
    """Return the tool that manages the set of a parent, without its version; empty where none is declared."""
    return annotation(parent, well_known.TOOLING).rpartition("/")[0]


def epoch_of(parent: Object | None) -> int:
    """Return the term of leadership in which writes to the set last began; 0 where none is recorded."""
    return (number(annotation(parent, well_known.EPOCH)) if parent else None) or 0


def target_of(parent: Object | None) -> int:
    """Return the revision granted to an instance, as recorded on it; 0 where none is recorded."""
    return (number(annotation(parent, well_known.TARGET)) if parent else None) or 0


def is_intact(parent: Object) -> bool:
    """Return whether id and scope are as we applied them.

    Another writer who changes one of them becomes its owner, even if the value is changed back later.
    """
    if "managedFields" not in parent["metadata"]:
        return True
    entries = [apply_entry(parent, manager) for manager in (PARENT_MANAGER, CONTENT_MANAGER)]
    owned = {name for entry in entries for section in _SECTIONS for name in owned_metadata(entry, section)}
    return owned >= {well_known.PARENT_ID, well_known.GROUP_KINDS, well_known.NAMESPACES}


def read_scope(parent: Object, *, inherited_tools: Collection[str] = ()) -> Scope:
    """Return the scope written on a parent; empty where it has none yet. Sets of *inherited_tools* are read as ours.

    Raises: ForeignSet if the parent is not ours, or its keys do not verify.
    """
    key = ObjectKey.from_manifest(parent)
    if not label(parent, well_known.PARENT_ID):
        return Scope()
    if label(parent, well_known.PARENT_ID) != applyset_id(key):
        raise ForeignSet(
            f"{key}: the label {well_known.PARENT_ID} does not fit the object; "
            f"correct it to {applyset_id(key)} or remove it"
        )
    tool = tool_of(parent)
    if tool not in {TOOL, *inherited_tools}:
        raise ForeignSet(
            f"{key}: managed by tooling {tool or 'unknown'!r} instead of {TOOL!r}; {_takeover_advice(tool)}"
        )
    return _parse_scope(annotation(parent, well_known.GROUP_KINDS), annotation(parent, well_known.NAMESPACES))


def parent_body(
    parent: ObjectKey,
    api_version: str,
    scope: Scope,
    *,
    version: str,
    target: int = 0,
    epoch: int = 0,
    completed: str = "",
) -> Object:
    """Return the keys that the field manager of parents applies: id, tooling, scope, and the optional records.

    *target* is the revision granted to an instance, *epoch* the term of leadership, and *completed* the record of
    `applier.applyset.completed_jobs`.
    """
    optional_annotations = {well_known.TARGET: target, well_known.EPOCH: epoch, well_known.COMPLETED: completed}
    metadata = {
        "name": parent.name,
        "namespace": parent.namespace,
        "labels": {well_known.PARENT_ID: applyset_id(parent)},
        "annotations": {
            well_known.TOOLING: f"{TOOL}/v{version}",
            well_known.GROUP_KINDS: ",".join(sorted(map(str, scope.kinds))),
            well_known.NAMESPACES: ",".join(sorted(scope.namespaces)),
            **{name: str(value) for name, value in optional_annotations.items() if value},
        },
    }
    given_metadata = {name: value for name, value in metadata.items() if value}
    return {"apiVersion": api_version, "kind": parent.kind, "metadata": given_metadata}


def with_finalizer(body: Object) -> Object:
    """Return a write of a parent with our finalizer, which keeps a deleted instance until its members are pruned."""
    return _with_metadata(body, {}, [well_known.FINALIZER])


def with_precondition(body: Object, *, uid: str = "", resource_version: str = "") -> Object:
    """Return a write that the server refuses for another object, or another version; empty values are no condition."""
    condition = {name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
    return {**body, "metadata": {**body["metadata"], **condition}}


def with_first_bookkeeping(body: Object, parent_metadata: Mapping[str, Any]) -> Object:
    """Return the first write of an instance with the keys of `parent_body`, so that a single request creates both.

    The scope is recorded before any member is written (KEP-3659).
    """
    return _with_metadata(
        body, {name: dict(parent_metadata.get(name) or {}) for name in _SECTIONS}, [well_known.FINALIZER]
    )


def with_kept_bookkeeping(body: Object, live: Object) -> Object:
    """Return a write of an instance's content that keeps the keys of its first write.

    An apply gives up the fields that it leaves out (KEP-555). Values are those of the live object. A field that the
    manager of parents has changed by force is no longer ours, and is left out.
    """
    entry = apply_entry(live, CONTENT_MANAGER)
    live_metadata = live["metadata"]
    kept = {
        section: {
            name: live_metadata[section][name] for name in owned_metadata(entry, section) if name in _CREATED_WITH
        }
        for section in _SECTIONS
    }
    has_finalizer = well_known.FINALIZER in owned_metadata(entry, "finalizers")
    return _with_metadata(body, kept, [well_known.FINALIZER] if has_finalizer else [])


def without_lost_bookkeeping(body: Object, paths: Collection[str]) -> Object:
    """Return a write without the bookkeeping at these paths of a conflict: the manager of parents has changed it."""
    metadata = dict(body["metadata"])
    for section in _SECTIONS:
        values = metadata.get(section) or {}
        metadata[section] = {name: text for name, text in values.items() if f".metadata.{section}.{name}" not in paths}
    return {**body, "metadata": metadata}


def _with_metadata(body: Object, sections: Mapping[str, Mapping[str, str]], finalizers: list[str]) -> Object:
    metadata = dict(body["metadata"])
    for section, values in sections.items():
        if values:
            metadata[section] = {**(metadata.get(section) or {}), **values}
    if added := [name for name in finalizers if name not in (metadata.get("finalizers") or ())]:
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), *added]
    return {**body, "metadata": metadata}


def _takeover_advice(tool: str) -> str:
    if tool == kro.TOOL:
        return f"stop {tool}, then take its sets over with --adopt IfUnowned:{tool}"
    return f"to hand it over set the annotation {well_known.TOOLING} to {TOOL}/v0"


@lru_cache(maxsize=1024)
def _parse_scope(kinds: str, namespaces: str) -> Scope:
    """Return the scope from its two annotations. Cached, since all instances of a definition have equal scopes."""
    return Scope(frozenset(map(GroupKind.parse, _split_list(kinds))), frozenset(_split_list(namespaces)))


def _split_list(text: str) -> list[str]:
    return text.split(",") if text else []

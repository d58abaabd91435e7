"""Inventory of an ApplySet, stored on the parent: the scope, further keys, and their checks (KEP-3659, "Usage").

The scope lists the kinds and namespaces in which the set may have members. Invariant: at every moment, the scope on
the parent covers every live member. So before Levelgate writes the first member, it records the union of the old and
the new scope on the parent. After the last member of a kind or namespace is gone, Levelgate removes the kind or
namespace from the scope.
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
"""Labels and annotations that a new instance has from its first write. The record of completed Jobs is not among them,
because Levelgate can remove an annotation only if the annotation has a single owner.
"""

BOOKKEEPING_PATHS = frozenset(f".metadata.{section}.{name}" for section in _SECTIONS for name in _CREATED_WITH)
"""Paths of the keys in `_CREATED_WITH`, in the form of the server's conflict messages."""


class ForeignSet(ApplierError):
    """Refusal to write the set of a parent that belongs to another tool, or whose keys are damaged."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Group-kinds and namespaces in which a set may have members.

    The namespace of the parent always belongs to the scope, so `namespaces` omits that namespace.
    """

    kinds: frozenset[GroupKind] = frozenset()
    namespaces: frozenset[str] = frozenset()

    def __or__(self, other: Scope) -> Scope:
        # Most scopes are equal. A plan combines scopes several times for each set, so new values would need memory.
        if self >= other:
            return self
        return other if other >= self else Scope(self.kinds | other.kinds, self.namespaces | other.namespaces)

    def __ge__(self, other: Scope) -> bool:
        return self.kinds >= other.kinds and self.namespaces >= other.namespaces


def scope_of(members: Iterable[ObjectKey], parent: ObjectKey) -> Scope:
    """Return the scope that covers exactly the kinds and namespaces of `members`, for the set of `parent`."""
    scope = scope_covering(members)
    return Scope(scope.kinds, scope.namespaces - {parent.namespace})


def scope_covering(keys: Iterable[ObjectKey]) -> Scope:
    """Return the scope that contains the kinds and namespaces of the objects `keys`."""
    keys = list(keys)
    return Scope(frozenset(key.group_kind for key in keys), frozenset(key.namespace for key in keys if key.namespace))


def tool_of(parent: Object) -> str:
    """Return the tool that manages the set of `parent`, without its version, or an empty string if no tool does."""
    return annotation(parent, well_known.TOOLING).rpartition("/")[0]


def epoch_of(parent: Object | None) -> int:
    """Return the term of leadership that `parent` records for the last write to its set, or 0 if it records no term."""
    return (number(annotation(parent, well_known.EPOCH)) if parent else None) or 0


def target_revision_of(parent: Object | None) -> int:
    """Return the granted revision that the instance `parent` records, or 0 if `parent` records no revision."""
    return (number(annotation(parent, well_known.TARGET)) if parent else None) or 0


def is_intact(parent: Object) -> bool:
    """Return whether the set id and the scope on `parent` are still as Levelgate applied them.

    If another writer changes the set id or the scope, this writer becomes the owner of the key. So even after the
    writer restores the value, the keys are not intact. If the server shows no managed fields, the keys count as
    intact.
    """
    if "managedFields" not in parent["metadata"]:
        return True
    entries = [apply_entry(parent, manager) for manager in (PARENT_MANAGER, CONTENT_MANAGER)]
    owned = {name for entry in entries for section in _SECTIONS for name in owned_metadata(entry, section)}
    return owned >= {well_known.PARENT_ID, well_known.GROUP_KINDS, well_known.NAMESPACES}


def read_scope(parent: Object, *, adoptable_tools: Collection[str] = ()) -> Scope:
    """Return the scope that `parent` records, or an empty scope if `parent` has no set id.

    If a tool in `adoptable_tools` manages the set, accept the set like a set of Levelgate.

    Raises: ForeignSet if the set id does not belong to `parent`, or if another tool manages the set.
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
    if tool not in {TOOL, *adoptable_tools}:
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
    """Return the labels and annotations of `parent` that the field manager of parents applies.

    Args:
        version: version of Levelgate.
        target: revision granted to an instance, or 0.
        epoch: term of leadership, or 0 without leader election.
        completed: record that `applier.applyset.completed_jobs` makes, or an empty string.
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
    """Return `body`, a write of a parent, with the finalizer of Levelgate.

    The finalizer keeps a deleted instance in the cluster until Levelgate has pruned the members of the instance.
    """
    return _with_metadata(body, {}, [well_known.FINALIZER])


def with_precondition(body: Object, *, uid: str = "", resource_version: str = "") -> Object:
    """Return `body` with a precondition: the server rejects the write of an object with another uid or version.

    If `uid` or `resource_version` is empty, the server does not check that value.
    """
    condition = {name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
    return {**body, "metadata": {**body["metadata"], **condition}}


def with_first_bookkeeping(body: Object, parent_metadata: Mapping[str, Any]) -> Object:
    """Return `body`, the first write of an instance, with `parent_metadata` and the finalizer of Levelgate.

    A single request creates the instance and its inventory. So Levelgate records the scope before the first member
    exists (KEP-3659).

    Args:
        parent_metadata: labels and annotations of `parent_body`.
    """
    return _with_metadata(
        body, {name: dict(parent_metadata.get(name) or {}) for name in _SECTIONS}, [well_known.FINALIZER]
    )


def with_kept_bookkeeping(body: Object, live: Object) -> Object:
    """Return `body`, a later write of an instance, with the bookkeeping of its first write.

    An apply removes the fields that it omits (KEP-555). So Levelgate sends the labels and annotations of the first
    write again, with the values of `live`. If the content manager no longer owns a key, Levelgate omits the key. After
    the manager of parents has changed a key by force, the content manager no longer owns the key.
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
    """Return `body` without the labels and annotations whose paths are in `paths`.

    Args:
        paths: paths of the conflicting keys of a refused apply, which the manager of parents has changed.
    """
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
    return f"to hand the set over, set the annotation {well_known.TOOLING} to {TOOL}/v0"


@lru_cache(maxsize=1024)
def _parse_scope(kinds: str, namespaces: str) -> Scope:
    """Return the scope from the annotations `kinds` and `namespaces`.

    All instances of a definition have equal scopes, so the function caches its results.
    """
    return Scope(frozenset(map(GroupKind.parse, _split_list(kinds))), frozenset(_split_list(namespaces)))


def _split_list(text: str) -> list[str]:
    return text.split(",") if text else []

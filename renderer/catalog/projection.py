"""A projection: a part of a catalog, as a separate catalog with mapped namespaces and patched objects.

A projection shares definitions and unchanged objects with the original catalog by identity. Every problem and object
keeps its place in Git. A projection keeps the rules (windows and policies) and drops the destinations.

A projection maps a namespace in three places: in `metadata.namespace` of an object, in the name of a Namespace, and in
the annotation `config.kubernetes.io/depends-on`. A namespaced object without a namespace counts as an object in
`default`. A projection does not map references in a spec, such as the subjects of a RoleBinding or the host name of a
Service. A projection does not map the namespaces that the resources of a definition name either. If a resource names no
namespace, the resource is in the namespace of its instance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from renderer import identity
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import DeclaredObject, FileContent, declared_key, find_object_mistakes
from renderer.definition.compile import Definition
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.graph.implied_edges import with_namespaces
from renderer.identity import GroupKind, Manifest, ObjectKey
from renderer.kinds import CRD, NAMESPACE, is_namespaced, scopes_of
from renderer.manifest_hash import without_server_fields
from renderer.merge_patch import apply_merge_patch
from renderer.phrasing import join_names


@dataclass(frozen=True, slots=True)
class ManifestPatch:
    """A JSON merge patch (RFC 7386) with its place in Git."""

    value: Mapping[str, Any]
    origin: SourceLocation


@dataclass(frozen=True, slots=True)
class ProjectedContent:
    """The objects and definitions that a projection selects, with patches and rejections."""

    objects: Collection[ObjectKey]
    """Keys of the selected objects, with the namespaces as they are in Git, before the mapping."""
    definitions: Collection[GroupKind]
    patches: Mapping[ObjectKey, tuple[ManifestPatch, ...]]
    """Patches of each object, in the order of application."""
    refused: Mapping[ObjectKey, str]
    """Objects that Levelgate may not apply, each with the reason. Levelgate keeps the live state of the objects."""
    keeps_left_out: bool = False
    """True if the selection is uncertain.

    For an uncertain selection, Levelgate keeps the live objects that the selection leaves out. Levelgate treats the
    live objects of an unreadable file in the same way.
    """


@dataclass(frozen=True)
class _ProjectedObject(DeclaredObject):
    """A changed object of a projection, with its original and its changes.

    If the original and the changes are the same in a later projection, the later projection reuses the object.
    """

    base: DeclaredObject = field(kw_only=True, compare=False, repr=False)
    changes: _Changes = field(kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class _Changes:
    """The changes that a projection makes to one object."""

    patches: tuple[ManifestPatch, ...]
    refused_reason: str
    namespaces: Mapping[str, str]
    """The whole mapping of the projection, from old to new namespace."""
    namespaced: bool


def scopes_in(catalog: Catalog) -> dict[GroupKind, bool]:
    """Return the kinds whose CRDs the commit contains, each with True if the kind is namespaced."""
    crds = [declared.manifest for declared in catalog.objects if declared.group_kind == CRD]
    crds += [crd for definition in catalog.definitions.values() for crd in (*definition.declared_crds, definition.crd)]
    return dict(scopes_of(crds))


def object_keys(catalog: Catalog, namespaced_by_kind: Mapping[GroupKind, bool]) -> list[ObjectKey]:
    """Return the key of each object of `catalog`, in order.

    Args:
        namespaced_by_kind: True for each namespaced kind, and False for any other kind.
    """
    namespaced = {kind: is_namespaced(kind, namespaced_by_kind) for kind in catalog.kinds}
    return [declared_key(declared, namespaced=namespaced[declared.group_kind]) for declared in catalog.objects]


def close_definitions(catalog: Catalog, kinds: Iterable[GroupKind]) -> frozenset[GroupKind]:
    """Return each kind of `kinds` that `catalog` defines, and the defined kinds among the resources of its definition.

    The function follows the kinds among resources transitively. A broken definition contributes the kinds of its
    outline.
    """
    known = catalog.definitions.keys() | catalog.broken.keys()
    found: set[GroupKind] = set()
    pending = [kind for kind in kinds if kind in known]
    while pending:
        kind = pending.pop()
        if kind not in found:
            found.add(kind)
            pending += made_kinds(catalog, kind) & known
    return frozenset(found)


def made_kinds(catalog: Catalog, kind: GroupKind) -> frozenset[GroupKind]:
    """Return the kinds of the resources of a definition. For a broken definition, return the kinds of its outline."""
    if definition := catalog.definitions.get(kind):
        return frozenset(node.group_kind for node in definition.nodes)
    outlines = (outline.node_kinds for outline in catalog.broken_outlines if outline.group_kind == kind)
    return frozenset().union(*filter(None, outlines))


def map_key(key: ObjectKey, namespaces: Mapping[str, str], namespaced_by_kind: Mapping[GroupKind, bool]) -> ObjectKey:
    """Return `key` with its namespace, or the name of a Namespace, mapped by `namespaces` (from old to new)."""
    field_name = _namespace_field(key, namespaced=is_namespaced(key.group_kind, namespaced_by_kind))
    namespace = getattr(key, field_name) if field_name else ""
    return key._replace(**{field_name: namespaces[namespace]}) if field_name and namespace in namespaces else key


def _namespace_field(key: ObjectKey, *, namespaced: bool) -> str:
    """Return the name of the part of `key` that is a namespace, or an empty text if no part is a namespace."""
    if namespaced:
        return "namespace"
    return "name" if key.group_kind == NAMESPACE else ""


def project(
    catalog: Catalog,
    content: ProjectedContent,
    *,
    namespaces: Mapping[str, str],
    namespaced_by_kind: Mapping[GroupKind, bool],
    previous: Catalog | None = None,
) -> Catalog:
    """Return `catalog` reduced to `content`, with its namespaces mapped.

    The result contains the problems of the selected content and of unreadable files. If patches or mappings lead to
    objects with one key, or to a forbidden object, the result contains a problem. The result reuses objects with the
    same changes from `previous`.

    Args:
        namespaces: The mapping from old to new namespaces.
        namespaced_by_kind: The mapping from which the caller made the keys of `content`.
        previous: The projection of an earlier commit.
    """
    known = (
        {id(projected.base): projected for projected in previous.objects if isinstance(projected, _ProjectedObject)}
        if previous
        else {}
    )
    keys = object_keys(catalog, namespaced_by_kind)
    kept = [(key, declared) for key, declared in zip(keys, catalog.objects, strict=True) if key in content.objects]
    objects: list[DeclaredObject] = []
    for key, declared in kept:
        changes = _Changes(
            content.patches.get(key, ()),
            content.refused.get(key, ""),
            namespaces,
            is_namespaced(key.group_kind, namespaced_by_kind),
        )
        objects.append(_change(declared, key, changes, known.get(id(declared))))
    definitions = {kind: definition for kind, definition in catalog.definitions.items() if kind in content.definitions}
    broken = {kind: origin for kind, origin in catalog.broken.items() if kind in content.definitions}
    problems = {
        *_problems_of(catalog, content, {id(declared) for _, declared in kept}),
        *_new_problems(objects),
        *_collisions(kept, objects, namespaced_by_kind),
    }
    is_whole = len(objects) == len(catalog.objects) and len(definitions) == len(catalog.definitions)
    is_same = is_whole and all(new is old for new, old in zip(objects, catalog.objects, strict=True))
    return replace(
        catalog,
        definitions=definitions,
        broken=broken,
        objects=catalog.objects if is_same else tuple(objects),
        problems=tuple(sorted(problems)),
        contents=_protecting_left_out(catalog, content, keys) if content.keeps_left_out else catalog.contents,
        destinations=(),
        change=catalog.change if is_same else None,
    )


def digest(catalog: Catalog) -> str:
    """Return a digest of a catalog's effect on a cluster.

    The digest ignores the commit, its author and message, and line numbers. File names count, because Levelgate
    recognises an object in an unreadable file by its file name.
    """
    calendars = catalog.calendars if catalog.rules else {}
    unreadable = sorted(catalog.unreadable_files)
    return identity.digest(
        {
            "source": catalog.source,
            "definitions": sorted(map(_describe_definition, catalog.definitions.values())),
            "broken": sorted([str(kind), origin.file] for kind, origin in catalog.broken.items()),
            "objects": sorted([declared.origin.file, declared.content_digest] for declared in catalog.objects),
            "rules": sorted([rule.origin.file, rule.content_digest] for rule in catalog.rules),
            "calendars": {file: identity.digest(data.hex()) for file, data in calendars.items()},
            "problems": sorted([problem.file, problem.path, problem.message] for problem in catalog.problems),
            "unreadable": unreadable,
            "files": sorted(catalog.contents) if unreadable else [],
        }
    )


def _describe_definition(definition: Definition) -> list[str]:
    # `Definition.digest` covers only the content that affects instances. The annotations of a definition affect its
    # CRD.
    manifest = identity.digest(definition.manifest)
    return [str(definition.group_kind), definition.name, definition.digest, manifest, definition.origin.file]


def _change(
    declared: DeclaredObject, key: ObjectKey, changes: _Changes, known: _ProjectedObject | None
) -> DeclaredObject:
    """Return `declared` with `changes` made.

    If `known` is the result of the same changes to `declared`, return `known`. If nothing changes, return `declared`.
    """
    if known is not None and known.base is declared and known.changes == changes:
        return known
    manifest: Manifest = declared.manifest
    for patch in changes.patches:
        manifest = apply_merge_patch(manifest, patch.value)
    manifest = without_server_fields(manifest) if changes.patches else manifest
    manifest = _with_namespaces(manifest, key, changes)
    if manifest is declared.manifest and not changes.refused_reason:
        return declared
    origins = join_names((patch.origin for patch in changes.patches), separator=" and ")
    how = f" (as patched by {origins})" if origins else " (after the mapping of namespaces)"
    mistakes = [] if declared.refused_reason else find_object_mistakes(manifest)
    reasons = [declared.refused_reason, changes.refused_reason]
    reasons += [f"{path}: {message}{how}" for path, message in mistakes]
    reason = "; ".join(filter(None, reasons))
    return _ProjectedObject(manifest, declared.origin, declared.document, reason, base=declared, changes=changes)


def _with_namespaces(manifest: Manifest, key: ObjectKey, changes: _Changes) -> Manifest:
    if not changes.namespaces:
        return manifest
    manifest = with_namespaces(manifest, changes.namespaces)
    field_name = _namespace_field(key, namespaced=changes.namespaced)
    if field_name and (name := getattr(key, field_name)) in changes.namespaces:
        manifest = {**manifest, "metadata": {**manifest["metadata"], field_name: changes.namespaces[name]}}
    return manifest


def _new_problems(objects: Iterable[DeclaredObject]) -> Iterator[Problem]:
    """Yield a problem for each object that a patch or a mapped namespace makes invalid.

    The function skips objects that are invalid in Git or that the caller of the projection rejected, because other
    problems report these objects.
    """
    for declared in objects:
        if isinstance(declared, _ProjectedObject) and not declared.base.refused_reason:
            reason = declared.refused_reason.removeprefix(declared.changes.refused_reason).removeprefix("; ")
            if reason:
                yield Problem(declared.origin.file, declared.origin.line, "", reason)


def _collisions(
    kept: Collection[tuple[ObjectKey, DeclaredObject]],
    objects: Iterable[DeclaredObject],
    namespaced_by_kind: Mapping[GroupKind, bool],
) -> Iterator[Problem]:
    """Yield a problem for each group of objects whose different keys become one key.

    As for duplicates in Git, Levelgate writes no object of a colliding group.
    """
    places: dict[ObjectKey, dict[ObjectKey, SourceLocation]] = {}
    for (key, declared), changed in zip(kept, objects, strict=True):
        new_key = (
            declared_key(changed, namespaced=is_namespaced(key.group_kind, namespaced_by_kind))
            if changed is not declared
            else key
        )
        places.setdefault(new_key, {})[key] = declared.origin
    for new_key, group in places.items():
        if len(group) > 1:
            names = join_names((f"{old.qualified_name} ({origin})" for old, origin in group.items()), separator=" and ")
            message = f"{names} are all {new_key} after the mapping of namespaces; map the namespaces to different ones"
            yield from (Problem(origin.file, origin.line, "metadata.namespace", message) for origin in group.values())


def _problems_of(catalog: Catalog, content: ProjectedContent, kept: Collection[int]) -> Iterator[Problem]:
    """Yield the problems of `catalog` that belong to the projection.

    The function drops problems in the definitions, objects and destinations that the projection leaves out.
    """
    for problem in catalog.problems:
        found = _document_of(catalog.contents.get(problem.file, FileContent()), problem.line)
        match found:
            case GroupKind():
                is_held = found in content.definitions
            case DeclaredObject():
                is_held = found.group_kind in content.definitions or id(found) in kept
                is_held |= any(found is rule for rule in catalog.rules)
            case _:
                is_held = True
        if is_held:
            yield problem


def _document_of(content: FileContent, line: int) -> DeclaredObject | GroupKind | None:
    """Return the last object or definition that starts at or before `line`.

    If no object or definition starts there, return None.
    """
    starts: list[tuple[int, DeclaredObject | GroupKind]] = [
        (declared.origin.line, declared) for declared in (*content.objects, *content.rules, *content.destinations)
    ]
    starts += [(definition.origin.line, definition.group_kind) for definition in content.definitions]
    starts += [(origin.line, kind) for kind, origin in content.broken]
    earlier = [start for start in starts if start[0] <= line]
    return max(earlier, key=lambda start: start[0])[1] if earlier else None


def _protecting_left_out(
    catalog: Catalog, content: ProjectedContent, keys: Iterable[ObjectKey]
) -> Mapping[str, FileContent]:
    """Return the file contents, with each file that has a left-out object or definition marked as unreadable."""
    left_out = {
        declared.origin.file for key, declared in zip(keys, catalog.objects, strict=True) if key not in content.objects
    }
    left_out |= {
        definition.origin.file for kind, definition in catalog.definitions.items() if kind not in content.definitions
    }
    left_out |= {origin.file for kind, origin in catalog.broken.items() if kind not in content.definitions}
    return {
        file: replace(found, unreadable=True) if file in left_out else found for file, found in catalog.contents.items()
    }

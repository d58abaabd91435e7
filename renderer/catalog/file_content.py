"""The content of one file: definitions, declared objects, and mistakes.

The content depends only on the file's name and bytes. A mistake affects only the part of the file that contains the
mistake. If Levelgate cannot read a file, the file defines nothing. A rejected object stays in the content with the
reason for the rejection, so that the object does not count as removed from Git. If a definition does not compile, the
content lists the kind of the definition as broken. Levelgate uses no definition of a broken kind.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any

from renderer import documents, well_known
from renderer.catalog.forbidden_objects import find_protection_mistake
from renderer.definition.compile import Definition, DefinitionErrors, compile_definition
from renderer.documents import Document
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey, digest, group_kind
from renderer.kinds import DESTINATION_KINDS, OWN_GROUP, RGD, RULE_KINDS
from renderer.manifest_hash import without_server_fields
from renderer.schema import manifest_rules

CALENDAR_SUFFIX = ".ics"


@dataclass(frozen=True)
class DeclaredObject:
    """An object that Git declares, with its place."""

    manifest: Manifest
    origin: SourceLocation
    document: Document | None
    """The document that declares the object, or None if only the first line is known."""
    refused_reason: str = ""
    """The reason why Levelgate must not apply the object, or an empty text."""

    @cached_property
    def group_kind(self) -> GroupKind:
        return group_kind(self.manifest)

    def line_of(self, path: str) -> int:
        """Return the line in the file, from 1, of `path` in the object. Use this method for messages only."""
        return self.document.line_of(path) if self.document else self.origin.line

    @cached_property
    def content_digest(self) -> str:
        """Return the digest of the manifest and the reason for rejection, without file and line."""
        return digest([self.manifest, self.refused_reason])


@dataclass(frozen=True, slots=True)
class DefinitionOutline:
    """The readable part of a definition that does not compile."""

    group_kind: GroupKind
    name: str
    node_kinds: frozenset[GroupKind] | None
    """The kinds of the resources, or None if the kind of at least one resource is unreadable."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """The definitions, objects and mistakes of one file."""

    data: bytes = b""
    definitions: tuple[Definition, ...] = ()
    broken: tuple[tuple[GroupKind, SourceLocation], ...] = ()
    objects: tuple[DeclaredObject, ...] = ()
    rules: tuple[DeclaredObject, ...] = ()
    problems: tuple[Problem, ...] = ()
    unreadable: bool = False
    """True if the file may contain objects that Levelgate could not read."""
    destinations: tuple[DeclaredObject, ...] = ()
    outlines: tuple[DefinitionOutline, ...] = ()
    """Outlines of the definitions whose kinds are in `broken`."""


def parse_file(file: str, data: bytes) -> FileContent:
    """Return the content of a file with its mistakes.

    For a calendar, the content is only the bytes, because windows parse the bytes later.
    """
    if file.endswith(CALENDAR_SUFFIX):
        return FileContent(data)
    loaded_documents, problems = documents.load(file, data)
    builder = _FileContentBuilder(problems=problems, unreadable=bool(problems))
    for document in loaded_documents:
        builder.add(document)
    return FileContent(
        data,
        tuple(builder.definitions),
        tuple(builder.broken),
        tuple(builder.objects),
        tuple(builder.rules),
        tuple(builder.problems),
        builder.unreadable,
        tuple(builder.destinations),
        tuple(builder.outlines),
    )


@dataclass
class _FileContentBuilder:
    definitions: list[Definition] = field(default_factory=list)
    broken: list[tuple[GroupKind, SourceLocation]] = field(default_factory=list)
    objects: list[DeclaredObject] = field(default_factory=list)
    rules: list[DeclaredObject] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unreadable: bool = False
    destinations: list[DeclaredObject] = field(default_factory=list)
    outlines: list[DefinitionOutline] = field(default_factory=list)

    def add(self, document: Document) -> None:
        if mistake := _find_shape_mistake(document):
            self._add_problem(document, *mistake)
            self.unreadable = True
            return
        kind = group_kind(document.value)
        if kind == RGD:
            self._add_definition(document)
        elif kind.group == OWN_GROUP:
            self._add_own(document, kind)
        else:
            self._add_object(document)

    def _add_definition(self, document: Document) -> None:
        try:
            definition = compile_definition(document)
        except DefinitionErrors as errors:
            self.problems += errors.problems
            if errors.group_kind is None:
                self.unreadable = True
            else:
                self.broken.append((errors.group_kind, SourceLocation(document.file, document.line)))
                self.outlines.append(_outline(document, errors.group_kind))
            return
        self.definitions.append(definition)

    def _add_own(self, document: Document, kind: GroupKind) -> None:
        declared = DeclaredObject(document.value, SourceLocation(document.file, document.line), document)
        if kind.kind in RULE_KINDS:
            self.rules.append(declared)
        elif kind.kind in DESTINATION_KINDS:
            self.destinations.append(declared)
        else:
            known_kinds = ", ".join(sorted(RULE_KINDS | DESTINATION_KINDS))
            self._add_problem(document, "kind", f"{OWN_GROUP} has no kind {kind.kind}; choose from {known_kinds}")

    def _add_object(self, document: Document) -> None:
        mistakes = find_object_mistakes(document.value)
        for path, message in mistakes:
            self._add_problem(document, path, message)
        reason = "; ".join(f"{path}: {message}" for path, message in mistakes)
        origin = SourceLocation(document.file, document.line)
        self.objects.append(DeclaredObject(without_server_fields(document.value), origin, document, reason))

    def _add_problem(self, document: Document, path: str, message: str) -> None:
        self.problems.append(Problem(document.file, document.line_of(path), path, message))


def _find_shape_mistake(document: Document) -> tuple[str, str] | None:
    """Return the reason why a document is not a Kubernetes object, as (path, message).

    For a Kubernetes object, return None.
    """
    value: dict[str, Any] = document.value
    for name, example in (("apiVersion", "apps/v1"), ("kind", "Deployment")):
        if not isinstance(value.get(name), str) or not value[name]:
            return (
                name,
                f"missing: every document needs the field, with a value such as {example}; "
                "move files that are not manifests outside of the source's path",
            )
    if value["apiVersion"].startswith("kustomize.config.k8s.io/"):
        return (
            "apiVersion",
            "Levelgate does not run kustomize; commit the output of `kubectl kustomize`, outside this directory",
        )
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        return "metadata", "missing; give the object a name"
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        if "generateName" in metadata:
            return (
                "metadata.generateName",
                "Levelgate cannot follow a generated name from commit to commit; set metadata.name",
            )
        return "metadata.name", "missing; give the object a name"
    if not isinstance(metadata.get("namespace") or "", str):
        return "metadata.namespace", "must be a text, such as prod"
    return None


def _outline(document: Document, kind: GroupKind) -> DefinitionOutline:
    resources = document.value["spec"].get("resources")
    kinds = [_resource_kind(resource) for resource in resources] if isinstance(resources, list) else []
    known_kinds = frozenset(node_kind for node_kind in kinds if node_kind)
    is_known = None not in kinds and isinstance(resources, list | None)
    return DefinitionOutline(kind, document.value["metadata"]["name"], known_kinds if is_known else None)


def _resource_kind(resource: Any) -> GroupKind | None:
    match resource:
        case {"template": {"apiVersion": str(version), "kind": str(kind)}} | {
            "externalRef": {"apiVersion": str(version), "kind": str(kind)}
        }:
            return group_kind({"apiVersion": version, "kind": kind})
    return None


def find_object_mistakes(manifest: Manifest) -> list[tuple[str, str]]:
    """Return the reasons why Levelgate may not apply an object, as (path, message)."""
    mistakes = [(mistake.path, mistake.message) for mistake in manifest_rules.find_mistakes(manifest)]
    return mistakes or well_known.find_refused_keys(manifest) or _find_protection_mistakes(manifest)


def _find_protection_mistakes(manifest: Manifest) -> list[tuple[str, str]]:
    metadata = manifest["metadata"]
    mistake = find_protection_mistake(manifest, metadata.get("namespace") or "", metadata["name"])
    return [mistake] if mistake else []


def declared_key(declared: DeclaredObject, *, namespaced: bool) -> ObjectKey:
    """Return the key of `declared`. As in kubectl, a namespaced object without a namespace is in `default`."""
    metadata = declared.manifest["metadata"]
    return ObjectKey(
        *declared.group_kind, (metadata.get("namespace") or "default") if namespaced else "", metadata["name"]
    )

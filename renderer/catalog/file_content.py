"""What one file holds: definitions, declared objects, and what could not be read.

A function of the file's name and bytes alone. A mistake costs only what it touches: a file that cannot be read defines nothing, an object that is
refused is kept as `refused` (it is *not* "removed from Git"), a definition that does not build is kept as `broken`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from typing import Any

from renderer import documents, well_known
from renderer.catalog.protected import why_protected
from renderer.definition.compile import Definition, DefinitionErrors, build
from renderer.documents import Document
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey, group_kind
from renderer.kinds import OWN_GROUP, RGD, RULES
from renderer.manifest_hash import without_servers_own
from renderer.schema import manifest_rules

CALENDAR_SUFFIX = ".ics"


@dataclass(frozen=True)
class DeclaredObject:
    """An object as it stands in Git. `line_of` tells the line of a path in it; `refused` says why it may not be applied as
    it stands; empty: it may.
    """

    manifest: Manifest
    origin: SourceLocation
    line_of: Callable[[str], int]
    refused: str = ""

    @cached_property
    def group_kind(self) -> GroupKind:
        return group_kind(self.manifest)


@dataclass(frozen=True, slots=True)
class FileContent:
    """One file, worked out. An `unreadable` one may hold more than we know."""

    data: bytes = b""
    definitions: tuple[Definition, ...] = ()
    broken: tuple[tuple[GroupKind, SourceLocation], ...] = ()
    objects: tuple[DeclaredObject, ...] = ()
    rules: tuple[DeclaredObject, ...] = ()
    problems: tuple[Problem, ...] = ()
    unreadable: bool = False


def read(file: str, data: bytes) -> FileContent:
    """Everything that one file says, with its mistakes; a calendar is only kept, for the windows that name it."""
    if file.endswith(CALENDAR_SUFFIX):
        return FileContent(data)
    found, problems = documents.load(file, data)
    reading = _Reading(problems=problems, unreadable=bool(problems))
    for document in found:
        reading.add(document)
    return FileContent(
        data,
        tuple(reading.definitions),
        tuple(reading.broken),
        tuple(reading.objects),
        tuple(reading.rules),
        tuple(reading.problems),
        reading.unreadable,
    )


@dataclass
class _Reading:
    definitions: list[Definition] = field(default_factory=list)
    broken: list[tuple[GroupKind, SourceLocation]] = field(default_factory=list)
    objects: list[DeclaredObject] = field(default_factory=list)
    rules: list[DeclaredObject] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unreadable: bool = False

    def add(self, document: Document) -> None:
        if mistake := _shape(document):
            self._problem(document, *mistake)
            self.unreadable = True
            return
        kind = group_kind(document.value)
        if kind == RGD:
            self._definition(document)
        elif kind.group == OWN_GROUP:
            self._rule(document, kind)
        else:
            self._object(document)

    def _definition(self, document: Document) -> None:
        try:
            definition = build(document)
        except DefinitionErrors as errors:
            self.problems += errors.problems
            if errors.group_kind is None:
                self.unreadable = True
            else:
                self.broken.append((errors.group_kind, SourceLocation(document.file, document.line)))
            return
        self.definitions.append(definition)

    def _rule(self, document: Document, kind: GroupKind) -> None:
        if kind.kind not in RULES:
            self._problem(
                document, "kind", f"{OWN_GROUP} has no kind {kind.kind}; there are {', '.join(sorted(RULES))}"
            )
        else:
            self.rules.append(
                DeclaredObject(document.value, SourceLocation(document.file, document.line), document.line_of)
            )

    def _object(self, document: Document) -> None:
        mistakes = [(mistake.path, mistake.message) for mistake in manifest_rules.mistakes(document.value)]
        mistakes = mistakes or well_known.refused(document.value) or _protected(document.value)
        for path, message in mistakes:
            self._problem(document, path, message)
        reason = "; ".join(f"{path}: {message}" for path, message in mistakes)
        origin = SourceLocation(document.file, document.line)
        self.objects.append(DeclaredObject(without_servers_own(document.value), origin, document.line_of, reason))

    def _problem(self, document: Document, path: str, message: str) -> None:
        self.problems.append(Problem(document.file, document.line_of(path), path, message))


def _shape(document: Document) -> tuple[str, str] | None:
    """What keeps this document from being a Kubernetes object at all, as (path, message)."""
    value: dict[str, Any] = document.value
    for name, example in (("apiVersion", "apps/v1"), ("kind", "Deployment")):
        if not isinstance(value.get(name), str) or not value[name]:
            return (
                name,
                f"missing: every document needs one, such as {example}; what is no manifest belongs outside of the source's path",
            )
    if value["apiVersion"].startswith("kustomize.config.k8s.io/"):
        return "apiVersion", "kustomize is not run; commit what `kubectl kustomize` prints, outside of this directory"
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        return "metadata", "missing: every object needs a name"
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        if "generateName" in metadata:
            return "metadata.generateName", "a generated name cannot be followed from commit to commit; give it a name"
        return "metadata.name", "missing"
    if not isinstance(metadata.get("namespace") or "", str):
        return "metadata.namespace", "must be a text"
    return None


def _protected(manifest: Manifest) -> list[tuple[str, str]]:
    metadata = manifest["metadata"]
    found = why_protected(manifest, metadata.get("namespace") or "", metadata["name"])
    return [found] if found else []


def located(declared: DeclaredObject, *, namespaced: bool) -> ObjectKey:
    """The key of a declared object; without a namespace a namespaced object goes to `default`, as kubectl does."""
    metadata = declared.manifest["metadata"]
    return ObjectKey(
        *declared.group_kind, (metadata.get("namespace") or "default") if namespaced else "", metadata["name"]
    )

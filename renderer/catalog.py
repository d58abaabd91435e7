"""What one commit holds: definitions, declared objects, and what could not be read.

A mistake costs only what it touches: a file that cannot be read defines nothing, an object that is refused is kept as `refused` (it is *not*
"removed from Git"), a definition that does not build is kept as `broken`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from renderer import documents, keys, shape
from renderer.definition import Definition, DefinitionErrors, build, group_kind_of
from renderer.documents import Document
from renderer.errors import Problem
from renderer.identity import GroupKind, Manifest, ObjectKey, group_kind
from renderer.kinds import OWN_GROUP, RGD
from renderer.model import Origin, Unreadable

_RULES = frozenset({"PropagationWindow", "PropagationPolicy", "Cluster", "Placement"})


@dataclass(frozen=True, slots=True)
class Declared:
    """An object as it stands in Git. `line_of` tells the line of a path in it; `refused` says why it may not be applied as
    it stands; empty: it may.
    """

    manifest: Manifest
    origin: Origin
    line_of: Callable[[str], int]
    refused: str = ""

    @property
    def group_kind(self) -> GroupKind:
        return group_kind(self.manifest)


@dataclass(frozen=True, slots=True)
class Catalog:
    """The content of one commit of one source. `files` are all files of the commit, `unreadable` those that may hold more than we know."""

    source: str = ""
    revision: str = ""
    definitions: Mapping[GroupKind, Definition] = field(default_factory=dict)
    broken: Mapping[GroupKind, Origin] = field(default_factory=dict)
    objects: tuple[Declared, ...] = ()
    rules: tuple[Declared, ...] = ()
    problems: tuple[Problem, ...] = ()
    files: frozenset[str] = frozenset()
    unreadable: frozenset[str] = frozenset()

    @property
    def protection(self) -> Unreadable:
        return Unreadable(self.files, self.unreadable)


def load(
    files: Mapping[str, bytes], *, source: str = "", revision: str = "", refused: Mapping[str, str] | None = None
) -> Catalog:
    """Read all documents of a commit; `files` maps paths relative to the source's path to their bytes.

    `refused` are files that Git holds and that must not be read (links, too large), each with the reason.
    """
    refused = refused or {}
    found: list[Document] = []
    problems = [Problem(file, 0, "", message) for file, message in refused.items()]
    unreadable = set(refused)
    for file in sorted(files):
        read, mistakes = documents.load(file, files[file])
        found += read
        problems += mistakes
        if mistakes:
            unreadable.add(file)
    return _sort(found, problems, unreadable, frozenset(files) | frozenset(refused), source=source, revision=revision)


def _sort(
    found: Iterable[Document],
    problems: list[Problem],
    unreadable: set[str],
    files: frozenset[str],
    *,
    source: str,
    revision: str,
) -> Catalog:
    definitions: dict[GroupKind, Definition] = {}
    broken: dict[GroupKind, Origin] = {}
    objects: list[Declared] = []
    rules: list[Declared] = []
    for document in found:
        if not (shape := _shape(document)):
            kind = group_kind(document.value)
            if kind == RGD:
                _add_definition(document, definitions, broken, problems, unreadable)
            elif kind.group == OWN_GROUP:
                _add_rule(document, kind, rules, problems)
            else:
                objects.append(_declared(document, problems))
        else:
            problems.append(Problem(document.file, document.line_of(shape[0]), *shape))
            unreadable.add(document.file)
    return Catalog(
        source=source,
        revision=revision,
        definitions={kind: definition for kind, definition in definitions.items() if kind not in broken},
        broken=broken,
        objects=tuple(objects),
        rules=tuple(rules),
        problems=tuple(sorted(problems)),
        files=files,
        unreadable=frozenset(unreadable),
    )


def _shape(document: Document) -> tuple[str, str] | None:
    """What keeps this document from being a Kubernetes object at all, as (path, message)."""
    value: dict[str, Any] = document.value
    for name, example in (("apiVersion", "apps/v1"), ("kind", "Deployment")):
        if not isinstance(value.get(name), str) or not value[name]:
            return name, f"missing: every document needs one, such as {example}"
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


def _add_definition(
    document: Document,
    definitions: dict[GroupKind, Definition],
    broken: dict[GroupKind, Origin],
    problems: list[Problem],
    unreadable: set[str],
) -> None:
    origin = Origin(document.file, document.line)
    try:
        definition = build(document)
    except DefinitionErrors as errors:
        problems += errors.problems
        kind = group_kind_of(document)
        if kind is None:
            unreadable.add(document.file)
        else:
            broken[kind] = origin
        return
    if definition.gates:
        path = definition.gates[0].path
        message = "gates are not supported yet; nothing is written past one, so the definition and its instances stay as they are"
        problems.append(Problem(document.file, document.line_of(path), path, message))
        broken[definition.group_kind] = origin
        return
    other = definitions.setdefault(definition.group_kind, definition)
    if other is not definition:
        problems.append(
            Problem(
                document.file,
                document.line,
                "spec.schema.kind",
                f"{definition.group_kind} is defined at {other.origin} already; keep one of the two",
            )
        )


def _add_rule(document: Document, kind: GroupKind, rules: list[Declared], problems: list[Problem]) -> None:
    if kind.kind not in _RULES:
        problems.append(
            Problem(
                document.file,
                document.line,
                "kind",
                f"{OWN_GROUP} has no kind {kind.kind}; there are {', '.join(sorted(_RULES))}",
            )
        )
    else:
        problems.append(
            Problem(document.file, document.line, "kind", f"{kind.kind} is not supported yet: it governs nothing")
        )
        rules.append(Declared(document.value, Origin(document.file, document.line), document.line_of))


def _declared(document: Document, problems: list[Problem]) -> Declared:
    mistakes = [(mistake.path, mistake.message) for mistake in shape.mistakes(document.value)] or keys.refused(
        document.value
    )
    problems += [Problem(document.file, document.line_of(path), path, message) for path, message in mistakes]
    reason = "; ".join(f"{path}: {message}" for path, message in mistakes)
    return Declared(_content(document.value), Origin(document.file, document.line), document.line_of, reason)


def _content(manifest: Manifest) -> Manifest:
    """What of a manifest is content: no status and none of the fields that only the server writes."""
    metadata = {
        name: value
        for name, value in manifest["metadata"].items()
        if name not in {"creationTimestamp", "resourceVersion", "uid", "selfLink", "generation", "managedFields"}
    }
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": metadata}


def located(declared: Declared, *, namespaced: bool) -> ObjectKey:
    """The key of a declared object; without a namespace a namespaced object goes to `default`, as kubectl does."""
    metadata = declared.manifest["metadata"]
    return ObjectKey(
        *declared.group_kind, (metadata.get("namespace") or "default") if namespaced else "", metadata["name"]
    )

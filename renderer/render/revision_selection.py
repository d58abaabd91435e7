"""Which definition each kind is rendered from: the newest of Git where it may, else the newest stored revision, else none.

The catalog of a cluster is the union over its sources; a kind is defined by one of them. A definition that does not build, or would break
what is stored, gets no new revision: its last one serves on, and nothing else of the commit is touched (S0-3, S1-23).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from renderer import schema, well_known
from renderer.catalog.catalog import Catalog
from renderer.definition import crd, type_check
from renderer.definition.compile import Definition, DefinitionErrors
from renderer.definition.kind_schemas import KindSchemas
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import GroupKind
from renderer.levelgate_status import LevelgateStatus
from renderer.render.model import Live
from renderer.render.revisions import DefinitionRevision, StoredRevisions, definition_of


@dataclass
class RevisionSelection:
    """`current` definitions by kind with the `numbers` of their revisions and the source that owns each; `issued` are those whose revision is
    not stored yet; `held` the kinds that cannot be rendered, with the reason; `unread` the records to read before this is final. `refused` are
    kinds whose definition counts for nothing, as a plain CRD of them is there. `types` are the kinds that are described outside of Git, `known` all
    that each source can count on.
    """

    catalogs: Sequence[Catalog]
    stored: StoredRevisions
    live: Live
    objects_of_kind: Callable[[GroupKind], Iterable[Mapping[str, Any]]]
    """Function that returns all live objects of a kind."""
    preferred: Mapping[GroupKind, str]
    types: KindSchemas = field(default_factory=KindSchemas)
    current: dict[GroupKind, Definition] = field(default_factory=dict)
    numbers: dict[GroupKind, int] = field(default_factory=dict)
    owner: dict[GroupKind, str] = field(default_factory=dict)
    issued: dict[GroupKind, Definition] = field(default_factory=dict)
    held: dict[GroupKind, str] = field(default_factory=dict)
    refused: dict[GroupKind, str] = field(default_factory=dict)
    problems: list[tuple[str, Problem]] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    _built: dict[str, Definition | None] = field(default_factory=dict)
    known: dict[str, KindSchemas] = field(default_factory=dict)

    def __post_init__(self) -> None:
        elsewhere = self.types
        for catalog in self.catalogs:
            elsewhere = catalog.types.with_fallback(elsewhere)
        self.known = {catalog.source: catalog.types.with_fallback(elsewhere) for catalog in self.catalogs}
        wanted = self._union()
        broken = {kind: catalog for catalog in self.catalogs for kind in catalog.broken if kind not in wanted}
        for kind, definition in wanted.items():
            self._check(kind, definition)
        for kind, catalog in broken.items():
            self.owner[kind] = catalog.source
            if (why := catalog.duplicates.describe(kind)) and self._is_plain(kind):
                self.refused[kind] = why
            else:
                self._serve_on(kind, why or "does not build")

    def at(self, kind: GroupKind, number: int) -> Definition | None:
        """The definition of a kind at this revision; None where it is not stored, not read yet or no longer builds."""
        if self.numbers.get(kind) == number:
            return self.current.get(kind)
        revision = self.stored.numbered(kind, number)
        return self._read(revision) if revision else None

    def crd(self, kind: GroupKind, in_use: Iterable[int]) -> tuple[dict[str, Any], str]:
        """The CRD to serve while instances are at these revisions: the union of their schemas; and why there is none (then the newest's)."""
        newest = self.current[kind]
        others = [other for number in sorted(in_use) if (other := self.at(kind, number)) and other is not newest]
        try:
            spec = schema.union([*(other.spec_schema for other in others), newest.spec_schema])
        except schema.NoUnionError as error:
            return newest.crd, "" if newest.allows_breaking_changes else str(error)
        return crd.with_spec_schema(newest.crd, spec), ""

    def _union(self) -> dict[GroupKind, Definition]:
        """One definition for each kind: the one of the source whose set holds the CRD, else of the first source."""
        found: dict[GroupKind, Definition] = {}
        for catalog in self.catalogs:
            for kind, definition in catalog.definitions.items():
                if kind not in found or self.preferred.get(kind) == catalog.source:
                    found[kind], self.owner[kind] = definition, catalog.source
        for catalog in self.catalogs:
            for kind, definition in catalog.definitions.items():
                if self.owner[kind] != catalog.source:
                    message = f"source {self.owner[kind]} owns the definition of {kind}; this one is ignored"
                    self._problem(catalog.source, definition.origin, message)
        return found

    def _check(self, kind: GroupKind, definition: Definition) -> None:
        """Accept a definition if it fits the kinds, too, that its own source does not describe: those of other sources and of the cluster."""
        source = self.owner[kind]
        own = next(catalog.types for catalog in self.catalogs if catalog.source == source)
        used = {node.group_kind for node in definition.nodes} - own.described.keys()
        if used.isdisjoint(self.known[source].described):
            self._accept(kind, definition)
            return
        found = type_check.check_definition(definition, self.known[source])
        if found.problems:
            self.problems += [(source, problem) for problem in found.problems]
            self._serve_on(kind, "does not fit the kinds that it uses")
        else:
            self._accept(kind, found.definition)

    def _accept(self, kind: GroupKind, definition: Definition) -> None:
        newest = self.stored.newest(kind)
        if newest and newest.digest == definition.digest:
            self.current[kind], self.numbers[kind] = definition, newest.number
        elif breaking := self._breaking(definition, newest):
            advice = f'undo the change, or allow it with the annotation {well_known.ALLOW_BREAKING}: "true"'
            self._problem(self.owner[kind], definition.origin, f"breaking change of {kind}: {breaking}; {advice}")
            self._serve_on(kind, f"would break its stored instances ({breaking})")
        elif kind in self.stored.refused:
            message = f"its new revision could not be stored: {self.stored.refused[kind]}"
            self._problem(self.owner[kind], definition.origin, message)
            self._serve_on(kind, message)
        else:
            self.current[kind], self.numbers[kind] = definition, newest.number + 1 if newest else self._first(kind)
            self.issued[kind] = definition

    def _serve_on(self, kind: GroupKind, why: str) -> None:
        newest = self.stored.newest(kind)
        definition = self._read(newest) if newest else None
        if newest and definition:
            self.current[kind], self.numbers[kind] = definition, newest.number
        else:
            self.held[kind] = why

    def _is_plain(self, kind: GroupKind) -> bool:
        """Is the CRD of this kind there, and not that of a definition?"""
        live = self.live.get(crd.key_of(kind))
        return live is not None and not (live["metadata"].get("annotations") or {}).get(well_known.DEFINITION)

    def _first(self, kind: GroupKind) -> int:
        """The number of a first revision: past every number that live instances still name, should the records have been lost."""
        told = map(LevelgateStatus.from_instance, self.objects_of_kind(kind))
        named = (pair.get("revision", 0) for one in told for pair in (one.target, one.applied))
        return 1 + max((number for number in named if isinstance(number, int)), default=0)

    def _read(self, revision: DefinitionRevision) -> Definition | None:
        if revision.manifest is None:
            self.unread.add(revision.record)
            return None
        if revision.record not in self._built:
            self._built[revision.record] = self._compiled(revision)
        return self._built[revision.record]

    def _compiled(self, revision: DefinitionRevision) -> Definition | None:
        try:
            definition = definition_of(revision)
        except DefinitionErrors:
            return None
        types = self.known.get(self.owner.get(definition.group_kind, ""), self.types)
        return type_check.check_definition(definition, types).definition

    def _breaking(self, definition: Definition, newest: DefinitionRevision | None) -> str:
        """What of this definition its instances may not survive (kro's compatibility guard): against the newest revision, else the live CRD."""
        if definition.allows_breaking_changes:
            return ""
        if newest and (before := self._read(newest)):
            served = before.crd["spec"]
        else:
            live = self.live.get(crd.key_of(definition.group_kind))
            if live is None or self._is_plain(definition.group_kind):
                return ""
            served = live["spec"]
        version = served["versions"][0]
        if version["name"] != definition.version:
            return f"apiVersion {version['name']} becomes {definition.version}"
        if (served["scope"] == "Namespaced") != definition.namespaced:
            return f"scope {served['scope']} cannot change"
        stored = version["schema"]["openAPIV3Schema"]["properties"].get("spec") or {}
        changes = schema.compatibility(stored, definition.spec_schema)
        return "; ".join(f"{change.path}: {change.message}" for change in changes if change.breaking)

    def _problem(self, source: str, origin: SourceLocation, message: str) -> None:
        self.problems.append((source, Problem(origin.file, origin.line, "spec.schema", message)))

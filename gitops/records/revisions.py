"""Definition revisions, applied pairs and accepted rules as they are stored: one ControllerRevision each in Levelgate's own namespace (apps/v1).

A ControllerRevision never changes, so its metadata (which says of what it is, its number and its digest) is all that a pass lists; contents are
read where they are needed. A revision is written before anything of it is applied, an applied pair after all its nodes are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from applier.cluster import Object, Reader
from applier.plan.model import ApplySetPlan, Plan
from applier.state.observed import annotation, is_terminating, label, number
from renderer import well_known
from renderer.definition.compile import Definition, DefinitionErrors
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey, digest, key_hash
from renderer.render.model import NewRevision, RenderedApplySet
from renderer.render.revisions import AppliedSnapshot, DefinitionRevision, StoredRevisions, definition_of

KIND = GroupKind("apps", "ControllerRevision")
DEFINITION, APPLIED, RULES = "definition", "applied", "rules"
"""Values of the label `internal.levelgate.dev/record`."""

KEPT = 5
"""Revisions of a definition that are kept beside the newest and those in use."""


@dataclass(frozen=True)
class RevisionArchive:
    """Stored records by name, with or without their content; `refused` are kinds whose newest revision could not be written."""

    records: Mapping[str, Object] = field(default_factory=dict)
    refused: Mapping[GroupKind, str] = field(default_factory=dict)

    @classmethod
    async def observe(cls, cluster: Reader, before: RevisionArchive | None = None) -> RevisionArchive:
        """List the metadata of all records; contents that were read `before` are kept, as they never change. Raises ClusterError."""
        found = await cluster.list(KIND, OWN_NAMESPACE, selector=well_known.RECORD, metadata_only=True)
        known = {obj["metadata"].get("uid"): obj for obj in before.records.values() if "data" in obj} if before else {}
        live = [obj for obj in found if not is_terminating(obj)]
        return cls({obj["metadata"]["name"]: known.get(obj["metadata"]["uid"], obj) for obj in live})

    async def read(self, cluster: Reader, names: Iterable[str]) -> RevisionArchive:
        """The same with the content of these records; one that is gone is left out. Raises ClusterError."""
        wanted = sorted(names)
        found = await asyncio.gather(*(cluster.get(_key(name)) for name in wanted))
        kept = {name: obj for name, obj in self.records.items() if name not in wanted}
        return replace(self, records=kept | {obj["metadata"]["name"]: obj for obj in found if obj is not None})

    async def read_rules(self, cluster: Reader, sources: Iterable[str]) -> RevisionArchive:
        """The same with the contents of the accepted rules of these sources. Raises ClusterError."""
        unread = [obj for source in sources for obj in self._rules(source) if "data" not in obj]
        return await self.read(cluster, [obj["metadata"]["name"] for obj in unread])

    def rules(self, source: str) -> Mapping[str, Any]:
        """The rules of a source that were accepted last; empty where there were none."""
        found = self._rules(source)
        return (found[-1].get("data") or {}) if found else {}

    def _rules(self, source: str) -> list[Object]:
        found = [obj for obj in self.records.values() if label(obj, well_known.RECORD) == RULES]
        return sorted((obj for obj in found if annotation(obj, well_known.RECORD_SOURCE) == source), key=_sequence)

    def foreseen(self, issued: Iterable[NewRevision]) -> RevisionArchive:
        """As if these revisions were stored."""
        bodies = [definition_body(one, "") for one in issued]
        return replace(self, records={**self.records, **{body["metadata"]["name"]: body for body in bodies}})

    @cached_property
    def stored(self) -> StoredRevisions:
        """As the renderer takes it. A record that does not say what it is counts as absent."""
        revisions: dict[GroupKind, list[DefinitionRevision]] = {}
        applied: dict[ObjectKey, AppliedSnapshot] = {}
        for obj in sorted(self.records.values(), key=_sequence):
            of, data = annotation(obj, well_known.RECORD_OF).split("/"), obj.get("data")
            name, content = obj["metadata"]["name"], annotation(obj, well_known.HASH)
            sequence = number(annotation(obj, well_known.REVISION)) or 0
            match label(obj, well_known.RECORD), of:
                case "definition", [group, kind]:
                    revision = DefinitionRevision(sequence, content, name, data, annotation(obj, well_known.COMMIT))
                    revisions.setdefault(GroupKind(group, kind), []).append(revision)
                case "applied", [_, _, _, _]:
                    pair = AppliedSnapshot(sequence, content, name, annotation(obj, well_known.RECORD_SOURCE), data)
                    applied[ObjectKey(*of)] = pair
        ordered = {kind: tuple(sorted(found, key=lambda one: one.number)) for kind, found in sorted(revisions.items())}
        return StoredRevisions(ordered, applied, self.refused)

    async def newest_definitions(self, cluster: Reader) -> dict[str, Definition]:
        """The newest revision of each kind, by name, but for what this version of the program cannot read. Raises ClusterError."""
        stored = self.stored
        newest = [revision.record for kind in stored.revisions if (revision := stored.newest(kind))]
        known = (await self.read(cluster, newest)).stored
        found = {}
        for kind in known.revisions:
            if (revision := known.newest(kind)) and revision.manifest is not None:
                with suppress(DefinitionErrors):
                    definition = definition_of(revision)
                    found[definition.name] = definition
        return found

    def part(self, instances: Iterable[ObjectKey], newer: Mapping[ObjectKey, Object]) -> RevisionArchive:
        """What is stored of definitions and rules, and the applied pairs of these instances; the `newer` ones take their place."""
        applied = self.stored.applied
        names = [pair.record for key in instances if key not in newer and (pair := applied.get(key))]
        pairs = [*(self.records[name] for name in names), *newer.values()]
        return replace(self, records={**self._common, **{obj["metadata"]["name"]: obj for obj in pairs}})

    @cached_property
    def _common(self) -> Mapping[str, Object]:
        return {name: obj for name, obj in self.records.items() if label(obj, well_known.RECORD) != APPLIED}

    def due(self, plan: Plan, rules: Mapping[str, Mapping[str, Any]]) -> Iterator[Object]:
        """Bodies of what is to be stored: the applied pairs that this plan has brought about, and the `rules` in force by source."""
        for source, accepted in sorted(rules.items()):
            known = self._rules(source)
            if accepted != self.rules(source):
                sequence = _sequence(known[-1]) + 1 if known else 1
                annotations = {well_known.RECORD_SOURCE: source, well_known.REVISION: str(sequence)}
                yield _body(f"policies-{source}-{sequence}", RULES, annotations, sequence, dict(accepted))
        stored = self.stored
        for one in plan.sets:
            if _is_applied(one):
                pair = stored.applied.get(one.rendered.parent)
                if pair is None or pair.digest != _pair_digest(one.rendered):
                    before = _sequence(self.records[pair.record]) if pair else 0
                    yield applied_body(one.rendered, before + 1)

    def storing(self, objects: Iterable[Object]) -> RevisionArchive:
        """With those of these objects that are records, as they were stored."""
        new = {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == KIND.kind}
        return replace(self, records={**self.records, **new}) if new else self

    def replaced(self, vanished: Collection[ObjectKey] = ()) -> list[Object]:
        """Applied pairs that a newer one replaced, or whose instance has `vanished`."""
        kept = {pair.record for key, pair in self.stored.applied.items() if key not in vanished}
        pairs = (obj for obj in self.records.values() if label(obj, well_known.RECORD) == APPLIED)
        return [obj for obj in pairs if obj["metadata"]["name"] not in kept]

    def superfluous(self, plan: Plan, vanished: Collection[ObjectKey]) -> list[Object]:
        """Records that nothing needs any more: pairs that a newer one replaced or whose instance has `vanished`, and old revisions."""
        stored = self.stored
        old = {obj["metadata"]["name"] for obj in self.replaced(vanished)}
        in_use = {(key.group_kind, pair.revision) for key, pair in stored.applied.items() if key not in vanished}
        in_use |= {(one.rendered.parent.group_kind, one.rendered.revision) for one in plan.sets}
        for source in {annotation(obj, well_known.RECORD_SOURCE) for obj in self.records.values()}:
            old |= {obj["metadata"]["name"] for obj in self._rules(source)[:-1]}
        for kind, revisions in stored.revisions.items():
            idle = [revision for revision in revisions[:-1] if (kind, revision.number) not in in_use]
            old |= {revision.record for revision in idle[:-KEPT]}
        return [self.records[name] for name in sorted(old)]


def _is_applied(one: ApplySetPlan) -> bool:
    """Do all nodes of this instance carry what its target wants? Not while one that is to go waits at the gate that only the pair before knows."""
    if one.rendered.is_source or one.error or one.is_unknown or one.parent is None or not one.rendered.revision:
        return False
    if any(orphan.blocked and "gates" in orphan.blocked.details for orphan in one.orphans):
        return False
    return not is_terminating(one.parent) and all(node.is_current for node in one.nodes if not node.node.external)


def _key(name: str) -> ObjectKey:
    return ObjectKey(*KIND, OWN_NAMESPACE, name)


def _sequence(obj: Object) -> int:
    """The number at the end of a record's name; of two pairs of one instance the higher is the newer."""
    return number(obj["metadata"]["name"].rpartition("-")[2].removeprefix("r")) or 0


def definition_body(one: NewRevision, commit: str) -> Object:
    """The record of a new revision."""
    name = f"{one.kind.kind.lower()}.{one.kind.group}-r{one.number}"
    annotations = {
        well_known.RECORD_OF: "/".join(one.kind),
        well_known.REVISION: str(one.number),
        well_known.HASH: one.digest,
        well_known.RECORD_SOURCE: one.source,
        well_known.COMMIT: commit[:12],
    }
    return _body(name, DEFINITION, annotations, one.number, one.manifest)


def applied_body(rendered: RenderedApplySet, sequence: int = 1) -> Object:
    """The record that an instance was brought to what is rendered of it."""
    annotations = {
        well_known.RECORD_OF: "/".join(rendered.parent),
        well_known.REVISION: str(rendered.revision),
        well_known.HASH: _pair_digest(rendered),
        well_known.RECORD_SOURCE: rendered.source,
    }
    name = f"applied-{key_hash(rendered.parent)}-{sequence}"
    return _body(name, APPLIED, annotations, sequence, rendered.manifest)


def _pair_digest(rendered: RenderedApplySet) -> str:
    return digest([rendered.revision, rendered.manifest])


def _body(name: str, record: str, annotations: Mapping[str, str], revision: int, data: Object) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": KIND.kind,
        "metadata": {
            "name": name,
            "namespace": OWN_NAMESPACE,
            "labels": {well_known.RECORD: record},
            "annotations": dict(annotations),
        },
        "revision": revision,
        "data": data,
    }

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

MAX_UNUSED_REVISIONS = 5
"""Revisions of a definition that are kept beside the newest and those in use."""


@dataclass(frozen=True)
class RevisionArchive:
    """Stored records by name, with or without their content; `refused` are kinds whose newest revision could not be written."""

    records: Mapping[str, Object] = field(default_factory=dict)
    write_errors: Mapping[GroupKind, str] = field(default_factory=dict)

    @classmethod
    async def observe(cls, cluster: Reader, previous: RevisionArchive | None = None) -> RevisionArchive:
        """List the metadata of all records; contents that were read `before` are kept, as they never change. Raises ClusterError."""
        objects = await cluster.list(KIND, OWN_NAMESPACE, selector=well_known.RECORD, metadata_only=True)
        with_content = (
            {obj["metadata"].get("uid"): obj for obj in previous.records.values() if "data" in obj} if previous else {}
        )
        live = [obj for obj in objects if not is_terminating(obj)]
        return cls({obj["metadata"]["name"]: with_content.get(obj["metadata"]["uid"], obj) for obj in live})

    async def with_contents(self, cluster: Reader, names: Iterable[str]) -> RevisionArchive:
        """The same with the content of these records; one that is gone is left out. Raises ClusterError."""
        sorted_names = sorted(names)
        objects = await asyncio.gather(*(cluster.get(ObjectKey(*KIND, OWN_NAMESPACE, name)) for name in sorted_names))
        others = {name: obj for name, obj in self.records.items() if name not in sorted_names}
        return replace(self, records=others | {obj["metadata"]["name"]: obj for obj in objects if obj is not None})

    async def with_rules_contents(self, cluster: Reader, sources: Iterable[str]) -> RevisionArchive:
        """The same with the contents of the accepted rules of these sources. Raises ClusterError."""
        unread = [obj for source in sources for obj in self._rules_records(source) if "data" not in obj]
        return await self.with_contents(cluster, [obj["metadata"]["name"] for obj in unread])

    def accepted_rules(self, source: str) -> Mapping[str, Any]:
        """The rules of a source that were accepted last; empty where there were none."""
        rules_records = self._rules_records(source)
        return (rules_records[-1].get("data") or {}) if rules_records else {}

    def _rules_records(self, source: str) -> list[Object]:
        rules_records = [obj for obj in self.records.values() if label(obj, well_known.RECORD) == RULES]
        return sorted(
            (obj for obj in rules_records if annotation(obj, well_known.RECORD_SOURCE) == source), key=_sequence
        )

    def with_pending_revisions(self, new_revisions: Iterable[NewRevision]) -> RevisionArchive:
        """As if these revisions were stored."""
        bodies = [definition_body(new_revision) for new_revision in new_revisions]
        return replace(self, records={**self.records, **{body["metadata"]["name"]: body for body in bodies}})

    @cached_property
    def stored_revisions(self) -> StoredRevisions:
        """As the renderer takes it. A record that does not say what it is counts as absent."""
        revisions: dict[GroupKind, list[DefinitionRevision]] = {}
        applied: dict[ObjectKey, AppliedSnapshot] = {}
        for obj in sorted(self.records.values(), key=_sequence):
            owner_parts, data = annotation(obj, well_known.RECORD_OF).split("/"), obj.get("data")
            name, content = obj["metadata"]["name"], annotation(obj, well_known.HASH)
            sequence = number(annotation(obj, well_known.REVISION)) or 0
            match label(obj, well_known.RECORD), owner_parts:
                case "definition", [group, kind]:
                    revision = DefinitionRevision(
                        sequence,
                        content,
                        name,
                        data,
                        annotation(obj, well_known.COMMIT),
                        annotation(obj, well_known.COMMIT_AUTHOR),
                        annotation(obj, well_known.COMMIT_MESSAGE),
                    )
                    revisions.setdefault(GroupKind(group, kind), []).append(revision)
                case "applied", [_, _, _, _]:
                    snapshot = AppliedSnapshot(sequence, content, name, annotation(obj, well_known.RECORD_SOURCE), data)
                    applied[ObjectKey(*owner_parts)] = snapshot
        sorted_revisions = {
            kind: tuple(sorted(unsorted, key=lambda stored_revision: stored_revision.number))
            for kind, unsorted in sorted(revisions.items())
        }
        return StoredRevisions(sorted_revisions, applied, self.write_errors)

    async def read_newest_definitions(self, cluster: Reader) -> dict[str, Definition]:
        """The newest revision of each kind, by name, but for what this version of the program cannot read. Raises ClusterError."""
        stored = self.stored_revisions
        newest = [revision.record for kind in stored.revisions if (revision := stored.newest(kind))]
        contents = (await self.with_contents(cluster, newest)).stored_revisions
        definitions = {}
        for kind in contents.revisions:
            if (revision := contents.newest(kind)) and revision.manifest is not None:
                with suppress(DefinitionErrors):
                    definition = definition_of(revision)
                    definitions[definition.name] = definition
        return definitions

    def select_instances(self, instances: Iterable[ObjectKey], newer: Mapping[ObjectKey, Object]) -> RevisionArchive:
        """What is stored of definitions and rules, and the applied pairs of these instances; the `newer` ones take their place."""
        applied = self.stored_revisions.applied
        names = [snapshot.record for key in instances if key not in newer and (snapshot := applied.get(key))]
        snapshot_records = [*(self.records[name] for name in names), *newer.values()]
        return replace(
            self, records={**self._shared_records, **{obj["metadata"]["name"]: obj for obj in snapshot_records}}
        )

    @cached_property
    def _shared_records(self) -> Mapping[str, Object]:
        return {name: obj for name, obj in self.records.items() if label(obj, well_known.RECORD) != APPLIED}

    def pending_records(self, plan: Plan, rules: Mapping[str, Mapping[str, Any]]) -> Iterator[Object]:
        """Bodies of what is to be stored: the applied pairs that this plan has brought about, and the `rules` in force by source."""
        for source, accepted in sorted(rules.items()):
            rules_records = self._rules_records(source)
            if accepted != self.accepted_rules(source):
                sequence = _sequence(rules_records[-1]) + 1 if rules_records else 1
                annotations = {well_known.RECORD_SOURCE: source, well_known.REVISION: str(sequence)}
                yield _body(f"policies-{source}-{sequence}", RULES, annotations, sequence, dict(accepted))
        stored = self.stored_revisions
        for set_plan in plan.sets:
            if _is_applied(set_plan):
                snapshot = stored.applied.get(set_plan.rendered.parent)
                if snapshot is None or snapshot.digest != _snapshot_digest(set_plan.rendered):
                    last_sequence = _sequence(self.records[snapshot.record]) if snapshot else 0
                    yield snapshot_body(set_plan.rendered, last_sequence + 1)

    def with_stored(self, objects: Iterable[Object]) -> RevisionArchive:
        """With those of these objects that are records, as they were stored."""
        new_records = {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == KIND.kind}
        return replace(self, records={**self.records, **new_records}) if new_records else self

    def superseded_snapshots(self, deleted_instances: Collection[ObjectKey] = ()) -> list[Object]:
        """Applied pairs that a newer one replaced, or whose instance has `vanished`."""
        current_names = {
            snapshot.record for key, snapshot in self.stored_revisions.applied.items() if key not in deleted_instances
        }
        snapshot_records = (obj for obj in self.records.values() if label(obj, well_known.RECORD) == APPLIED)
        return [obj for obj in snapshot_records if obj["metadata"]["name"] not in current_names]

    def obsolete_records(self, plan: Plan, deleted_instances: Collection[ObjectKey]) -> list[Object]:
        """Records that nothing needs any more: pairs that a newer one replaced or whose instance has `vanished`, and old revisions."""
        stored = self.stored_revisions
        obsolete = {obj["metadata"]["name"] for obj in self.superseded_snapshots(deleted_instances)}
        in_use = {
            (key.group_kind, snapshot.revision)
            for key, snapshot in stored.applied.items()
            if key not in deleted_instances
        }
        in_use |= {(set_plan.rendered.parent.group_kind, set_plan.rendered.revision) for set_plan in plan.sets}
        for source in {annotation(obj, well_known.RECORD_SOURCE) for obj in self.records.values()}:
            obsolete |= {obj["metadata"]["name"] for obj in self._rules_records(source)[:-1]}
        for kind, revisions in stored.revisions.items():
            unused = [revision for revision in revisions[:-1] if (kind, revision.number) not in in_use]
            obsolete |= {revision.record for revision in unused[:-MAX_UNUSED_REVISIONS]}
        return [self.records[name] for name in sorted(obsolete)]


def _is_applied(set_plan: ApplySetPlan) -> bool:
    """Do all nodes of this instance carry what its target wants? Not while one that is to go waits at the gate that only the pair before knows."""
    if (
        set_plan.rendered.is_source
        or set_plan.error
        or set_plan.is_unknown
        or set_plan.parent is None
        or not set_plan.rendered.revision
    ):
        return False
    if any(candidate.blocked and "gates" in candidate.blocked.details for candidate in set_plan.prune_candidates):
        return False
    return not is_terminating(set_plan.parent) and all(
        node.is_applied for node in set_plan.nodes if not node.node.external
    )


def _sequence(obj: Object) -> int:
    """The number at the end of a record's name; of two pairs of one instance the higher is the newer."""
    return number(obj["metadata"]["name"].rpartition("-")[2].removeprefix("r")) or 0


def definition_body(new_revision: NewRevision) -> Object:
    """The record of a new revision."""
    name = f"{new_revision.kind.kind.lower()}.{new_revision.kind.group}-r{new_revision.number}"
    annotations = {
        well_known.RECORD_OF: "/".join(new_revision.kind),
        well_known.REVISION: str(new_revision.number),
        well_known.HASH: new_revision.digest,
        well_known.RECORD_SOURCE: new_revision.source,
        well_known.COMMIT: new_revision.commit[:12],
        well_known.COMMIT_AUTHOR: new_revision.author,
        well_known.COMMIT_MESSAGE: new_revision.message,
    }
    return _body(name, DEFINITION, annotations, new_revision.number, new_revision.manifest)


def snapshot_body(rendered: RenderedApplySet, sequence: int = 1) -> Object:
    """The record that an instance was brought to what is rendered of it."""
    annotations = {
        well_known.RECORD_OF: "/".join(rendered.parent),
        well_known.REVISION: str(rendered.revision),
        well_known.HASH: _snapshot_digest(rendered),
        well_known.RECORD_SOURCE: rendered.source,
    }
    name = f"applied-{key_hash(rendered.parent)}-{sequence}"
    return _body(name, APPLIED, annotations, sequence, rendered.manifest)


def _snapshot_digest(rendered: RenderedApplySet) -> str:
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

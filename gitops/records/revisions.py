"""Archive of definition revisions, accepted rules and packs of applied snapshots, stored as ControllerRevisions.

Records in this module are ControllerRevisions. A revision is a numbered state of a definition. A ControllerRevision
never changes. So a reconciliation lists only the metadata, which holds kind, number and digest. If a reconciliation
needs the content of a record, it reads the content. Levelgate writes a revision before an object that the revision
renders, and writes an applied snapshot after all nodes of the instance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from applier.cluster import Object, Reader
from applier.plan.model import Plan
from applier.state.observed import annotation, is_terminating, label, number
from gitops.records.applied_packs import APPLIED, KIND, AppliedPack, current_packs, record_body
from renderer import well_known
from renderer.definition.compile import Definition, DefinitionErrors
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, ObjectKey
from renderer.render.model import NewRevision
from renderer.render.revisions import AppliedSnapshot, DefinitionRevision, StoredRevisions, definition_of

DEFINITION, RULES = "definition", "rules"
"""Values of the label `internal.levelgate.dev/record` for definition revisions and accepted rules."""

MAX_UNUSED_REVISIONS = 5
"""Number of unused revisions of a definition that Levelgate keeps, besides the newest revision."""


@dataclass(frozen=True)
class RevisionArchive:
    """Definition revisions, accepted rules and packs of a cluster, with or without their contents."""

    records: Mapping[str, Object] = field(default_factory=dict)
    """ControllerRevisions by name. A ControllerRevision without its content has no `data`."""
    write_errors: Mapping[GroupKind, str] = field(default_factory=dict)
    """Error message of each kind whose newest revision could not be written."""
    instances: frozenset[ObjectKey] | None = None
    """Instances whose applied snapshots `stored_revisions` includes, or None for all instances."""

    @classmethod
    async def observe(cls, cluster: Reader, previous: RevisionArchive | None = None) -> RevisionArchive:
        """Return the archive of all records in `cluster`. The archive keeps the contents that `previous` has read.

        The function lists only the metadata.

        Raises: ClusterError.
        """
        objects = await cluster.list(KIND, OWN_NAMESPACE, selector=well_known.RECORD, metadata_only=True)
        with_content = (
            {obj["metadata"].get("uid"): obj for obj in previous.records.values() if "data" in obj} if previous else {}
        )
        live = [obj for obj in objects if not is_terminating(obj)]
        return cls({obj["metadata"]["name"]: with_content.get(obj["metadata"]["uid"], obj) for obj in live})

    async def with_contents(self, cluster: Reader, names: Iterable[str]) -> RevisionArchive:
        """Return the archive with the contents of the records `names`, and without deleted records.

        Raises: ClusterError.
        """
        sorted_names = sorted(names)
        objects = await asyncio.gather(*(cluster.get(ObjectKey(*KIND, OWN_NAMESPACE, name)) for name in sorted_names))
        others = {name: obj for name, obj in self.records.items() if name not in sorted_names}
        return replace(self, records=others | {obj["metadata"]["name"]: obj for obj in objects if obj is not None})

    async def with_rules_contents(self, cluster: Reader, sources: Iterable[str]) -> RevisionArchive:
        """Return the archive with the contents of the accepted rules of `sources`. Raises: ClusterError."""
        unread = [obj for source in sources for obj in self._rules_records(source) if "data" not in obj]
        return await self.with_contents(cluster, [obj["metadata"]["name"] for obj in unread])

    def accepted_rules(self, source: str) -> Mapping[str, Any]:
        """Return the last accepted rules of `source`, or an empty mapping if no rules are stored."""
        rules_records = self._rules_records(source)
        return (rules_records[-1].get("data") or {}) if rules_records else {}

    def _rules_records(self, source: str) -> list[Object]:
        """Return the records of accepted rules of a source, oldest first."""
        rules_records = [obj for obj in self.records.values() if label(obj, well_known.RECORD) == RULES]
        return sorted(
            (obj for obj in rules_records if annotation(obj, well_known.RECORD_SOURCE) == source), key=_sequence
        )

    def with_pending_revisions(self, new_revisions: Iterable[NewRevision]) -> RevisionArchive:
        """Return the archive with `new_revisions` added, as if they were stored."""
        bodies = [definition_body(new_revision) for new_revision in new_revisions]
        return replace(self, records={**self.records, **{body["metadata"]["name"]: body for body in bodies}})

    @cached_property
    def stored_revisions(self) -> StoredRevisions:
        """Return revisions and applied snapshots for the renderer.

        The result omits a revision whose record does not name its kind in the metadata.
        """
        revisions: dict[GroupKind, list[DefinitionRevision]] = {}
        for obj in self.records.values():
            owner_parts = annotation(obj, well_known.RECORD_OF).split("/")
            if label(obj, well_known.RECORD) == DEFINITION and len(owner_parts) == 2:
                revision = DefinitionRevision(
                    number(annotation(obj, well_known.REVISION)) or 0,
                    annotation(obj, well_known.HASH),
                    obj["metadata"]["name"],
                    obj.get("data"),
                    annotation(obj, well_known.COMMIT),
                    annotation(obj, well_known.COMMIT_AUTHOR),
                    annotation(obj, well_known.COMMIT_MESSAGE),
                )
                revisions.setdefault(GroupKind(*owner_parts), []).append(revision)
        sorted_revisions = {
            kind: tuple(sorted(unsorted, key=lambda stored_revision: stored_revision.number))
            for kind, unsorted in sorted(revisions.items())
        }
        return StoredRevisions(sorted_revisions, self._applied, self.write_errors)

    @property
    def _applied(self) -> Mapping[ObjectKey, AppliedSnapshot]:
        """Return the applied snapshot of each instance. If `instances` is not None, leave out all other instances."""
        packs = (obj for obj in self.records.values() if label(obj, well_known.RECORD) == APPLIED)
        newest = current_packs(map(AppliedPack.from_record, packs))
        keys = newest.keys() if self.instances is None else newest.keys() & self.instances
        return {key: newest[key].snapshot(key) for key in sorted(keys) if not newest[key].entries[key].is_gone}

    async def read_newest_definitions(self, cluster: Reader) -> dict[str, Definition]:
        """Return the newest revision of each definition, by name of the definition.

        The result omits a definition that this version of Levelgate cannot compile.

        Raises: ClusterError.
        """
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

    def select_instances(self, instances: Collection[ObjectKey], packs: Mapping[str, Object]) -> RevisionArchive:
        """Return the archive with the applied snapshots of `instances` only.

        Args:
            packs: ControllerRevisions, by name, that hold the current entries of `instances`.
        """
        return replace(self, records={**self._shared_records, **packs}, instances=frozenset(instances))

    @cached_property
    def _shared_records(self) -> Mapping[str, Object]:
        return {name: obj for name, obj in self.records.items() if label(obj, well_known.RECORD) != APPLIED}

    def new_rules(self, rules: Mapping[str, Mapping[str, Any]]) -> Iterator[Object]:
        """Yield a manifest for each source whose rules in force differ from the stored rules.

        Args:
            rules: rules in force by source.
        """
        for source, accepted in sorted(rules.items()):
            rules_records = self._rules_records(source)
            if accepted != self.accepted_rules(source):
                sequence = _sequence(rules_records[-1]) + 1 if rules_records else 1
                annotations = {well_known.RECORD_SOURCE: source, well_known.REVISION: str(sequence)}
                yield record_body(f"policies-{source}-{sequence}", RULES, annotations, sequence, dict(accepted))

    def with_stored(self, objects: Iterable[Object]) -> RevisionArchive:
        """Return the archive, updated with the ControllerRevisions among `objects`, which come from the API server."""
        new_records = {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == KIND.kind}
        return replace(self, records={**self.records, **new_records}) if new_records else self

    def obsolete_records(self, plan: Plan, deleted_instances: Collection[ObjectKey]) -> list[Object]:
        """Return the records of revisions and rules that no instance or source needs any more.

        If an instance is rendered from a revision, or its applied snapshot names the revision, the revision is needed.
        Instances in `deleted_instances` need no revision. The newest revision and `MAX_UNUSED_REVISIONS` unused
        revisions stay too.
        """
        stored = self.stored_revisions
        obsolete: set[str] = set()
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


def _sequence(obj: Object) -> int:
    """Return the number at the end of the name of `obj`. The highest number belongs to the newest rules of a source."""
    return number(obj["metadata"]["name"].rpartition("-")[2].removeprefix("r")) or 0


def definition_body(new_revision: NewRevision) -> Object:
    """Return the manifest of the ControllerRevision for a new revision of a definition."""
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
    return record_body(name, DEFINITION, annotations, new_revision.number, new_revision.manifest)

"""Packs of applied snapshots: ControllerRevisions with the snapshots of a source that a reconciliation applied.

A pack never changes. An index in its metadata lists its entries, so contents are read only where an instance is
rendered from them. The current entry of an instance is the one with the highest sequence in any pack. Of copies with
equal sequences the one of the latest generation is current.

A pack is deleted when none of its entries is current, and after the entries that replace them are stored. So concurrent
writers lose nothing, and a process that has seen only some packs deletes nothing that is needed.

A deleted instance has an entry as well, a tombstone, while another pack holds an older entry of it. Without the
tombstone that older entry would become current again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import orjson

from applier.cluster import Object
from applier.plan.model import ApplySetPlan
from applier.state.observed import annotation, is_terminating, label, number
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE, GroupKind, Manifest, ObjectKey, digest, key_hash
from renderer.render.model import RenderedApplySet
from renderer.render.revisions import AppliedSnapshot

KIND = GroupKind("apps", "ControllerRevision")
APPLIED = "applied"
"""Value of the label `internal.levelgate.dev/record`."""

MAX_ENTRIES: Final = 100
MAX_PACK_BYTES: Final = 256 * 1024
"""Limit for the manifests of a pack, unless it has a single entry.

etcd accepts 1.5 MiB. Annotations may have 256 KiB, of which the index of 100 entries needs at most 70.
"""

MIN_ENTRY_BYTES: Final = MAX_PACK_BYTES // MAX_ENTRIES
"""Smallest size that an entry counts, so that one measure limits bytes and entries."""


class PackEntry(NamedTuple):
    """Entry of an index: an applied snapshot without its manifest."""

    sequence: int
    revision: int
    """Revision of the definition; 0 for a tombstone."""
    digest: str
    size: int
    """Bytes that the entry counts."""

    @property
    def is_gone(self) -> bool:
        """Return whether the entry is the tombstone of a deleted instance."""
        return self.revision == 0


@dataclass(frozen=True, slots=True)
class AppliedPack:
    """One pack. If its content was read, `entries` omits the ones whose manifest is missing there."""

    name: str
    source: str
    generation: int
    """1 more than that of the packs whose entries were copied into this one."""
    entries: Mapping[ObjectKey, PackEntry]
    record: Object

    @classmethod
    def from_record(cls, record: Object) -> AppliedPack:
        """Return the pack of a record; without a readable index it has no entries."""
        entries, data = _read_index(annotation(record, well_known.PAIRS)), record.get("data")
        if isinstance(data, dict):
            entries = {key: entry for key, entry in entries.items() if entry.is_gone or key_hash(key) in data}
        generation = number(annotation(record, well_known.REVISION)) or 0
        return cls(
            record["metadata"]["name"], annotation(record, well_known.RECORD_SOURCE), generation, entries, record
        )

    @property
    def size(self) -> int:
        """Return the bytes that all entries count."""
        return sum(entry.size for entry in self.entries.values())

    @property
    def is_read(self) -> bool:
        """Return whether its content was read, or has nothing to read."""
        return "data" in self.record or all(entry.is_gone for entry in self.entries.values())

    def manifest(self, key: ObjectKey) -> Manifest | None:
        """Return the manifest of an applied instance; None if it was not read, or the entry is a tombstone."""
        manifest: Manifest | None = (self.record.get("data") or {}).get(key_hash(key))
        return manifest

    def snapshot(self, key: ObjectKey) -> AppliedSnapshot:
        """Return the applied snapshot of an instance for the renderer."""
        entry = self.entries[key]
        return AppliedSnapshot(entry.revision, entry.digest, self.name, self.source, self.manifest(key))

    def rank(self, key: ObjectKey) -> tuple[int, int, str]:
        """Return a rank: of all entries of an instance, the highest is current."""
        return self.entries[key].sequence, self.generation, self.name


@lru_cache(maxsize=2048)
def _read_index(text: str) -> Mapping[ObjectKey, PackEntry]:
    """Return the entries of an index; an unreadable one is empty."""
    try:
        return {
            ObjectKey(*name.split("/")): PackEntry(int(sequence), int(revision), str(content), int(size))
            for name, (sequence, revision, content, size) in orjson.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}


@dataclass(frozen=True, slots=True)
class PendingSnapshot:
    """An entry to store, with its manifest."""

    entry: PackEntry
    source: str
    manifest: Manifest | None
    """Manifest of the instance; None for a tombstone."""
    record: str = ""
    """Name of the pack in which the entry was sent last."""


def pack_records(
    source: str, generation: int, snapshots: Mapping[ObjectKey, PendingSnapshot]
) -> Iterator[tuple[Object, list[ObjectKey]]]:
    """Yield the manifests of packs for these entries of one source, each with its instances.

    Equal entries have equal packs, so a repeated write changes nothing.
    """
    chunk: list[ObjectKey] = []
    size = 0
    for key, pending in sorted(snapshots.items()):
        if chunk and (len(chunk) == MAX_ENTRIES or size + pending.entry.size > MAX_PACK_BYTES):
            yield _pack_record(source, generation, {one: snapshots[one] for one in chunk}), chunk
            chunk, size = [], 0
        chunk.append(key)
        size += pending.entry.size
    if chunk:
        yield _pack_record(source, generation, {one: snapshots[one] for one in chunk}), chunk


def _pack_record(source: str, generation: int, snapshots: Mapping[ObjectKey, PendingSnapshot]) -> Object:
    index = {"/".join(key): list(pending.entry) for key, pending in snapshots.items()}
    annotations = {
        well_known.PAIRS: orjson.dumps(index).decode(),
        well_known.RECORD_SOURCE: source,
        well_known.REVISION: str(generation),
    }
    name = f"applied-{digest([source, generation, index])}"
    data = {key_hash(key): pending.manifest for key, pending in snapshots.items() if pending.manifest is not None}
    return record_body(name, APPLIED, annotations, generation, data)


def record_body(name: str, record: str, annotations: Mapping[str, str], revision: int, data: object) -> Object:
    """Return the manifest of a ControllerRevision in Levelgate's namespace."""
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


def newest_packs(packs: Iterable[AppliedPack]) -> dict[ObjectKey, AppliedPack]:
    """Return the pack with the current entry, by instance."""
    newest: dict[ObjectKey, AppliedPack] = {}
    for pack in packs:
        for key in pack.entries:
            if (known := newest.get(key)) is None or pack.rank(key) > known.rank(key):
                newest[key] = pack
    return newest


def pending_snapshot(rendered: RenderedApplySet, sequence: int) -> PendingSnapshot:
    """Return the entry of an instance to which its rendering was applied."""
    size = max(MIN_ENTRY_BYTES, len(orjson.dumps(rendered.manifest)))
    entry = PackEntry(sequence, rendered.revision, snapshot_digest(rendered), size)
    return PendingSnapshot(entry, rendered.source, rendered.manifest)


def snapshot_digest(rendered: RenderedApplySet) -> str:
    """Return the digest of a rendering's revision and manifest."""
    return digest([rendered.revision, rendered.manifest])


def is_brought_about(set_plan: ApplySetPlan) -> bool:
    """Return whether all nodes of this instance are applied.

    A node that a gate of the former revision keeps from being pruned counts against it: only the former snapshot has
    that gate.
    """
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


def pack_entries(record: Object) -> Mapping[ObjectKey, PackEntry]:
    """Return the entries of a pack; none for another record."""
    is_pack = label(record, well_known.RECORD) == APPLIED
    return _read_index(annotation(record, well_known.PAIRS)) if is_pack else {}

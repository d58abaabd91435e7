"""Packs of applied snapshots.

An instance is an object of a kind that a definition declares. The applied snapshot of an instance is a pair: the number
of a definition revision, and the instance's manifest. From this pair, Levelgate rendered the nodes of the instance when
all of them were last applied. A pack is a ControllerRevision with the applied snapshots of up to `MAX_ENTRIES`
instances of one source.

A pack never changes. An index in the metadata of the pack has one entry for each instance. So Levelgate reads the
content of a pack only to render an instance from a snapshot in the pack.

Each entry has a sequence, a number that orders the entries of one instance. The process that notes a new entry assigns
the number. The first entry has the number 1. Each later entry has the next number after the last entry that the process
knows. The entry with the highest sequence is current. A merge copies entries with their sequences into a pack of a
higher generation. If entries have equal sequences, the entry in the pack of the highest generation is current.

When no entry of a pack is current, Levelgate deletes the pack. An entry stops being current only when a stored pack has
a newer entry of the same instance. So a process that does not know the newest packs deletes no needed snapshot. If
Levelgate cannot read the index of a pack, Levelgate keeps the pack. A person can restore the index.

A tombstone is the entry of a deleted instance. Without the tombstone, an older entry in another pack would be current
again. As long as a known pack holds an older entry of the instance, the tombstone is current. So a process that deletes
tombstones has to know all packs that are older than the tombstones, from a list of all ControllerRevisions.
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
"""Value of the label `internal.levelgate.dev/record` on a pack."""

MAX_ENTRIES: Final = 100
MAX_PACK_BYTES: Final = 256 * 1024
"""Limit in bytes for the sum of `PackEntry.size` in a pack. A pack with a single entry may exceed the limit.

etcd accepts objects of up to 1.5 MiB. The annotations of an object may take 256 KiB. The index of 100 entries takes at
most 70 KiB of this space.
"""

MIN_ENTRY_BYTES: Final = MAX_PACK_BYTES // MAX_ENTRIES
"""Smallest `PackEntry.size` of a snapshot in bytes, so that `MAX_PACK_BYTES` also limits the number of snapshots."""


class PackEntry(NamedTuple):
    """Entry of an index: an applied snapshot without its manifest, or a tombstone."""

    sequence: int
    """Number that orders the entries of the instance. The entry with the highest number is current."""
    revision: int
    """Number of the definition revision, or 0 for a tombstone."""
    digest: str
    """Digest of the number of the definition revision and the manifest, or an empty string for a tombstone."""
    size: int
    """Size in bytes that counts towards `MAX_PACK_BYTES`: size of the manifest as JSON, but at least `MIN_ENTRY_BYTES`.
    """

    @property
    def is_gone(self) -> bool:
        """Return whether the entry is the tombstone of a deleted instance."""
        return self.revision == 0


@dataclass(frozen=True, slots=True)
class AppliedPack:
    """A pack with its parsed index."""

    name: str
    """Name of the ControllerRevision."""
    source: str
    generation: int
    """1 more than the highest generation of the packs that entries are copied from, or 1 for a pack without copies."""
    entries: Mapping[ObjectKey, PackEntry]
    """Entries by instance. If the content has been read, the mapping omits snapshots whose manifest the content lacks.
    """
    is_readable: bool
    """True if the index is readable. An unreadable pack has no entries."""
    record: Object
    """ControllerRevision of the pack. Before the content is read, the ControllerRevision has no `data`."""

    @classmethod
    def from_record(cls, record: Object) -> AppliedPack:
        """Return the pack in the ControllerRevision `record`. If the index is unreadable, the pack has no entries."""
        index, data = _read_index(annotation(record, well_known.PACK_INDEX)), record.get("data")
        entries = index or {}
        if isinstance(data, dict):
            entries = {key: entry for key, entry in entries.items() if entry.is_gone or key_hash(key) in data}
        generation = number(annotation(record, well_known.PACK_GENERATION)) or 0
        source = annotation(record, well_known.RECORD_SOURCE)
        return cls(record["metadata"]["name"], source, generation, entries, index is not None, record)

    @property
    def size(self) -> int:
        """Return the sum of the sizes of all entries in bytes."""
        return sum(entry.size for entry in self.entries.values())

    @property
    def is_read(self) -> bool:
        """Return whether the content of the pack has been read. A pack of tombstones alone has no content to read."""
        return "data" in self.record or all(entry.is_gone for entry in self.entries.values())

    def manifest(self, key: ObjectKey) -> Manifest | None:
        """Return the manifest of the instance `key`, or None for a tombstone or an unread manifest."""
        manifest: Manifest | None = (self.record.get("data") or {}).get(key_hash(key))
        return manifest

    def snapshot(self, key: ObjectKey) -> AppliedSnapshot:
        """Return the applied snapshot of the instance `key` for the renderer. The instance must be in `entries`."""
        entry = self.entries[key]
        return AppliedSnapshot(entry.revision, entry.digest, self.name, self.source, self.manifest(key))

    def rank(self, key: ObjectKey) -> tuple[int, int, str]:
        """Return the rank of the entry of `key` in the pack: sequence, generation, name of the pack.

        The current entry of an instance is the entry with the highest rank in all packs.
        """
        return self.entries[key].sequence, self.generation, self.name


@lru_cache(maxsize=2048)
def _read_index(text: str) -> Mapping[ObjectKey, PackEntry] | None:
    """Return the entries of the index in `text` by instance, or None if the index is unreadable."""
    try:
        return {
            ObjectKey(*name.split("/")): PackEntry(int(sequence), int(revision), str(content), int(size))
            for name, (sequence, revision, content, size) in orjson.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        return None


@dataclass(frozen=True, slots=True)
class PendingSnapshot:
    """Entry that a reconciliation has to store in a pack."""

    entry: PackEntry
    source: str
    manifest: Manifest | None
    """Manifest of the instance, or None for a tombstone."""
    record: str = ""
    """Name of the pack in which the entry was last sent, or an empty string for an entry that was never sent."""


def pack_records(
    source: str, generation: int, snapshots: Mapping[ObjectKey, PendingSnapshot]
) -> Iterator[tuple[Object, list[ObjectKey]]]:
    """Yield the manifest of each pack for `snapshots`, with the instances in the pack.

    Equal arguments give equal packs with equal names, so a repeated write changes nothing.

    Args:
        source: source that the instances belong to.
        generation: generation of all packs that the function yields.
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
        well_known.PACK_INDEX: orjson.dumps(index).decode(),
        well_known.RECORD_SOURCE: source,
        well_known.PACK_GENERATION: str(generation),
    }
    name = f"applied-{digest([source, generation, index])}"
    data = {key_hash(key): pending.manifest for key, pending in snapshots.items() if pending.manifest is not None}
    return record_body(name, APPLIED, annotations, generation, data)


def record_body(name: str, record: str, annotations: Mapping[str, str], revision: int, data: object) -> Object:
    """Return the manifest of a ControllerRevision in Levelgate's namespace.

    Args:
        record: value of the label `internal.levelgate.dev/record`, such as `applied`.
        revision: value of the field `revision` that each ControllerRevision needs: the generation of a pack, the number
            of a definition revision, or the sequence of accepted rules.
        data: content, which is not part of the metadata.
    """
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


def current_packs(packs: Iterable[AppliedPack]) -> dict[ObjectKey, AppliedPack]:
    """Return the pack with the current entry of each instance, by instance."""
    newest: dict[ObjectKey, AppliedPack] = {}
    for pack in packs:
        for key in pack.entries:
            if (known := newest.get(key)) is None or pack.rank(key) > known.rank(key):
                newest[key] = pack
    return newest


def pending_snapshot(rendered: RenderedApplySet, sequence: int) -> PendingSnapshot:
    """Return the entry with the number `sequence` for the instance of `rendered`, whose nodes are all applied."""
    size = max(MIN_ENTRY_BYTES, len(orjson.dumps(rendered.manifest)))
    entry = PackEntry(sequence, rendered.revision, snapshot_digest(rendered), size)
    return PendingSnapshot(entry, rendered.source, rendered.manifest)


def snapshot_digest(rendered: RenderedApplySet) -> str:
    """Return the digest of the number of the definition revision and the instance's manifest in `rendered`."""
    return digest([rendered.revision, rendered.manifest])


def is_fully_applied(set_plan: ApplySetPlan) -> bool:
    """Return whether all nodes of an instance are applied, so that its snapshot can be stored.

    Return False for the set of a source and for an instance that has no live object, is terminating, or has an error.
    While a gate blocks the pruning of a node, return False too. The stored snapshot names the definition revision that
    has this gate. A new snapshot would replace the stored snapshot.
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
    """Return the entries of the pack `record` by instance, or an empty mapping if `record` is not a readable pack."""
    is_pack = label(record, well_known.RECORD) == APPLIED
    return (is_pack and _read_index(annotation(record, well_known.PACK_INDEX))) or {}

"""Applied pairs as they are stored: in packs, each a ControllerRevision with the pairs of one source that one pass has brought about.

A pack never changes. The index in its metadata says which pairs it holds, so contents are read only where something is rendered from them. Of the
pairs of one instance the one with the highest sequence counts, wherever it is, and of copies of one pair that of the latest generation. So two who
write at the same time lose nothing, and who saw less than there is drops nothing that counts: a pack is dropped when none of its pairs counts any
more, after all that replaces them is stored.

That an instance is gone is an entry as well, as long as another pack holds an older pair of it, which would count again otherwise.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
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

MAX_PAIRS: Final = 100
MAX_PACK_BYTES: Final = 256 * 1024
"""Of the manifests of one pack, unless it holds a single one. etcd takes 1.5 MiB, and annotations 256 KiB, of which 100 entries need 70 at most."""

MIN_PAIR_BYTES: Final = MAX_PACK_BYTES // MAX_PAIRS
"""What a pair counts at least, so that one measure bounds bytes and pairs."""

GONE_BYTES: Final = 64
"""What it counts that an instance is gone."""

SPARSE: Final = 4
"""A pack of which at most one in so many bytes counts is written anew, with the next pairs."""


class PackedPair(NamedTuple):
    """An entry of the index: what a pack tells of one pair without its content. Revision 0: the instance is gone."""

    sequence: int
    revision: int
    digest: str
    size: int

    @property
    def is_gone(self) -> bool:
        return self.revision == 0


@dataclass(frozen=True, slots=True)
class AppliedPack:
    """One record: the entries of its index by instance. Entries whose content is missing are left out, where the content was read."""

    name: str
    source: str
    generation: int
    entries: Mapping[ObjectKey, PackedPair]
    record: Object

    @classmethod
    def from_record(cls, record: Object) -> AppliedPack:
        """A record that does not say what it is holds nothing."""
        entries, data = _read_index(annotation(record, well_known.PAIRS)), record.get("data")
        if isinstance(data, dict):
            entries = {key: entry for key, entry in entries.items() if entry.is_gone or key_hash(key) in data}
        generation = number(annotation(record, well_known.REVISION)) or 0
        return cls(
            record["metadata"]["name"], annotation(record, well_known.RECORD_SOURCE), generation, entries, record
        )

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries.values())

    @property
    def is_read(self) -> bool:
        """Is all known of it that it holds?"""
        return "data" in self.record or all(entry.is_gone for entry in self.entries.values())

    def manifest(self, key: ObjectKey) -> Manifest | None:
        """The instance as it was rendered from; None where it has not been read, or is gone."""
        manifest: Manifest | None = (self.record.get("data") or {}).get(key_hash(key))
        return manifest

    def snapshot(self, key: ObjectKey) -> AppliedSnapshot:
        """The pair of this instance as the renderer takes it."""
        entry = self.entries[key]
        return AppliedSnapshot(entry.revision, entry.digest, self.name, self.source, self.manifest(key))

    def rank(self, key: ObjectKey) -> tuple[int, int, str]:
        """Of the pairs of one instance the one with the highest counts."""
        return self.entries[key].sequence, self.generation, self.name


@lru_cache(maxsize=2048)
def _read_index(text: str) -> Mapping[ObjectKey, PackedPair]:
    try:
        return {
            ObjectKey(*name.split("/")): PackedPair(int(sequence), int(revision), str(content), int(size))
            for name, (sequence, revision, content, size) in orjson.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair to be stored, and the record in which it was sent last. `manifest` is None of an instance that is gone."""

    entry: PackedPair
    source: str
    manifest: Manifest | None
    record: str = ""


def pack_records(
    source: str, generation: int, pairs: Mapping[ObjectKey, Pair]
) -> Iterator[tuple[Object, list[ObjectKey]]]:
    """The bodies of packs of these pairs of one source, each with whom it holds. Equal pairs have equal bodies."""
    chunk: list[ObjectKey] = []
    size = 0
    for key, pair in sorted(pairs.items()):
        if chunk and (len(chunk) == MAX_PAIRS or size + pair.entry.size > MAX_PACK_BYTES):
            yield _pack_record(source, generation, {one: pairs[one] for one in chunk}), chunk
            chunk, size = [], 0
        chunk.append(key)
        size += pair.entry.size
    if chunk:
        yield _pack_record(source, generation, {one: pairs[one] for one in chunk}), chunk


def _pack_record(source: str, generation: int, pairs: Mapping[ObjectKey, Pair]) -> Object:
    index = {"/".join(key): list(pair.entry) for key, pair in pairs.items()}
    annotations = {
        well_known.PAIRS: orjson.dumps(index).decode(),
        well_known.RECORD_SOURCE: source,
        well_known.REVISION: str(generation),
    }
    name = f"applied-{digest([source, generation, index])}"
    data = {key_hash(key): pair.manifest for key, pair in pairs.items() if pair.manifest is not None}
    return record_body(name, APPLIED, annotations, generation, data)


def record_body(name: str, record: str, annotations: Mapping[str, str], revision: int, data: object) -> Object:
    """A record in our own namespace."""
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
    """By instance the pack with the pair that counts."""
    newest: dict[ObjectKey, AppliedPack] = {}
    for pack in packs:
        for key in pack.entries:
            if (known := newest.get(key)) is None or pack.rank(key) > known.rank(key):
                newest[key] = pack
    return newest


def rendered_pair(rendered: RenderedApplySet, sequence: int) -> Pair:
    """That an instance was brought to what is rendered of it."""
    size = max(MIN_PAIR_BYTES, len(orjson.dumps(rendered.manifest)))
    entry = PackedPair(sequence, rendered.revision, snapshot_digest(rendered), size)
    return Pair(entry, rendered.source, rendered.manifest)


def snapshot_digest(rendered: RenderedApplySet) -> str:
    return digest([rendered.revision, rendered.manifest])


def is_brought_about(set_plan: ApplySetPlan) -> bool:
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


@dataclass(eq=False)
class AppliedPacks:
    """What one process knows of the packs in a cluster, and the pairs that it has yet to store. A pass over a part adds a cost that the rest does
    not add to. A pair that could not be stored stays `pending`: whichever pass stores pairs next takes it along.
    """

    pending: dict[ObjectKey, Pair] = field(default_factory=dict)
    _packs: dict[str, AppliedPack] = field(default_factory=dict)
    _newest: dict[ObjectKey, str] = field(default_factory=dict)
    _holders: dict[ObjectKey, set[str]] = field(default_factory=dict)
    _counting_bytes: dict[str, int] = field(default_factory=dict)
    _dead: set[str] = field(default_factory=set)
    _sparse: set[str] = field(default_factory=set)
    _rewritten: set[str] = field(default_factory=set)

    # ---- what is stored

    def observe(self, records: Iterable[Object]) -> None:
        """These are all records that there are; those of other sorts are passed over."""
        packs = [AppliedPack.from_record(obj) for obj in records if label(obj, well_known.RECORD) == APPLIED]
        self._packs = {pack.name: pack for pack in packs}
        self._newest = {key: pack.name for key, pack in newest_packs(packs).items()}
        self._holders, self._counting_bytes = {}, {}
        self._dead, self._sparse, self._rewritten = set(), set(), set()
        for pack in packs:
            for key in pack.entries:
                self._holders.setdefault(key, set()).add(pack.name)
        for name in self._packs:
            self._judge(name)
        for key in list(self.pending):
            self._confirm(key)

    def add(self, record: Object) -> None:
        """This is stored now."""
        if label(record, well_known.RECORD) != APPLIED or self._keep_content(record):
            return
        pack = AppliedPack.from_record(record)
        self._packs[pack.name] = pack
        changed = {pack.name}
        for key in pack.entries:
            self._holders.setdefault(key, set()).add(pack.name)
            before = self._newest.get(key)
            if before:
                changed.add(before)
            if before is None or pack.rank(key) > self._packs[before].rank(key):
                self._newest[key] = pack.name
            self._confirm(key)
        for name in changed:
            self._judge(name)

    def keep_contents(self, records: Iterable[Object]) -> None:
        """What was read of packs, for those who need it next."""
        for record in records:
            self._keep_content(record)

    def remove(self, names: Iterable[str]) -> None:
        """These are not stored any more."""
        changed: set[str] = set()
        for name in names:
            pack = self._packs.pop(name, None)
            self._counting_bytes.pop(name, None)
            self._dead.discard(name)
            self._sparse.discard(name)
            for key in pack.entries if pack else ():
                self._holders[key].discard(name)
                if self._newest.get(key) == name:
                    del self._newest[key]
                if not self._holders[key]:
                    del self._holders[key]
                elif newest := self._newest.get(key):
                    changed.add(newest)
        for name in changed & self._packs.keys():
            self._judge(name)

    def records_of(self, instances: Collection[ObjectKey]) -> dict[str, Object]:
        """The packs with the pairs of these instances that count."""
        names = {name for key in instances if (name := self._newest.get(key))}
        return {name: self._packs[name].record for name in sorted(names)}

    def _keep_content(self, record: Object) -> bool:
        """False: it is not known."""
        name = record["metadata"]["name"]
        if (known := self._packs.get(name)) is None:
            return False
        if "data" in record and "data" not in known.record:
            self._packs[name] = replace(known, record=record)
        return True

    def _confirm(self, key: ObjectKey) -> None:
        pending, stored = self.pending.get(key), self._entry(key)
        if pending and stored and stored.sequence >= pending.entry.sequence:
            del self.pending[key]

    def _entry(self, key: ObjectKey) -> PackedPair | None:
        name = self._newest.get(key)
        return self._packs[name].entries[key] if name else None

    def _counts(self, pack: AppliedPack, key: ObjectKey) -> bool:
        is_needed = not pack.entries[key].is_gone or len(self._holders[key]) > 1
        return is_needed and self._newest.get(key) == pack.name

    def _counting(self, pack: AppliedPack) -> Iterator[ObjectKey]:
        return (key for key in pack.entries if self._counts(pack, key))

    def _judge(self, name: str) -> None:
        pack = self._packs[name]
        counting = self._counting_bytes[name] = sum(pack.entries[key].size for key in self._counting(pack))
        for names, belongs in ((self._dead, not counting), (self._sparse, 0 < counting * SPARSE <= pack.size)):
            (names.add if belongs else names.discard)(name)

    # ---- what is to be stored

    def note(self, plans: Iterable[ApplySetPlan]) -> None:
        """These instances that are where they were to be brought have pairs that say so, or get them."""
        for plan in plans:
            if is_brought_about(plan):
                self.note_applied(plan.rendered)

    def note_applied(self, rendered: RenderedApplySet) -> None:
        """This instance was brought to what is rendered of it."""
        key = rendered.parent
        pending, stored = self.pending.get(key), self._entry(key)
        last = pending.entry if pending else stored
        if last is None or last.digest != snapshot_digest(rendered):
            self.pending[key] = rendered_pair(rendered, last.sequence + 1 if last else 1)

    def note_gone(self, gone: Collection[ObjectKey], wanted: Collection[ObjectKey]) -> None:
        """These instances are gone for good; of all others that are not `wanted` nothing is pending any more."""
        before = self.pending
        self.pending = {key: pair for key, pair in before.items() if key in wanted or pair.entry.is_gone}
        gone = {key for key in gone if (entry := self._entry(key)) and not entry.is_gone}
        emptied = {
            name for name in {self._newest[key] for key in gone} if gone.issuperset(self._counting(self._packs[name]))
        }
        for key in sorted(gone):
            name = self._newest[key]
            if name in emptied and len(self._holders[key]) == 1:
                del self._newest[key]
            elif key not in self.pending:
                pack = self._packs[name]
                last = before[key].entry if key in before else pack.entries[key]
                entry = PackedPair(last.sequence + 1, 0, "", GONE_BYTES)
                self.pending[key] = Pair(entry, pack.source, None)
        for name in emptied:
            self._judge(name)

    def take_sparse(self, sources: Collection[str]) -> list[AppliedPack]:
        """Packs of these sources that are to be written anew with what is pending, as little of them counts after it. They are nobody else's until
        they are released. It is worth it when all that counts no more in them would fill a pack.
        """
        replaced: Counter[str] = Counter()
        merged: set[str] = set()
        for key, pair in self.pending.items():
            if (name := self._newest.get(key)) and self._counts(self._packs[name], key):
                replaced[name] += self._packs[name].entries[key].size
            if pair.entry.is_gone:
                merged.add(pair.source)
        found, waste = set(), 0
        for name in (self._sparse | replaced.keys()) - self._rewritten:
            pack, counting = self._packs[name], self._counting_bytes[name] - replaced[name]
            if pack.source in sources and 0 < counting * SPARSE <= pack.size:
                found.add(name)
                waste += pack.size - counting
        if waste < MAX_PAIRS * MIN_PAIR_BYTES:
            found = set()
        if merged:  # What says of few instances that they are gone says it together with the next ones.
            found |= {
                name
                for name, pack in self._packs.items()
                if pack.source in merged
                and pack.source in sources
                and len(pack.entries) < MAX_PAIRS
                and self._counting_bytes[name]
                and all(entry.is_gone for entry in pack.entries.values())
                and name not in self._rewritten
            }
        self._rewritten |= found
        return [self._packs[name] for name in sorted(found)]

    def release(self, packs: Iterable[AppliedPack]) -> None:
        """They are not written anew now."""
        self._rewritten.difference_update(pack.name for pack in packs)

    def compose(self, sparse: Iterable[AppliedPack], unwritable: Collection[str]) -> list[Object]:
        """The packs to be stored: with all that is pending, but for what is on its way in records that are `unwritable` now, and with copies of what
        counts in the `sparse` ones, which have been read.
        """
        pairs: dict[str, dict[ObjectKey, Pair]] = defaultdict(dict)
        generations: Counter[str] = Counter()
        for key, pair in self.pending.items():
            if pair.record not in unwritable:
                pairs[pair.source][key] = pair
        for pack in sparse:
            known = self._packs.get(pack.name)
            for key in self._counting(known) if known else ():
                manifest = known.manifest(key) if known else None
                if known and key not in self.pending and (manifest is not None or known.entries[key].is_gone):
                    pairs[known.source][key] = Pair(known.entries[key], known.source, manifest)
                    generations[known.source] = max(generations[known.source], known.generation)
        bodies = []
        for source in sorted(pairs):
            for body, keys in pack_records(source, generations[source] + 1, pairs[source]):
                bodies.append(body)
                sent = {key: self.pending[key] for key in keys if key in self.pending}
                self.pending |= {key: replace(pair, record=body["metadata"]["name"]) for key, pair in sent.items()}
        return bodies

    def take_dead(self) -> Sequence[Object]:
        """Packs none of whose pairs counts, for one who drops them."""
        dead, self._dead = self._dead, set()
        return [self._packs[name].record for name in sorted(dead)]


def pairs_in(record: Object) -> Mapping[ObjectKey, PackedPair]:
    """The index of a pack; of every other record it is empty."""
    is_pack = label(record, well_known.RECORD) == APPLIED
    return _read_index(annotation(record, well_known.PAIRS)) if is_pack else {}

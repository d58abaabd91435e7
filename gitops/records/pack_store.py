"""Store of packs: which packs a cluster has, which entries are yet to be stored, and which packs can be deleted.

`applied_packs` describes the packs themselves.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Final

from applier.cluster import Object
from applier.plan.model import ApplySetPlan
from applier.state.observed import label
from gitops.records.applied_packs import (
    APPLIED,
    MAX_ENTRIES,
    MIN_ENTRY_BYTES,
    AppliedPack,
    PackEntry,
    PendingSnapshot,
    is_brought_about,
    newest_packs,
    pack_records,
    pending_snapshot,
    snapshot_digest,
)
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet

GONE_BYTES: Final = 64
"""Size that a tombstone counts."""

SPARSE: Final = 4
"""A pack is sparse if at most one in this many of its bytes is current; it is merged into the next pack."""


@dataclass(eq=False)
class AppliedPacks:
    """Packs in a cluster as one process knows them, and the entries that it has yet to store.

    The cost of a partial reconciliation depends on its own instances only. An entry that could not be stored stays
    pending, and the next reconciliation that stores entries includes it.
    """

    pending: dict[ObjectKey, PendingSnapshot] = field(default_factory=dict)
    _packs: dict[str, AppliedPack] = field(default_factory=dict)
    _newest: dict[ObjectKey, str] = field(default_factory=dict)
    """Name of the pack with the current entry, by instance."""
    _holders: dict[ObjectKey, set[str]] = field(default_factory=dict)
    """Names of all packs with an entry of an instance."""
    _current_bytes: dict[str, int] = field(default_factory=dict)
    """Bytes of current entries by pack."""
    _dead: set[str] = field(default_factory=set)
    """Packs without a current entry that are not deleted yet."""
    _sparse: set[str] = field(default_factory=set)
    _rewritten: set[str] = field(default_factory=set)
    """Sparse packs that a reconciliation is merging."""

    # ---- stored packs

    def observe(self, records: Iterable[Object]) -> None:
        """Replace the known packs with those among all records of the cluster."""
        packs = [AppliedPack.from_record(obj) for obj in records if label(obj, well_known.RECORD) == APPLIED]
        self._packs = {pack.name: pack for pack in packs}
        self._newest = {key: pack.name for key, pack in newest_packs(packs).items()}
        self._holders, self._current_bytes = {}, {}
        self._dead, self._sparse, self._rewritten = set(), set(), set()
        for pack in packs:
            for key in pack.entries:
                self._holders.setdefault(key, set()).add(pack.name)
        for name in self._packs:
            self._classify(name)
        for key in list(self.pending):
            self._confirm(key)

    def add(self, record: Object) -> None:
        """Add a record that was stored; one that is not a pack is ignored."""
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
            self._classify(name)

    def keep_contents(self, records: Iterable[Object]) -> None:
        """Keep the contents of known packs that were read."""
        for record in records:
            self._keep_content(record)

    def remove(self, names: Iterable[str]) -> None:
        """Forget packs that were deleted."""
        changed: set[str] = set()
        for name in names:
            pack = self._packs.pop(name, None)
            self._current_bytes.pop(name, None)
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
            self._classify(name)

    def records_of(self, instances: Collection[ObjectKey]) -> dict[str, Object]:
        """Return the packs, by name, with the current entries of these instances."""
        names = {name for key in instances if (name := self._newest.get(key))}
        return {name: self._packs[name].record for name in sorted(names)}

    def _keep_content(self, record: Object) -> bool:
        """Keep the content of a record if its pack is known; return whether it is."""
        name = record["metadata"]["name"]
        if (known := self._packs.get(name)) is None:
            return False
        if "data" in record and "data" not in known.record:
            self._packs[name] = replace(known, record=record)
        return True

    def _confirm(self, key: ObjectKey) -> None:
        """Drop the pending entry of an instance if it, or a newer one, is stored."""
        pending, stored = self.pending.get(key), self._entry(key)
        if pending and stored and stored.sequence >= pending.entry.sequence:
            del self.pending[key]

    def _entry(self, key: ObjectKey) -> PackEntry | None:
        name = self._newest.get(key)
        return self._packs[name].entries[key] if name else None

    def _is_current(self, pack: AppliedPack, key: ObjectKey) -> bool:
        """Return whether a pack has the current entry; a tombstone only while another pack has an entry."""
        is_needed = not pack.entries[key].is_gone or len(self._holders[key]) > 1
        return is_needed and self._newest.get(key) == pack.name

    def _current_keys(self, pack: AppliedPack) -> Iterator[ObjectKey]:
        return (key for key in pack.entries if self._is_current(pack, key))

    def _classify(self, name: str) -> None:
        """Update the size of a pack's current entries, and whether it is dead or sparse."""
        pack = self._packs[name]
        current_size = self._current_bytes[name] = sum(pack.entries[key].size for key in self._current_keys(pack))
        for names, belongs in ((self._dead, not current_size), (self._sparse, 0 < current_size * SPARSE <= pack.size)):
            (names.add if belongs else names.discard)(name)

    # ---- entries to store

    def note(self, plans: Iterable[ApplySetPlan]) -> None:
        """Make an entry pending for each instance whose nodes are all applied, unless it is stored already."""
        for plan in plans:
            if is_brought_about(plan):
                self.note_applied(plan.rendered)

    def note_applied(self, rendered: RenderedApplySet) -> None:
        """Make an entry pending for an instance to which this rendering was applied, unless it is stored already."""
        key = rendered.parent
        pending, stored = self.pending.get(key), self._entry(key)
        last = pending.entry if pending else stored
        if last is None or last.digest != snapshot_digest(rendered):
            self.pending[key] = pending_snapshot(rendered, last.sequence + 1 if last else 1)

    def note_gone(self, gone: Collection[ObjectKey], wanted: Collection[ObjectKey]) -> None:
        """Make tombstones pending for deleted instances, and drop pending entries of instances that are not wanted.

        No tombstone is needed for the only entry of an instance in a pack without other current entries: that pack is
        deleted as a whole.
        """
        before = self.pending
        self.pending = {key: pending for key, pending in before.items() if key in wanted or pending.entry.is_gone}
        gone = {key for key in gone if (entry := self._entry(key)) and not entry.is_gone}
        emptied = {
            name
            for name in {self._newest[key] for key in gone}
            if gone.issuperset(self._current_keys(self._packs[name]))
        }
        for key in sorted(gone):
            name = self._newest[key]
            if name in emptied and len(self._holders[key]) == 1:
                del self._newest[key]
            elif key not in self.pending:
                pack = self._packs[name]
                last = before[key].entry if key in before else pack.entries[key]
                entry = PackEntry(last.sequence + 1, 0, "", GONE_BYTES)
                self.pending[key] = PendingSnapshot(entry, pack.source, None)
        for name in emptied:
            self._classify(name)

    def take_sparse(self, sources: Collection[str]) -> list[AppliedPack]:
        """Return the packs of these sources to merge into the next ones, and reserve them until `release`.

        These are sparse packs, once their obsolete entries would fill a whole pack, and packs with only a few
        tombstones.
        """
        names = self._find_wasteful(sources) | self._find_tombstone_packs(sources)
        self._rewritten |= names
        return [self._packs[name] for name in sorted(names)]

    def _find_wasteful(self, sources: Collection[str]) -> set[str]:
        """Return packs that are sparse once the pending entries are stored; none if they waste less than a pack."""
        replaced: Counter[str] = Counter()
        for key in self.pending:
            if (name := self._newest.get(key)) and self._is_current(self._packs[name], key):
                replaced[name] += self._packs[name].entries[key].size
        found, waste = set(), 0
        for name in (self._sparse | replaced.keys()) - self._rewritten:
            pack, current_size = self._packs[name], self._current_bytes[name] - replaced[name]
            if pack.source in sources and 0 < current_size * SPARSE <= pack.size:
                found.add(name)
                waste += pack.size - current_size
        return found if waste >= MAX_ENTRIES * MIN_ENTRY_BYTES else set()

    def _find_tombstone_packs(self, sources: Collection[str]) -> set[str]:
        """Return packs of tombstones that are not full, of sources with pending tombstones.

        Instances are often deleted a few at a time. Without the merge each time would leave a small pack behind.
        """
        merged = {pending.source for pending in self.pending.values() if pending.entry.is_gone}.intersection(sources)
        return {
            name
            for name, pack in (self._packs.items() if merged else ())
            if pack.source in merged
            and len(pack.entries) < MAX_ENTRIES
            and self._current_bytes[name]
            and all(entry.is_gone for entry in pack.entries.values())
            and name not in self._rewritten
        }

    def release(self, packs: Iterable[AppliedPack]) -> None:
        """End the reservation of packs from `take_sparse`."""
        self._rewritten.difference_update(pack.name for pack in packs)

    def compose(self, sparse: Iterable[AppliedPack], unwritable: Collection[str]) -> list[Object]:
        """Return the manifests of packs to store: with the pending entries and the current ones of `sparse` packs.

        Args:
            sparse: packs from `take_sparse`, whose contents were read.
            unwritable: names of packs that are being written; pending entries in them are not sent again.
        """
        snapshots: dict[str, dict[ObjectKey, PendingSnapshot]] = defaultdict(dict)
        generations: Counter[str] = Counter()
        for key, pending in self.pending.items():
            if pending.record not in unwritable:
                snapshots[pending.source][key] = pending
        for pack in sparse:
            known = self._packs.get(pack.name)
            for key in self._current_keys(known) if known else ():
                manifest = known.manifest(key) if known else None
                if known and key not in self.pending and (manifest is not None or known.entries[key].is_gone):
                    snapshots[known.source][key] = PendingSnapshot(known.entries[key], known.source, manifest)
                    generations[known.source] = max(generations[known.source], known.generation)
        bodies = []
        for source in sorted(snapshots):
            for body, keys in pack_records(source, generations[source] + 1, snapshots[source]):
                bodies.append(body)
                sent = {key: self.pending[key] for key in keys if key in self.pending}
                self.pending |= {
                    key: replace(pending, record=body["metadata"]["name"]) for key, pending in sent.items()
                }
        return bodies

    def take_dead(self) -> Sequence[Object]:
        """Return the packs without a current entry, each once: the caller deletes them."""
        dead, self._dead = self._dead, set()
        return [self._packs[name].record for name in sorted(dead)]

"""Store of packs: the packs of a cluster, the entries to store, and the packs to delete.

The module `applied_packs` describes the packs themselves.
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
    current_packs,
    is_fully_applied,
    pack_records,
    pending_snapshot,
    snapshot_digest,
)
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet

GONE_BYTES: Final = 64
"""`PackEntry.size` of a tombstone in bytes."""

SPARSE: Final = 4
"""Divisor that defines a sparse pack: its current entries take at most 1/`SPARSE` of its bytes.

A merge copies the current entries of sparse packs into the next pack.
"""


@dataclass(eq=False)
class AppliedPacks:
    """Packs of a cluster as one process knows them, and the entries that the process still has to store.

    The cost of a partial reconciliation depends only on the instances that it reconciles. If an entry cannot be stored,
    the entry stays pending, and the next reconciliation that stores entries includes it.
    """

    pending: dict[ObjectKey, PendingSnapshot] = field(default_factory=dict)
    """Entries to store, by instance."""
    _packs: dict[str, AppliedPack] = field(default_factory=dict)
    _newest: dict[ObjectKey, str] = field(default_factory=dict)
    """Name of the pack with the current entry, by instance."""
    _holders: dict[ObjectKey, set[str]] = field(default_factory=dict)
    """Names of all packs that hold an entry of an instance, by instance."""
    _current_bytes: dict[str, int] = field(default_factory=dict)
    """Sum of the sizes of the current entries in bytes, by name of the pack."""
    _dead: set[str] = field(default_factory=set)
    """Names of packs that have no current entry and that `take_dead` has not returned yet."""
    _sparse: set[str] = field(default_factory=set)
    """Names of sparse packs."""
    _rewritten: set[str] = field(default_factory=set)
    """Names of packs that a reconciliation is merging, from `take_sparse` until `release`."""

    # ---- stored packs

    def observe(self, records: Iterable[Object]) -> None:
        """Replace the known packs with those in `records`. These must be all ControllerRevisions of Levelgate.

        Drop the pending entries that a known pack holds.
        """
        packs = [AppliedPack.from_record(obj) for obj in records if label(obj, well_known.RECORD) == APPLIED]
        self._packs = {pack.name: pack for pack in packs}
        self._newest = {key: pack.name for key, pack in current_packs(packs).items()}
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
        """Add the stored pack `record`. If `record` is not a pack, do nothing."""
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
        """Keep those contents in `records` that belong to known packs."""
        for record in records:
            self._keep_content(record)

    def remove(self, names: Iterable[str]) -> None:
        """Forget the deleted packs with these `names`."""
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
        """Return the ControllerRevisions of the packs that hold the current entries of `instances`, by name."""
        names = {name for key in instances if (name := self._newest.get(key))}
        return {name: self._packs[name].record for name in sorted(names)}

    def _keep_content(self, record: Object) -> bool:
        """Keep the content of `record` if its pack is known, and return whether the pack is known."""
        name = record["metadata"]["name"]
        if (known := self._packs.get(name)) is None:
            return False
        if "data" in record and "data" not in known.record:
            self._packs[name] = replace(known, record=record)
        return True

    def _confirm(self, key: ObjectKey) -> None:
        """Drop the pending entry of the instance `key` if a stored entry has the same or a higher sequence."""
        pending, stored = self.pending.get(key), self._entry(key)
        if pending and stored and stored.sequence >= pending.entry.sequence:
            del self.pending[key]

    def _entry(self, key: ObjectKey) -> PackEntry | None:
        name = self._newest.get(key)
        return self._packs[name].entries[key] if name else None

    def _is_current(self, pack: AppliedPack, key: ObjectKey) -> bool:
        """Return whether `pack` holds the current entry of the instance `key`.

        While another known pack holds an entry of the instance, a tombstone is current.
        """
        is_needed = not pack.entries[key].is_gone or len(self._holders[key]) > 1
        return is_needed and self._newest.get(key) == pack.name

    def _current_keys(self, pack: AppliedPack) -> Iterator[ObjectKey]:
        return (key for key in pack.entries if self._is_current(pack, key))

    def _classify(self, name: str) -> None:
        """Update the size of the current entries of the pack `name`, and its membership in `_dead` and `_sparse`."""
        pack = self._packs[name]
        current_size = self._current_bytes[name] = sum(pack.entries[key].size for key in self._current_keys(pack))
        is_dead = pack.is_readable and not current_size
        for names, belongs in ((self._dead, is_dead), (self._sparse, 0 < current_size * SPARSE <= pack.size)):
            (names.add if belongs else names.discard)(name)

    # ---- entries to store

    def note(self, plans: Iterable[ApplySetPlan]) -> None:
        """Make an entry pending for each instance in `plans` whose nodes are all applied.

        If the last known entry of an instance has the same digest, the instance gets no new entry.
        """
        for plan in plans:
            if is_fully_applied(plan):
                self.note_applied(plan.rendered)

    def note_applied(self, rendered: RenderedApplySet) -> None:
        """Make an entry pending for the instance of `rendered`, which is applied.

        If the last known entry of the instance, pending or stored, has the same digest, nothing changes.
        """
        key = rendered.parent
        pending, stored = self.pending.get(key), self._entry(key)
        last = pending.entry if pending else stored
        if last is None or last.digest != snapshot_digest(rendered):
            self.pending[key] = pending_snapshot(rendered, last.sequence + 1 if last else 1)

    def note_gone(self, gone: Collection[ObjectKey], wanted: Collection[ObjectKey]) -> None:
        """Make tombstones pending for the deleted instances in `gone`.

        Drop pending entries of instances that are not in `wanted`, except tombstones. If all current entries of a pack
        belong to instances in `gone`, the whole pack is deleted. In that case, an instance needs a tombstone only if
        another pack has an entry of this instance.
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
        """Return the packs of `sources` to merge into new packs, and reserve these packs until `release`.

        If the obsolete entries of the sparse packs fill a whole pack, return the sparse packs. If a source has pending
        tombstones, return its packs of tombstones that are not full.
        """
        names = self._find_wasteful(sources) | self._find_tombstone_packs(sources)
        self._rewritten |= names
        return [self._packs[name] for name in sorted(names)]

    def _find_wasteful(self, sources: Collection[str]) -> set[str]:
        """Return the names of packs of `sources` that are sparse after the pending entries are stored.

        If the obsolete entries of these packs together are smaller than a full pack, return no name.
        """
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
        """Return the names of packs that hold only tombstones, are not full, and whose source has pending tombstones.

        People often delete a few instances at a time. Without a merge, each deletion would leave a small pack behind.
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
        """End the reservation of `packs` that `take_sparse` returned."""
        self._rewritten.difference_update(pack.name for pack in packs)

    def compose(self, sparse: Iterable[AppliedPack], unwritable: Collection[str]) -> list[Object]:
        """Return the manifests of packs with the pending entries and the current entries of `sparse`.

        The caller stores the packs. Each pending entry remembers the name of its pack.

        Args:
            sparse: packs from `take_sparse`, with their contents.
            unwritable: names of packs whose write is still open. The result leaves out pending entries in these packs.
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
        """Return the ControllerRevisions of readable packs that have no current entry. The caller deletes them.

        The function returns each pack once.
        """
        dead, self._dead = self._dead, set()
        return [self._packs[name].record for name in sorted(dead)]

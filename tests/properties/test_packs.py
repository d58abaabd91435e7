"""Packs of applied pairs: after any history what was stored last is read back, and what is stored is bounded by what counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applier.cluster import Object
from gitops.records import applied_packs, pack_store
from gitops.records.applied_packs import AppliedPack, current_packs
from gitops.records.pack_store import AppliedPacks
from gitops.records.revisions import RevisionArchive
from renderer.identity import ObjectKey
from renderer.render.model import RenderedApplySet

PAIRS, PACK_BYTES = 4, 400
"""Smaller packs, so that a short history fills some."""

KEYS = [ObjectKey("g.test", "Link", "default", f"i{number:02}") for number in range(12)]
FAULTS = ("", "", "", "", "dies before", "dies after", "refused", "answer lost")

some = st.frozensets(st.sampled_from(KEYS))
steps = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["whole", "part", "parts"]),
        "changed": some,
        "others": some,
        "toggled": st.frozensets(st.sampled_from(KEYS), max_size=6),
        "faults": st.lists(st.sampled_from(FAULTS), max_size=8),
        "size": st.sampled_from([0, 0, 60, 200, 900]),
    }
)


class Death(Exception):
    """The process died."""


@dataclass
class History:
    """What one cluster holds, and what it should. `written` is the number of the last note of each instance that was stored, `wanted` are those that
    Git wants; `leaving` are gone, and no pass has come to its end since.
    """

    records: dict[str, Object] = field(default_factory=dict)
    packs: AppliedPacks | None = None
    wanted: set[ObjectKey] = field(default_factory=set)
    leaving: set[ObjectKey] = field(default_factory=set)
    written: dict[ObjectKey, int] = field(default_factory=dict)
    notes: int = 0
    faults: list[str] = field(default_factory=list)

    def play(self, step: dict[str, object]) -> None:
        self.faults = list(step["faults"])  # type: ignore[call-overload]
        changed, others, toggled = (set(step[name]) for name in ("changed", "others", "toggled"))  # type: ignore[call-overload]
        had_faults = any(self.faults)
        try:
            if step["kind"] == "whole" or self.packs is None:
                self._whole(changed, toggled, int(str(step["size"])))
                if not had_faults:
                    self.check_bound()
            else:
                self._parts(changed, others - changed if step["kind"] == "parts" else set(), int(str(step["size"])))
        except Death:
            self.packs = None
        self.check_content()

    def _whole(self, changed: set[ObjectKey], toggled: set[ObjectKey], size: int) -> None:
        back = toggled - self.wanted - self.leaving
        self.leaving |= toggled & self.wanted
        self.wanted = (self.wanted - toggled) | back
        packs = self.packs = self.packs or AppliedPacks()
        packs.observe({name: value for name, value in obj.items() if name != "data"} for obj in self.records.values())
        self._note(packs, changed, size)
        applied = RevisionArchive(self.records).stored_revisions.applied
        packs.note_gone({key for key in applied if key not in self.wanted}, self.wanted)
        had_faults = any(self.faults)
        self._store(packs, self._composed(packs))
        self._drop(packs)
        if not had_faults:
            for key in self.leaving:
                self.written.pop(key, None)
            self.leaving = set()

    def _parts(self, changed: set[ObjectKey], others: set[ObjectKey], size: int) -> None:
        """Two at the same time: both send before either is answered, and the first is answered last."""
        packs = self.packs
        assert packs is not None
        self._note(packs, changed, size)
        first = self._composed(packs)
        self._note(packs, others, size)
        second = self._composed(packs, {body["metadata"]["name"] for body in first})
        self._store(packs, [*second, *first])
        self._drop(packs)

    def _note(self, packs: AppliedPacks, keys: set[ObjectKey], size: int) -> None:
        for key in sorted(keys & self.wanted):
            self.notes += 1
            manifest = {"note": self.notes, "text": "x" * (size if self.notes % 3 else 0)}
            packs.note_applied(RenderedApplySet(key, manifest, source=f"s{KEYS.index(key) % 2}", revision=1))

    def _composed(self, packs: AppliedPacks, in_flight: set[str] = frozenset()) -> list[Object]:  # type: ignore[assignment]
        sparse = packs.take_sparse(["s0", "s1"])
        packs.keep_contents(self.records[pack.name] for pack in sparse)
        return packs.compose(sparse, in_flight)

    def _store(self, packs: AppliedPacks, bodies: list[Object]) -> None:
        for body in bodies:
            fault = self._fault("dies before")
            if fault != "refused":
                name = body["metadata"]["name"]
                assert self.records.setdefault(name, body) == body
                pack = AppliedPack.from_record(body)
                for key in pack.entries:
                    if manifest := pack.manifest(key):
                        self.written[key] = max(self.written.get(key, 0), manifest["note"])
            self._fault_after(fault)
            if not fault:
                packs.add(body)

    def _drop(self, packs: AppliedPacks) -> None:
        while dead := [obj["metadata"]["name"] for obj in packs.take_dead()]:
            for name in dead:
                fault = self._fault("dies before")
                if fault != "refused":
                    self.records.pop(name, None)
                self._fault_after(fault)
                if not fault:
                    packs.remove([name])

    def _fault(self, fatal: str) -> str:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == fatal:
            raise Death
        return fault

    def _fault_after(self, fault: str) -> None:
        if fault == "dies after":
            raise Death

    def check_content(self) -> None:
        found = {
            key: (pair.manifest or {})["note"]
            for key, pair in RevisionArchive(self.records).stored_revisions.applied.items()
        }
        for key in KEYS:
            allowed = {self.written.get(key), None} if key in self.leaving else {self.written.get(key)}
            assert found.get(key) in allowed, key

    def check_bound(self) -> None:
        packs = [AppliedPack.from_record(obj) for obj in self.records.values()]
        stored = sum(pack.size for pack in packs)
        counting = sum(pack.entries[key].size for key, pack in current_packs(packs).items())
        assert stored <= 4 * counting + PACK_BYTES
        for pack in packs:
            pairs = [entry for entry in pack.entries.values() if not entry.is_gone]
            assert len(pack.entries) <= PAIRS
            assert sum(entry.size for entry in pairs) <= PACK_BYTES or len(pairs) == 1

    def rest(self) -> None:
        """Passes without faults: the second has nothing to do."""
        for _ in range(2):
            before = dict(self.records)
            self.packs = None
            self.play({"kind": "whole", "changed": (), "others": (), "toggled": (), "faults": (), "size": 0})
        assert self.records == before
        assert self.leaving == set()


@contextmanager
def small_packs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (applied_packs, pack_store):
            patch.setattr(module, "MAX_ENTRIES", PAIRS)
            patch.setattr(module, "MIN_ENTRY_BYTES", PACK_BYTES // PAIRS)
        patch.setattr(applied_packs, "MAX_PACK_BYTES", PACK_BYTES)
        patch.setattr(pack_store, "GONE_BYTES", 2)
        yield


@given(st.lists(steps, min_size=2, max_size=25))
def test_what_was_stored_last_is_read_back_and_no_more_than_a_few_times_as_much_is_stored(
    history: list[dict[str, object]],
) -> None:
    """Whatever dies, is refused or is not heard of on the way. No record is ever changed, and no sequence is used twice."""
    everything = {"kind": "whole", "changed": KEYS, "others": (), "toggled": KEYS, "faults": (), "size": 0}
    with small_packs():
        world = History()
        for step in (everything, *history):
            world.play(step)
        world.rest()

"""Packs of applied pairs: how they are filled, which of their pairs count, what is written anew and what is dropped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pytest

from applier.cluster import Object
from gitops.records.applied_packs import MAX_ENTRIES, MAX_PACK_BYTES, pack_entries
from gitops.records.pack_store import AppliedPacks
from gitops.records.revisions import RevisionArchive
from renderer import well_known
from renderer.identity import ObjectKey, key_hash
from renderer.render.model import RenderedApplySet
from renderer.render.revisions import AppliedSnapshot

SOURCE = "platform"


def key(number: int) -> ObjectKey:
    return ObjectKey("g.test", "Link", "default", f"i{number:03}")


def rendered(number: int, text: str = "one", source: str = SOURCE) -> RenderedApplySet:
    manifest = {"metadata": {"name": key(number).name}, "spec": {"text": text}}
    return RenderedApplySet(key(number), manifest, source=source, revision=1)


def without_content(record: Object) -> Object:
    """As a list of metadata has it."""
    return {name: value for name, value in record.items() if name not in {"data", "revision"}}


class Server:
    """What is stored, and how often something was written or dropped."""

    def __init__(self) -> None:
        self.records: dict[str, Object] = {}
        self.written: list[str] = []
        self.dropped: list[str] = []

    def observed(self) -> AppliedPacks:
        """As a new process knows it."""
        packs = AppliedPacks()
        packs.observe(map(without_content, self.records.values()))
        return packs

    def conclude(self, packs: AppliedPacks, sources: Collection[str] = (SOURCE,)) -> None:
        """The end of a pass to which everything is answered."""
        sparse = packs.take_sparse(sources)
        packs.keep_contents(self.records[pack.name] for pack in sparse)
        self.store(packs, packs.compose(sparse, ()))
        while dead := packs.take_dead():
            names = [record["metadata"]["name"] for record in dead]
            self.dropped += names
            for name in names:
                del self.records[name]
            packs.remove(names)

    def store(self, packs: AppliedPacks, bodies: Iterable[Object]) -> None:
        for body in bodies:
            name = body["metadata"]["name"]
            assert self.records.setdefault(name, body) == body, "a record never changes"
            self.written.append(name)
            packs.add(body)

    def deploy(self, packs: AppliedPacks, numbers: Iterable[int], text: str = "one") -> None:
        for number in numbers:
            packs.note_applied(rendered(number, text))
        self.conclude(packs)

    @property
    def applied(self) -> Mapping[ObjectKey, AppliedSnapshot]:
        return RevisionArchive(self.records).stored_revisions.applied

    def texts(self) -> dict[str, str]:
        return {one.name: (pair.manifest or {})["spec"]["text"] for one, pair in self.applied.items()}

    def sizes(self) -> list[int]:
        return sorted(len(pack_entries(record)) for record in self.records.values())


@pytest.fixture
def server() -> Server:
    return Server()


def test_a_pass_stores_its_pack_entries_packs_of_one_hundred(server: Server) -> None:
    server.deploy(server.observed(), range(250))
    assert server.sizes() == [50, 100, 100]
    assert server.texts() == {key(number).name: "one" for number in range(250)}


def test_metadata_says_what_a_pack_holds(server: Server) -> None:
    """A pass lists that alone."""
    server.deploy(server.observed(), range(3))
    archive = RevisionArchive({name: without_content(record) for name, record in server.records.items()})
    found = archive.stored_revisions.applied
    assert found == server.applied
    assert {pair.manifest for pair in found.values()} == {None}
    assert {(pair.revision, pair.source) for pair in found.values()} == {(1, SOURCE)}


def test_large_pairs_fill_a_pack_sooner_and_one_may_be_larger_than_a_pack(server: Server) -> None:
    large, huge = "x" * (MAX_PACK_BYTES // 3), "x" * (2 * MAX_PACK_BYTES)
    packs = server.observed()
    for number, text in enumerate((large, large, large, huge, "one")):
        packs.note_applied(rendered(number, text))
    server.conclude(packs)
    assert server.sizes() == [1, 1, 1, 2]


def test_the_longest_names_leave_room_in_the_annotations(server: Server) -> None:
    packs = server.observed()
    for number in range(MAX_ENTRIES):
        name = f"{number:03}" + "n" * 250
        one = ObjectKey("g" * 253, "K" * 63, "s" * 63, name)
        packs.note_applied(RenderedApplySet(one, {}, source="s" * 63, revision=10**9))
    server.conclude(packs)
    [record] = server.records.values()
    assert sum(len(name) + len(text) for name, text in record["metadata"]["annotations"].items()) < 128 * 1024


def test_packs_are_of_one_source_each(server: Server) -> None:
    """So nobody writes the pairs anew of a source that somebody else reads."""
    packs = server.observed()
    packs.note_applied(rendered(1))
    packs.note_applied(rendered(2, source="other"))
    server.conclude(packs)
    assert server.sizes() == [1, 1]
    assert {pair.source for pair in server.applied.values()} == {SOURCE, "other"}


def test_what_is_stored_is_not_stored_again(server: Server) -> None:
    for _ in range(2):
        server.deploy(server.observed(), range(3))
    assert len(server.written) == 1


def test_one_change_costs_a_write_and_at_most_one_deletion(server: Server) -> None:
    packs = server.observed()
    server.deploy(packs, range(100))
    for text in ("two", "three", "four"):
        server.deploy(packs, [7], text)
    assert (len(server.written), len(server.dropped)) == (4, 2)
    assert server.texts()[key(7).name] == "four"


def test_the_same_pairs_are_the_same_record_whoever_writes_them(server: Server) -> None:
    """Two processes, or one that died before it heard of it, do no harm to each other."""
    one, other = server.observed(), server.observed()
    server.deploy(one, range(3))
    server.deploy(other, range(3))
    assert len(set(server.written)) == 1


def test_the_pair_with_the_higher_sequence_counts_wherever_it_is(server: Server) -> None:
    server.deploy(server.observed(), range(3))
    server.deploy(server.observed(), [1, 2], "two")
    server.deploy(server.observed(), [2], "one")
    assert server.texts() == {"i000": "one", "i001": "two", "i002": "one"}
    assert server.sizes() == [1, 2, 3]


def test_packs_with_little_that_counts_are_written_anew_with_the_next_pairs(server: Server) -> None:
    """One write for both; what counts no more has to fill a pack before it is worth that."""
    packs = server.observed()
    server.deploy(packs, range(200))
    for start in range(0, 200, 100):
        server.deploy(packs, range(start, start + 74), "two")
    assert server.sizes() == [74, 74, 100, 100]
    packs, written = server.observed(), len(server.written)
    server.deploy(packs, [74, 174, 0], "three")
    assert server.sizes() == [53, 74, 74]
    assert (len(server.written) - written, len(server.dropped)) == (1, 2)
    assert sorted(server.texts().values()) == ["one"] * 50 + ["three"] * 3 + ["two"] * 147


def test_packs_of_others_and_packs_that_cannot_be_read_are_not_written_anew(server: Server) -> None:
    packs = server.observed()
    server.deploy(packs, range(200))
    for number in (*range(80), *range(100, 180)):
        packs.note_applied(rendered(number, "two"))
    server.conclude(packs, sources=())
    assert server.sizes() == [60, 100, 100, 100]
    packs = server.observed()
    sparse = packs.take_sparse([SOURCE])
    assert (len(sparse), [pack.is_read for pack in sparse]) == (2, [False, False])
    assert packs.take_sparse([SOURCE]) == [], "somebody does so already"
    packs.release(sparse)
    assert packs.compose((), ()) == []
    assert packs.take_sparse([SOURCE]) == sparse


def test_a_copy_never_hides_a_newer_pair(server: Server) -> None:
    """Two passes over parts side by side: one writes a pack anew, the other a pair that it holds."""
    packs = server.observed()
    server.deploy(packs, range(200))
    server.deploy(packs, [*range(80), *range(100, 170)], "two")
    packs.note_applied(rendered(170, "three"))
    for number in range(171, 180):
        packs.note_applied(rendered(number, "two"))
    sparse = packs.take_sparse([SOURCE])
    assert sparse
    first = packs.compose(sparse, ())
    in_flight = {body["metadata"]["name"] for body in first}
    packs.note_applied(rendered(199, "four"))
    assert packs.take_sparse([SOURCE]) == [], "somebody does so already"
    second = packs.compose((), in_flight)
    assert [list(pack_entries(body)) for body in second] == [[key(199)]]
    for bodies in (second, first):
        server.store(packs, bodies)
    server.conclude(packs)
    texts = server.texts()
    assert (texts["i170"], texts["i199"], texts["i198"]) == ("three", "four", "one")
    assert len(texts) == 200


def test_an_interrupted_copy_is_not_made_again(server: Server) -> None:
    """The process died before the packs were dropped that were written anew: the copies count, and the next pass drops the others."""
    packs = server.observed()
    server.deploy(packs, range(200))
    server.deploy(packs, [*range(80), *range(100, 170)], "two")
    for number in range(170, 180):
        packs.note_applied(rendered(number, "two"))
    sparse = packs.take_sparse([SOURCE])
    server.store(packs, packs.compose(sparse, ()))
    texts, written = server.texts(), len(server.written)
    server.conclude(server.observed())
    assert (server.texts(), len(server.written)) == (texts, written)
    assert {pack.name for pack in sparse} <= set(server.dropped)


def test_a_pair_that_was_not_stored_is_taken_along_by_whoever_stores_next(server: Server) -> None:
    """Whose pass it was has no part in that: a record with pairs of several is about the first of them alone."""
    packs = server.observed()
    packs.note_applied(rendered(1))
    [refused] = packs.compose((), ())
    packs.note_applied(rendered(2))
    [beside] = packs.compose((), {refused["metadata"]["name"]})
    assert list(pack_entries(beside)) == [key(2)]
    [both] = packs.compose((), ())
    assert list(pack_entries(both)) == [key(1), key(2)]


def test_a_pair_whose_answer_was_lost_does_not_hide_the_next(server: Server) -> None:
    packs = server.observed()
    packs.note_applied(rendered(1))
    server.store(AppliedPacks(), packs.compose((), ()))
    packs.note_applied(rendered(1, "two"))
    server.conclude(packs)
    assert server.texts() == {"i001": "two"}
    server.conclude(server.observed())
    assert server.sizes() == [1]


def test_instances_that_are_gone_are_gone_with_their_packs(server: Server) -> None:
    packs = server.observed()
    server.deploy(packs, range(3))
    packs.note_gone({key(0), key(1), key(2)}, ())
    server.conclude(packs)
    assert (server.records, len(server.written)) == ({}, 1)


def test_that_an_instance_is_gone_is_said_while_an_older_pair_of_it_is_stored(server: Server) -> None:
    packs = server.observed()
    server.deploy(packs, range(3))
    server.deploy(packs, [1], "two")
    packs.note_gone({key(1)}, {key(0), key(2)})
    server.conclude(packs)
    assert sorted(server.texts()) == ["i000", "i002"]
    packs = server.observed()
    packs.note_gone({key(0)}, {key(2)})
    server.conclude(packs)
    assert (sorted(server.texts()), server.sizes()) == (["i002"], [2, 3]), "both with one record"
    server.deploy(packs, [1], "three")
    assert server.texts() == {"i001": "three", "i002": "one"}
    server.deploy(packs, [2], "two")
    assert server.sizes() == [1, 1]


def test_what_is_pending_of_an_instance_that_is_gone_is_not_stored(server: Server) -> None:
    packs = server.observed()
    packs.note_applied(rendered(1))
    packs.note_gone((), ())
    assert packs.compose((), ()) == []


@pytest.mark.parametrize("index", ["", "[]", "{", '{"a": 1}', '{"a/b": [1, 1, "", 1]}', '{"a/b/c/d": ["x", 1, "", 1]}'])
def test_a_pack_without_a_readable_index_has_no_entries_and_is_kept(server: Server, index: str) -> None:
    """The pack may hold the only snapshot of an instance, and a person can restore the index."""
    server.deploy(server.observed(), [1])
    [(name, record)] = server.records.items()
    index_before = record["metadata"]["annotations"][well_known.PACK_INDEX]
    record["metadata"]["annotations"][well_known.PACK_INDEX] = index
    assert server.applied == {}
    server.conclude(server.observed())
    server.deploy(server.observed(), [2])
    assert name in server.records
    record["metadata"]["annotations"][well_known.PACK_INDEX] = index_before
    assert server.texts() == {"i001": "one", "i002": "one"}


def test_a_pair_without_its_content_counts_as_absent_once_that_was_read(server: Server) -> None:
    """Nobody waits for what is not there."""
    server.deploy(server.observed(), [1, 2])
    [record] = server.records.values()
    del record["data"][key_hash(key(1))]
    assert list(server.applied) == [key(2)]


def test_a_part_knows_the_pairs_of_its_instances_alone(server: Server) -> None:
    packs = server.observed()
    server.deploy(packs, range(3))
    server.deploy(packs, [1], "two")
    part = RevisionArchive(server.records).select_instances([key(1), key(2)], packs.records_of([key(1), key(2)]))
    found = part.stored_revisions.applied
    assert {one.name: (pair.manifest or {})["spec"]["text"] for one, pair in found.items()} == {
        "i001": "two",
        "i002": "one",
    }

"""Numbers of definition revisions for a whole fleet: one number for one content of a definition, whichever cluster asks for it first.

A number is never issued twice, so there are gaps: in a cluster that a revision never came to, and where a definition has changed again meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from applier.cluster import Object
from applier.state.observed import annotation, label, number
from gitops.records.revisions import DEFINITION, MAX_UNUSED_REVISIONS
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind
from renderer.render.model import NewRevision

MAX_CONTENTS: Final = MAX_UNUSED_REVISIONS + 1
"""Contents of one definition of which the numbers are kept: the newest, and as many as a cluster keeps beside it."""

MAX_NUMBER: Final = 1_000_000_000
"""Highest number that is taken over from a cluster: a definition that changes each second for thirty years has as many.

Numbers are shared, so a cluster with a number near the end of what a server stores would stop all others.
"""


@dataclass(frozen=True, slots=True)
class RevisionNumbers:
    """The numbers of one source's revisions, `{kind: {digest: number}}`. Of a content that came back the newest number counts.

    Of each kind the newest `MAX_CONTENTS` are kept, so the highest number stays.
    """

    by_kind: Mapping[GroupKind, Mapping[str, int]] = field(default_factory=dict)

    def highest(self, kind: GroupKind) -> int:
        """Return the highest number of a kind; 0 where there is none."""
        return max(self.by_kind.get(kind, {}).values(), default=0)

    def number_of(self, kind: GroupKind, digest: str) -> int:
        """Return the number of a content; 0 where it has none."""
        return self.by_kind.get(kind, {}).get(digest, 0)

    def with_number(self, kind: GroupKind, digest: str, issued: int) -> RevisionNumbers:
        """Return these numbers with one more."""
        contents = {**self.by_kind.get(kind, {}), digest: max(issued, self.number_of(kind, digest))}
        return RevisionNumbers({**self.by_kind, kind: _newest(contents, MAX_CONTENTS)})

    def merged(self, others: RevisionNumbers) -> RevisionNumbers:
        """Return these numbers and those."""
        found = dict(self.by_kind)
        for kind, contents in others.by_kind.items():
            known = found.get(kind, {})
            both = {digest: max(known.get(digest, 0), contents.get(digest, 0)) for digest in {*known, *contents}}
            found[kind] = _newest(both, MAX_CONTENTS)
        return RevisionNumbers(found)

    def without_contents_but_of(self, defined: Iterable[GroupKind]) -> RevisionNumbers:
        """Return these numbers, of kinds that are not `defined` any more the highest alone."""
        kept = frozenset(defined)
        return RevisionNumbers(
            {
                kind: contents if kind in kept else _newest(contents, 1)
                for kind, contents in sorted(self.by_kind.items())
            }
        )

    def as_json(self) -> dict[str, Any]:
        """Return what `parse_numbers` reads."""
        return {"/".join(kind): dict(contents) for kind, contents in self.by_kind.items()}


NO_NUMBERS: Final = RevisionNumbers()

NumbersBySource = Mapping[str, RevisionNumbers]


def parse_numbers(value: Mapping[str, Any]) -> RevisionNumbers:
    """Read what `as_json` made; what cannot be read of it counts as missing, since clusters tell it again."""
    found: dict[GroupKind, Mapping[str, int]] = {}
    for name, contents in value.items():
        kind = name.split("/")
        if len(kind) == 2 and isinstance(contents, dict):
            numbers = {digest: issued for digest, issued in contents.items() if isinstance(issued, int)}
            found[GroupKind(*kind)] = _newest(numbers, MAX_CONTENTS)
    return RevisionNumbers(found)


def numbers_in(records: Iterable[Object]) -> dict[str, RevisionNumbers]:
    """Return the numbers that a cluster has, by source, from the metadata of its stored revisions."""
    found: dict[str, dict[GroupKind, dict[str, int]]] = {}
    for source, kind, digest, issued in _stored_numbers(records):
        contents = found.setdefault(source, {}).setdefault(kind, {})
        contents[digest] = max(issued, contents.get(digest, 0))
    return {
        source: RevisionNumbers({kind: _newest(contents, MAX_CONTENTS) for kind, contents in by_kind.items()})
        for source, by_kind in found.items()
    }


def _stored_numbers(records: Iterable[Object]) -> Iterator[tuple[str, GroupKind, str, int]]:
    for record in records:
        kind = annotation(record, well_known.RECORD_OF).split("/")
        source, digest = annotation(record, well_known.RECORD_SOURCE), annotation(record, well_known.HASH)
        issued = number(annotation(record, well_known.REVISION)) or 0
        if label(record, well_known.RECORD) == DEFINITION and len(kind) == 2 and source and 0 < issued <= MAX_NUMBER:
            yield source, GroupKind(*kind), digest, issued


def merge_numbers(first: NumbersBySource, second: NumbersBySource) -> dict[str, RevisionNumbers]:
    """Return the numbers of both, by source."""
    sources = sorted({*first, *second})
    return {name: first.get(name, NO_NUMBERS).merged(second.get(name, NO_NUMBERS)) for name in sources}


def find_number(numbers: NumbersBySource, revision: NewRevision, *, is_current: bool) -> int:
    """Return the number that a content has; 0 where it needs a new one.

    `revision` has the lowest number that its cluster can take. A content that `is_current` in Git and not the newest has come
    back: it gets a new number, as in a single cluster.
    """
    known = max((one.number_of(revision.kind, revision.digest) for one in numbers.values()), default=0)
    newest = numbers.get(revision.source, NO_NUMBERS).highest(revision.kind)
    return 0 if known < revision.number or (is_current and known < newest) else known


def issue_number(numbers: NumbersBySource, revision: NewRevision) -> NumbersBySource:
    """Return the numbers with one of a revision that is current in Git.

    It is the one that its content has, else one above all of its kind, and as high as its cluster needs. A kind that another
    source defines from now on goes on with its numbers.
    """
    issued = find_number(numbers, revision, is_current=True) or max(
        1 + max((one.highest(revision.kind) for one in numbers.values()), default=0), revision.number
    )
    own = numbers.get(revision.source, NO_NUMBERS)
    if own.number_of(revision.kind, revision.digest) == issued:
        return numbers
    return {**numbers, revision.source: own.with_number(revision.kind, revision.digest, issued)}


def _newest(contents: Mapping[str, int], limit: int) -> Mapping[str, int]:
    return dict(sorted(contents.items(), key=lambda item: (-item[1], item[0]))[:limit])

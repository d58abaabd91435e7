"""Numbers of definition revisions. Each content of a definition has the same number in all clusters of a fleet.

Invariant: the hub issues no number twice. So the numbers in a cluster have gaps: the numbers of revisions that never
reached the cluster, and of contents that Git replaced before any cluster used them.
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
"""Maximum number of contents per definition whose numbers the hub keeps.

The hub keeps the number of the newest content, and of as many old contents as a cluster keeps.
"""

MAX_NUMBER: Final = 1_000_000_000
"""Highest number that the hub learns from a cluster.

A definition that changes each second reaches the number after thirty years. All clusters share the numbers. Without
this limit, a cluster with a number near the largest integer would stop the whole fleet.
"""


@dataclass(frozen=True, slots=True)
class RevisionNumbers:
    """Numbers of one source's revisions, `{kind: {digest: number}}`.

    If a content has returned to Git, the value contains only the newest number of the content. The value contains the
    `MAX_CONTENTS` highest numbers of each kind.
    """

    by_kind: Mapping[GroupKind, Mapping[str, int]] = field(default_factory=dict)

    def highest(self, kind: GroupKind) -> int:
        """Return the highest number of a kind, or 0 if the kind has no number."""
        return max(self.by_kind.get(kind, {}).values(), default=0)

    def number_of(self, kind: GroupKind, digest: str) -> int:
        """Return the number of a content, or 0 if the content has no number."""
        return self.by_kind.get(kind, {}).get(digest, 0)

    def with_number(self, kind: GroupKind, digest: str, issued: int) -> RevisionNumbers:
        """Return the numbers with the number `issued` for a content. A higher number of the content stays."""
        contents = {**self.by_kind.get(kind, {}), digest: max(issued, self.number_of(kind, digest))}
        return RevisionNumbers({**self.by_kind, kind: _newest(contents, MAX_CONTENTS)})

    def merged(self, others: RevisionNumbers) -> RevisionNumbers:
        """Return the union of the numbers and `others`. If a content has two numbers, the higher number counts."""
        found = dict(self.by_kind)
        for kind, contents in others.by_kind.items():
            known = found.get(kind, {})
            both = {digest: max(known.get(digest, 0), contents.get(digest, 0)) for digest in {*known, *contents}}
            found[kind] = _newest(both, MAX_CONTENTS)
        return RevisionNumbers(found)

    def without_contents_but_of(self, defined: Iterable[GroupKind]) -> RevisionNumbers:
        """Return the numbers. For each kind that is not in `defined`, keep only the highest number."""
        kept = frozenset(defined)
        return RevisionNumbers(
            {
                kind: contents if kind in kept else _newest(contents, 1)
                for kind, contents in sorted(self.by_kind.items())
            }
        )

    def as_json(self) -> dict[str, Any]:
        """Return the numbers as JSON values, in the form that `parse_numbers` reads."""
        return {"/".join(kind): dict(contents) for kind, contents in self.by_kind.items()}


NO_NUMBERS: Final = RevisionNumbers()

NumbersBySource = Mapping[str, RevisionNumbers]


def parse_numbers(value: Mapping[str, Any]) -> RevisionNumbers:
    """Parse the form of `as_json`. Skip unreadable entries, because the hub learns the numbers again from clusters."""
    found: dict[GroupKind, Mapping[str, int]] = {}
    for name, contents in value.items():
        kind = name.split("/")
        if len(kind) == 2 and isinstance(contents, dict):
            numbers = {digest: issued for digest, issued in contents.items() if isinstance(issued, int)}
            found[GroupKind(*kind)] = _newest(numbers, MAX_CONTENTS)
    return RevisionNumbers(found)


def numbers_in(records: Iterable[Object]) -> dict[str, RevisionNumbers]:
    """Return the numbers in the metadata of one cluster's stored revisions (ControllerRevisions), by source."""
    found: dict[str, dict[GroupKind, dict[str, int]]] = {}
    for source, kind, digest, issued in _stored_numbers(records):
        contents = found.setdefault(source, {}).setdefault(kind, {})
        contents[digest] = max(issued, contents.get(digest, 0))
    return {
        source: RevisionNumbers({kind: _newest(contents, MAX_CONTENTS) for kind, contents in by_kind.items()})
        for source, by_kind in found.items()
    }


def _stored_numbers(records: Iterable[Object]) -> Iterator[tuple[str, GroupKind, str, int]]:
    """Yield source, kind, digest and number of each stored revision whose number the hub may learn."""
    for record in records:
        kind = annotation(record, well_known.RECORD_OF).split("/")
        source, digest = annotation(record, well_known.RECORD_SOURCE), annotation(record, well_known.HASH)
        issued = number(annotation(record, well_known.REVISION)) or 0
        if label(record, well_known.RECORD) == DEFINITION and len(kind) == 2 and source and 0 < issued <= MAX_NUMBER:
            yield source, GroupKind(*kind), digest, issued


def merge_numbers(first: NumbersBySource, second: NumbersBySource) -> dict[str, RevisionNumbers]:
    """Return the union of `first` and `second`, by source."""
    sources = sorted({*first, *second})
    return {name: first.get(name, NO_NUMBERS).merged(second.get(name, NO_NUMBERS)) for name in sources}


def find_number(numbers: NumbersBySource, revision: NewRevision, *, is_current: bool) -> int:
    """Return the number of the content of `revision`, or 0 if the content needs a new number.

    The lowest number that is free in the revision's cluster is `revision.number`, so the hub cannot use a lower number.
    If a content in Git has a number that is not the highest, the content has returned to Git and needs a new number. A
    single cluster numbers a returned content in the same way.

    Args:
        is_current: whether Git contains the content now.
    """
    known = max((of_source.number_of(revision.kind, revision.digest) for of_source in numbers.values()), default=0)
    newest = numbers.get(revision.source, NO_NUMBERS).highest(revision.kind)
    return 0 if known < revision.number or (is_current and known < newest) else known


def issue_number(numbers: NumbersBySource, revision: NewRevision) -> NumbersBySource:
    """Return the numbers together with a number for `revision`, whose content is in Git now.

    If `find_number` returns a number for the content, use this number. Otherwise, the new number is above all numbers
    of the kind, and not below `revision.number`. Numbers of all sources count, so if another source defines the kind,
    the numbers of the kind continue.
    """
    issued = find_number(numbers, revision, is_current=True) or max(
        1 + max((of_source.highest(revision.kind) for of_source in numbers.values()), default=0), revision.number
    )
    own = numbers.get(revision.source, NO_NUMBERS)
    if own.number_of(revision.kind, revision.digest) == issued:
        return numbers
    return {**numbers, revision.source: own.with_number(revision.kind, revision.digest, issued)}


def _newest(contents: Mapping[str, int], limit: int) -> Mapping[str, int]:
    """Return the `limit` contents with the highest numbers."""
    return dict(sorted(contents.items(), key=lambda item: (-item[1], item[0]))[:limit])

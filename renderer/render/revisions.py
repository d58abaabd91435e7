"""Definition revisions and applied pairs: what instances are rendered from while Git cannot, or may not, say so.

A *revision* is a numbered, content-addressed state of a definition; numbers of one kind only grow, and a revert gets a new one. The *applied
pair* of an instance is the revision and the instance (metadata and spec) that all its nodes were last brought to. Both are stored in the
cluster, so that an instance can be healed without Git, without its own object and after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache

import orjson

from renderer import documents
from renderer.definition.compile import Definition, compile_definition
from renderer.frozen import dataclass
from renderer.identity import GroupKind, Manifest, ObjectKey


@dataclass(frozen=True, slots=True)
class DefinitionRevision:
    """One stored revision.

    `record` names what it is stored in; `commit` (shortened), `author` and `message` tell of the commit that brought it.
    `manifest` is None until it has been read.
    """

    number: int
    digest: str
    record: str
    manifest: Manifest | None = None
    commit: str = ""
    author: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class AppliedSnapshot:
    """What an instance was last brought to: the number of a revision, and the instance as it was rendered from (None until read).

    The digest is of both. So two are the same whichever `record` holds them, and whether they were read or not.
    """

    revision: int
    digest: str
    record: str = field(compare=False)
    source: str
    manifest: Manifest | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class StoredRevisions:
    """All that is stored of one cluster; revisions of a kind from the oldest to the newest. `refused`: kinds whose newest revision could not be
    stored, with the reason.
    """

    revisions: Mapping[GroupKind, tuple[DefinitionRevision, ...]] = field(default_factory=dict)
    applied: Mapping[ObjectKey, AppliedSnapshot] = field(default_factory=dict)
    refused: Mapping[GroupKind, str] = field(default_factory=dict)

    def newest(self, kind: GroupKind) -> DefinitionRevision | None:
        return self.revisions[kind][-1] if self.revisions.get(kind) else None

    def numbered(self, kind: GroupKind, number: int) -> DefinitionRevision | None:
        return next((revision for revision in self.revisions.get(kind, ()) if revision.number == number), None)


def definition_of(revision: DefinitionRevision) -> Definition:
    """Compile a stored revision that has been read. Raises DefinitionErrors where this version of the program no longer can."""
    return _compiled(orjson.dumps(revision.manifest, option=orjson.OPT_SORT_KEYS), revision.record)


@lru_cache(maxsize=256)
def _compiled(text: bytes, record: str) -> Definition:
    (document,), _ = documents.load(record, text)
    return compile_definition(document)

"""A source as a pass takes it: what was read of it, and what that forbids."""

from __future__ import annotations

from dataclasses import dataclass

from applier.adoption import NEVER, Adoption
from gitops import compose
from gitops.source import Mirror, Snapshot
from renderer.catalog import Catalog


@dataclass(frozen=True, slots=True)
class SourceState:
    """One source as fetched: its catalog, which ref it follows, why its deletions are held back, if they are, and what it may adopt."""

    catalog: Catalog
    ref: str = ""
    url: str = ""
    path: str = ""
    hold: str = ""
    adoption: Adoption = NEVER


def state_of(
    name: str, mirror: Mirror, snapshot: Snapshot, adoption: Adoption, previous: Catalog | None = None
) -> SourceState:
    """A snapshot as the pipeline takes it, after `previous`. An empty or vanished path holds back every deletion (rule 12)."""
    hold = ""
    if not snapshot.path_exists:
        hold = f"the path {mirror.target.path or '.'!r} does not exist in commit {snapshot.revision[:7]}; nothing is deleted until it is back"
    elif not snapshot.files and not snapshot.problems:
        hold = f"commit {snapshot.revision[:7]} holds no manifest at all; nothing is deleted until it does"
    return SourceState(
        compose.catalog_of(snapshot, source=name, previous=previous),
        ref=str(mirror.target.ref),
        url=str(mirror.target),
        path=mirror.target.path,
        hold=hold,
        adoption=adoption,
    )

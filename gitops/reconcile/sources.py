"""A source as a pass takes it: what was read of it, and what that forbids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from applier.applyset.adoption import NO_ADOPTION, Adoption
from applier.plan.deletion_brake import DEFAULT_BRAKE, DeletionBrake
from applier.state.field_conflicts import DEFAULT_CONFLICT_POLICY, ConflictPolicy
from gitops import source_config
from gitops.reconcile.source_acceptance import HeldCommit
from gitops.records.source_requests import Pin
from gitops.source import SourceSnapshot, SourceTarget
from gitops.source_config import SourceConfig
from renderer.catalog.catalog import Catalog
from renderer.catalog.file_content import FileContent
from renderer.errors import Problem
from renderer.frozen import dataclass
from renderer.identity import ObjectKey


@dataclass(frozen=True, slots=True)
class SourceState:
    """One source as fetched: its catalog, which ref it follows, and why its deletions are held back, if they are. `governors` are the
    sources whose windows and policies govern this one beside its own, `offer` is a newer commit that a person has to agree to first. `synced` are
    the requests to look now that are answered by this state, by the object that carries them. `pin` is a person's word that this commit is read
    instead of the head of its ref, `unpinned` the commit that it was at before. `version` is the tag by which it was taken, where a range of
    versions is followed. `orphaned_keys` are objects that Git declares for other clusters: what lives of them in this one stays, without our
    metadata. `user` is whose rights its members are written with, empty: our own. The rest is as in `SourceConfig`.
    """

    catalog: Catalog
    ref: str = ""
    url: str = ""
    path: str = ""
    hold: str = ""
    adoption: Adoption = NO_ADOPTION
    conflicts: ConflictPolicy = DEFAULT_CONFLICT_POLICY
    brake: DeletionBrake = DEFAULT_BRAKE
    prunes: bool = True
    suspend: str = ""
    user: str = ""
    depends_on: tuple[str, ...] = ()
    governors: frozenset[str] = frozenset()
    offer: HeldCommit | None = None
    synced: Mapping[ObjectKey, str] = field(default_factory=dict)
    pin: Pin | None = None
    unpinned: str = ""
    version: str = ""
    orphaned_keys: frozenset[ObjectKey] = frozenset()

    def configured(self, config: SourceConfig, governors: frozenset[str]) -> SourceState:
        """What was read, under what the configuration says now."""
        return replace(
            self,
            adoption=config.adoption,
            conflicts=config.conflicts,
            brake=config.brake,
            prunes=config.prunes,
            suspend=config.suspend,
            user=config.user,
            depends_on=config.depends_on,
            governors=governors - {config.name},
        )


def unavailable_state(name: str, target: SourceTarget, commit: str, why: str) -> SourceState:
    """A source that stands at a commit which can be read no more: all that is live of it is still wanted, and its instances are healed from what was
    applied to them.
    """
    problem = Problem("", 0, "", why)
    contents = {"": FileContent(problems=(problem,), unreadable=True)}
    catalog = Catalog(source=name, commit=commit, problems=(problem,), contents=contents)
    return SourceState(catalog, ref=str(target.ref), url=str(target), path=target.path, hold=why)


def revisions_of(sources: Iterable[SourceState]) -> dict[str, str]:
    """The commit at which each source was read, by its name."""
    return {state.catalog.source: state.catalog.commit for state in sources}


def users_of(sources: Iterable[SourceState]) -> Mapping[str, str]:
    """Whose rights the members of each source are written with, where these are not our own."""
    return {state.catalog.source: state.user for state in sources if state.user}


def state_of(name: str, target: SourceTarget, snapshot: SourceSnapshot, previous: Catalog | None = None) -> SourceState:
    """A snapshot of `target` as the pipeline takes it, after `previous`. Where the path has vanished, or nothing is wanted any more, all deletions
    are held back (rule 12).
    """
    catalog, hold = source_config.load_catalog(snapshot, source=name, previous=previous), ""
    if not snapshot.path_exists:
        hold = f"the path {target.path or '.'!r} does not exist in commit {snapshot.revision[:7]}; nothing is deleted until it is back"
    elif not (catalog.definitions or catalog.broken or catalog.objects or catalog.unreadable_files):
        hold = f"commit {snapshot.revision[:7]} holds no object at all; nothing is deleted until it does"
    return SourceState(
        catalog,
        ref=str(target.ref),
        url=str(target),
        path=target.path,
        hold=hold,
    )

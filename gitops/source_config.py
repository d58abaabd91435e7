"""Sources as configured, and their mirrors and catalogs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from applier.applyset.adoption import NO_ADOPTION, Adoption
from applier.plan.deletion_brake import DEFAULT_BRAKE, DeletionBrake
from applier.state.field_conflicts import DEFAULT_CONFLICT_POLICY, ConflictPolicy
from gitops.errors import SourceError
from gitops.source import (
    Credentials,
    Mirror,
    SourceSnapshot,
    SourceTarget,
    Verification,
    default_cache,
    is_url,
    locations,
    make_stop_tick,
    parse_ref,
)
from renderer.catalog.catalog import Catalog, load, with_changed_files
from renderer.definition.kind_schemas import KindSchemas
from renderer.errors import Problem
from renderer.frozen import dataclass

if TYPE_CHECKING:
    from gitops.forge.connect import ForgeProject

MAX_SOURCE_NAME_LENGTH: Final = 52
"""Maximum length of a source name in characters.

Names and labels of records contain the source name with a prefix and a suffix. A label holds at most 63 characters.
"""

SOURCE_NAME_PATTERN: Final = re.compile(rf"[a-z0-9]([-a-z0-9]{{0,{MAX_SOURCE_NAME_LENGTH - 2}}}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """Source as configured. The name identifies the source: the id of its ApplySet depends on the name alone."""

    name: str
    target: SourceTarget
    credentials: Credentials = field(default_factory=Credentials)
    interval: timedelta = timedelta(seconds=30)
    """Time between two requests for the refs of the source."""
    adoption: Adoption = NO_ADOPTION
    conflicts: ConflictPolicy = DEFAULT_CONFLICT_POLICY
    """Rule for fields that the source's objects set and other field managers own."""
    brake: DeletionBrake = DEFAULT_BRAKE
    prunes: bool = True
    """If false, Levelgate keeps objects that Git no longer declares."""
    suspend: str = ""
    """Reason why the source is suspended. If the source is not suspended, the reason is an empty string."""
    service_account: str = ""
    """`NAMESPACE/NAME` of the account with whose rights Levelgate writes members.

    If the field is empty, Levelgate writes members with its own rights.
    """
    depends_on: tuple[str, ...] = ()
    """Names of the sources that must be applied before Levelgate applies this source for the first time."""
    governs_all: bool = False
    """If true, the windows and policies of the source govern all sources."""
    require_plan: bool = False
    """If true, each commit needs the hash of its plan in a trailer."""
    verification: Verification | None = None
    """Signatures that commits need, or None if commits need no signature."""
    forge: ForgeProject | None = None
    """Project in which Levelgate proposes reverts of halted changes."""

    @property
    def user(self) -> str:
        """Return the user name of the service account, or an empty string if there is none."""
        return f"system:serviceaccount:{self.service_account.replace('/', ':')}" if self.service_account else ""


def parse_source(
    text: str,
    *,
    ref: str = "",
    path: str = "",
    interval: timedelta = timedelta(seconds=30),
    adoption: Adoption = NO_ADOPTION,
    conflicts: ConflictPolicy = DEFAULT_CONFLICT_POLICY,
) -> SourceConfig:
    """Return the source in `[NAME=]URL`. Without a name, `default_name` derives the name from the URL.

    Raises: SourceError (also as RefusedUrl) if `text` is invalid. The message describes a valid value.
    """
    name, separator, url = text.partition("=")
    if not separator or "/" in name or ":" in name:
        name, url = "", text
    if not url:
        raise SourceError(text, "names no repository", advice="write NAME=URL, or the path of a repository")
    url = url if is_url(url) else str(Path(url).expanduser().absolute())
    name = name or default_name(url)
    if not SOURCE_NAME_PATTERN.fullmatch(name):
        raise SourceError(
            text,
            f"{name!r} cannot name a source" if name else "the URL gives no valid source name",
            advice="write NAME=URL with a name of lowercase letters, digits and dashes, "
            f"at most {MAX_SOURCE_NAME_LENGTH} characters",
        )
    return SourceConfig(
        name, SourceTarget(url, parse_ref(ref), path), interval=interval, adoption=adoption, conflicts=conflicts
    )


def default_name(url: str) -> str:
    """Return the last part of a URL as a valid name, or an empty string if that part has no valid character.

    `https://git.example.com/shop/deploy.git` gives `deploy`, and `/srv/My_Repo` gives `my-repo`.
    """
    name = re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git").lower()
    if SOURCE_NAME_PATTERN.fullmatch(name):
        return name
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-")[:MAX_SOURCE_NAME_LENGTH].rstrip("-")


def derive_name(location: str) -> str:
    """Return a name, derived from `location`, for a source that Levelgate only reads.

    If `location` gives no valid name, return `source`.
    """
    return default_name(location if is_url(location) else str(Path(location).expanduser().absolute())) or "source"


def create_mirrors(sources: Sequence[SourceConfig], is_stopping: Callable[[], bool]) -> dict[str, Mirror]:
    """Return one mirror for each source, by the name of the source.

    As soon as `is_stopping` returns True, requests to servers raise Stopped.

    Raises: SourceError if two sources have the same name.
    """
    tick = make_stop_tick(is_stopping)
    mirrors_by_name: dict[str, Mirror] = {}
    for source in sources:
        if source.name in mirrors_by_name:
            raise SourceError(
                str(source.target),
                f"two sources are called {source.name!r}; the other is {mirrors_by_name[source.name].target}",
                advice="give one source another name: NAME=URL",
            )
        mirrors_by_name[source.name] = Mirror(source.target, default_cache(), credentials=source.credentials, tick=tick)
    return mirrors_by_name


def load_schemas(folders: Iterable[str]) -> tuple[KindSchemas, tuple[Problem, ...]]:
    """Return the kinds that CRDs and definitions in `folders` describe, and the problems.

    Each unreadable file is a problem. The function ignores other objects.

    Raises: SourceError if a folder describes no kind.
    """
    types, problems = KindSchemas(), []
    for folder in folders:
        catalog = load_catalog(locations.read_location(folder))
        unreadable = [problem for problem in catalog.problems if problem.file in catalog.unreadable_files]
        if not catalog.types.described and not unreadable:
            raise SourceError(
                folder, "holds no CustomResourceDefinition", advice="name the folder with the CustomResourceDefinitions"
            )
        problems += [replace(problem, file=f"{folder}/{problem.file}") for problem in unreadable]
        types = types.with_fallback(catalog.types)
    return types, tuple(problems)


def load_catalog(snapshot: SourceSnapshot, *, source: str = "", previous: Catalog | None = None) -> Catalog:
    """Return the catalog of a snapshot.

    The function does not parse unchanged files of `previous` again. A file that the snapshot rejects counts as
    unreadable.

    The commit of a dirty working tree ends in `-dirty`. Levelgate never applies a commit with that ending, so a
    difference from the commit is not drift.
    """
    if previous and previous.source == source and snapshot.since == previous.commit != "":
        changed = {path: snapshot.files[path].data for path in snapshot.changed}
        if updated := with_changed_files(previous, changed, snapshot.revision):
            return replace(updated, author=snapshot.author, message=snapshot.message)
    catalog = load(
        {path: file.data for path, file in snapshot.files.items()},
        source=source,
        commit=f"{snapshot.revision}-dirty" if snapshot.is_dirty else snapshot.revision,
        refused_files={problem.path: problem.message for problem in snapshot.problems},
        previous=previous,
    )
    return replace(catalog, author=snapshot.author, message=snapshot.message)

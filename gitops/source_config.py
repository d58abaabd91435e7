"""Put the parts together: from what a person names (a path, a URL, a source) to what the pipeline works on."""

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
"""Records have the name in their own, with words before and after it, and in labels, which hold 63 characters."""

SOURCE_NAME_PATTERN: Final = re.compile(rf"[a-z0-9]([-a-z0-9]{{0,{MAX_SOURCE_NAME_LENGTH - 2}}}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """A source as configured. Its name is its identity: the ApplySet id depends on nothing else. `interval`: how often it is asked. Unless it
    `prunes`, what Git no longer wants of it stays. `conflicts` says from which managers it takes fields over.

    Its members are written with the rights of the `service_account` (`NAMESPACE/NAME`), empty: with our own.

    `suspend` says why nothing of it is written, `depends_on` names the sources that are to be applied before it is applied for the first time.
    With `governs_all` its windows and policies govern all sources, not only itself; with `require_plan` a commit has to carry the hash of its plan;
    `verification` says who has to have signed it. `forge` is where reverts of what was halted are proposed.
    """

    name: str
    target: SourceTarget
    credentials: Credentials = field(default_factory=Credentials)
    interval: timedelta = timedelta(seconds=30)
    adoption: Adoption = NO_ADOPTION
    conflicts: ConflictPolicy = DEFAULT_CONFLICT_POLICY
    brake: DeletionBrake = DEFAULT_BRAKE
    prunes: bool = True
    suspend: str = ""
    service_account: str = ""
    depends_on: tuple[str, ...] = ()
    governs_all: bool = False
    require_plan: bool = False
    verification: Verification | None = None
    forge: ForgeProject | None = None

    @property
    def user(self) -> str:
        """As the API server calls the service account; empty where there is none."""
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
    """Read `[NAME=]URL`; without a name it follows from the URL (`default_name`).

    Raises SourceError (and RefusedUrl) with what to write instead.
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
            f"{name!r} cannot name a source" if name else "no name of a source follows from it",
            advice=f"write NAME=URL with a name of small letters, digits and dashes, at most {MAX_SOURCE_NAME_LENGTH} characters",
        )
    return SourceConfig(
        name, SourceTarget(url, parse_ref(ref), path), interval=interval, adoption=adoption, conflicts=conflicts
    )


def default_name(url: str) -> str:
    """The last part of a URL without `.git`, made valid where it is not; empty where nothing of it can be in a name.

    `https://git.example.com/shop/deploy.git` is called `deploy`, and `/srv/My_Repo` is called `my-repo`.
    """
    name = re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git").lower()
    if SOURCE_NAME_PATTERN.fullmatch(name):
        return name
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-")[:MAX_SOURCE_NAME_LENGTH].rstrip("-")


def derive_name(location: str) -> str:
    """The name of a source for what is only looked at: that of its place, and `source` where none follows from it."""
    return default_name(location if is_url(location) else str(Path(location).expanduser().absolute())) or "source"


def create_mirrors(sources: Sequence[SourceConfig], is_stopping: Callable[[], bool]) -> dict[str, Mirror]:
    """One mirror for each source, by name; once the process is `stopping` they wait for no server any more, and raise Stopped.

    Raises SourceError when two sources have one name.
    """
    tick = make_stop_tick(is_stopping)
    mirrors_by_name: dict[str, Mirror] = {}
    for source in sources:
        if source.name in mirrors_by_name:
            raise SourceError(
                str(source.target),
                f"two sources are called {source.name!r}: this one, and {mirrors_by_name[source.name].target}",
                advice="give one of them a name: NAME=URL",
            )
        mirrors_by_name[source.name] = Mirror(source.target, default_cache(), credentials=source.credentials, tick=tick)
    return mirrors_by_name


def load_schemas(folders: Iterable[str]) -> tuple[KindSchemas, tuple[Problem, ...]]:
    """The kinds that CRDs and definitions in these folders describe, and the files that cannot be read. Objects of other kinds count for nothing.

    Raises SourceError for a folder that describes no kind.
    """
    types, problems = KindSchemas(), []
    for folder in folders:
        catalog = load_catalog(locations.read_location(folder))
        unreadable = [problem for problem in catalog.problems if problem.file in catalog.unreadable_files]
        if not catalog.types.described and not unreadable:
            raise SourceError(folder, "holds no CustomResourceDefinition", advice="name the folder that they are in")
        problems += [replace(problem, file=f"{folder}/{problem.file}") for problem in unreadable]
        types = types.with_fallback(catalog.types)
    return types, tuple(problems)


def load_catalog(snapshot: SourceSnapshot, *, source: str = "", previous: Catalog | None = None) -> Catalog:
    """The catalog of a snapshot; what the source refuses to read is kept as unreadable. Files that are in `previous` are not read again.

    The revision of a working tree that differs from its commit ends in `-dirty`: no source was brought to that before, so what differs is no drift.
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

"""A remote repository, kept as a bare copy in the cache (`gitops/source/local_copy.py`): where its target stands, and what its commits hold."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gitops.errors import DamagedCache, RevisionNotFound
from gitops.source import revert
from gitops.source.cache_directory import CacheDirectory
from gitops.source.credentials import Credentials
from gitops.source.git import GitError
from gitops.source.local_copy import LocalCopy
from gitops.source.remote import Remote, first_ref, with_peeled
from gitops.source.revert import RevertRequest
from gitops.source.signatures import Verification, find_unsigned_commit
from gitops.source.snapshot import DEFAULT_LIMITS, ReadLimits, SourceSnapshot
from gitops.source.target import (
    BranchRef,
    CommitRef,
    DefaultBranchRef,
    FullRef,
    SourceTarget,
    TagRef,
    VersionRef,
    parse_ref,
)

_REVISION = re.compile(r"(?P<name>[^~^]+)(?P<steps>(?:[~^][0-9]{0,6})*)")
_SHORT_ID = re.compile(r"[0-9a-f]{4,64}")


def default_cache() -> Path:
    """Where mirrors are kept unless told otherwise: `levelgate/git` below `$XDG_CACHE_HOME` or `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "levelgate" / "git"


class Tip(NamedTuple):
    """Where a target stands on the server: the full name of the ref, for a commit its id, and the id of its commit."""

    name: str
    commit: str

    @property
    def version(self) -> str:
        """The name of the tag, where it is one."""
        return self.name.removeprefix("refs/tags/")


class Mirror:
    """The copy of one repository below `cache`; sources with the same URL share it.

    Methods block, may be called from several threads, and raise subclasses of `SourceError`. Those that need the
    server raise `Unreachable`, `Unauthorized`, `RevisionNotFound`, `RefusedUrl` (a redirect), `RefusedContent`; all
    raise `CacheUnavailable` if the cache cannot be used, and `DamagedCache` if it is broken and could not be fetched
    anew. `tick` is called about twice a second while Git is at work; what it raises ends that.
    """

    def __init__(
        self,
        target: SourceTarget,
        cache: Path,
        *,
        credentials: Credentials | None = None,
        limits: ReadLimits = DEFAULT_LIMITS,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.target = target
        self._name = str(target)
        self._limits = limits
        self._tick = tick
        self._cache_directory = CacheDirectory(
            cache, target.location, lock_timeout=limits.lock_timeout_seconds, tick=tick
        )
        self._credentials = credentials or Credentials()
        self._remote = self._create_remote(self._credentials)
        self._copy = LocalCopy(self._remote, self._cache_directory, self._name, limits=limits, tick=tick)
        self._signature_check: tuple[object, str] | None = None

    @property
    def server(self) -> tuple[str, Credentials]:
        """What is asked, and as whom: targets for which this is equal can share one answer."""
        return self.target.location, self._credentials

    @property
    def credential_states(self) -> tuple[object, ...]:
        """Changes when the files of its credentials do: what was refused may be granted then."""
        return self._credentials.file_states

    @property
    def ref_names(self) -> tuple[str, ...]:
        """The refs that tell where the target stands, to be asked for with `refs`; none for a commit."""
        match self.target.ref:
            case CommitRef():
                return ()
            case VersionRef():
                return ("refs/tags/*",)
        return with_peeled([_remote_name(self.target)])

    def list_refs(self, *names: str) -> Mapping[str, str]:
        """The server's answer for these `wanted`, which may be those of other targets at the same server as well. Fetches nothing."""
        return self._remote.list_refs("--quiet", *names) if names else {}

    def find_tip(self, refs: Mapping[str, str] | None = None) -> Tip:
        """Where the target stands, by the server's `refs`; without them the server is asked."""
        refs = self.list_refs(*self.ref_names) if refs is None else refs
        match self.target.ref:
            case CommitRef(sha):
                return Tip(sha, sha)
            case VersionRef(versions):
                tags = (name.removeprefix("refs/tags/") for name in refs if name.startswith("refs/tags/"))
                names = [f"refs/tags/{versions.highest_tag(tags)}"]
            case _:
                names = [_remote_name(self.target)]
        if first_match := first_ref(names, refs):
            return Tip(*first_match)
        if isinstance(self.target.ref, VersionRef):
            raise self._not_found(
                f"no tag has a version in the range {self.target.ref.range}", "check `ref`, or push one"
            )
        raise self._not_found(f"{self.target.ref} does not exist", "check `ref`, or push it")

    def fetch(self, tip: Tip | None = None, *, temporary: bool = False) -> str:
        """Bring the copy to the ref's commit, which is at `tip`, and give its id. Without `tip` the server is asked; if the commit is here
        already, that is the only request. What is `lent` stays until `release_temporary`, and need not be there after another fetch.
        """
        return self._copy.obtain(*(tip or self.find_tip()), temporary=temporary)

    def release_temporary(self, keep: Collection[str]) -> None:
        """Forget what was lent, but for the refs with these full names. Asks nobody."""
        self._copy.release_temporary(keep)

    def read_snapshot(self, revision: str) -> SourceSnapshot:
        """The manifests below the target's path in the commit `revision` (a full id, from `fetch` or `resolve`)."""

        def read() -> SourceSnapshot:
            with self._copy.open_for_reading() as repository:
                return repository.read_snapshot(revision, self.target.path)

        return self._copy.retry_after_repair(read, self._fallback(revision))

    def has_commit(self, commit: str) -> bool:
        """Return whether the copy has the commit, a full id, in whole. Asks nobody."""
        return self.find_copied_commit(commit) is not None

    def find_copied_commit(self, prefix: str) -> str | None:
        """Return the full id of the commit whose id begins so; None where the copy does not have it in whole."""
        with self._copy.open_for_reading() as repository:
            try:
                commit = repository.parse(prefix)
                is_here = commit is not None and commit.startswith(prefix) and repository.is_complete(commit)
            except DamagedCache:
                return None
        return commit if is_here else None

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether the history of `new` contains `old`. False after a force push that dropped `old`, also if it was
        never here.
        """

        def compare() -> bool:
            with self._copy.open_for_reading() as repository:
                return repository.is_ancestor(old, new)

        if self._copy.is_known_descendant(old, new):
            return True
        return self._copy.retry_after_repair(compare, self._fallback(new))

    def find_unsigned(self, verification: Verification, previous_commit: str, commit: str) -> str:
        """Why `commit` may not follow `before` by its signatures; empty where it may. What was found holds until the files of keys change."""
        key = (verification, verification.file_digests, previous_commit, commit)
        if self._signature_check is None or self._signature_check[0] != key:
            with self._copy.open_for_reading():
                try:
                    message = find_unsigned_commit(
                        self._copy.git, verification, previous_commit=previous_commit, commit=commit
                    )
                except GitError:
                    message = "its signatures cannot be read"
            self._signature_check = key, message
        return self._signature_check[1]

    def find_commit(self, prefix: str) -> str:
        """Return the full id of the commit whose id begins so. The server is asked only where the copy lacks it."""
        return self.find_copied_commit(prefix) or self.resolve(prefix)

    def find_merge_base(self, first: str, second: str) -> str | None:
        """Where the histories of two commits that are here part; None where they have nothing in common."""
        with self._copy.open_for_reading() as repository:
            return repository.find_merge_base(first, second)

    def create_revert(self, request: RevertRequest) -> str:
        """A new commit in the copy that takes others back, all of which are here; it is on no branch. Raises RevertError."""
        with self._copy.open_for_writing(sha256=len(request.onto) == 64) as git:
            return revert.create_revert(git, request)

    def push(self, commit: str, branch: str, credentials: Credentials) -> None:
        """Give the server a branch at this commit, which it must not have yet, in the name of these credentials."""
        remote = self._create_remote(credentials)
        with self._cache_directory.lock_exclusively() as lock_descriptor:
            try:
                remote.push(
                    replace(self._copy.git, lock_descriptors=(lock_descriptor,)), commit, f"refs/heads/{branch}"
                )
            except GitError as failure:
                raise remote.failure_error(failure) from None

    def resolve(self, rev: str) -> str:
        """The full id of what a person names: branch, tag, id or its beginning, `HEAD`; each with `~2` or `^`.
        Fetches it if need be.
        """
        match = _REVISION.fullmatch(rev)
        if not match or rev.startswith("-"):
            raise self._not_found(f"{rev!r} names no commit", "use a branch, a tag or a commit id")
        commit = self._resolve_name(match["name"])
        if not match["steps"]:
            return commit
        with self._copy.open_for_reading() as repository:
            resolved = repository.parse(commit + match["steps"])
        if resolved is None:
            raise self._not_found(f"{match['name']} has no commit {match['steps']}")
        return resolved

    def _create_remote(self, credentials: Credentials) -> Remote:
        return Remote(self.target, self._cache_directory, credentials=credentials, limits=self._limits, tick=self._tick)

    def _fallback(self, default: str) -> str:
        """What to fetch where the copy is damaged; a range of versions is empty without the server."""
        return default if isinstance(self.target.ref, VersionRef) else _remote_name(self.target)

    def _resolve_name(self, name: str) -> str:
        ref = parse_ref(name)
        match ref:
            case CommitRef(sha):
                return self._copy.obtain(sha, sha)
            case DefaultBranchRef():
                candidates = ["HEAD"]
            case _ if name.startswith("refs/"):
                candidates = [name]
            case _:
                candidates = [f"refs/{kind}/{name}" for kind in ("tags", "heads", "remotes")]
        if first_match := self._remote.find_first_ref(candidates):
            return self._copy.obtain(*first_match)
        if _SHORT_ID.fullmatch(name) and (commit := self._copy.search(name, self._fallback("HEAD"))):
            return commit
        raise self._not_found(f"no branch, tag or commit is called {name!r}", "check the name, or push it")

    def _not_found(self, message: str, advice: str = "") -> RevisionNotFound:
        return RevisionNotFound(self._name, message, advice=advice)


def _remote_name(target: SourceTarget) -> str:
    match target.ref:
        case BranchRef(name):
            return f"refs/heads/{name}"
        case TagRef(name):
            return f"refs/tags/{name}"
        case FullRef(name):
            return name
        case CommitRef(sha):
            return sha
        case VersionRef() | DefaultBranchRef():
            return "HEAD"

"""The mirror of a remote repository: the commit that the target points to, and the files of commits.

The module `local_copy` keeps the copy on disk. The module `remote` sends the requests to the server.
"""

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
    """Return the directory of mirrors: `levelgate/git` below `$XDG_CACHE_HOME` or `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "levelgate" / "git"


class Tip(NamedTuple):
    """The commit that a target points to on the server."""

    name: str
    """Full name of the ref. If the target is a commit, the name is the id of the commit."""
    commit: str
    """Full id of the commit."""

    @property
    def version(self) -> str:
        """Return the name of the tag, or the full name of any other ref."""
        return self.name.removeprefix("refs/tags/")


class Mirror:
    """Access to one repository through a copy below the directory `cache`. Sources with the same URL share the copy.

    Methods block. Several threads may call methods at the same time.

    Args:
        tick: function to call about twice a second during a Git command. An exception from `tick` ends the command.

    Raises: CacheUnavailable if the disk fails; DamagedCache if a new fetch does not repair a damaged copy. Methods that
    need the server also raise Unreachable, Unauthorized, RevisionNotFound, RefusedContent, or RefusedUrl for a
    redirect. All of the errors are subclasses of SourceError.
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
    def repository(self) -> tuple[str, Credentials]:
        """Return the location and the credentials of the target. Mirrors with equal values share a server's answer."""
        return self.target.location, self._credentials

    @property
    def server(self) -> str:
        """Return the host and port of the target's server. All repositories on the server share this value."""
        return self.target.server

    @property
    def credential_states(self) -> tuple[object, ...]:
        """Return a value that changes whenever a credentials file changes.

        After a change, the server may accept a request that the server rejected before.
        """
        return self._credentials.file_states

    @property
    def ref_names(self) -> tuple[str, ...]:
        """Return the refs that `list_refs` needs to find the target's commit. For a `CommitRef`, return no ref."""
        match self.target.ref:
            case CommitRef():
                return ()
            case VersionRef():
                return ("refs/tags/*",)
        return with_peeled([_remote_name(self.target)])

    def list_refs(self, *names: str) -> Mapping[str, str]:
        """Return the server's commits by ref name, for refs that match `names`, without a fetch of objects.

        Args:
            names: names or patterns, possibly for further targets at the same server.
        """
        return self._remote.list_refs("--quiet", *names) if names else {}

    def find_tip(self, refs: Mapping[str, str] | None = None) -> Tip:
        """Return the commit that the target points to according to `refs`. If `refs` is None, ask the server.

        Raises: RevisionNotFound if the target does not exist.
        """
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
                f"no tag has a version in the range {self.target.ref.range}",
                "check `ref`, or push a tag with such a version",
            )
        raise self._not_found(f"{self.target.ref} does not exist", "check `ref`, or push the ref")

    def fetch(self, tip: Tip | None = None, *, temporary: bool = False) -> str:
        """Return the id of the target's commit. If the copy lacks the commit, fetch it.

        Args:
            tip: target's commit on the server. If `tip` is None, ask the server for the commit.
            temporary: True to keep the commit only until `release_temporary`, until its ref moves, or until a later
                fetch needs disk space.
        """
        return self._copy.obtain(*(tip or self.find_tip()), temporary=temporary)

    def release_temporary(self, keep: Collection[str]) -> None:
        """Drop all temporary commits, except the commits of refs whose full names are in `keep`. Send no request."""
        self._copy.release_temporary(keep)

    def read_snapshot(self, revision: str) -> SourceSnapshot:
        """Return the manifests of a commit below the target's path.

        Args:
            revision: full id of the commit.
        """

        def read() -> SourceSnapshot:
            with self._copy.open_for_reading() as repository:
                return repository.read_snapshot(revision, self.target.path)

        return self._copy.retry_after_repair(read, self._fallback(revision))

    def has_commit(self, commit: str) -> bool:
        """Return whether the copy has all objects of the commit with the full id `commit`. Send no request."""
        return self.find_copied_commit(commit) is not None

    def find_copied_commit(self, prefix: str) -> str | None:
        """Return the full id of the commit whose id begins with `prefix`, or None if the copy lacks parts of it."""
        with self._copy.open_for_reading() as repository:
            try:
                commit = repository.parse(prefix)
                is_here = commit is not None and commit.startswith(prefix) and repository.is_complete(commit)
            except DamagedCache:
                return None
        return commit if is_here else None

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return whether the history of `new` contains `old`.

        If a force push has dropped `old`, or if the copy has never contained `old`, return False.
        """

        def compare() -> bool:
            with self._copy.open_for_reading() as repository:
                return repository.is_ancestor(old, new)

        if self._copy.is_known_descendant(old, new):
            return True
        return self._copy.retry_after_repair(compare, self._fallback(new))

    def find_unsigned(self, verification: Verification, previous_commit: str, commit: str) -> str:
        """Return why `commit` must not replace `previous_commit` because of signatures, or an empty string if it may.

        Until the files with the keys change, the mirror reuses the last answer.
        """
        key = (verification, verification.file_digests, previous_commit, commit)
        if self._signature_check is None or self._signature_check[0] != key:
            with self._copy.open_for_reading():
                try:
                    message = find_unsigned_commit(
                        self._copy.git, verification, previous_commit=previous_commit, commit=commit
                    )
                except GitError:
                    message = f"commit {commit[:7]} cannot be accepted: Git cannot read its signatures"
            self._signature_check = key, message
        return self._signature_check[1]

    def find_commit(self, prefix: str) -> str:
        """Return the full id of the commit whose id begins with `prefix`.

        If the copy has the commit, send no request to the server.
        """
        return self.find_copied_commit(prefix) or self.resolve(prefix)

    def find_merge_base(self, first: str, second: str) -> str | None:
        """Return the newest common ancestor of two commits in the copy, or None if they share no history."""
        with self._copy.open_for_reading() as repository:
            return repository.find_merge_base(first, second)

    def create_revert(self, request: RevertRequest) -> str:
        """Create a commit in the copy that reverts earlier commits. Return the new id, to which no ref points.

        The copy must contain all commits of the request.

        Raises: RevertError if the revert is not possible.
        """
        with self._copy.open_for_writing(sha256=len(request.onto) == 64) as git:
            return revert.create_revert(git, request)

    def push(self, commit: str, branch: str, credentials: Credentials) -> None:
        """Create `branch` at `commit` on the server, with `credentials`. The branch must not exist on the server yet.

        Raises: Unauthorized, Unreachable, or another SourceError for a failure of the server.
        """
        remote = self._create_remote(credentials)
        with self._cache_directory.lock_exclusively() as lock_descriptor:
            try:
                remote.push(
                    replace(self._copy.git, lock_descriptors=(lock_descriptor,)), commit, f"refs/heads/{branch}"
                )
            except GitError as failure:
                raise remote.failure_error(failure) from None

    def resolve(self, rev: str) -> str:
        """Return the full id of a commit that a person names. If the copy lacks the commit, fetch it.

        Args:
            rev: branch, tag, id, beginning of an id, or `HEAD`; then possibly steps such as `~2` or `^`.

        Raises: RevisionNotFound if `rev` does not name a commit.
        """
        match = _REVISION.fullmatch(rev)
        if not match or rev.startswith("-"):
            raise self._not_found(f"{rev!r} does not name a commit", "use a branch, a tag or a commit id")
        commit = self._resolve_name(match["name"])
        if not match["steps"]:
            return commit
        with self._copy.open_for_reading() as repository:
            resolved = repository.parse(commit + match["steps"])
        if resolved is None:
            raise self._not_found(f"{match['name']} has no commit {match['steps']}", "name an ancestor that exists")
        return resolved

    def _create_remote(self, credentials: Credentials) -> Remote:
        return Remote(self.target, self._cache_directory, credentials=credentials, limits=self._limits, tick=self._tick)

    def _fallback(self, default: str) -> str:
        """Return the ref name to fetch if the copy is damaged: the name of the target's ref, or `default`.

        For a range of versions, return `default`, because only the server's list of tags determines the tag of a range.
        """
        return default if isinstance(self.target.ref, VersionRef) else _remote_name(self.target)

    def _resolve_name(self, name: str) -> str:
        """Return the id of the commit that `name` refers to. A tag precedes a branch of the same name.

        Args:
            name: branch, tag, id or beginning of an id, without steps such as `~2`.

        Source: gitrevisions(7).

        Raises: RevisionNotFound if `name` does not exist.
        """
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
        raise self._not_found(f"no branch, tag or commit is called {name!r}", "check the name, or push the commit")

    def _not_found(self, message: str, advice: str = "") -> RevisionNotFound:
        return RevisionNotFound(self._name, message, advice=advice)


def _remote_name(target: SourceTarget) -> str:
    """Return the name of the target's ref on the server."""
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

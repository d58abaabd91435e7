"""The copy of a repository in the cache: its update from the server, its check, and the repair of a damaged copy.

Invariant: a ref below `refs/levelgate/current/` points only to a commit whose whole tree is in the copy. An interrupted
fetch changes no such ref. The copy keeps former current commits and the results of searches, so that Levelgate can
compare rewritten history.

A `temporary` commit belongs to a pull request and has a ref below `refs/levelgate/lent/`. The copy keeps the commit
until `release_temporary` drops it, its ref moves, or a fetch needs the disk space.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from gitops.errors import DamagedCache, RefusedContent, RevisionNotFound, SourceError
from gitops.source.cache_directory import CacheDirectory, remove_leftovers
from gitops.source.git import Git, GitError
from gitops.source.remote import Remote
from gitops.source.repository import Repository
from gitops.source.snapshot import ReadLimits

T = TypeVar("T")

_TEMPORARY_REFS = "refs/levelgate/lent/"

_INCOMING = "refs/levelgate/incoming"
_ALL_REFSPECS = ("+refs/heads/*:refs/levelgate/all/heads/*", "+refs/tags/*:refs/levelgate/all/tags/*")
_UPDATE_REF = ("update-ref", "--no-deref", "--end-of-options")
_DELETE_REF = ("update-ref", "-d", "--no-deref", "--end-of-options")
_OBJECT_FORMAT_MISMATCH: Final = "mismatched algorithms"
"""Git's message if the server and the copy use different object formats (SHA-1 and SHA-256)."""

_GC_COMMAND = (
    *("-c", "gc.auto=3000", "-c", "gc.autoPackLimit=50", "-c", "gc.autoDetach=false"),
    *("gc", "--auto", "--quiet"),
)


class LocalCopy:
    """The copy of one remote repository, in a cache directory.

    Methods raise the errors that the docstring of `Mirror` lists.

    Args:
        name: name of the repository in messages.
    """

    def __init__(
        self,
        remote: Remote,
        cache_directory: CacheDirectory,
        name: str,
        *,
        limits: ReadLimits,
        tick: Callable[[], None],
    ) -> None:
        self._remote = remote
        self._cache_directory = cache_directory
        self._name = name
        self._limits = limits
        self.git: Final = Git(
            cache_directory.path, git_dir=cache_directory.repository, timeout=limits.local_timeout_seconds, tick=tick
        )
        self._repository = Repository(self.git, name, limits=limits)
        self._known_descent: tuple[str, str] | None = None

    @contextmanager
    def open_for_reading(self) -> Iterator[Repository]:
        """Yield the repository of the copy, and keep writers out of the copy during the block."""
        with self._cache_directory.lock_shared():
            yield self._repository

    def is_known_descendant(self, old: str, new: str) -> bool:
        """Return whether the last fetch proved that the history of `new` contains `old`.

        The proof stays valid, because the history of a commit id never changes.

        Args:
            old: full id of a commit.
            new: full id of a commit.
        """
        return self._known_descent == (old, new)

    def obtain(self, remote_name: str, commit: str, *, temporary: bool = False) -> str:
        """Return the id of a ref's commit. If the copy lacks the commit, fetch it.

        If the server has moved the ref to another commit, return the new id.

        Args:
            remote_name: name of the ref on the server, or the full id of a commit.
            commit: last known id of the ref.
            temporary: True for the commit of a pull request.
        """

        def bring() -> str:
            with self.open_for_writing(sha256=len(commit) == 64) as git:
                current = self._repository.parse(_local_ref(remote_name, temporary=temporary))
                if current == commit:
                    return commit
                try:
                    return self._download(git, remote_name, current, temporary=temporary)
                except RefusedContent:  # temporary commits may occupy the space that this commit needs
                    if not self._delete_temporary_refs(git, ()):
                        raise
                    self._collect_garbage(git)
                    return self._download(git, remote_name, None, temporary=temporary)

        return self.retry_after_repair(bring, remote_name)

    def release_temporary(self, keep: Collection[str]) -> None:
        """Drop all temporary commits except the commits of the remote refs that `keep` names.

        If the copy occupies more than half of its size limit, also delete the unreachable objects from the disk.
        """
        if self._cache_directory.repository.exists():
            with self.open_for_writing(sha256=False) as git:
                if self._delete_temporary_refs(git, keep) and self._is_large(git):
                    self._collect_garbage(git)

    def search(self, short: str, fallback: str) -> str | None:
        """Fetch all branches and tags. Return the id of the commit whose id begins with `short`, or None.

        Args:
            short: beginning of an id, in hexadecimal digits.
            fallback: name of the remote ref that repairs a damaged copy.
        """

        def look() -> str | None:
            with self.open_for_writing(sha256=False) as git:
                self._remote.transfer(git, *_ALL_REFSPECS, prune=True)
                commit = self._repository.parse(short)
                if commit is None or not commit.startswith(short):
                    return None
                self._check_complete(self._repository, commit)
                _keep_commit(git, commit)
                return commit

        return self.retry_after_repair(look, fallback)

    def retry_after_repair(self, operation: Callable[[], T], remote_name: str) -> T:
        """Run `operation`. If the copy is damaged, replace the copy with a fetch of `remote_name`, and retry once."""
        try:
            return operation()
        except DamagedCache:
            self._replace(remote_name)
        return operation()

    @contextmanager
    def open_for_writing(self, *, sha256: bool) -> Iterator[Git]:
        """Yield Git for the copy, and keep readers and writers out of the copy during the block. Create a missing copy.

        A GitError inside the block becomes a SourceError.

        Args:
            sha256: object format of a new copy. False means SHA-1.
        """
        with self._cache_directory.lock_exclusively() as lock_descriptor:
            git = replace(self.git, lock_descriptors=(lock_descriptor,))
            try:
                if not self._cache_directory.repository.exists():
                    _initialise(git, sha256=sha256)
                yield git
            except GitError as failure:
                raise self._classify_failure(git, failure) from None

    def _download(self, git: Git, remote_name: str, previous: str | None = None, *, temporary: bool = False) -> str:
        """Fetch a commit, check the commit for completeness, and then set the ref of `remote_name` to the commit.

        Raises: RevisionNotFound if `remote_name` does not name a commit.
        """
        repository = Repository(git, self._name, limits=self._limits)
        try:
            self._sweep(git)
            commit = self._transfer(git, repository, remote_name)
        except BaseException:
            self._sweep(git)
            raise
        if commit is None:
            raise self._not_found(f"{remote_name} does not name a commit", "use a branch, a tag or a commit id")
        self._check_complete(repository, commit)
        if previous and repository.contains(commit, previous):
            self._known_descent = previous, commit
        elif previous and not temporary:  # history was rewritten, so no ref would reach the old commit
            _keep_commit(git, previous)
        git.run(*_UPDATE_REF, _local_ref(remote_name, temporary=temporary), commit)
        if temporary and previous and self._is_large(git):
            self._collect_garbage(git)
        with suppress(GitError):
            git.run(*_GC_COMMAND)
        return commit

    def _delete_temporary_refs(self, git: Git, keep: Collection[str]) -> bool:
        """Delete all temporary refs except the refs in `keep`. Return True if at least one ref is deleted."""
        names = git.run("for-each-ref", "--format=%(refname)", _TEMPORARY_REFS).decode().split()
        unused = sorted(set(names) - {_local_ref(name, temporary=True) for name in keep})
        for name in unused:
            git.run(*_DELETE_REF, name)
        return bool(unused)

    def _is_large(self, git: Git) -> bool:
        """Return whether the copy, including unreachable objects, occupies more than half of its size limit."""
        rows = (line.split(": ") for line in git.run("count-objects", "-v").decode().splitlines())
        kibibytes = sum(int(number) for name, number in rows if name in {"size", "size-pack", "size-garbage"})
        return kibibytes * 1024 > self._limits.max_repository_bytes // 2

    def _collect_garbage(self, git: Git) -> None:
        """Delete all objects that no ref reaches. The exclusive lock ensures that no reader uses these objects."""
        git.run(*_DELETE_REF, _INCOMING)
        with suppress(GitError):
            git.run("gc", "--prune=now", "--quiet")

    def _transfer(self, git: Git, repository: Repository, remote_name: str) -> str | None:
        """Fetch a commit into the incoming ref, and return its id.

        If the object with the remote name is not a commit, return None.

        Raises: RevisionNotFound if no branch or tag of the server has the commit.
        """
        try:
            self._remote.transfer(git, f"+{remote_name}:{_INCOMING}")
            return repository.parse(_INCOMING)
        except GitError as failure:
            is_id = not remote_name.startswith(("refs/", "HEAD"))
            if not is_id or not isinstance(self._remote.classify_failure(failure), RevisionNotFound):
                raise
        # Some servers do not serve a commit by its id. In this case, fetch all branches and tags, and search them.
        self._remote.transfer(git, *_ALL_REFSPECS, prune=True)
        if commit := repository.parse(remote_name):
            return commit
        raise self._not_found(f"has no commit {remote_name[:12]} on any branch or tag", "push the commit")

    def _check_complete(self, repository: Repository, commit: str) -> None:
        if not repository.is_complete(commit):
            raise DamagedCache(self._name, "objects are missing")

    def _sweep(self, git: Git) -> None:
        """Remove the leftovers of a killed Git process, because leftovers occupy space and block refs."""
        if git.git_dir is not None:
            remove_leftovers(git.git_dir)

    def _classify_failure(self, git: Git, failure: GitError) -> SourceError:
        """Return the error of a failed command.

        If the server caused the failure, return the error of the server. Otherwise, if fsck finds damage, return
        DamagedCache.
        """
        if _OBJECT_FORMAT_MISMATCH in failure.stderr:
            return DamagedCache(self._name, "the server and the copy use different object formats")
        if server_error := self._remote.classify_failure(failure):
            return server_error
        try:
            git.run("fsck", "--full", "--no-dangling", "--no-progress")
        except GitError:
            return DamagedCache(self._name, "the copy in the cache is damaged")
        return self._remote.failure_error(failure)

    def _replace(self, remote_name: str) -> None:
        """Fetch into a new directory. If the fetch succeeds, replace the damaged copy with the new directory.

        Raises: DamagedCache if the fetch fails.
        """
        try:
            head = self._remote.find_first_ref(["HEAD"])
            sha256 = len(head[1] if head else remote_name) == 64
            with self._cache_directory.lock_exclusively() as lock_descriptor:

                def make(directory: Path) -> None:
                    git = replace(self.git, git_dir=directory, lock_descriptors=(lock_descriptor,))
                    _initialise(git, sha256=sha256)
                    self._download(git, remote_name)

                self._cache_directory.replace_repository(make)
        except (SourceError, GitError) as error:
            cause = self._remote.failure_error(error) if isinstance(error, GitError) else error
            message = f"the copy is damaged, and a new fetch failed ({cause.message})"
            raise DamagedCache(self._name, message, advice=cause.advice) from None

    def _not_found(self, message: str, advice: str = "") -> RevisionNotFound:
        return RevisionNotFound(self._name, message, advice=advice)


def _local_ref(remote_name: str, *, temporary: bool) -> str:
    """Return the name of the local ref for a remote ref.

    The name contains a hash of the remote name, because Git cannot store the refs `a` and `a/b` at the same time. The
    server may delete `a` and create `a/b` between two fetches.
    """
    namespace = _TEMPORARY_REFS if temporary else "refs/levelgate/current/"
    return f"{namespace}{hashlib.sha256(remote_name.encode()).hexdigest()[:32]}"


def _keep_commit(git: Git, commit: str) -> None:
    """Keep `commit` in the copy even if no branch or tag contains the commit."""
    git.run(*_UPDATE_REF, f"refs/levelgate/kept/{commit}", commit)


def _initialise(git: Git, *, sha256: bool) -> None:
    """Create an empty bare repository without templates and hooks.

    Args:
        sha256: True for the object format SHA-256, False for SHA-1.
    """
    kind = "sha256" if sha256 else "sha1"
    options = ("--quiet", "--bare", "--template=", "--initial-branch=none", f"--object-format={kind}")
    replace(git, git_dir=None).run("init", *options, "--", str(git.git_dir))

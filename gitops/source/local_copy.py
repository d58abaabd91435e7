"""The copy of a repository in the cache: brought up to what the server has, checked before use, replaced when damaged.

Invariant: a ref below `refs/levelgate/current/` is set only to a commit whose whole tree is here. A fetch that breaks off changes no such ref.
Commits that were current, or searched for, stay, so that rewritten history can be compared; those that are `lent`, below `refs/levelgate/lent/`,
stay until another takes their place, they are given back, or there is no room for what is fetched. Nothing is ever checked out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from gitops.errors import DamagedCache, RefusedContent, RevisionNotFound, SourceError
from gitops.source.cache_directory import CacheDirectory, sweep
from gitops.source.git import Git, GitError
from gitops.source.remote import Remote
from gitops.source.repository import Repository
from gitops.source.snapshot import ReadLimits

T = TypeVar("T")

_LENT = "refs/levelgate/lent/"

_INCOMING = "refs/levelgate/incoming"
_EVERYTHING = ("+refs/heads/*:refs/levelgate/all/heads/*", "+refs/tags/*:refs/levelgate/all/tags/*")
_UPDATE_REF = ("update-ref", "--no-deref", "--end-of-options")
_DELETE_REF = ("update-ref", "-d", "--no-deref", "--end-of-options")
_OTHER_FORMAT: Final = "mismatched algorithms"
"""What Git says where one side names objects by SHA-1 and the other by SHA-256."""

_TIDY = (
    *("-c", "gc.auto=3000", "-c", "gc.autoPackLimit=50", "-c", "gc.autoDetach=false"),
    *("gc", "--auto", "--quiet"),
)


class LocalCopy:
    """What is in `home` of the repository `remote`, which messages call `name`. Raises what `Mirror` does."""

    def __init__(
        self, remote: Remote, home: CacheDirectory, name: str, *, limits: ReadLimits, tick: Callable[[], None]
    ) -> None:
        self._remote = remote
        self._home = home
        self._name = name
        self._limits = limits
        self.git: Final = Git(home.path, git_dir=home.repository, timeout=limits.local_timeout, tick=tick)
        self._repository = Repository(self.git, name, limits=limits)
        self._followed: tuple[str, str] | None = None

    @contextmanager
    def reading(self) -> Iterator[Repository]:
        """The repository, which nobody changes meanwhile."""
        with self._home.shared():
            yield self._repository

    def has_followed(self, old: str, new: str) -> bool:
        """Whether `new` was found to contain `old` when it was fetched; ids say what they name, so that stays true."""
        return self._followed == (old, new)

    def obtain(self, remote_name: str, commit: str, *, lent: bool = False) -> str:
        """Have the commit that `remote_name` names, which was `commit` a moment ago; gives the one it is now."""

        def bring() -> str:
            with self.changing(sha256=len(commit) == 64) as git:
                current = self._repository.parse(_local_name(remote_name, lent=lent))
                if current == commit:
                    return commit
                try:
                    return self._download(git, remote_name, current, lent=lent)
                except RefusedContent:
                    if not self._give_back(git, ()):
                        raise
                    self._free(git)
                    return self._download(git, remote_name, None, lent=lent)

        return self.recovering(bring, remote_name)

    def give_back(self, kept: Collection[str]) -> None:
        """Of what was lent keep these, by their remote names; what the others take is freed once the copy is large."""
        if self._home.repository.exists():
            with self.changing(sha256=False) as git:
                if self._give_back(git, kept) and self._is_large(git):
                    self._free(git)

    def search(self, short: str, fallback: str) -> str | None:
        """The commit whose id begins so, on any branch or tag; `fallback` is what is fetched where the copy is damaged."""

        def look() -> str | None:
            with self.changing(sha256=False) as git:
                self._remote.transfer(git, *_EVERYTHING, prune=True)
                commit = self._repository.parse(short)
                if commit is None or not commit.startswith(short):
                    return None
                self._check_complete(self._repository, commit)
                _keep(git, commit)
                return commit

        return self.recovering(look, fallback)

    def recovering(self, operation: Callable[[], T], remote_name: str) -> T:
        """Do it; if the copy turns out to be damaged, replace the copy by what `remote_name` names and do it once more."""
        try:
            return operation()
        except DamagedCache:
            self._replace(remote_name)
        return operation()

    @contextmanager
    def changing(self, *, sha256: bool) -> Iterator[Git]:
        """Git for the copy, which exists now, with nobody else in it."""
        with self._home.exclusive() as held:
            git = replace(self.git, held=(held,))
            try:
                if not self._home.repository.exists():
                    _initialise(git, sha256=sha256)
                yield git
            except GitError as failure:
                raise self._judged(git, failure) from None

    def _download(self, git: Git, remote_name: str, previous: str | None = None, *, lent: bool = False) -> str:
        """Fetch, check, and only then make it current instead of the previous one."""
        repository = Repository(git, self._name, limits=self._limits)
        try:
            self._sweep(git)
            commit = self._transfer(git, repository, remote_name)
        except BaseException:
            self._sweep(git)
            raise
        if commit is None:
            raise self._not_found(f"{remote_name} does not name a commit")
        self._check_complete(repository, commit)
        if previous and repository.contains(commit, previous):
            self._followed = previous, commit
        elif previous and not lent:
            _keep(git, previous)
        git.run(*_UPDATE_REF, _local_name(remote_name, lent=lent), commit)
        if lent and previous and self._is_large(git):
            self._free(git)
        with suppress(GitError):
            git.run(*_TIDY)
        return commit

    def _give_back(self, git: Git, kept: Collection[str]) -> bool:
        """Whether there was anything beside these."""
        names = git.run("for-each-ref", "--format=%(refname)", _LENT).decode().split()
        gone = sorted(set(names) - {_local_name(name, lent=True) for name in kept})
        for name in gone:
            git.run(*_DELETE_REF, name)
        return bool(gone)

    def _is_large(self, git: Git) -> bool:
        """Does it take more than half of what it may, with what nobody names any more?"""
        rows = (line.split(": ") for line in git.run("count-objects", "-v").decode().splitlines())
        kibibytes = sum(int(number) for name, number in rows if name in {"size", "size-pack", "size-garbage"})
        return kibibytes * 1024 > self._limits.repository // 2

    def _free(self, git: Git) -> None:
        """Nobody else is in the copy, so nothing that is not named is in use."""
        git.run(*_DELETE_REF, _INCOMING)
        with suppress(GitError):
            git.run("gc", "--prune=now", "--quiet")

    def _transfer(self, git: Git, repository: Repository, remote_name: str) -> str | None:
        try:
            self._remote.transfer(git, f"+{remote_name}:{_INCOMING}")
            return repository.parse(_INCOMING)
        except GitError as failure:
            by_id = not remote_name.startswith(("refs/", "HEAD"))
            if not by_id or not isinstance(self._remote.known(failure), RevisionNotFound):
                raise
        # Not every server gives out a commit by its id: then take every branch and tag, and look.
        self._remote.transfer(git, *_EVERYTHING, prune=True)
        if found := repository.parse(remote_name):
            return found
        raise self._not_found(f"has no commit {remote_name[:12]} on any branch or tag", "push it")

    def _check_complete(self, repository: Repository, commit: str) -> None:
        if not repository.is_complete(commit):
            raise DamagedCache(self._name, "objects are missing")

    def _sweep(self, git: Git) -> None:
        if git.git_dir is not None:
            sweep(git.git_dir)

    def _judged(self, git: Git, failure: GitError) -> SourceError:
        """The server's doing if Git says so, else damage if the copy does not stand a check, or names objects otherwise than the server does now."""
        if _OTHER_FORMAT in failure.stderr:
            return DamagedCache(self._name, "the server has another object format than the copy")
        if known := self._remote.known(failure):
            return known
        try:
            git.run("fsck", "--full", "--no-dangling", "--no-progress")
        except GitError:
            return DamagedCache(self._name, "the copy in the cache does not stand a check")
        return self._remote.failed(failure)

    def _replace(self, remote_name: str) -> None:
        """Fetch into a new directory, and put that in the place of the damaged one if all went well."""
        try:
            found = self._remote.first(["HEAD"])
            sha256 = len(found[1] if found else remote_name) == 64
            with self._home.exclusive() as held:

                def make(directory: Path) -> None:
                    git = replace(self.git, git_dir=directory, held=(held,))
                    _initialise(git, sha256=sha256)
                    self._download(git, remote_name)

                self._home.exchange(make)
        except (SourceError, GitError) as error:
            cause = self._remote.failed(error) if isinstance(error, GitError) else error
            why = f"the copy is damaged and could not be fetched anew ({cause.why})"
            raise DamagedCache(self._name, why, advice=cause.advice) from None

    def _not_found(self, why: str, advice: str = "") -> RevisionNotFound:
        return RevisionNotFound(self._name, why, advice=advice)


def _local_name(remote_name: str, *, lent: bool = False) -> str:
    """Hashed, as `a` and `a/b` cannot both be refs at once but may follow each other on the server."""
    place = _LENT if lent else "refs/levelgate/current/"
    return f"{place}{hashlib.sha256(remote_name.encode()).hexdigest()[:32]}"


def _keep(git: Git, commit: str) -> None:
    """Whatever becomes of the branches and tags that it is on."""
    git.run(*_UPDATE_REF, f"refs/levelgate/kept/{commit}", commit)


def _initialise(git: Git, *, sha256: bool) -> None:
    kind = "sha256" if sha256 else "sha1"
    options = ("--quiet", "--bare", "--template=", "--initial-branch=none", f"--object-format={kind}")
    replace(git, git_dir=None).run("init", *options, "--", str(git.git_dir))

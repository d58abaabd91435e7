"""Requests to the server of a source: the list of refs, and the transfer of objects from and to the server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gitops.errors import RefusedContent, SourceError, Unreachable
from gitops.source.cache_directory import CacheDirectory
from gitops.source.credentials import Credentials
from gitops.source.git import Git, GitError
from gitops.source.git_errors import classify_error, summarize_stderr
from gitops.source.snapshot import ReadLimits
from gitops.source.target import SourceTarget, redact

_FETCH = (
    *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance"),
    *("--no-show-forced-updates", "--force"),
)
_PUSH = ("push", "--quiet", "--no-verify", "--no-signed", "--recurse-submodules=no")
_SHALLOW = "shallow roots are not allowed to be updated"
UNSHALLOW_ADVICE = "run `git fetch --unshallow` in the clone; in a CI job, check out the whole history (fetch-depth: 0)"
_LIST_TIMEOUT_SECONDS = 60.0
_TRACE_HEADERS = {"GIT_TRACE_CURL": "1", "GIT_TRACE_CURL_NO_DATA": "1", "GIT_TRACE_REDACT": "1"}
"""Variables for a trace of responses. Only this trace contains the header `Retry-After`.

Git redacts credentials in the trace, and no message contains the trace.
"""


class Remote:
    """Client of the repository at `target`. Git runs in `cache_directory`.

    Args:
        tick: function to call about twice a second during a command. An exception from `tick` ends the command.
    """

    def __init__(
        self,
        target: SourceTarget,
        cache_directory: CacheDirectory,
        *,
        credentials: Credentials,
        limits: ReadLimits,
        tick: Callable[[], None],
    ) -> None:
        self._target = target
        self._cache_directory = cache_directory
        self._credentials = credentials
        self._limits = limits
        self._tick = tick

    def list_refs(self, option: str, *names: str) -> dict[str, str]:
        """Return commit ids by full ref name, for the refs that match `names`.

        A name matches the end of a ref, and `*` matches any text. If `^{}` follows the name of an annotated tag, the id
        belongs to the commit that the tag points to.

        Source: git-ls-remote(1).

        Raises: SourceError if the request fails.
        """
        timeout = min(_LIST_TIMEOUT_SECONDS, self._limits.network_timeout_seconds)
        with self._cache_directory.prepare():
            git = self._with_access(Git(self._cache_directory.path, timeout=timeout, tick=self._tick))
            git = replace(git, environment={**git.environment, **_TRACE_HEADERS})
            try:
                lines = git.run(
                    "ls-remote", option, "--", self._target.location, *names, limit=self._limits.max_listing_bytes
                )
            except GitError as failure:
                raise self.failure_error(failure) from None
        pairs = (line.split("\t", 1) for line in lines.decode("utf-8", "replace").splitlines() if "\t" in line)
        return {name: commit for commit, name in pairs}

    def find_first_ref(self, names: list[str]) -> tuple[str, str] | None:
        """Return the first ref of `names` that exists on the server, with the id of its commit, or None.

        Args:
            names: full names of refs.
        """
        return first_ref(names, self.list_refs("--quiet", *with_peeled(names)))

    def transfer(self, git: Git, *refspecs: str, prune: bool = False) -> None:
        """Fetch into the repository of `git`.

        Args:
            prune: True to delete first the local refs that the server no longer has. Without the deletion, an old ref
                `a` prevents a new ref `a/b`.

        Raises: GitError, or RefusedContent if the repository is too large or is a shallow clone.
        """
        objects = (git.git_dir or self._cache_directory.path) / "objects"
        fetch_git = replace(git, timeout=self._limits.network_timeout_seconds, tick=lambda: self._check_quota(objects))
        options = (*_FETCH, *(["--prune"] if prune else []), "--end-of-options")
        _, stderr = self._with_access(fetch_git).run_with_stderr(*options, self._target.location, *refspecs)
        if _SHALLOW in stderr:
            raise RefusedContent(str(self._target), "is a shallow clone, without the history", advice=UNSHALLOW_ADVICE)

    def push(self, git: Git, commit: str, name: str) -> None:
        """Create the ref with the full name `name` at `commit`.

        Raises: GitError, also if the server already has the ref.
        """
        push_git = self._with_access(replace(git, timeout=self._limits.network_timeout_seconds))
        push_git.run(*_PUSH, f"--force-with-lease={name}:", "--", self._target.location, f"{commit}:{name}")

    def classify_failure(self, failure: GitError) -> SourceError | None:
        """Return the error of a failed command, or None if no pattern of `git_errors` matches the output of Git."""
        return classify_error(self._redacted_stderr(failure), str(self._target), str(self._cache_directory.path))

    def failure_error(self, failure: GitError) -> SourceError:
        """Return the error of a failed command. An unknown failure is Unreachable, because a retry may succeed."""
        summary = summarize_stderr(self._redacted_stderr(failure))
        return self.classify_failure(failure) or Unreachable(
            str(self._target), f"Git could not read the repository ({summary})", advice="check the URL and the server"
        )

    def _redacted_stderr(self, failure: GitError) -> str:
        return redact(self._credentials.redact(failure.stderr))

    def _with_access(self, git: Git) -> Git:
        """Return `git` with the credentials, and with permission only for the transport of the target."""
        environment = {
            "GIT_ALLOW_PROTOCOL": self._target.scheme,
            "GIT_CEILING_DIRECTORIES": str(self._cache_directory.path.parent),
            **self._credentials.environment(self._target, self._cache_directory.path),
        }
        if self._target.scheme == "file":
            environment["GIT_CONFIG_GLOBAL"] = str(self._cache_directory.config)
        elif self._target.scheme == "http":
            environment["no_proxy"] = "*"  # http is permitted only to this machine
        return replace(git, environment=environment)

    def _check_quota(self, objects: Path) -> None:
        """Call `tick`, and check the size of the packs of a fetch. Raises: RefusedContent above the limit."""
        self._tick()
        used = 0
        with suppress(FileNotFoundError):
            for entry in os.scandir(objects / "pack"):
                with suppress(FileNotFoundError):
                    used += entry.stat(follow_symlinks=False).st_size
        if used > self._limits.max_repository_bytes:
            raise RefusedContent(
                str(self._target),
                f"is larger than {self._limits.max_repository_bytes} bytes",
                advice="divide the repository, or remove large files from its history",
            )


def with_peeled(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, with `NAME^{}` after each tag. Only `NAME^{}` yields the commit of an annotated tag."""
    return tuple(ref for name in names for ref in (name, *([f"{name}^{{}}"] if name.startswith("refs/tags/") else ())))


def first_ref(names: Iterable[str], refs: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the first ref of `names` that is in `refs`, with the id of its commit, or None.

    Args:
        names: full names of refs.
        refs: ids by full name of a ref, with `NAME^{}` for the commit of an annotated tag.
    """
    return next(((name, refs.get(f"{name}^{{}}", refs[name])) for name in names if name in refs), None)

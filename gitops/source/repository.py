"""Reader of commits in a local Git directory, without network, checkout or writes.

The reader hashes every blob from Git again, and rejects bytes that do not match their id.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from gitops.errors import DamagedCache, RefusedContent, RevisionNotFound
from gitops.source import tree
from gitops.source.git import Git, GitError, GitTimeoutError, OutputTooLargeError
from gitops.source.snapshot import (
    File,
    ReadLimits,
    SourceProblem,
    SourceSnapshot,
    content_problem,
    size_problem,
)
from renderer.frozen import dataclass

_FSCK_ADVICE = "run `git fsck` in the repository"
_FULL_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_COMMITTER = re.compile(rb"^committer .*> (\d{1,12}) [+-]\d{4,6}$", re.MULTILINE)
_PLAN_TRAILER = re.compile(rb"^levelgate-plan:[ \t]*([0-9a-f]{1,64})[ \t]*$", re.IGNORECASE | re.MULTILINE)
_AUTHOR = re.compile(rb"^author (.*?) ?<", re.MULTILINE)
_MAX_TIMESTAMP = 253402300799  # the end of year 9999, the last that datetime can represent
_LIST_OBJECTS = (
    *("rev-list", "--objects", "--no-object-names", "--no-walk=unsorted", "--missing=print"),
    "--end-of-options",
)
_MAX_DIFF_BYTES = 1 << 16
"""Limit in bytes of the differences between two commits. Above the limit, `Repository` reads the whole new commit."""

_MAX_MESSAGE_CHARACTERS = 16_384
"""Limit of a commit message in characters. Levelgate stores the message with each revision of a definition."""

_ENCODING = re.compile(rb"^encoding ([\w-]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Commit:
    """Metadata of a commit, as printable text."""

    subject: str
    author: str
    message: str
    time: datetime
    plan: str


class _Content(NamedTuple):
    """The content of one commit below a path of the repository."""

    commit: _Commit
    listing: tree.Listing
    files: dict[str, File]
    """Files without problems, by path."""
    problems: list[SourceProblem]
    changed: frozenset[str]
    """Paths whose content differs from the last snapshot. After a full read, the set is empty."""


@dataclass(frozen=True, slots=True)
class _LastRead:
    """The last snapshot: the listing of a commit below a path, and the files in the listing."""

    revision: str
    path: str
    listing: tree.Listing
    files: Mapping[str, File]


class Repository:
    """Reader of the commits of one Git directory.

    The reader keeps the files of the last snapshot, and reads only other files.

    Args:
        name: name of the directory in messages.
    """

    def __init__(self, git: Git, name: str, *, limits: ReadLimits) -> None:
        self._git = git
        self._name = name
        self._limits = limits
        self._last_read: _LastRead | None = None

    def has_commit(self, commit: str) -> bool:
        """Return whether the commit object exists. Files of an existing commit may be missing."""
        return self._commits_exist(commit) == [True]

    def _commits_exist(self, *commits: str) -> list[bool]:
        """Return, for each id, whether the repository has a commit object with this id."""
        query = "".join(f"{commit}^{{commit}}\n" for commit in commits)
        answers = self._run("cat-file", "--batch-check", stdin=query.encode()).splitlines()
        return [answer.split()[1:2] == [b"commit"] for answer in answers]

    def parse(self, expression: str) -> str | None:
        """Return the id of the commit that `expression` names, or None if the repository lacks the commit.

        Args:
            expression: full ref name or id, then possibly steps such as `~2` or `^`.
        """
        try:
            return self._git.run_text(
                "rev-parse", "--verify", "--quiet", "--end-of-options", f"{expression}^{{commit}}"
            )
        except GitError:
            return None

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return whether the history of `new` contains `old`.

        If `old` is unknown, return False. An unknown commit is not part of the history of `new`, because the repository
        has the whole history of `new`.

        Raises: RevisionNotFound if `new` is unknown.
        """
        has_new, has_old = self._commits_exist(new, old)
        if not has_new:
            raise self._not_found_error(new)
        return has_old and self.contains(new, old)

    def contains(self, new: str, old: str) -> bool:
        """Return whether the history of `new` contains `old`. The repository must have both. Raises: DamagedCache."""
        try:
            return self._git.succeeds("merge-base", "--is-ancestor", old, new)
        except GitError as failure:
            raise self._damaged_error(failure) from None

    def find_merge_base(self, first: str, second: str) -> str | None:
        """Return the newest commit that the histories of the commits `first` and `second` share, or None."""
        try:
            return self._git.run_text("merge-base", "--end-of-options", first, second) or None
        except GitError:
            return None

    def list_first_parents(self, old: str, new: str) -> list[str]:
        """Return the ids of the commits after `old` up to `new` along first parents, oldest first."""
        listing = self._run("rev-list", "--first-parent", "--reverse", "--end-of-options", new, f"^{old}")
        return listing.decode().split()

    def is_complete(self, commit: str) -> bool:
        """Return whether the repository has every object of the commit's tree."""
        listing = self._run(*_LIST_OBJECTS, commit)
        return not listing.startswith(b"?") and b"\n?" not in listing

    def read_snapshot(self, revision: str, path: str, *, known_files: Iterable[File] = ()) -> SourceSnapshot:
        """Return the manifests of a commit below `path`.

        Args:
            revision: full id of the commit.
            path: directory relative to the top of the repository. An empty path means the whole repository.
            known_files: files that the reader does not read again.

        Raises: RevisionNotFound, DamagedCache, or RefusedContent if the commit exceeds a limit.
        """
        last = self._last_read
        incremental = self._read_changes(revision, path)
        content = incremental or self._read_fully(revision, path, known_files)
        commit = content.commit
        self._last_read = _LastRead(revision, path, content.listing, content.files)
        return SourceSnapshot(
            revision,
            commit.subject,
            MappingProxyType(content.files),
            tuple(sorted((*content.listing.problems, *content.problems))),
            path_exists=content.listing.path_exists or not path,
            subject=commit.subject,
            author=commit.author,
            message=commit.message,
            time=commit.time,
            plan=commit.plan,
            since=last.revision if last and incremental else "",
            changed=content.changed,
        )

    def _read_fully(self, revision: str, path: str, known_files: Iterable[File]) -> _Content:
        """Read the whole tree below `path`, except the blobs of the last snapshot and of `known_files`."""
        files_by_blob = {
            file.blob: file for file in (*(self._last_read.files.values() if self._last_read else ()), *known_files)
        }
        entries = self._list_entries(revision, path)
        sizes = {blob: len(file.data) for blob, file in files_by_blob.items()}
        sizes |= self._read_sizes({entry.blob for entry in entries if tree.is_candidate(entry)} - sizes.keys())
        listing = self._judge_entries(entries, sizes)
        missing = list(dict.fromkeys(blob for blob, _ in listing.blobs.values() if blob not in files_by_blob))
        commit, new_files = self._read_commit_and_files(revision, missing)
        files_by_blob |= {file.blob: file for file in new_files}
        files, problems = _accept((name, files_by_blob[blob]) for name, (blob, _) in listing.blobs.items())
        return _Content(commit, listing, files, problems, frozenset())

    def _read_changes(self, revision: str, path: str) -> _Content | None:
        """Read only the differences from the last snapshot. Return None if the commit needs a full read.

        A commit needs a full read if anything but the content of a few known files differs. If the reader rejects a
        file of the last commit or of the new commit, the new commit also needs a full read.
        """
        last = self._last_read
        if not (last and last.files and last.path == path and len(last.files) == len(last.listing.blobs)):
            return None
        if last.listing.problems:
            return None
        try:
            arguments = ["diff-tree", "-r", "-z", "--no-renames", "--no-abbrev", last.revision, revision, "--"]
            differences = self._git.run(*arguments, *([path] if path else []), limit=_MAX_DIFF_BYTES)
            changed = tree.parse_content_changes(differences, path=path, known_paths=last.files)
            if changed is None:
                return None
            commit, new_files = self._read_commit_and_files(
                revision, [*changed.values()], limit=self._limits.max_total_bytes
            )
        except (GitError, DamagedCache, RevisionNotFound):
            return None  # the full read then raises the error
        listing = last.listing.with_blobs(
            {name: (file.blob, len(file.data)) for name, file in zip(changed, new_files, strict=True)}
        )
        files, problems = _accept(zip(changed, new_files, strict=True))
        has_refusals = problems or any(size_problem(len(file.data), self._limits) for file in new_files)
        if has_refusals or tree.describe_excess(listing, self._limits):
            return None
        return _Content(commit, listing, {**last.files, **files}, [], frozenset(files))

    def _read_commit_and_files(
        self, revision: str, blobs: list[str], *, limit: int = 1 << 30
    ) -> tuple[_Commit, list[File]]:
        """Return the metadata of the commit `revision`, and the files whose blob ids are in `blobs`.

        Raises: RevisionNotFound, DamagedCache.
        """
        contents = self._read_objects([revision, *blobs], limit=limit)
        _, kind, data = next(contents)
        if kind != b"commit":
            raise self._not_found_error(revision)
        return _parse_commit(data), [File(blob, data) for blob, _, data in contents]

    def list_blobs(self, revision: str, path: str) -> dict[str, str]:
        """Return the blob ids, by path, of the manifests of any size below `path`. Open no blob."""
        return {
            name: blob for name, (blob, _) in self._judge_entries(self._list_entries(revision, path), {}).blobs.items()
        }

    def _list_entries(self, revision: str, path: str) -> list[tree.TreeEntry]:
        """List the tree without sizes. To list sizes, Git would open every blob, even a known blob.

        Raises: RevisionNotFound, DamagedCache, or RefusedContent if the listing is too long.
        """
        if not _FULL_ID.fullmatch(revision):
            raise self._not_found_error(revision)
        arguments = ["ls-tree", "-r", "-z", "--full-tree", revision, "--", *([path] if path else [])]
        try:
            listing = self._git.run(*arguments, limit=self._limits.max_listing_bytes)
        except OutputTooLargeError:
            raise self._too_much_error(f"has a file list of more than {self._limits.max_listing_bytes} bytes") from None
        except GitError as failure:
            raise (
                self._damaged_error(failure) if self.has_commit(revision) else self._not_found_error(revision)
            ) from None
        return list(tree.parse(listing, path=path))

    def _read_sizes(self, blobs: Collection[str]) -> dict[str, int]:
        """Return sizes in bytes by blob id. Omit a missing blob, because `_read_objects` later reports the damage."""
        if not blobs:
            return {}
        query = "\n".join([*blobs, ""]).encode()
        answers = self._run("cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer", stdin=query)
        rows = (answer.rpartition(" ") for answer in answers.decode().splitlines())
        return {blob: int(size) for blob, _, size in rows if size.isdigit()}

    def _judge_entries(self, entries: Iterable[tree.TreeEntry], sizes: Mapping[str, int]) -> tree.Listing:
        """Return the manifests among the entries. Raises: RefusedContent above a limit of the whole commit."""
        listing = tree.judge(entries, self._limits, sizes)
        if message := tree.describe_excess(listing, self._limits):
            raise self._too_much_error(message)
        return listing

    def _read_objects(self, ids: list[str], *, limit: int) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield id, type and bytes of each object, in order.

        Raises: DamagedCache if the bytes do not match the id.
        """
        output = self._run("cat-file", "--batch", "--buffer", stdin="\n".join([*ids, ""]).encode(), limit=limit)
        position = 0
        for object_id in ids:
            end = output.find(b"\n", position)
            header = output[position:end].split(b" ") if end >= 0 else []
            if len(header) != 3 or header[0].decode() != object_id:
                raise DamagedCache(self._name, f"the object {object_id[:12]} cannot be read", advice=_FSCK_ADVICE)
            kind = header[1]
            position = end + 1 + int(header[2])
            data = output[end + 1 : position]
            if hash_object(kind, data, sha256=len(object_id) == 64) != object_id:
                raise DamagedCache(
                    self._name, f"the content of the object {object_id[:12]} does not match its id", advice=_FSCK_ADVICE
                )
            position += 1
            yield object_id, kind, data

    def _run(self, *arguments: str, stdin: bytes = b"", limit: int = 1 << 30) -> bytes:
        try:
            return self._git.run(*arguments, stdin=stdin, limit=limit)
        except GitError as failure:
            raise self._damaged_error(failure) from None

    def _damaged_error(self, failure: GitError) -> DamagedCache:
        if isinstance(failure, GitTimeoutError):
            return DamagedCache(self._name, "Git did not read the repository in time", advice="check the disk")
        return DamagedCache(self._name, "Git cannot read the repository", advice=_FSCK_ADVICE)

    def _too_much_error(self, message: str) -> RefusedContent:
        return RefusedContent(
            self._name, message, advice="name a smaller `path`, or move files that are not manifests elsewhere"
        )

    def _not_found_error(self, revision: str) -> RevisionNotFound:
        return RevisionNotFound(self._name, f"has no commit {revision[:40]!r}", advice="check the id of the commit")


def hash_object(kind: bytes, data: bytes, *, sha256: bool) -> str:
    """Return the id that Git gives to an object of type `kind` with the content `data`."""
    content = b"%b %d\0%b" % (kind, len(data), data)
    return (hashlib.sha256(content) if sha256 else hashlib.sha1(content, usedforsecurity=False)).hexdigest()


def _accept(candidates: Iterable[tuple[str, File]]) -> tuple[dict[str, File], list[SourceProblem]]:
    """Return the files with accepted content by path, and a problem for each file with rejected content."""
    files: dict[str, File] = {}
    problems: list[SourceProblem] = []
    for name, file in candidates:
        if message := content_problem(file.data):
            problems.append(SourceProblem(name, message))
        else:
            files[name] = file
    return files, problems


def _parse_commit(data: bytes) -> _Commit:
    """Return the metadata of a commit object.

    If the object lacks a field, the text is empty. If the object lacks the time, the time is 1970-01-01 00:00 UTC.
    """
    header, _, message = data.partition(b"\n\n")
    encoding = _ENCODING.search(header)
    codec = encoding[1].decode() if encoding else "utf-8"
    author, committer = _AUTHOR.search(header), _COMMITTER.search(header)
    return _Commit(
        subject=_printable_line(message.strip().partition(b"\n")[0], codec),
        author=_printable_line(author[1] if author else b"", codec),
        message=_printable_text(message, codec),
        time=datetime.fromtimestamp(min(int(committer[1]), _MAX_TIMESTAMP) if committer else 0, UTC),
        plan=_plan_trailer(message),
    )


def _plan_trailer(message: bytes) -> str:
    """Return the hash in the last `Levelgate-Plan` trailer, or an empty string. The last paragraph has the trailers.

    Source: git-interpret-trailers(1).
    """
    trailers = _PLAN_TRAILER.findall(message.strip().replace(b"\r\n", b"\n").rpartition(b"\n\n")[2])
    return trailers[-1].decode().lower() if trailers else ""


def _printable_line(data: bytes, codec: str) -> str:
    return _printable(_decode(data, codec))[:1000]


def _printable_text(data: bytes, codec: str) -> str:
    """Return a message as printable lines. Cut a long message in the middle, to keep the subject and the trailers."""
    text = "\n".join(map(_printable, _decode(data, codec).strip().splitlines()))
    if len(text) <= _MAX_MESSAGE_CHARACTERS:
        return text
    half = _MAX_MESSAGE_CHARACTERS // 2
    return f"{text[:half]}\n...\n{text[-half:]}"


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()


def _decode(data: bytes, codec: str) -> str:
    """Return `data` as text in the encoding `codec`, or in UTF-8 for an unknown `codec`. Replace invalid bytes."""
    try:
        return data.decode(codec, "replace")
    except (LookupError, UnicodeError):
        return data.decode("utf-8", "replace")

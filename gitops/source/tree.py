"""Choice of the Git tree entries to read, by name, mode and size, before Git opens any blob.

Any person with the right to push can write a tree, so every name counts as hostile. All functions are pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from gitops.source.snapshot import MANIFEST_SUFFIXES, ReadLimits, SourceProblem, is_hidden, size_problem
from renderer.frozen import dataclass

_REGULAR = frozenset({b"100644", b"100755", b"100664"})
_SYMLINK = b"120000"
_SUBMODULE = b"160000"
_PLAIN = re.compile(rb"[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
_LINE = re.compile(rb"([0-7]+) [a-z]+ ([0-9a-f]+)\t([^\0]*)\0")
_SUFFIXES = tuple(suffix.encode() for suffix in MANIFEST_SUFFIXES)


class TreeEntry(NamedTuple):
    """An entry of a Git tree."""

    mode: bytes
    blob: str
    size: int
    """Size in bytes, or 0 if the listing does not report the size."""
    path: bytes
    """Path relative to the directory to read."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The manifests of a tree, and the rejected entries."""

    blobs: dict[str, tuple[str, int]]
    """Blob id and size in bytes of each manifest, by path, in sorted order."""
    problems: tuple[SourceProblem, ...]
    path_exists: bool
    """False if the tree does not contain the directory to read."""
    total: int
    """Sum of the sizes of all manifests, in bytes."""

    def with_blobs(self, blobs: Mapping[str, tuple[str, int]]) -> Listing:
        """Return the listing with the new `blobs`. The listing must contain every path of `blobs`."""
        growth = sum(size - self.blobs[name][1] for name, (_, size) in blobs.items())
        return replace(self, blobs={**self.blobs, **blobs}, total=self.total + growth)


def parse(listing: bytes, *, path: str) -> Iterator[TreeEntry]:
    """Parse the output of `ls-tree -r -z --full-tree`, which contains no sizes.

    Omit entries outside of `path`. An entry at `path` itself has an empty name.

    Raises: ValueError if `listing` is not the output of this command.
    """
    top = path.encode()
    prefix = top + b"/" if top else b""
    start = len(prefix)
    lines = _LINE.findall(listing)
    if len(lines) != listing.count(b"\0"):
        raise ValueError("not the output of ls-tree")
    for mode, blob, name in lines:
        if name.startswith(prefix) or name == top:
            yield TreeEntry(mode, blob.decode(), 0, name[start:])


def parse_content_changes(differences: bytes, *, path: str, known_paths: Container[str]) -> dict[str, str] | None:
    """Return the new blob ids by path from the output of `diff-tree -r -z`.

    If a submodule differs, return None. If manifests differ in more than the content, or are not in `known_paths`,
    return None too. Files of any further type may differ in any way.
    """
    prefix = f"{path}/" if path else ""
    fields = differences.decode("utf-8", "surrogateescape").split("\0")
    changed: dict[str, str] = {}
    for metadata, full_path in zip(fields[:-1:2], fields[1::2], strict=True):
        old_mode, new_mode, _, blob, _ = metadata.removeprefix(":").split(" ")
        name = full_path.removeprefix(prefix)
        if name in known_paths and old_mode == new_mode and new_mode.encode() in _REGULAR:
            changed[name] = blob
        elif name.endswith(MANIFEST_SUFFIXES) or _SUBMODULE in {old_mode.encode(), new_mode.encode()}:
            return None
    return changed


def is_candidate(entry: TreeEntry) -> bool:
    """Return whether `entry` has the mode and name of a manifest. `judge` may still reject the entry."""
    return entry.mode in _REGULAR and entry.path.endswith(_SUFFIXES)


def judge(entries: Iterable[TreeEntry], limits: ReadLimits, sizes: Mapping[str, int] = MappingProxyType({})) -> Listing:
    """Separate the manifests to read from the rejected manifests, and give the reason for each rejection.

    Args:
        sizes: sizes in bytes by blob id, for entries whose listing reports no size.
    """
    blobs: dict[str, tuple[str, int]] = {}
    problems: list[SourceProblem] = []
    path_exists = False
    for mode, blob, listed_size, path in entries:
        path_exists = path_exists or path != b""
        if mode != _SUBMODULE and path and not path.endswith(_SUFFIXES):
            continue
        name = path.decode("utf-8", "backslashreplace")
        is_plain = _PLAIN.fullmatch(path) is not None  # true for nearly all paths, so most skip the slower checks
        if not is_plain and is_hidden(name):
            continue
        size = sizes.get(blob, listed_size)
        if message := ("" if is_plain else _path_refusal(path)) or _refusal(mode, size, limits):
            problems.append(SourceProblem(_printable(name) or ".", message))
        else:
            blobs[name] = (blob, size)
    for twin, other_names in find_case_twins(blobs):
        problems.append(SourceProblem(twin, f"differs only in case from {other_names}; rename one of them"))
        del blobs[twin]
    total = sum(size for _, size in blobs.values())
    return Listing(dict(sorted(blobs.items())), tuple(sorted(problems)), path_exists, total)


def describe_excess(listing: Listing, limits: ReadLimits) -> str:
    """Return a message if the listing exceeds a limit of a whole commit, or an empty string otherwise."""
    if len(listing.blobs) > limits.max_files:
        return f"holds {len(listing.blobs)} manifests, but the limit is {limits.max_files}"
    return (
        f"holds {listing.total} bytes of manifests, but the limit is {limits.max_total_bytes}"
        if listing.total > limits.max_total_bytes
        else ""
    )


def find_case_twins(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Return each path that differs only in case from other paths, with the names of the other paths."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for path in paths:
        groups[path.lower() if path.isascii() else unicodedata.normalize("NFC", path).casefold()].append(path)
    return [
        (path, ", ".join(other for other in group if other != path))
        for group in groups.values()
        if len(group) > 1
        for path in group
    ]


def name_problem(path: bytes) -> str:
    """Return why a reader rejects the name of a path, or an empty string for a valid name."""
    try:
        text = path.decode()
    except UnicodeDecodeError:
        return "the name is not UTF-8; rename the file"
    if not text.isprintable() or "\\" in text:
        return "the name holds a control character or a backslash; rename the file"
    if not {"", ".", "..", ".git"}.isdisjoint(text.lower().split("/")):
        return "the path leaves the directory; Levelgate reads no file outside, so rename the file"
    return ""


def _path_refusal(path: bytes) -> str:
    return name_problem(path) if path else "the path of this source is not a directory; set `path` to a directory"


def _refusal(mode: bytes, size: int, limits: ReadLimits) -> str:
    """Return why a reader rejects the mode or size of an entry, or an empty string for a valid entry."""
    if mode in _REGULAR:
        return size_problem(size, limits)
    if mode == _SYMLINK:
        return "is a symbolic link; Levelgate follows no links, so store the file itself"
    if mode == _SUBMODULE:
        return "is a submodule; Levelgate reads no submodules, so configure the submodule as a source"
    return f"is not a regular file ({mode.decode()}); store a regular file"


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)

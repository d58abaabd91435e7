"""Reading of Git: mirrors of repositories, and their commits as values.

A target (`SourceTarget`) is mirrored in the cache (`Mirror`), and a commit of it becomes a value (`SourceSnapshot`). A
directory on disk is read by `read_working_tree`. Levelgate never checks out a repository and never runs a program from
it.
"""

from gitops.source.credentials import Credentials
from gitops.source.git import make_stop_tick, stop_tick_on_exit
from gitops.source.mirror import Mirror, Tip, default_cache
from gitops.source.revert import RevertError, RevertRequest
from gitops.source.signatures import Verification
from gitops.source.snapshot import File, ReadLimits, SourceProblem, SourceSnapshot
from gitops.source.target import (
    BranchRef,
    CommitRef,
    DefaultBranchRef,
    FullRef,
    Ref,
    SourceTarget,
    TagRef,
    VersionRef,
    is_url,
    parse_full_ref,
    parse_ref,
    redact,
)
from gitops.source.version_range import VersionRange
from gitops.source.worktree import LocalRepository, read_working_tree

__all__ = [
    "BranchRef",
    "CommitRef",
    "Credentials",
    "DefaultBranchRef",
    "File",
    "FullRef",
    "LocalRepository",
    "Mirror",
    "ReadLimits",
    "Ref",
    "RevertError",
    "RevertRequest",
    "SourceProblem",
    "SourceSnapshot",
    "SourceTarget",
    "TagRef",
    "Tip",
    "Verification",
    "VersionRange",
    "VersionRef",
    "default_cache",
    "is_url",
    "make_stop_tick",
    "parse_full_ref",
    "parse_ref",
    "read_working_tree",
    "redact",
    "stop_tick_on_exit",
]

"""Reading of Git: mirrors of repositories, and their commits as values.

`SourceTarget` is the address of a source. `Mirror` keeps a copy of the repository in the cache. `SourceSnapshot` is the
value with the files of one commit. `read_working_tree` reads a directory on disk. Levelgate never checks out a
repository, and never runs a program from a repository.
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

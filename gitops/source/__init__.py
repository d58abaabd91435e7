"""Reading Git: what to read (`Target`), a copy of it (`Mirror`), a directory as it lies (`working_tree`), and what
was read (`Snapshot`).

Nothing is ever checked out, and nothing that a repository holds is ever run.
"""

from gitops.source.credentials import Credentials
from gitops.source.mirror import Mirror, Tip, default_cache
from gitops.source.revert import Irreversible, Reversal
from gitops.source.signatures import Verification
from gitops.source.snapshot import File, Limits, Snapshot, SourceProblem
from gitops.source.stopping import unless, while_inside
from gitops.source.target import Branch, Commit, Head, Ref, Tag, Target, Versions, is_url, parse_ref, redact
from gitops.source.version_range import Range
from gitops.source.worktree import LocalRepository, working_tree

__all__ = [
    "Branch",
    "Commit",
    "Credentials",
    "File",
    "Head",
    "Irreversible",
    "Limits",
    "LocalRepository",
    "Mirror",
    "Range",
    "Ref",
    "Reversal",
    "Snapshot",
    "SourceProblem",
    "Tag",
    "Target",
    "Tip",
    "Verification",
    "Versions",
    "default_cache",
    "is_url",
    "parse_ref",
    "redact",
    "unless",
    "while_inside",
    "working_tree",
]

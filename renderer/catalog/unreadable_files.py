"""Protection of objects whose file can no longer be read.

This module is separate from the reader of files, so that commands without files import no YAML parser.
"""

from __future__ import annotations

from collections.abc import Collection

from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class UnreadableFiles:
    """The paths of all files and of the unreadable files of a commit.

    An unreadable file may still declare the objects that the file declared in an earlier commit.
    """

    files: Collection[str]
    unreadable: Collection[str]

    def protects(self, file: str) -> bool:
        """Return whether an object that `file` declared in an earlier commit must not count as removed from Git.

        If Levelgate cannot read `file`, return True. If `file` is absent and another file is unreadable, return
        True, because the object may have moved to the unreadable file.
        """
        return bool(self.unreadable) and (file in self.unreadable or file not in self.files)

"""Protection of objects that stood in files that cannot be read.

This module is separate from the reader of files, so that commands without files import no YAML parser.
"""

from __future__ import annotations

from collections.abc import Collection

from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class UnreadableFiles:
    """All files of a commit, and the files that could not be read. An unreadable file may still declare its objects."""

    files: Collection[str]
    unreadable: Collection[str]

    def protects(self, file: str) -> bool:
        """Return whether an object that stood in `file` must not count as removed from Git.

        This holds if the file cannot be read. It also holds if the file is absent while another file cannot be read,
        because the object may have moved there.
        """
        return bool(self.unreadable) and (file in self.unreadable or file not in self.files)

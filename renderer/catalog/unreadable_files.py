"""Protection of what stood in files that cannot be read. Apart from the reader, so that commands without files import no YAML."""

from __future__ import annotations

from collections.abc import Collection

from renderer.frozen import dataclass


@dataclass(frozen=True, slots=True)
class UnreadableFiles:
    """Files of a commit, and those of them that could not be read: what they held may still be there."""

    files: Collection[str]
    unreadable: Collection[str]

    def protects(self, file: str) -> bool:
        """What stood in a file that cannot be read, or is absent while some file cannot be read (it may have moved), was not removed from Git."""
        return bool(self.unreadable) and (file in self.unreadable or file not in self.files)

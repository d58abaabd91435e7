"""Files that hold a secret: the first line is the secret, whatever stands below it. They are read anew each time, so that one can be renewed."""

from __future__ import annotations

from pathlib import Path


def read_secret(file: Path) -> str:
    """Raises OSError, and UnicodeDecodeError for what is no text."""
    return file.read_text().split("\n", 1)[0].strip()

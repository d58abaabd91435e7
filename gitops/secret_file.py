"""Files with a secret: their first line is the secret, further lines are ignored.

A file is read at each use, so that a rotated secret counts at once. An empty secret is refused: a signature made
with it proves nothing.
"""

from __future__ import annotations

import errno
from pathlib import Path


class EmptySecret(OSError):
    """A file whose first line is empty."""


def read_secret(file: Path) -> str:
    """Return the secret in a file.

    Raises: OSError, EmptySecret among them, and UnicodeDecodeError for a binary file.
    """
    if secret := file.read_text().split("\n", 1)[0].strip():
        return secret
    raise EmptySecret(errno.ENODATA, "its first line is empty; write the secret there", str(file))

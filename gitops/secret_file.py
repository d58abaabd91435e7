"""Files that hold a secret: the first line is the secret, whatever stands below it.

They are read anew each time, so that a secret can be renewed. An empty one is refused: a signature that is made with it proves nothing.
"""

from __future__ import annotations

import errno
from pathlib import Path


class EmptySecret(OSError):
    """A file whose first line is empty."""


def read_secret(file: Path) -> str:
    """Return the secret in a file. Raises OSError, `EmptySecret` among them, and UnicodeDecodeError for what is no text."""
    if secret := file.read_text().split("\n", 1)[0].strip():
        return secret
    raise EmptySecret(errno.ENODATA, "its first line is empty; write the secret there", str(file))

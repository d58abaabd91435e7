"""Files with a secret: their first line is the secret, further lines are ignored.

A file is read at each use, so that a rotated secret counts at once. An empty secret is rejected, because a signature
with an empty secret proves nothing.
"""

from __future__ import annotations

import errno
from pathlib import Path


class EmptySecret(OSError):
    """Error of a file with a secret whose first line is empty."""


def read_secret(file: Path) -> str:
    """Return the secret in `file`.

    Raises: EmptySecret if the first line is empty, OSError, UnicodeDecodeError if the file is binary.
    """
    if secret := file.read_text().split("\n", 1)[0].strip():
        return secret
    raise EmptySecret(errno.ENODATA, "its first line is empty; write the secret there", str(file))

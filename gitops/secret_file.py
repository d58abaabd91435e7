"""Files with a secret in the first line. Levelgate ignores further lines.

Levelgate reads a file at each use, so that a rotated secret takes effect at once. Levelgate rejects an empty secret,
because a signature with an empty secret proves nothing.
"""

from __future__ import annotations

import errno
from pathlib import Path


class EmptySecret(OSError):
    """Error of a secret file whose first line is empty."""


def read_secret(file: Path) -> str:
    """Return the secret in `file`.

    Raises: EmptySecret if the first line is empty, UnicodeDecodeError if the file is binary, OSError.
    """
    if secret := file.read_text().split("\n", 1)[0].strip():
        return secret
    raise EmptySecret(errno.ENODATA, "the first line is empty; write the secret into the first line", str(file))

"""Text that JSON's escapes can write and UTF-8 cannot hold."""

from __future__ import annotations

import re
from typing import Any, Final

_HALF: Final = re.compile("[\ud800-\udfff]")


def mend_surrogates(value: Any) -> Any:
    """A JSON value; halves of surrogate pairs in it are what Go's encoding/json makes of them: their character where they are a pair, else U+FFFD."""
    match value:
        case str() if _HALF.search(value):
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {mend_surrogates(name): mend_surrogates(item) for name, item in value.items()}
        case list():
            return [mend_surrogates(item) for item in value]
    return value

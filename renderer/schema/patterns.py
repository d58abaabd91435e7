"""Regular expressions as the API server reads them: RE2, linear in the length of the text."""

from __future__ import annotations

import functools
from typing import Any

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


class PatternError(ValueError):
    """Not a regular expression of RE2."""


@functools.lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern. Raises `PatternError`."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0]
        raise PatternError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern occurs anywhere in the text (OpenAPI does not anchor)."""
    return compile_pattern(pattern).search(text) is not None

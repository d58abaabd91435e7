"""Objects that refer to one another in a circle: Python gives them back when it searches for them, which the command lets it do rarely."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

OURS = ("applier.", "gitops.", "renderer.")


@contextmanager
def circles() -> Iterator[Counter[str]]:
    """Counts what is only given back by a search for circles, of our types and functions, and frames of our coroutines."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        for one in gc.garbage:
            kind = type(one)
            module = getattr(one, "__module__", None) or kind.__module__
            if isinstance(module, str) and module.startswith(OURS):
                found[f"{module}.{getattr(one, '__qualname__', kind.__qualname__)}"] += 1
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()

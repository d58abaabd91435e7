"""Settings of Hypothesis for properties; `LEVELGATE_FUZZ` multiplies the examples."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from hypothesis import HealthCheck, Phase, settings

P = ParamSpec("P")
FUZZ = int(os.environ.get("LEVELGATE_FUZZ", "0"))


def examples(usual: int) -> settings:
    """Return settings for this many examples, times LEVELGATE_FUZZ."""
    return settings(
        derandomize=not FUZZ,
        deadline=None,
        max_examples=usual * (FUZZ or 1),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        database=None,
        phases=(Phase.explicit, Phase.generate) if FUZZ else (Phase.explicit, Phase.generate, Phase.shrink),
        print_blob=False,
    )


def once(test: Callable[P, None]) -> Callable[P, None]:
    """Skip values that have passed before, for a costly test below `given`.

    Hypothesis tells examples apart by the choices that led to them. Different choices may lead to the same values.
    """
    passed = set[str]()

    @wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        values = repr((arguments, named))
        if values not in passed:
            test(*arguments, **named)
            passed.add(values)

    return run

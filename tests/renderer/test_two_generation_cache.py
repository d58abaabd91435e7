"""A cache that forgets what two runs in a row have not asked for."""

from __future__ import annotations

from renderer.two_generation_cache import TwoGenerationCache


def test_a_value_lasts_as_long_as_every_run_uses_it() -> None:
    cache = TwoGenerationCache[str, int]()
    cache.current |= {"used": 1, "unused": 2}
    cache.evict_unused()
    assert (cache.get("used"), cache.get("unused")) == (1, 2)
    cache.current["used"] = 1
    cache.evict_unused()
    assert (cache.get("used"), cache.get("unused")) == (1, None)


def test_the_value_of_the_current_run_counts() -> None:
    cache = TwoGenerationCache[str, int]()
    cache.current["a"] = 1
    cache.evict_unused()
    cache.current["a"] = 0
    assert cache.get("a") == 0

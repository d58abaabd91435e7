"""A cache that drops values unused in two successive runs."""

from __future__ import annotations

from dataclasses import field
from typing import Generic, TypeVar

from renderer.frozen import dataclass

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class TwoGenerationCache(Generic[K, V]):
    """Values of the current run and of the previous run.

    The caller must store each used value in `current`, including a value that `get` returned.
    """

    current: dict[K, V] = field(default_factory=dict)
    previous: dict[K, V] = field(default_factory=dict)

    def get(self, key: K) -> V | None:
        found = self.current.get(key)
        return self.previous.get(key) if found is None else found

    def evict_unused(self) -> None:
        """Begin a new run, and drop all values that the last run did not use."""
        self.current, self.previous = {}, self.current

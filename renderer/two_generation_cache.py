"""A cache that forgets what two runs in a row have not asked for."""

from __future__ import annotations

from dataclasses import field
from typing import Generic, TypeVar

from renderer.frozen import dataclass

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class TwoGenerationCache(Generic[K, V]):
    """Values of the current run and of the previous one.

    The caller puts each value that it uses into `current`, whether it was found or computed.
    """

    current: dict[K, V] = field(default_factory=dict)
    previous: dict[K, V] = field(default_factory=dict)

    def get(self, key: K) -> V | None:
        found = self.current.get(key)
        return self.previous.get(key) if found is None else found

    def evict_unused(self) -> None:
        """Begin a run: what the last one did not use is gone."""
        self.current, self.previous = {}, self.current

"""The cost of a graph, counted by declaration: for metrics, tests and benches."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import field
from typing import Final

from gitops.queries.nodes import Node
from renderer.frozen import dataclass

SLOW_SECONDS: Final = 0.05
"""Seconds from which an evaluation is listed: the event loop may not be held for longer."""


@dataclass
class Cost:
    """Counts since the graph was made, by the name of the declaration.

    `slow` lists the last evaluations of at least `SLOW_SECONDS`, each with its seconds.
    """

    marks: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    evaluations: Counter[str] = field(default_factory=Counter)
    reports: Counter[str] = field(default_factory=Counter)
    slow: deque[tuple[str, float]] = field(default_factory=lambda: deque(maxlen=100))

    def note_evaluation(self, node: Node, seconds: float) -> None:
        self.evaluations[node.family.name] += 1
        if seconds >= SLOW_SECONDS:
            self.slow.append((repr(node), seconds))

"""Cost of a graph, counted by declaration, for metrics, tests and benches."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import field
from typing import Final

from gitops.queries.nodes import Node
from renderer.frozen import dataclass

SLOW_SECONDS: Final = 0.05
"""Shortest evaluation in seconds that `Cost.slow` lists. A longer evaluation would delay the event loop."""


@dataclass
class Cost:
    """Numbers of marks, checks, evaluations and reports since the graph was made, by name of the declaration."""

    marks: Counter[str] = field(default_factory=Counter)
    """Marks of previously clean nodes."""
    checks: Counter[str] = field(default_factory=Counter)
    """Checks of nodes that the check of a reader has started."""
    evaluations: Counter[str] = field(default_factory=Counter)
    """Calls of query functions, by name of the query."""
    reports: Counter[str] = field(default_factory=Counter)
    """Roots that `QueryGraph.changed` has yielded."""
    slow: deque[tuple[str, float]] = field(default_factory=lambda: deque(maxlen=100))
    """Last 100 evaluations of at least `SLOW_SECONDS`: the node, and the time in seconds."""

    evaluation_count: int = 0
    """Number of all evaluations."""

    def note_evaluation(self, node: Node, seconds: float) -> None:
        self.evaluation_count += 1
        self.evaluations[node.family.name] += 1
        if seconds >= SLOW_SECONDS:
            self.slow.append((repr(node), seconds))

"""Picture of an instance: nodes in columns by level, dependencies as lines, and the state of each node.

Lengths are in units of the picture. Items of a collection share a box. `Graph.hidden` counts the boxes that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from applier.plan.model import NodePlan
from applier.state.observed import is_terminating
from gitops.records.display_state import DisplayState
from gitops.text import truncate
from renderer.frozen import dataclass
from renderer.render.model import id_in_definition

WIDTH, HEIGHT, GAP_X, GAP_Y, TOP, EDGE = 176, 68, 60, 16, 34, 8
MAX_BOXES: Final = 120
"""Maximum number of boxes in a picture."""

_MAX_LABEL_LENGTH, _MAX_KIND_LENGTH = 17, 21
"""Maximum number of characters of a label and of a kind, which are the lines of a box."""


@dataclass(frozen=True, slots=True)
class Box:
    """Box of a picture, for a node or for all items of a collection."""

    id: str
    kind: str
    state: DisplayState
    """Worst state of the items."""
    level: int
    x: int
    """Left edge of the box."""
    y: int
    """Upper edge of the box."""
    count: int
    """Number of items, or 1 for a single node."""
    external: bool

    @property
    def label(self) -> str:
        return truncate(f"{self.id} ×{self.count}" if self.count > 1 else self.id, _MAX_LABEL_LENGTH)

    @property
    def of(self) -> str:
        """Return the kind in at most 21 characters, the width of the box."""
        return truncate(self.kind, _MAX_KIND_LENGTH)


@dataclass(frozen=True, slots=True)
class Graph:
    """Boxes, columns and lines of the picture of an instance."""

    boxes: tuple[Box, ...]
    edges: tuple[str, ...]
    """Dependencies, as SVG paths."""
    columns: Mapping[int, int]
    """Left edge of the column of each level."""
    width: int
    height: int
    hidden: int
    """Number of boxes that do not fit."""


def state_of(node: NodePlan) -> DisplayState:
    """Return the state of a node on the status page."""
    if node.live and is_terminating(node.live):
        return DisplayState.TERMINATING
    if node.node.error:
        return DisplayState.FAILED
    if node.blocked:
        return DisplayState.from_reasons([node.blocked.reason])
    if node.node.waiting:
        return DisplayState.WAITING
    if node.node.external:
        return DisplayState.SETTLED if node.live is not None and node.ready else DisplayState.WAITING
    return DisplayState.SETTLED if node.is_applied and node.healthy else DisplayState.PROGRESSING


def draw_graph(nodes: Sequence[NodePlan]) -> Graph:
    """Return the picture of an instance with the nodes `nodes`."""
    items: dict[str, list[NodePlan]] = {}
    for node in nodes:
        items.setdefault(id_in_definition(node.node.id), []).append(node)
    shown_items = dict(list(items.items())[:MAX_BOXES])
    dependencies = {
        name: {id_in_definition(dep) for item in group for dep in item.node.depends_on} & shown_items.keys()
        for name, group in shown_items.items()
    }
    boxes = {box.id: box for box in _place_boxes(shown_items, dependencies)}
    levels = sorted({box.level for box in boxes.values()})
    return Graph(
        tuple(boxes.values()),
        tuple(_edge_path(boxes[dep], boxes[name]) for name, deps in dependencies.items() for dep in sorted(deps)),
        {level: _column_x(index) for index, level in enumerate(levels)},
        _column_x(len(levels)) - GAP_X + EDGE if levels else 0,
        max((box.y for box in boxes.values()), default=TOP) + HEIGHT + EDGE,
        len(items) - len(shown_items),
    )


def _place_boxes(items: Mapping[str, list[NodePlan]], dependencies: Mapping[str, Iterable[str]]) -> Iterator[Box]:
    """Yield the boxes column by column.

    Within a column, the rows of the dependencies determine the order of the boxes, so that few lines cross.
    """
    rows: dict[str, float] = {}
    for column, level in enumerate(sorted({group[0].node.level for group in items.values()})):
        names = [name for name, group in items.items() if group[0].node.level == level]
        names.sort(key=lambda name: (_mean(rows[dep] for dep in dependencies[name] if dep in rows), name))
        for row, name in enumerate(names):
            rows[name] = row
            group = items[name]
            yield Box(
                name,
                group[0].node.group_kind.kind,
                DisplayState.worst([state_of(item) for item in group]),
                level,
                _column_x(column),
                TOP + row * (HEIGHT + GAP_Y),
                len(group),
                group[0].node.external,
            )


def _mean(rows: Iterable[float]) -> float:
    """Return the mean of `rows`, or 0 if `rows` is empty."""
    row_numbers = list(rows)
    return sum(row_numbers) / len(row_numbers) if row_numbers else 0.0


def _column_x(column: int) -> int:
    return EDGE + column * (WIDTH + GAP_X)


def _edge_path(start: Box, end: Box) -> str:
    x1, y1, x2, y2 = start.x + WIDTH, start.y + HEIGHT // 2, end.x, end.y + HEIGHT // 2
    bend = max(24, (x2 - x1) // 2)
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"

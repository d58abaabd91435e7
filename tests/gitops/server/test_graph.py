"""The picture of an instance: nodes in columns by level, the worst of a collection, and nothing on top of anything else."""

from __future__ import annotations

from itertools import pairwise

from applier.causes import Cause, Reason
from applier.cluster import Object
from applier.plan.model import NodeAction, NodePlan
from gitops.records.display_state import DisplayState
from gitops.server.graph import GAP_X, HEIGHT, MAX_BOXES, WIDTH, draw_graph, state_of
from renderer.identity import GroupKind
from renderer.render.model import RenderedNode

LIVE: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def node(
    name: str,
    level: int = 0,
    *deps: str,
    action: NodeAction = NodeAction.NONE,
    blocked: Cause | None = None,
    error: str = "",
    live: Object = LIVE,
) -> NodePlan:
    rendered = RenderedNode(name, level, deps, GroupKind("", "ConfigMap"), LIVE, None, error=error)
    return NodePlan(rendered, action, live, ready=True, healthy=True, blocked=blocked)


def test_how_a_node_is_has_the_words_of_an_instance() -> None:
    assert state_of(node("a")) is DisplayState.SETTLED
    assert state_of(node("a", action=NodeAction.UPDATE)) is DisplayState.PROGRESSING
    assert state_of(node("a", error="no such field")) is DisplayState.FAILED
    assert state_of(node("a", blocked=Cause(Reason.WINDOW_CLOSED, ""))) is DisplayState.HELD
    assert state_of(node("a", blocked=Cause(Reason.DEPENDENCY_NOT_READY, ""))) is DisplayState.WAITING
    terminating = {**LIVE, "metadata": {"name": "a", "deletionTimestamp": "2026-11-20T12:00:00Z"}}
    assert state_of(node("a", error="no such field", live=terminating)) is DisplayState.TERMINATING


def test_levels_are_columns_and_boxes_do_not_touch() -> None:
    drawn = draw_graph([node("a"), node("b"), node("c", 1, "a"), node("d", 1, "b"), node("e", 3, "c", "d")])
    assert list(drawn.columns) == [0, 1, 3]
    assert [second - first for first, second in pairwise(drawn.columns.values())] == [WIDTH + GAP_X] * 2
    places = [(box.x, box.y) for box in drawn.boxes]
    assert len(set(places)) == 5
    for column in drawn.columns.values():
        rows = sorted(y for x, y in places if x == column)
        assert all(second - first > HEIGHT for first, second in pairwise(rows))
    assert max(x for x, _ in places) + WIDTH <= drawn.width
    assert max(y for _, y in places) + HEIGHT <= drawn.height
    assert len(drawn.edges) == 4


def test_nodes_stand_beside_what_they_depend_on() -> None:
    drawn = draw_graph([node("a"), node("b"), node("x", 1, "b"), node("y", 1, "a")])
    at = {box.id: box.y for box in drawn.boxes}
    assert at["y"] < at["x"]


def test_a_collection_is_one_box_with_its_worst_item() -> None:
    drawn = draw_graph(
        [node("a"), *(node(f"workers/{number}", 1, "a") for number in range(3)), node("workers/3", 1, "a", error="x")]
    )
    (_, box) = drawn.boxes
    assert (box.id, box.count, box.state, box.label) == ("workers", 4, DisplayState.FAILED, "workers ×4")


def test_what_does_not_fit_is_counted() -> None:
    drawn = draw_graph([node(f"n{number}") for number in range(MAX_BOXES + 7)])
    assert (len(drawn.boxes), drawn.hidden) == (MAX_BOXES, 7)


def test_nothing_at_all() -> None:
    assert draw_graph([]).boxes == ()

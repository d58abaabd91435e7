"""The status page as read-only HTML, from the state of the monitor.

The templates escape all text that comes from outside. Lists have pages, and pictures have limits. So a page for ten
thousand instances is not much larger than a page for ten instances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from applier.causes import Cause
from applier.plan.model import ApplySetPlan
from gitops.explain.explanation import CauseChain
from gitops.explain.phrasing import describe_blocker, format_links, suggest_actions
from gitops.records.display_state import DisplayState
from gitops.records.instance_state import InstanceState
from gitops.server import window_bars
from gitops.server.dashboard import Dashboard
from gitops.server.graph import draw_graph, state_of
from gitops.server.monitor import Monitor
from gitops.text import TimeFormat, format_age, title, truncate
from gitops.timestamps import timestamp
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

if TYPE_CHECKING:
    from gitops.server.fleet_view import ClusterRow, FleetView

T = TypeVar("T")

MAX_ROWS: Final = 50
"""Maximum number of rows of a list on one page."""

_MAX_NODES: Final = 300
"""Maximum number of nodes in the table of an instance."""
_MAX_TEXT_LENGTH: Final = 300
"""Maximum number of characters of a message in a table."""
_UTC_FORMAT: Final = TimeFormat(utc=True)
GLYPHS: Final = {
    DisplayState.FAILED: "✕",
    DisplayState.HALTED: "■",
    DisplayState.SUSPENDED: "◌",
    DisplayState.WAITING: "…",
    DisplayState.HELD: "‖",
    DisplayState.PROGRESSING: "→",
    DisplayState.SETTLED: "✓",
    DisplayState.TERMINATING: "⌫",
}
"""Sign of each state, so that people can tell states apart without colours."""

_STATE_ORDER: Final = ("Unreachable", "Degraded", "Removed", "Paused", "Engaged")
"""States of clusters in the order of a list. States that need the action of a person come first."""

CLUSTER_STYLES: Final = {
    "Unreachable": ("failed", GLYPHS[DisplayState.FAILED]),
    "Degraded": ("halted", GLYPHS[DisplayState.HALTED]),
    "Removed": ("terminating", GLYPHS[DisplayState.TERMINATING]),
    "Paused": ("held", GLYPHS[DisplayState.HELD]),
    "Engaged": ("settled", GLYPHS[DisplayState.SETTLED]),
}
"""Style and sign of each cluster state, equal to the style and sign of a state of instances."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Filters and page numbers from the URL of a page."""

    text: str
    """Part of the instance's title, in upper or lower case."""
    state: str
    """State of instances, or an empty string for all states."""
    source: str
    instances: int
    """Page number of the list of instances, or of the list of clusters on the page of a fleet."""
    causes: int
    """Page number of the list of causes."""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> PageQuery:
        """Return the query of a URL. Ignore unknown values, because a person may type any text."""
        state = query.get("state", "")
        return cls(
            query.get("q", "")[:100].strip(),
            state if state in set(DisplayState) else "",
            query.get("source", "")[:63],
            _parse_page_number(query.get("page", "")),
            _parse_page_number(query.get("waiting", "")),
        )

    def matches(self, instance_state: InstanceState) -> bool:
        return (
            self.text.lower() in title(instance_state.key).lower()
            and self.state in {"", instance_state.state}
            and self.source in {"", instance_state.source}
        )

    @property
    def url(self) -> str:
        """Return the URL of the page with this query."""
        filters = {"q": self.text, "state": self.state, "source": self.source}
        pages = {"page": self.instances, "waiting": self.causes}
        query = urlencode(
            {name: value for name, value in filters.items() if value}
            | {name: number for name, number in pages.items() if number > 1}
        )
        return f"/?{query}" if query else "/"


def _parse_page_number(text: str) -> int:
    """Return the page number in `text`, or 1 if `text` is not a number."""
    return min(max(int(text), 1), 10**6) if text.isdecimal() and len(text) < 8 else 1


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """Rows of one page of a list, with the size of the whole list."""

    rows: Sequence[T]
    number: int
    pages: int
    """Number of pages of the list."""
    total: int
    """Number of rows on all pages."""

    @classmethod
    def from_rows(cls, rows: Sequence[T], number: int) -> ListPage[T]:
        """Return page `number` of `rows`. If `number` is too high, return the last page."""
        pages = max(1, -(-len(rows) // MAX_ROWS))
        number = min(number, pages)
        return cls(rows[(number - 1) * MAX_ROWS : number * MAX_ROWS], number, pages, len(rows))


async def render_overview(monitor: Monitor, query: PageQuery, cluster: ClusterRow | None = None) -> str:
    """Return the overview of a cluster.

    Args:
        cluster: row of the cluster in a fleet, or None if the cluster is not in a fleet.
    """
    board, now = await monitor.dashboard(), monitor.clock.now()
    context = _overview_context(board, monitor, query, now) if board else {}
    return _render("overview.html", monitor, board, cluster=cluster, styles=CLUSTER_STYLES, **context)


def render_fleet(view: FleetView, query: PageQuery) -> str:
    """Return the table of a fleet's clusters. Clusters that need the action of a person come first."""
    rows = sorted(
        view.rows(), key=lambda row: (_STATE_ORDER.index(row.state), not row.failed, not row.waits_for, row.name)
    )
    return _render(
        "fleet.html",
        view.hub,
        None,
        as_of=view.last_pass_at,
        number=view.changes.number,
        events="/events",
        clusters=ListPage.from_rows(rows, query.instances),
        counts=Counter(row.state for row in rows),
        states=_STATE_ORDER,
        styles=CLUSTER_STYLES,
        page_of=lambda **pages: replace(query, instances=pages["clusters"]).url,
    )


def _overview_context(board: Dashboard, monitor: Monitor, query: PageQuery, now: datetime) -> dict[str, Any]:
    cluster_overview, errors = board.overview, monitor.errors()
    matching_instances = sorted(
        filter(query.matches, cluster_overview.instances),
        key=lambda source_state: (source_state.state.rank, source_state.key),
    )
    instances = ListPage.from_rows(matching_instances, query.instances)
    causes = ListPage.from_rows(list(_problem_rows(board)), query.causes)
    windows, more_windows = window_bars.rows(board.rules, now)
    return {
        "asked": query,
        "states": DisplayState,
        "sources": [
            (
                name,
                record,
                errors.get(name),
                next((rollout for rollout in board.found.sources if rollout.catalog.source == name), None),
            )
            for name, record in cluster_overview.sources.items()
        ],
        "unread": sorted(errors.keys() - cluster_overview.sources.keys()),
        "errors": errors,
        "rollouts": [counted_instance for counted_instance in cluster_overview.rollouts if counted_instance.waves][
            :MAX_ROWS
        ],
        "counts": Counter(listed_instance.state for listed_instance in cluster_overview.instances),
        "missing": sum(record.counts.get("missing", 0) for record in cluster_overview.sources.values()),
        "instances": instances,
        "levels": {problem.key: levels(board.plans.get(problem.key)) for problem in instances.rows},
        "causes": causes,
        "windows": windows,
        "more_windows": more_windows,
        "days": window_bars.days(now),
        "scale": window_bars.SCALE,
        "passes": list(reversed(monitor.passes)),
        "problems": [str(problem) for problem in board.found.problems[:MAX_ROWS]],
        "page_of": lambda **pages: monitor.root + replace(query, **pages).url,
    }


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """Instance, object or source that differs from Git, with its cause."""

    key: ObjectKey | None
    """Key of the instance, or None for an object or a source. Only instances have a page."""
    name: str
    kind: str
    cause: Cause
    by: str
    """Blocker that the cause waits for, such as `window/dba-hours`."""
    state: str = ""
    """State of the instance, or an empty string for an object or a source."""
    more: int = 0
    """Number of further subjects of the same kind and state with the same cause."""


def _problem_rows(board: Dashboard) -> Iterator[ProblemRow]:
    """Yield the rows, the worst first. Subjects with the same kind, state, cause and blocker share a row."""
    waiting = [instance_state for instance_state in board.overview.instances if not instance_state.is_settled]
    rows: list[tuple[str, ProblemRow]] = []
    for instance_state in sorted(waiting, key=lambda instance_state: (instance_state.state.rank, instance_state.key)):
        cause = instance_state.display_causes[0]
        rows.append(
            (
                instance_state.source,
                ProblemRow(
                    instance_state.key,
                    instance_state.key.qualified_name,
                    instance_state.key.kind,
                    cause,
                    describe_blocker(instance_state, cause),
                    instance_state.state,
                ),
            )
        )
    for source, cause in board.overview.causes:
        key = cause.object_key
        name, kind = (key.qualified_name, key.kind) if key else (f"source/{source}", "")
        rows.append((source, ProblemRow(None, name, kind, cause, describe_blocker(None, cause))))
    merged_rows: dict[tuple[object, ...], ProblemRow] = {}
    for source, row in rows:
        failure_message = row.cause.message if row.cause.reason.is_failure else None
        row_key = (source, row.kind, row.state, row.cause.reason, row.by, row.cause.until, failure_message)
        merged_rows[row_key] = (
            replace(merged_rows[row_key], more=merged_rows[row_key].more + 1) if row_key in merged_rows else row
        )
    yield from merged_rows.values()


def levels(plan: ApplySetPlan | None) -> list[tuple[int, list[tuple[DisplayState, int]]]]:
    """Return each level with the number of its nodes in each state, the worst state first."""
    nodes = sorted(plan.nodes, key=lambda node: node.node.level) if plan else []
    return [
        (level, sorted(Counter(map(state_of, group)).items(), key=lambda item: item[0].rank))
        for level, group in groupby(nodes, key=lambda node: node.node.level)
    ]


async def render_instance(monitor: Monitor, *, group: str, kind: str, namespace: str, name: str) -> str | None:
    """Return the page of an instance, or None if the instance does not exist.

    Args:
        namespace: namespace of the instance, or `-` for a cluster-scoped instance.
    """
    key = ObjectKey(group, kind, "" if namespace == "-" else namespace, name)
    board, now = await monitor.dashboard(), monitor.clock.now()
    instance_state = board.instance_states.get(key) if board else None
    if board is None or instance_state is None:
        return None
    plan = board.plans.get(key)
    explanation = None if instance_state.is_settled else await board.explain(key, now)
    return _render("instance.html", monitor, board, **_instance_context(instance_state, plan, explanation, now, board))


def _instance_context(
    instance_state: InstanceState,
    plan: ApplySetPlan | None,
    explanation: CauseChain | None,
    now: datetime,
    board: Dashboard,
) -> dict[str, Any]:
    nodes = plan.nodes if plan else ()
    return {
        "standing": instance_state,
        "graph": draw_graph(nodes),
        "nodes": [
            (node, state_of(node), node.node.key if node.node.key in board.instance_states else None)
            for node in nodes[:_MAX_NODES]
        ],
        "more_nodes": max(0, len(nodes) - _MAX_NODES),
        "excluded": plan.rendered.excluded if plan else (),
        "orphans": plan.prune_candidates if plan else (),
        "why": list(format_links(explanation.chain, _UTC_FORMAT, now)) if explanation else [],
        "others": explanation.other_causes if explanation else (),
        "not_before": explanation.not_before if explanation else None,
        "actions": list(suggest_actions(explanation)) if explanation else [],
    }


def render_missing(monitor: Monitor) -> str:
    """Return the page for a name that does not exist, or no longer exists."""
    return _render("missing.html", monitor, None)


def path_of(key: ObjectKey) -> str:
    """Return the path of an instance's page."""
    return "/instances/" + "/".join(
        quote(part, safe="") for part in (key.group, key.kind, key.namespace or "-", key.name)
    )


def _render(name: str, monitor: Monitor, board: Dashboard | None, **context: Any) -> str:
    now = monitor.clock.now()
    common = {
        "as_of": board.at if board else None,
        "number": monitor.changes.number,
        "events": f"{monitor.root}/events" if monitor.root else "",
        "path_of": lambda key: monitor.root + path_of(key),
    }
    return (
        _environment()
        .get_template(name)
        .render(
            monitor=monitor,
            board=board,
            now=now,
            leads=monitor.leads(),
            age=lambda since: format_age(since, now),
            **{**common, **context},
        )
    )


@cache
def _environment() -> Environment:
    """Return the templates. The templates escape all values, and an unknown name raises an error."""
    environment = Environment(
        loader=PackageLoader("gitops.server"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(glyphs=GLYPHS, stamp=timestamp)
    environment.filters["short"] = lambda text: truncate(text, _MAX_TEXT_LENGTH)
    environment.filters["full"] = _UTC_FORMAT.format_full
    environment.filters["minute"] = lambda moment: f"{_UTC_FORMAT.format_minute(moment)} UTC"
    return environment

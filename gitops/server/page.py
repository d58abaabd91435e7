"""The status page as text: from what the monitor knows to HTML. Read-only; whatever it shows of others' words is escaped.

Lists are cut into pages and pictures are bounded, so that a page weighs much the same with ten instances and with ten thousand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import groupby
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from applier.plan.model import ApplySetPlan
from gitops.explain.explanation import CauseChain
from gitops.explain.phrasing import actions, blocker, links
from gitops.records.cause_rows import CauseRow, timestamp
from gitops.records.instance_state import DisplayState, InstanceState
from gitops.server import window_bars
from gitops.server.dashboard import Dashboard
from gitops.server.graph import Graph, graph, state_of
from gitops.server.monitor import Monitor
from gitops.text import age, place
from gitops.times import TimeFormat
from renderer.frozen import dataclass
from renderer.identity import ObjectKey

T = TypeVar("T")

ROWS: Final = 50
"""Rows of a list on one page."""

_NODES: Final = 300
_LONGEST: Final = 300
_TIMES: Final = TimeFormat(utc=True)
GLYPHS: Final = {
    DisplayState.FAILED: "✕",
    DisplayState.HALTED: "■",
    DisplayState.SUSPENDED: "◌",
    DisplayState.WAITING: "…",
    DisplayState.HELD: "‖",
    DisplayState.PROGRESSING: "→",
    DisplayState.SETTLED: "✓",
}


@dataclass(frozen=True, slots=True)
class PageQuery:
    """What a person wants to see: instances whose name holds `text`, in this state, of this source; which pages of the lists."""

    text: str = ""
    state: str = ""
    source: str = ""
    instances: int = 1
    causes: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> PageQuery:
        """Anything may stand there; what means nothing is not asked."""
        state = query.get("state", "")
        return cls(
            query.get("q", "")[:100].strip(),
            state if state in set(DisplayState) else "",
            query.get("source", "")[:63],
            _number(query.get("page", "")),
            _number(query.get("waiting", "")),
        )

    def fits(self, one: InstanceState) -> bool:
        return (
            self.text.lower() in f"{one.key.kind} {place(one.key)}".lower()
            and self.state in {"", one.state}
            and self.source in {"", one.source}
        )

    @property
    def url(self) -> str:
        """The page that shows this."""
        said = {"q": self.text, "state": self.state, "source": self.source}
        pages = {"page": self.instances, "waiting": self.causes}
        query = urlencode(
            {name: value for name, value in said.items() if value}
            | {name: number for name, number in pages.items() if number > 1}
        )
        return f"/?{query}" if query else "/"


def _number(text: str) -> int:
    return min(max(int(text), 1), 10**6) if text.isdecimal() and len(text) < 8 else 1


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """One page of a list: `number` of `pages`, `total` rows in all."""

    rows: Sequence[T]
    number: int
    pages: int
    total: int

    @classmethod
    def of(cls, rows: Sequence[T], number: int) -> ListPage[T]:
        pages = max(1, -(-len(rows) // ROWS))
        number = min(number, pages)
        return cls(rows[(number - 1) * ROWS : number * ROWS], number, pages, len(rows))


async def overview(monitor: Monitor, asked: PageQuery) -> str:
    """The first page."""
    board, now = await monitor.board(), monitor.clock.now()
    return _render("overview.html", monitor, board, **(_overview(board, monitor, asked, now) if board else {}))


def _overview(board: Dashboard, monitor: Monitor, asked: PageQuery, now: datetime) -> dict[str, Any]:
    seen, errors = board.overview, monitor.errors()
    fitting = sorted(filter(asked.fits, seen.instances), key=lambda one: (list(DisplayState).index(one.state), one.key))
    instances = ListPage.of(fitting, asked.instances)
    causes = ListPage.of(list(_causes(board)), asked.causes)
    windows, more_windows = window_bars.rows(board.rules, now)
    return {
        "asked": asked,
        "states": DisplayState,
        "sources": [
            (
                name,
                record,
                errors.get(name),
                next((one for one in board.found.sources if one.catalog.source == name), None),
            )
            for name, record in seen.sources.items()
        ],
        "unread": sorted(errors.keys() - seen.sources.keys()),
        "errors": errors,
        "rollouts": [one for one in seen.rollouts if one.waves][:ROWS],
        "counts": Counter(one.state for one in seen.instances),
        "missing": sum(record.counts.get("missing", 0) for record in seen.sources.values()),
        "instances": instances,
        "levels": {one.key: levels(board.plans.get(one.key)) for one in instances.rows},
        "causes": causes,
        "windows": windows,
        "more_windows": more_windows,
        "days": window_bars.days(now),
        "scale": window_bars.SCALE,
        "passes": list(reversed(monitor.passes)),
        "problems": [str(one) for one in board.found.problems[:ROWS]],
        "page_of": lambda **pages: replace(asked, **pages).url,
    }


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """What is not as Git says, why, and what it waits for: an instance with a page of its own (`key`), any other object of a source, or a source.
    `more` of its kind, instances of its state too, wait for the same.
    """

    key: ObjectKey | None
    name: str
    kind: str
    cause: CauseRow
    by: str
    state: str = ""
    more: int = 0


def _causes(board: Dashboard) -> Iterator[ProblemRow]:
    """The worst first. Whoever waits for the same is one row; so is whatever failed with the same words."""
    waiting = [one for one in board.overview.instances if not one.is_settled]
    rows: list[tuple[str, ProblemRow]] = []
    for one in sorted(waiting, key=lambda one: (list(DisplayState).index(one.state), one.key)):
        cause = one.reasons[0]
        rows.append(
            (one.source, ProblemRow(one.key, place(one.key), one.key.kind, cause, blocker(one, cause), one.state))
        )
    for source, cause in board.overview.causes:
        key = ObjectKey.parse(cause.object)
        name, kind = (place(key), key.kind) if key else (f"source/{source}", "")
        rows.append((source, ProblemRow(None, name, kind, cause, blocker(None, cause))))
    found: dict[tuple[object, ...], ProblemRow] = {}
    for source, row in rows:
        words = row.cause.message if row.cause.reason.is_failure else None
        same = (source, row.kind, row.state, row.cause.reason, row.by, row.cause.until, words)
        found[same] = replace(found[same], more=found[same].more + 1) if same in found else row
    yield from found.values()


def levels(plan: ApplySetPlan | None) -> list[tuple[int, list[tuple[DisplayState, int]]]]:
    """Each level with how many of its nodes are how, the worst first; for one line."""
    nodes = sorted(plan.nodes, key=lambda node: node.node.level) if plan else []
    return [
        (level, sorted(Counter(map(state_of, group)).items(), key=lambda item: list(DisplayState).index(item[0])))
        for level, group in groupby(nodes, key=lambda node: node.node.level)
    ]


async def instance(monitor: Monitor, *, group: str, kind: str, namespace: str, name: str) -> str | None:
    """The page of one instance; None where there is none of that name. `-` is the namespace of those that have none."""
    key = ObjectKey(group, kind, "" if namespace == "-" else namespace, name)
    board, now = await monitor.board(), monitor.clock.now()
    standing = board.standings.get(key) if board else None
    if board is None or standing is None:
        return None
    plan = board.plans.get(key)
    found = None if standing.is_settled else await board.explain(key, now)
    return _render("instance.html", monitor, board, **_instance(standing, plan, found, now, board))


def _instance(
    standing: InstanceState, plan: ApplySetPlan | None, found: CauseChain | None, now: datetime, board: Dashboard
) -> dict[str, Any]:
    nodes = plan.nodes if plan else ()
    drawn: Graph = graph(nodes)
    return {
        "standing": standing,
        "graph": drawn,
        "nodes": [
            (node, state_of(node), node.node.key if node.node.key in board.standings else None)
            for node in nodes[:_NODES]
        ],
        "more_nodes": max(0, len(nodes) - _NODES),
        "excluded": plan.rendered.excluded if plan else (),
        "orphans": plan.orphans if plan else (),
        "why": list(links(found.chain, _TIMES, now)) if found else [],
        "others": found.others if found else (),
        "not_before": found.not_before if found else None,
        "actions": list(actions(found)) if found else [],
    }


def missing(monitor: Monitor) -> str:
    """Where there is nothing of that name (any more)."""
    return _render("missing.html", monitor, None)


def path_of(key: ObjectKey) -> str:
    """The page of an instance."""
    return "/instances/" + "/".join(
        quote(part, safe="") for part in (key.group, key.kind, key.namespace or "-", key.name)
    )


def _render(name: str, monitor: Monitor, board: Dashboard | None, **context: Any) -> str:
    now = monitor.clock.now()
    return (
        _environment()
        .get_template(name)
        .render(
            monitor=monitor,
            board=board,
            now=now,
            leads=monitor.leads(),
            age=lambda since: age(since, now),
            **context,
        )
    )


@cache
def _environment() -> Environment:
    """The templates. Everything is escaped, and a name that is not there is a fault, not nothing."""
    made = Environment(
        loader=PackageLoader("gitops.server"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(glyphs=GLYPHS, path_of=path_of, place=place, stamp=timestamp)
    made.filters["short"] = lambda text: text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    made.filters["full"] = _TIMES.full
    made.filters["minute"] = lambda moment: f"{_TIMES.minute(moment)} UTC"
    return made

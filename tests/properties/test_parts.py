"""Whatever happens, passes over parts (and whole ones where they ask for them) write what whole passes alone would, and end where a process that
remembers nothing would (I7).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from applier.sandbox.wire import Request, Response
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.incremental.scope import WidenScope
from gitops.reconcile.set_summaries import SetSummaries
from gitops.reconcile.tally import StateCounts
from gitops.records.source_record import InstanceScopes
from renderer.identity import ObjectKey
from tests.support.link_platform import LinkPlatform
from tests.support.platform import OWN
from tests.support.properties.happenings import EVERYTHING, NAMES, PLAIN, due, happens, plain, state_of

INSTANCE_EVENTS = ["delete", "unready", "ready", "commit", "edit", "label", "delete instance"]
PLAIN_EVENTS = ["delete plain", "edit plain", "commit plain"]
Copies = Callable[[], AbstractContextManager[LinkPlatform]]
EVENTS = st.one_of(
    st.tuples(st.sampled_from(INSTANCE_EVENTS), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(PLAIN_EVENTS), st.sampled_from(PLAIN)),
)
COMMITS = st.dictionaries(
    st.sampled_from((*PLAIN, *NAMES)), st.sampled_from(["one", "two", "used", "held", "gone"]), min_size=1, max_size=5
)


@pytest.fixture(scope="module")
def settled() -> Iterator[Copies]:
    """Copies of one settled fleet."""
    with LinkPlatform(names=NAMES, plain={name: plain(name, "one") for name in PLAIN}) as fleet:
        fleet.start()
        fleet.available("web")
        fleet.step()
        yield fleet.copied


@settings(max_examples=25, deadline=None, derandomize=True)
@given(steps=st.lists(st.lists(EVENTS, min_size=1, max_size=3), min_size=1, max_size=6))
def test_parts_end_where_a_fresh_process_would(settled: Copies, steps: list[list[tuple[str, str]]]) -> None:
    with settled() as fleet:
        fleet.step()
        for events in steps:
            touched = set[ObjectKey]()
            for what, name in events:
                touched |= happens(fleet, what, name)
            look(fleet, touched)
            assert (whole := fleet.reconciler.whole)
            assert told(whole.ledger) == told(SetSummaries.of(whole.snapshot.plan))
        for _ in range(3):
            ready(fleet)
            look(fleet, EVERYTHING)
        fleet.call(fleet.reconciler.report_sources())
        before = state_of(fleet)
        fleet.restart()
        fleet.settle()
        assert state_of(fleet) == before


def told(ledger: SetSummaries) -> object:
    """What records, lists and logs make of it, as it was kept while parts went on or made from everything."""
    restless = {
        one.plan.rendered.parent: (
            one.rows,
            one.is_waiting,
            one.is_fully_applied,
            [node.node.id for node in one.restless],
        )
        for one in ledger.restless()
    }
    counts = (
        StateCounts.of_all(ledger, "platform"),
        len(ledger.of_source("platform")),
        set(ledger.definitions("platform")),
    )
    return counts, restless, ledger.scopes("platform", InstanceScopes()).text


@settings(max_examples=15, deadline=None, derandomize=True)
@given(commits=st.lists(COMMITS, min_size=1, max_size=5))
@example(commits=[{"web": "used"}, {"plain-1": "two", "web": "two"}])
@example(commits=[{"plain-0": "two", "web": "two", "a": "two"}])
def test_parts_write_what_whole_passes_would(settled: Copies, commits: list[dict[str, str]]) -> None:
    with settled() as one, settled() as other:
        written = [writes(fleet) for fleet in (one, other)]
        for fleet in (one, other):
            fleet.step()
        for commit in commits:
            for fleet in (one, other):
                declare(fleet, commit)
            look(one, due(one))
            while other.step().changed:
                pass
            for fleet in (one, other):
                ready(fleet)
            look(one, EVERYTHING)
            one.call(one.reconciler.report_sources())
            other.settle()
            assert sorted(written[0]) == sorted(written[1])
        states = [state_of(fleet, uids=False) for fleet in (one, other)]
        assert states[0] == states[1]


def declare(fleet: LinkPlatform, commit: Mapping[str, str]) -> None:
    """A commit in which these say this, or are gone."""
    instances = {name: text for name, text in commit.items() if name in NAMES}
    fleet.written = {**fleet.written, **{name: {"text": text} for name, text in instances.items()}}
    gone = {name for name, text in commit.items() if text == "gone" and name in PLAIN}
    said = {name: plain(name, text) for name, text in commit.items() if name in PLAIN}
    fleet.plain = {name: one for name, one in {**fleet.plain, **said}.items() if name not in gone}
    fleet.push()
    fleet.put(f"{OWN}/source-platform", approved=fleet.state.catalog.commit)


def writes(fleet: LinkPlatform) -> list[str]:
    """What is written of members from here on, uids left out."""
    found: list[str] = []

    async def logged(request: Request) -> Response:
        if request.method != "GET" and "/status" not in request.target and "/default/" in request.target:
            body = json.loads(request.body or b"{}") if request.method != "DELETE" else {}
            body.get("metadata", {}).pop("uid", None)
            found.append(f"{request.method} {request.target} {json.dumps(body, sort_keys=True)}")
        return fleet.sandbox.handle(request)

    fleet.sandbox.answer = logged  # type: ignore[method-assign]
    return found


def ready(fleet: LinkPlatform) -> None:
    for name in fleet.deployed_names():
        fleet.available(name)


def look(fleet: LinkPlatform, keys: Collection[ObjectKey]) -> None:
    """As the daemon does: each object until nothing changes; everything, where a part is not enough."""
    for _ in range(12):
        found = fleet.call(fleet.reconciler.reconcile_roots(sorted(keys)))
        if isinstance(found, ReconcileResult) and not found.changed:
            return
        if isinstance(found, WidenScope) and not fleet.step().changed:
            return
    raise AssertionError("it does not come to rest")

"""What one change costs does not grow with what has not changed: counted in lines of this program that are run, the sandbox's aside."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gitops.queries import QueryGraph
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.notable_changes import news
from gitops.reconcile.tally import StateCounts
from renderer.catalog.catalog import with_changed_files
from renderer.identity import ObjectKey
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.traces import run_under

ROOT = Path(__file__).resolve().parents[3]
OURS = tuple(f"{ROOT / name}/" for name in ("gitops", "applier", "renderer"))
SANDBOX = f"{ROOT}/applier/sandbox/"
FEW, MANY = 10, 20
"""Numbers of instances, and of plain objects."""

SCANS_PER_OBJECT = 4
"""Inputs of wide queries, such as the order of a source, through which the graph looks for one that has changed."""

Lines = Counter[tuple[str, int]]


def is_of_server(frame: FrameType | None) -> bool:
    """Whether the sandbox runs it, or what it calls."""
    while frame and not frame.f_code.co_filename.startswith(SANDBOX):
        frame = frame.f_back
    return frame is not None


def run_by(act: Callable[[], object]) -> Lines:
    """How often each line was run."""
    found: Lines = Counter()

    def local(frame: FrameType, event: str, _: Any) -> Any:
        found[frame.f_code.co_filename.removeprefix(str(ROOT)), frame.f_lineno] += event == "line"
        return local

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        is_ours = frame.f_code.co_filename.startswith(OURS) and not is_of_server(frame)
        return local(frame, event, argument) if is_ours else None

    run_under(trace, act)
    return found


def declared(kind: str, number: int, text: str) -> dict[str, Any]:
    if kind == "Link":
        metadata = {"name": f"i{number:03}", "namespace": "default"}
        return {"apiVersion": f"{GROUP}/v1", "kind": "Link", "metadata": metadata, "spec": {"text": text}}
    metadata = {"name": f"p{number:03}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


def brought_about(fleet: LinkPlatform, manifest: Mapping[str, Any]) -> None:
    """A commit that changes this file, from the bytes that Git gives to the record of the source, with what is logged and counted."""
    key = ObjectKey.from_manifest(manifest)
    assert fleet.catalog
    later = with_changed_files(fleet.catalog, {f"{key.name}.json": json.dumps(manifest).encode()}, fleet.committed({}))
    assert later
    fleet.catalog = later
    assert fleet.reconciler.accept([fleet.state]) == frozenset({key})
    found = fleet.call(fleet.reconciler.reconcile_roots([key]))
    assert isinstance(found, ReconcileResult)
    assert found.changed
    assert list(news(None, found)) == []
    assert str(StateCounts.of_all(found.ledger)).startswith("settled ")
    fleet.call(fleet.reconciler.report_sources())


@pytest.mark.parametrize("kind", ["Link", "ConfigMap"])
def test_one_change_costs_as_much_among_few_as_among_many(kind: str) -> None:
    """S4-7, S4-11: nothing is compared, copied or told object by object but what has changed."""
    costs = []
    for size in (FEW, MANY):
        names = tuple(f"i{number:03}" for number in range(size))
        plain = {f"p{number:03}": declared("ConfigMap", number, "one") for number in range(size)}
        with LinkPlatform(names=names, plain=plain) as fleet:
            fleet.start()
            fleet.step()
            brought_about(fleet, declared(kind, 0, "two"))  # what is made once is made here
            costs.append(run_by(partial(brought_about, fleet, declared(kind, 0, "three"))))
    few, many = costs
    assert sum(few.values()) > 1_000
    more = {at: count for at, count in (many - few).items() if count >= MANY - FEW}
    lines, first = inspect.getsourcelines(QueryGraph._first_marked)
    scans = {
        at: more.pop(at)
        for at in [("/gitops/queries/graph.py", first + line) for line in range(len(lines))]
        if at in more
    }
    assert more == {}
    assert max(scans.values(), default=0) <= SCANS_PER_OBJECT * 2 * (MANY - FEW)

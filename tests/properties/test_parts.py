"""Whatever happens, passes over parts (and whole ones where they ask for them) end where a process that remembers nothing would (I7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitops.passes.known import Pass
from gitops.passes.parts import Wider
from renderer.identity import ObjectKey
from tests.gitops.fleet import GROUP, Fleet

NAMES = ("a", "b", "c")
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LINKS = f"/apis/{GROUP}/v1/namespaces/default/links"
EVENTS = st.tuples(
    st.sampled_from(["delete", "unready", "ready", "commit", "edit", "label", "delete instance"]),
    st.sampled_from(NAMES),
)


@pytest.fixture(scope="module")
def settled() -> Iterator[Fleet]:
    with Fleet(names=NAMES) as fleet:
        fleet.start()
        yield fleet


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.lists(EVENTS, min_size=1, max_size=3), min_size=1, max_size=6))
def test_parts_end_where_a_fresh_process_would(settled: Fleet, steps: list[list[tuple[str, str]]]) -> None:
    with settled.copied() as fleet:
        fleet.step()
        for events in steps:
            touched = set[str]()
            for what, name in events:
                touched |= happens(fleet, what, name)
            look(fleet, sorted(touched))
        for _ in range(3):
            fleet.ready(*NAMES)
            look(fleet, NAMES)
        fleet.call(fleet.reconciler.tell())
        before = state_of(fleet)
        fleet.restart()
        while fleet.step().changed:
            pass
        assert state_of(fleet) == before


def happens(fleet: Fleet, what: str, name: str) -> set[str]:
    """What somebody does; answers which instances it concerns."""
    match what:
        case "delete":
            listed = fleet.request("GET", CONFIG_MAPS)["items"]
            if any(one["metadata"]["name"] == f"{name}-app" for one in listed):
                fleet.request("DELETE", f"{CONFIG_MAPS}/{name}-app")
        case "unready" | "ready":
            fleet.ready(name, ready=what == "ready")
        case "commit":
            fleet.written = {**fleet.written, name: {"text": f"text {fleet.commits}"}}
            fleet.push()
            changed = fleet.reconciler.accept([fleet.state])
            return set(NAMES) if isinstance(changed, Wider) else {key.name for key in changed}
        case "edit":
            merge = "application/merge-patch+json"
            fleet.request("PATCH", f"{LINKS}/{name}?fieldManager=kubectl-edit", {"spec": {"text": "by hand"}}, merge)
        case "label":
            fleet.annotate(name, priority="5")
        case "delete instance":
            fleet.request("DELETE", f"{LINKS}/{name}")
    return {name}


def look(fleet: Fleet, names: tuple[str, ...] | list[str]) -> None:
    """As the daemon does: each instance until nothing changes; everything, where a part is not enough."""
    for _ in range(12):
        found = fleet.call(fleet.reconciler.part([ObjectKey(GROUP, "Link", "default", name) for name in names]))
        if isinstance(found, Pass) and not found.changed:
            return
        if isinstance(found, Wider) and not fleet.step().changed:
            return
    raise AssertionError("it does not come to rest")


def state_of(fleet: Fleet) -> dict[str, object]:
    """Everything that is written of the fleet, but for what the server counts and when it was."""
    found: dict[str, object] = {}
    for path in (LINKS, CONFIG_MAPS, "/apis/apps/v1/namespaces/default/deployments"):
        for one in fleet.request("GET", path)["items"]:
            metadata = {name: one["metadata"].get(name) for name in ("labels", "annotations", "finalizers", "uid")}
            body = {name: value for name, value in one.items() if name != "metadata"}
            found[f"{path}/{one['metadata']['name']}"] = (metadata, body)
    own = "/api/v1/namespaces/levelgate-system/configmaps"
    for one in fleet.request("GET", own)["items"]:
        data = dict(one.get("data") or {})
        data.pop("passes", None)
        found[f"{own}/{one['metadata']['name']}"] = data
    return found

"""Jobs that their TTL removes, on a clock of the test's own: when one runs again, and when it counts as done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from applier.applyset.completed_jobs import MAX_COMPLETIONS, TTL_TOLERANCE
from gitops.reconcile.tally import StateCounts
from gitops.records.display_state import DisplayState
from renderer import well_known
from tests.support.clock import START
from tests.support.link_platform import GROUP, LinkPlatform
from tests.support.platform import MERGE, Died

TTL = timedelta(minutes=10)
JOBS = "/apis/batch/v1/namespaces/default/jobs"
INSTANCE = f"/apis/{GROUP}/v1/namespaces/default/links/a"
SPEC = {
    "ttlSecondsAfterFinished": int(TTL.total_seconds()),
    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "IMAGE"}]}},
}
JOB = {
    "id": "job",
    "template": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "migrate", "annotations": {"levelgate.dev/replace": "allowed"}},
        "spec": SPEC,
    },
}
AFTER: dict[str, Any] = {
    "id": "then",
    "template": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "then-${job.metadata.name}"},
        "data": {},
    },
}


@pytest.fixture
def fleet() -> Iterator[LinkPlatform]:
    """One instance with a Job that runs."""
    with LinkPlatform(names=("a",), gates=[], more=[JOB, AFTER]) as found:
        found.push()
        for _ in range(5):
            found.step()
            found.ready(*found.at("one"))
        yield found


def jobs(fleet: LinkPlatform) -> list[str]:
    """The images of all Jobs."""
    items = fleet.request("GET", JOBS)["items"]
    return [one["spec"]["template"]["spec"]["containers"][0]["image"] for one in items]


def ends(fleet: LinkPlatform, kind: str = "Complete") -> None:
    """What the Job controller says at the end."""
    now = fleet.clock.moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    start = START.strftime("%Y-%m-%dT%H:%M:%SZ")
    met = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
    told = [{"type": one, "status": "True", "lastTransitionTime": now, "lastProbeTime": now} for one in (met, kind)]
    counts = {"succeeded": 1, "completionTime": now} if kind == "Complete" else {"failed": 1}
    status = {"startTime": start, "conditions": told, **counts}
    fleet.request("PATCH", f"{JOBS}/migrate/status", {"status": status}, MERGE)


def removed(fleet: LinkPlatform) -> None:
    fleet.request("DELETE", f"{JOBS}/migrate", {"propagationPolicy": "Background"})
    assert not jobs(fleet)


def recorded(fleet: LinkPlatform) -> str:
    found: str = fleet.request("GET", INSTANCE)["metadata"]["annotations"].get(well_known.COMPLETED, "")
    return found


def is_settled(fleet: LinkPlatform) -> bool:
    conditions = {one["type"]: one["status"] for one in fleet.status("a")["conditions"]}
    return all(conditions[kind] == "True" for kind in ("Ready", "Healthy", "Propagated"))


def test_a_job_that_its_ttl_removes_counts_as_done(fleet: LinkPlatform) -> None:
    """Health: its TTL may remove it, then it counts as Current; a new process knows it, too, and nothing is written any more."""
    ends(fleet)
    fleet.step(timedelta(seconds=5))
    assert recorded(fleet)
    assert is_settled(fleet)
    removed(fleet)
    fleet.step(TTL)
    assert (jobs(fleet), is_settled(fleet)) == ([], True)
    fleet.restart()
    fleet.step()
    before = fleet.writes
    for _ in range(3):
        assert StateCounts.of_all(fleet.step().ledger) == StateCounts({DisplayState.SETTLED: 2})
    assert (jobs(fleet), fleet.writes) == ([], before)


def test_what_depends_on_it_is_fully_applied_when_it_is_gone(fleet: LinkPlatform) -> None:
    ends(fleet)
    fleet.step(timedelta(seconds=5))
    removed(fleet)
    path = "/api/v1/namespaces/default/configmaps/then-migrate"
    fleet.request("DELETE", path)
    fleet.step(TTL)
    assert fleet.request("GET", path)["metadata"]["name"] == "then-migrate"
    assert not jobs(fleet)


def test_another_intent_runs_again(fleet: LinkPlatform) -> None:
    """And the record of the first is forgotten, so that going back runs the first once more."""
    ends(fleet)
    fleet.step(timedelta(seconds=5))
    removed(fleet)
    fleet.step(TTL)
    for image in ("two", "one"):
        fleet.push(image)
        for _ in range(3):
            fleet.step()
            fleet.ready(*fleet.at(fleet.image))
        assert (jobs(fleet), recorded(fleet)) == ([image], "")
        ends(fleet)
        fleet.step(timedelta(seconds=5))
        assert recorded(fleet)
        removed(fleet)
        fleet.step(TTL)
        assert not jobs(fleet)


def test_a_job_that_somebody_deletes_runs_again(fleet: LinkPlatform) -> None:
    """While it runs that is drift; and when it has completed, long before its TTL ends, nobody else can have done it."""
    removed(fleet)
    fleet.step()
    assert jobs(fleet) == ["one"]
    ends(fleet)
    fleet.step(timedelta(seconds=5))
    removed(fleet)
    fleet.step(TTL - TTL_TOLERANCE - timedelta(seconds=10))
    assert (jobs(fleet), recorded(fleet)) == (["one"], "")
    removed(fleet)
    fleet.step(TTL)
    assert jobs(fleet) == ["one"]


def test_a_job_that_failed_runs_again_once_it_is_gone(fleet: LinkPlatform) -> None:
    ends(fleet, "Failed")
    fleet.step(timedelta(seconds=5))
    assert (recorded(fleet), is_settled(fleet)) == ("", False)
    removed(fleet)
    fleet.step(TTL)
    assert jobs(fleet) == ["one"]


def test_a_job_is_done_while_its_ttl_removes_it(fleet: LinkPlatform) -> None:
    """The TTL controller deletes in the foreground, so that a Job with a TTL of zero can be seen complete on its way."""
    fleet.request("PATCH", f"{JOBS}/migrate", {"metadata": {"finalizers": ["foregroundDeletion"]}}, MERGE)
    fleet.request("PATCH", f"{JOBS}/migrate", {"spec": {"ttlSecondsAfterFinished": 0}}, MERGE)
    ends(fleet)
    fleet.request("DELETE", f"{JOBS}/migrate")
    fleet.step()
    assert recorded(fleet)
    fleet.request("PATCH", f"{JOBS}/migrate", {"metadata": {"finalizers": []}}, MERGE)
    fleet.step()
    assert (jobs(fleet), is_settled(fleet)) == ([], True)


def test_a_job_of_the_applied_revision_is_not_missed_while_the_next_waits(fleet: LinkPlatform) -> None:
    """A change that only waits turns nothing false; once it may move, the Job runs as the new revision has it."""
    ends(fleet)
    fleet.step(timedelta(seconds=5))
    removed(fleet)
    fleet.step(TTL)
    fleet.gates = ["${false}"]
    fleet.push("two")
    for _ in range(2):
        fleet.step()
    conditions = {one["type"]: one["status"] for one in fleet.status("a")["conditions"]}
    assert (conditions["Ready"], conditions["Healthy"], jobs(fleet)) == ("True", "True", [])
    fleet.gates = []
    fleet.push()
    for _ in range(3):
        fleet.step()
        fleet.ready(*fleet.at(fleet.image))
    assert jobs(fleet) == ["two"]


@pytest.mark.parametrize("is_late", [False, True])
def test_killed_at_any_write_it_is_not_run_twice(fleet: LinkPlatform, is_late: bool) -> None:
    """I5, I7: before or after each write of the pass that sees the Job complete; as long as the Job can be seen by the next process."""
    ends(fleet)
    for number in range(20):
        with fleet.copied() as other:
            other.push()
            other.dies_at = (other.writes + number, is_late)
            try:
                other.step(timedelta(seconds=5))
            except Died:
                other.dies_at = None
                other.restart()
                other.step()
                removed(other)
                other.step(TTL)
                assert not jobs(other)
                continue
        break
    assert number > 0


def test_a_plain_job_is_recorded_with_its_source(fleet: LinkPlatform) -> None:
    metadata = {"name": "migrate", "namespace": "default"}
    fleet.names, fleet.more = (), []
    spec = json.loads(json.dumps(SPEC).replace("IMAGE", "plain"))
    fleet.plain = {"job": {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}}
    with LinkPlatform(names=(), plain=fleet.plain) as other:
        other.push()
        other.step()
        ends(other)
        other.step(timedelta(seconds=5))
        removed(other)
        other.step(TTL)
        other.step()
        assert not jobs(other)
        other.plain = {}
        other.push()
        other.step()
        assert well_known.COMPLETED not in other.request("GET", other.record_path())["metadata"]["annotations"]


def test_what_is_recorded_has_an_end() -> None:
    """All annotations of an object together may have 262,144 bytes."""
    assert MAX_COMPLETIONS * 46 < 262_144 / 2

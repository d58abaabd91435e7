"""The record of completed Jobs on their parent; `tests/gitops/test_completed_jobs.py` has its effects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from applier.applyset.completed_jobs import JOB, TTL_TOLERANCE, completion_of, completions, is_completed
from applier.cluster import Object
from renderer import well_known
from renderer.identity import ObjectKey, key_hash
from renderer.render.model import RenderedNode

KEY = ObjectKey("batch", "Job", "default", "migrate")
END = datetime(2026, 1, 1, 12, tzinfo=UTC)


def job(image: str = "one") -> RenderedNode:
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"}, "spec": {"image": image}}
    return RenderedNode("job", 0, (), JOB, manifest, KEY)


def parent(record: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {well_known.COMPLETED: record}}}


RECORDED = parent(f"{key_hash(KEY)}:{job().hash[:16]}:{int(END.timestamp())}")


def is_job_completed(node: RenderedNode, live: Object | None, now: datetime) -> bool:
    return is_completed(node, live, completion_of(node, RECORDED), now)


def test_a_job_that_is_gone_counts_as_completed_for_its_manifest_alone() -> None:
    assert is_job_completed(job(), None, END)
    assert not is_job_completed(job("two"), None, END)
    assert not is_job_completed(job(), {"metadata": {}}, END)


def test_a_job_that_was_deleted_before_its_ttl_runs_again() -> None:
    assert is_job_completed(job(), None, END - TTL_TOLERANCE)
    assert not is_job_completed(job(), None, END - TTL_TOLERANCE - timedelta(seconds=1))


def test_malformed_records_are_ignored() -> None:
    assert completions(parent("a:b,:,x:y:z,a:b:99999999999999,")) == {}
    assert completions(None) == {}

"""Requests to look now: an annotation on the record of a source, or on an instance, with any new value.

A request opens no gate. It is answered once the server has been asked where the source stands and a pass has gone over it: the record, or the status
of the instance, then echoes the value. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from applier.cluster import Object
from applier.plan.model import ApplySetPlan
from applier.state.observed import annotation
from gitops.records.source_record import SourceRecord
from renderer import well_known
from renderer.identity import SOURCE_PREFIX, ObjectKey
from renderer.levelgate_status import LevelgateStatus

SyncRequests = dict[str, dict[ObjectKey, str]]
"""By source, what is asked on which object."""


def find_sync_requests(sets: Iterable[ApplySetPlan]) -> SyncRequests:
    """Those that are not answered yet."""
    pending: SyncRequests = {}
    for set_plan in sets:
        value = annotation(set_plan.parent, well_known.SYNC_REQUESTED_AT) if set_plan.parent else ""
        if set_plan.parent and value and value != last_answered_request(set_plan.parent):
            pending.setdefault(set_plan.rendered.source, {})[set_plan.rendered.parent] = value
    return pending


def last_answered_request(obj: Object) -> str:
    """The last request that was answered, on the record of a source or on an instance; empty where there was none."""
    is_record = obj["kind"] == "ConfigMap" and obj["metadata"]["name"].startswith(SOURCE_PREFIX)
    return SourceRecord.from_object(obj).synced if is_record else LevelgateStatus.from_instance(obj).synced

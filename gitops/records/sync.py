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

Requests = dict[str, dict[ObjectKey, str]]
"""By source, what is asked on which object."""


def requests(sets: Iterable[ApplySetPlan]) -> Requests:
    """Those that are not answered yet."""
    found: Requests = {}
    for one in sets:
        said = annotation(one.parent, well_known.SYNC) if one.parent else ""
        if one.parent and said and said != last_answered(one.parent):
            found.setdefault(one.rendered.source, {})[one.rendered.parent] = said
    return found


def last_answered(obj: Object) -> str:
    """The last request that was answered, on the record of a source or on an instance; empty where there was none."""
    is_record = obj["kind"] == "ConfigMap" and obj["metadata"]["name"].startswith(SOURCE_PREFIX)
    return SourceRecord.read(obj).synced if is_record else LevelgateStatus.of(obj).synced

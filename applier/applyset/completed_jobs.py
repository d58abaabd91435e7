"""Completed Jobs that their TTL removed, and that still count as applied (KEP-592).

A completion is visible only while the Job exists, so Levelgate records the completion on the parent of the set. The
record contains the hash of the Job's manifest, because a Job with another manifest has to run again. The record lists
only Jobs that Git still wants, so that the record never outgrows the set. The record lists no failed Job, because
Levelgate creates a failed Job again after its removal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from applier.cluster import Object
from applier.state.observed import annotation, is_terminating, label, number
from applier.state.observed_view import ObservedView
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey, key_hash
from renderer.manifest_hash import is_written_from
from renderer.render.model import RenderedApplySet, RenderedNode

JOB: Final = GroupKind("batch", "Job")

TTL_TOLERANCE: Final = timedelta(minutes=1)
"""Tolerance for clock differences. A completed Job may disappear this long before the end of its TTL. If the Job
disappears earlier, a person deleted the Job in order to run it again.
"""

MAX_COMPLETIONS: Final = 2000
"""Maximum number of completions on one parent. A completion has about 45 bytes, and the annotations of an object may
have 262,144 bytes in total.
"""

_HASH_DIGITS: Final = 16
"""Number of leading digits of the manifest hash that identify the manifest of a Job."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Record of the completion of a Job, on the parent of the Job's set."""

    hash: str
    """Leading digits of the hash of the Job's manifest."""
    until: datetime
    """Earliest time at which the TTL may remove the Job."""

    def covers(self, node: RenderedNode, now: datetime | None) -> bool:
        """Return whether this completion belongs to the Job of `node`, and the Job may be absent at `now`.

        If `now` is None, do not check the time.
        """
        return self.hash == node.hash[:_HASH_DIGITS] and not (now and now + TTL_TOLERANCE < self.until)


def completions(parent: Object | None) -> Mapping[str, Completion]:
    """Return the completions that `parent` records, by the hash of the Job's key. Ignore malformed entries."""
    return _parse_completions(annotation(parent, well_known.COMPLETED)) if parent else {}


def completion_of(node: RenderedNode, parent: Object | None) -> Completion | None:
    """Return the completion of the Job of `node` that `parent` records, or None. Only a Job has a completion."""
    return completions(parent).get(key_hash(node.key)) if node.key and node.group_kind == JOB else None


def is_completed(node: RenderedNode, live: Object | None, completion: Completion | None, now: datetime | None) -> bool:
    """Return whether the Job of `node` completed, by its recorded `completion`, and is now gone or being deleted."""
    if completion is None or (live is not None and not is_terminating(live)):
        return False
    return completion.covers(node, now)


def completion_record(rendered: RenderedApplySet, observed: ObservedView, *, is_partial: bool) -> str:
    """Return the completions that the parent of `rendered` has to record now.

    If `rendered` is partial, or contains a Job that cannot be rendered, the recorded completions of unknown Jobs stay.

    Args:
        is_partial: true if `rendered` contains only a part of its nodes.
    """
    parent = observed.objects.get(rendered.parent)
    recorded = completions(parent)
    nodes = (*rendered.nodes, *(rendered.applied_rendering.nodes if rendered.applied_rendering else ()))
    jobs = [node for node in nodes if node.group_kind == JOB and not node.external]
    if not jobs and not recorded:
        return ""
    decided: dict[str, Completion | None] = {}
    for node in jobs:
        if node.key and node.writable:
            name = key_hash(node.key)
            decided[name] = decided.get(name) or _completion_of(
                node, node.key, observed, recorded.get(name), rendered.id
            )
    unchanged = recorded if is_partial or any(not (node.key and node.writable) for node in jobs) else {}
    entries = {name: completion for name, completion in {**unchanged, **decided}.items() if completion}
    kept_names = sorted(entries, key=lambda name: (name not in recorded, name))[:MAX_COMPLETIONS]
    return ",".join(
        f"{name}:{entries[name].hash}:{int(entries[name].until.timestamp())}" for name in sorted(kept_names)
    )


def _completion_of(
    node: RenderedNode, key: ObjectKey, observed: ObservedView, recorded: Completion | None, set_id: str
) -> Completion | None:
    live = observed.objects.get(key)
    if live is None:
        return recorded if recorded and recorded.covers(node, observed.now) else None
    if (
        label(live, well_known.PART_OF) != set_id
        or not is_written_from(live, node.manifest, node.hash)
        or node.ready.verdict is False
    ):
        return None
    ttl = (live.get("spec") or {}).get("ttlSecondsAfterFinished")
    completed_at = next(_completion_times(live), None)
    if not isinstance(ttl, int) or completed_at is None:
        return None
    return Completion(node.hash[:_HASH_DIGITS], completed_at + timedelta(seconds=ttl))


def _completion_times(job: Object) -> Iterator[datetime]:
    """Yield the times at which `job` completed. The first time is the start of the TTL."""
    conditions: Iterable[Mapping[str, str]] = (job.get("status") or {}).get("conditions") or ()
    for condition in conditions:
        if (
            condition.get("type") == "Complete"
            and condition.get("status") == "True"
            and (transition_time := condition.get("lastTransitionTime"))
        ):
            yield datetime.fromisoformat(transition_time)


@lru_cache(maxsize=1024)
def _parse_completions(text: str) -> Mapping[str, Completion]:
    parsed: dict[str, Completion] = {}
    for entry in filter(None, text.split(",")):
        match entry.split(":"):
            case [name, intent, until] if (seconds := number(until)) is not None and seconds < _MAX_TIMESTAMP_SECONDS:
                parsed[name] = Completion(intent, datetime.fromtimestamp(seconds, UTC))
    return parsed


_MAX_TIMESTAMP_SECONDS: Final = 253_402_300_800
"""First second of the year 10000 in UTC, as a Unix time. Python's datetime ends before that second."""

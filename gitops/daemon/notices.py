"""What people are told of passes, each time that it changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from gitops.reconcile.context import ReconcileResult
from renderer.frozen import dataclass


@dataclass(slots=True)
class NoticeFilter:
    """What was told last: why everything is stopped, and why nothing of a source is written."""

    _stopped: str = ""
    _stays: Mapping[str, str] = field(default_factory=dict)

    def of(self, found: ReconcileResult) -> Iterator[tuple[str, str]]:
        """What is new with this pass, each with the source, or the cluster, that it is about."""
        stopped = found.propagation.stopped.message if found.propagation.stopped else ""
        if stopped != self._stopped:
            yield "cluster", stopped or "no longer suspended"
        self._stopped = stopped
        sources = [one.rendered.source for one in found.sets if one.rendered.is_source]
        stays = {
            one.rendered.source: one.error.message
            for one in found.sets
            if one.rendered.is_source and one.error and not (stopped or one.error.reason.is_hold)
        }
        if found.touched is not None:
            stays |= {source: why for source, why in self._stays.items() if source not in sources}
        before, self._stays = self._stays, stays
        yield from ((source, why) for source, why in stays.items() if before.get(source) != why)
        for name in found.miscounted:
            yield "cluster", f"rollout {name} was counted wrong and has been counted anew; please report this"

"""Notices about the results of reconciliations, without repetition of an unchanged notice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from gitops.reconcile.context import ReconcileResult
from renderer.frozen import dataclass


@dataclass(slots=True)
class NoticeFilter:
    """Memory of the last notices: the suspension, errors of sources, and objects left behind."""

    _last_suspension: str = ""
    _last_left_behind: Mapping[str, str] = field(default_factory=dict)
    _last_messages: Mapping[str, str] = field(default_factory=dict)

    def collect_notices(self, result: ReconcileResult) -> Iterator[tuple[str, str]]:
        """Yield the new notices of a reconciliation, as (subject, text). The subject is a source, or `cluster`."""
        suspension = result.propagation.stopped.message if result.propagation.stopped else ""
        if suspension != self._last_suspension:
            yield "cluster", suspension or "no longer suspended"
        self._last_suspension = suspension
        sources = [set_plan.rendered.source for set_plan in result.sets if set_plan.rendered.is_source]
        messages = {
            set_plan.rendered.source: set_plan.error.message
            for set_plan in result.sets
            if set_plan.rendered.is_source and set_plan.error and not (suspension or set_plan.error.reason.is_hold)
        }
        if result.touched is not None:  # a partial reconciliation has no result for some sources
            messages |= {source: message for source, message in self._last_messages.items() if source not in sources}
        previous_messages, self._last_messages = self._last_messages, messages
        yield from (
            (source, message) for source, message in messages.items() if previous_messages.get(source) != message
        )
        if result.touched is None:
            left_behind = {source: left.cause.message for source, left in result.left_behind.items() if left.count}
            previous, self._last_left_behind = self._last_left_behind, left_behind
            yield from ((source, text) for source, text in left_behind.items() if previous.get(source) != text)
        for rollout in result.miscounted:
            yield "cluster", f"corrected a wrong count of rollout {rollout}; report the fault with the log"

"""Summaries of the sources of one cluster after a reconciliation, for the hub's record of the cluster."""

from __future__ import annotations

from gitops.fleet.cluster_record import SourceSummary
from gitops.reconcile.context import ReconcileResult
from gitops.reconcile.tally import StateCounts
from gitops.records.display_state import DisplayState


def summarize_sources(result: ReconcileResult) -> dict[str, SourceSummary]:
    """Return the summary of each source of a reconciliation, by name. Omit a source without an ApplySet."""
    summaries = {}
    for state in result.sources:
        source = state.catalog.source
        tally = StateCounts.of_all(result.ledger, source)
        instances = [
            key for key in result.ledger.of_source(source) if not result.ledger.accounts[key].plan.rendered.is_source
        ]
        if not (instances or result.ledger.of_source(source)):
            continue
        causes = [cause for summary in result.ledger.restless(source) for cause in summary.rows]
        worst = min(causes, key=lambda cause: DisplayState.from_reason(cause.reason).rank, default=None)
        summaries[source] = SourceSummary(
            commit=state.catalog.commit,
            state=str(tally.state),
            instances=len(instances),
            failed=tally.by_state.get(DisplayState.FAILED, 0),
            waits_for=f"{worst.reason}: {worst.message}" if worst else "",
            until=tally.until,
        )
    return summaries

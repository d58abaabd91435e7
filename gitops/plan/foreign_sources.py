"""Facts about a plan's objects from the records of other sources in the cluster: claims, and definitions of kinds.

A claim is an object that a source declares while a set of another source still owns the object. A plan knows a claim
only after a reconciliation has recorded the claim. A record has room for a limited number of claims.
"""

from __future__ import annotations

from collections.abc import Mapping

from gitops.plan.report import PlannedAction, PlannedChange, PlanWarning, WarningKind
from gitops.reconcile.preview import Preview
from gitops.records.source_record import MAX_LISTED_OBJECTS
from renderer.frozen import dataclass
from renderer.identity import GroupKind, ObjectKey
from renderer.phrasing import join_names


@dataclass(frozen=True, slots=True)
class ForeignSources:
    """Facts about a plan's objects, from the records of other sources."""

    hidden_kinds: Mapping[GroupKind, str]
    """Name of the source, by each kind that another source defines and that has no readable revision."""

    claims: Mapping[ObjectKey, str]
    """Claimed objects, each with the name of the source that waits to take the object over."""

    incomplete_sources: tuple[str, ...]
    """Sources whose records lack room for all claims."""

    @classmethod
    def from_preview(cls, preview: Preview) -> ForeignSources:
        """Return the claims and definitions from the records of all other sources that the preview read."""
        records, rendering = preview.neighbours, preview.due.bundle
        return cls(
            {
                kind: name
                for kind, name in rendering.owners.items()
                if name in records and kind not in rendering.definitions
            },
            {key: name for name in sorted(records) for key in records[name].claims},
            tuple(name for name in sorted(records) if len(records[name].claims) >= MAX_LISTED_OBJECTS),
        )

    def handover_warnings(self, changes: tuple[PlannedChange, ...]) -> tuple[PlanWarning, ...]:
        """Return a warning if the plan may show objects as deleted although Levelgate hands them over."""
        if not self.incomplete_sources or all(change.action is not PlannedAction.DELETE for change in changes):
            return ()
        message = (
            f"source {join_names(self.incomplete_sources)} may want objects that are shown as deleted here, "
            "because its record lacks some claims; Levelgate hands claimed objects over and does not delete them"
        )
        return (PlanWarning(WarningKind.NOT_COMPARED, message),)
